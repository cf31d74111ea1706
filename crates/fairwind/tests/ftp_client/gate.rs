//! A server whose transfers wait for a condition.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use fairwind_ftp::extension::TransferExtension;
use fairwind_ftp::server::{Extension, PeerFacts, SessionExtension};
use fairwind_testing::wait_until;
use fairwind_transfer::{Transfer, TransferWatcher};

type Condition = Arc<dyn Fn() -> bool + Send + Sync>;

/// Holds every transfer before its first byte until a condition is met.
#[derive(Clone)]
pub(super) struct Gate(Condition);

impl Gate {
    pub(super) fn opened_when(condition: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(condition))
    }
}

impl Extension for Gate {
    fn open(&self, _: &PeerFacts) -> Box<dyn SessionExtension> {
        Box::new(self.clone())
    }
}

impl TransferExtension for Gate {
    fn watch(&mut self, _: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        Some(Box::new(self.clone()))
    }
}

impl SessionExtension for Gate {}

impl TransferWatcher for Gate {
    fn started(&mut self, _: BorrowedFd<'_>, _: Option<u64>) {
        wait_until("the gate opens", || (self.0)());
    }

    fn progressed(&mut self, _: u64) {}

    fn ended(&mut self, _: u64) {}
}
