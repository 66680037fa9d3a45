//! Orphans are collected and no parent is robbed of a status. One test alone in its process: it makes the process
//! a subreaper and counts its dead.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    os::unix::process::CommandExt as _,
    process::Command,
    time::{Duration, Instant},
};

use myriarch_supervise::{
    Child, Spec, Stop, become_subreaper,
    orphans::{PATIENCE, Reaper},
};

fn dead_children() -> usize {
    let own = std::process::id().to_string();
    let stats = fs::read_dir("/proc").unwrap().flatten();
    stats
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter(|stat| {
            let mut fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
            fields.next() == Some("Z") && fields.next() == Some(own.as_str())
        })
        .count()
}

/// Whether within `time` there are none for half a second on end: an orphan may live a little longer.
async fn no_zombie_stays(time: Duration) -> bool {
    let begin = Instant::now();
    let mut none_in_a_row = 0;
    while begin.elapsed() < time && none_in_a_row < 10 {
        none_in_a_row = if dead_children() == 0 { none_in_a_row + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    none_in_a_row == 10
}

#[tokio::test]
async fn two_hundred_statuses_come_through_beside_the_reaper_and_no_zombie_stays() {
    become_subreaper().unwrap();
    let reaper = tokio::spawn(Reaper::new().run());
    // Nobody asks for this one's status for longer than the reaper's patience.
    let mut late = Child::spawn(&Spec::new("/bin/sh", ["-c", "exit 9"])).unwrap();
    let begin = Instant::now();
    let script = |code: i32| format!("(sleep 0.01; exit 3) & exit {code}");
    let mut right = 0;
    for index in 0..200 {
        let code = index % 7;
        if index % 2 == 0 {
            let mut child = Child::spawn(&Spec::new("/bin/sh", ["-c", &script(code)])).unwrap();
            // Some are not waited for at once: their status lies there until then.
            if index % 8 == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let status = child.wait().await;
            right += usize::from(status.code() == Some(code));
            if index % 4 == 0 {
                child.stop(&Stop { grace: Duration::ZERO, ..Stop::default() }).await;
            }
        } else {
            // Another part of the program, which this crate does not know, with a group of its own.
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &script(code)]).process_group(0);
            let child = tokio::process::Command::from(command).status();
            let status = tokio::time::timeout(Duration::from_secs(10), child).await.unwrap();
            right += usize::from(status.is_ok_and(|status| status.code() == Some(code)));
        }
    }
    assert_eq!(right, 200);
    tokio::time::sleep((PATIENCE + Duration::from_secs(2)).saturating_sub(begin.elapsed())).await;
    assert_eq!(late.wait().await.code(), Some(9));
    drop(late);
    assert!(no_zombie_stays(Duration::from_secs(10)).await);

    // An orphan that leads a group looks like somebody's child and is collected all the same, later.
    let daemon = "setsid sh -c 'exit 0' & sleep 0.2 & exit 0";
    assert!(Command::new("/bin/sh").args(["-c", daemon]).process_group(0).status().unwrap().success());
    assert!(no_zombie_stays(Duration::from_secs(15)).await);
    reaper.abort();
}
