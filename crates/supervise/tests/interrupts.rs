//! A child can be interrupted even where this program was started with SIGINT ignored, as a shell script starts what
//! it runs in the background.

use std::process::Command;

use myriarch_supervise::{Child, Output, Spec};

#[test]
fn a_child_of_a_deaf_program_is_not_deaf() {
    let own = std::env::current_exe().unwrap();
    let script = "trap '' INT; exec \"$0\" --exact deaf_program";
    let output = Command::new("/bin/sh").args(["-c", script]).arg(own).env("DEAF", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Run by the other test, with SIGINT ignored.
#[tokio::test]
async fn deaf_program() {
    if std::env::var_os("DEAF").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let output = Output::File(log.clone());
    let mut child =
        Child::spawn(&Spec { output, ..Spec::new("/bin/grep", ["SigIgn", "/proc/self/status"]) }).unwrap();
    child.wait().await;
    let text = std::fs::read_to_string(log).unwrap();
    let mask = u64::from_str_radix(text.split_whitespace().last().unwrap(), 16).unwrap();
    assert_eq!(mask & 0b10, 0, "{text}");
}
