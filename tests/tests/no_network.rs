//! An update, a verification and a rollback where there is no network at all.

use std::time::Duration;

use myriarch_tests::{
    collector::StandIn,
    machine::{DISTRIBUTION, Machine, Plan, words},
    programs::Programs,
    shared,
};

#[test]
fn without_any_network_updates_are_verified_confirmed_and_rolled_back() {
    if !rustix::process::geteuid().is_root() {
        return shared::skip("a network of its own", "root");
    }
    // Nothing but loopback, which the collector and its health endpoint live on.
    let alone = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""];
    let around = alone.map(str::to_owned).to_vec();
    let mut machine = Machine::new(Programs::stand_ins(), Plan { around, ..Plan::default() });
    machine.take_releases_from_a_directory();
    let (one, two) = ("1.0.0", "1.1.0");
    machine.offer_program(one, &StandIn::version(one).build());
    machine.start();
    machine.wait(Duration::from_secs(30), "the first version", |machine| {
        machine.current_version().as_deref() == Some(one) && machine.journal().contains("\"confirmed\"")
    });
    machine.wait_idle();
    machine.offer_program(two, &StandIn::version(two).build());
    let archive = machine.path().join(format!("releases/{DISTRIBUTION}_{two}_linux.tar.gz"));
    let judged = machine.verb(&["verify", &archive.to_string_lossy(), "--version", two]);
    assert_eq!(judged.status.code(), Some(0), "{}", words(&judged));
    let updated = machine.verb(&["update"]);
    assert_eq!(updated.status.code(), Some(0), "{}", words(&updated));
    let back = machine.verb(&["rollback"]);
    assert_eq!(back.status.code(), Some(0), "{}", words(&back));
    assert_eq!(machine.current_version().as_deref(), Some(one));
    assert_eq!(machine.server().requests().len(), 0, "nobody asked the server");
}
