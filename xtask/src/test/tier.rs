//! The tiers: what each proves, what it needs, which steps it takes.
//!
//! A further tier is a row in [`TIERS`] with a function that lists its steps. All Cargo steps select the whole workspace,
//! so that features resolve alike and nothing is compiled twice.

use std::process::Command;

use super::need::{CARGO_DENY, CLIPPY, GO, IP, MMDEBSTRAP, Need, PODMAN, ROOT, RUSTFMT};
use crate::{
    command, demo,
    failure::{Failure, Result},
    host, real, tidy,
    workspace::Workspace,
};

/// Tests by this beginning of their name want the real programs, which `REAL_PROGRAMS` tells them.
const REAL_TESTS: &str = "real_";

/// Tests by this beginning of their name, in targets named `host_*`, want a host with systemd, which `HOST_BASE` tells
/// them, and the real programs.
const HOST_TESTS: &str = "on_host_";

/// A set of tests that ask the same of a machine.
#[derive(Debug)]
pub(crate) struct Tier {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) chosen: Chosen,
    pub(crate) needs: &'static [Need],
    pub(crate) steps: fn(&Workspace) -> Vec<Step>,
}

/// When a tier is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    Always,
    /// Only by `--tier` or `--all`: it needs what most machines cannot reach.
    ByName,
}

/// One thing a tier does.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) after: After,
    pub(crate) act: Act,
}

/// What follows when a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    GoOn,
    /// The steps behind it cannot be made, and fail with it.
    OthersNeedIt,
}

#[derive(Debug)]
pub(crate) enum Act {
    Run(Command),
    Within(fn(&Workspace) -> Result<()>),
}

pub(crate) const TIERS: &[Tier] = &[
    Tier {
        name: "fast",
        what: "format, lints, licences, the design's invariants, tests against stand-ins, documents",
        chosen: Chosen::Always,
        needs: &[RUSTFMT, CLIPPY, CARGO_DENY, IP],
        steps: fast,
    },
    Tier {
        name: "real",
        what: "the real collectors under the real supervisors, built with Go",
        chosen: Chosen::Always,
        needs: &[GO],
        steps: real_programs,
    },
    Tier {
        name: "host",
        what: "a host with a real systemd in a container, the real collectors as its units",
        chosen: Chosen::Always,
        needs: &[ROOT, PODMAN, MMDEBSTRAP, GO],
        steps: host_story,
    },
    Tier {
        name: "advisories",
        what: "known vulnerabilities; cargo-deny fetches the advisory database from its repository",
        chosen: Chosen::ByName,
        needs: &[CARGO_DENY],
        steps: advisories,
    },
];

pub(crate) fn named(name: &str) -> Result<&'static Tier> {
    TIERS.iter().find(|tier| tier.name == name).ok_or_else(|| {
        let known: Vec<_> = TIERS.iter().map(|tier| tier.name).collect();
        Failure::usage(format!("no tier `{name}`; there are: {}", known.join(", ")))
    })
}

fn fast(workspace: &Workspace) -> Vec<Step> {
    let cargo = |name: &str, words: &[&str]| cargo_step(workspace, name, words);
    let skip_real = [
        "test",
        "--locked",
        "--workspace",
        "--no-fail-fast",
        "--",
        "--skip",
        REAL_TESTS,
        "--skip",
        HOST_TESTS,
    ];
    let clippy = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let deny = ["deny", "--locked", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"];
    let mut steps = vec![
        Step { name: "tidy".to_owned(), after: After::GoOn, act: Act::Within(tidy::check) },
        cargo("format", &["fmt", "--all", "--check"]),
        cargo("licences, bans, sources", &deny),
        cargo("lints", &clippy),
        cargo("build", &["test", "--locked", "--workspace", "--no-run"]),
        cargo("tests", &skip_real),
        cargo("documents", &["doc", "--locked", "--workspace", "--no-deps"]),
    ];
    for step in &mut steps {
        if let Act::Run(command) = &mut step.act {
            command.env_remove("REAL_PROGRAMS").env("RUSTDOCFLAGS", "-D warnings");
        }
    }
    steps
}

/// The test targets `real` and `contract`, and then the demonstration.
fn real_programs(workspace: &Workspace) -> Vec<Step> {
    let build = Step {
        name: "real programs".to_owned(),
        after: After::OthersNeedIt,
        act: Act::Within(|workspace| real::build_all(workspace).map(drop)),
    };
    let is_real = |name: &str| name == "real" || name == "contract" || name.starts_with(REAL_TESTS);
    let mut tests = targets_step(workspace, is_real, "named `real` or `contract`");
    if let Act::Run(command) = &mut tests.act {
        command.env("REAL_PROGRAMS", workspace.target.join("real"));
    }
    let demo = Step { name: "demo".to_owned(), after: After::GoOn, act: Act::Within(demonstrate) };
    vec![build, tests, demo]
}

fn demonstrate(workspace: &Workspace) -> Result<()> {
    command::stream(demo::command(workspace)?.env("REAL_PROGRAMS", workspace.target.join("real")))
}

/// The test targets whose names begin with `host_`.
fn host_story(workspace: &Workspace) -> Vec<Step> {
    let needed = |name: &str, act| Step { name: name.to_owned(), after: After::OthersNeedIt, act };
    let mut tests =
        targets_step(workspace, |name| name.starts_with("host_"), "whose name begins with `host_`");
    if let Act::Run(command) = &mut tests.act {
        command.env("REAL_PROGRAMS", workspace.target.join("real"));
        command.env("HOST_BASE", workspace.target.join("host"));
    }
    vec![
        needed("real programs", Act::Within(|workspace| real::build_all(workspace).map(drop))),
        needed("host", Act::Within(|workspace| host::build(workspace).map(drop))),
        tests,
    ]
}

/// One run of the test targets that are wanted; that there are none is a failure.
fn targets_step(workspace: &Workspace, is_wanted: impl Fn(&str) -> bool, which: &'static str) -> Step {
    let targets = workspace.packages.iter().flat_map(|package| &package.targets);
    let names: Vec<&str> =
        targets.filter(|t| t.kind == "test" && is_wanted(&t.name)).map(|t| t.name.as_str()).collect();
    if names.is_empty() {
        println!("there is no test target {which}");
        let act = Act::Within(|_| Err(Failure::new("no test target was found")));
        return Step { name: "tests".to_owned(), after: After::GoOn, act };
    }
    let mut words = vec!["test", "--locked", "--workspace", "--no-fail-fast"];
    words.extend(names.iter().flat_map(|name| ["--test", name]));
    cargo_step(workspace, "tests", &words)
}

fn advisories(workspace: &Workspace) -> Vec<Step> {
    vec![cargo_step(workspace, "advisories", &["deny", "--locked", "check", "advisories"])]
}

fn cargo_step(workspace: &Workspace, name: &str, words: &[&str]) -> Step {
    let mut command = command::cargo(&workspace.root);
    command.args(words);
    Step { name: name.to_owned(), after: After::GoOn, act: Act::Run(command) }
}
