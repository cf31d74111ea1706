//! The advisor as transfers see it: somebody who may be slow, wrong or gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairwind_advice_client::{Answer, Client, ClientError, Transfer};

/// How long an answer is waited for at all. Within [`PATIENCE`] it is in time, later it is applied when
/// it comes.
const DEADLINE: Duration = Duration::from_secs(15);

/// After this time without an answer a transfer goes back to the kernel's defaults.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Longest answer, bytes: a few lines.
const LONGEST_ANSWER: u64 = 64 << 10;

/// One advisor, asked by all transfers of a server or client.
#[derive(Debug)]
pub struct Advisor {
    client: Client,
    /// Nobody has had sound advice since somebody was told that there is none.
    lost: AtomicBool,
}

impl Advisor {
    /// The advisor at `url`. Nothing is asked yet.
    ///
    /// # Errors
    /// If this is no URL of an advisor.
    pub fn at(url: &str) -> Result<Self, ClientError> {
        let client = Client::new(url)?
            .with_deadline(DEADLINE)
            .with_longest_answer(LONGEST_ANSWER);
        Ok(Self {
            client,
            lost: AtomicBool::new(false),
        })
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&self, host: &str, remaining: Option<u64>) -> Result<Answer, ClientError> {
        self.client.advice(host, remaining)
    }

    /// Tells how a transfer went; whether anybody hears it makes no difference to the transfer.
    pub(super) fn report(&self, transfer: &Transfer) {
        if self.is_lost() {
            return;
        }
        if let Err(error) = self.client.clone().with_deadline(PATIENCE).report(transfer) {
            tracing::debug!("result not taken: {error}");
        }
    }

    /// Where it is.
    pub(super) fn url(&self) -> &str {
        self.client.url()
    }

    /// Whether the last word about the advisor was that there is no sound advice.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// There is no sound advice: one line of log until there is some again.
    pub(super) fn lose(&self, reason: &str) {
        if !self.lost.swap(true, Ordering::Relaxed) {
            tracing::warn!("no advice, transfers go on with the kernel's defaults: {reason}");
        }
    }

    /// There is sound advice.
    pub(super) fn find(&self) {
        if self.lost.swap(false, Ordering::Relaxed) {
            tracing::info!("the advisor at {} advises again", self.client.url());
        }
    }
}
