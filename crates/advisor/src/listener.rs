//! The sockets at which the service listens, and who may connect to them.
//!
//! By default it listens on loopback only, where every local user may read and write. Access to a Unix socket
//! is governed by its permissions. From other machines a token is required (RFC 6750), except for `/healthz`.
//! Requests that a browser sends for a foreign page are refused over every network socket, whether they use
//! a foreign name (DNS rebinding) or come from a foreign origin.

mod tls;
mod tokens;

use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::rustls::ServerConfig;

use crate::config::{Config, FileError, Listen};
use crate::host;

pub use tokens::{Right, Tokens};

/// Default permissions of a Unix socket: its owner only.
pub const SOCKET_MODE: u32 = 0o600;
/// Maximum number of connections waiting to be accepted at a Unix socket.
const BACKLOG: i32 = 1024;

/// Why the service cannot listen.
#[derive(Debug, Error)]
pub enum ListenError {
    /// An address that other machines can reach, without tokens.
    #[error(
        "{0} is reached from beyond this machine, which needs tokens: make one by fairwind advisor token \
         FILE and start with --tokens FILE; or listen on 127.0.0.1 or unix:PATH"
    )]
    Unguarded(SocketAddr),
    /// Tokens, certificate or key cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The address or socket cannot be listened on.
    #[error("{place}: {error}")]
    Listen {
        /// The address or socket.
        place: Listen,
        /// The cause.
        error: io::Error,
    },
    /// A name that cannot occur in a request.
    #[error(
        "names: {0:?}: a name or an address is needed, without scheme and port: advisor.example.org"
    )]
    Name(String),
    /// Invalid permissions for a Unix socket.
    #[error("socket_mode: 0o{0:o} are not permissions, which are 0o000 to 0o777")]
    Mode(u32),
}

/// The open sockets, and whom to admit.
#[derive(Debug)]
pub struct Listeners {
    /// The sockets.
    pub sockets: Vec<Listener>,
    /// Names by which clients may reach the service.
    pub names: Vec<String>,
    /// The tokens, if required.
    pub tokens: Option<Tokens>,
}

impl Listeners {
    /// Opens all sockets.
    ///
    /// # Errors
    /// If any setting is invalid or a socket cannot be opened; the message says what would be right. Then none
    /// is open.
    pub fn open(config: &Config) -> Result<Listeners, ListenError> {
        let tokens = config.tokens.as_deref().map(Tokens::load).transpose()?;
        let tls = config.tls.as_ref().map(tls::load).transpose()?;
        let mode = config.socket_mode.unwrap_or(SOCKET_MODE);
        if mode > 0o777 {
            return Err(ListenError::Mode(mode));
        }
        if let Some(name) = config.names.iter().find(|name| !is_name(name)) {
            return Err(ListenError::Name(name.clone()));
        }
        let mut beyond = config.listen.iter().filter_map(Listen::beyond_this_machine);
        if let Some(address) = beyond.next().filter(|_| tokens.is_none()) {
            return Err(ListenError::Unguarded(address));
        }
        let open = |place: &Listen| {
            let listener = match place {
                Listen::Address(address) => Listener::network(*address, tls.clone()),
                Listen::Socket(path) => Listener::unix(path, mode),
            };
            listener.map_err(|error| ListenError::Listen {
                place: place.clone(),
                error,
            })
        };
        Ok(Listeners {
            sockets: config.listen.iter().map(open).collect::<Result<_, _>>()?,
            names: config.names.clone(),
            tokens,
        })
    }
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Network {
        /// The listening socket.
        listener: TcpListener,
        /// The TLS configuration, if the port uses TLS.
        tls: Option<Arc<ServerConfig>>,
    },
    /// A Unix socket.
    Socket {
        /// The listening socket.
        listener: UnixListener,
        /// Its file, removed when this is dropped.
        file: SocketFile,
    },
}

/// The file of a Unix socket, removed when dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = fs::remove_file(&self.0);
    }
}

/// An accepted connection.
#[derive(Debug)]
pub enum Stream {
    /// TCP, unencrypted.
    Plain(TcpStream),
    /// TCP, before the TLS handshake.
    Tls(TcpStream, Arc<ServerConfig>),
    /// A Unix socket.
    Unix(UnixStream),
}

/// How a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Over TCP, to this local address.
    Network(IpAddr),
    /// Over a Unix socket, whose permissions admitted the client.
    Socket,
}

impl Listener {
    fn network(address: SocketAddr, tls: Option<Arc<ServerConfig>>) -> io::Result<Listener> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Listener::Network { listener, tls })
    }

    fn unix(path: &Path, mode: u32) -> io::Result<Listener> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // The file gets the mode that the socket has when it is bound, less the umask: at no moment does it
        // have more permissions than it should.
        rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(mode))?;
        let address = SockAddr::unix(path)?;
        match socket.bind(&address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_deserted(path)? => {
                fs::remove_file(path)?;
                socket.bind(&address)?;
            }
            bound => bound?,
        }
        let file = SocketFile(path.to_owned());
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let listener = std::os::unix::net::UnixListener::from(std::os::fd::OwnedFd::from(socket));
        let listener = UnixListener::from_std(listener)?;
        Ok(Listener::Socket { listener, file })
    }

    /// The address, as told to clients.
    pub fn url(&self) -> io::Result<String> {
        Ok(match self {
            Listener::Network { listener, tls } => {
                let scheme = if tls.is_some() { "https" } else { "http" };
                format!("{scheme}://{}", listener.local_addr()?)
            }
            Listener::Socket { file, .. } => format!("unix:{}", file.0.display()),
        })
    }

    /// Waits for the next connection.
    pub async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Network { listener, tls } => {
                let (stream, _) = listener.accept().await?;
                Ok(match tls {
                    Some(tls) => Stream::Tls(stream, Arc::clone(tls)),
                    None => Stream::Plain(stream),
                })
            }
            Listener::Socket { listener, .. } => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

impl Stream {
    /// Sets the options of the connection; returns how its requests arrive. Over TCP, the connection is
    /// dropped after `unread` without acknowledged data; Unix sockets have no such option.
    pub fn prepare(&self, unread: Duration) -> io::Result<Arrival> {
        let (Stream::Plain(stream) | Stream::Tls(stream, _)) = self else {
            return Ok(Arrival::Socket);
        };
        // Answers are small and latency matters. Without these options the connection is slower, or held open
        // for the kernel's own timeout, but works.
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(stream).set_tcp_user_timeout(Some(unread));
        Ok(Arrival::Network(stream.local_addr()?.ip().to_canonical()))
    }

    /// The client's address, if it is on another machine.
    pub fn beyond(&self) -> io::Result<Option<IpAddr>> {
        let (Stream::Plain(stream) | Stream::Tls(stream, _)) = self else {
            return Ok(None);
        };
        let address = stream.peer_addr()?.ip().to_canonical();
        let to_itself = address == stream.local_addr()?.ip().to_canonical();
        Ok((!to_itself && !address.is_loopback()).then_some(address))
    }
}

fn is_name(text: &str) -> bool {
    host::address(text).is_some() || host::name(text).is_some()
}

/// Whether this is a socket on which nobody listens, as a killed service leaves it.
fn is_deserted(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let connected = std::os::unix::net::UnixStream::connect(path);
    Ok(connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
}
