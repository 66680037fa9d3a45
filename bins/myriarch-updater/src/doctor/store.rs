//! The store: whose it is, whether what lies in it can run, how much room it has, and who can reach the program.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use myriarch_cli::doctor::Finding;
use myriarch_probe::exec::Credentials;
use myriarch_store::{Store, Unfit};
use rustix::fs::StatVfsMountFlags;

use super::Host;

const WRITABLE_BY_OTHERS: u32 = 0o022;
/// What a collector is assumed to take where none is there to be measured, in bytes.
const USUAL: u64 = 350 << 20;
/// Files that an update makes, with room to spare.
const FILES: u64 = 64;
const MIB: u64 = 1 << 20;

pub(crate) fn directory(host: &Host) -> Vec<Finding> {
    const CHECK: &str = "store";
    let path = &host.config.store.path;
    let shown = path.display();
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut found = mount(nearest(path), CHECK);
            found.push(Finding::unseen(
                CHECK,
                format!("{shown} is not there yet; `import` or the first update makes it"),
            ));
            return found;
        }
        Err(error) => return vec![Finding::unseen(CHECK, format!("{shown}: {error}"))],
    };
    let mut found = mount(path, CHECK);
    if !metadata.is_dir() {
        found.push(Finding::problem(
            CHECK,
            format!("{shown} is no directory"),
            "move it away, or name another store.path",
        ));
        return found;
    }
    let root = rustix::process::geteuid().is_root();
    match host.store.as_ref().map(Store::fit) {
        // Whoever may not write to it can still look.
        Some(Err(unfit @ Unfit::NotWritable { .. })) if !root => {
            found.push(Finding::unseen(CHECK, format!("{unfit}; as root more can be seen")));
        }
        // Said already, in words about the mount.
        Some(Err(Unfit::NoExec { .. } | Unfit::ReadOnly { .. })) if !found.is_empty() => {}
        Some(Err(unfit)) => found.push(Finding::problem(CHECK, unfit.to_string(), unfit.hint())),
        Some(Ok(())) => {}
        None => found.push(Finding::problem(
            CHECK,
            format!("{shown} is there and is no store"),
            "`import`, `run` or the first update makes what is missing",
        )),
    }
    if let Err(error) = myriarch_update::journal::Journal::at(path.join("journal.jsonl")).lines() {
        let denied = matches!(&error, myriarch_update::journal::JournalError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied);
        found.push(if denied {
            Finding::unseen(CHECK, format!("{error}: may not be read by this user"))
        } else {
            let hint = "the next `update` sets a damaged journal aside and goes on with what can be read; a newer one needs the version that wrote it";
            Finding::problem(CHECK, crate::words::with_causes(&error), hint)
        });
    }
    if let Some(slot) = &host.current
        && let Err(damage) = slot.check()
    {
        found.push(Finding::problem(
            CHECK,
            crate::words::with_causes(&damage),
            "`recover` takes the latest intact build",
        ));
    }
    if found.is_empty() {
        found.push(Finding::ok(CHECK, format!("{shown} is its owner's alone, and programs in it can run")));
    }
    found
}

/// What the file system allows.
fn mount(path: &Path, check: &str) -> Vec<Finding> {
    let Ok(stat) = rustix::fs::statvfs(path) else { return vec![] };
    let shown = path.display();
    let mut found = Vec::new();
    if stat.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        found.push(Finding::problem(
            check,
            format!("{shown} lies on a file system that is mounted noexec: no program in it can run"),
            "choose a store.path on another file system, or mount it with exec",
        ));
    }
    if stat.f_flag.contains(StatVfsMountFlags::RDONLY) {
        found.push(Finding::problem(
            check,
            format!("{shown} lies on a file system that is read-only"),
            "mount it read-write; after an error of the disk the kernel makes it read-only: see `dmesg`",
        ));
    }
    found
}

