//! TLS in a session (RFC 4217): what the user asked for is had, or the session ends before anything is said.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fairwind_transfer::{Protection, Protector};
use rustix::event::PollFlags;

use super::control::Control;
use super::place::Scheme;
use super::progress::wait;
use super::{ClientError, Options, Place, Progress, Session};
use crate::tls::{ClientSessionTls, Protected, is_refusal, wrong_certificate};

/// Whether `ftp://` means TLS. `ftps://` and `ftpes://` always do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsPolicy {
    /// Everything is in clear.
    #[default]
    Off,
    /// TLS if the server offers it. Whoever can change what passes can see to it that there is none.
    Offered,
    /// TLS, or nothing.
    Required,
}

/// How long a server may take to close a data connection on which everything has been sent.
const CLOSING: Duration = Duration::from_secs(2);

/// Protects a control connection as wanted, before anything else is said on it. `greet` reads the server's greeting.
///
/// # Errors
/// If the server refuses or does not show the right certificate, or the connection fails.
pub(super) fn begin(
    control: &mut Control,
    place: &Place,
    options: &Options,
    greet: impl FnOnce(&mut Control) -> Result<(), ClientError>,
) -> Result<Option<ClientSessionTls>, ClientError> {
    let wanted = match place.scheme {
        Scheme::Ftps => {
            let tls = session(place, options)?;
            shake_hands(control, &tls)?;
            greet(control)?;
            return Ok(Some(tls));
        }
        Scheme::Ftpes => TlsPolicy::Required,
        Scheme::Ftp => options.tls_policy,
    };
    greet(control)?;
    if wanted == TlsPolicy::Off {
        return Ok(None);
    }
    // The list of features is in clear, so that a line may be missing from it: AUTH itself is tried.
    let reply = control.ask("AUTH", b"TLS")?;
    if !reply.is_positive() {
        if wanted == TlsPolicy::Offered && !reply.is_transient_failure() {
            let server = &control.server;
            let note = format!("{server} offers no TLS: nothing is protected");
            options.progress.note(&note);
            return Ok(None);
        }
        return Err(ClientError::Failed {
            what: format!(
                "{} refused AUTH TLS: {reply}; nothing was sent in clear",
                control.server
            ),
            transient: reply.is_transient_failure(),
        });
    }
    // It came in clear, whoever sent it.
    if !control.is_empty() {
        return Err(control.protocol_error("plain text behind its consent to TLS"));
    }
    let tls = session(place, options)?;
    shake_hands(control, &tls)?;
    Ok(Some(tls))
}

fn session(place: &Place, options: &Options) -> Result<ClientSessionTls, ClientError> {
    if options.tls.trusts_anybody() {
        options.progress.note(&format!(
            "{}: its certificate is not checked; whoever is between could read and change everything",
            place.server()
        ));
    }
    let tls = options.tls.session(&place.host);
    tls.map_err(|error| ClientError::Usage(format!("TLS with {}: {error}", place.server())))
}

fn shake_hands(control: &mut Control, tls: &ClientSessionTls) -> Result<(), ClientError> {
    let failed = |server: &str, error| handshake_error(server, &error);
    let protected = tls.control();
    let protected = protected.map_err(|error| failed(&control.server, error))?;
    let shaken = control.protect(protected);
    shaken.map_err(|error| failed(&control.server, error))
}

/// The error of a failed handshake: tried again only if the connection failed, not if the two do not agree.
fn handshake_error(with: &str, error: &io::Error) -> ClientError {
    if error.kind() == io::ErrorKind::ConnectionAborted {
        return ClientError::Stopped;
    }
    let why = wrong_certificate(error).unwrap_or_else(|| format!("no TLS: {error}"));
    ClientError::Failed {
        what: format!("{with}: {why}"),
        transient: !is_refusal(error),
    }
}

/// Drives a handshake to its end.
///
/// # Errors
/// If it fails or takes longer than `patience`; `ConnectionAborted` if the user stops.
pub(super) fn complete(
    protected: &mut Protected,
    socket: &TcpStream,
    progress: &dyn Progress,
    patience: Duration,
) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        protected.send_tls(socket)?;
        if !protected.connection().is_handshaking() {
            return Ok(());
        }
        if progress.stopped() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if Instant::now() >= deadline {
            let text = format!("the handshake took longer than {patience:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        let arrival = (socket.as_fd(), PollFlags::IN);
        if !protected.has_more() && !wait(progress, &[arrival], Some(deadline))?[0] {
            continue;
        }
        match protected.take_in(socket) {
            Err(error) if super::control::is_wait(&error) => {}
            taken => taken?,
        }
        if protected.has_ended() {
            let text = "the connection was closed in the middle of the handshake";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
    }
}

impl Session {
    /// The handshake of a data connection, if it is to be protected.
    pub(super) fn protect_data(
        &self,
        stream: &TcpStream,
    ) -> Result<Option<Protected>, ClientError> {
        let Some(tls) = &self.tls else {
            return Ok(None);
        };
        let (progress, patience) = (&*self.options.progress, self.options.patience);
        let shaken = tls.data().and_then(|mut protected| {
            complete(&mut protected, stream, progress, patience)?;
            Ok(protected)
        });
        shaken.map(Some).map_err(|error| {
            let with = format!("data connection with {}", self.server());
            handshake_error(&with, &error)
        })
    }

    /// How further connections with the server are protected, if data connections are.
    pub(super) fn protector(&self) -> Option<Protector> {
        let tls = self.tls.clone()?;
        Some(Protector::new(move || {
            Ok(Box::new(tls.beside()?) as Box<dyn Protection>)
        }))
    }
}

/// Reads, after everything has been sent, what the server has to say: tickets with which the next data connection
/// resumes the session.
pub(super) fn listen_for_tickets(protected: &mut Protected, stream: &TcpStream) {
    let deadline = Instant::now() + CLOSING;
    let _ = stream.set_read_timeout(Some(CLOSING));
    while Instant::now() < deadline {
        match protected.read(stream, &mut [0; 256]) {
            // Not that anything should come.
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
    }
}
