//! The configurations of a machine: the updater's, the supervisor's and the collector's.

use std::{fs, path::PathBuf};

use super::{Machine, Plan, Supervised};
use crate::{
    ports,
    publisher::{DISTRIBUTION, ISSUER, WORKFLOW},
    supervisor,
};

impl Machine {
    /// Replaces the section `[source]` of the configuration by `source`.
    ///
    /// # Panics
    ///
    /// When the configuration cannot be rewritten.
    pub fn set_source(&self, source: &str) {
        let text = fs::read_to_string(self.configuration()).expect("the configuration");
        let (before, rest) = text.split_once("[source]").expect("a section [source]");
        let (_, after) = rest.split_once("[[trust").expect("a section [[trust.keyless]]");
        let text = format!("{before}[source]\n{source}\n\n[[trust{after}");
        fs::write(self.configuration(), text).expect("a configuration that can be written");
    }

    pub(super) fn write_configurations(&self) {
        let [otlp, opamp, server] = ports::free();
        let write =
            |path: PathBuf, text: String| fs::write(path, text).expect("a file in the machine's directory");
        for directory in ["store", "run", "supervisor", &*self.plan.working_directory] {
            fs::create_dir_all(self.path().join(directory)).expect("a directory of the machine's");
        }
        write(self.collector_configuration(), supervisor::collector_config(self.health_port, otlp));
        write(
            self.path().join("supervisor.yaml"),
            format!(
                "server:\n  endpoint: ws://127.0.0.1:{server}/v1/opamp\ncapabilities:\n  accepts_remote_config: true\n  reports_effective_config: true\n  reports_health: true\nagent:\n  executable: ${{env:COLLECTOR_EXE}}\n  config_files: [\"${{env:COLLECTOR_CONFIG}}\"]\n  config_apply_timeout: 60s\n  bootstrap_timeout: 60s\n  opamp_server_port: {opamp}\nstorage:\n  directory: ${{env:SUPERVISOR_STORAGE}}\n"
            ),
        );
        fs::write(self.path().join("trusted_root.json"), self.sigstore().trusted_root_json())
            .expect("a root");
        write(self.configuration(), self.updater_configuration());
    }

    fn updater_configuration(&self) -> String {
        let here = self.path().display();
        let Plan { settle, soak, more, supervised, tries, restart, working_directory, .. } = &self.plan;
        let command = match supervised {
            Supervised::BySupervisor => {
                format!(
                    "[\"{}\", \"--config\", \"{here}/supervisor.yaml\"]",
                    self.programs.supervisor().display()
                )
            }
            Supervised::ByUpdater => format!("[\"{{program}}\", \"--config\", \"{here}/collector.yaml\"]"),
        };
        let effective = match supervised {
            Supervised::BySupervisor => format!("effective = \"{here}/supervisor/effective.yaml\"\n"),
            Supervised::ByUpdater => String::new(),
        };
        let components = match supervised {
            Supervised::BySupervisor => "components = { extensions = [\"opamp\"] }\n",
            Supervised::ByUpdater => "",
        };
        format!(
            r#"schema = 1
service = "testbed"

[program]
binary = "{DISTRIBUTION}"

[store]
path = "{here}/store"

[run]
directory = "{here}/run"
check_interval = "off"

[source]
kind = "http"
index = "{index}"

[[trust.keyless]]
issuer = "{ISSUER}"
identity = "{WORKFLOW}@refs/tags/v{{version}}"
trusted_root = "{here}/trusted_root.json"

[restart]
kind = "child"
command = {command}
environment = {{ COLLECTOR_EXE = "{{program}}" }}
working_directory = "{here}/{working_directory}"
{restart}
[validate]
configuration = "{here}/collector.yaml"
{effective}{components}timeout = "20s"

[trial]
tries = {tries}

[probe]
http = "http://127.0.0.1:{port}/"
settle = "{settle}ms"
soak = "{soak}ms"
interval = "200ms"
timeout = "2s"
{more}"#,
            index = self.publisher.index(),
            port = self.health_port,
            settle = settle.as_millis(),
            soak = soak.as_millis(),
        )
    }
}
