//! The whole story on a host: a collector that somebody installed under a unit of systemd's is found, looked at, taken
//! over, updated, left when it is bad, gone back on, and given back to the byte. Real systemd, real collectors, and
//! in the second story the real supervisor.
#![expect(clippy::expect_used, reason = "a test says what it expects by panicking")]

use std::{process::Output, time::Duration};

use myriarch_tests::{
    host::Host,
    machine::words,
    ports,
    programs::{self, Real},
    publisher::{ISSUER, Publisher, WORKFLOW},
};

const SOON: Duration = Duration::from_mins(2);
const CONFIG: &str = "/etc/myriarch/collector.toml";
const INSTALLED: &str = "/usr/bin/otelcol-testbed";
const DROP_IN: &str = "/etc/systemd/system/collector.service.d/50-myriarch.conf";

/// A host with a collector that a package could have installed, and a publisher of its releases.
struct Story {
    host: Host,
    publisher: Publisher,
    real: Real,
    health: u16,
}

impl Story {
    fn new(test: &str, supervised: bool) -> Option<Self> {
        let host = Host::start(test)?;
        let real = programs::real().expect("the tier `host` has the real programs");
        let [health, otlp, opamp, server] = ports::free();
        host.sh("useradd --system --home-dir /var/lib/collector --create-home --shell /usr/sbin/nologin collector");
        host.install(&real.path("collector-0.149.0"), INSTALLED, 0o755);
        host.write("/etc/collector/collector.env", format!("OTLP_PORT={otlp}\n"), 0o640);
        let collector = format!(
            "receivers:\n  otlp:\n    protocols:\n      http:\n        endpoint: 127.0.0.1:${{env:OTLP_PORT}}\nexporters:\n  debug: {{}}\nextensions:\n  health_check:\n    endpoint: 0.0.0.0:{health}\nservice:\n  extensions: [health_check]\n  telemetry:\n    metrics:\n      level: none\n  pipelines:\n    traces:\n      receivers: [otlp]\n      exporters: [debug]\n"
        );
        host.write("/etc/collector/config.yaml", collector, 0o644);
        let exec = if supervised {
            host.install(&real.path("opampsupervisor-0.149.0"), "/usr/bin/opampsupervisor", 0o755);
            host.write(
                "/etc/collector/supervisor.yaml",
                format!(
                    "# Ours: do not touch.\nserver:\n  endpoint: ws://127.0.0.1:{server}/v1/opamp\ncapabilities:\n  accepts_remote_config: true\n  reports_effective_config: true\nagent:\n  executable: {INSTALLED}   # the packaged one\n  config_files: [/etc/collector/config.yaml]\n  config_apply_timeout: 60s\n  bootstrap_timeout: 15s\n  opamp_server_port: {opamp}\nstorage:\n  directory: /var/lib/collector/supervisor\n"
                ),
                0o644,
            );
            "ExecStart=/usr/bin/opampsupervisor --config /etc/collector/supervisor.yaml\nKillMode=mixed\nKillSignal=SIGINT\n".to_owned()
        } else {
            format!(
                "ExecStartPre={INSTALLED} validate --config /etc/collector/config.yaml\nExecStart={INSTALLED} --config \"/etc/collector/config.yaml\"\nKillMode=mixed\n"
            )
        };
        let unit = format!(
            "[Unit]\nDescription=Collector of %H\n\n[Service]\nUser=collector\nGroup=collector\nEnvironmentFile=/etc/collector/collector.env\nWorkingDirectory=/var/lib/collector\n{exec}Restart=always\nRestartSec=1\nNoNewPrivileges=yes\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\nReadWritePaths=/var/lib/collector\nNoExecPaths=/\nExecPaths=/usr /lib /lib64 /bin\n\n[Install]\nWantedBy=multi-user.target\n"
        );
        host.write("/usr/lib/systemd/system/collector.service", unit, 0o644);
        host.sh("systemctl daemon-reload; systemctl enable --quiet --now collector");
        let story = Self { host, publisher: Publisher::new(), real, health };
        story.host.wait(SOON, "the installed collector to be healthy", |_| story.answers());
        Some(story)
    }

    fn answers(&self) -> bool {
        myriarch_tests::machine::health(self.health) == Some(200)
    }

    fn verb(&self, arguments: &[&str]) -> Output {
        self.host.verb(&[&["--config", CONFIG], arguments].concat())
    }

    /// Runs a verb that must end with `code`, and answers all it said.
    fn must(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.verb(arguments);
        let said = words(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}\n{}", self.host.log("collector"));
        said
    }

    fn offer(&mut self, version: &str, program: &str) {
        let release = self.publisher.release(version, &self.real.bytes(program));
        self.publisher.offer(release);
    }

