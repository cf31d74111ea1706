//! The client's part of TLS: whom it trusts, and what it shows of itself.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};
use sha2::{Digest, Sha256};

use super::stream::{FOR_DATA, FOR_MESSAGES};
use super::verifier::{Judge, Verifier};
use super::{ALPN_CONTROL, Protected, alpn_names, pem};
use crate::file_reader::FileReader;

/// The SHA-256 of a certificate (DER).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

/// Hexadecimal, also with colons, as `openssl x509 -fingerprint -sha256` prints it.
impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a SHA-256: 64 hexadecimal digits are, also with colons between pairs"
            )
        };
        let bare = text
            .get(..7)
            .filter(|name| name.eq_ignore_ascii_case("sha256:"));
        let digits: Vec<u8> = text[bare.map_or(0, str::len)..]
            .bytes()
            .filter(|byte| *byte != b':')
            .collect();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Whom a client trusts, and the certificate that it shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Authorities (PEM) in place of the system's.
    pub ca: Option<PathBuf>,
    /// Revocation lists (PEM) of all authorities that the server's certificate is from; none: revocation is not
    /// checked.
    pub crl: Option<PathBuf>,
    /// The server's certificate. If it has this fingerprint, neither its authority, nor its names, nor its time
    /// matter.
    pub fingerprint: Option<Fingerprint>,
    /// Any certificate is taken.
    pub insecure: bool,
    /// A certificate to show and its key (PEM).
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// TLS of a client. Files are read when the first server is to be spoken to under TLS.
#[derive(Debug, Default)]
pub struct ClientTls {
    settings: TlsSettings,
    /// What follows from them, once it is needed.
    config: OnceLock<Arc<ClientConfig>>,
}

impl ClientTls {
    /// TLS with these settings.
    pub fn new(settings: TlsSettings) -> Self {
        Self {
            settings,
            config: OnceLock::new(),
        }
    }

    /// Whether every server is taken for the one that is wanted.
    pub(crate) fn trusts_anybody(&self) -> bool {
        self.settings.insecure && self.settings.fingerprint.is_none()
    }

    fn config(&self) -> io::Result<&Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(config);
        }
        let config = Arc::new(self.load()?);
        Ok(self.config.get_or_init(|| config))
    }

    fn load(&self) -> io::Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?);
        let Some((certificate, key)) = &self.settings.certificate else {
            return Ok(builder.with_no_client_auth());
        };
        let reader = FileReader::default();
        builder
            .with_client_auth_cert(reader.certificates(certificate)?, reader.key(key)?)
            .map_err(|error| pem::wrong(key, &error))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> io::Result<Arc<dyn ServerCertVerifier>> {
        let known = match (self.settings.fingerprint, self.settings.insecure) {
            (Some(fingerprint), _) => Some(Known::Only(fingerprint)),
            (None, true) => Some(Known::Anybody),
            (None, false) => None,
        };
        if let Some(known) = known {
            return Ok(Arc::new(Verifier::new(known, &provider)));
        }
        let reader = FileReader::default();
        let roots = match &self.settings.ca {
            Some(path) => reader.authorities(path)?,
            None => system_roots()?,
        };
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let Some(path) = &self.settings.crl else {
            return Ok(verifier.build().map_err(io::Error::other)?);
        };
        let verifier = verifier
            .with_crls(reader.revocations(path)?)
            .enforce_revocation_expiration();
        Ok(verifier.build().map_err(|error| pem::wrong(path, &error))?)
    }

    /// TLS for a session with the server of this name or address, which its certificate must have.
    ///
    /// # Errors
    /// If files cannot be read or used, or this is no name.
    pub(crate) fn session(&self, host: &str) -> io::Result<SessionTls> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut control = ClientConfig::clone(self.config()?);
        // A session's own: nothing links it to earlier ones.
        control.resumption = Resumption::in_memory_sessions(8);
        let mut data = control.clone();
        control.alpn_protocols = vec![ALPN_CONTROL.to_vec()];
        let beside = Arc::new(data.clone());
        data.alpn_protocols = alpn_names();
        Ok(SessionTls {
            control: Arc::new(control),
            data: Arc::new(data),
            beside,
            name,
        })
    }
}

