//! The server's part of TLS.
//!
//! Each session has ticket keys and a store of sessions of its own: a data connection that resumes anything resumes
//! the session's control connection, or an earlier data connection of it. Nobody else can take its place.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    Acceptor, ClientHello, NoServerSessionStorage, ProducesTickets, ServerSessionMemoryCache,
    StoresServerSessions, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    HandshakeKind, ProtocolVersion, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::names::Certificates;
use super::peer::{self, ClientOrServer, Identity, Part, Peer, PeerTls};
use super::stream::{FOR_DATA, FOR_MESSAGES};
use super::verifier::Verifier;
use super::{ALPN_CONTROL, ALPN_DATA, Fingerprint, Protected, alpn_names, kernel, pem};
use crate::file_reader::FileReader;

/// Tickets for each connection: one for the next data connection, one for its right-sizing, and two to spare.
const TICKETS: usize = 4;

/// Time for ending a connection in order.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// TLS as the operator configures it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// As `--tls-certificate`.
    pub certificate: PathBuf,
    /// As `--tls-key`.
    pub key: PathBuf,
    /// As `--tls-required`. Default: `false`.
    #[serde(default)]
    pub required: bool,
    /// As `--tls-listen`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    #[serde(default)]
    pub listen: Option<SocketAddr>,
    /// Authorities (PEM) whose certificates clients may show; none: no certificate is asked for.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
    /// With `client_ca`: `"require"`, or `"allow"` clients that show none. Default: `"require"`.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    #[serde(default)]
    pub client_certificates: ClientCertificates,
    /// With `client_ca`: revocation lists (PEM) of all authorities that clients' certificates are from.
    #[serde(default)]
    pub client_crl: Option<PathBuf>,
    /// Authorities (PEM) of other servers: one with a certificate of theirs may take part in a protected third-party
    /// transfer whose client names no key or certificate. None: no such server.
    #[serde(default)]
    pub peer_ca: Option<PathBuf>,
    /// Whether a protected data connection has to resume the TLS session of its control connection. Default: `true`.
    #[serde(default = "yes")]
    pub resumption: bool,
    /// Whether the kernel encrypts downloads, if it can. Default: `true`.
    #[serde(default = "yes")]
    pub kernel: bool,
    /// Time for a handshake, seconds. Default: `30`.
    #[serde(default = "handshake_s")]
    pub handshake_s: u32,
    /// Sessions of one address that may begin TLS in a minute; 0: no limit. Default: `1200`.
    #[serde(default = "handshakes_per_minute")]
    pub handshakes_per_minute: u32,
}

fn yes() -> bool {
    true
}

fn handshake_s() -> u32 {
    30
}

fn handshakes_per_minute() -> u32 {
    1_200
}

impl TlsConfig {
    /// TLS for those who want it, with this certificate and its key.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            certificate: certificate.into(),
            key: key.into(),
            required: false,
            listen: None,
            client_ca: None,
            client_certificates: ClientCertificates::default(),
            client_crl: None,
            peer_ca: None,
            resumption: yes(),
            kernel: yes(),
            handshake_s: handshake_s(),
            handshakes_per_minute: handshakes_per_minute(),
        }
    }
}

/// Whether clients have to show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientCertificates {
    /// They may.
    Allow,
    /// They must.
    #[default]
    Require,
}

impl FromStr for ClientCertificates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "allow" => Ok(Self::Allow),
            "require" => Ok(Self::Require),
            _ => Err(format!("{text:?} is neither allow nor require")),
        }
    }
}

/// What all sessions under one configuration share.
#[derive(Debug)]
pub(crate) struct ServerTls {
    control: Versions,
    /// For data connections: other servers, too, may show a certificate.
    data: Versions,
    /// Whose certificates those are.
    peers: Option<Arc<RootCertStore>>,
    pub(crate) required: bool,
    resumption: bool,
    /// The kernel encrypts what it can.
    kernel: bool,
    limit: Duration,
    pub(crate) handshakes_per_minute: u32,
    certificates: Certificates,
}

/// Configurations for the newest version, and for TLS 1.2 only.
#[derive(Debug, Clone)]
struct Versions {
    newest: ServerConfig,
    older: ServerConfig,
}

