//! TLS between the two servers of a third-party transfer, neither of which has a session of the other to resume.
//! In its place each knows the other by a key or a certificate, which it has to show, whichever part of TLS it has.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::{
    AlwaysResolvesClientRawPublicKeys, ResolvesClientCert, Resumption,
    verify_server_cert_signed_by_trust_anchor,
};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    AlwaysResolvesServerRawPublicKeys, ClientHello, NoServerSessionStorage, ParsedCertificate,
    ResolvesServerCert,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme, SupportedProtocolVersion,
};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::stream::{FOR_DATA, FOR_MESSAGES};
use super::verifier::{Judge, Verifier};
use super::{Fingerprint, NotAsAgreed, Protected, alpn_names};

/// How the other server is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// By the public key of its session (RFC 7250): the SHA-256 of its SubjectPublicKeyInfo.
    Key(Fingerprint),
    /// By its certificate.
    Certificate(Fingerprint),
    /// By the authority that its certificate is from.
    Authority,
}

/// This server's part of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Server,
    Client,
}

/// What this server shows of itself, and which authorities it trusts.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    /// That of the control connection.
    pub certificate: Arc<CertifiedKey>,
    /// That of the session.
    pub key: Option<Arc<CertifiedKey>>,
    pub authorities: Option<Arc<RootCertStore>>,
    /// The kernel may encrypt what is sent.
    pub kernel: bool,
    /// Time for a handshake.
    pub limit: Duration,
}

/// A fresh key for one session.
///
/// # Errors
/// If the kernel has no random numbers.
pub(super) fn session_key() -> io::Result<Arc<CertifiedKey>> {
    // RFC 8410 section 7: an Ed25519 key in PKCS #8, up to the key itself.
    let mut document = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20\
                          \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let provider = ring::default_provider();
    let filled = provider.secure_random.fill(&mut document[16..]);
    filled.map_err(|error| io::Error::other(rustls::Error::from(error)))?;
    let document = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(&document[..]));
    let key = provider
        .key_provider
        .load_private_key(document.clone_key())
        .map_err(io::Error::other)?;
    let public = key.public_key().ok_or(io::ErrorKind::Unsupported)?;
    // Where TLS has raw public keys, they stand in the place of certificates.
    let public = CertificateDer::from(public.to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

/// TLS on the data connections with another server.
#[derive(Debug, Clone)]
pub(crate) struct PeerTls {
    side: Side,
    kernel: bool,
    limit: Duration,
}

#[derive(Debug, Clone)]
enum Side {
    Server(Arc<ServerConfig>),
    Client(Arc<ClientConfig>),
}

impl PeerTls {
    /// TLS with this peer.
    ///
    /// # Errors
    /// If there is no key, or no authority, by which the two could know each other.
    pub(super) fn new(peer: Peer, part: Part, identity: &Identity) -> io::Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let known = KnownPeer {
            peer,
            authorities: identity.authorities.clone(),
        };
        let is_raw = known.is_raw();
        let verifier = Arc::new(Verifier::new(known, &provider));
        let shown = match (is_raw, &identity.key) {
            (true, Some(key)) => Arc::clone(key),
            (true, None) => return Err(io::ErrorKind::NotFound.into()),
            (false, _) => Arc::clone(&identity.certificate),
        };
        let versions: &[&'static SupportedProtocolVersion] = match is_raw {
            true => &[&TLS13],
            false => &[&TLS13, &TLS12],
        };
        let side = match part {
            Part::Server => {
                let resolver: Arc<dyn ResolvesServerCert> = match is_raw {
                    true => Arc::new(AlwaysResolvesServerRawPublicKeys::new(shown)),
                    false => Arc::new(Only(shown)),
                };
                let builder = ServerConfig::builder_with_provider(provider);
                let builder = builder.with_protocol_versions(versions);
                let mut config = builder
                    .map_err(io::Error::other)?
                    .with_client_cert_verifier(verifier)
                    .with_cert_resolver(resolver);
                config.session_storage = Arc::new(NoServerSessionStorage {});
                config.send_tls13_tickets = 0;
                config.enable_secret_extraction = identity.kernel;
                Side::Server(Arc::new(config))
            }
            Part::Client => {
                let resolver: Arc<dyn ResolvesClientCert> = match is_raw {
                    true => Arc::new(AlwaysResolvesClientRawPublicKeys::new(shown)),
                    false => Arc::new(Only(shown)),
                };
                let builder = ClientConfig::builder_with_provider(provider);
                let builder = builder.with_protocol_versions(versions);
                let mut config = builder
                    .map_err(io::Error::other)?
                    .dangerous()
                    .with_custom_certificate_verifier(verifier)
                    .with_client_cert_resolver(resolver);
                config.resumption = Resumption::disabled();
                config.alpn_protocols = alpn_names();
                config.enable_secret_extraction = identity.kernel;
                Side::Client(Arc::new(config))
            }
        };
        Ok(Self {
            side,
            kernel: identity.kernel,
            limit: identity.limit,
        })
    }

    /// The handshake of a data connection.
    ///
    /// # Errors
    /// If it fails or takes longer than allowed; [`NotAsAgreed`] if the peer is another one.
    pub(crate) async fn shake_hands(
        &self,
        stream: std::net::TcpStream,
    ) -> io::Result<(std::net::TcpStream, Protected)> {
        stream.set_nonblocking(true)?;
        let name = name_of(&stream)?;
        let stream = TcpStream::from_std(stream)?;
        let shaking = async {
            match &self.side {
                Side::Server(config) => {
                    let stream = TlsAcceptor::from(Arc::clone(config)).accept(stream).await?;
                    let (stream, connection) = stream.into_inner();
                    Ok((stream, Protected::new(connection, FOR_DATA)))
                }
                Side::Client(config) => {
                    let connector = TlsConnector::from(Arc::clone(config));
                    let stream = connector.connect(name, stream).await?;
                    let (stream, connection) = stream.into_inner();
                    Ok((stream, Protected::new(connection, FOR_DATA)))
                }
            }
        };
        let shaken = timeout(self.limit, shaking).await.unwrap_or_else(|_| {
            let text = format!("the TLS handshake took longer than {:?}", self.limit);
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        });
        let (stream, protected) = shaken.map_err(stranger)?;
        Ok((stream.into_std()?, protected.extractable(self.kernel)))
    }

    /// This server's end of a further connection with the peer; its handshake runs as bytes are moved.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn beside(&self) -> io::Result<Protected> {
        Ok(match &self.side {
            Side::Server(config) => {
                let connection = ServerConnection::new(Arc::clone(config));
                Protected::new(connection.map_err(io::Error::other)?, FOR_MESSAGES)
            }
            Side::Client(config) => {
                // The verifier does not look at it.
                let name = ServerName::from(IpAddr::from([0, 0, 0, 0]));
                let connection = ClientConnection::new(Arc::clone(config), name);
                Protected::new(connection.map_err(io::Error::other)?, FOR_MESSAGES)
            }
        })
    }

    /// Whether this server has the client's part.
    pub(crate) fn is_client(&self) -> bool {
        matches!(self.side, Side::Client(_))
    }
}

