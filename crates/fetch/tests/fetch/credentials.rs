//! A secret goes to the servers that are configured and to nobody else, and is in no message.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use myriarch_fetch::{FetchError, Http, HttpSettings, Proxy, Templates};
use myriarch_tests::{
    proxy,
    server::{Lie, Server},
};

use crate::mirror::{ARCHIVE, BUNDLE, CHECKSUM, Mirror};

const INDEX: &str = "/index.json";
const SECRET: &str = "s3cret";

fn write(path: &Path, content: &str, mode: u32) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A file with credentials below the mirror's partial directory, which is a temporary one.
fn secret_file(mirror: &Mirror) -> PathBuf {
    let path = mirror.partial.path().join("credentials");
    write(&path, &format!("me:{SECRET}\n"), 0o600);
    path
}

fn with(mirror: &Mirror, path: PathBuf) -> Http {
    Http::new(HttpSettings { credentials: Some(path), ..mirror.settings() }).unwrap()
}

/// What each request for `path` said of itself.
fn told(server: &Server, path: &str) -> Vec<Option<String>> {
    let requests = server.requests_for(path);
    requests.iter().map(|request| request.header("authorization").map(str::to_owned)).collect()
}

#[tokio::test]
async fn they_go_along_with_every_file_of_a_release() {
    let mirror = Mirror::holding(b"archive");
    let http = with(&mirror, secret_file(&mirror));
    mirror.bring(&http).await.unwrap();
    for path in [ARCHIVE, CHECKSUM, BUNDLE] {
        assert_eq!(told(&mirror.server, path), [Some("Basic bWU6czNjcmV0".to_owned())], "{path}");
    }
}

#[tokio::test]
async fn a_file_that_was_rotated_counts_at_once() {
    let mirror = Mirror::holding(b"archive");
    let path = secret_file(&mirror);
    let http = with(&mirror, path.clone());
    mirror.bring(&http).await.unwrap();
    write(&path, "Bearer next\n", 0o400);
    mirror.bring(&http).await.unwrap();
    let expected = ["Basic bWU6czNjcmV0", "Bearer next"].map(|value| Some(value.to_owned()));
    assert_eq!(told(&mirror.server, CHECKSUM), expected);
}

#[tokio::test]
async fn they_do_not_follow_a_redirect_to_another_server_nor_come_back_from_there() {
    let (mirror, other) = (Mirror::new(), Server::start());
    let http = with(&mirror, secret_file(&mirror));
    mirror.server.lie(ARCHIVE, Lie::Redirect { code: 302, to: other.url_of("/hop") });
    other.lie("/hop", Lie::Redirect { code: 307, to: mirror.server.url_of("/back") });
    mirror.server.put("/back", "archive");
    mirror.bring(&http).await.unwrap();
    assert!(told(&mirror.server, ARCHIVE)[0].is_some());
    assert_eq!(told(&other, "/hop"), [None]);
    assert_eq!(told(&mirror.server, "/back"), [None]);

    // On the server that was asked they stay.
    mirror.server.honest(ARCHIVE);
    mirror.server.lie(ARCHIVE, Lie::Redirect { code: 302, to: "/near".to_owned() });
    mirror.server.put("/near", "archive");
    mirror.bring(&http).await.unwrap();
    assert!(told(&mirror.server, "/near")[0].is_some());
}

#[tokio::test]
async fn a_server_that_only_the_index_names_does_not_get_them() {
    let (mirror, other) = (Mirror::new(), Server::start());
    other.put("/x.tar.gz", "archive");
    let archive = other.url_of("/x.tar.gz");
    mirror.server.put(
        INDEX,
        format!(
            r#"{{"schema":1,"releases":[{{"version":"1.0.0","assets":[{{"os":"linux","arch":"amd64","archive":"{archive}"}}]}}]}}"#
        ),
    );
    let index = Some(mirror.server.url_of(INDEX));
    let credentials = Some(secret_file(&mirror));
    let http = Http::new(HttpSettings { index, templates: None, credentials, ..mirror.settings() }).unwrap();
    let release = http.release("1.0.0").await.unwrap().unwrap();
    http.download(&release, mirror.partial.path(), &|_, _| {}).await.unwrap();
    assert!(told(&mirror.server, INDEX)[0].is_some());
    assert_eq!(told(&other, "/x.tar.gz"), [None]);
}

