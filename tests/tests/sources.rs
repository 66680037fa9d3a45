//! Where releases come from, through the real binary: a directory, an index over HTTP, URL templates.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::fs;

use myriarch_tests::{
    collector::StandIn,
    machine::{DISTRIBUTION, Machine, Plan, Release},
    programs::Programs,
};

fn machine() -> Machine {
    Machine::new(Programs::stand_ins(), Plan::default())
}

/// Replaces what follows `[source]` up to the next section.
fn set_source(machine: &Machine, source: &str) {
    let text = fs::read_to_string(machine.configuration()).unwrap();
    let begin = text.find("[source]").unwrap();
    let end = begin + text[begin..].find("[[trust").unwrap();
    let text = format!("{}[source]\n{source}\n\n{}", &text[..begin], &text[end..]);
    fs::write(machine.configuration(), text).unwrap();
}

fn words(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn releases_in_a_directory_are_found_verified_and_installed() {
    let mut machine = machine();
    let directory = machine.path().join("releases");
    fs::create_dir(&directory).unwrap();
    let put = |releases: &[Release]| {
        let mut listed = vec![];
        for Release { version, archive, bundle, .. } in releases {
            let name = format!("{DISTRIBUTION}_{version}_linux_amd64.tar.gz");
            fs::write(directory.join(&name), archive).unwrap();
            fs::write(directory.join(format!("{name}.sigstore.json")), bundle.as_ref().unwrap()).unwrap();
            let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
            listed.push(serde_json::json!({
                "version": version,
                "assets": [{ "os": "linux", "arch": arch, "archive": name, "bundle": format!("{name}.sigstore.json") }]
            }));
        }
        let index = serde_json::json!({ "schema": 1, "releases": listed });
        fs::write(directory.join("index.json"), index.to_string()).unwrap();
    };
    set_source(&machine, &format!("kind = \"directory\"\npath = \"{}\"", directory.display()));
    let (one, two) = ("1.0.0", "1.1.0");
    let first = machine.release(one, &StandIn::version(one).build());
    put(std::slice::from_ref(&first));
    machine.start();
    machine.wait(std::time::Duration::from_secs(30), "the first version", |machine| {
        machine.running_version().as_deref() == Some(one) && machine.is_idle()
    });
    put(&[first, machine.release(two, &StandIn::version(two).build())]);
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
    set_source(
        &machine,
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
