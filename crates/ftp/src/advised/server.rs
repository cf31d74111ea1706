//! Advice in the server.

use std::io;
use std::sync::Arc;

use fairwind_transfer::advised::{Advisor, Follow, Journal};
use fairwind_transfer::{Transfer, TransferWatcher};

use crate::extension::TransferExtension;
use crate::server::{Config, Extension, PeerFacts, SessionExtension};

/// Follows an advisor in all transfers of a server.
#[derive(Debug, Clone)]
pub struct AdvisedServer(Arc<Follow>);

impl AdvisedServer {
    /// Follows this advisor as the configuration says.
    ///
    /// # Errors
    /// If the log of advice cannot be opened.
    pub fn new(advisor: Arc<Advisor>, config: &Config) -> io::Result<Self> {
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

impl Extension for AdvisedServer {
    fn open(&self, _: &PeerFacts) -> Box<dyn SessionExtension> {
        Box::new(self.clone())
    }
}

impl TransferExtension for AdvisedServer {
    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        Some(Box::new(self.0.watch(transfer)))
    }
}

impl SessionExtension for AdvisedServer {}
