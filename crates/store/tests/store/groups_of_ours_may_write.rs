//! A volume of a pod belongs to root and to a group that the pod's processes have as a supplementary one.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
    process::{Command, Output},
};

use myriarch_store::{Store, Unfit};
use tempfile::TempDir;

/// Names the store for the process that runs as somebody else.
const STORE: &str = "MYRIARCH_STORE_OF_A_GROUP";
const FS_GROUP: u32 = 4711;

#[test]
fn a_volume_of_a_pod_is_fit_for_who_is_in_its_group() {
    if let Some(root) = env::var_os(STORE) {
        match Store::open(Path::new(&root)).unwrap().fit() {
            Ok(()) => println!("fit"),
            Err(Unfit::NotWritable { .. }) => println!("not writable"),
            Err(unfit) => println!("{unfit}"),
        }
        return;
    }
    let setpriv = Command::new("setpriv").arg("--version").output();
    if !rustix::process::geteuid().is_root() || setpriv.is_err() {
        println!("skipped: to be somebody else takes root and setpriv");
        return;
    }
    let dir = TempDir::new().unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(dir.path(), 0o755);
    let root = dir.path().join("store");
    let store = Store::create(&root).unwrap();
    for path in [root.clone(), store.versions_dir()] {
        chown(&path, Some(0), Some(FS_GROUP)).unwrap();
        mode(&path, 0o2775);
    }
    // Where the test's own program lies, others may not come.
    let exe = dir.path().join("test");
    fs::copy(env::current_exe().unwrap(), &exe).unwrap();
    let said_to = |groups: &str| {
        let test = "groups_of_ours_may_write::a_volume_of_a_pod_is_fit_for_who_is_in_its_group";
        let Output { stdout, .. } = Command::new("setpriv")
            .args(["--reuid", "1000", "--regid", "1000", groups])
            .arg(&exe)
            .args([test, "--exact", "--nocapture"])
            .env(STORE, &root)
            .output()
            .unwrap();
        String::from_utf8_lossy(&stdout).into_owned()
    };
    let said = said_to(&format!("--groups={FS_GROUP},4712"));
    assert!(said.lines().any(|line| line.ends_with("fit")), "{said}");
    let said = said_to("--clear-groups");
    assert!(said.lines().any(|line| line.ends_with("not writable")), "{said}");
    // For root the group is one of others.
    assert!(matches!(store.fit(), Err(Unfit::Mode { mode: 0o2775, .. })), "{:?}", store.fit());
}
