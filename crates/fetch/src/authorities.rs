//! Certificate authorities beyond the machine's own, out of a file.
//!
//! A site whose mirror has a private CA can install it in the system's store; where it may not, or where only this
//! program is to trust it, it names the file here. It is added to the machine's roots and takes none away.

use std::path::Path;

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::{error::FetchError, regular::read};

/// Several times what a system's whole bundle has.
const LIMIT: u64 = 4 << 20;

/// The certificates of the PEM file at `path`; at least one, and each usable as a root.
pub(crate) async fn read_authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, FetchError> {
    let error = |found: String| FetchError::Authorities { path: path.to_owned(), found };
    let Some(content) = read(path, LIMIT).await? else { return Err(error("no file".to_owned())) };
    let mut authorities = Vec::new();
    for (number, certificate) in CertificateDer::pem_slice_iter(&content).enumerate() {
        // What the libraries say of it is about their own insides.
        let damaged = || error(format!("certificate {} damaged", number + 1));
        let certificate = certificate.map_err(|_| damaged())?;
        RootCertStore::empty().add(certificate.clone()).map_err(|_| damaged())?;
        authorities.push(certificate);
    }
    if authorities.is_empty() { Err(error("none".to_owned())) } else { Ok(authorities) }
}
