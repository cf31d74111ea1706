//! TLS in a session (RFC 4217, RFC 2228): AUTH, PBSZ, PROT, CCC, and what is refused without it.

use std::io;
use std::time::Instant;

use fairwind_transfer::RateLimitedLog;

use super::session::{Failure, Session};
use crate::protocol::Reply;
use crate::tls::ServerSessionTls;

static FAILED: RateLimitedLog = RateLimitedLog::new();

/// Which of the server's ports the client has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// That of FTP: TLS begins with AUTH, if at all.
    Plain,
    /// That of implicit TLS: everything is protected from the beginning.
    Implicit,
}

impl Session {
    /// Whether TLS can be had in this session.
    pub(super) fn offers_tls(&self) -> bool {
        self.shared.tls.is_some()
    }

    /// Whether the client may not log in yet.
    pub(super) fn lacks_protection(&self) -> bool {
        self.is_required() && self.tls.is_none()
    }

    /// Whether no data connection may be opened yet.
    pub(super) fn data_lacks_protection(&self) -> bool {
        self.is_required() && !self.state.is_private
    }

    fn is_required(&self) -> bool {
        self.shared.tls.as_ref().is_some_and(|tls| tls.required)
    }

    /// TLS for data connections; none if they are in clear.
    pub(super) fn private_tls(&self) -> Option<&ServerSessionTls> {
        self.tls.as_ref().filter(|_| self.state.is_private)
    }

    /// What is protected, as a line of STAT.
    pub(super) fn protection(&self) -> Option<&'static str> {
        self.tls.as_ref()?;
        Some(match self.state.is_private {
            true => "TLS on the control connection and on data connections",
            false => "TLS on the control connection",
        })
    }

    /// Whether the client's address may have another handshake; counts it if so.
    pub(super) fn may_shake_hands(&self) -> bool {
        let peer = self.control.facts.peer.ip();
        let per_minute = self.shared.tls.as_ref();
        let per_minute = per_minute.map_or(0, |tls| tls.handshakes_per_minute);
        let handshakes = &self.shared.ledger.handshakes;
        let may = handshakes.admit(peer.into(), Instant::now(), per_minute);
        if !may {
            FAILED.warn(|| format!("{peer}: more than {per_minute} TLS handshakes a minute"));
        }
        may
    }

    /// The handshake on the control connection.
    pub(super) async fn protect(&mut self) -> io::Result<()> {
        let tls = self.shared.tls.as_ref();
        let mut tls = tls.ok_or(io::ErrorKind::Unsupported)?.session()?;
        let peer = self.control.facts.peer.ip();
        if let Err(error) = self.control.protect(&mut tls).await {
            FAILED.warn(|| format!("{peer}: TLS: {error}"));
            return Err(error);
        }
        self.tls = Some(tls);
        self.follow_server_name();
        Ok(())
    }

    pub(super) async fn authenticate(&mut self, mechanism: &str) -> Result<Reply, Failure> {
        if !self.offers_tls() {
            return Ok(Reply::new(502, "AUTH command not implemented"));
        }
        if self.tls.is_some() {
            return Ok(Reply::new(503, "This connection has TLS already"));
        }
        if !matches!(mechanism, "TLS" | "TLS-C") {
            return Ok(Reply::new(504, "AUTH: only TLS is supported"));
        }
        // What came behind AUTH came in clear. Whoever sent it, it must not count as said under TLS.
        if !self.control.is_empty() || !self.waiting.is_empty() {
            self.over = true;
            let peer = self.control.facts.peer.ip();
            FAILED.warn(|| format!("{peer}: plain text behind AUTH TLS"));
            return Ok(Reply::new(421, "Plain text came behind AUTH; closing"));
        }
        if !self.may_shake_hands() {
            self.over = true;
            let text = "Too many handshakes from your address; try again in a minute";
            return Ok(Reply::new(421, text));
        }
        // RFC 4217 section 4: the user is forgotten.
        self.reset();
        let reply = Reply::new(234, "Begin the TLS handshake");
        self.control.send(&reply).await?;
        self.protect().await?;
        // The next thing the client hears is the handshake's end.
        Err(Failure::Answered(reply))
    }

    pub(super) fn protection_buffer(&mut self) -> Reply {
        match (self.offers_tls(), &self.tls) {
            (false, _) => Reply::new(502, "PBSZ command not implemented"),
            (true, None) => Reply::new(503, "AUTH TLS first"),
            (true, Some(_)) => {
                self.state.is_buffer_size_told = true;
                Reply::new(200, "PBSZ=0")
            }
        }
    }

    pub(super) fn protection_level(&mut self, level: u8) -> Reply {
        if !self.offers_tls() {
            return Reply::new(502, "PROT command not implemented");
        }
        if self.tls.is_none() || !self.state.is_buffer_size_told {
            return Reply::new(503, "AUTH TLS and PBSZ first");
        }
        self.close_shared();
        match level {
            b'P' => {
                self.state.is_private = true;
                Reply::new(200, "Data connections will be protected")
            }
            b'C' if self.is_required() => {
                Reply::new(534, "Data connections must be protected here")
            }
            b'C' => {
                self.state.is_private = false;
                Reply::new(200, "Data connections will be in clear")
            }
            b'S' | b'E' => Reply::new(536, "PROT: only P and C are supported"),
            _ => Reply::new(504, "PROT: only P and C are supported"),
        }
    }

    pub(super) fn clear_command_channel(&self) -> Reply {
        if !self.offers_tls() {
            return Reply::new(502, "CCC command not implemented");
        }
        Reply::new(534, "The control connection stays as it is")
    }
}