/// Two versions and a download.
pub(crate) fn space(host: &Host) -> Vec<Finding> {
    const CHECK: &str = "free space";
    let path = nearest(&host.config.store.path);
    let Ok(stat) = rustix::fs::statvfs(path) else {
        return vec![Finding::unseen(CHECK, format!("{} does not say", path.display()))];
    };
    let installed = host.current.as_ref().map(myriarch_store::Slot::program);
    let installed = installed.or_else(|| host.program.as_ref().map(|program| program.path.clone()));
    let size = installed.and_then(|path| fs::metadata(path).ok()).map_or(USUAL, |metadata| metadata.len());
    // The archive of a Go program is about a third of it.
    let needed = size.saturating_mul(2).saturating_add(size / 3);
    let free = myriarch_store::available(path).ok().flatten();
    let words = format!(
        "{} free at {}, an update needs about {} MiB",
        free.map_or("an untold number of bytes".to_owned(), |free| format!("{} MiB", free / MIB)),
        host.config.store.path.display(),
        needed.div_ceil(MIB)
    );
    let mut found = vec![if free.is_some_and(|free| free < needed) {
        Finding::problem(
            CHECK,
            words,
            "make room, lower store.keep, or name a store.path on a larger file system",
        )
    } else {
        Finding::ok(CHECK, words)
    }];
    // A file system without a fixed number of inodes says zero of both.
    if stat.f_files > 0 && stat.f_favail < FILES {
        found.push(Finding::problem(
            CHECK,
            format!("{} inodes are free at {}", stat.f_favail, path.display()),
            "remove small files there, or name a store.path on another file system",
        ));
    }
    found
}

/// Each directory on the way to the program, and the program, as the collector's user sees them.
pub(crate) fn access(host: &Host) -> Vec<Finding> {
    const CHECK: &str = "access";
    let (Some(slot), Some(user)) = (&host.current, &host.user) else { return vec![] };
    let program = slot.program();
    let ways = [host.config.store.path.as_path(), program.as_path()];
    for path in ways.iter().flat_map(|path| path.ancestors()) {
        let Ok(metadata) = fs::metadata(path) else {
            return vec![Finding::unseen(CHECK, format!("{} cannot be looked at", path.display()))];
        };
        let needed = if metadata.is_dir() { 0o1 } else { 0o5 };
        if !may(user, &metadata, needed) {
            return vec![Finding::problem(
                CHECK,
                format!(
                    "user {} may not {} {}, which has mode {:04o}",
                    user.uid,
                    if metadata.is_dir() { "enter" } else { "read and run" },
                    path.display(),
                    metadata.mode() & 0o7777
                ),
                format!("`chmod o+{} {}`", if metadata.is_dir() { "x" } else { "rx" }, path.display()),
            )];
        }
    }
    vec![Finding::ok(CHECK, format!("user {} can read and run {}", user.uid, program.display()))]
}

/// As the kernel decides by the mode; access control lists aside.
fn may(user: &Credentials, metadata: &fs::Metadata, needed: u32) -> bool {
    let mode = metadata.mode();
    let bits = if user.uid == 0 {
        return true;
    } else if user.uid == metadata.uid() {
        mode >> 6
    } else if user.gid == metadata.gid() || user.groups.contains(&metadata.gid()) {
        mode >> 3
    } else {
        mode
    };
    bits & needed == needed
}

/// Whoever can write there can put a socket of his own in place of ours.
pub(crate) fn run_directory(host: &Host) -> Vec<Finding> {
    const CHECK: &str = "run directory";
    let path = &host.config.run.directory;
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            vec![Finding::ok(CHECK, format!("{shown} is not there yet; `run` makes it"))]
        }
        Err(error) => vec![Finding::unseen(CHECK, format!("{shown}: {error}"))],
        Ok(metadata) if metadata.mode() & WRITABLE_BY_OTHERS != 0 => vec![Finding::problem(
            CHECK,
            format!(
                "{shown} has mode {:04o}: others than its owner can replace the control socket",
                metadata.mode() & 0o7777
            ),
            format!("`chmod go-w {shown}`"),
        )],
        Ok(_) => vec![Finding::ok(CHECK, format!("{shown} is its owner's alone"))],
    }
}

/// The nearest directory that is there.
fn nearest(path: &Path) -> &Path {
    path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, path::PathBuf};

    use super::*;

    #[test]
    fn a_user_may_what_the_mode_gives_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let path: PathBuf = dir.path().join("program");
        fs::write(&path, "").unwrap();
        let (owner, group) = (fs::metadata(&path).unwrap().uid(), fs::metadata(&path).unwrap().gid());
        let user = |uid, gid, groups: &[u32]| Credentials { uid, gid, groups: groups.to_vec() };
        let stranger = user(owner + 1, group + 1, &[]);
        let member = user(owner + 1, group + 1, &[group]);
        for (mode, by_member, by_stranger) in
            [(0o555, true, true), (0o550, true, false), (0o500, false, false), (0o505, false, true)]
        {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!(may(&member, &metadata, 0o5), by_member, "{mode:o}");
            assert_eq!(may(&stranger, &metadata, 0o5), by_stranger, "{mode:o}");
        }
    }
}
