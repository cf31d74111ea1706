//! TLS at the sockets of the network.

use std::sync::Arc;

use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::{FileError, TlsFiles};

/// Loads a configuration for TLS 1.2 and 1.3.
pub(super) fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>, FileError> {
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| FileError::new(&files.certificate, error))?;
    if certificates.is_empty() {
        let problem = "there is no certificate (PEM) in it";
        return Err(FileError::new(&files.certificate, problem));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| FileError::new(&files.key, error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(certificates, key));
    let mut config = config.map_err(|error| FileError::new(&files.key, error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