    /// The detected configuration, with what nobody can detect filled in as an operator does.
    fn configure(&self) -> String {
        let detected = self.host.verb(&["config", "example", "--detect"]);
        assert_eq!(detected.status.code(), Some(0), "{}", words(&detected));
        let text = String::from_utf8(detected.stdout).expect("UTF-8");
        self.host.write(CONFIG, &text, 0o644);
        let refused = self.must(2, &["config", "check"]);
        assert!(refused.contains("`source.kind` is missing") && refused.contains("`trust`"), "{refused}");
        self.host.write("/etc/myriarch/root.json", self.publisher.sigstore().trusted_root_json(), 0o644);
        let (before, rest) = text.split_once("[source]").expect("a section [source]");
        let (_, after) = rest.split_once("[restart]").expect("a section [restart]");
        let filled = format!(
            "{before}[source]\nkind = \"http\"\nindex = \"{}\"\n\n[[trust.keyless]]\nissuer = \"{ISSUER}\"\nidentity = \"{WORKFLOW}@refs/tags/v{{version}}\"\ntrusted_root = \"/etc/myriarch/root.json\"\n\n[restart]{after}settle = \"60s\"\nsoak = \"2s\"\n",
            self.publisher.index()
        );
        self.host.write(CONFIG, filled, 0o644);
        self.must(0, &["config", "check"]);
        text
    }

    /// Every file that an import could touch, with its digest.
    fn files(&self) -> String {
        self.host.sh("find /etc/systemd /etc/collector /usr/lib/systemd/system/collector.service -type f -exec sha256sum {} + | sort; find /etc/systemd /etc/collector -printf '%p %m %u\\n' | sort")
    }

    /// The program that the process which answers runs.
    fn runs(&self) -> String {
        self.host.sh(&format!(
            "pid=$(ss -Hltnp 'sport = :{}' | sed -n 's/.*pid=\\([0-9]*\\).*/\\1/p' | head -1); readlink /proc/$pid/exe || true",
            self.health
        ))
    }

    /// The trial of `version` goes on after a reboot, judged as it runs, and ends well.
    fn reboot_in_mid_trial(&mut self, version: &str, program: &str) {
        self.host.sh(&format!("sed -i 's/^soak = .*/soak = \"10m\"/' {CONFIG}"));
        self.offer(version, program);
        let mut update = self.host.spawn(&["myriarch-updater", "--config", CONFIG, "update"]);
        self.host.wait(SOON, "the trial to run", |_| self.runs().contains(&format!("/{version}-")));
        self.host.reboot();
        update.wait().expect("the update ends with the machine");
        self.host.wait(SOON, "the collector after a reboot", |_| self.answers());
        self.runs_version(version);
        let status = self.must(0, &["status"]);
        assert!(status.contains("tries left") || status.contains("try left"), "{status}");
        self.host.sh(&format!("sed -i 's/^soak = .*/soak = \"2s\"/' {CONFIG}"));
        let pid = self.host.main_pid("collector");
        let recovered = self.must(0, &["recover"]);
        assert!(recovered.contains(&format!("the interrupted trial of {version}-")), "{recovered}");
        assert_eq!(self.host.main_pid("collector"), pid, "what runs well is judged as it is");
        self.runs_version(version);
    }

    fn runs_version(&self, version: &str) {
        let exe = self.runs();
        assert!(exe.contains(&format!("/opt/myriarch/collector/versions/{version}-")), "{exe}");
    }
}

#[test]
fn on_host_an_installed_collector_is_taken_over_updated_and_given_back() {
    let Some(mut story) =
        Story::new("on_host_an_installed_collector_is_taken_over_updated_and_given_back", false)
    else {
        return;
    };
    let before = story.files();
    let detected = story.configure();
    for seen in [
        "service = \"collector\"",
        "unit = \"collector.service\"",
        &format!("http = \"http://127.0.0.1:{}/\"", story.health),
    ] {
        assert!(detected.contains(seen), "{seen}: {detected}");
    }
    let doctor = story.must(1, &["doctor"]);
    assert!(doctor.contains("its hardening keeps it from the store"), "{doctor}");
    assert!(doctor.contains("not imported yet"), "{doctor}");

    let plan = story.must(0, &["import", "--dry-run"]);
    for shown in [
        DROP_IN,
        "| ExecStart=/opt/myriarch/collector/current/bin/otelcol-testbed --config \"/etc/collector/config.yaml\"",
        "| ExecPaths=/opt/myriarch/collector",
        "ExecStartPre=/usr/bin/otelcol-testbed validate",
    ] {
        assert!(plan.contains(shown), "{shown}: {plan}");
    }
    assert_eq!(story.files(), before, "a dry run touches nothing");
    assert!(!story.host.holds("test -e /opt/myriarch/collector"));

    let imported = story.must(0, &["import"]);
    assert!(imported.contains(&plan), "what is done is what was shown: {imported}");
    story.runs_version("0.149.0");
    assert!(story.must(0, &["import"]).contains("imported already"));
    let doctor = story.must(0, &["doctor"]);
    assert!(doctor.contains("collector.service sees the store"), "{doctor}");

    story.offer("0.158.0", "collector-0.158.0");
    story.must(0, &["update"]);
    story.runs_version("0.158.0");
    story.offer("0.158.2", "collector-0.158.2-crashing");
    story.must(3, &["update"]);
    story.runs_version("0.158.0");
    story.must(0, &["rollback"]);
    story.runs_version("0.149.0");
    let history = story.must(0, &["history"]);
    assert!(history.contains("imported from /usr/bin/otelcol-testbed"), "{history}");
    assert!(story.must(0, &["status"]).contains("0.149.0"));

    story.reboot_in_mid_trial("0.158.1", "collector-0.158.1");

    let undone = story.must(0, &["import", "--undo"]);
    assert!(undone.contains("every file is as it was"), "{undone}");
    assert_eq!(story.runs(), INSTALLED);
    assert_eq!(story.files(), before, "undone to the byte");
    assert!(story.must(0, &["import", "--undo"]).contains("nothing to undo"));
    story.host.sh("rm -r /opt/myriarch/collector");
    story.must(0, &["import"]);
    story.runs_version("0.149.0");
}