impl Versions {
    fn new(
        provider: &Arc<CryptoProvider>,
        verifier: &Arc<dyn ClientCertVerifier>,
        certificates: &Certificates,
    ) -> io::Result<Self> {
        let resolver = Arc::new(certificates.clone());
        let with = |versions: &[&'static SupportedProtocolVersion]| {
            let builder = ServerConfig::builder_with_provider(Arc::clone(provider));
            let builder = builder.with_protocol_versions(versions);
            Ok::<_, io::Error>(
                builder
                    .map_err(io::Error::other)?
                    .with_client_cert_verifier(Arc::clone(verifier))
                    .with_cert_resolver(resolver.clone()),
            )
        };
        Ok(Self {
            newest: with(&[&TLS13, &TLS12])?,
            older: with(&[&TLS12])?,
        })
    }

    /// The same with other certificates.
    fn showing(&self, certificates: &Certificates) -> Self {
        let resolver = Arc::new(certificates.clone());
        let with = |config: &ServerConfig| {
            let mut config = config.clone();
            config.cert_resolver = resolver.clone();
            config
        };
        Self {
            newest: with(&self.newest),
            older: with(&self.older),
        }
    }

    /// Those of one session.
    fn of_session(&self, sessions: &Sessions) -> Choice {
        let mut named = self.newest.clone();
        let mut older = self.older.clone();
        for config in [&mut named, &mut older] {
            config.ticketer = Arc::clone(&sessions.tickets);
            config.session_storage = Arc::clone(&sessions.stored);
        }
        named.send_tls13_tickets = TICKETS;
        let nameless = named.clone();
        named.alpn_protocols = alpn_names();
        Choice {
            named: Arc::new(named),
            older: Arc::new(older),
            nameless: Arc::new(nameless),
        }
    }
}

impl ServerTls {
    /// Reads a certificate and its key.
    ///
    /// # Errors
    /// If one of them cannot be read or used; the error names the file.
    pub(crate) fn certificate(
        certificate: &Path,
        key: &Path,
        reader: &FileReader,
    ) -> io::Result<Arc<CertifiedKey>> {
        let chain = reader.certificates(certificate)?;
        let read = CertifiedKey::from_der(chain, reader.key(key)?, &ring::default_provider());
        read.map(Arc::new).map_err(|error| pem::wrong(key, &error))
    }

    /// Reads the authorities.
    ///
    /// # Errors
    /// If they cannot be read or used; the error names the file.
    pub(crate) fn load(
        config: &TlsConfig,
        certificates: Certificates,
        reader: &FileReader,
    ) -> io::Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let verifier = client_verifier(config, reader, &provider)?;
        let control = Versions::new(&provider, &verifier, &certificates)?;
        let peers = config.peer_ca.as_ref();
        let peers = peers.map(|path| reader.authorities(path).map(Arc::new));
        let peers = peers.transpose()?;
        let data = match &peers {
            None => control.clone(),
            Some(authorities) => {
                let either = ClientOrServer {
                    clients: verifier,
                    authorities: Arc::clone(authorities),
                    provider: Arc::clone(&provider),
                };
                let either: Arc<dyn ClientCertVerifier> =
                    Arc::new(Verifier::new(either, &provider));
                Versions::new(&provider, &either, &certificates)?
            }
        };
        Ok(Self {
            control,
            data,
            peers,
            required: config.required,
            resumption: config.resumption,
            kernel: config.kernel && is_in_kernel(),
            limit: Duration::from_secs(config.handshake_s.into()),
            handshakes_per_minute: config.handshakes_per_minute,
            certificates,
        })
    }

    /// The same for sessions of a virtual host, which have its certificate if the client gives no name.
    pub(crate) fn at_host(&self, name: &str) -> Self {
        let certificates = self.certificates.at_host(name);
        Self {
            control: self.control.showing(&certificates),
            data: self.data.showing(&certificates),
            peers: self.peers.clone(),
            certificates,
            ..*self
        }
    }

    /// TLS for one session.
    ///
    /// # Errors
    /// If the kernel has no random numbers.
    pub(crate) fn session(&self) -> io::Result<SessionTls> {
        let sessions = Sessions {
            tickets: ring::Ticketer::new().map_err(io::Error::other)?,
            // For TLS 1.2 without tickets: the control connection, and a few data connections.
            stored: ServerSessionMemoryCache::new(4),
        };
        let mut data = self.data.of_session(&sessions);
        // So that nothing is left unread.
        Arc::make_mut(&mut data.nameless).send_tls13_tickets = 0;
        Ok(SessionTls {
            control: self.control.of_session(&sessions),
            data,
            sessions,
            resumption: self.resumption,
            kernel: self.kernel,
            version: None,
            client: None,
            server_name: None,
            certificates: self.certificates.clone(),
            key: Arc::default(),
            peers: self.peers.clone(),
            limit: self.limit,
        })
    }
}

