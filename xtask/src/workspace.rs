//! The workspace as Cargo sees it: where it is, where it builds, which packages depend on which.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{
    command,
    failure::{Failure, Result},
};

/// What `cargo metadata` tells, paths relative to the root.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The package's directory, relative to the root.
    pub(crate) dir: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) purpose: Purpose,
}

/// What a dependency is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Product,
    Tests,
}

#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// The root file, relative to the workspace's root.
    pub(crate) file: PathBuf,
}

impl Workspace {
    /// Asks Cargo about the workspace that this task belongs to. Touches neither network nor lock file.
    pub(crate) fn read() -> Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let Some(root) = here.parent() else {
            return Err(Failure::new(format!("{} has no directory above it", here.display())));
        };
        let mut cargo = command::cargo(root);
        cargo.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
        Self::parse(&command::output(&mut cargo)?)
    }

    fn parse(json: &str) -> Result<Self> {
        let document: Document = serde_json::from_str(json)
            .map_err(|error| Failure::new(format!("`cargo metadata` printed something else: {error}")))?;
        let root = document.workspace_root;
        let relative = |path: &Path| path.strip_prefix(&root).unwrap_or(path).to_path_buf();
        let packages = document
            .packages
            .into_iter()
            .map(|package| Package {
                dir: package.manifest_path.parent().map(relative).unwrap_or_default(),
                name: package.name,
                dependencies: package.dependencies.into_iter().map(Dependency::from).collect(),
                targets: package
                    .targets
                    .into_iter()
                    .map(|target| Target {
                        file: relative(&target.src_path),
                        kind: target.kind.into_iter().next().unwrap_or_default(),
                        name: target.name,
                    })
                    .collect(),
            })
            .collect();
        Ok(Self { target: document.target_directory, packages, root })
    }

    /// The target of that kind and name, wherever in the workspace it is.
    pub(crate) fn target(&self, kind: &str, name: &str) -> Option<&Target> {
        self.packages.iter().flat_map(|p| &p.targets).find(|t| t.kind == kind && t.name == name)
    }
}

impl From<DependencyDocument> for Dependency {
    fn from(document: DependencyDocument) -> Self {
        let purpose = if document.kind.as_deref() == Some("dev") { Purpose::Tests } else { Purpose::Product };
        Self { name: document.name, purpose }
    }
}

#[derive(Deserialize)]
struct Document {
    packages: Vec<PackageDocument>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct PackageDocument {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<DependencyDocument>,
    targets: Vec<TargetDocument>,
}

#[derive(Deserialize)]
struct DependencyDocument {
    name: String,
    kind: Option<String>,
}

#[derive(Deserialize)]
struct TargetDocument {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}
