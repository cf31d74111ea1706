//! Protected data connections with another server (SSCN, CPSV, SITE PEER): who has which part of TLS, and how the two know
//! each other. That holds for files; listings go to the client.

use std::io;

use fairwind_transfer::{Protection, Protector};

use super::session::Session;
use crate::protocol::Reply;
use crate::tls::{Part, Peer, PeerTls, Protected, ServerSessionTls};

/// What commands have said of the other server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ThirdParty {
    /// SITE PEER: how the other server is known.
    peer: Option<Peer>,
    /// SSCN ON: this server has the client's part of TLS.
    is_tls_client: bool,
    /// CPSV: so it has on the data connection that was agreed on last.
    is_tls_client_once: bool,
}

impl ThirdParty {
    /// PORT, EPRT, PASV or EPSV agrees on another data connection than CPSV had.
    pub(super) fn agrees_anew(&mut self) {
        self.is_tls_client_once = false;
    }

    fn part(self) -> Part {
        match self.is_tls_client || self.is_tls_client_once {
            true => Part::Client,
            false => Part::Server,
        }
    }
}

/// Who is at the other end of a protected data connection.
#[derive(Debug, Clone)]
pub(super) enum DataTls {
    Client(ServerSessionTls),
    Server(PeerTls),
}

impl DataTls {
    /// The handshake of the data connection.
    ///
    /// # Errors
    /// If it fails, or the other end is not who it should be.
    pub(super) async fn accept(
        &self,
        stream: std::net::TcpStream,
    ) -> io::Result<(std::net::TcpStream, Protected)> {
        match self {
            Self::Client(tls) => tls.accept_data(stream).await,
            Self::Server(tls) => tls.shake_hands(stream).await,
        }
    }

    /// How further connections between the two are protected.
    pub(super) fn protector(&self) -> Protector {
        let tls = self.clone();
        Protector::new(move || {
            let protected = match &tls {
                Self::Client(tls) => tls.protect()?,
                Self::Server(tls) => tls.beside()?,
            };
            Ok(Box::new(protected) as Box<dyn Protection>)
        })
    }

    /// Whether the other end may send tickets of TLS when it has got a file, and would be cut short by a reset if they
    /// were not read.
    pub(super) fn awaits_end(&self) -> bool {
        matches!(self, Self::Server(tls) if tls.is_client())
    }
}

impl Session {
    /// TLS for a data connection that moves a file, or a listing; none if it is in clear.
    ///
    /// # Errors
    /// If there is nothing by which the other server could be known.
    pub(super) fn data_tls(&self, is_file: bool) -> io::Result<Option<DataTls>> {
        let Some(tls) = self.private_tls() else {
            return Ok(None);
        };
        let third_party = self.state.third_party;
        let (part, is_tls_client) = (third_party.part(), third_party.part() == Part::Client);
        let peer = third_party
            .peer
            .or(is_tls_client.then_some(Peer::Authority));
        Ok(Some(match peer.filter(|_| is_file) {
            Some(peer) => DataTls::Server(tls.with_peer(peer, part)?),
            None if is_file => DataTls::Client(tls.clone()),
            None => DataTls::Client(tls.without_peers()),
        }))
    }

    /// Whether a file would go to a server that nothing is known of.
    pub(super) fn lacks_peer(&self) -> bool {
        let third_party = self.state.third_party;
        let knows = |tls: &ServerSessionTls| third_party.peer.is_some() || tls.knows_peers();
        third_party.part() == Part::Client && !self.private_tls().is_none_or(knows)
    }

    pub(super) fn secured_client(&mut self, on: Option<bool>) -> Result<Reply, Reply> {
        self.under_tls("SSCN")?;
        self.close_shared();
        let third_party = &mut self.state.third_party;
        third_party.is_tls_client = on.unwrap_or(third_party.is_tls_client);
        Ok(Reply::new(
            200,
            match third_party.is_tls_client {
                true => "SSCN:CLIENT METHOD",
                false => "SSCN:SERVER METHOD",
            },
        ))
    }

    pub(super) fn passive_as_tls_client(&mut self) -> Result<Reply, Reply> {
        self.under_tls("CPSV")?;
        if self.private_tls().is_none() {
            return Err(Reply::new(503, "PROT P first"));
        }
        let reply = self.passive()?;
        self.state.third_party.is_tls_client_once = true;
        Ok(reply)
    }

    /// `SITE PEER`, `SITE PEER KEY 64HEX`, `SITE PEER CERTIFICATE 64HEX` and `SITE PEER OFF`
    pub(super) fn peer(&mut self, arguments: &[u8]) -> Result<Reply, Reply> {
        let tls = self.under_tls("SITE PEER")?;
        let text = String::from_utf8_lossy(arguments).to_ascii_uppercase();
        let words: Vec<&str> = text.split_whitespace().collect();
        let (peer, text) = match words[..] {
            [] => {
                let key = tls.session_key();
                let key = key.map_err(|_| Reply::new(451, "There is no key"))?;
                return Ok(Reply::new(200, format!("KEY {key}")));
            }
            ["OFF"] => (None, "Data connections are with the client"),
            [kind @ ("KEY" | "CERTIFICATE"), digest] => {
                let digest = digest.parse().map_err(|error| Reply::new(501, error))?;
                let (peer, text) = match kind {
                    "KEY" => (
                        Peer::Key(digest),
                        "Files go to and come from the server with this key",
                    ),
                    _ => (
                        Peer::Certificate(digest),
                        "Files go to and come from the server with this certificate",
                    ),
                };
                (Some(peer), text)
            }
            _ => {
                let text = "SITE PEER takes KEY or CERTIFICATE and a SHA-256, OFF, or nothing";
                return Err(Reply::new(501, text));
            }
        };
        // By a key both know each other, so there has to be one to show.
        if let Some(Peer::Key(_)) = peer
            && tls.session_key().is_err()
        {
            return Err(Reply::new(451, "There is no key"));
        }
        self.state.third_party.peer = peer;
        Ok(Reply::new(200, text))
    }

    /// TLS of the session, without which a command makes no sense.
    fn under_tls(&self, command: &str) -> Result<&ServerSessionTls, Reply> {
        if !self.offers_tls() {
            return Err(Reply::new(
                502,
                format!("{command} command not implemented"),
            ));
        }
        let tls = self.tls.as_ref();
        tls.ok_or_else(|| Reply::new(503, "AUTH TLS first"))
    }
}
