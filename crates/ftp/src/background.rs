//! Downloads of a client that take only what others leave of the path, by [`fairwind_transfer::background`].

use std::sync::Arc;
use std::time::Duration;

use fairwind_transfer::background::{Held, Holding};
use fairwind_transfer::{Direction, Transfer, TransferWatcher};

use crate::client::{self, ExtensionReport};
use crate::extension::TransferExtension;

/// Yielding for a shorter time is not told.
const TOLD: Duration = Duration::from_millis(100);

/// Holds all downloads of a client down.
#[derive(Debug)]
pub struct BackgroundClient;

impl client::Extension for BackgroundClient {
    fn open(&self, _: &client::Features) -> Option<Box<dyn client::SessionExtension>> {
        Some(Box::new(ClientSession::default()))
    }
}

#[derive(Default)]
struct ClientSession {
    /// The previous transfer.
    held: Arc<Held>,
}

impl TransferExtension for ClientSession {
    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        self.held = Arc::default();
        let is_held = transfer.direction == Direction::Receive;
        is_held.then(|| Box::new(Holding::new(Arc::clone(&self.held))) as Box<dyn TransferWatcher>)
    }
}

impl client::SessionExtension for ClientSession {
    fn report(&mut self) -> ExtensionReport {
        let yielded = self.held.yielded();
        let mut report = ExtensionReport::default();
        if yielded >= TOLD {
            let seconds = yielded.as_secs_f64();
            report
                .notes
                .push(format!("yielded to others for {seconds:.1} s"));
        }
        report
    }
}
