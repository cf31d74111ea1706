//! TLS 1.2 and 1.3 (RFC 5246, RFC 8446) under FTP, as RFC 4217 has it: which side has which part on a data connection
//! does not depend on who opened it. Neither version is ever renegotiated: the library does not know how.
//! It declines the first request on a connection, and a second one is an error.

mod client;
mod kernel;
mod names;
mod peer;
mod pem;
mod server;
mod stream;
mod verifier;

pub use client::{ClientTls, Fingerprint, TlsSettings};
pub(crate) use client::{SessionTls as ClientSessionTls, wrong_certificate};
pub(crate) use names::{Certificates, NamedCertificates};
pub(crate) use peer::{Part, Peer, PeerTls};
pub use server::{ClientCertificates, TlsConfig};
pub(crate) use server::{NotAsAgreed, ServerTls, SessionTls as ServerSessionTls};
pub(crate) use stream::Protected;

use std::io;

/// The control connection's name in ALPN (RFC 7301, registered by IANA).
const ALPN_CONTROL: &[u8] = b"ftp";
/// That of data connections.
const ALPN_DATA: &[u8] = b"ftp-data";

/// Both, as servers know them and clients name them on data connections: there, vsftpd since 3.0.4 takes only `ftp`.
fn alpn_names() -> Vec<Vec<u8>> {
    [ALPN_DATA, ALPN_CONTROL].map(<[u8]>::to_vec).into()
}

/// Whether the peer broke the rules of TLS, or offers what this side does not take: trying again has the same end.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(|inner| inner.is::<rustls::Error>() || inner.is::<NotAsAgreed>())
}
