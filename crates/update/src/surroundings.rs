//! The surroundings: whether memory or disk ran out, so that a version is not blamed for it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Below this many free bytes a disk counts as full.
const FULL: u64 = 1024 * 1024;

/// What was seen at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    oom_counter: Option<PathBuf>,
    oom_kills: u64,
    watched: Vec<PathBuf>,
}

impl Surroundings {
    /// Looks, from the view of process `pid` (our own where nothing runs), at its memory group and at the
    /// file systems of `watched`.
    pub(crate) fn look(pid: Option<u32>, watched: Vec<PathBuf>) -> Self {
        let oom_counter = oom_counter(pid);
        let oom_kills = oom_counter.as_deref().map_or(0, kills);
        Self { oom_counter, oom_kills, watched }
    }

    /// What has run out since, in words; nothing when all was there.
    pub(crate) fn ran_out_of(&self) -> Option<String> {
        if let Some(counter) = &self.oom_counter {
            let now = kills(counter);
            // A group that was made anew counts from nothing.
            let killed = if now < self.oom_kills { now } else { now - self.oom_kills };
            if killed > 0 {
                return Some(format!("memory ran out: {killed} killed as {} counts", counter.display()));
            }
        }
        self.watched.iter().find_map(|path| {
            let at = path.display();
            if let Some(bytes) = myriarch_store::available(path).ok()?.filter(|bytes| *bytes < FULL) {
                return Some(format!("disk ran out: {bytes} bytes free at {at}"));
            }
            let disk = rustix::fs::statvfs(path).ok()?;
            // Some file systems have no fixed number of files and say zero of both.
            (disk.f_files > 0 && disk.f_favail == 0).then(|| format!("disk ran out: no more files at {at}"))
        })
    }
}

/// The file that counts kills: the process's memory group in cgroup v2 or v1, else the whole machine's.
fn oom_counter(pid: Option<u32>) -> Option<PathBuf> {
    let of = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let groups = fs::read_to_string(format!("/proc/{of}/cgroup")).unwrap_or_default();
    counters(&groups)
        .into_iter()
        .chain([PathBuf::from("/proc/vmstat")])
        .find(|path| fs::read_to_string(path).is_ok_and(|text| text.contains("oom_kill")))
}

/// Candidates for a `/proc/<pid>/cgroup`, in the order of preference. Inside a container the path may be the
/// host's; then the group is what is mounted at the root.
fn counters(groups: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let below = |root: &str, file: &str| {
            [Path::new(root).join(path.trim_start_matches('/')).join(file), Path::new(root).join(file)]
        };
        if controllers.is_empty() {
            found.extend(below("/sys/fs/cgroup", "memory.events"));
            found.extend(below("/sys/fs/cgroup/unified", "memory.events"));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            found.extend(below("/sys/fs/cgroup/memory", "memory.oom_control"));
        }
    }
    found
}

fn kills(counter: &Path) -> u64 {
    let text = fs::read_to_string(counter).unwrap_or_default();
    let value = |line: &str| line.strip_prefix("oom_kill ").and_then(|count| count.trim().parse().ok());
    text.lines().find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cgroup_versions_are_known() {
        let v2 = counters("0::/system.slice/otelcol.service\n");
        assert_eq!(v2[0], Path::new("/sys/fs/cgroup/system.slice/otelcol.service/memory.events"));
        assert_eq!(v2[1], Path::new("/sys/fs/cgroup/memory.events"));
        let v1 = counters("9:cpu,cpuacct:/x\n4:memory:/x\n");
        assert_eq!(v1[0], Path::new("/sys/fs/cgroup/memory/x/memory.oom_control"));
    }

    #[test]
    fn a_kill_for_memory_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let counter = dir.path().join("memory.events");
        fs::write(&counter, "oom 3\noom_kill 1\noom_group_kill 0\n").unwrap();
        let before =
            Surroundings { oom_kills: kills(&counter), oom_counter: Some(counter.clone()), watched: vec![] };
        assert_eq!(before.ran_out_of(), None);
        fs::write(&counter, "oom 4\noom_kill 2\noom_group_kill 0\n").unwrap();
        assert!(before.ran_out_of().unwrap().starts_with("memory ran out: 1 killed"));
    }
}
