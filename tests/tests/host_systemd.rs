//! The updater beside a real systemd.

use std::time::Duration;

use myriarch_tests::host::Host;

#[test]
fn on_host_what_was_written_outlives_a_reboot_and_a_power_cut() {
    let Some(host) = Host::start("on_host_what_was_written_outlives_a_reboot_and_a_power_cut") else {
        return;
    };
    let version = host.verb(&["--version"]);
    assert!(version.status.success() && version.stdout.starts_with(b"myriarch-updater "), "{version:?}");
    let unit = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";
    host.write("/etc/systemd/system/sleeper.service", unit, 0o644);
    host.sh("systemctl enable --quiet --now sleeper");
    let first = host.main_pid("sleeper");
    assert!(first > 0);
    host.reboot();
    host.wait(Duration::from_secs(30), "the unit after a reboot", |host| host.main_pid("sleeper") > 0);
    host.power_cut();
    host.wait(Duration::from_secs(30), "the unit after a power cut", |host| host.main_pid("sleeper") > 0);
    assert!(host.holds("test -s /etc/systemd/system/sleeper.service"));
}
