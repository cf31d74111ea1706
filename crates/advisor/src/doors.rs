//! Where the service listens, and who may come in.
//!
//! Unless told otherwise it listens on the loopback only, and whoever is on this machine may ask and
//! write. A Unix socket lets in whom its permissions let in. Beyond the machine nobody comes in without
//! a token (RFC 6750). What a browser sends for a page of somebody else's is refused at every door of
//! the network, whether it comes under a foreign name (DNS rebinding) or from a foreign origin.

mod listen;
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

use crate::host;

pub use listen::Listen;
pub(crate) use listen::one_or_several;
pub use tls::TlsFiles;
pub use tokens::{Right, Tokens, TokensError};

/// Permissions of a Unix socket unless told otherwise: its owner's alone.
pub const SOCKET_MODE: u32 = 0o600;
/// Connections that wait to be accepted, at most.
const BACKLOG: i32 = 1024;

/// Where to listen and whom to let in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doors {
    /// Addresses and Unix sockets.
    pub listen: Vec<Listen>,
    /// Permissions of the Unix sockets.
    pub socket_mode: Option<u32>,
    /// Names and addresses by which clients call the service, besides those of the loopback and those
    /// that it listens on.
    pub names: Vec<String>,
    /// A file of tokens: `read TOKEN` or `write TOKEN` a line. With it nobody of the network is let in
    /// without one.
    pub tokens: Option<PathBuf>,
    /// Certificate and key, with which every door of the network speaks TLS.
    pub tls: Option<TlsFiles>,
}

/// Why a door does not open.
#[derive(Debug, Error)]
pub enum DoorError {
    /// Beyond this machine without tokens.
    #[error(
        "{0} is reached from beyond this machine, which needs tokens: make one by fairwind advisor token \
         FILE and start with --tokens FILE; or listen on 127.0.0.1 or unix:PATH"
    )]
    Unguarded(SocketAddr),
    /// The tokens.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// Certificate or key.
    #[error("{file}: {problem}")]
    Tls {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The address or socket cannot be listened on.
    #[error("{place}: {error}")]
    Listen {
        /// Which.
        place: Listen,
        /// Why.
        error: io::Error,
    },
    /// A name by which no request can come.
    #[error(
        "names: {0:?}: a name or an address is needed, without scheme and port: advisor.example.org"
    )]
    Name(String),
    /// Permissions of a Unix socket.
    #[error("socket_mode: 0o{0:o} are no permissions, 0o000 to 0o777 are")]
    Mode(u32),
}

/// Doors that are open.
#[derive(Debug)]
pub struct Open {
    /// The doors.
    pub doors: Vec<Door>,
    /// Names by which clients may call the service.
    pub names: Vec<String>,
    /// The tokens, if they are needed.
    pub tokens: Option<Tokens>,
}

impl Doors {
    /// The addresses at which other machines send their tokens unencrypted.
    pub fn unencrypted(&self) -> impl Iterator<Item = SocketAddr> {
        let places = self.listen.iter().filter(|_| self.tls.is_none());
        places.filter_map(Listen::beyond_this_machine)
    }

    /// Listens.
    ///
    /// # Errors
    /// What is missing or wrong, and what would be right. Nothing listens then.
    pub fn open(&self) -> Result<Open, DoorError> {
        let tokens = self.tokens.as_deref().map(Tokens::load).transpose()?;
        let tls = self.tls.as_ref().map(TlsFiles::load).transpose()?;
        let mode = self.socket_mode.unwrap_or(SOCKET_MODE);
        if mode > 0o777 {
            return Err(DoorError::Mode(mode));
        }
        if let Some(name) = self.names.iter().find(|name| !is_name(name)) {
            return Err(DoorError::Name(name.clone()));
        }
        let unguarded = self.listen.iter().find_map(Listen::beyond_this_machine);
        if let Some(address) = unguarded.filter(|_| tokens.is_none()) {
            return Err(DoorError::Unguarded(address));
        }
        let open = |place: &Listen| {
            let door = match place {
                Listen::Address(address) => Door::network(*address, tls.clone()),
                Listen::Socket(path) => Door::socket(path, mode),
            };
            door.map_err(|error| DoorError::Listen {
                place: place.clone(),
                error,
            })
        };
        Ok(Open {
            doors: self.listen.iter().map(open).collect::<Result<_, _>>()?,
            names: self.names.clone(),
            tokens,
        })
    }
}

/// A door that is open.
#[derive(Debug)]
pub enum Door {
    /// A port.
    Network {
        /// The port.
        listener: TcpListener,
        /// TLS, if it is spoken there.
        tls: Option<Arc<ServerConfig>>,
    },
    /// A Unix socket.
    Socket {
        /// The socket.
        listener: UnixListener,
        /// Its file, which goes when the door is closed.
        file: SocketFile,
    },
}

/// The file of a Unix socket.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that has gone already was what is wanted.
        let _ = fs::remove_file(&self.0);
    }
}

/// A connection that has come in.
#[derive(Debug)]
pub enum Stream {
    /// Over the network, as it is.
    Plain(TcpStream),
    /// Over the network, to be encrypted.
    Tls(TcpStream, Arc<ServerConfig>),
    /// Over a Unix socket.
    Unix(UnixStream),
}

/// How a request has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CameBy {
    /// Over the network, to this address of ours.
    Network(IpAddr),
    /// Over a Unix socket, whose permissions let the client in.
    Socket,
}

impl Door {
    fn network(address: SocketAddr, tls: Option<Arc<ServerConfig>>) -> io::Result<Door> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Door::Network { listener, tls })
    }

    fn socket(path: &Path, mode: u32) -> io::Result<Door> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // The file gets the permissions that the socket has when it is bound, without those that the
        // umask takes away: there is no moment in which it has more than it should have.
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
        Ok(Door::Socket { listener, file })
    }

    /// Where it is, as a client is told.
    pub fn url(&self) -> io::Result<String> {
        Ok(match self {
            Door::Network { listener, tls } => {
                let scheme = if tls.is_some() { "https" } else { "http" };
                format!("{scheme}://{}", listener.local_addr()?)
            }
            Door::Socket { file, .. } => format!("unix:{}", file.0.display()),
        })
    }

    /// Waits for the next connection.
    pub async fn accept(&self) -> io::Result<Stream> {
        match self {
            Door::Network { listener, tls } => {
                let (stream, _) = listener.accept().await?;
                Ok(match tls {
                    Some(tls) => Stream::Tls(stream, Arc::clone(tls)),
                    None => Stream::Plain(stream),
                })
            }
            Door::Socket { listener, .. } => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

impl Stream {
    /// How its requests have come in. Over TCP a client may take nothing of an answer for so long; for a
    /// Unix socket the kernel has no such option.
    pub fn prepare(&self, unread: Duration) -> io::Result<CameBy> {
        let (Stream::Plain(stream) | Stream::Tls(stream, _)) = self else {
            return Ok(CameBy::Socket);
        };
        // Answers are small and somebody waits for each. Without these options it is slower, or held
        // open by the kernel's own patience, but it is served.
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(stream).set_tcp_user_timeout(Some(unread));
        Ok(CameBy::Network(stream.local_addr()?.ip().to_canonical()))
    }

    /// The client's address, if it is not on this machine.
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

/// Whether this is a socket that nobody listens on: a service that was killed leaves it behind.
fn is_deserted(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let connected = std::os::unix::net::UnixStream::connect(path);
    Ok(connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
}
