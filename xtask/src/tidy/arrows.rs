//! Which crate may know which. Leaves do not know each other; only the binaries know everything.

use super::{Fault, code, tree::Tree};
use crate::workspace::{Package, Purpose};

/// What a crate of the workspace may use of the workspace in what it ships.
enum MayUse {
    Only(&'static [&'static str]),
    Everything,
}

const ARROWS: &[(&str, MayUse)] = &[
    ("myriarch-policy", MayUse::Only(&[])),
    ("myriarch-verify", MayUse::Only(&[])),
    ("myriarch-store", MayUse::Only(&["myriarch-verify"])),
    ("myriarch-fetch", MayUse::Only(&["myriarch-verify"])),
    ("myriarch-probe", MayUse::Only(&[])),
    ("myriarch-supervise", MayUse::Only(&[])),
    ("myriarch-systemd", MayUse::Only(&[])),
    (
        "myriarch-update",
        MayUse::Only(&["myriarch-policy", "myriarch-verify", "myriarch-store", "myriarch-probe"]),
    ),
    // The configuration speaks of versions, trust rules and units; the words are theirs, the order of steps is not its business.
    (
        "myriarch-cli",
        MayUse::Only(&["myriarch-update", "myriarch-policy", "myriarch-verify", "myriarch-systemd"]),
    ),
    ("myriarch-updater", MayUse::Everything),
    ("myriarch-tests", MayUse::Everything),
    ("xtask", MayUse::Only(&[])),
];

/// What nothing that is shipped may depend on; the kit is there for everybody's tests.
const KIT: &str = "myriarch-tests";

/// Of `verify`, the crates below the chain know the digest and nothing else.
const DIGEST_ONLY: &[&str] = &["crates/store/", "crates/fetch/"];
const DIGEST_WORDS: &[&str] = &["Digest", "Hasher", "ParseDigestError"];

pub(crate) fn check(packages: &[Package]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in packages {
        let Some((_, may_use)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            faults.push(Fault::new(
                &*package.name,
                "is in no arrow of the design; draw it in xtask/src/tidy/arrows.rs",
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let ours = packages.iter().any(|other| other.name == name);
            let allowed = match may_use {
                MayUse::Everything => name != KIT,
                MayUse::Only(few) => few.contains(&name),
            };
            if ours && !allowed && dependency.purpose == Purpose::Product {
                faults.push(Fault::new(&*package.name, format!("must not use {name}")));
            }
        }
    }
    faults
}

pub(crate) fn check_digest_edges(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.product().filter(|(path, _)| DIGEST_ONLY.iter().any(|dir| path.starts_with(dir)))
    {
        let code = code::shipped(text);
        for (at, _) in code.match_indices("myriarch_verify::") {
            let rest = &code[at + "myriarch_verify::".len()..];
            let end = if rest.starts_with('{') { rest.find('}') } else { rest.find(|c: char| !is_name(c)) };
            let names = rest[..end.unwrap_or(rest.len())].trim_start_matches('{');
            for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                if !DIGEST_WORDS.contains(&name) {
                    faults.push(Fault::new(path, format!("knows verify's digest only, but uses `{name}`")));
                }
            }
        }
    }
    faults
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, dependencies: &[(&str, Purpose)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|(name, purpose)| Dependency { name: (*name).to_owned(), purpose: *purpose });
        Package {
            name: name.to_owned(),
            dir: name.into(),
            dependencies: dependencies.collect(),
            targets: Vec::new(),
        }
    }

    fn faults_of(name: &str, dependencies: &[(&str, Purpose)]) -> Vec<String> {
        let mut packages = vec![package(name, dependencies)];
        let others = ARROWS.iter().map(|(name, _)| *name).filter(|other| *other != name);
        packages.extend(others.map(|other| package(other, &[])));
        check(&packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn leaves_do_not_know_each_other() {
        assert_eq!(faults_of("myriarch-store", &[("myriarch-verify", Purpose::Product)]), [""; 0]);
        let faults = faults_of("myriarch-store", &[("myriarch-policy", Purpose::Product)]);
        assert_eq!(faults, ["  myriarch-store: must not use myriarch-policy"]);
        assert_eq!(faults_of("myriarch-policy", &[("myriarch-verify", Purpose::Product)]).len(), 1);
    }

    #[test]
    fn the_chain_knows_neither_sources_nor_children() {
        assert_eq!(faults_of("myriarch-update", &[("myriarch-fetch", Purpose::Product)]).len(), 1);
        assert_eq!(faults_of("myriarch-update", &[("myriarch-supervise", Purpose::Product)]).len(), 1);
        assert_eq!(faults_of("myriarch-updater", &[("myriarch-supervise", Purpose::Product)]).len(), 0);
        assert_eq!(faults_of("myriarch-cli", &[("myriarch-store", Purpose::Product)]).len(), 1);
    }

    #[test]
    fn nothing_that_is_shipped_depends_on_the_kit() {
        assert_eq!(faults_of("myriarch-updater", &[("myriarch-tests", Purpose::Product)]).len(), 1);
        assert_eq!(faults_of("myriarch-store", &[("myriarch-tests", Purpose::Tests)]).len(), 0);
        assert_eq!(faults_of("myriarch-store", &[("myriarch-policy", Purpose::Tests)]).len(), 0);
    }

    #[test]
    fn a_crate_without_arrows_is_refused() {
        assert_eq!(faults_of("myriarch-new", &[]).len(), 1);
    }

    #[test]
    fn the_store_knows_the_digest_only() {
        let fine = (
            "crates/store/src/slot.rs",
            "use myriarch_verify::{Digest, Hasher};\nuse myriarch_verify::Digest;",
        );
        assert_eq!(check_digest_edges(&Tree::of(&[fine])), []);
        let bad = ("crates/fetch/src/http.rs", "use myriarch_verify::{Digest, TrustPolicy};");
        let faults = check_digest_edges(&Tree::of(&[fine, bad]));
        assert_eq!(faults, [Fault::new(bad.0, "knows verify's digest only, but uses `TrustPolicy`")]);
    }
}
