//! The advisor as transfers see it: it may be slow, wrong or gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fairwind_advice::wire::{Answer, TransferReport};
use fairwind_advice_client::{Client, ClientError};
use parking_lot::Mutex;

use super::observer::Memory;
use super::starts::Starts;
use crate::RateLimitedLog;

/// How long to wait for an answer at all. Within [`ANSWER_DEADLINE`] it is in time; later, it is applied when it
/// arrives.
const DEADLINE: Duration = Duration::from_secs(15);

/// After this time without an answer a transfer returns to the kernel's defaults.
pub(super) const ANSWER_DEADLINE: Duration = Duration::from_secs(2);

/// While there is no sound advice: one transfer asks per interval, and each checks whether there is some.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Most questions pending at once.
const QUESTIONS: usize = 64;

/// Longest answer accepted, bytes: one has a few lines.
const LONGEST_ANSWER: u64 = 64 << 10;

/// One advisor, asked by all transfers of a server or client.
#[derive(Debug)]
pub struct Advisor {
    client: Client,
    /// None while there is sound advice, or before the first question.
    lost: Mutex<Option<Lost>>,
    /// Where the advisor fails for one host alone, advice is lost and found with every transfer.
    losses: RateLimitedLog,
    /// Questions waiting for their answers.
    waiting: AtomicUsize,
    /// What earlier transfers have observed of their paths.
    pub(super) memory: Memory,
    /// How connections may be advised to start.
    pub(super) starts: Arc<Starts>,
}

/// There is no sound advice.
#[derive(Debug)]
struct Lost {
    reason: String,
    is_logged: bool,
    ask_at: Instant,
}

impl Advisor {
    /// The advisor at `url`, with the token from the environment. Nothing is asked yet. Connections can be advised to start
    /// by its forecasts if this process may write to BPF maps now: later it may give that right up.
    ///
    /// # Errors
    /// If `url` is not the URL of an advisor, or the environment's token is invalid.
    pub fn at(url: &str) -> Result<Self, ClientError> {
        let client = Client::new(url)?
            .with_token_of_environment()?
            .with_deadline(DEADLINE)
            .with_longest_answer(LONGEST_ANSWER);
        Ok(Self {
            client,
            lost: Mutex::new(None),
            losses: RateLimitedLog::new(),
            waiting: AtomicUsize::new(0),
            memory: Memory::default(),
            starts: Arc::new(Starts::open()),
        })
    }

    /// Asks, and waits for the answer; otherwise returns why there is none. While there is no sound
    /// advice most callers get that reason without a question being asked. None if too many questions are
    /// pending: ask later.
    pub(super) fn ask(&self, host: &str, remaining: Option<u64>) -> Option<Result<Answer, String>> {
        if let Some(lost) = self.lost.lock().as_mut() {
            let now = Instant::now();
            if now < lost.ask_at {
                return Some(Err(lost.reason.clone()));
            }
            lost.ask_at = now + RETRY_INTERVAL;
        }
        let answer = match self.waiting.fetch_add(1, Ordering::Relaxed) {
            QUESTIONS.. => None,
            _ => Some(self.client.advice(host, remaining)),
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        answer.map(|answer| answer.map_err(|error| error.to_string()))
    }

    /// Reports how a transfer went; to the transfer it makes no difference whether that succeeds.
    pub(super) fn report(&self, report: &TransferReport) {
        if self.is_lost() {
            return;
        }
        if let Err(error) = self
            .client
            .clone()
            .with_deadline(ANSWER_DEADLINE)
            .report(report)
        {
            tracing::debug!("result not taken: {error}");
        }
    }

    /// Its URL.
    pub(super) fn url(&self) -> &str {
        self.client.url()
    }

    /// Whether there is no sound advice.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.lock().is_some()
    }

    /// Takes note that there is no sound advice: logged once until there is some again, and sparingly if that
    /// goes on.
    pub(super) fn lose(&self, reason: &str) {
        let mut lost = self.lost.lock();
        if lost.is_none() {
            let is_logged = self.losses.has_warned(|| {
                format!("no advice, transfers continue with the kernel's defaults: {reason}")
            });
            *lost = Some(Lost {
                reason: reason.to_owned(),
                is_logged,
                ask_at: Instant::now() + RETRY_INTERVAL,
            });
        }
    }

    /// Takes note that there is sound advice.
    pub(super) fn find(&self) {
        if self.lost.lock().take().is_some_and(|lost| lost.is_logged) {
            tracing::info!("the advisor at {} advises again", self.url());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::thread;

    use fairwind_testing::wait_until;

    use super::super::{Follow, Journal};
    use super::*;
    use crate::{Direction, Transfer, TransferWatcher};

    #[test]
    fn advice_that_comes_and_goes_with_every_transfer_is_a_few_lines_of_log() {
        let advisor = Advisor::at("http://127.0.0.1:9").unwrap();
        let is_logged = |_| {
            advisor.lose("damaged");
            let is_logged = advisor.lost.lock().as_ref().unwrap().is_logged;
            advisor.find();
            is_logged
        };
        let logged = (0..100).map(is_logged).filter(|&logged| logged).count();
        assert_eq!(logged, 10);
        assert!(!advisor.is_lost());
    }

    #[test]
    fn who_has_to_wait_with_a_question_has_not_lost_the_advisor() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // Nobody answers at this address.
        let advisor = Advisor::at("http://127.0.0.1:9").unwrap();
        advisor.waiting.store(QUESTIONS, Ordering::Relaxed);
        let follow = Arc::new(Follow {
            advisor: Arc::new(advisor),
            allow_nocc: Vec::new(),
            journal: Journal::default(),
        });
        let mut follower = follow.watch(&Transfer {
            direction: Direction::Send,
            local: stream.local_addr().unwrap(),
            peer: stream.peer_addr().unwrap(),
            listener: None,
            total: None,
            protector: None,
        });
        follower.started(stream.as_fd(), None);
        thread::sleep(RETRY_INTERVAL / 2);
        assert!(!follow.advisor.is_lost());
        assert_eq!(follower.transfer().records().len(), 0);
        follow.advisor.waiting.store(0, Ordering::Relaxed);
        wait_until("it is asked again", || follow.advisor.is_lost());
        follower.ended(0);
    }
}
