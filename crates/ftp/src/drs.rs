//! Dynamic right-sizing over FTP: how client and server agree on it. Their buffers are then sized by
//! [`fairwind_transfer::drs`].
//!
//! It is negotiated on the control connection: a server lists `DRS` in its reply to FEAT, and a client
//! sends `OPTS DRS <token>`, to both servers if the transfer is between two. Where one of them lacks it, a sender sizes its
//! own buffer alone.

use std::collections::BTreeMap;

use fairwind_transfer::drs::{
    Budget, Caps, Record, Resize, RightSizing, Settings, Share, SharedRecord, SizedAlone, Token,
};
use fairwind_transfer::{Direction, SocketPlan, Transfer, TransferWatcher};

use crate::client::{Change, ClientError, ExtensionReport};
use crate::extension::TransferExtension;
use crate::protocol::Reply;
use crate::{client, server};

/// Its name in FEAT and OPTS.
const NAME: &str = "DRS";

/// The command that disarms it.
const OFF: &str = "OPTS DRS OFF";

/// What a sender sends before anything has come back (RFC 6928: ten segments), bytes: a file that is no larger is over before
/// its path is known.
const INITIAL_WINDOW: u64 = 10 * 1_448;

/// Right-sizing with servers that support it.
#[derive(Debug, Clone, Copy)]
pub struct RightSizingClient {
    /// Whether what is sent to servers that do not is sized alone.
    pub alone: bool,
}

impl client::Extension for RightSizingClient {
    fn open(&self, features: &client::Features) -> Option<Box<dyn client::SessionExtension>> {
        Some(Box::new(ClientSession {
            negotiation: match features.has(NAME) {
                true => Negotiation::Due,
                false => Negotiation::Refused,
            },
            alone: self.alone,
            record: SharedRecord::default(),
        }))
    }

    /// The two ends size their buffers to one connection.
    fn is_between_hosts(&self) -> bool {
        true
    }

    /// Both servers get the same token, by which they recognise each other.
    fn third_party(
        &self,
        source: &mut dyn client::ControlConnection,
        destination: &mut dyn client::ControlConnection,
    ) -> Result<(), ClientError> {
        if !source.features().has(NAME) || !destination.features().has(NAME) {
            return Ok(());
        }
        let Ok(token) = Token::random() else {
            return Ok(());
        };
        let (sends, receives) = client::at_once(|| arm(source, token), || arm(destination, token));
        match (sends?, receives?) {
            (true, false) => drop(source.ask(OFF)?),
            (false, true) => drop(destination.ask(OFF)?),
            _ => {}
        }
        Ok(())
    }
}

fn arm(control: &mut dyn client::ControlConnection, token: Token) -> Result<bool, ClientError> {
    let reply = control.ask(&format!("OPTS {NAME} {token}"))?;
    if reply.code != 200 {
        tracing::info!("{}: no right-sizing: {reply}", control.peer());
        return Ok(false);
    }
    control.lasts_until(OFF);
    Ok(true)
}

#[derive(Debug, Clone, Copy)]
enum Negotiation {
    Due,
    Done(Token),
    /// The server lacks or refuses it.
    Refused,
}

struct ClientSession {
    negotiation: Negotiation,
    alone: bool,
    /// The record of the last transfer.
    record: SharedRecord,
}

impl ClientSession {
    fn token(&self) -> Option<Token> {
        match self.negotiation {
            Negotiation::Done(token) => Some(token),
            Negotiation::Due | Negotiation::Refused => None,
        }
    }
}

impl TransferExtension for ClientSession {
    fn is_for_every_file(&self) -> bool {
        false
    }

    fn plan(&mut self, plan: &mut SocketPlan) {
        if self.token().is_some() {
            plan.window_scale_for = Some(Settings::default().ceiling as u32);
        }
    }

    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        self.record = SharedRecord::default();
        if is_over_at_once(transfer) {
            return None;
        }
        let (token, share) = (self.token(), Share::unlimited());
        watcher(transfer, token, self.alone, share, &self.record)
    }
}

impl client::SessionExtension for ClientSession {
    fn prepare(&mut self, control: &mut dyn client::ControlConnection) -> Result<(), ClientError> {
        if matches!(self.negotiation, Negotiation::Due) {
            self.negotiation = match Token::random() {
                Ok(token) if arm(control, token)? => Negotiation::Done(token),
                _ => Negotiation::Refused,
            };
        }
        Ok(())
    }

    fn report(&mut self) -> ExtensionReport {
        report(&self.record.lock())
    }
}

/// What sizes the buffer of a transfer: both ends if they have agreed on a token, or else a sender `alone`.
fn watcher(
    transfer: &Transfer,
    token: Option<Token>,
    alone: bool,
    share: Share,
    record: &SharedRecord,
) -> Option<Box<dyn TransferWatcher>> {
    match (token, transfer.direction) {
        (Some(token), _) => Some(Box::new(RightSizing::new(
            transfer,
            token,
            share,
            record.clone(),
        ))),
        (None, Direction::Send) if alone && !is_over_at_once(transfer) => {
            Some(Box::new(SizedAlone::new(share, record.clone())))
        }
        (None, _) => None,
    }
}

fn is_over_at_once(transfer: &Transfer) -> bool {
    transfer.total.is_some_and(|total| total <= INITIAL_WINDOW)
}

