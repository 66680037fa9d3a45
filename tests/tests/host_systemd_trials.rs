//! A collector that is a unit of a real systemd: updated, left, stopped and restarted by others.

use myriarch_tests::{
    collector::{End, StandIn, Validate},
    machine::words,
    site::{SERVICE, Site, SitePlan},
};

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";

/// Seconds of a soak that is long enough for a test to act in it.
const LONG_SOAK: u32 = 15;

#[test]
fn on_host_an_update_is_judged_in_the_units_own_surroundings() {
    // Nothing runs at first, so that all of it comes from the unit and its files.
    let service = "User=daemon\nGroup=daemon\nSupplementaryGroups=games\nWorkingDirectory=/var/lib/col\n\
                   EnvironmentFile=/etc/col/col.env\nRestart=on-failure\n";
    let plan = SitePlan { service: service.to_owned(), ..SitePlan::default() };
    let Some(mut site) = Site::start("on_host_an_update_is_judged_in_the_units_own_surroundings", &plan)
    else {
        return;
    };
    site.host.write("/etc/col/col.env", "# comes with the host\nCOL_TOKEN='a b'\n", 0o600);
    site.host.write("/var/lib/col/license", "x", 0o644);
    let id = |name: &str, what: &str| site.host.sh(&format!("getent {what} {name} | cut -d: -f3"));
    let number = |name: &str, what: &str| id(name, what).parse().expect("a number");
    let user = Validate::NeedsUser {
        uid: number("daemon", "passwd"),
        gid: number("daemon", "group"),
        group: number("games", "group"),
    };
    for (version, needs) in [
        (OLD, Validate::NeedsEnv("COL_TOKEN".into())),
        ("1.0.1", Validate::NeedsFile("license".into())),
        (NEW, user),
    ] {
        site.host.sh("systemctl stop col");
        site.offer(version, &StandIn::version(version).validate(needs));
        let output = site.verb(&["update"]);
        assert_eq!(output.status.code(), Some(0), "{}", words(&output));
        assert!(words(&output).contains("for nothing runs"), "{}", words(&output));
        assert!(site.runs(version));
    }
    // And where it runs, from the process.
    site.offer("1.2.0", &StandIn::version("1.2.0").validate(Validate::NeedsEnv("COL_TOKEN".into())));
    let output = site.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert!(words(&output).contains("environment of process"), "{}", words(&output));
    for name in ["updater", "recover", "boot"] {
        site.host.sh(&format!("systemd-analyze verify /etc/systemd/system/myriarch-{name}@.service 2>&1"));
    }
}

#[test]
fn on_host_a_crash_under_restart_always_is_left_at_once() {
    let plan =
        SitePlan { unit: "StartLimitIntervalSec=60\nStartLimitBurst=3\n".to_owned(), ..SitePlan::default() };
    let Some(mut site) = Site::start("on_host_a_crash_under_restart_always_is_left_at_once", &plan) else {
        return;
    };
    // One start more than the limit allows, each of our own.
    for version in ["0.7.0", "0.8.0", "0.9.0", OLD] {
        site.install(version);
    }
    // Restarted by systemd again and again, until it gives up.
    let last_words = "panic: out of luck, authorization: Bearer s3cr3t-0f-the-unit";
    site.offer(NEW, &StandIn::version(NEW).says(last_words).end(End::Exit { ms: 300, code: 7 }));
    let output = site.verb(&["update"]);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    let said = words(&output);
    assert!(said.contains("the program ended on trial: ") && said.contains("now runs: 1.0.0"), "{said}");
    assert!(site.runs(OLD));
    assert_eq!(site.quarantined(), [NEW]);
    // What the unit said last is in systemd's log alone.
    let history = words(&site.verb(&["history"]));
    assert!(history.contains("it said: panic: out of luck"), "{history}");
    assert!(!format!("{said}{history}").contains("s3cr3t"), "{said}{history}");
}

