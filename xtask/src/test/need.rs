//! What a tier needs of the machine, and the command that brings it.

use std::{path::Path, process::Command};

use crate::{command, failure::Failure, real};

/// A tool, how to see that it is there, and where it comes from.
#[derive(Debug)]
pub(crate) struct Need {
    pub(crate) tool: &'static str,
    /// `Err` says what was seen instead.
    pub(crate) found: fn() -> Result<(), String>,
    pub(crate) brought_by: BroughtBy,
}

/// Who brings a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BroughtBy {
    Apt(&'static [&'static str]),
    Cargo {
        name: &'static str,
        version: &'static str,
    },
    Rustup(&'static str),
    /// Nothing that could be installed: what to do instead.
    Nobody(&'static str),
}

pub(crate) const RUSTFMT: Need = Need {
    tool: "rustfmt",
    found: || answers("cargo", &["fmt", "--version"]),
    brought_by: BroughtBy::Rustup("rustfmt"),
};
pub(crate) const CLIPPY: Need = Need {
    tool: "clippy",
    found: || answers("cargo", &["clippy", "--version"]),
    brought_by: BroughtBy::Rustup("clippy"),
};
pub(crate) const CARGO_DENY: Need = Need {
    tool: "cargo-deny",
    found: || answers("cargo", &["deny", "--version"]),
    brought_by: BroughtBy::Cargo { name: "cargo-deny", version: "0.20.2" },
};
/// Brings the loopback interface up where a test makes a network of its own.
pub(crate) const IP: Need =
    Need { tool: "ip", found: || answers("ip", &["-V"]), brought_by: BroughtBy::Apt(&["iproute2"]) };
/// Runs containers.
pub(crate) const PODMAN: Need = Need {
    tool: "podman",
    found: || answers("podman", &["--version"]).and(answers("runc", &["--version"])),
    brought_by: BroughtBy::Apt(&["podman", "runc"]),
};
/// Makes a Debian from its packages.
pub(crate) const MMDEBSTRAP: Need = Need {
    tool: "mmdebstrap",
    found: || answers("mmdebstrap", &["--version"]),
    brought_by: BroughtBy::Apt(&["mmdebstrap"]),
};
/// Containers with a systemd of their own.
pub(crate) const ROOT: Need = Need {
    tool: "root",
    found: || match command::output(Command::new("id").arg("-u")) {
        Ok(id) if id.trim() == "0" => Ok(()),
        Ok(id) => Err(format!("this is user {}", id.trim())),
        Err(failure) => Err(failure.to_string()),
    },
    brought_by: BroughtBy::Nobody("run it as root"),
};
/// A distribution's Go may be too old; from 1.21 on it fetches by itself the toolchain that a module asks for.
pub(crate) const GO: Need =
    Need { tool: "go", found: || real::go().map(drop), brought_by: BroughtBy::Apt(&["golang-go"]) };

/// Whether missing tools are installed.
#[derive(Debug)]
pub(crate) enum Installer {
    Unwilling,
    Willing { apt_updated: bool },
}

impl Installer {
    /// Sees to it that the tool is there, or says what is missing and which command brings it.
    pub(crate) fn provide(&mut self, need: &Need) -> Result<(), String> {
        let Err(seen) = (need.found)() else { return Ok(()) };
        if let BroughtBy::Nobody(instead) = need.brought_by {
            return Err(format!("{} is missing ({}): {instead}", need.tool, first_line(&seen)));
        }
        let brings = need.brought_by.commands().last().cloned().unwrap_or_default().join(" ");
        let Self::Willing { apt_updated } = self else {
            return Err(format!("{} is missing; `{brings}` brings it", need.tool));
        };
        println!("{} is missing ({}): installing it", need.tool, first_line(&seen));
        for words in need.brought_by.commands() {
            let is_update = words.get(1).is_some_and(|verb| verb == "update");
            if is_update && *apt_updated {
                continue;
            }
            install(&words).map_err(|failure| format!("{} could not be installed: {failure}", need.tool))?;
            *apt_updated |= is_update;
        }
        (need.found)()
            .map_err(|seen| format!("`{brings}` did not bring {}: {}", need.tool, first_line(&seen)))
    }
}

impl BroughtBy {
    /// The commands in order; the last one is the one that matters.
    fn commands(self) -> Vec<Vec<String>> {
        let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match self {
            Self::Apt(packages) => {
                let mut install = words(&["apt-get", "install", "-y", "--no-install-recommends"]);
                install.extend(words(packages));
                vec![words(&["apt-get", "update"]), install]
            }
            Self::Cargo { name, version } => {
                vec![words(&["cargo", "install", "--locked", name, "--version", version])]
            }
            Self::Rustup(component) => vec![words(&["rustup", "component", "add", component])],
            Self::Nobody(_) => vec![],
        }
    }
}

fn install(words: &[String]) -> Result<(), Failure> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    command::stream(Command::new(program).args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn answers(program: &str, words: &[&str]) -> Result<(), String> {
    let mut command = if program == "cargo" { command::cargo(Path::new(".")) } else { Command::new(program) };
    command::output(command.args(words)).map(drop).map_err(|failure| failure.to_string())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Need = Need {
        tool: "nowhere",
        found: || Err("no such file".to_owned()),
        brought_by: BroughtBy::Apt(&["nowhere-bin", "nowhere-data"]),
    };

    #[test]
    fn a_missing_tool_is_named_with_the_command_that_brings_it() {
        let lack = Installer::Unwilling.provide(&NOWHERE).unwrap_err();
        let expected = "nowhere is missing; `apt-get install -y --no-install-recommends nowhere-bin nowhere-data` brings it";
        assert_eq!(lack, expected);
    }

    #[test]
    fn a_tool_that_is_there_is_not_installed() {
        let there = Need { found: || Ok(()), ..NOWHERE };
        assert!(Installer::Unwilling.provide(&there).is_ok());
        assert!(Installer::Willing { apt_updated: false }.provide(&there).is_ok());
    }

    #[test]
    fn what_nobody_can_install_is_answered_with_what_to_do() {
        let need = Need { brought_by: BroughtBy::Nobody("be somebody else"), ..NOWHERE };
        let willing = &mut Installer::Willing { apt_updated: false };
        assert_eq!(
            willing.provide(&need).unwrap_err(),
            "nowhere is missing (no such file): be somebody else"
        );
    }

    #[test]
    fn apt_reads_its_lists_before_it_installs() {
        let commands = NOWHERE.brought_by.commands();
        assert_eq!(commands[0], ["apt-get", "update"]);
        assert_eq!(commands[1][1], "install");
    }
}