/// The address of the peer, which servers are not told (RFC 6066 section 3).
fn name_of(stream: &std::net::TcpStream) -> io::Result<ServerName<'static>> {
    Ok(ServerName::from(stream.peer_addr()?.ip()))
}

/// Says of an error of TLS that the peer is another one, if that is the reason.
fn stranger(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            io::Error::other(NotAsAgreed::OtherServer)
        }
        _ => error,
    }
}

/// One certificate, whatever is asked for.
#[derive(Debug)]
struct Only(Arc<CertifiedKey>);

impl ResolvesServerCert for Only {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

impl ResolvesClientCert for Only {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let is_usable = self.0.key.choose_scheme(schemes).is_some();
        is_usable.then(|| Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Whether a certificate is that of a server, from one of these authorities and valid now. For whose name it is does
/// not matter.
pub(super) fn is_of_server(
    authorities: &RootCertStore,
    certificate: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
    provider: &CryptoProvider,
) -> Result<(), rustls::Error> {
    let algorithms = provider.signature_verification_algorithms;
    let certificate = ParsedCertificate::try_from(certificate)?;
    verify_server_cert_signed_by_trust_anchor(
        &certificate,
        authorities,
        intermediates,
        now,
        algorithms.all,
    )
}

/// Who the peer is, in both parts of TLS.
#[derive(Debug)]
struct KnownPeer {
    peer: Peer,
    authorities: Option<Arc<RootCertStore>>,
}

impl Judge for KnownPeer {
    fn judge(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let unknown = rustls::Error::from(CertificateError::ApplicationVerificationFailure);
        match (self.peer, &self.authorities) {
            (Peer::Key(known) | Peer::Certificate(known), _) => {
                let is_known = Fingerprint::of(shown) == known;
                is_known.then_some(()).ok_or(unknown)
            }
            (Peer::Authority, Some(authorities)) => {
                let provider = ring::default_provider();
                is_of_server(authorities, shown, intermediates, now, &provider)
            }
            (Peer::Authority, None) => Err(unknown),
        }
    }

    fn is_raw(&self) -> bool {
        matches!(self.peer, Peer::Key(_))
    }
}

/// On data connections that resume nothing: the certificates of clients, and of other servers that the operator trusts.
#[derive(Debug)]
pub(super) struct ClientOrServer {
    pub clients: Arc<dyn ClientCertVerifier>,
    pub authorities: Arc<RootCertStore>,
    pub provider: Arc<CryptoProvider>,
}

impl Judge for ClientOrServer {
    fn judge(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let (authorities, provider) = (&self.authorities, &self.provider);
        match is_of_server(authorities, shown, intermediates, now, provider) {
            Err(_) if self.clients.offer_client_auth() => {
                let verified = self.clients.verify_client_cert(shown, intermediates, now);
                verified.map(drop)
            }
            judged => judged,
        }
    }

    /// Who shows none is judged after the handshake.
    fn is_mandatory(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_has_a_key_of_its_own() {
        let keys = [session_key().unwrap(), session_key().unwrap()];
        let shown = keys.each_ref().map(|key| Fingerprint::of(&key.cert[0]));
        assert_ne!(shown[0], shown[1]);
        // RFC 8410 section 4: the header of an Ed25519 public key, and 32 bytes.
        let header = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
        assert!(keys[0].cert[0].starts_with(header));
        assert_eq!(keys[0].cert[0].len(), 12 + 32);
    }
}
