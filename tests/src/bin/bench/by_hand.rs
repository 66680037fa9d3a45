//! What one does without us: download, check, unpack and sync; stop the old program and start the new one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use myriarch_tests::machine::{DISTRIBUTION, signal};
use myriarch_verify::Digest;

use crate::outage::{Outages, until_well};

/// From nothing to a durable program in `directory`, by the commands that everybody would type. Only what was
/// unpacked is synced, not whatever else the machine has to write: the stricter yardstick of the two.
pub(crate) fn install(directory: &Path, url: &str, digest: Digest) -> Duration {
    fs::create_dir(directory).expect("a directory of its own");
    let script = format!(
        "curl -fsS -o a.tar.gz {url} && echo '{digest}  a.tar.gz' | sha256sum -c --status && tar xzf a.tar.gz && sync {DISTRIBUTION} ."
    );
    let began = Instant::now();
    let status = Command::new("sh").args(["-c", &script]).current_dir(directory).status().expect("a shell");
    let took = began.elapsed();
    assert!(status.success(), "`{script}`: {status}");
    fs::remove_dir_all(directory).expect("a directory to remove");
    took
}

/// A program that is run with a configuration, and its health endpoint.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) configuration: PathBuf,
    pub(crate) port: u16,
}

impl Service {
    fn start(&self, program: &Path) -> Child {
        Command::new(program)
            .arg("--config")
            .arg(&self.configuration)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a program that starts")
    }

    /// From the start of `program` to its first good answer.
    pub(crate) fn own_start(&self, program: &Path) -> Duration {
        let began = Instant::now();
        let child = self.start(program);
        until_well(self.port);
        let took = began.elapsed();
        interrupt(child);
        took
    }

    /// How long nothing answers well while `new` takes the place of `old`.
    pub(crate) fn replace(&self, old: &Path, new: &Path) -> Duration {
        let running = self.start(old);
        let outages = Outages::watch(self.port);
        interrupt(running);
        let next = self.start(new);
        until_well(self.port);
        let outages = outages.end();
        interrupt(next);
        let [outage] = outages[..] else { panic!("expected one outage, found {outages:?}") };
        outage
    }
}

fn interrupt(mut child: Child) {
    signal("INT", child.id());
    child.wait().expect("a child to wait for");
}
