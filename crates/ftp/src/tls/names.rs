//! Which certificate a server shows: that of the host whose name the client gives (SNI, RFC 6066 section 3).

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Certificates with their keys, by names of hosts in lower case.
pub(crate) type NamedCertificates = HashMap<String, Arc<CertifiedKey>>;

/// The certificates of a server.
#[derive(Debug, Clone)]
pub(crate) struct Certificates {
    /// For clients that give no name, or one that no host has.
    own: Arc<CertifiedKey>,
    named: Arc<NamedCertificates>,
}

impl Certificates {
    pub(crate) fn new(own: Arc<CertifiedKey>, named: NamedCertificates) -> Self {
        Self {
            own,
            named: Arc::new(named),
        }
    }

    /// The same, where the certificate of a host is the one for clients that give no name.
    pub(super) fn at_host(&self, name: &str) -> Self {
        let own = self.named.get(&name.to_ascii_lowercase());
        Self {
            own: Arc::clone(own.unwrap_or(&self.own)),
            named: Arc::clone(&self.named),
        }
    }
}

impl Certificates {
    /// The certificate for clients that give this name of the server.
    pub(super) fn of(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let name = name.map(str::to_ascii_lowercase);
        let named = name.and_then(|name| self.named.get(&name));
        Arc::clone(named.unwrap_or(&self.own))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.of(hello.server_name()))
    }
}
