//! Certificates and keys from files (PEM, RFC 7468).

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

type Read = dyn Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync;

/// Reads certificates and keys: from the file system, unless told otherwise.
#[derive(Clone, Default)]
pub struct PemReader(Option<Arc<Read>>);

impl PemReader {
    /// Reads them with `read`.
    pub fn by(read: impl Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(read)))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match &self.0 {
            Some(read) => read(path),
            None => std::fs::read(path),
        }
        .map_err(|error| about(path, &error))
    }

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

impl fmt::Debug for PemReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PemReader").finish_non_exhaustive()
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The error for a file that has not what it should have.
pub(super) fn wrong(path: &Path, what: &dyn fmt::Display) -> io::Error {
    let text = format!("{}: {what}", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