#[tokio::test]
async fn in_the_clear_they_do_not_leave_the_machine() {
    // A name that only the proxy knows is not this machine, wherever it leads.
    let mirror = Mirror::holding(b"archive");
    mirror.server.put("/x_0.158.0.tar.gz", "archive");
    let proxy = proxy::Proxy::knowing(&[("releases.example:80", mirror.server.address())]);
    let archive = "http://releases.example/x_{version}.tar.gz".to_owned();
    let http = Http::new(HttpSettings {
        templates: Some(Templates { archive, checksum: None, bundle: None }),
        proxy: Proxy::Through(proxy.url()),
        credentials: Some(secret_file(&mirror)),
        ..mirror.settings()
    })
    .unwrap();
    mirror.bring(&http).await.unwrap();
    assert_eq!(told(&mirror.server, "/x_0.158.0.tar.gz"), [None]);

    // To this machine they go, and past the proxy.
    let http = Http::new(HttpSettings {
        proxy: Proxy::Through(proxy.url()),
        credentials: Some(secret_file(&mirror)),
        ..mirror.settings()
    })
    .unwrap();
    mirror.bring(&http).await.unwrap();
    assert!(told(&mirror.server, ARCHIVE)[0].is_some());
    assert!(proxy.asked().iter().all(|asked| !asked.contains(SECRET) && !asked.contains("127.0.0.1")));
}

#[tokio::test]
async fn a_file_that_others_could_read_is_refused_and_nothing_is_asked() {
    let mirror = Mirror::holding(b"archive");
    let path = secret_file(&mirror);
    let http = with(&mirror, path.clone());
    for (mode, good) in [
        (0o600, true),
        (0o400, true),
        (0o200, false),
        (0o640, false),
        (0o604, false),
        (0o660, false),
        (0o700, false),
        (0o644, false),
    ] {
        write(&path, &format!("me:{SECRET}"), mode);
        let asked = mirror.server.requests().len();
        let brought = mirror.bring(&http).await;
        if mode == 0o200 && !rustix::process::geteuid().is_root() {
            assert!(brought.is_err());
            continue;
        }
        if good || mode == 0o200 {
            brought.unwrap();
            continue;
        }
        let error = brought.unwrap_err();
        let chain = error.chain();
        assert!(matches!(error, FetchError::Credentials { .. }), "{error:?}");
        assert!(chain.contains(&format!("expected mode 0600 or less, found mode {mode:04o}")), "{chain}");
        assert_eq!(error.hint(), format!("chmod 600 {}", path.display()));
        assert_eq!(mirror.server.requests().len(), asked, "{mode:o}");
    }
}

#[tokio::test]
async fn what_is_no_file_of_ours_is_refused() {
    let mirror = Mirror::holding(b"archive");
    let path = secret_file(&mirror);
    let http = with(&mirror, path.clone());
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        let error = mirror.bring(&http).await.unwrap_err();
        assert!(error.chain().contains("found user 12345"), "{}", error.chain());
    }
    fs::remove_file(&path).unwrap();
    let error = mirror.bring(&http).await.unwrap_err();
    assert!(error.chain().contains("expected a file, found none"), "{}", error.chain());
    fs::create_dir(&path).unwrap();
    let error = mirror.bring(&http).await.unwrap_err();
    assert!(error.chain().contains("expected a regular file"), "{}", error.chain());
    fs::remove_dir(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&path).status().unwrap().success());
    let error = mirror.bring(&http).await.unwrap_err();
    assert!(error.chain().contains("expected a regular file"), "{}", error.chain());
}

#[tokio::test]
async fn no_message_has_the_secret() {
    let mirror = Mirror::holding(b"archive");
    let path = secret_file(&mirror);
    let http = with(&mirror, path.clone());
    for lie in [
        Lie::Status { code: 401, retry_after: None },
        Lie::Status { code: 500, retry_after: None },
        Lie::CloseBeforeAnswer,
        Lie::Garbage,
        Lie::Redirect { code: 302, to: "ftp://x/".to_owned() },
    ] {
        mirror.server.honest(ARCHIVE);
        mirror.server.lie(ARCHIVE, lie);
        let error = mirror.bring(&http).await.unwrap_err();
        let all = format!("{} {} {error:?} {http:?}", error.chain(), error.hint());
        assert!(!all.contains(SECRET) && !all.contains("czNjcmV0"), "{all}");
    }
    write(&path, &format!("Bearer {SECRET} {SECRET}"), 0o600);
    let error = mirror.bring(&http).await.unwrap_err();
    let all = format!("{} {} {error:?}", error.chain(), error.hint());
    assert!(matches!(error, FetchError::Credentials { .. }) && !all.contains(SECRET), "{all}");
}
