//! TLS on the data connection between two servers: one of them has the client's part (SSCN, CPSV), and as neither has a
//! session of the other to resume, this client, which knows both, tells each how to know the other (SITE PEER).

use super::both_ends::at_once;
use super::{ClientError, Session};
use crate::protocol::Reply;
use crate::tls::Fingerprint;

/// One of the two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Destination,
}

/// What a server has been told of the other one.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What the server itself is known by.
    key: Option<String>,
    /// The argument of SITE PEER.
    peer: Option<String>,
    /// SSCN ON.
    is_tls_client: bool,
    /// The user has been told what is not checked.
    is_noted: bool,
}

/// How a server is made the TLS client of a data connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TlsClientBy {
    /// SSCN: whichever side connects.
    Setting,
    /// CPSV: if it listens.
    Listening,
}

impl Session {
    pub(super) fn tls_client_by(&self) -> Option<TlsClientBy> {
        match (self.features.has("SSCN"), self.features.has("CPSV")) {
            (true, _) => Some(TlsClientBy::Setting),
            (false, true) => Some(TlsClientBy::Listening),
            (false, false) => None,
        }
    }

    fn takes_peers(&self) -> bool {
        self.features.lists("SITE PEER")
    }

    /// What the server is known by on its data connections with other servers.
    fn session_key(&mut self) -> Result<String, ClientError> {
        if let Some(key) = &self.told.key {
            return Ok(key.clone());
        }
        let reply = self.control.must("SITE", b"PEER")?;
        let text = reply.text();
        let key = text.lines().last().unwrap_or_default().trim();
        let digest = key.strip_prefix("KEY ").map(str::parse::<Fingerprint>);
        let Some(Ok(digest)) = digest else {
            return Err(self.control.protocol_error("no key"));
        };
        Ok(self.told.key.insert(format!("KEY {digest}")).clone())
    }

    fn tell_peer(&mut self, peer: Option<String>) -> Result<(), ClientError> {
        if self.told.peer == peer {
            return Ok(());
        }
        let argument = format!("PEER {}", peer.as_deref().unwrap_or("OFF"));
        self.control.must("SITE", argument.as_bytes())?;
        self.told.peer = peer;
        Ok(())
    }

    fn tell_part(&mut self, is_tls_client: bool) -> Result<(), ClientError> {
        if self.told.is_tls_client == is_tls_client {
            return Ok(());
        }
        let argument: &[u8] = if is_tls_client { b"ON" } else { b"OFF" };
        self.control.must("SSCN", argument)?;
        self.told.is_tls_client = is_tls_client;
        Ok(())
    }

    /// Has the server's data connections be with this client again.
    pub(super) fn leave_third_party(&mut self) -> Result<(), ClientError> {
        self.tell_part(false)?;
        self.tell_peer(None)
    }

    /// PASV, with the server as the TLS client of the data connection.
    pub(super) fn ask_passive_as_tls_client(&mut self) -> Result<Reply, ClientError> {
        self.listening = None;
        self.control.ask("CPSV", b"")
    }
}

/// Which of two servers can be the TLS client of their data connection, the one that is `known` to be it or else the better
/// one first; none if it is in clear.
///
/// # Errors
/// If only one of the sessions is protected, or neither server can be the TLS client.
pub(super) fn tls_clients(
    source: &Session,
    destination: &Session,
    known: Option<End>,
) -> Result<Vec<End>, ClientError> {
    let (one, other) = (source.server(), destination.server());
    match (&source.tls, &destination.tls) {
        (None, None) => return Ok(Vec::new()),
        (Some(_), Some(_)) => {}
        (tls, _) => {
            let (protected, clear) = if tls.is_some() {
                (one, other)
            } else {
                (other, one)
            };
            return Err(ClientError::Usage(format!(
                "{protected} is spoken to under TLS and {clear} is not: what goes from one to the other would be in \
                 clear. Give both as ftps:// or ftpes://, or both as ftp:// with --tls off"
            )));
        }
    }
    // One that can be told whom to expect has the server's part: then nobody else can take the other's place there.
    let mut ends = vec![End::Source, End::Destination];
    if source.takes_peers() && !destination.takes_peers() {
        ends.reverse();
    }
    ends.retain(|end| match end {
        End::Source => source.tls_client_by().is_some(),
        End::Destination => destination.tls_client_by().is_some(),
    });
    if ends.is_empty() {
        return Err(ClientError::Usage(format!(
            "neither {one} nor {other} can be the TLS client of a data connection (SSCN, CPSV), so what goes from one to \
             the other cannot be protected; get and put can do it in two steps"
        )));
    }
    if known == ends.get(1).copied() {
        ends.reverse();
    }
    Ok(ends)
}

/// Tells both servers which part of TLS they have, and each how to know the other.
///
/// # Errors
/// If one of them refuses.
pub(super) fn introduce(
    source: &mut Session,
    destination: &mut Session,
    tls_client: End,
) -> Result<(), ClientError> {
    let (from, to) = match (source.takes_peers(), destination.takes_peers()) {
        (true, true) => {
            let (from, to) = at_once(|| source.session_key(), || destination.session_key());
            (Some(from?), Some(to?))
        }
        (false, false) => {
            note_that_nothing_is_checked(source, destination);
            (None, None)
        }
        (_, takes) => {
            let other = if takes { &*source } else { &*destination };
            let digest = other.control.certificate().ok_or_else(|| {
                other
                    .control
                    .protocol_error("the server has shown no certificate")
            })?;
            let shown = Some(format!("CERTIFICATE {digest}"));
            if takes { (shown, None) } else { (None, shown) }
        }
    };
    let parts = (tls_client == End::Source, tls_client == End::Destination);
    let tell = |session: &mut Session, peer, is_tls_client: bool| {
        if session.takes_peers() {
            session.tell_peer(peer)?;
        }
        let by_setting = session.tls_client_by() == Some(TlsClientBy::Setting);
        match by_setting {
            true => session.tell_part(is_tls_client),
            false => Ok(()),
        }
    };
    let told = at_once(
        || tell(source, to, parts.0),
        || tell(destination, from, parts.1),
    );
    told.0.and(told.1)
}

/// Without SITE PEER it is the servers' own affair whom they take for the other.
fn note_that_nothing_is_checked(source: &mut Session, destination: &Session) {
    if std::mem::replace(&mut source.told.is_noted, true) {
        return;
    }
    let (one, other) = (source.server(), destination.server());
    source.options.progress.note(&format!(
        "{one} and {other} cannot be told how to know each other: what they check is up to their operators"
    ));
}
