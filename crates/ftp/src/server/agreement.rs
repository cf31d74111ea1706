//! Agreement on a data connection: PORT and EPRT, PASV and EPSV.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use fairwind_transfer::RateLimitedLog;

use super::channel::{Listening, Setup};
use super::session::Session;
use super::work::not_opened;
use crate::protocol::command::{ExtendedPassive, Family};
use crate::protocol::{Reply, host_port};

static BOUNCE: RateLimitedLog = RateLimitedLog::new();
static NO_PORT: RateLimitedLog = RateLimitedLog::new();

impl Session {
    pub(super) fn active(&mut self, address: SocketAddr) -> Reply {
        if self.state.extended_only {
            return Reply::new(503, "Only EPSV is allowed after EPSV ALL");
        }
        self.forget_setup();
        let client = self.control.facts.peer.ip();
        // RFC 2577 section 3: no bounce attacks.
        if address.port() < 1024 || !self.shared.config.permits_peer(client, address.ip()) {
            BOUNCE.warn(|| format!("{client}: a data connection to {address} refused"));
            return Reply::new(
                504,
                "Illegal address: data connections go to your own address, ports 1024 and up",
            );
        }
        self.state.setup = Some(Setup::Active(address));
        Reply::new(200, "PORT command successful")
    }

    fn forget_setup(&mut self) {
        self.state.setup = None;
        self.state.third_party.agrees_anew();
    }

    pub(super) fn passive(&mut self) -> Result<Reply, Reply> {
        if self.state.extended_only {
            return Err(Reply::new(503, "Only EPSV is allowed after EPSV ALL"));
        }
        let IpAddr::V4(own) = self.control.facts.local.ip() else {
            return Err(Reply::new(425, "PASV is for IPv4 only; use EPSV"));
        };
        let port = self.listen()?.port();
        let shown = SocketAddrV4::new(self.shared.config.masquerade.unwrap_or(own), port);
        let text = format!("Entering Passive Mode ({})", host_port::format_port(shown));
        Ok(Reply::new(227, text))
    }

    pub(super) fn extended_passive(&mut self, what: ExtendedPassive) -> Result<Reply, Reply> {
        let own = if self.control.facts.local.is_ipv4() {
            Family::V4
        } else {
            Family::V6
        };
        match what {
            ExtendedPassive::All => {
                self.state.extended_only = true;
                Ok(Reply::new(200, "EPSV ALL command successful"))
            }
            ExtendedPassive::Port(Some(family)) if family != own => {
                let number = if own == Family::V4 { 1 } else { 2 };
                Err(Reply::new(
                    522,
                    format!("Network protocol not supported, use ({number})"),
                ))
            }
            ExtendedPassive::Port(_) => {
                let port = self.listen()?.port();
                let text = format!(
                    "Entering Extended Passive Mode ({})",
                    host_port::format_epsv(port)
                );
                Ok(Reply::new(229, text))
            }
        }
    }

    fn listen(&mut self) -> Result<SocketAddr, Reply> {
        // Drop the previous socket first: its port may be needed again.
        self.forget_setup();
        let plan = self.plan();
        let address = self.control.facts.local.ip();
        let config = &self.shared.config;
        let client = self.control.facts.peer.ip().into();
        let ports = &self.shared.ledger.ports;
        let opened = ports
            .listen(config.passive_ports.as_ref(), address, client, &plan)
            .and_then(|socket| {
                let address = socket.local_addr()?;
                Ok((Listening::new(socket, plan, config)?, address))
            });
        match opened {
            Ok((listening, address)) => {
                self.state.setup = Some(Setup::Passive(listening));
                Ok(address)
            }
            Err(error) => {
                NO_PORT.warn(|| format!("no passive data connection at {address}: {error}"));
                Err(match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        Reply::new(425, "No free port for a data connection")
                    }
                    _ => not_opened(&error),
                })
            }
        }
    }
}
