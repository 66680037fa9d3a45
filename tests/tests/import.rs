//! A collector that is installed: found, looked at, taken over and given back, by the real binary against a systemctl
//! that only tells what the files of a temporary directory say. What systemd itself makes of it is told by the
//! stories on a real host.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

#[path = "import/desk.rs"]
mod desk;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use myriarch_tests::{
    built,
    collector::{Health, StandIn, Validate},
    publisher::DISTRIBUTION,
};

use self::desk::Desk;

/// The units that ship are shown whole; their text is not this test's.
fn without_shipped_units(plan: &str) -> String {
    let mut shown = true;
    let mut kept = String::new();
    for line in plan.lines() {
        if !line.starts_with(' ') {
            shown = !line.contains("/units/myriarch-");
            if !shown {
                kept.push_str(line);
                kept.push_str(" …\n");
            }
        }
        if shown {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[test]
fn a_plan_is_shown_in_full_and_touches_nothing() {
    let desk = Desk::new();
    let before = desk.files();
    let plan = desk.must(0, &desk.import(&["--dry-run"]));
    assert_eq!(without_shipped_units(&plan), include_str!("golden/import-unit.txt"));
    assert_eq!(desk.files(), before);
    assert!(!desk.path("store").exists());

    let desk = Desk::supervised("'/nowhere'");
    let text = fs::read_to_string(desk.path("etc/supervisor.yaml")).unwrap();
    let program = desk.path("usr").join(DISTRIBUTION);
    desk.write(
        "etc/supervisor.yaml",
        &text.replace("'/nowhere'", &format!("'{}'", program.display())),
        0o640,
    );
    let plan = desk.must(0, &desk.import(&["--dry-run"]));
    assert_eq!(without_shipped_units(&plan), include_str!("golden/import-supervisor.txt"));
}

#[test]
fn what_was_imported_is_given_back_to_the_byte_and_twice_is_once() {
    let program = |desk: &Desk| desk.path("usr").join(DISTRIBUTION).display().to_string();
    let supervised = Desk::supervised("/nowhere");
    let text = fs::read_to_string(supervised.path("etc/supervisor.yaml")).unwrap();
    supervised.write("etc/supervisor.yaml", &text.replace("/nowhere", &program(&supervised)), 0o640);
    for desk in [Desk::new(), supervised] {
        let before = desk.files();
        let said = desk.must(0, &desk.import(&[]));
        assert!(said.contains("imported: 1.0.0-"), "{said}");
        assert_ne!(desk.files(), before);
        assert!(desk.must(0, &desk.import(&[])).contains("is imported already"));
        let status = desk.must(0, &desk.command(&["status"]).output().unwrap());
        assert!(status.contains("imported from DIR/usr/otelcol-testbed"), "{status}");
        let history = desk.must(0, &desk.command(&["history"]).output().unwrap());
        assert!(history.contains("imported from DIR/usr/otelcol-testbed"), "{history}");
        assert_eq!(
            fs::read(desk.path("store/current/bin").join(DISTRIBUTION)).unwrap(),
            fs::read(program(&desk)).unwrap()
        );
        let manifest = fs::read_to_string(desk.path("store/current/slot.json")).unwrap();
        assert!(manifest.contains("\"by\": \"imported\""), "{manifest}");

        let said = desk.must(0, &desk.import(&["--undo"]));
        assert!(said.contains("every file is as it was"), "{said}");
        assert_eq!(desk.files(), before);
        assert!(desk.path("store/current").symlink_metadata().is_err());
        assert!(desk.must(0, &desk.import(&["--undo"])).contains("nothing to undo"));
        assert_eq!(desk.journal().matches("import-undone").count(), 1);
        let recovered = desk.must(0, &desk.command(&["recover", "--before-start"]).output().unwrap());
        assert!(recovered.contains("nothing is installed"), "{recovered}");
        desk.must(0, &desk.import(&[]));
    }
}

#[test]
fn nothing_is_started_where_nothing_ran() {
    let desk = Desk::new();
    desk.must(0, &desk.import(&[]));
    desk.must(0, &desk.import(&["--undo"]));
    let asked = fs::read_to_string(desk.path("asked")).unwrap();
    assert!(asked.lines().all(|line| line == "daemon-reload"), "{asked}");
}

#[test]
fn a_variable_that_names_the_collector_is_set_by_the_drop_in() {
    let desk = Desk::supervised("${env:COLLECTOR_EXE}");
    let program = desk.path("usr").join(DISTRIBUTION);
    desk.write(
        "properties",
        &format!("LoadState=loaded\nEnvironment=COLLECTOR_EXE={}\n", program.display()),
        0o644,
    );
    let plan = desk.must(0, &desk.import(&["--dry-run"]));
    assert!(plan.contains("| Environment=COLLECTOR_EXE=DIR/store/current/bin/otelcol-testbed"), "{plan}");
    assert!(!plan.contains("supervisor.yaml"), "{plan}");
    // A file wins over any drop-in.
    desk.write("etc/env", &format!("COLLECTOR_EXE={}\n", program.display()), 0o644);
    let file =
        format!("LoadState=loaded\nEnvironmentFiles={} (ignore_errors=no)\n", desk.path("etc/env").display());
    desk.write("properties", &file, 0o644);
    let said = desk.must(1, &desk.import(&[]));
    assert!(said.contains("a drop-in cannot win over that file"), "{said}");
    // And so does one that a wildcard stands for.
    desk.write("properties", &file.replace("/env ", "/en* "), 0o644);
    let said = desk.must(1, &desk.import(&[]));
    assert!(said.contains("a drop-in cannot win over that file"), "{said}");
}

#[test]
fn a_file_that_somebody_else_could_have_written_is_refused_unless_accepted() {
    let desk = Desk::new();
    let program = desk.path("usr").join(DISTRIBUTION);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o775)).unwrap();
    let said = desk.must(5, &desk.import(&[]));
    assert!(said.contains("found mode 0775") && said.contains("--accept writable"), "{said}");
    assert!(desk.path("units/collector.service.d").symlink_metadata().is_err());
    desk.must(0, &desk.import(&["--accept", "writable"]));
}

#[test]
fn what_is_no_program_or_another_one_is_refused() {
    let desk = Desk::new();
    let program = desk.path("usr").join(DISTRIBUTION);
    let honest = fs::read(&program).unwrap();
    let other = StandIn::version("1.0.0").dist("otelcol-other").build();
    for (bytes, mode, code, found) in [
        (b"#!/bin/sh\nexec otelcol\n".to_vec(), 0o755, 1, "expected an ELF program, found a script"),
        (honest.clone(), 0o4755, 1, "expected no set-user-ID"),
        (
            other,
            0o755,
            1,
            "--version: expected \"otelcol-testbed version …\", found \"otelcol-other version 1.0.0\"",
        ),
    ] {
        fs::write(&program, bytes).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        let before = desk.files();
        let said = desk.must(code, &desk.import(&[]));
        assert!(said.contains(found), "{found}: {said}");
        assert_eq!(desk.files(), before);
        assert!(desk.path("store/current").symlink_metadata().is_err());
    }
}

#[test]
fn a_unit_that_cannot_follow_is_refused_with_the_reason() {
    let desk = Desk::new();
    let store = desk.path("store").display().to_string();
    for (properties, found) in [
        ("LoadState=masked\n".to_owned(), "found it masked"),
        ("LoadState=not-found\n".to_owned(), "found no file of that name"),
        ("LoadState=loaded\nRootDirectory=/srv/root\n".to_owned(), "RootDirectory=/srv/root"),
        (format!("LoadState=loaded\nInaccessiblePaths=-{store}\n"), "hides the store"),
    ] {
        desk.write("properties", &properties, 0o644);
        let said = desk.must(1, &desk.import(&["--dry-run"]));
        assert!(said.contains(found) && said.contains("hint: "), "{found}: {said}");
    }
    for (properties, line) in [
        (format!("NoExecPaths=/\nExecPaths=/usr {store}/none\n"), "| ExecPaths=DIR/store"),
        ("TemporaryFileSystem=/:ro\n".to_owned(), "| BindReadOnlyPaths=DIR/store"),
    ] {
        desk.write("properties", &format!("LoadState=loaded\n{properties}"), 0o644);
        let plan = desk.must(0, &desk.import(&["--dry-run"]));
        assert!(plan.contains(line), "{line}: {plan}");
    }
    desk.write("properties", "LoadState=loaded\n", 0o644);
    fs::create_dir(desk.path("units/collector.service.d")).unwrap();
    desk.write(
        "units/collector.service.d/60-own.conf",
        "[Service]\nExecStart=\nExecStart=/bin/true\n",
        0o644,
    );
    let said = desk.must(1, &desk.import(&["--dry-run"]));
    assert!(said.contains("would win over 50-myriarch.conf"), "{said}");
}

#[test]
fn an_import_that_was_killed_is_undone_by_the_next_one_or_by_undo() {
    for undo in [&["--undo"][..], &[]] {
        let desk = Desk::new();
        let before = desk.files();
        desk.write("hang", "", 0o644);
        let units = desk.path("units").display().to_string();
        let mut killed = desk.command(&["import", "--unit-directory", &units]);
        let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while !desk.path("asked").exists() {
            assert!(began.elapsed() < Duration::from_mins(1), "daemon-reload is not asked for");
            thread::sleep(Duration::from_millis(20));
        }
        killed.kill().unwrap();
        killed.wait().unwrap();
        fs::remove_file(desk.path("hang")).unwrap();
        assert_ne!(desk.files(), before);
        let said = desk.must(0, &desk.import(undo));
        if undo.is_empty() {
            assert!(said.contains("imported: 1.0.0-"), "made anew, not taken for done: {said}");
            assert!(desk.path("units/collector.service.d/50-myriarch.conf").exists());
            desk.must(0, &desk.import(&["--undo"]));
        }
        assert_eq!(desk.files(), before);
    }
}

#[test]
fn an_undo_that_leaves_no_healthy_collector_is_taken_back() {
    let desk = Desk::running();
    let before = desk.files();
    desk.must(0, &desk.import(&[]));
    let imported = desk.files();
    let current = desk.path("store/current");
    assert!(desk.runs().starts_with(desk.path("store")));

    // What a package brought since does not take the configuration: it is not even tried.
    let restarts = desk.restarts();
    desk.install(&StandIn::version("1.0.1").validate(Validate::Rejects("no such key".to_owned())));
    let said = desk.must(1, &desk.import(&["--undo"]));
    assert!(said.contains("does not accept the configuration that runs"), "{said}");
    assert_eq!((desk.restarts(), current.exists()), (restarts, true));

    // Or it takes it, and is not well.
    desk.install(&StandIn::version("1.0.1").health(Health::Never));
    let said = desk.must(3, &desk.import(&["--undo"]));
    assert!(said.contains("the undo failed") && said.contains("it is imported as before"), "{said}");
    assert!(current.exists() && desk.runs().starts_with(desk.path("store")));
    assert!(desk.must(0, &desk.import(&[])).contains("is imported already"));
    let without_installed = |files: Vec<(PathBuf, Vec<u8>, u32)>| -> Vec<_> {
        files.into_iter().filter(|(path, ..)| !path.starts_with(desk.path("usr"))).collect()
    };
    assert_eq!(without_installed(desk.files()), without_installed(imported));

    desk.install(&StandIn::version("1.0.0"));
    desk.must(0, &desk.import(&["--undo"]));
    assert_eq!(desk.files(), before);
    assert!(desk.runs().starts_with(desk.path("usr")));
}

#[test]
fn what_was_interrupted_is_judged_by_what_runs() {
    let desk = Desk::running();
    let before = desk.files();
    desk.must(0, &desk.import(&[]));
    let (imported, restarts, journal) = (desk.files(), desk.restarts(), desk.journal());
    desk.record_says("writing");
    let said = desk.must(0, &desk.import(&[]));
    assert!(said.contains("it counts as done"), "{said}");
    assert_eq!((desk.files(), desk.restarts(), desk.journal()), (imported, restarts, journal));
    assert!(desk.must(0, &desk.import(&["--undo"])).contains("undone"));

    desk.must(0, &desk.import(&[]));
    desk.record_says("undoing");
    let said = desk.must(0, &desk.import(&[]));
    assert!(said.contains("an undo was interrupted") && said.contains("imported: 1.0.0-"), "{said}");

    // Somebody stopped it since: it stays so.
    desk.record_says("writing");
    desk.stop();
    let restarts = desk.restarts();
    desk.must(0, &desk.import(&["--undo"]));
    assert_eq!((desk.files(), desk.restarts()), (before, restarts));
}

#[test]
fn an_import_killed_before_its_slot_is_undone_and_a_refused_one_leaves_no_record() {
    let desk = Desk::new();
    let before = desk.files();
    desk.must(0, &desk.import(&[]));
    desk.record_says("writing");
    for name in ["current", "journal.jsonl"] {
        fs::remove_file(desk.path("store").join(name)).unwrap();
    }
    desk.must(0, &desk.import(&["--undo"]));
    assert_eq!(desk.files(), before);

    desk.install(&StandIn::version("1.0.0").dist("otelcol-other"));
    desk.must(1, &desk.import(&[]));
    assert!(desk.path("store/import.json").symlink_metadata().is_err());
}

#[test]
fn what_systemd_does_not_take_is_put_back() {
    let desk = Desk::new();
    let before = desk.files();
    // The first reload fails, the one of the way back does not.
    let script = fs::read_to_string(desk.path("bin/systemctl")).unwrap();
    desk.write(
        "bin/systemctl",
        &script.replace("test ! -e $here/fail", "rm $here/fail 2>/dev/null && exit 1 || true"),
        0o755,
    );
    desk.write("fail", "", 0o644);
    let said = desk.must(1, &desk.import(&[]));
    assert!(said.contains("everything is as it was before"), "{said}");
    assert_eq!(desk.files(), before);
    assert!(desk.path("store/current").symlink_metadata().is_err());
    assert!(desk.path("store/import.json").symlink_metadata().is_err());
}

#[test]
fn a_drop_in_that_was_edited_since_is_not_overwritten() {
    let desk = Desk::new();
    desk.must(0, &desk.import(&[]));
    let path = desk.path("units/collector.service.d/50-myriarch.conf");
    let edited = fs::read_to_string(&path).unwrap() + "Nice=5\n";
    fs::write(&path, &edited).unwrap();
    let said = desk.must(1, &desk.import(&["--undo"]));
    assert!(
        said.contains("found it changed since")
            && said.contains("`rm DIR/units/collector.service.d/50-myriarch.conf`"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), edited);
    assert!(desk.path("store/current").exists());
    fs::remove_file(&path).unwrap();
    desk.must(0, &desk.import(&["--undo"]));
}

#[test]
fn an_import_without_a_unit_is_a_matter_of_the_configuration() {
    let desk = Desk::new();
    let text = desk
        .configuration()
        .replace("kind = \"systemd\"\nunit = \"collector\"", "kind = \"child\"\ncommand = [\"{program}\"]");
    desk.write("updater.toml", &text, 0o644);
    let said = desk.must(2, &desk.import(&[]));
    assert!(said.contains("expected restart.kind = \"systemd\""), "{said}");
}

#[test]
fn a_collector_is_detected_with_where_each_value_was_seen() {
    let desk = Desk::new();
    let output = desk.command(&["config", "example", "--detect"]).output().unwrap();
    let text = desk.must(0, &output);
    assert_eq!(text, include_str!("golden/detected.txt"));
    desk.write("detected.toml", &String::from_utf8(output.stdout).unwrap(), 0o644);
    let mut check = Command::new(built::updater());
    let check =
        check.arg("--config").arg(desk.path("detected.toml")).args(["config", "check"]).output().unwrap();
    let said = desk.must(2, &check);
    assert!(
        said.contains("`source.kind` is missing") && said.contains("`trust`: expected at least one"),
        "{said}"
    );

    let supervised = Desk::supervised("/nowhere/otelcol");
    let text = supervised.must(
        0,
        &supervised.command(&["config", "example", "--detect", "--unit", "collector"]).output().unwrap(),
    );
    assert!(text.contains("effective = \"DIR/etc/effective.yaml\""), "{text}");
}

#[test]
fn doctor_says_what_is_in_the_way_and_changes_nothing() {
    let desk = Desk::new();
    let before = desk.files();
    let doctor = |desk: &Desk, code| desk.must(code, &desk.command(&["doctor"]).output().unwrap());
    let said = doctor(&desk, 1);
    assert!(said.contains("which is not imported yet"), "{said}");
    assert!(said.contains("PROBLEM  health"), "{said}");
    assert!(!desk.path("store").exists());
    assert_eq!(desk.files(), before);
    desk.must(0, &desk.import(&[]));
    let said = doctor(&desk, 1);
    let told = without_figures(&said);
    assert_eq!(told, include_str!("golden/doctor.txt"));
    let output = desk.command(&["doctor", "--json"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["schema"], &document["exit_code"]), (&1.into(), &1.into()));

    desk.write("watchdogs", "not-found", 0o644);
    let said = doctor(&desk, 1);
    let missing =
        "myriarch-recover@collector.service: expected a unit that systemd has loaded, found no file";
    assert!(said.contains(missing), "{said}");

    fs::set_permissions(desk.path("store"), fs::Permissions::from_mode(0o777)).unwrap();
    desk.write("properties", "LoadState=loaded\nNeedDaemonReload=yes\nNoExecPaths=/\n", 0o644);
    let said = doctor(&desk, 1);
    for found in ["found mode 0777", "systemctl daemon-reload", "its hardening keeps it from the store"] {
        assert!(said.contains(found), "{found}: {said}");
    }
    fs::set_permissions(desk.path("store"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(desk.path("units/collector.service.d/50-myriarch.conf")).unwrap();
    let said = doctor(&desk, 1);
    assert!(said.contains("does not follow DIR/store/current/bin/otelcol-testbed"), "{said}");
    assert!(said.contains("has no OnFailure=myriarch-recover@collector.service"), "{said}");
    desk.write("properties", "LoadState=masked\n", 0o644);
    assert!(doctor(&desk, 1).contains("found it masked"));
}

#[test]
fn doctor_reads_the_supervisors_configuration() {
    let desk = Desk::supervised("/usr/bin/otelcol");
    let path = desk.path("etc/supervisor.yaml");
    let text =
        fs::read_to_string(&path).unwrap().replace("2m", "5s") + "capabilities:\n  accepts_packages: true\n";
    fs::write(&path, text).unwrap();
    let said = desk.must(1, &desk.command(&["doctor"]).output().unwrap());
    assert!(said.contains("accepts_packages is true") && said.contains("bootstrap_timeout is 5s"), "{said}");
}

/// Times and sizes differ from run to run.
fn without_figures(said: &str) -> String {
    let line = |line: &str| match line {
        line if line.contains("MiB free at") => "ok       free space      …".to_owned(),
        line if line.contains(" clock ") => "ok       clock           …".to_owned(),
        line if line.contains(" access ") => "ok       access          …".to_owned(),
        line => line.to_owned(),
    };
    said.lines().map(|text| line(text) + "\n").collect()
}
