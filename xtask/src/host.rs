//! `host`: the image of a host with a real systemd, kept with a container storage of its own in `<target>/host`.
//!
//! It is made of this machine's own Debian release, so that what was built here runs there too.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::{
    command,
    failure::{Failure, Result},
    workspace::Workspace,
};

/// What an operator's host has and a minimal Debian has not.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,iproute2,libcap2-bin";
const IMAGE: &str = "myriarch-host";

/// Limits that need no right which a machine in a container lacks.
const CONTAINERS_CONF: &str = "\
[containers]
default_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]
[engine]
runtime = \"runc\"
";

pub(crate) fn run(workspace: &Workspace, words: &[String]) -> Result<ExitCode> {
    if let Some(word) = words.first() {
        return Err(Failure::usage(format!("host takes no words, not `{word}`")));
    }
    println!("{}", build(workspace)?.display());
    Ok(ExitCode::SUCCESS)
}

/// Makes the image if it is missing, and tells the directory that it is kept in: `HOST_BASE` of the tests.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let base = workspace.target.join("host");
    let suite = suite(&fs::read_to_string("/etc/os-release").unwrap_or_default())?;
    let recipe = format!("{suite} {PACKAGES}\n{CONTAINERS_CONF}");
    let stamp = base.join("stamp");
    let is_made = fs::read_to_string(&stamp).is_ok_and(|stamp| stamp == recipe);
    if is_made && command::output(podman(&base).args(["image", "exists", IMAGE])).is_ok() {
        return Ok(base);
    }
    fs::create_dir_all(&base).map_err(|error| Failure::at(&base, &error))?;
    write(&base.join("containers.conf"), CONTAINERS_CONF)?;
    let tar = base.join("base.tar");
    println!("making a host of Debian {suite}");
    let mut bootstrap = Command::new("mmdebstrap");
    bootstrap.args(["--quiet", "--variant=minbase", &format!("--include={PACKAGES}"), &suite]);
    command::output(bootstrap.arg(&tar))?;
    let imported = command::output(podman(&base).arg("import").arg(&tar).arg(IMAGE));
    let _ = fs::remove_file(&tar);
    imported?;
    write(&stamp, &recipe)?;
    Ok(base)
}

fn podman(base: &Path) -> Command {
    let mut command = Command::new("podman");
    command.env("CONTAINERS_CONF", base.join("containers.conf"));
    command.arg("--root").arg(base.join("storage")).arg("--runroot").arg(base.join("run"));
    command.args(["--cgroup-manager", "cgroupfs", "--events-backend", "none"]);
    command
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Failure::at(path, &error))
}

fn suite(os_release: &str) -> Result<String> {
    let value = |name: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    match (value("ID").as_deref(), value("VERSION_CODENAME")) {
        (Some("debian"), Some(suite)) => Ok(suite),
        (id, _) => Err(Failure::new(format!(
            "a host is made of the machine's own Debian release; expected ID=debian in /etc/os-release, found {id:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_release_is_the_machines() {
        assert_eq!(suite("ID=debian\nVERSION_CODENAME=bookworm\n").unwrap(), "bookworm");
        assert!(suite("ID=fedora\nVERSION_CODENAME=\"\"\n").unwrap_err().to_string().contains("fedora"));
    }
}
