//! Opening data connections.
//!
//! Whatever address a reply to PASV has, the client connects to the host of the control connection, so that a
//! server cannot direct it elsewhere. In active mode only connections from that host are accepted.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_transfer::{Direction, Protection, SocketPlan, Transfer, TransferWatcher};
use rustix::event::PollFlags;
use socket2::SockRef;

use super::ahead::Behind;
use super::progress::wait;
use super::protection::listen_for_tickets;
use super::{ClientError, DataMode, Session};
use crate::protocol::{Reply, host_port};
use crate::tls::Protected;

/// How long a data connection is waited for at a port that was asked for in advance: the server may have given it up, and a
/// firewall may not have seen it. Then it is asked for again.
const IN_ADVANCE_PATIENCE: Duration = Duration::from_secs(4);

/// An open data connection.
pub(super) struct Channel {
    /// The socket.
    pub stream: TcpStream,
    /// TLS over it, after its handshake.
    pub protection: Option<Protected>,
    /// Direction and addresses, for watchers.
    pub transfer: Transfer,
}

impl Channel {
    /// Ends the stream in order, with nothing more to send.
    ///
    /// # Errors
    /// If the connection fails.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let Some(protection) = &mut self.protection else {
            return Ok(());
        };
        protection.end(&self.stream)?;
        self.stream.shutdown(Shutdown::Write)?;
        listen_for_tickets(protection, &self.stream);
        Ok(())
    }
}

/// A data connection being set up.
enum Opening {
    Open(TcpStream),
    Waiting(Arc<TcpListener>, SocketPlan),
}

impl Session {
    /// Sets up a data connection, sends REST if `first` is not zero and then `verb argument`, and returns the
    /// open connection once the server has sent a preliminary reply.
    ///
    /// # Errors
    /// If the server refuses, or the data connection cannot be established.
    pub(super) fn open_channel(
        &mut self,
        verb: &str,
        argument: &[u8],
        first: u64,
        direction: Direction,
    ) -> Result<Channel, ClientError> {
        self.open_channel_before(verb, argument, first, direction, Behind::Nothing)
    }

    /// The same; what is `behind` goes to the server at once, if it takes commands in advance.
    ///
    /// # Errors
    /// As for [`open_channel`](Self::open_channel).
    pub(super) fn open_channel_before(
        &mut self,
        verb: &str,
        argument: &[u8],
        first: u64,
        direction: Direction,
        behind: Behind,
    ) -> Result<Channel, ClientError> {
        self.settle_ahead()?;
        self.leave_third_party()?;
        if let Some(method) = behind.method()
            && self.takes_commands_in_advance()
        {
            self.choose(method)?;
        }
        let plan = self.plan();
        let opening = match self.options.mode {
            DataMode::Passive => self.open_passive(&plan)?,
            DataMode::Active => self.open_active(plan)?,
        };
        self.restart_at(first)?;
        self.send_ahead(verb, argument, behind)?;
        let patience = self.options.patience;
        let reply = match self.announces_ahead(behind) {
            false => self.control.reply(patience)?,
            true => {
                let room = self.control.last_reply(patience)?;
                let full = is_full(&room).then(|| self.control.refused(room));
                let reply = self.control.first_reply_ahead(patience)?;
                match full {
                    None => reply,
                    Some(full) => {
                        drop(opening);
                        self.take_back(argument, reply)?;
                        return Err(full);
                    }
                }
            }
        };
        if !reply.is_preliminary() {
            return Err(self.control.refused(reply));
        }
        let (stream, listener) = match opening {
            Opening::Open(stream) => (stream, None),
            Opening::Waiting(listener, plan) => {
                let stream = self.accept(&listener)?;
                plan.settle(SockRef::from(&stream))
                    .map_err(|error| self.data_error(error))?;
                (stream, Some(listener))
            }
        };
        let failed = |error| self.data_error(error);
        let transfer = Transfer {
            direction,
            local: stream.local_addr().map_err(failed)?,
            peer: stream.peer_addr().map_err(failed)?,
            listener,
            total: None,
            protector: self.protector(),
        };
        Ok(Channel {
            protection: self.protect_data(&stream)?,
            stream,
            transfer,
        })
    }

    /// Leaves nothing of an upload for which there is no room, and whose data connection has been closed.
    fn take_back(&mut self, path: &[u8], reply: Reply) -> Result<(), ClientError> {
        if !reply.is_preliminary() {
            return Ok(());
        }
        let stored = self.control.last_reply(self.options.patience)?;
        if stored.is_positive() {
            self.settle_ahead()?;
            self.control.ask("DELE", path)?;
        }
        Ok(())
    }

