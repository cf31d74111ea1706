//! Where dynamic right-sizing and advice, and whatever comes later, plug into the client.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use jiff::Timestamp;
use serde::Serialize;

use super::{ClientError, Features};
use crate::advised::{AdvisedClient, Advisor, Follow, Journal};
use crate::data::{Buffer, Direction, SocketPlan, Transfer, TransferWatcher};
use crate::drs::RightSizingClient;
use crate::protocol::Reply;

/// Something that adds to the client: commands, plans for data sockets, watchers.
pub trait Extension: Send + Sync {
    /// Its part of a session that has just logged in; none if it has nothing to do with this server.
    fn open(&self, facts: &ServerFacts<'_>) -> Option<Box<dyn SessionExtension>>;

    /// A transfer between two servers is about to be set up: `source` will send to `destination`.
    /// Called before each attempt, both sessions being logged in.
    ///
    /// # Errors
    /// Those of the control connections. A refusal by a server is no error but a reply.
    fn third_party(
        &self,
        source: &mut dyn Talk,
        destination: &mut dyn Talk,
    ) -> Result<ExtensionReport, ClientError> {
        let _ = (source, destination);
        Ok(ExtensionReport::default())
    }
}

/// Who is at the other end of a control connection, and what it offers.
#[derive(Debug, Clone, Copy)]
pub struct ServerFacts<'a> {
    /// The server's name or address, as the user gave it.
    pub host: &'a str,
    /// This end of the control connection.
    pub local: SocketAddr,
    /// The server's end of it.
    pub peer: SocketAddr,
    /// Its answer to FEAT.
    pub features: &'a Features,
}

/// A control connection that is between two commands.
pub trait Talk: Send {
    /// The server's answer to FEAT.
    fn features(&self) -> &Features;

    /// The server's end of the control connection.
    fn peer(&self) -> SocketAddr;

    /// Sends a command, without its line end, and waits for the reply that ends it.
    ///
    /// # Errors
    /// Those of the control connection. A refusal is a reply.
    fn ask(&mut self, command: &str) -> Result<Reply, ClientError>;
}

/// An extension's part of one session. Only `prepare` may wait, and only for the server's replies.
pub trait SessionExtension: Send {
    /// A file is about to be moved, in this direction as seen from here: the time for commands that
    /// settle something with the server, before the data connection is set up.
    ///
    /// # Errors
    /// Those of the control connection.
    fn prepare(&mut self, talk: &mut dyn Talk, direction: Direction) -> Result<(), ClientError> {
        let _ = (talk, direction);
        Ok(())
    }

    /// A data socket is about to listen for, or to connect to, `peer`.
    fn plan(&mut self, plan: &mut SocketPlan, peer: IpAddr, direction: Direction) {
        let _ = (plan, peer, direction);
    }

    /// The data connection of a file's transfer is open; the watcher will be called in the transfer's
    /// thread.
    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        let _ = transfer;
        None
    }

    /// What it did in the transfer that has just ended, whether complete or not.
    fn report(&mut self) -> ExtensionReport {
        ExtensionReport::default()
    }
}

/// A change made to a live data connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// When, if anybody knows it.
    pub time: Option<Timestamp>,
    /// Seconds since the data connection was open.
    pub seconds: f64,
    /// What was changed: `congestion control`, `send buffer`.
    pub what: String,
    /// Its value before, if anybody knows it.
    pub from: Option<String>,
    /// Its value now, bytes and Mbit/s without their unit: `fw_nocc`, `2097152`.
    pub to: String,
    /// Why, in a sentence.
    pub reason: String,
}

/// What an extension did in a transfer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExtensionReport {
    /// In the order of time.
    pub changes: Vec<Change>,
    /// Numbers by name, with the unit in it: `drs_rtt_ms`.
    pub figures: BTreeMap<String, f64>,
    /// Sentences for the user, such as that an advisor was not there.
    pub notes: Vec<String>,
}

impl ExtensionReport {
    /// Adds what another one did.
    pub fn add(&mut self, other: Self) {
        self.changes.extend(other.changes);
        self.figures.extend(other.figures);
        self.notes.extend(other.notes);
    }
}

/// What the user chose of all that may follow a data connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Dynamic right-sizing, where the server has it too.
    pub drs: bool,
    /// The advisor's URL.
    pub advisor: Option<String>,
    /// Networks to which the paths are the user's own, where congestion control may be off.
    pub allow_nocc: Vec<IpNet>,
    /// Buffers that the user fixed: nobody changes them then.
    pub buffer: Buffer,
}

/// All that follows data connections of the client: the one place where it is put together.
///
/// # Errors
/// An advisor's URL that is none.
pub fn extensions(setup: &Setup) -> Result<Vec<Arc<dyn Extension>>, ClientError> {
    let mut extensions: Vec<Arc<dyn Extension>> = Vec::new();
    if let Some(url) = &setup.advisor {
        let advisor = Advisor::at(url).map_err(|error| ClientError::Usage(error.to_string()))?;
        extensions.push(Arc::new(AdvisedClient::new(Follow {
            advisor: Arc::new(advisor),
            allow_nocc: setup.allow_nocc.clone(),
            journal: Journal::default(),
        })));
    }
    if setup.drs && setup.buffer == Buffer::Auto {
        extensions.push(Arc::new(RightSizingClient::default()));
    }
    Ok(extensions)
}
