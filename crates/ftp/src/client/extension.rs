//! How extensions such as right-sizing plug into the client.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use jiff::Timestamp;
use serde::Serialize;

use super::{ClientError, Features};
use crate::extension::TransferExtension;
use crate::protocol::Reply;

/// Adds commands, plans for data sockets and watchers to the client.
pub trait Extension: Send + Sync {
    /// Opens its part of a session that has just logged in to a server with these features; `None` if it has
    /// nothing to do with this server.
    fn open(&self, features: &Features) -> Option<Box<dyn SessionExtension>>;

    /// Whether it works only if data connections lead to the server's host itself, not to a proxy.
    fn is_between_hosts(&self) -> bool {
        false
    }

    /// Called before each attempt to set up a transfer between two servers, in which `source` will send to
    /// `destination`; both sessions are logged in.
    ///
    /// # Errors
    /// If a control connection fails. A server's refusal is a reply, not an error.
    fn third_party(
        &self,
        source: &mut dyn ControlConnection,
        destination: &mut dyn ControlConnection,
    ) -> Result<(), ClientError> {
        let _ = (source, destination);
        Ok(())
    }
}

/// A control connection on which no command is outstanding.
pub trait ControlConnection: Send {
    /// The server's answer to FEAT.
    fn features(&self) -> &Features;

    /// The server's address of the control connection.
    fn peer(&self) -> SocketAddr;

    /// Sends a command, given without its line end, and waits for its final reply. A refusal is a reply, not
    /// an error.
    ///
    /// # Errors
    /// If the control connection fails.
    fn ask(&mut self, command: &str) -> Result<Reply, ClientError>;

    /// Notes that the server does what it has been asked for in all further transfers, until it is told `undo`. A session that
    /// goes on under other options sends that before its next transfer, unless it has asked for the same again.
    fn lasts_until(&mut self, undo: &'static str);
}

/// An extension's part of one session. Only `prepare` may block, and only for the server's replies.
pub trait SessionExtension: TransferExtension {
    /// Called before the data connection of a file is set up, for commands that negotiate with the server.
    ///
    /// # Errors
    /// If the control connection fails.
    fn prepare(&mut self, control: &mut dyn ControlConnection) -> Result<(), ClientError> {
        let _ = control;
        Ok(())
    }

    /// Reports on the transfer that has just ended, whether complete or not.
    fn report(&mut self) -> ExtensionReport {
        ExtensionReport::default()
    }
}

/// A change made to a live data connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// When it was made, if known.
    pub time: Option<Timestamp>,
    /// Seconds since the data connection was opened.
    pub seconds: f64,
    /// What was changed: `congestion control`, `send buffer`.
    pub what: String,
    /// The value before, if known.
    pub from: Option<String>,
    /// The new value; bytes and Mbit/s without their unit: `fw_nocc`, `2097152`.
    pub to: String,
    /// The reason, in a sentence.
    pub reason: String,
}

/// What an extension did in a transfer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExtensionReport {
    /// The changes made, in order of time.
    pub changes: Vec<Change>,
    /// Numbers by name, with the unit in it: `drs_rtt_ms`.
    pub figures: BTreeMap<String, f64>,
    /// Sentences for the user, for instance that the advisor could not be reached.
    pub notes: Vec<String>,
}