    /// The extensions' watchers of this transfer.
    pub(super) fn watchers(&mut self, transfer: &Transfer) -> Vec<Box<dyn TransferWatcher>> {
        self.extensions
            .iter_mut()
            .filter_map(|extension| extension.watch(transfer))
            .collect()
    }

    /// Lets the extensions negotiate with the server before a file's data connection is set up.
    pub(super) fn prepare(&mut self) -> Result<(), ClientError> {
        let mut extensions = std::mem::take(&mut self.extensions);
        let result = extensions
            .iter_mut()
            .try_for_each(|extension| extension.prepare(self));
        self.extensions = extensions;
        result.and_then(|()| self.undo_stale())
    }

    /// The address at which the server listens: EPSV, or PASV if that is refused over IPv4.
    pub(super) fn ask_passive(&mut self) -> Result<SocketAddr, ClientError> {
        let peer = self.control.peer;
        self.settle_ahead()?;
        self.listening = None;
        if !self.plain_addresses {
            let reply = self.control.ask("EPSV", b"")?;
            if let Some(address) = self.extended_address(&reply)? {
                return Ok(address);
            }
            if peer.is_ipv6() && !self.control.way.is_proxied() {
                return Err(self.control.refused(reply));
            }
            self.plain_addresses = true;
        }
        self.ask_pasv()
    }

    /// Whether EPSV may be sent before the replies to other commands. Firewalls that open the port of the reply look for it
    /// at the beginning of a segment, so this is only for servers that send each reply in one of its own.
    pub(super) fn takes_passive_in_advance(&self) -> bool {
        self.options.mode == DataMode::Passive
            && !self.plain_addresses
            && self.takes_commands_in_advance()
    }

    /// The address in the reply to EPSV; `None` if it is refused.
    pub(super) fn extended_address(
        &self,
        reply: &Reply,
    ) -> Result<Option<SocketAddr>, ClientError> {
        if reply.code != 229 {
            return Ok(None);
        }
        let port = host_port::parse_epsv_reply(&reply.text());
        let port = port.map_err(|error| self.control.protocol_error(&error.to_string()))?;
        Ok(Some(SocketAddr::new(self.control.peer.ip(), port)))
    }

    /// The address in the reply to PASV, unchecked.
    pub(super) fn ask_pasv(&mut self) -> Result<SocketAddr, ClientError> {
        let reply = self.control.ask("PASV", b"")?;
        self.passive_in(reply)
    }

    /// The address in a reply to PASV or CPSV, unchecked.
    pub(super) fn passive_in(&self, reply: Reply) -> Result<SocketAddr, ClientError> {
        if reply.code != 227 {
            return Err(self.control.refused(reply));
        }
        host_port::parse_passive_reply(&reply.text())
            .map_err(|error| self.control.protocol_error(&error.to_string()))
    }

    /// Where the server waits for the next data connection: always at the host of the control connection.
    /// Whoever opens it follows with [`Session::begin_upload`].
    ///
    /// # Errors
    /// If the server refuses, or names port 0.
    pub fn passive_address(&mut self) -> Result<SocketAddr, ClientError> {
        let told = self.ask_passive()?;
        let mut address = self.control.peer;
        address.set_port(told.port());
        if told.ip() != address.ip() && !self.control.way.is_proxied() {
            self.options.progress.note(&format!(
                "{} names {} for the data connection; {} is used, where the control connection leads",
                self.control.server,
                told.ip(),
                address.ip()
            ));
        }
        if told.port() == 0 {
            return Err(self.control.protocol_error("port 0"));
        }
        Ok(address)
    }

