//! Every bundle case of the Sigstore conformance suite, by file and by digest, through the executable
//! that speaks its protocol.
//!
//! A case is a directory. One that ends in `_fail` must be refused; what it does not bring with it is
//! the suite's default.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use myriarch_tests::shared;
use myriarch_verify::Digest;

const IDENTITY: &str = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/\
                        .github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main";
const ISSUER: &str = "https://token.actions.githubusercontent.com";

struct Case {
    name: String,
    directory: PathBuf,
    artifact: PathBuf,
}

impl Case {
    fn is_good(&self) -> bool {
        !self.name.ends_with("_fail")
    }

    /// Whether the client accepts the case.
    fn accepted(&self, artifact: &str) -> io::Result<(bool, String)> {
        let text = |name: &str, default: &str| {
            fs::read_to_string(self.directory.join(name))
                .map_or(default.to_owned(), |text| text.trim().to_owned())
        };
        let path = |name: &str| Some(self.directory.join(name)).filter(|path| path.exists());
        let mut command = Command::new(env!("CARGO_BIN_EXE_sigstore-conformance"));
        command.arg("verify-bundle").arg("--bundle").arg(self.directory.join("bundle.sigstore.json"));
        if let Some(key) = path("key.pub") {
            command.arg("--key").arg(key);
        } else {
            command.args(["--certificate-identity", &text("identity", IDENTITY)]);
            command.args(["--certificate-oidc-issuer", &text("issuer", ISSUER)]);
        }
        if let Some(root) = path("trusted_root.json") {
            command.arg("--trusted-root").arg(root);
        }
        let output = command.arg(artifact).output()?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

fn cases(folder: &Path) -> Vec<Case> {
    let mut cases: Vec<Case> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|directory| {
            let own = directory.join("artifact");
            let artifact = if own.exists() { own } else { folder.join("a.txt") };
            let name = directory.file_name().unwrap().to_string_lossy().into_owned();
            Case { name, directory, artifact }
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

fn run(test: &str, artifact: impl Fn(&Path) -> String) {
    let Some(folder) = shared::folder(test, "SIGSTORE_CONFORMANCE", "sigstore-conformance") else { return };
    let cases = cases(&folder);
    let good = cases.iter().filter(|case| case.is_good()).count();
    assert!(
        good >= 21 && cases.len() - good >= 49,
        "expected 21 good and 49 bad cases, found {good} and {}",
        cases.len() - good
    );
    let mut wrong = Vec::new();
    for case in &cases {
        let (accepted, words) = case.accepted(&artifact(&case.artifact)).unwrap();
        println!("{} {}: {}", if accepted { "accepted" } else { "refused " }, case.name, words.trim());
        if accepted != case.is_good() {
            wrong.push(format!("{}: {}", case.name, words.trim()));
        }
    }
    println!("{} of {} cases as expected", cases.len() - wrong.len(), cases.len());
    assert!(wrong.is_empty(), "{} of {} cases are not as expected: {wrong:#?}", wrong.len(), cases.len());
}

#[test]
fn every_case_of_the_suite_ends_as_it_must_by_file() {
    run("the conformance suite by file", |path| path.to_str().unwrap().to_owned());
}

#[test]
fn every_case_of_the_suite_ends_as_it_must_by_digest() {
    run("the conformance suite by digest", |path| format!("{:?}", Digest::of(&fs::read(path).unwrap())));
}
