//! What the exit codes promise: one meaning each, and the reference says the same.

use std::{fs, path::PathBuf, time::Duration};

use myriarch_cli::ExitCode;
use myriarch_policy::Version;
use myriarch_update::{Build, Fault, Outcome, Refusal, RefusalKind, RolledBack, Stage};
use myriarch_verify::Digest;

#[test]
fn each_outcome_has_its_code() {
    let version: Version = "1.0.0".parse().unwrap();
    let build = Build { version, binary: Digest::of(b"b"), archive: Digest::of(b"a") };
    let way = RolledBack {
        from: build.clone(),
        to: None,
        reason: String::new(),
        fault: Fault::Version,
        downtime: Duration::ZERO,
        excerpt: None,
    };
    let nothing = Outcome::NothingToDo { installed: None, reason: String::new() };
    assert_eq!(ExitCode::from(&nothing).code(), 0);
    assert_eq!(ExitCode::from(&Outcome::Confirmed { build, downtime: Duration::ZERO }).code(), 0);
    assert_eq!(ExitCode::from(&Outcome::RolledBack(way.clone())).code(), 3);
    assert_eq!(ExitCode::from(&Outcome::NothingHealthy(way.clone())).code(), 4);
    assert_eq!(ExitCode::from(&Outcome::Withdrawn(way)).code(), 1);
    for (kind, code) in [
        (RefusalKind::Policy, 5),
        (RefusalKind::Trust, 5),
        (RefusalKind::Candidate, 1),
        (RefusalKind::Environment, 1),
    ] {
        let refusal = Refusal { stage: Stage::Select, kind, reason: String::new(), hint: String::new() };
        assert_eq!(ExitCode::from(&refusal).code(), code);
    }
}

#[test]
fn the_reference_lists_every_code_with_its_meaning() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/exit-codes.md");
    let reference = fs::read_to_string(path).unwrap();
    let rows: Vec<_> =
        reference.lines().filter(|line| line.starts_with("| ") && line.contains(" | ")).collect();
    for code in ExitCode::ALL {
        let row = format!("| {} | {} |", code.code(), code.meaning());
        assert!(rows.iter().any(|found| found.starts_with(&row)), "{row}");
        assert_eq!(ExitCode::from_code(code.code()), Some(code));
    }
    assert_eq!(rows.len(), ExitCode::ALL.len() + 1, "one row each, and the header");
    assert_eq!(ExitCode::from_code(7), None);
}
