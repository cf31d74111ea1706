//! How a server is reached: from which address or interface, and through which proxy.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::{Duration, Instant};

use fairwind_transfer::SocketPlan;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::proxy::Target;
use super::{ClientError, Place, Progress, Proxy};

/// Where connections begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bind {
    /// At this address of this host.
    Address(IpAddr),
    /// At this interface.
    Interface(String),
}

impl FromStr for Bind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        // Longest name of an interface: netdevice(7).
        let is_name = (1..16).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'/');
        match is_name {
            true => Ok(Self::Interface(text.to_owned())),
            false => {
                Err("an address of this host or the name of an interface is wanted".to_owned())
            }
        }
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Interface(name) => name.fmt(f),
        }
    }
}

/// Which proxy is used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Through {
    /// The one that the environment names, if any ([`Proxy::from_environment`]).
    #[default]
    Environment,
    /// This one.
    Proxy(Proxy),
    /// None.
    Nothing,
}

impl FromStr for Through {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::Nothing),
            proxy => proxy.parse().map(Self::Proxy),
        }
    }
}

/// How servers are reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Route {
    /// Where connections begin; the kernel's choice by default.
    pub bind: Option<Bind>,
    /// Which proxy is used.
    pub through: Through,
}

/// The way to one server.
#[derive(Debug, Clone)]
pub(super) struct Way {
    bind: Option<Bind>,
    /// The proxy, and the server as the proxy is told of it.
    proxy: Option<(Proxy, Target)>,
    port: u16,
    /// Where connections lead to: addresses of the server, or of the proxy.
    pub(super) addresses: Vec<SocketAddr>,
}

impl Route {
    /// The way to the server of a place.
    ///
    /// # Errors
    /// If a name cannot be resolved, or the environment names something that is no proxy.
    pub(super) fn to(&self, place: &Place) -> Result<Way, ClientError> {
        let proxy = match &self.through {
            Through::Environment => Proxy::from_environment(&place.host)?,
            Through::Proxy(proxy) => Some(proxy.clone()),
            Through::Nothing => None,
        };
        let server = place.server();
        let failed = |error| ClientError::transient(format!("no connection to {server}: {error}"));
        let addresses = match &proxy {
            Some(proxy) => proxy.addresses(),
            None => {
                let found = (place.host.as_str(), place.port).to_socket_addrs();
                found.map(Iterator::collect)
            }
        };
        let proxy = match proxy {
            Some(proxy) => {
                let target = proxy.target(&place.host, place.port).map_err(failed)?;
                Some((proxy, target))
            }
            None => None,
        };
        Ok(Way {
            bind: self.bind.clone(),
            proxy,
            port: place.port,
            addresses: addresses.map_err(failed)?,
        })
    }
}

impl Way {
    /// Whether connections lead to a proxy.
    pub(super) fn is_proxied(&self) -> bool {
        self.proxy.is_some()
    }

    /// A control connection by one of the addresses.
    pub(super) fn control(
        &self,
        address: SocketAddr,
        patience: Duration,
        progress: &dyn Progress,
    ) -> io::Result<TcpStream> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        self.connect(&socket, address, self.port, patience, progress)?;
        Ok(socket.into())
    }

    /// A data connection to a port of the server, whose control connection leads to `peer`.
    pub(super) fn data(
        &self,
        plan: &SocketPlan,
        mut peer: SocketAddr,
        port: u16,
        patience: Duration,
        progress: &dyn Progress,
    ) -> io::Result<TcpStream> {
        if !self.is_proxied() {
            peer.set_port(port);
        }
        let socket = plan.socket(peer)?;
        self.connect(&socket, peer, port, patience, progress)?;
        plan.settle(SockRef::from(&socket))?;
        Ok(socket.into())
    }

    /// Connects by `address` to a port of the server.
    fn connect(
        &self,
        socket: &Socket,
        address: SocketAddr,
        port: u16,
        patience: Duration,
        progress: &dyn Progress,
    ) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        match &self.bind {
            Some(Bind::Address(own)) if own.is_ipv4() != address.is_ipv4() => {
                return Err(io::Error::new(
                    io::ErrorKind::AddrNotAvailable,
                    format!("it cannot be reached from {own}"),
                ));
            }
            Some(Bind::Address(own)) => socket
                .bind(&SocketAddr::new(*own, 0).into())
                .map_err(|error| io::Error::new(error.kind(), format!("from {own}: {error}")))?,
            Some(Bind::Interface(name)) => socket
                .bind_device(Some(name.as_bytes()))
                .map_err(|error| io::Error::new(error.kind(), format!("from {name}: {error}")))?,
            None => {}
        }
        let connected = socket.connect_timeout(&address.into(), patience);
        connected.map_err(|error| match (&self.proxy, error.kind()) {
            (Some((proxy, _)), io::ErrorKind::TimedOut) => io::Error::other(format!(
                "the proxy {proxy}: it did not answer within {patience:?}"
            )),
            (Some((proxy, _)), _) => io::Error::other(format!("the proxy {proxy}: {error}")),
            (None, _) => error,
        })?;
        match &self.proxy {
            Some((proxy, target)) => {
                let stream = socket.try_clone()?.into();
                proxy.ask(&stream, target, port, deadline, progress)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_begin_at_an_address_or_an_interface() {
        assert_eq!("::1".parse(), Ok(Bind::Address("::1".parse().unwrap())));
        assert_eq!("eth0.7".parse(), Ok(Bind::Interface("eth0.7".into())));
        for wrong in ["", "eth 0", "a/b", "0123456789abcdef"] {
            assert!(wrong.parse::<Bind>().is_err(), "{wrong}");
        }
    }
}