#[test]
fn on_host_a_failure_that_was_there_before_is_not_reset() {
    let plan =
        SitePlan { unit: "StartLimitIntervalSec=1h\nStartLimitBurst=3\n".to_owned(), ..SitePlan::default() };
    let Some(mut site) = Site::start("on_host_a_failure_that_was_there_before_is_not_reset", &plan) else {
        return;
    };
    site.install(OLD);
    site.host.sh("mv /etc/col/collector.yaml /etc/col/away.yaml; systemctl restart col || true");
    site.wait("the start limit", |site| site.host.property(SERVICE, "ActiveState") == "failed");
    site.host.sh("mv /etc/col/away.yaml /etc/col/collector.yaml");
    site.offer(NEW, &StandIn::version(NEW));
    let output = site.verb(&["update"]);
    assert_eq!(output.status.code(), Some(4), "{}", words(&output));
    let said = words(&output);
    assert!(
        said.contains("held by its start limit") && said.contains("systemctl reset-failed col.service"),
        "{said}"
    );
    assert_eq!(site.host.property(SERVICE, "ActiveState"), "failed");
    assert_eq!(site.current_version().as_deref(), Some(OLD));
    assert_eq!(site.quarantined(), [""; 0]);
    site.host.sh("systemctl reset-failed col");
    let output = site.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert!(site.runs(NEW));
}

#[test]
fn on_host_a_stop_in_mid_trial_ends_it_and_starts_nothing() {
    for restart in ["always", "on-failure"] {
        let service = format!("Restart={restart}\nRestartSec=100ms\n");
        let plan = SitePlan { service, ..SitePlan::default() };
        let Some(mut site) = Site::start("on_host_a_stop_in_mid_trial_ends_it_and_starts_nothing", &plan)
        else {
            return;
        };
        site.install(OLD);
        site.soak_for(LONG_SOAK);
        site.offer(NEW, &StandIn::version(NEW));
        let update = site.spawn(&["update"]);
        site.wait_for_trial_of(NEW);
        site.host.sh("systemctl stop col");
        let output = update.wait_with_output().expect("the update ends");
        assert_eq!(output.status.code(), Some(1), "{}", words(&output));
        assert!(words(&output).contains("col.service was stopped by somebody else"), "{}", words(&output));
        assert_eq!(site.host.property(SERVICE, "ActiveState"), "inactive");
        assert_eq!(site.current_version().as_deref(), Some(OLD));
        assert_eq!((site.quarantined(), site.count("withdrawn")), (vec![], 1));
    }
}

#[test]
fn on_host_a_restart_in_the_soak_begins_it_anew() {
    let plan = SitePlan::default();
    let Some(mut site) = Site::start("on_host_a_restart_in_the_soak_begins_it_anew", &plan) else { return };
    site.install(OLD);
    site.soak_for(LONG_SOAK);
    site.offer(NEW, &StandIn::version(NEW));
    let update = site.spawn(&["update"]);
    site.wait_for_trial_of(NEW);
    site.host.sh("systemctl restart col");
    let output = update.wait_with_output().expect("the update ends");
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    let said = words(&output);
    assert!(said.contains("col.service was restarted by somebody else; the soak begins anew"), "{said}");
    assert!(site.runs(NEW));
}

#[test]
fn on_host_a_masked_or_missing_unit_is_refused_before_anything_is_touched() {
    let test = "on_host_a_masked_or_missing_unit_is_refused_before_anything_is_touched";
    let Some(mut site) = Site::start(test, &SitePlan::default()) else { return };
    site.install(OLD);
    site.offer(NEW, &StandIn::version(NEW));
    site.host
        .sh("mv /etc/systemd/system/col.service /root/; systemctl mask --quiet col; systemctl daemon-reload");
    let (pid, journal) = (site.host.main_pid(SERVICE), site.entries());
    let refused = |site: &Site, words_of: &[&str]| {
        let output = site.verb(&["update"]);
        assert_eq!(output.status.code(), Some(1), "{}", words(&output));
        for part in words_of {
            assert!(words(&output).contains(part), "{part}: {}", words(&output));
        }
        assert_eq!((site.host.main_pid(SERVICE), site.entries()), (pid, journal.clone()));
        assert!(site.runs(OLD));
    };
    refused(&site, &["found it masked", "hint: `systemctl unmask col.service`"]);
    site.host.sh("rm /etc/systemd/system/col.service; systemctl daemon-reload");
    refused(&site, &["col.service: expected a service unit, found no file of that name", "hint: "]);
}