/// The system's authorities, or those of the files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
fn system_roots() -> io::Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let errors = found.errors.iter().map(ToString::to_string);
        let errors: Vec<String> = errors.collect();
        let why = errors.join("; ");
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("the system names no authorities for certificates: {why}"),
        ));
    }
    Ok(roots)
}

/// TLS on the connections of one session. Data connections resume what the control connection began.
#[derive(Debug, Clone)]
pub(crate) struct SessionTls {
    control: Arc<ClientConfig>,
    data: Arc<ClientConfig>,
    /// Without ALPN: for what is neither.
    beside: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl SessionTls {
    /// The client's end of the control connection, before its handshake.
    pub(crate) fn control(&self) -> io::Result<Protected> {
        self.connection(&self.control, FOR_MESSAGES)
    }

    /// That of a data connection.
    pub(crate) fn data(&self) -> io::Result<Protected> {
        self.connection(&self.data, FOR_DATA)
    }

    /// That of a further connection with the server.
    pub(crate) fn beside(&self) -> io::Result<Protected> {
        self.connection(&self.beside, FOR_MESSAGES)
    }

    fn connection(&self, config: &Arc<ClientConfig>, bulk: usize) -> io::Result<Protected> {
        let connection = ClientConnection::new(Arc::clone(config), self.name.clone());
        Ok(Protected::new(connection.map_err(io::Error::other)?, bulk))
    }
}

/// What is wrong with a server's certificate, in words that say what would help; none for other errors.
pub(crate) fn wrong_certificate(error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(what) = inner else {
        return None;
    };
    use CertificateError as Wrong;
    Some(match what {
        Wrong::Expired | Wrong::ExpiredContext { .. } => "its certificate has expired".into(),
        Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => {
            "its certificate is not valid yet".into()
        }
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
            "its certificate is for another name".into()
        }
        Wrong::UnknownIssuer => "its certificate is from no known authority; --tls-ca names \
                                 another one, --tls-fingerprint the certificate itself"
            .into(),
        Wrong::ApplicationVerificationFailure => {
            "its certificate has another fingerprint than --tls-fingerprint".into()
        }
        Wrong::Revoked => "its certificate has been revoked".into(),
        Wrong::UnknownRevocationStatus => "--tls-crl has no revocation list of one of the \
                                           authorities that its certificate is from"
            .into(),
        Wrong::ExpiredRevocationList | Wrong::ExpiredRevocationListContext { .. } => {
            "a revocation list in --tls-crl is too old to tell whether its certificate is valid"
                .into()
        }
        Wrong::BadSignature => {
            "its certificate was not signed by the authority that it names".into()
        }
        Wrong::Other(_) => format!(
            "its certificate cannot be checked ({what}); of a server that has signed its own, \
             --tls-fingerprint names it"
        ),
        what => format!("its certificate is not right: {what}"),
    })
}

/// Whom a client knows without authorities.
#[derive(Debug)]
enum Known {
    Only(Fingerprint),
    Anybody,
}

impl Judge for Known {
    fn judge(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<(), rustls::Error> {
        match self {
            Self::Only(known) if *known != Fingerprint::of(shown) => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            Self::Only(_) | Self::Anybody => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_in_all_ways_in_which_it_is_written() {
        let known = Fingerprint::of(b"abc");
        // FIPS 180-4, "abc".
        let plain = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(known.to_string(), plain);
        let pairs: Vec<String> = plain
            .as_bytes()
            .chunks(2)
            .map(|pair| String::from_utf8_lossy(pair).to_uppercase())
            .collect();
        for text in [plain.to_owned(), pairs.join(":"), format!("SHA256:{plain}")] {
            assert_eq!(text.parse(), Ok(known), "{text}");
        }
        for wrong in ["", "sha256:", &plain[1..], "ä", "sha1:00"] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
