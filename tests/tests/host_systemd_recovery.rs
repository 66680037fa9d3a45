//! A trial on a host with a real systemd whose updater, or whose machine, does not live to see its end.
#![expect(clippy::expect_used, reason = "a test says what it expects by panicking")]

use myriarch_tests::{
    collector::{End, StandIn},
    machine::words,
    site::{SERVICE, Site, SitePlan},
};

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";

/// Long enough for a test to act in it.
const LONG_SOAK_MS: u32 = 15_000;

fn long_soak() -> SitePlan {
    SitePlan { soak_ms: LONG_SOAK_MS, ..SitePlan::default() }
}

/// Starts an update to [`NEW`] and leaves its updater dead, the trial open and the candidate running.
fn kill_in_mid_trial(site: &Site) {
    let update = site.spawn(&["update"]);
    site.wait_for_trial_of(NEW);
    site.host.sh(
        "for p in /proc/[0-9]*; do case \"$(readlink $p/exe)\" in *myriarch-updater) kill -KILL ${p#/proc/};; esac; done",
    );
    let output = update.wait_with_output().expect("the update ends");
    assert!(!output.status.success(), "{}", words(&output));
}

#[test]
fn on_host_a_candidate_that_fails_when_the_updater_is_dead_is_left_by_its_unit() {
    let test = "on_host_a_candidate_that_fails_when_the_updater_is_dead_is_left_by_its_unit";
    let plan = SitePlan { unit: "StartLimitIntervalSec=1h\nStartLimitBurst=4\n".to_owned(), ..long_soak() };
    let Some(mut site) = Site::start(test, &plan) else { return };
    site.install(OLD);
    // It dies a while after it was killed for, each time, so that systemd gives up in the end.
    site.offer(NEW, &StandIn::version(NEW).end(End::Exit { ms: 4000, code: 7 }));
    kill_in_mid_trial(&site);
    site.wait("the way back", |site| site.count("rolled-back") == 1 && site.runs(OLD));
    assert_eq!(site.current_version().as_deref(), Some(OLD));
    assert_eq!(site.quarantined(), [NEW]);
    let said = site.host.log("myriarch-recover@col");
    assert!(
        said.contains("col.service is failed (exit-code: exited with 7); held by its start limit"),
        "{said}"
    );
    // Nothing is left to do.
    let output = site.verb(&["recover"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert!(words(&output).contains("nothing was interrupted"), "{}", words(&output));
}

#[test]
fn on_host_a_candidate_that_runs_when_the_updater_is_dead_is_judged_as_it_is() {
    let test = "on_host_a_candidate_that_runs_when_the_updater_is_dead_is_judged_as_it_is";
    let Some(mut site) = Site::start(test, &long_soak()) else { return };
    site.install(OLD);
    site.offer(NEW, &StandIn::version(NEW));
    kill_in_mid_trial(&site);
    let (pid, trials) = (site.host.main_pid(SERVICE), site.count("trial"));
    let output = site.verb(&["recover"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert!(words(&output).contains("it runs, and is judged as it is"), "{}", words(&output));
    assert_eq!((site.host.main_pid(SERVICE), site.count("trial")), (pid, trials));
    assert!(site.runs(NEW) && site.count("confirmed") == 2);
}

#[test]
fn on_host_a_reboot_in_mid_trial_costs_a_try_and_the_trial_goes_on() {
    let test = "on_host_a_reboot_in_mid_trial_costs_a_try_and_the_trial_goes_on";
    let Some(mut site) = Site::start(test, &long_soak()) else { return };
    site.install(OLD);
    site.offer(NEW, &StandIn::version(NEW));
    kill_in_mid_trial(&site);
    site.host.sh("systemctl enable --quiet myriarch-updater@col");
    site.host.power_cut();
    site.wait("the verdict", |site| site.count("confirmed") == 2);
    assert!(site.runs(NEW));
    let tries: Vec<_> = site
        .entries()
        .iter()
        .filter(|entry| entry["entry"] == "trial")
        .map(|entry| entry["tries"].clone())
        .collect();
    assert_eq!(tries, [2, 2, 1], "the first installation, the update, the start at boot");
    // What runs well is left alone when the updater comes and goes.
    let pid = site.host.main_pid(SERVICE);
    site.host.sh("systemctl restart myriarch-updater@col");
    let check = site.verb(&["check"]);
    assert_eq!(check.status.code(), Some(0), "{}", words(&check));
    assert_eq!(site.host.main_pid(SERVICE), pid);
    site.host.sh("systemctl stop myriarch-updater@col");
    assert_eq!(site.host.main_pid(SERVICE), pid);
}

#[test]
fn on_host_an_orderly_reboot_in_mid_trial_leaves_it_open() {
    let test = "on_host_an_orderly_reboot_in_mid_trial_leaves_it_open";
    let Some(mut site) = Site::start(test, &long_soak()) else { return };
    site.install(OLD);
    site.host.sh("systemctl enable --quiet --now myriarch-updater@col");
    site.offer(NEW, &StandIn::version(NEW));
    site.wait("the updater", |site| site.verb(&["check"]).status.code() == Some(100));
    let update = site.spawn(&["update"]);
    site.wait_for_trial_of(NEW);
    site.host.reboot();
    let _ = update.wait_with_output();
    site.wait("the verdict", |site| site.count("confirmed") == 2);
    assert!(site.runs(NEW));
    assert_eq!((site.count("withdrawn"), site.count("failed")), (0, 0), "{:?}", site.entries());
}

#[test]
fn on_host_a_trial_without_tries_is_left_before_the_boots_first_start() {
    let test = "on_host_a_trial_without_tries_is_left_before_the_boots_first_start";
    let Some(mut site) = Site::start(test, &long_soak()) else { return };
    site.install(OLD);
    site.offer(NEW, &StandIn::version(NEW));
    kill_in_mid_trial(&site);
    for _ in 0..2 {
        site.host.power_cut();
        site.wait("the candidate", |site| site.runs(NEW));
    }
    site.host.power_cut();
    site.wait("the old version", |site| site.runs(OLD));
    assert_eq!((site.count("failed"), site.count("rolled-back")), (1, 0));
    let said = site.host.log("myriarch-boot@col");
    assert!(said.contains("the trial was interrupted and no try is left"), "{said}");
    // What the watchdog finds running is judged, and not started once more.
    let pid = site.host.main_pid(SERVICE);
    let output = site.verb(&["recover"]);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    assert_eq!(site.host.main_pid(SERVICE), pid);
    assert_eq!(site.quarantined(), [NEW]);
    let again = site.verb(&["recover", "--before-start"]);
    assert_eq!(again.status.code(), Some(0), "{}", words(&again));
}
