//! A directory is a source like any other: bounded, copied, and never left.

use std::{fs, os::unix::fs::symlink, sync::Mutex};

use myriarch_fetch::{Directory, DirectorySettings, FetchError, Limits, Release, Templates};
use tempfile::TempDir;

use crate::mirror::{noise, read, whole};

struct Share {
    directory: TempDir,
    partial: TempDir,
}

impl Share {
    fn holding(files: &[(&str, &[u8])]) -> Self {
        let share = Self { directory: TempDir::new().unwrap(), partial: TempDir::new().unwrap() };
        for (name, content) in files {
            let path = share.directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        share
    }

    fn settings(&self) -> DirectorySettings {
        DirectorySettings { arch: "amd64".to_owned(), ..DirectorySettings::at(self.directory.path()) }
    }

    fn indexed(&self) -> Directory {
        Directory::new(self.settings()).unwrap()
    }

    fn named(&self) -> Directory {
        let templates = Some(Templates {
            archive: "otelcol_{version}_{os}_{arch}.tar.gz".to_owned(),
            checksum: Some("{archive}.sha256".to_owned()),
            bundle: Some("{archive}.sigstore.json".to_owned()),
        });
        Directory::new(DirectorySettings { templates, ..self.settings() }).unwrap()
    }

    fn left(&self) -> usize {
        fs::read_dir(self.partial.path()).unwrap().count()
    }
}

fn index(archive: &str) -> String {
    format!(
        "{{\"schema\":1,\"releases\":[{{\"version\":\"1.0.0\",\"assets\":[{{\"os\":\"linux\",\"arch\":\"amd64\",\
         \"archive\":\"{archive}\"}}]}}]}}"
    )
}

fn versions(releases: &[Release]) -> Vec<&str> {
    releases.iter().map(|release| release.version.as_str()).collect()
}

#[tokio::test]
async fn names_tell_the_versions_where_there_is_no_index() {
    let share = Share::holding(&[
        ("otelcol_0.158.0_linux_amd64.tar.gz", b"a"),
        ("otelcol_0.158.0_linux_amd64.tar.gz.sha256", b"sum"),
        ("otelcol_0.159.0-rc.1+b_linux_amd64.tar.gz", b"b"),
        ("otelcol_0.160.0_linux_arm64.tar.gz", b"another platform"),
        ("otelcol-contrib_0.161.0_linux_amd64.tar.gz", b"another distribution"),
        ("otelcol__linux_amd64.tar.gz", b"no version"),
        ("README", b""),
    ]);
    let source = share.named();
    let releases = source.releases().await.unwrap();
    assert_eq!(versions(&releases), ["0.158.0", "0.159.0-rc.1+b"]);
    let download = source.download(&releases[0], share.partial.path(), &|_, _| {}).await.unwrap();
    assert_eq!(whole(&download), b"a");
    assert_eq!(download.file_name, "otelcol_0.158.0_linux_amd64.tar.gz");
    let name = "otelcol_0.158.0_linux_amd64.tar.gz.sha256".to_owned();
    assert_eq!(download.checksum, Some((name, b"sum".to_vec())));
    assert_eq!(download.bundle, None);
    assert_eq!(source.release("0.160.0").await.unwrap(), None);
    assert!(source.release("0.159.0-rc.1+b").await.unwrap().is_some());
}

#[tokio::test]
async fn a_version_named_twice_in_a_template_must_agree() {
    let share = Share::holding(&[("x-1.0-1.0.tgz", b""), ("x-1.0-1.1.tgz", b""), ("x-1.0-10.tgz", b"")]);
    let templates =
        Some(Templates { archive: "x-{version}-{version}.tgz".to_owned(), checksum: None, bundle: None });
    let source = Directory::new(DirectorySettings { templates, ..share.settings() }).unwrap();
    assert_eq!(versions(&source.releases().await.unwrap()), ["1.0"]);
}

#[tokio::test]
async fn an_index_counts_more_than_names() {
    let share = Share::holding(&[
        ("index.json", index("sub/x.tar.gz").as_bytes()),
        ("sub/x.tar.gz", b"from the index"),
        ("sub/x.tar.gz.sha256", b"sum"),
        ("otelcol_2.0.0_linux_amd64.tar.gz", b"unlisted"),
    ]);
    let source = share.named();
    let releases = source.releases().await.unwrap();
    assert_eq!(versions(&releases), ["1.0.0"]);
    let download = source.download(&releases[0], share.partial.path(), &|_, _| {}).await.unwrap();
    assert_eq!(whole(&download), b"from the index");
}

#[tokio::test]
async fn an_index_that_cannot_be_read_is_not_passed_over() {
    let share = Share::holding(&[("index.json", b"{"), ("otelcol_2.0.0_linux_amd64.tar.gz", b"unlisted")]);
    let error = share.named().releases().await.unwrap_err();
    assert!(matches!(error, FetchError::Index { .. }), "{error:?}");
}

#[tokio::test]
async fn an_entry_cannot_leave_the_directory() {
    for archive in
        ["../x.tar.gz", "/etc/passwd", "a/../../x", "file:///etc/passwd", "http://h/x", "", ".", "a/.."]
    {
        let share = Share::holding(&[("index.json", index(archive).as_bytes())]);
        let listing = share.indexed().listing().await.unwrap();
        assert_eq!(listing.releases, [], "{archive}");
        assert!(listing.skipped[0].reason.contains("below the directory"), "{archive}: {listing:?}");
        let error = share.indexed().release("1.0.0").await.unwrap_err();
        assert!(matches!(error, FetchError::Entry { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn bytes_are_copied_and_not_linked() {
    let content = noise(500_000, 1);
    let share =
        Share::holding(&[("index.json", index("x.tar.gz").as_bytes()), ("x.tar.gz", content.as_slice())]);
    let source = share.indexed();
    let release = source.release("1.0.0").await.unwrap().unwrap();
    let told = Mutex::new(Vec::new());
    let report = |received, total| told.lock().unwrap().push((received, total));
    let download = source.download(&release, share.partial.path(), &report).await.unwrap();
    fs::write(share.directory.path().join("x.tar.gz"), "swapped").unwrap();
    assert_eq!(whole(&download), content);
    assert_eq!(told.lock().unwrap().last(), Some(&(500_000, Some(500_000))));
    // And the next copy is the new file, not the old one continued.
    let download = source.download(&release, share.partial.path(), &|_, _| {}).await.unwrap();
    assert_eq!(whole(&download), b"swapped");
}

#[tokio::test]
async fn what_is_no_regular_file_is_refused_without_waiting() {
    let share = Share::holding(&[("index.json", index("x.tar.gz").as_bytes())]);
    let source = share.indexed();
    let release = source.release("1.0.0").await.unwrap().unwrap();
    let path = share.directory.path().join("x.tar.gz");
    let fifo = share.directory.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for target in ["/dev/zero", "fifo", "/tmp"] {
        symlink(target, &path).unwrap();
        let error = source.download(&release, share.partial.path(), &|_, _| {}).await.unwrap_err();
        assert!(error.chain().contains("expected a regular file"), "{target}: {}", error.chain());
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(share.left(), 0);
}

#[tokio::test]
async fn a_share_may_link_to_regular_files() {
    let share =
        Share::holding(&[("index.json", index("latest.tar.gz").as_bytes()), ("x.tar.gz", b"content")]);
    symlink("x.tar.gz", share.directory.path().join("latest.tar.gz")).unwrap();
    let source = share.indexed();
    let release = source.release("1.0.0").await.unwrap().unwrap();
    let download = source.download(&release, share.partial.path(), &|_, _| {}).await.unwrap();
    assert_eq!(read(&download.archive), b"content");
}

#[tokio::test]
async fn limits_hold_for_files_too() {
    let name = "otelcol_1.0.0_linux_amd64.tar.gz";
    let share = Share::holding(&[(name, &[0; 1001]), (&format!("{name}.sigstore.json"), &[0; 101])]);
    let limited = |archive, companion| {
        let limits = Limits { archive, companion, index: 10 };
        let templates = Some(Templates {
            archive: "otelcol_{version}_{os}_{arch}.tar.gz".to_owned(),
            checksum: None,
            bundle: Some("{archive}.sigstore.json".to_owned()),
        });
        Directory::new(DirectorySettings { templates, limits, ..share.settings() }).unwrap()
    };
    for (archive, companion, fits) in [(1000, 101, false), (1001, 100, false), (1001, 101, true)] {
        let source = limited(archive, companion);
        let release = source.release("1.0.0").await.unwrap().unwrap();
        let brought = source.download(&release, share.partial.path(), &|_, _| {}).await;
        assert_eq!(brought.is_ok(), fits, "{brought:?}");
        if !fits {
            assert!(matches!(brought, Err(FetchError::TooLarge { .. })), "{brought:?}");
            assert_eq!(share.left(), 0);
        }
    }
    fs::write(share.directory.path().join("index.json"), index("x")).unwrap();
    let error = limited(1, 1).releases().await.unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { limit: 10, .. }), "{error:?}");
}

#[tokio::test]
async fn what_is_not_there_is_missing() {
    let share = Share::holding(&[]);
    let error = share.indexed().releases().await.unwrap_err();
    assert!(matches!(error, FetchError::Missing { .. }), "{error:?}");
    assert_eq!(share.named().releases().await.unwrap(), []);

    let gone = DirectorySettings::at(share.directory.path().join("gone"));
    let templates = Some(Templates { archive: "{version}.tgz".to_owned(), checksum: None, bundle: None });
    let error =
        Directory::new(DirectorySettings { templates, ..gone }).unwrap().releases().await.unwrap_err();
    assert!(error.chain().contains("gone: could not list it"), "{}", error.chain());

    let share = Share::holding(&[("index.json", index("x.tar.gz").as_bytes())]);
    let source = share.indexed();
    let release = source.release("1.0.0").await.unwrap().unwrap();
    let error = source.download(&release, share.partial.path(), &|_, _| {}).await.unwrap_err();
    assert!(matches!(error, FetchError::Missing { .. }), "{error:?}");
    assert!(error.to_string().contains("x.tar.gz"));
}

#[tokio::test]
async fn a_companion_that_cannot_be_read_is_not_an_absent_one() {
    let name = "otelcol_1.0.0_linux_amd64.tar.gz";
    let share = Share::holding(&[(name, b"archive"), (&format!("{name}.sha256"), b"sum")]);
    fs::create_dir(share.directory.path().join(format!("{name}.sigstore.json"))).unwrap();
    let source = share.named();
    let release = source.release("1.0.0").await.unwrap().unwrap();
    let error = source.download(&release, share.partial.path(), &|_, _| {}).await.unwrap_err();
    assert!(error.chain().contains("expected a regular file"), "{}", error.chain());
}

#[tokio::test]
async fn another_sources_release_is_refused() {
    let share = Share::holding(&[("index.json", index("x.tar.gz").as_bytes())]);
    let release = share.indexed().release("1.0.0").await.unwrap().unwrap();
    let mirror = crate::mirror::Mirror::new();
    let error = mirror.http().download(&release, share.partial.path(), &|_, _| {}).await.unwrap_err();
    assert!(matches!(error, FetchError::Foreign { .. }), "{error:?}");
}