/// Whether the kernel can encrypt anything; says so, once.
fn is_in_kernel() -> bool {
    static OFFERED: OnceLock<bool> = OnceLock::new();
    *OFFERED.get_or_init(|| {
        let offered = kernel::offered();
        match &offered {
            Some(offered) => tracing::info!("the kernel encrypts downloads under TLS: {offered}"),
            None => tracing::debug!("the kernel has no TLS: downloads are encrypted here"),
        }
        offered.is_some()
    })
}

/// Whose certificates clients may, or have to, show.
fn client_verifier(
    config: &TlsConfig,
    reader: &FileReader,
    provider: &Arc<CryptoProvider>,
) -> io::Result<Arc<dyn ClientCertVerifier>> {
    let Some(path) = &config.client_ca else {
        if let Some(lists) = &config.client_crl {
            let text = "client_crl is of no use without client_ca: no certificate is asked for";
            return Err(pem::wrong(lists, &text));
        }
        return Ok(WebPkiClientVerifier::no_client_auth());
    };
    let roots = Arc::new(reader.authorities(path)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    let mut verifier = match config.client_certificates {
        ClientCertificates::Allow => verifier.allow_unauthenticated(),
        ClientCertificates::Require => verifier,
    };
    let mut file = path;
    if let Some(lists) = &config.client_crl {
        file = lists;
        let revocations = reader.revocations(lists)?;
        // A list that is missing or too old must not let in whom a newer one would keep out.
        verifier = verifier
            .with_crls(revocations)
            .enforce_revocation_expiration();
    }
    verifier.build().map_err(|error| pem::wrong(file, &error))
}

/// Configurations for the clients of one session.
#[derive(Debug, Clone)]
struct Choice {
    /// For clients that name FTP in ALPN.
    named: Arc<ServerConfig>,
    /// For others: TLS 1.2 if they know it, as long as resumption is demanded. Under 1.3 OpenSSL resumes by a ticket only
    /// once, and so needs new ones on each data connection. But a client that closes one without reading what has come,
    /// as after an upload, closes it by a reset, which takes the place of bytes that have not been sent yet. Whoever
    /// knows the names in ALPN is newer than all that.
    older: Arc<ServerConfig>,
    /// For those who know TLS 1.3 only, and on data connections of clients that have named FTP on the control connection
    /// only, as FileZilla does. No ALPN: names of other protocols, which some clients offer, would be refused.
    nameless: Arc<ServerConfig>,
}

/// TLS on the connections of one session.
#[derive(Debug, Clone)]
pub(crate) struct SessionTls {
    control: Choice,
    data: Choice,
    sessions: Sessions,
    resumption: bool,
    kernel: bool,
    /// The version of the control connection, which is that of any session to resume.
    version: Option<ProtocolVersion>,
    /// The certificates that the client showed on the control connection.
    client: Option<Vec<CertificateDer<'static>>>,
    /// The name of the server that the client gave there, in lower case.
    server_name: Option<String>,
    certificates: Certificates,
    /// What other servers know it by, once a client has asked.
    key: Arc<OnceLock<Arc<CertifiedKey>>>,
    /// Authorities of other servers.
    peers: Option<Arc<RootCertStore>>,
    limit: Duration,
}

impl SessionTls {
    /// The handshake of the control connection.
    ///
    /// # Errors
    /// If it fails or takes longer than allowed.
    pub(crate) async fn accept_control(
        &mut self,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let config = |hello: &ClientHello<'_>| Arc::clone(self.choose(hello));
        let stream = self.accept(stream, config, |_| ()).await?;
        self.version = stream.get_ref().1.protocol_version();
        let client = stream.get_ref().1.peer_certificates();
        self.client = client.map(<[_]>::to_vec);
        let name = stream.get_ref().1.server_name();
        self.server_name = name.map(str::to_ascii_lowercase);
        Ok(stream)
    }

    /// The name that the client gave for the server, in lower case, once the handshake is done.
    pub(crate) fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The handshake of a data connection.
    ///
    /// # Errors
    /// As above, and [`NotAsAgreed`] if the client does not show that it has the control connection, too.
    pub(crate) async fn accept_data(
        &self,
        stream: std::net::TcpStream,
    ) -> io::Result<(std::net::TcpStream, Protected)> {
        stream.set_nonblocking(true)?;
        let gate = Arc::new(Gate::new(&self.sessions, true));
        let config = |hello: &ClientHello<'_>| {
            let mut config = ServerConfig::clone(self.choose_data(hello));
            config.ticketer = gate.clone();
            config.session_storage = gate.clone();
            config.enable_secret_extraction = self.kernel;
            Arc::new(config)
        };
        // A ticket that is shown, which anybody may have seen pass, has opened the gate. Only its owner can use it.
        let knows = |connection: &ServerConnection| {
            let is_known = connection.handshake_kind() == Some(HandshakeKind::Resumed);
            gate.is_open.store(is_known, Ordering::Relaxed);
        };
        let stream = TcpStream::from_std(stream)?;
        let mut stream = self.accept(stream, config, knows).await?;
        if let Err(error) = self.check(stream.get_ref().1) {
            // In order: the client is to look for the reason in the reply.
            let _ = timeout(END_TIMEOUT, stream.shutdown()).await;
            return Err(io::Error::other(error));
        }
        let (stream, connection) = stream.into_inner();
        let protected = Protected::new(connection, FOR_DATA).extractable(self.kernel);
        Ok((stream.into_std()?, protected))
    }

    /// Whether a data connection comes from who has the control connection, or from a server that the operator trusts.
    fn check(&self, connection: &ServerConnection) -> Result<(), NotAsAgreed> {
        let is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        let shown = connection.peer_certificates();
        let is_clients = self.client.as_deref() == shown;
        if is_clients && (is_resumed || !self.resumption) {
            return Ok(());
        }
        if !is_resumed && self.is_peers(shown.unwrap_or_default()) {
            return Ok(());
        }
        match is_resumed || !self.resumption {
            true => Err(NotAsAgreed::OtherCertificate),
            false => Err(NotAsAgreed::NotResumed),
        }
    }

    /// Whether a certificate that was shown is that of a server that the operator trusts.
    fn is_peers(&self, shown: &[CertificateDer<'_>]) -> bool {
        let Some(([shown, intermediates @ ..], peers)) = Some(shown).zip(self.peers.as_ref())
        else {
            return false;
        };
        let (now, provider) = (UnixTime::now(), ring::default_provider());
        peer::is_of_server(peers, shown, intermediates, now, &provider).is_ok()
    }

    /// The same for data connections that are with the client only.
    pub(crate) fn without_peers(&self) -> Self {
        Self {
            peers: None,
            ..self.clone()
        }
    }

    /// Whether other servers are known by their authorities.
    pub(crate) fn knows_peers(&self) -> bool {
        self.peers.is_some()
    }

    /// What other servers know this session by: the SHA-256 of its public key.
    ///
    /// # Errors
    /// If the kernel has no random numbers.
    pub(crate) fn session_key(&self) -> io::Result<Fingerprint> {
        let key = match self.key.get() {
            Some(key) => key,
            None => {
                let key = peer::session_key()?;
                self.key.get_or_init(|| key)
            }
        };
        Ok(Fingerprint::of(&key.cert[0]))
    }

    /// TLS with the other server of a third-party transfer.
    ///
    /// # Errors
    /// If there is no key, or no authority, by which the two could know each other.
    pub(crate) fn with_peer(&self, peer: Peer, part: Part) -> io::Result<PeerTls> {
        let identity = Identity {
            certificate: self.certificates.of(self.server_name()),
            key: self.key.get().cloned(),
            authorities: self.peers.clone(),
            kernel: self.kernel,
            limit: self.limit,
        };
        PeerTls::new(peer, part, &identity)
    }

    /// The server's end of a further connection with the client; its handshake runs as bytes are moved.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn protect(&self) -> io::Result<Protected> {
        let mut config = ServerConfig::clone(&self.data.nameless);
        config.ticketer = Arc::new(Gate::new(&self.sessions, false));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let connection = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
        Ok(Protected::new(connection, FOR_MESSAGES))
    }

    /// The configuration for a control connection.
    fn choose(&self, hello: &ClientHello<'_>) -> &Arc<ServerConfig> {
        if names_ftp(hello) {
            return &self.control.named;
        }
        match self.resumption && knows_older(hello, &self.control.older) {
            true => &self.control.older,
            false => &self.control.nameless,
        }
    }

    /// That for a data connection: a session is resumed under the version that it began with, whatever this connection
    /// names. What resumes nothing may be another server, which may know another version only.
    fn choose_data(&self, hello: &ClientHello<'_>) -> &Arc<ServerConfig> {
        let is_older = self.version == Some(ProtocolVersion::TLSv1_2);
        if is_older && knows_older(hello, &self.data.older) {
            return &self.data.older;
        }
        match names_ftp(hello) {
            true => &self.data.named,
            false => &self.data.nameless,
        }
    }

    /// A handshake with the configuration for this client; `knows` is told as soon as it is known who it is.
    async fn accept(
        &self,
        stream: TcpStream,
        config: impl FnOnce(&ClientHello<'_>) -> Arc<ServerConfig>,
        knows: impl FnOnce(&ServerConnection),
    ) -> io::Result<TlsStream<TcpStream>> {
        let shaking = async {
            let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
            let config = config(&start.client_hello());
            start
                .into_stream_with(config, |connection| knows(connection))
                .await
        };
        timeout(self.limit, shaking).await.unwrap_or_else(|_| {
            let text = format!("the TLS handshake took longer than {:?}", self.limit);
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }
}

/// Whether a client names one of FTP's connections in ALPN.
fn names_ftp(hello: &ClientHello<'_>) -> bool {
    let known = |name: &[u8]| [ALPN_CONTROL, ALPN_DATA].contains(&name);
    hello.alpn().is_some_and(|mut names| names.any(known))
}

/// Whether it knows TLS 1.2 as this configuration has it.
fn knows_older(hello: &ClientHello<'_>, older: &ServerConfig) -> bool {
    let suites = older.crypto_provider().cipher_suites.iter();
    let mut older = suites.filter(|suite| suite.version() == &TLS12);
    older.any(|suite| hello.cipher_suites().contains(&suite.suite()))
}

/// The TLS sessions that data connections of one FTP session may resume.
#[derive(Debug, Clone)]
struct Sessions {
    tickets: Arc<dyn ProducesTickets>,
    stored: Arc<dyn StoresServerSessions>,
}

/// Keeps those of data connections that resumed none out: a stranger's data connection is refused, but only after its
/// handshake, and must not leave with a ticket for the next one.
#[derive(Debug)]
struct Gate {
    sessions: Sessions,
    /// Somebody watches who passes, and closes it again.
    is_guarded: bool,
    is_open: AtomicBool,
}

impl Gate {
    fn new(sessions: &Sessions, is_guarded: bool) -> Self {
        Self {
            sessions: sessions.clone(),
            is_guarded,
            is_open: AtomicBool::new(false),
        }
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }
}

impl ProducesTickets for Gate {
    fn enabled(&self) -> bool {
        self.sessions.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.sessions.tickets.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let session = self.is_open().then_some(plain)?;
        self.sessions.tickets.encrypt(session)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let session = self.sessions.tickets.decrypt(cipher)?;
        // Under TLS 1.2 the next ticket belongs to the reply to the one that is shown.
        self.is_open.store(self.is_guarded, Ordering::Relaxed);
        Some(session)
    }
}

impl StoresServerSessions for Gate {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.is_open() && self.sessions.stored.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.sessions.stored.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.sessions.stored.take(key)
    }

    fn can_cache(&self) -> bool {
        self.sessions.stored.can_cache()
    }
}

/// How a client failed to show that a data connection is that of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAsAgreed {
    NotResumed,
    OtherCertificate,
    /// In a third-party transfer.
    OtherServer,
}

impl fmt::Display for NotAsAgreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotResumed => "it must resume the TLS session of the control connection",
            Self::OtherCertificate => "it must show the certificate of the control connection",
            Self::OtherServer => "it is not with the server that it should be with",
        })
    }
}

impl std::error::Error for NotAsAgreed {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under TLS 1.2 tickets pass in clear: who has seen one can show it, and must not get a better one for trying.
    #[test]
    fn a_ticket_that_is_only_shown_opens_the_gate_until_it_is_known_who_shows_it() {
        let sessions = Sessions {
            tickets: ring::Ticketer::new().unwrap(),
            stored: ServerSessionMemoryCache::new(4),
        };
        let ticket = sessions.tickets.encrypt(b"session").unwrap();
        let gate = Gate::new(&sessions, true);
        assert_eq!(gate.encrypt(b"next"), None);
        assert!(!gate.put(b"id".to_vec(), b"next".to_vec()));
        assert_eq!(gate.decrypt(b"another's"), None);
        assert_eq!(gate.encrypt(b"next"), None);
        assert_eq!(gate.decrypt(&ticket).unwrap(), b"session");
        assert!(gate.encrypt(b"next").is_some());
        gate.is_open.store(false, Ordering::Relaxed);
        assert_eq!(gate.encrypt(b"next"), None);
        let unguarded = Gate::new(&sessions, false);
        assert_eq!(unguarded.decrypt(&ticket).unwrap(), b"session");
        assert_eq!(unguarded.encrypt(b"next"), None);
    }
}
