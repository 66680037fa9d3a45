//! The client side of the Sigstore conformance suite, so that the suite judges the very code by which
//! archives are trusted.
//!
//! ```text
//! sigstore-conformance verify-bundle --bundle F
//!     (--certificate-identity I --certificate-oidc-issuer U | --key PEM)
//!     [--trusted-root F] FILE|sha256:HEX
//! ```
//! Exits with 0 if the bundle is good for the artifact and its signer is the one named.

use std::{collections::HashMap, error::Error, fs, process::ExitCode};

use myriarch_verify::{Artifact, Attestation, Signer, Sigstore, TrustedRoot};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the protocol's way to say why")]
            {
                eprintln!("error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [verb, options @ .., artifact] = arguments else { return Err("expected verify-bundle".into()) };
    if verb != "verify-bundle" || options.len() % 2 != 0 {
        return Err(format!("expected verify-bundle, options and an artifact, found {arguments:?}").into());
    }
    let options: HashMap<&str, &str> =
        options.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let known =
        ["--bundle", "--certificate-identity", "--certificate-oidc-issuer", "--key", "--trusted-root"];
    if let Some(unknown) = options.keys().find(|option| !known.contains(option)) {
        return Err(format!("unknown option {unknown}").into());
    }
    let root = match options.get("--trusted-root") {
        Some(path) => TrustedRoot::Json(fs::read_to_string(path)?),
        None => TrustedRoot::BuiltIn,
    };
    let key = options.get("--key").map(fs::read_to_string).transpose()?;
    let bundle = fs::read(options.get("--bundle").ok_or("expected --bundle")?)?;
    let signer = key.as_deref().map_or(Signer::Certificate, Signer::Key);

    let sigstore = Sigstore::new(&root)?;
    let attested = match artifact.strip_prefix("sha256:") {
        Some(_) => sigstore.attest(&bundle, Artifact::Digest(artifact.parse()?), signer)?,
        None => sigstore.attest(&bundle, Artifact::Reader(&mut fs::File::open(artifact)?), signer)?,
    };
    if key.is_some() {
        return Ok(());
    }
    let found = attested.certificate.ok_or("expected a certificate, found none")?;
    let wanted =
        |option: &str| options.get(option).map(|&text| Some(text.to_owned())).ok_or(option.to_owned());
    if found.identity != wanted("--certificate-identity")? {
        return Err(format!("another identity: found {:?}", found.identity).into());
    }
    if found.issuer != wanted("--certificate-oidc-issuer")? {
        return Err(format!("another issuer: found {:?}", found.issuer).into());
    }
    Ok(())
}
