//! Right-sizing in the client: with a server, or arranged between two.

use std::collections::BTreeMap;

use fairwind_transfer::drs::{Record, Resize, RightSizing, Settings, Share, SharedRecord, Token};
use fairwind_transfer::{Direction, SocketPlan, Transfer, TransferWatcher};

use super::NAME;
use crate::client::{
    Change, ClientError, ControlConnection, Extension, ExtensionReport, Features, SessionExtension,
    at_once,
};
use crate::extension::TransferExtension;

/// Right-sizing with servers that support it.
#[derive(Debug, Clone, Copy)]
pub struct RightSizingClient;

impl Extension for RightSizingClient {
    fn open(&self, features: &Features) -> Option<Box<dyn SessionExtension>> {
        features.has(NAME).then(|| {
            Box::new(Session {
                negotiation: Negotiation::Due,
                record: SharedRecord::default(),
            }) as Box<dyn SessionExtension>
        })
    }

    /// Both servers get the same token, by which they recognise each other.
    fn third_party(
        &self,
        source: &mut dyn ControlConnection,
        destination: &mut dyn ControlConnection,
    ) -> Result<(), ClientError> {
        if !source.features().has(NAME) || !destination.features().has(NAME) {
            return Ok(());
        }
        let Ok(token) = Token::random() else {
            return Ok(());
        };
        let (sends, receives) = at_once(|| arm(source, token), || arm(destination, token));
        match (sends?, receives?) {
            (true, false) => drop(source.ask(&format!("OPTS {NAME} OFF"))?),
            (false, true) => drop(destination.ask(&format!("OPTS {NAME} OFF"))?),
            _ => {}
        }
        Ok(())
    }
}

fn arm(control: &mut dyn ControlConnection, token: Token) -> Result<bool, ClientError> {
    let reply = control.ask(&format!("OPTS {NAME} {token}"))?;
    if reply.code != 200 {
        tracing::info!("{}: no right-sizing: {reply}", control.peer());
    }
    Ok(reply.code == 200)
}

#[derive(Debug, Clone, Copy)]
enum Negotiation {
    Due,
    Done(Token),
    /// The server refuses it.
    Refused,
}

struct Session {
    negotiation: Negotiation,
    /// The record of the last transfer.
    record: SharedRecord,
}

impl Session {
    fn token(&self) -> Option<Token> {
        match self.negotiation {
            Negotiation::Done(token) => Some(token),
            Negotiation::Due | Negotiation::Refused => None,
        }
    }
}

impl TransferExtension for Session {
    fn plan(&mut self, plan: &mut SocketPlan) {
        if self.token().is_some() {
            plan.window_scale_for = Some(Settings::default().ceiling as u32);
        }
    }

    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        let token = self.token()?;
        self.record = SharedRecord::default();
        Some(Box::new(RightSizing::new(
            transfer,
            token,
            Share::unlimited(),
            self.record.clone(),
        )))
    }
}

impl SessionExtension for Session {
    fn prepare(&mut self, control: &mut dyn ControlConnection) -> Result<(), ClientError> {
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

fn report(record: &Record) -> ExtensionReport {
    let mut figures = BTreeMap::new();
    let mut figure = |name: &str, value: Option<f64>| {
        figures.extend(value.map(|value| (format!("drs_{name}"), value)));
    };
    if record.direction.is_some() {
        figure("messages", Some(record.messages as f64));
        figure("echoes", Some(record.echoes as f64));
        figure("faults", Some(record.faults as f64));
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
        reason: resize.reason(),
    };
    record.resizes.iter().map(change).collect()
}
