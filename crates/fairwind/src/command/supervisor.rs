//! What a service manager hands over and wants to be told: sockets that it has opened (sd_listen_fds(3)), and
//! messages about this process's state (sd_notify(3)).

use std::env;
use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::AddressFamily;
use rustix::net::sockopt::{socket_acceptconn, socket_domain};

use crate::failure::Failure;

/// The first descriptor that is handed over (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// Time between two messages about the state if no watchdog wants them more often.
const PERIOD: Duration = Duration::from_secs(30);

/// The service manager; nobody if this process was not started by one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Supervisor {
    socket: Option<Arc<UnixDatagram>>,
    /// Time without a message after which this process counts as hung.
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// The one that the environment names. Its socket is connected now: later there may be no right to.
    ///
    /// # Errors
    /// Fails if the socket cannot be connected.
    pub(crate) fn of_environment() -> Result<Self, Failure> {
        let Some(name) = env::var_os("NOTIFY_SOCKET") else {
            return Ok(Self::default());
        };
        let connect = || {
            let socket = UnixDatagram::unbound()?;
            match name.as_bytes() {
                [b'@', abstract_name @ ..] => {
                    socket.connect_addr(&SocketAddr::from_abstract_name(abstract_name)?)?;
                }
                path => socket.connect(std::ffi::OsString::from_vec(path.to_vec()))?,
            }
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = connect().map_err(|error: io::Error| {
            Failure::work(format!("NOTIFY_SOCKET {}: {error}", name.to_string_lossy()))
        })?;
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|time| is_ours && *time > 0);
        Ok(Self {
            socket: Some(Arc::new(socket)),
            watchdog: watchdog.map(Duration::from_micros),
        })
    }

    fn tell(&self, message: &str) {
        if let Some(socket) = &self.socket {
            // A manager that does not listen any more has no use for it.
            let _ = socket.send(message.as_bytes());
        }
    }

    /// It does what it was started for; the status says what.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// The configuration is read again; [`reloaded`](Self::reloaded) ends that.
    pub(crate) fn reloads(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }

    /// The configuration has been read again, or stays.
    pub(crate) fn reloaded(&self) {
        self.tell("READY=1");
    }

    /// It ends.
    pub(crate) fn stops(&self) {
        self.tell("STOPPING=1");
    }

    /// How often [`lives`](Self::lives) is to be called: twice in the watchdog's time. None if nobody listens.
    pub(crate) fn period(&self) -> Option<Duration> {
        self.socket.as_ref()?;
        Some(
            self.watchdog
                .map_or(PERIOD, |watchdog| (watchdog / 2).min(PERIOD)),
        )
    }

    /// The server is alive, with so many sessions.
    pub(crate) fn lives(&self, sessions: usize) {
        self.tell(&format!("WATCHDOG=1\nSTATUS=sessions: {sessions}"));
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// The listening socket that was handed over; none if there is none.
///
/// # Errors
/// Fails if more than one was, or it is not a listening TCP socket.
pub(crate) fn inherited() -> Result<Option<TcpListener>, Failure> {
    if number("LISTEN_PID") != Some(std::process::id().into()) {
        return Ok(None);
    }
    match number("LISTEN_FDS") {
        None | Some(0) => return Ok(None),
        Some(1) => {}
        Some(more) => {
            return Err(Failure::work(format!(
                "LISTEN_FDS: {more} sockets, and one is wanted"
            )));
        }
    }
    // SAFETY: the caller runs before anything else opens descriptors of its own, and LISTEN_PID says that this
    // one was opened for this process.
    let socket = unsafe { OwnedFd::from_raw_fd(FIRST) };
    let wanted = || Failure::work("LISTEN_FDS: it is not a listening TCP socket");
    let listens = socket_acceptconn(&socket).map_err(|_| wanted())?;
    let family = socket_domain(&socket).map_err(|_| wanted())?;
    if !listens || !matches!(family, AddressFamily::INET | AddressFamily::INET6) {
        return Err(wanted());
    }
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).map_err(Failure::work)?;
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(true).map_err(Failure::work)?;
    Ok(Some(listener))
}
