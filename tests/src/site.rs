//! One service on a host with a real systemd: a unit that starts a collector of the kit through `current`, the
//! updater's configuration and units, and a publisher that it takes releases from.

use std::{process::Output, time::Duration};

use serde_json::Value;

use crate::{
    collector::StandIn,
    host::Host,
    machine::{health, words},
    ports,
    publisher::{DISTRIBUTION, ISSUER, Publisher, WORKFLOW},
    supervisor,
};

/// The service, and its unit.
pub const SERVICE: &str = "col";

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// What differs between sites.
#[derive(Debug, Clone)]
pub struct SitePlan {
    /// Lines of the unit's `[Unit]`.
    pub unit: String,
    /// Lines of the unit's `[Service]` besides `ExecStart=`.
    pub service: String,
    /// Milliseconds that a candidate must stay healthy.
    pub soak_ms: u32,
}

impl Default for SitePlan {
    fn default() -> Self {
        Self { unit: String::new(), service: "Restart=always\nRestartSec=100ms\n".to_owned(), soak_ms: 1000 }
    }
}

/// The service on its host.
#[derive(Debug)]
pub struct Site {
    /// The host.
    pub host: Host,
    /// Where its releases come from.
    pub publisher: Publisher,
    health_port: u16,
}

impl Site {
    /// A host with the units in place and nothing installed. `None`, after saying so, where there is no image.
    pub fn start(test: &str, plan: &SitePlan) -> Option<Self> {
        let site = Self {
            host: Host::start(test)?,
            publisher: Publisher::new(),
            health_port: ports::free::<1>()[0],
        };
        let otlp = ports::free::<1>()[0];
        let collector = supervisor::collector_config(site.health_port, otlp);
        site.host.write("/etc/col/collector.yaml", collector, 0o644);
        site.host.write("/etc/myriarch/root.json", site.publisher.sigstore().trusted_root_json(), 0o644);
        site.host.write("/etc/myriarch/col.toml", site.configuration(plan), 0o600);
        let SitePlan { unit, service, .. } = plan;
        let file = format!(
            "[Unit]\nWants=myriarch-boot@{SERVICE}.service\nAfter=myriarch-boot@{SERVICE}.service\n\
             OnFailure=myriarch-recover@{SERVICE}.service\n{unit}\n[Service]\n\
             ExecStart=/opt/myriarch/{SERVICE}/current/bin/{DISTRIBUTION} $COL_OPTIONS\n\
             Environment=\"COL_OPTIONS=--config /etc/col/collector.yaml\"\n{service}\n\
             [Install]\nWantedBy=multi-user.target\n"
        );
        site.host.write("/etc/systemd/system/col.service", file, 0o644);
        for (name, text) in [
            ("updater", include_str!("../../bins/myriarch-updater/systemd/myriarch-updater@.service")),
            ("recover", include_str!("../../bins/myriarch-updater/systemd/myriarch-recover@.service")),
            ("boot", include_str!("../../bins/myriarch-updater/systemd/myriarch-boot@.service")),
        ] {
            site.host.write(&format!("/etc/systemd/system/myriarch-{name}@.service"), text, 0o644);
        }
        site.host.sh("systemctl daemon-reload && systemctl enable --quiet col");
        Some(site)
    }

    /// Offers `program` honestly as `version`.
    pub fn offer(&mut self, version: &str, program: &StandIn) {
        let release = self.publisher.release(version, &program.build());
        self.publisher.offer(release);
    }

    /// Installs `version`, which is well, as the first one.
    ///
    /// # Panics
    ///
    /// When it is not confirmed.
    pub fn install(&mut self, version: &str) {
        self.offer(version, &StandIn::version(version));
        let output = self.verb(&["update"]);
        assert_eq!(output.status.code(), Some(0), "{}", words(&output));
        assert_eq!(self.current_version().as_deref(), Some(version));
    }

    /// Runs a verb to its end.
    pub fn verb(&self, arguments: &[&str]) -> Output {
        self.host.verb(&[&["--service", SERVICE], arguments].concat())
    }

    /// Starts a verb inside that can be waited for.
    pub fn spawn(&self, arguments: &[&str]) -> std::process::Child {
        self.host.spawn(&[&["myriarch-updater", "--service", SERVICE], arguments].concat())
    }

    /// The version that `current` names.
    pub fn current_version(&self) -> Option<String> {
        let output = self.host.exec(&["cat", &format!("/opt/myriarch/{SERVICE}/current/slot.json")]);
        let manifest: Value = serde_json::from_slice(&output.stdout).ok()?;
        Some(manifest["version"].as_str()?.to_owned())
    }

    /// The journal's lines.
    pub fn entries(&self) -> Vec<Value> {
        let output = self.host.exec(&["cat", &format!("/opt/myriarch/{SERVICE}/journal.jsonl")]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// How many journal lines are of this kind.
    pub fn count(&self, kind: &str) -> usize {
        self.entries().iter().filter(|entry| entry["entry"] == kind).count()
    }

    /// The quarantined versions.
    pub fn quarantined(&self) -> Vec<String> {
        let status: Value =
            serde_json::from_slice(&self.verb(&["status", "--json"]).stdout).unwrap_or_default();
        let listed = status["quarantined"].as_array().cloned().unwrap_or_default();
        listed.iter().filter_map(|build| Some(build["version"].as_str()?.to_owned())).collect()
    }

    /// Whether the unit's main process runs the program of `version` and answers healthy.
    pub fn runs(&self, version: &str) -> bool {
        let pid = self.host.main_pid(SERVICE);
        let exe = self.host.exec(&["readlink", &format!("/proc/{pid}/exe")]);
        let path = String::from_utf8_lossy(&exe.stdout).into_owned();
        path.contains(&format!("/versions/{version}-")) && health(self.health_port) == Some(200)
    }

    /// Waits until `holds`, or panics with the host's log.
    ///
    /// # Panics
    ///
    /// When it takes too long.
    pub fn wait(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        self.host.wait(PATIENCE, what, |_| holds(self));
    }

    /// Waits until a trial is on and its program runs.
    pub fn wait_for_trial_of(&self, version: &str) {
        self.wait("the trial", |site| site.count("trial") > site.count("confirmed") && site.runs(version));
    }

    fn configuration(&self, plan: &SitePlan) -> String {
        format!(
            r#"schema = 1
service = "{SERVICE}"

[program]
binary = "{DISTRIBUTION}"

[run]
check_interval = "off"

[source]
kind = "http"
index = "{index}"

[[trust.keyless]]
issuer = "{ISSUER}"
identity = "{WORKFLOW}@refs/tags/v{{version}}"
trusted_root = "/etc/myriarch/root.json"

[restart]
kind = "systemd"
unit = "{SERVICE}"

[validate]
timeout = "60s"

[probe]
http = "http://127.0.0.1:{port}/"
settle = "30s"
soak = "{soak}ms"
interval = "200ms"
"#,
            index = self.publisher.index(),
            port = self.health_port,
            soak = plan.soak_ms,
        )
    }
}