fn report(record: &Record) -> ExtensionReport {
    let mut figures = BTreeMap::new();
    let mut figure = |name: &str, value: Option<f64>| {
        figures.extend(value.map(|value| (format!("drs_{name}"), value)));
    };
    if record.direction.is_some() {
        let exchanged = |count: u64| record.paired.map(|_| count as f64);
        figure("messages", exchanged(record.messages));
        figure("echoes", exchanged(record.echoes));
        figure("faults", exchanged(record.faults));
        figure("paired_s", record.paired.map(|time| time.as_secs_f64()));
        figure(
            "buffer_bytes",
            record.resizes.last().map(|last| last.bytes as f64),
        );
        figure("mean_buffer_bytes", record.mean_buffer());
        let shortest = record.shortest_round_trip;
        figure("min_rtt_ms", shortest.map(|time| time.as_secs_f64() * 1e3));
        let last = record.estimate.map(|(_, estimate)| estimate);
        figure(
            "rtt_ms",
            last.map(|last| last.round_trip.as_secs_f64() * 1e3),
        );
        figure("bandwidth_mbps", last.map(|last| last.bandwidth_bps / 1e6));
    }
    ExtensionReport {
        changes: changes(record),
        figures,
        notes: record.notes.clone(),
    }
}

fn changes(record: &Record) -> Vec<Change> {
    let side = record.direction.unwrap_or(Direction::Receive);
    let mut before = None;
    let change = |resize: &Resize| Change {
        time: record.begin.checked_add(resize.time).ok(),
        seconds: resize.time.as_secs_f64(),
        what: format!("{side} buffer"),
        from: before.replace(resize.bytes).map(|bytes| bytes.to_string()),
        to: resize.bytes.to_string(),
        reason: resize.cause.to_string(),
    };
    record.resizes.iter().map(change).collect()
}

/// Right-sizing with clients that ask for it.
#[derive(Debug, Clone, Default)]
pub struct RightSizingServer {
    /// Whether what is sent to clients that do not is sized alone.
    pub alone: bool,
    /// What all buffers together have taken.
    pub budget: Budget,
    /// Limits on the budget.
    pub caps: Caps,
}

impl server::Extension for RightSizingServer {
    fn open(&self, facts: &server::PeerFacts) -> Box<dyn server::SessionExtension> {
        Box::new(ServerSession {
            server: self.clone(),
            client: facts.peer.ip().into(),
            token: None,
        })
    }
}

struct ServerSession {
    server: RightSizingServer,
    client: server::Origin,
    /// What the client gave; none if it has not asked for right-sizing.
    token: Option<Token>,
}

impl TransferExtension for ServerSession {
    fn is_for_every_file(&self) -> bool {
        false
    }

    fn plan(&mut self, plan: &mut SocketPlan) {
        if self.token.is_some() {
            plan.window_scale_for = Some(Settings::default().ceiling as u32);
        }
    }

    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        let share = self.server.budget.share(self.server.caps, self.client);
        let record = SharedRecord::default();
        watcher(transfer, self.token, self.server.alone, share, &record)
    }
}

impl server::SessionExtension for ServerSession {
    fn features(&self) -> Vec<String> {
        vec![NAME.into()]
    }

    fn opts(&mut self, name: &str, arguments: &str) -> Option<Reply> {
        if !name.eq_ignore_ascii_case(NAME) {
            return None;
        }
        let off = arguments.eq_ignore_ascii_case("OFF");
        self.token = arguments.parse().ok();
        Some(match (self.token, off) {
            (Some(_), _) => Reply::new(200, "Data connections will be right-sized"),
            (None, true) => Reply::new(200, "Data connections will not be right-sized"),
            (None, false) => Reply::new(501, "OPTS DRS takes 32 hexadecimal digits, or OFF"),
        })
    }

    fn reset(&mut self) {
        self.token = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Extension, PeerFacts, SessionExtension};

    fn session() -> Box<dyn SessionExtension> {
        let address = "127.0.0.1:21".parse().unwrap();
        RightSizingServer::default().open(&PeerFacts {
            local: address,
            peer: address,
        })
    }

    #[test]
    fn a_client_arms_it_with_a_token_and_disarms_it() {
        let mut session = session();
        let mut code = |text: &str| session.opts("drs", text).unwrap().code;
        assert_eq!(code("00112233445566778899aabbccddeeff"), 200);
        assert_eq!(code("off"), 200);
        for wrong in ["", "on", "0011", "00112233445566778899aabbccddeeff 1"] {
            assert_eq!(code(wrong), 501, "{wrong}");
        }
        assert_eq!(session.opts("MLST", "size;"), None);
    }

    #[test]
    fn without_a_token_a_sender_sizes_alone_if_it_may() {
        let address = "127.0.0.1:20".parse().unwrap();
        let is_watched = |alone, direction, total| {
            let server = RightSizingServer {
                alone,
                ..RightSizingServer::default()
            };
            let mut session = server.open(&PeerFacts {
                local: address,
                peer: address,
            });
            let transfer = Transfer {
                direction,
                local: address,
                peer: address,
                listener: None,
                total: Some(total),
                protector: None,
            };
            session.watch(&transfer).is_some()
        };
        assert!(is_watched(true, Direction::Send, 1_000_000));
        assert!(!is_watched(true, Direction::Send, 1_000));
        assert!(!is_watched(true, Direction::Receive, 1_000_000));
        assert!(!is_watched(false, Direction::Send, 1_000_000));
    }

    #[test]
    fn only_armed_sessions_prepare_windows_that_grow() {
        let mut session = session();
        let mut plan = SocketPlan::default();
        session.plan(&mut plan);
        assert_eq!(plan.window_scale_for, None);
        session.opts("DRS", "00112233445566778899aabbccddeeff");
        session.plan(&mut plan);
        assert_eq!(plan.window_scale_for, Some(33_554_432));
        session.reset();
        plan = SocketPlan::default();
        session.plan(&mut plan);
        assert_eq!(plan.window_scale_for, None);
    }
}
