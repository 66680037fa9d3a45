//! Whatever a server does, in whatever order: what is brought comes with everything that it is to be checked by.

use myriarch_tests::server::{Etag, Lie};
use myriarch_verify::{Digest, checksum};
use proptest::{collection::vec, prelude::*};

use crate::mirror::{ARCHIVE, BUNDLE, CHECKSUM, Mirror, SIGNED, noise, read};

const LENGTH: usize = 3000;
const NAME: &str = "otelcol_0.158.0_linux_amd64.tar.gz";

/// A fault at one of the three parts, for so many requests.
#[derive(Debug, Clone)]
struct Fault {
    path: &'static str,
    lie: Lie,
    times: usize,
}

fn lie() -> impl Strategy<Value = Lie> {
    let code = prop::sample::select(vec![204, 304, 400, 401, 403, 404, 408, 410, 416, 429, 500, 502, 503]);
    let after = 0_u64..LENGTH as u64;
    prop_oneof![
        code.prop_map(|code| Lie::Status { code, retry_after: None }),
        after.clone().prop_map(|after| Lie::Truncate { after }),
        after.clone().prop_map(|after| Lie::ChunkedTruncate { after }),
        after.clone().prop_map(Lie::Length),
        (after.clone(), 1_u64..1000)
            .prop_map(|(after, seed)| Lie::TruncateThenChange { after, to: noise(LENGTH, seed) }),
        after.prop_map(|start| Lie::WrongRange { start }),
        Just(Lie::CloseBeforeAnswer),
        Just(Lie::IgnoreRange),
        Just(Lie::OtherEtagInRange),
        Just(Lie::Unsatisfiable),
        Just(Lie::Unsized),
        Just(Lie::Chunked),
        Just(Lie::Garbage),
        Just(Lie::Redirect { code: 302, to: "/elsewhere".to_owned() }),
        Just(Lie::Redirect { code: 302, to: "file:///dev/null".to_owned() }),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    (prop::sample::select(vec![ARCHIVE, CHECKSUM, BUNDLE]), lie(), 1_usize..4)
        .prop_map(|(path, lie, times)| Fault { path, lie, times })
}

/// Whether the answer to it is, in the end, that there is no such file.
fn leads_nowhere(lie: &Lie) -> bool {
    match lie {
        Lie::Status { code, .. } => *code == 404,
        Lie::Redirect { to, .. } => to.starts_with('/'),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_brought_without_all_that_checks_it(
        faults in vec(fault(), 1..8),
        fixed in any::<bool>(),
        runs in 1_usize..4,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let archive = noise(LENGTH, 1);
        let mirror = Mirror::holding(&archive);
        let sum = format!("{}  {NAME}\n", Digest::of(&archive));
        mirror.server.put(CHECKSUM, sum.clone());
        if fixed {
            mirror.server.etag(ARCHIVE, Etag::Fixed("\"always\"".to_owned()));
        }
        // An index that names all three, as an entry of a mirror does.
        mirror.server.put("/index.json", format!(
            r#"{{"schema":1,"releases":[{{"version":"0.158.0","assets":[{{"os":"linux","arch":"amd64",
                "archive":"{ARCHIVE}","checksum":"{CHECKSUM}","bundle":"{BUNDLE}"}}]}}]}}"#
        ));
        let may_be_absent = faults.iter().any(|fault| fault.path == BUNDLE && leads_nowhere(&fault.lie));
        for Fault { path, lie, times } in faults {
            mirror.server.lie_times(path, times, lie);
        }
        let http = mirror.indexed();
        for _ in 0..runs {
            let brought = runtime.block_on(async {
                let release = http.release("0.158.0").await.unwrap().unwrap();
                http.download(&release, mirror.partial.path(), &|_, _| {}).await
            });
            let Ok(download) = brought else { continue };
            // As the chain does: the checksum file is there and decides over the archive, and so does the bundle,
            // without which no rule of signatures trusts anything.
            prop_assert!(download.bundle.is_some() || may_be_absent);
            let (name, content) = download.checksum.as_ref().expect("the checksum file that is named");
            let said = checksum::digest_for(name, &download.file_name, content);
            let found = Digest::of(&read(&download.archive));
            // Only the true bundle stands for a good signature here.
            if said.is_ok_and(|said| said == found) && download.bundle.as_deref() == Some(SIGNED.as_bytes()) {
                prop_assert_eq!(found, Digest::of(&archive));
            } else {
                myriarch_fetch::discard(&download.archive).unwrap();
            }
        }
    }
}
