//! Advice in the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_transfer::advised::{Event, Follow, FollowedTransfer, Record};
use fairwind_transfer::{Transfer, TransferWatcher};

use crate::client::{Change, Extension, ExtensionReport, Features, SessionExtension};
use crate::extension::TransferExtension;

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

impl Extension for AdvisedClient {
    fn open(&self, _: &Features) -> Option<Box<dyn SessionExtension>> {
        Some(Box::new(Session {
            follow: Arc::clone(&self.0),
            last: None,
        }))
    }
}

struct Session {
    follow: Arc<Follow>,
    /// The previous transfer.
    last: Option<Arc<FollowedTransfer>>,
}

impl TransferExtension for Session {
    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        let follower = self.follow.watch(transfer);
        self.last = Some(follower.transfer());
        Some(Box::new(follower))
    }
}

impl SessionExtension for Session {
    fn report(&mut self) -> ExtensionReport {
        let mut report = ExtensionReport::default();
        for record in self.last.iter().flat_map(|last| last.records()) {
            add(&mut report, record);
        }
        report
    }
}

impl Drop for Session {
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
