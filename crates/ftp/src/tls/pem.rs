//! Certificates and keys from files (PEM, RFC 7468).

use std::fmt;
use std::io;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::file_reader::FileReader;

impl FileReader {
    /// The certificates of a file, at least one.
    ///
    /// # Errors
    /// If the file cannot be read, or has something else; the error names it.
    pub(super) fn certificates(&self, path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
        let text = self.read(path)?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let found = found.map_err(|error| wrong(path, &error))?;
        if found.is_empty() {
            return Err(wrong(path, &"there is no certificate (PEM) in it"));
        }
        Ok(found)
    }

    /// The first private key of a file.
    ///
    /// # Errors
    /// As [`certificates`](Self::certificates).
    pub(super) fn key(&self, path: &Path) -> io::Result<PrivateKeyDer<'static>> {
        let text = self.read(path)?;
        PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
            rustls::pki_types::pem::Error::NoItemsFound => wrong(
                path,
                &"there is no private key without a passphrase (PEM) in it",
            ),
            error => wrong(path, &error),
        })
    }

    /// The revocation lists of a file, at least one.
    ///
    /// # Errors
    /// As [`certificates`](Self::certificates).
    pub(super) fn revocations(
        &self,
        path: &Path,
    ) -> io::Result<Vec<CertificateRevocationListDer<'static>>> {
        let text = self.read(path)?;
        let found: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_slice_iter(&text).collect();
        let found = found.map_err(|error| wrong(path, &error))?;
        if found.is_empty() {
            return Err(wrong(path, &"there is no revocation list (PEM) in it"));
        }
        Ok(found)
    }

    /// The authorities whose certificates a file has.
    ///
    /// # Errors
    /// As [`certificates`](Self::certificates).
    pub(super) fn authorities(&self, path: &Path) -> io::Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates(path)? {
            roots
                .add(certificate)
                .map_err(|error| wrong(path, &error))?;
        }
        Ok(roots)
    }
}

/// The error for a file that has not what it should have.
pub(super) fn wrong(path: &Path, what: &dyn fmt::Display) -> io::Error {
    let text = format!("{}: {what}", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
