//! A machine in a temporary directory, with a collector that is installed and a systemctl that tells what files say.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use myriarch_tests::{built, collector::StandIn, machine::words, ports, publisher::DISTRIBUTION};
use tempfile::TempDir;

/// Plays `systemctl` for one unit that runs only where it is told to restart it: says what the files say, and writes
/// down what it was asked for.
const SYSTEMCTL: &str = r#"#!/bin/sh
here=DIR
case "$*" in
*daemon-reload*)
    echo daemon-reload >>$here/asked
    test -e $here/hang && exec sleep 60
    test ! -e $here/fail ;;
*list-unit*) echo "collector.service enabled" ;;
*show*myriarch-*)
    for name; do :; done
    printf 'Id=%s\nLoadState=%s\nActiveState=inactive\nMainPID=0\n' "$name" "$(cat $here/watchdogs 2>/dev/null || echo loaded)" ;;
*show*)
    unit=$here/units/collector.service
    drop_ins=$(ls $here/units/collector.service.d/*.conf 2>/dev/null | tr '\n' ' ')
    command=$(sed -n 's/^ExecStart=//p' $unit $drop_ins | tail -1 | tr -d "\"'")
    if test -e $here/pid; then
        printf 'Id=collector.service\nMainPID=%s\nActiveState=active\nSubState=running\nResult=success\n' $(cat $here/pid)
    else
        printf 'Id=collector.service\nMainPID=0\nActiveState=inactive\nSubState=dead\nResult=success\n'
    fi
    printf 'FragmentPath=%s\nDropInPaths=%s\nUnitFileState=enabled\n' "$unit" "$drop_ins"
    printf 'ExecStart={ path=%s ; argv[]=%s ; ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }\n' "${command%% *}" "$command"
    if test -e $drop_ins; then
        printf 'OnFailure=%s\n' "$(sed -n 's/^OnFailure=//p' $drop_ins)"
        printf 'Wants=%s\nAfter=%s\n' "$(sed -n 's/^Wants=//p' $drop_ins)" "$(sed -n 's/^After=//p' $drop_ins)"
    fi
    cat $here/properties ;;
*restart*)
    echo restart >>$here/asked
    test -e $here/pid && kill -9 $(cat $here/pid)
    command=$(sed -n 's/^ExecStart=//p' $here/units/collector.service $here/units/collector.service.d/*.conf 2>/dev/null | tail -1)
    $command </dev/null >/dev/null 2>&1 &
    echo $! >$here/pid ;;
*) echo "$*" >>$here/asked ;;
esac
"#;

pub(crate) struct Desk {
    dir: TempDir,
    health: u16,
}

impl Desk {
    /// A machine with a collector under a unit of its own.
    pub(crate) fn new() -> Self {
        let desk = Self { dir: tempfile::tempdir().unwrap(), health: ports::free::<1>()[0] };
        for name in ["bin", "usr", "etc", "units"] {
            fs::create_dir(desk.path(name)).unwrap();
        }
        desk.write("bin/systemctl", &SYSTEMCTL.replace("DIR", &desk.path("").display().to_string()), 0o755);
        desk.write("properties", "LoadState=loaded\n", 0o644);
        let program = desk.path("usr").join(DISTRIBUTION);
        fs::write(&program, StandIn::version("1.0.0").build()).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let collector = format!(
            "extensions:\n  health_check:\n    endpoint: 0.0.0.0:{}\nservice:\n  extensions: [health_check]\n  pipelines:\n    traces:\n      receivers: [otlp]\n      exporters: [debug]\n",
            desk.health
        );
        desk.write("etc/collector.yaml", &collector, 0o644);
        let exec = format!(
            "ExecStartPre=-{0} validate --config x\nExecStart={0} --config \"{1}\" '%H'",
            program.display(),
            desk.path("etc/collector.yaml").display()
        );
        desk.unit(&exec);
        desk.write("updater.toml", &desk.configuration(), 0o644);
        desk
    }

    /// The same with a supervisor whose configuration names the collector as `executable`.
    pub(crate) fn supervised(executable: &str) -> Self {
        let desk = Self::new();
        let configuration = desk.path("etc/supervisor.yaml");
        let text = format!(
            "# Ours.\nagent:\n  bootstrap_timeout: 2m\n  executable: {executable}  # the packaged one\nstorage:\n  directory: {}\n",
            desk.path("etc").display()
        );
        desk.write("etc/supervisor.yaml", &text, 0o640);
        desk.unit(&format!("ExecStart=/usr/bin/opampsupervisor --config {}", configuration.display()));
        desk
    }

    /// A machine whose collector runs, and is judged soon.
    pub(crate) fn running() -> Self {
        let desk = Self::new();
        let program = desk.path("usr").join(DISTRIBUTION);
        let configuration = desk.path("etc/collector.yaml");
        desk.unit(&format!("ExecStart={} --config {}", program.display(), configuration.display()));
        desk.write("updater.toml", &(desk.configuration() + "timeout = \"10s\"\nsettle = \"1s\"\n"), 0o644);
        let mut systemctl = Command::new(desk.path("bin/systemctl"));
        assert!(systemctl.arg("restart").status().unwrap().success());
        desk
    }

    pub(crate) fn install(&self, program: &StandIn) {
        let path = self.path("usr").join(DISTRIBUTION);
        fs::remove_file(&path).unwrap();
        program.write_to(&path).unwrap();
    }

    /// The program that the unit runs.
    pub(crate) fn runs(&self) -> PathBuf {
        let pid = fs::read_to_string(self.path("pid")).unwrap();
        fs::read_link(format!("/proc/{}/exe", pid.trim())).unwrap()
    }

    pub(crate) fn restarts(&self) -> usize {
        fs::read_to_string(self.path("asked")).unwrap().matches("restart").count()
    }

    pub(crate) fn stop(&self) {
        if let Ok(pid) = fs::read_to_string(self.path("pid")) {
            let _ = Command::new("kill").args(["-9", pid.trim()]).status();
            let _ = fs::remove_file(self.path("pid"));
        }
    }

    /// As if the one that wrote the record had been killed before its last word.
    pub(crate) fn record_says(&self, state: &str) {
        let path = self.path("store/import.json");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"done\""), "{text}");
        fs::write(path, text.replace("\"done\"", &format!("\"{state}\""))).unwrap();
    }

    pub(crate) fn unit(&self, exec: &str) {
        self.write(
            "units/collector.service",
            &format!("[Unit]\nDescription=Ours\n\n[Service]\nUser=root\n{exec}\n"),
            0o644,
        );
    }

    pub(crate) fn configuration(&self) -> String {
        format!(
            "schema = 1\nservice = \"collector\"\n[program]\nbinary = \"{DISTRIBUTION}\"\n[store]\npath = \"{0}\"\n[run]\ndirectory = \"{0}/run\"\n[source]\nkind = \"directory\"\npath = \"{0}\"\n[trust.pins]\n\"9.9.9\" = \"{1}\"\n[restart]\nkind = \"systemd\"\nunit = \"collector\"\n[probe]\nhttp = \"http://127.0.0.1:{2}/\"\n",
            self.path("store").display(),
            "0".repeat(64),
            self.health
        )
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.dir.path().to_owned() } else { self.dir.path().join(name) }
    }

    pub(crate) fn write(&self, name: &str, text: &str, mode: u32) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(built::updater());
        command.arg("--config").arg(self.path("updater.toml")).args(arguments).stdin(Stdio::null());
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.path("bin").display())).env_remove("SUDO_USER");
        command
    }

    pub(crate) fn import(&self, more: &[&str]) -> Output {
        let units = self.path("units").display().to_string();
        self.command(&[&["import", "--unit-directory", &units], more].concat()).output().unwrap()
    }

    pub(crate) fn must(&self, code: i32, output: &Output) -> String {
        let said = words(output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        said.replace(&self.path("").display().to_string(), "DIR").replace(&self.health.to_string(), "PORT")
    }

    /// Every file outside the store, with what it holds and its mode.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>, u32)> {
        let mut found = vec![];
        let mut directories = vec![self.path("etc"), self.path("units"), self.path("usr")];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).unwrap().flatten() {
                let (path, metadata) = (entry.path(), entry.metadata().unwrap());
                if metadata.is_dir() {
                    directories.push(path);
                } else {
                    found.push((path.clone(), fs::read(path).unwrap(), metadata.permissions().mode()));
                }
            }
        }
        found.sort();
        found
    }

    pub(crate) fn journal(&self) -> String {
        fs::read_to_string(self.path("store/journal.jsonl")).unwrap_or_default()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.stop();
    }
}