#[test]
fn on_host_a_supervised_collector_is_taken_over_updated_and_given_back() {
    let Some(mut story) =
        Story::new("on_host_a_supervised_collector_is_taken_over_updated_and_given_back", true)
    else {
        return;
    };
    let before = story.files();
    let detected = story.configure();
    assert!(detected.contains("effective = \"/var/lib/collector/supervisor/effective.yaml\""), "{detected}");
    let plan = story.must(0, &["import", "--dry-run"]);
    assert!(plan.contains("-   executable: /usr/bin/otelcol-testbed   # the packaged one"), "{plan}");
    assert!(
        plan.contains(
            "+   executable: /opt/myriarch/collector/current/bin/otelcol-testbed   # the packaged one"
        ),
        "{plan}"
    );
    story.must(0, &["import"]);
    story.runs_version("0.149.0");
    story.offer("0.158.0", "collector-0.158.0");
    story.must(0, &["update"]);
    story.runs_version("0.158.0");
    story.offer("0.158.2", "collector-0.158.2-crashing");
    story.must(3, &["update"]);
    story.runs_version("0.158.0");
    // An edit of the operator's own, made since, stays.
    story
        .host
        .sh("sed -i 's/# Ours: do not touch./# Ours, and edited since./' /etc/collector/supervisor.yaml");
    story.must(0, &["import", "--undo"]);
    assert_eq!(story.runs(), INSTALLED);
    story
        .host
        .sh("sed -i 's/# Ours, and edited since./# Ours: do not touch./' /etc/collector/supervisor.yaml");
    assert_eq!(story.files(), before, "undone to the byte");
}

#[test]
fn on_host_an_import_that_does_not_become_healthy_is_put_back() {
    let Some(story) = Story::new("on_host_an_import_that_does_not_become_healthy_is_put_back", false) else {
        return;
    };
    // A start that fails as soon as the import is there: nothing of the plan can know.
    story.host.write(
        "/etc/systemd/system/collector.service.d/10-odd.conf",
        format!("[Service]\nExecStartPre=/bin/sh -c '! test -e {DROP_IN}'\n"),
        0o644,
    );
    story.host.sh("systemctl daemon-reload");
    let before = story.files();
    story.configure();
    story.host.sh("mkdir -p /opt/myriarch && chmod 0700 /opt/myriarch");
    let said = story.must(1, &["import"]);
    assert!(said.contains("nothing was touched") && said.contains("Permission denied"), "{said}");
    assert_eq!(story.files(), before, "a copy that its user cannot run is no program");
    story.host.sh("chmod 0755 /opt/myriarch");
    let said = story.must(3, &["import"]);
    assert!(said.contains("everything is as it was before"), "{said}");
    assert_eq!(story.runs(), INSTALLED);
    assert_eq!(story.files(), before);
    assert!(story.must(1, &["doctor"]).contains("not imported yet"));
}

#[test]
fn on_host_an_import_killed_after_the_restart_counts_as_done() {
    let Some(story) = Story::new("on_host_an_import_killed_after_the_restart_counts_as_done", false) else {
        return;
    };
    // A start is over only some time after the collector runs: time to be killed in.
    story.host.write(
        "/etc/systemd/system/collector.service.d/10-slow.conf",
        "[Service]\nExecStartPost=/bin/sleep 20\n",
        0o644,
    );
    story.host.sh("systemctl daemon-reload");
    let before = story.files();
    story.configure();
    let mut import = story.host.spawn(&["myriarch-updater", "--config", CONFIG, "import"]);
    story.host.wait(SOON, "the slot's program to run", |_| story.runs().contains("/versions/"));
    story.host.sh("kill -9 $(pidof myriarch-updater)");
    import.wait().expect("podman ends");
    assert!(story.host.sh("cat /opt/myriarch/collector/import.json").contains("\"writing\""));
    let said = story.must(0, &["import"]);
    assert!(said.contains("it counts as done"), "{said}");
    story.runs_version("0.149.0");
    story.must(0, &["import", "--undo"]);
    assert_eq!(story.runs(), INSTALLED);
    assert_eq!(story.files(), before);
}
