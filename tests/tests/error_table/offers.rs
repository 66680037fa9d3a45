//! Offers that lie, or whose proof is not what it should be.

use myriarch_tests::{
    collector::StandIn,
    machine::{DISTRIBUTION, ISSUER, Machine, Release},
    sigstore::Identity,
};
use myriarch_verify::Digest;

use crate::row::{Done, Group, NEW, OLDER, Row, machine};

pub(crate) const GROUP: Group = Group {
    title: "Offers",
    about: "The list, the archive, its checksum file and its bundle, as a source delivers them. Whatever cannot be trusted\n\
            ends with exit code 5, before a byte of it is unpacked.",
    machine,
    rows: &[
        Row {
            name: "archive-not-as-listed",
            input: "One bit of the archive is not as it was when the list was made.",
            bring: |machine| {
                let release = good(machine);
                let bytes = flipped(&release.archive);
                machine.offer(release);
                machine.server().put(&format!("/{}", archive_name()), bytes);
            },
            ..TRUST
        },
        Row {
            name: "archive-not-as-its-checksum-file-says",
            input: "The list was made of the altered archive; the checksum file was not.",
            bring: |machine| {
                let release = good(machine);
                let archive = flipped(&release.archive);
                machine.offer(Release { archive, ..release });
            },
            ..TRUST
        },
        Row {
            name: "archive-not-as-signed",
            input: "Archive, list and checksum file were altered together; the bundle is of the archive as it was.",
            bring: |machine| {
                let release = good(machine);
                let archive = flipped(&release.archive);
                let checksum = Some(Digest::of(&archive).to_string().into_bytes());
                machine.offer(Release { archive, checksum, ..release });
            },
            ..TRUST
        },
        Row {
            name: "checksum-file-of-something-else",
            input: "The checksum file names another digest, though the signature is good.",
            bring: |machine| checksum(machine, |_| Digest::of(b"something else").to_string()),
            ..TRUST
        },
        Row {
            name: "checksum-file-empty",
            input: "The checksum file is empty.",
            bring: |machine| checksum(machine, |_| String::new()),
            ..TRUST
        },
        Row {
            name: "checksum-file-html",
            input: "A server answers with a page in place of the checksum file, and with status 200.",
            bring: |machine| {
                checksum(machine, |digest| {
                    format!("<!DOCTYPE html>\n<title>Sign in</title>\n{0:1$}{digest}\n", "", 80)
                });
            },
            ..TRUST
        },
        Row {
            name: "checksum-file-without-our-archive",
            input: "The checksum file lists other archives only.",
            bring: |machine| {
                checksum(machine, |digest| {
                    format!("{digest}  other_{NEW}_linux.tar.gz\n{digest}  dist/{}\n", archive_name())
                });
            },
            ..TRUST
        },
        Row {
            name: "checksum-file-with-two-answers",
            input: "The checksum file lists our archive twice, with different digests.",
            bring: |machine| {
                checksum(machine, |digest| {
                    let other = Digest::of(b"something else");
                    format!("{digest}  {name}\n{other}  {name}\n", name = archive_name())
                });
            },
            ..TRUST
        },
        Row {
            name: "bundle-none",
            input: "The release has no bundle, and the version is not pinned to a digest.",
            bring: |machine| {
                let release = good(machine);
                machine.offer(Release { bundle: None, ..release });
            },
            ..TRUST
        },
        Row {
            name: "bundle-listed-and-not-there",
            input: "The list names a bundle, and the server does not have it.",
            bring: |machine| {
                let release = good(machine);
                machine.offer(release);
                machine.server().remove(&format!("/{}.sigstore.json", archive_name()));
            },
            ..TRUST
        },
        Row {
            name: "bundle-malformed",
            input: "The bundle ends in the middle.",
            bring: |machine| {
                let release = good(machine);
                let bundle = release.bundle.map(|bundle| bundle[..20].to_vec());
                machine.offer(Release { bundle, ..release });
            },
            ..TRUST
        },
        Row {
            name: "bundle-html",
            input: "A server answers with a page in place of the bundle, and with status 200.",
            bring: |machine| {
                let release = good(machine);
                machine.offer(Release { bundle: Some(b"<!DOCTYPE html>\n".to_vec()), ..release });
            },
            ..TRUST
        },
        Row {
            name: "bundle-of-another-artifact",
            input: "The bundle is a good one of another archive by the right signer.",
            bring: |machine| signed(machine, &Machine::identity(NEW), b"another archive"),
            ..TRUST
        },
        Row {
            name: "signer-of-another-issuer",
            input: "The right identity, vouched for by another issuer.",
            bring: |machine| {
                let ours = Machine::identity(NEW);
                let identity = Identity::new("https://accounts.example.org", &ours.san);
                sign(machine, &identity);
            },
            ..TRUST
        },
        Row {
            name: "signer-of-another-repository",
            input: "A workflow of another repository signed the right bytes.",
            bring: |machine| {
                let workflow = "https://github.com/stranger/releases/.github/workflows/release.yaml";
                sign(machine, &Identity::new(ISSUER, &format!("{workflow}@refs/tags/v{NEW}")));
            },
            ..TRUST
        },
        Row {
            name: "signer-on-a-branch",
            input: "The right workflow signed the right bytes on a branch, not for a tag.",
            bring: |machine| {
                let ours = Machine::identity(NEW).san;
                let workflow = ours.split_once('@').map_or("", |(workflow, _)| workflow);
                sign(machine, &Identity::new(ISSUER, &format!("{workflow}@refs/heads/main")));
            },
            ..TRUST
        },
        Row {
            name: "signer-of-an-older-version",
            input: "An old release with its good signature is offered under a new number.",
            bring: |machine| sign(machine, &Machine::identity("1.0.9")),
            ..TRUST
        },
        Row {
            name: "older-than-installed",
            input: "A good release below the installed version is asked for, without a pin.",
            bring: |machine| machine.offer_program(OLDER, &StandIn::version(OLDER).build()),
            done: Done::Verb(&["update", "--to", OLDER]),
            mend: |machine| {
                machine.withdraw(OLDER);
                crate::row::offer_good(machine);
            },
            ..TRUST
        },
        Row {
            name: "version-not-offered",
            input: "A version is asked for that the source does not have.",
            done: Done::Verb(&["update", "--to", "7.0.0"]),
            ..TRUST
        },
    ],
};

const TRUST: Row = Row { exit: 5, ..Row::UPDATE };

/// An honest release of a good [`NEW`], to be spoiled.
fn good(machine: &Machine) -> Release {
    machine.release(NEW, &StandIn::version(NEW).build())
}

fn archive_name() -> String {
    format!("{DISTRIBUTION}_{NEW}_linux.tar.gz")
}

fn flipped(archive: &[u8]) -> Vec<u8> {
    let mut bytes = archive.to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bytes
}

/// A good release with this checksum file, which is made of the archive's digest.
fn checksum(machine: &mut Machine, content: fn(&str) -> String) {
    let release = good(machine);
    let digest = Digest::of(&release.archive).to_string();
    machine.offer(Release { checksum: Some(content(&digest).into_bytes()), ..release });
}

/// A good release signed by `identity`.
fn sign(machine: &mut Machine, identity: &Identity) {
    let archive = good(machine).archive;
    signed(machine, identity, &archive);
}

/// A good release with `identity`'s bundle of `artifact`.
fn signed(machine: &mut Machine, identity: &Identity, artifact: &[u8]) {
    let release = good(machine);
    let bundle = Some(machine.sigstore().sign(Digest::of(artifact), identity));
    machine.offer(Release { bundle, ..release });
}
