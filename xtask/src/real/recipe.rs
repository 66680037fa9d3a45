//! Which real programs there are, and what each is made of.

/// One program on the shelf.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its file name in `<target>/real`.
    pub(crate) name: &'static str,
    /// What the tests have it for.
    pub(crate) what: &'static str,
    pub(crate) recipe: Recipe,
}

/// How a program is made.
#[derive(Debug)]
pub(crate) enum Recipe {
    /// The collector builder of this version, on `tests/real/<program's name>.yaml`; modules of ours are laid beside it.
    Collector { builder: &'static str, modules: &'static [&'static str] },
    /// A command of somebody's module, which `go install` refuses for its replace directives.
    Command { module: &'static str, version: &'static str },
    /// A module of ours, in `tests/real/<program's name>`.
    Ours,
}

const SUPERVISOR: &str = "github.com/open-telemetry/opentelemetry-collector-contrib/cmd/opampsupervisor";

/// In the order in which they are built: those that share sources follow each other.
pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        name: "collector-0.149.0",
        what: "the old version",
        recipe: Recipe::Collector { builder: "0.149.0", modules: &[] },
    },
    Program {
        name: "opampsupervisor-0.149.0",
        what: "the supervisor of the old version",
        recipe: Recipe::Command { module: SUPERVISOR, version: "0.149.0" },
    },
    Program {
        name: "collector-0.158.0",
        what: "the new version",
        recipe: Recipe::Collector { builder: "0.158.0", modules: &[] },
    },
    Program {
        name: "collector-0.158.1",
        what: "another good one",
        recipe: Recipe::Collector { builder: "0.158.0", modules: &[] },
    },
    Program {
        name: "collector-0.158.2-crashing",
        what: "passes every check, crashes on trial",
        recipe: Recipe::Collector { builder: "0.158.0", modules: &["crash-on-start"] },
    },
    Program {
        name: "collector-0.158.3-picky",
        what: "rejects the running configuration",
        recipe: Recipe::Collector { builder: "0.158.0", modules: &[] },
    },
    Program {
        name: "opampsupervisor-0.158.0",
        what: "the supervisor of the new version",
        recipe: Recipe::Command { module: SUPERVISOR, version: "0.158.0" },
    },
    Program {
        name: "opamp-server",
        what: "the other end of the supervisor's connection",
        recipe: Recipe::Ours,
    },
    Program {
        name: "collector-0.165.1",
        what: "has no opamp extension",
        recipe: Recipe::Collector { builder: "0.165.0", modules: &[] },
    },
];
