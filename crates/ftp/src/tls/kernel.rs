//! Kernel TLS: a connection that only sends from now on hands its keys to the kernel, so that `sendfile` needs no copy
//! of the file in this process.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fairwind_kernel::tls::{self, Cipher, Keys, Version};
use fairwind_kernel::{TcpInfo, sockopt};
use fairwind_transfer::Protection;
use rustls::{
    CipherSuite, Connection, ConnectionTrafficSecrets, ProtocolVersion, SupportedCipherSuite,
};

/// Fewest bytes in a record of a file, on average: one for each page, as if all calls of `sendfile` were short. They are
/// up to four times as long.
const RECORD: u64 = 4 << 10;

/// How long nothing has to be on its way before a connection whose records cannot be counted has sent all.
const QUIET: Duration = Duration::from_millis(500);
/// How often the kernel is asked whether it has sent all.
const PAUSE: Duration = Duration::from_millis(1);

/// What the kernel has to know about a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    version: Version,
    cipher: Cipher,
}

impl Kind {
    /// Those of a connection, if the kernel can have it for so many bytes.
    fn of(connection: &Connection, bytes: u64) -> Option<Self> {
        let version = match connection.protocol_version()? {
            ProtocolVersion::TLSv1_2 => Version::Tls12,
            ProtocolVersion::TLSv1_3 => Version::Tls13,
            _ => return None,
        };
        let suite = connection.negotiated_cipher_suite()?;
        let cipher = match suite.suite() {
            CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => Cipher::Aes128Gcm,
            CipherSuite::TLS13_AES_256_GCM_SHA384
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => Cipher::Aes256Gcm,
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => Cipher::ChaCha20Poly1305,
            _ => return None,
        };
        let kind = Self { version, cipher };
        let is_short = bytes / RECORD < records(suite);
        (is_short && tls::is_offered(version, cipher)).then_some(kind)
    }
}

/// How many records a key may encrypt (RFC 8446 section 5.5); the kernel goes on with one key.
fn records(suite: SupportedCipherSuite) -> u64 {
    match suite {
        SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
        SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
    }
}

/// A stream that the kernel encrypts. It only sends: what the peer sends is not read.
#[derive(Debug)]
pub(super) struct InKernel {
    kind: Kind,
    /// The number of the first record that the kernel encrypted.
    first_record: u64,
    /// Bytes that had been written to the connection before it.
    before: u64,
    /// Bytes of the stream that have been written.
    sent: u64,
    is_ended: bool,
    /// Since when nothing has been on its way, after the end.
    quiet_since: Option<Instant>,
}

impl InKernel {
    /// Whether a connection can be [handed over](Self::take): the kernel can have it for so many bytes, and takes the
    /// socket.
    pub(super) fn is_possible(connection: &Connection, socket: &TcpStream, bytes: u64) -> bool {
        let is_idle = !connection.wants_write() && !connection.is_handshaking();
        is_idle && Kind::of(connection, bytes).is_some() && tls::prepare(socket).is_ok()
    }

    /// Hands the keys of a connection to the kernel.
    ///
    /// # Errors
    /// If it is not [possible](Self::is_possible), or the kernel has no memory; then the connection is lost.
    pub(super) fn take(connection: Connection, socket: &TcpStream) -> io::Result<Self> {
        let kind = Kind::of(&connection, 0).ok_or(io::ErrorKind::Unsupported)?;
        let secrets = connection.dangerous_extract_secrets();
        let (sequence, secret) = secrets.map_err(io::Error::other)?.tx;
        let (key, iv) = match &secret {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv }
            | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
            | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let iv = iv.as_ref().try_into().map_err(io::Error::other)?;
        let keys = Keys {
            version: kind.version,
            cipher: kind.cipher,
            key: key.as_ref(),
            iv,
            sequence,
        };
        tls::send_with(socket, &keys)?;
        Ok(Self {
            kind,
            first_record: sequence,
            before: written(socket)?,
            sent: 0,
            is_ended: false,
            quiet_since: None,
        })
    }

    /// Whether all that has been written is TCP's by now. What the kernel has encrypted may wait for room there, and
    /// neither `shutdown` nor `close` waits for it.
    fn has_left(&mut self, socket: &TcpStream) -> io::Result<bool> {
        const CLOSING_MESSAGE: u64 = 2;
        let Kind { version, cipher } = self.kind;
        if let Ok(next) = tls::next_record(socket, version, cipher) {
            let records = next.saturating_sub(self.first_record);
            let all = self.sent + CLOSING_MESSAGE + records * cipher.overhead(version);
            if written(socket)?.saturating_sub(self.before) >= all {
                return Ok(true);
            }
        }
        if sockopt::unacknowledged(socket)? > 0 {
            self.quiet_since = None;
            return Ok(false);
        }
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        let since = *self.quiet_since.get_or_insert_with(Instant::now);
        Ok(since.elapsed() >= QUIET)
    }
}

/// Bytes written to a connection, all in all.
fn written(socket: &TcpStream) -> io::Result<u64> {
    loop {
        let before = TcpInfo::of(socket)?.tcpi_bytes_acked;
        let waiting = sockopt::unacknowledged(socket)?;
        // Acknowledged in between, bytes would count not at all, or twice.
        if TcpInfo::of(socket)?.tcpi_bytes_acked == before {
            return Ok(before + u64::from(waiting));
        }
    }
}

impl Protection for InKernel {
    /// Nothing is expected.
    fn read(&mut self, _: &TcpStream, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write(&mut self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        let count = (&mut &*socket).write(bytes)?;
        self.passed(count);
        Ok(count)
    }

    fn flush(&mut self, _: &TcpStream) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, socket: &TcpStream) -> io::Result<()> {
        if !self.is_ended {
            tls::close_notify(socket)?;
            self.is_ended = true;
        }
        if self.has_left(socket)? {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn is_sending(&self) -> bool {
        false
    }

    fn is_below_socket(&self) -> bool {
        true
    }

    fn passed(&mut self, count: usize) {
        self.sent += count as u64;
    }
}

/// The ciphers with which the kernel can encrypt what is sent, for people.
pub(super) fn offered() -> Option<String> {
    let offers = tls::offers();
    let named = Cipher::ALL.iter().filter_map(|cipher| {
        let versions = offers.iter().filter(|(_, offered)| offered == cipher);
        let versions = versions.map(|(version, _)| match version {
            Version::Tls12 => "1.2",
            Version::Tls13 => "1.3",
        });
        let versions = versions.collect::<Vec<_>>().join(" and ");
        (!versions.is_empty()).then(|| format!("{} (TLS {versions})", cipher.name()))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    (!named.is_empty()).then_some(named)
}
