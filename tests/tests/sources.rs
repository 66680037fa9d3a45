//! Where releases come from, through the real binary: a directory, an index over HTTP, URL templates.

use std::time::Duration;

use myriarch_tests::{
    collector::StandIn,
    machine::{DISTRIBUTION, Machine, Plan, words},
    programs::Programs,
};

fn machine() -> Machine {
    Machine::new(Programs::stand_ins(), Plan::default())
}

#[test]
fn releases_in_a_directory_are_found_verified_and_installed() {
    let mut machine = machine();
    machine.take_releases_from_a_directory();
    let (one, two) = ("1.0.0", "1.1.0");
    machine.offer_program(one, &StandIn::version(one).build());
    machine.start();
    machine.wait(Duration::from_secs(30), "the first version", |machine| {
        machine.running_version().as_deref() == Some(one) && machine.is_idle()
    });
    machine.offer_program(two, &StandIn::version(two).build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some(two));
}

#[test]
fn a_release_that_only_templates_know_is_installed_by_its_version() {
    let mut machine = machine();
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    machine.stop();
    let url = machine.server().url();
    machine.set_source(
        &format!(
            "kind = \"http\"\narchive = \"{url}/{DISTRIBUTION}_{{version}}_linux.tar.gz\"\nchecksum = \"{{archive}}.sha256\"\nbundle = \"{{archive}}.sigstore.json\""
        ),
    );
    machine.offer_program("1.1.0", &StandIn::version("1.1.0").build());
    machine.start();
    machine.wait_idle();
    let output = machine.verb(&["update", "--to", "1.1.0"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some("1.1.0"));
    let output = machine.verb(&["update", "--to", "1.2.0"]);
    assert_eq!(output.status.code(), Some(5), "what is not there is not offered: {}", words(&output));
}
