//! Advice for the data connections of client and server, followed by [`fairwind_transfer::advised`].

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_transfer::advised::{Advisor, Event, Follow, FollowedTransfer, Journal, Record};
use fairwind_transfer::{Transfer, TransferWatcher};

use crate::client::{Change, ExtensionReport};
use crate::extension::TransferExtension;
use crate::{client, server};

/// How long the end of a session waits until the last result has been reported to the advisor.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Follows an advisor in all transfers of a client.
#[derive(Debug)]
pub struct AdvisedClient(Arc<Follow>);

impl AdvisedClient {
    /// Follows the advisor as `follow` says.
    pub fn new(follow: Follow) -> Self {
        Self(Arc::new(follow))
    }
}

impl client::Extension for AdvisedClient {
    fn open(&self, _: &client::Features) -> Option<Box<dyn client::SessionExtension>> {
        Some(Box::new(ClientSession {
            follow: Arc::clone(&self.0),
            last: None,
        }))
    }
}

struct ClientSession {
    follow: Arc<Follow>,
    /// The previous transfer.
    last: Option<Arc<FollowedTransfer>>,
}

impl TransferExtension for ClientSession {
    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        let follower = self.follow.watch(transfer);
        self.last = Some(follower.transfer());
        Some(Box::new(follower))
    }
}

impl client::SessionExtension for ClientSession {
    fn report(&mut self) -> ExtensionReport {
        let mut report = ExtensionReport::default();
        for record in self.last.iter().flat_map(|last| last.records()) {
            add(&mut report, record);
        }
        report
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        if let Some(last) = &self.last {
            last.wait_until_reported(Instant::now() + REPORT_TIMEOUT);
        }
    }
}

fn add(report: &mut ExtensionReport, record: Record) {
    match record.event {
        Event::Advice { .. } => {}
        Event::Change {
            what,
            from,
            to,
            reason,
        } => report.changes.push(Change {
            time: Some(record.time),
            seconds: record.seconds,
            what: what.to_string(),
            from: Some(from),
            to,
            reason,
        }),
        event @ (Event::Bounded { .. } | Event::Refused { .. }) => {
            report.notes.push(event.to_string());
        }
        Event::Lost { reason } => report
            .notes
            .push(format!("no advice, the kernel's defaults hold: {reason}")),
    }
}

/// Follows an advisor in all transfers of a server.
#[derive(Debug, Clone)]
pub struct AdvisedServer(Arc<Follow>);

impl AdvisedServer {
    /// Follows this advisor as the configuration says.
    ///
    /// # Errors
    /// If the log of advice cannot be opened.
    pub fn new(advisor: Arc<Advisor>, config: &server::Config) -> io::Result<Self> {
        let journal = match &config.advice_log {
            Some(path) => Journal::in_file(config.log_opener.open(path)?),
            None => Journal::default(),
        };
        Ok(Self(Arc::new(Follow {
            advisor,
            allow_nocc: config.allow_nocc.clone(),
            journal,
        })))
    }
}

impl server::Extension for AdvisedServer {
    fn open(&self, _: &server::PeerFacts) -> Box<dyn server::SessionExtension> {
        Box::new(self.clone())
    }
}

impl TransferExtension for AdvisedServer {
    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        Some(Box::new(self.0.watch(transfer)))
    }
}

impl server::SessionExtension for AdvisedServer {}