    /// Has the server store what comes over a data connection, which the caller has opened to
    /// [`Session::passive_address`], at this path.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn begin_upload(&mut self, path: &[u8]) -> Result<(), ClientError> {
        self.control.send("STOR", path)?;
        let reply = self.control.reply(self.options.patience)?;
        if !reply.is_preliminary() {
            return Err(self.control.refused(reply));
        }
        Ok(())
    }

    /// Waits for the server to have stored what came; the caller has closed the data connection.
    ///
    /// # Errors
    /// If the server could not store it, or does not answer in time.
    pub fn end_upload(&mut self) -> Result<(), ClientError> {
        let reply = self.control.last_reply(self.options.patience)?;
        self.control.accepted(reply).map(drop)
    }

    fn open_passive(&mut self, plan: &SocketPlan) -> Result<Opening, ClientError> {
        let patience = self.options.patience;
        if self.is_listening()
            && let Some((address, _)) = self.listening.take()
            && let Ok(stream) = self.connect_data(plan, address, patience.min(IN_ADVANCE_PATIENCE))
        {
            return Ok(Opening::Open(stream));
        }
        let address = self.passive_address()?;
        self.connect_data(plan, address, patience)
            .map(Opening::Open)
            .map_err(|error| unreached(address, patience, error))
    }

    /// The plan for a data socket.
    pub(super) fn plan(&mut self) -> SocketPlan {
        let mut plan = self.options.plan.clone();
        for extension in &mut self.extensions {
            extension.plan(&mut plan);
        }
        plan
    }

    /// Connects to the port of this address, at which the server listens.
    ///
    /// # Errors
    /// If that fails or takes longer than `patience`.
    pub(super) fn connect_data(
        &self,
        plan: &SocketPlan,
        address: SocketAddr,
        patience: Duration,
    ) -> io::Result<TcpStream> {
        let (peer, progress) = (self.control.peer, &*self.options.progress);
        let way = &self.control.way;
        way.data(plan, peer, address.port(), patience, progress)
    }

    fn open_active(&mut self, plan: SocketPlan) -> Result<Opening, ClientError> {
        if self.control.way.is_proxied() {
            return Err(ClientError::Usage(
                "through a proxy, servers cannot open data connections: leave out --active".into(),
            ));
        }
        let address = SocketAddr::new(self.control.local.ip(), 0);
        let failed = |error| self.data_error(error);
        let listener = TcpListener::from(plan.listen(address).map_err(failed)?);
        let address = listener.local_addr().map_err(failed)?;
        let reply = self.tell_address(address)?;
        self.control.accepted(reply)?;
        Ok(Opening::Waiting(Arc::new(listener), plan))
    }

    /// Tells the server where to connect to: EPRT, or PORT if the server does not know EPRT.
    pub(super) fn tell_address(&mut self, address: SocketAddr) -> Result<Reply, ClientError> {
        if !self.plain_addresses {
            let reply = self
                .control
                .ask("EPRT", host_port::format_eprt(address).as_bytes())?;
            if reply.is_positive() || !address.is_ipv4() || !matches!(reply.code, 500 | 502 | 522) {
                return Ok(reply);
            }
            self.plain_addresses = true;
        }
        match address {
            SocketAddr::V4(address) => self
                .control
                .ask("PORT", host_port::format_port(address).as_bytes()),
            SocketAddr::V6(_) => self
                .control
                .ask("EPRT", host_port::format_eprt(address).as_bytes()),
        }
    }

    /// Accepts the server's connection; connections from other hosts are closed.
    fn accept(&self, listener: &TcpListener) -> Result<TcpStream, ClientError> {
        let server = self.control.peer.ip();
        let deadline = Instant::now() + self.options.patience;
        loop {
            match listener.accept() {
                Ok((stream, peer)) if same_host(peer.ip(), server) => return Ok(stream),
                Ok((_, other)) => self.options.progress.note(&format!(
                    "{} came in the place of {server} and was turned away",
                    other.ip()
                )),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(self.data_error(error)),
            }
            if self.options.progress.stopped() {
                return Err(ClientError::Stopped);
            }
            if Instant::now() >= deadline {
                let what = format!(
                    "the server did not connect within {:?}; behind a firewall, passive mode may work",
                    self.options.patience
                );
                return Err(ClientError::data(server, what));
            }
            let arrival = (listener.as_fd(), PollFlags::IN);
            // The next accept() shows whether a connection came.
            wait(&*self.options.progress, &[arrival], Some(deadline))
                .map_err(|error| self.data_error(error))?;
        }
    }
}

/// The error for a data connection that could not be established.
pub(super) fn unreached(address: SocketAddr, patience: Duration, error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::TimedOut => {
            ClientError::data(address, format!("not there within {patience:?}"))
        }
        _ => ClientError::data(address, error),
    }
}

/// Whether a reply to ALLO says that there is no room.
pub(super) fn is_full(reply: &Reply) -> bool {
    matches!(reply.code, 452 | 552)
}

/// Whether two addresses are equal, with IPv4-mapped IPv6 addresses taken as IPv4.
fn same_host(one: IpAddr, other: IpAddr) -> bool {
    one.to_canonical() == other.to_canonical()
}
