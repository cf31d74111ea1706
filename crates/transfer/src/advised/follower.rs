//! Follows the advisor while a transfer runs.
//!
//! Questions are asked in a separate thread, which also applies the answers. The transfer's thread only
//! checks whether an answer is overdue.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_advice::wire::{self, Answer, TransferReport};
use jiff::Timestamp;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::Follow;
use super::advisor::{ANSWER_DEADLINE, RETRY_INTERVAL};
use super::connection::{Connection, Permit};
use super::observer::PathObserver;
use super::orders::{Orders, clean};
use super::record::{Event, Record};
use crate::{Direction, Transfer, TransferWatcher};

/// How long the first byte waits for the first advice: a nearby advisor answers within that.
const FIRST_BYTE_WAIT: Duration = Duration::from_millis(5);

/// Most records kept of a transfer for its report: an advisor may change its mind ten times a second, for
/// days. Each is logged when it happens.
const KEPT: usize = 1_000;

/// How often the path's rate is measured.
const RATE_INTERVAL: Duration = Duration::from_millis(100);

/// How often the transfer's thread checks whether an answer is overdue.
const OVERDUE_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Follows the advisor during one transfer.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<FollowedTransfer>,
    last_check: Instant,
}

/// A transfer, as its own thread and the asking thread share it. It may be kept beyond the end.
#[derive(Debug)]
pub struct FollowedTransfer {
    follow: Arc<Follow>,
    direction: Direction,
    local: SocketAddr,
    peer: SocketAddr,
    /// Bytes moved.
    moved: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    begun: Instant,
    total: Option<u64>,
    /// None before and after the transfer.
    connection: Option<Connection>,
    /// What the transfer has observed of its path.
    observer: PathObserver,
    /// The latest sound advice.
    orders: Option<Orders>,
    /// When the pending question was asked.
    asked: Option<Instant>,
    /// The connection has the kernel's defaults for want of advice, and that has been reported.
    lost: bool,
    /// What could not be done and has been reported.
    reported: HashSet<String>,
    records: Vec<Record>,
    /// How the transfer went, to be reported to the advisor.
    outcome: Option<TransferReport>,
    /// The asking thread is running.
    busy: bool,
}

impl Follower {
    pub(super) fn new(follow: Arc<Follow>, transfer: &Transfer) -> Self {
        let now = Instant::now();
        let known = follow.advisor.memory.of(transfer.peer.ip(), now);
        Self {
            shared: Arc::new(FollowedTransfer {
                follow,
                direction: transfer.direction,
                local: transfer.local,
                peer: transfer.peer,
                moved: AtomicU64::new(0),
                state: Mutex::new(State {
                    begun: now,
                    total: transfer.total,
                    connection: None,
                    observer: PathObserver::beginning_with(known),
                    orders: None,
                    asked: None,
                    lost: false,
                    reported: HashSet::new(),
                    records: Vec::new(),
                    outcome: None,
                    busy: false,
                }),
                changed: Condvar::new(),
            }),
            last_check: now,
        }
    }

    /// The transfer that is followed, whose records may be read after its end.
    pub fn transfer(&self) -> Arc<FollowedTransfer> {
        Arc::clone(&self.shared)
    }
}

impl TransferWatcher for Follower {
    fn started(&mut self, socket: BorrowedFd<'_>, total: Option<u64>) {
        let starts = Arc::clone(&self.shared.follow.advisor.starts);
        let Ok(connection) = Connection::new(socket, self.shared.direction, starts) else {
            return;
        };
        let mut state = self.shared.state.lock();
        state.begun = Instant::now();
        state.total = total.or(state.total);
        state.connection = Some(connection);
        state.asked = Some(state.begun);
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("advice".into());
        // A few calls deep: a request, and a few socket options.
        state.busy = thread
            .stack_size(512 << 10)
            .spawn(move || shared.follow())
            .is_ok();
        // An advisor that is known not to answer is not waited for.
        if state.busy && !self.shared.follow.advisor.is_lost() {
            let waiting = |state: &mut State| state.asked.is_some();
            let changed = &self.shared.changed;
            changed.wait_while_for(&mut state, waiting, FIRST_BYTE_WAIT);
        }
    }

    fn progressed(&mut self, moved: u64) {
        self.shared.moved.store(moved, Ordering::Relaxed);
        if self.last_check.elapsed() < OVERDUE_CHECK_INTERVAL {
            return;
        }
        self.last_check = Instant::now();
        // If the lock is held, an answer is just being applied: none is overdue.
        let Some(state) = self.shared.state.try_lock() else {
            return;
        };
        if state
            .asked
            .is_some_and(|asked| asked.elapsed() > ANSWER_DEADLINE)
            && !state.lost
        {
            let reason = format!("no answer within {} s", ANSWER_DEADLINE.as_secs());
            self.shared.fall_back(state, &reason);
        }
    }

    fn ended(&mut self, moved: u64) {
        self.shared.moved.store(moved, Ordering::Relaxed);
        let mut state = self.shared.state.lock();
        self.shared.measure(&mut state);
        if let Some(rate) = state.observer.observed.rate {
            let memory = &self.shared.follow.advisor.memory;
            memory.keep(self.shared.peer.ip(), rate, Instant::now());
        }
        if let Some(connection) = state.connection.take() {
            state.outcome = self
                .shared
                .outcome(&connection, moved, state.begun.elapsed());
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl FollowedTransfer {
    /// The events so far.
    pub fn records(&self) -> Vec<Record> {
        self.state.lock().records.clone()
    }

    /// Waits until the result has been reported to the advisor, or until `end`.
    pub fn wait_until_reported(&self, end: Instant) {
        let patience = end.saturating_duration_since(Instant::now());
        let busy = |state: &mut State| state.busy;
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, busy, patience);
    }

    /// The asking thread: asks until the transfer is over, then reports the result.
    fn follow(&self) {
        while let Some(remaining) = self.remaining() {
            let until_next = match self.follow.advisor.ask(&self.host(), remaining) {
                Some(answer) => self.take(answer),
                None => self.leave_unasked(),
            };
            self.wait(until_next.unwrap_or(RETRY_INTERVAL));
        }
        let outcome = self.state.lock().outcome.take();
        if let Some(outcome) = outcome {
            self.follow.advisor.report(&outcome);
        }
        self.state.lock().busy = false;
        self.changed.notify_all();
    }

    /// The peer, as the advisor is asked about it.
    fn host(&self) -> String {
        self.peer.ip().to_canonical().to_string()
    }

    /// Begins a question: returns the bytes still to be moved, if known; none if the transfer is over.
    fn remaining(&self) -> Option<Option<u64>> {
        let mut state = self.state.lock();
        state.connection.as_ref()?;
        state.asked = Some(Instant::now());
        let moved = self.moved.load(Ordering::Relaxed);
        Some(state.total.map(|total| total.saturating_sub(moved)))
    }

    /// Postpones the question: that says nothing about the advisor, and no answer is pending.
    fn leave_unasked(&self) -> Option<Duration> {
        self.state.lock().asked = None;
        self.changed.notify_all();
        None
    }

    /// Applies an answer; returns how long to wait before the next question, none if it was unusable.
    fn take(&self, answer: Result<Answer, String>) -> Option<Duration> {
        let sound = answer.and_then(|answer| {
            let lifetime = answer.ask_again_after() + ANSWER_DEADLINE;
            let until_ns = fairwind_kernel::monotonic_ns() + lifetime.as_nanos() as u64;
            let orders = Orders::of_answer(&answer, until_ns).map_err(|what| {
                let url = self.follow.advisor.url();
                format!("{url}: the advice makes no sense: {what}")
            })?;
            Ok((answer, orders))
        });
        let mut state = self.state.lock();
        state.asked = None;
        let (answer, orders) = match sound {
            Ok(sound) => sound,
            Err(reason) => {
                self.fall_back(state, &clean(&reason));
                self.changed.notify_all();
                return None;
            }
        };
        self.follow.advisor.find();
        state.lost = false;
        let mut events = vec![advice_event(&answer, &orders)];
        state.orders = Some(orders);
        self.measure(&mut state);
        events.extend(self.apply_orders(&mut state));
        self.report(state, events);
        self.changed.notify_all();
        Some(answer.ask_again_after())
    }

    /// Carries out the orders, within what the path has shown.
    fn apply_orders(&self, state: &mut State) -> Vec<Event> {
        let peer = self.peer.ip().to_canonical();
        let bits = if peer.is_ipv4() { 32 } else { 128 };
        let permit = Permit {
            peer,
            granted: self.follow.permits_nocc(peer),
            option: format!("--allow-nocc {peer}/{bits}"),
        };
        let (Some(orders), Some(connection)) = (&state.orders, &mut state.connection) else {
            return Vec::new();
        };
        let (orders, mut events) = orders.within(state.observer.observed, self.direction);
        events.extend(connection.follow(&orders, &permit));
        events
    }

    /// Measures what the path carries; returns whether that changes what is known.
    fn measure(&self, state: &mut State) -> bool {
        let counters = state.connection.as_ref().and_then(Connection::counters);
        let Some(counters) = counters else {
            return false;
        };
        let arrived = match self.direction {
            Direction::Send => counters.tcpi_bytes_acked,
            Direction::Receive => counters.tcpi_bytes_received,
        };
        state
            .observer
            .measure(Instant::now(), arrived, counters.min_rtt())
    }

    /// Returns to the kernel's defaults for want of sound advice; reported once.
    fn fall_back(&self, mut state: MutexGuard<'_, State>, reason: &str) {
        self.follow.advisor.lose(reason);
        if std::mem::replace(&mut state.lost, true) {
            return;
        }
        state.orders = None;
        let mut events = vec![Event::Lost {
            reason: reason.to_owned(),
        }];
        if let Some(connection) = &mut state.connection {
            events.extend(connection.restore(reason));
        }
        self.report(state, events);
    }

    /// Keeps and reports events; what could not be done only once.
    fn report(&self, mut state: MutexGuard<'_, State>, events: Vec<Event>) {
        let seconds = state.begun.elapsed().as_secs_f64();
        let mut new = Vec::new();
        for event in events {
            let once = match &event {
                Event::Refused { what, reason, .. } => Some(format!("{what} {reason}")),
                Event::Bounded {
                    what, advised, to, ..
                } => Some(format!("{what} {advised} {to}")),
                _ => None,
            };
            if once.is_some_and(|once| state.reported.len() >= KEPT || !state.reported.insert(once))
            {
                continue;
            }
            new.push(Record {
                time: Timestamp::now(),
                local: self.local,
                peer: self.peer,
                seconds,
                bytes: self.moved.load(Ordering::Relaxed),
                event,
            });
        }
        keep(&mut state.records, &new);
        drop(state);
        for record in &new {
            self.follow.journal.write(record);
        }
    }

    /// Waits until it is time to ask again, or the transfer is over. Orders that were bounded are
    /// followed further as the path shows more.
    fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        let running = |state: &mut State| state.connection.is_some();
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            let mut state = self.state.lock();
            let time = rest.min(RATE_INTERVAL);
            let waited = self.changed.wait_while_for(&mut state, running, time);
            if !waited.timed_out() || rest <= RATE_INTERVAL {
                return;
            }
            if self.measure(&mut state) {
                let events = self.apply_orders(&mut state);
                self.report(state, events);
            }
        }
    }

    fn outcome(
        &self,
        connection: &Connection,
        moved: u64,
        time: Duration,
    ) -> Option<TransferReport> {
        let counters = connection.counters();
        let bytes = match (self.direction, counters) {
            // What is still in the send buffer has not arrived.
            (Direction::Send, Some(counters)) => counters.tcpi_bytes_acked.min(moved),
            _ => moved,
        };
        (bytes > 0).then(|| TransferReport {
            host: self.host(),
            bytes,
            seconds: time.as_secs_f64(),
            retransmits: counters
                .filter(|_| self.direction == Direction::Send)
                .map(|counters| counters.tcpi_total_retrans.into()),
            rtt_ms: counters
                .and_then(|counters| counters.min_rtt())
                .map(|rtt| rtt.as_secs_f64() * 1e3),
            limited: connection.limited(bytes, time),
            direction: match self.direction {
                Direction::Send => wire::Direction::Sent,
                Direction::Receive => wire::Direction::Received,
            },
        })
    }
}

/// Adds records while there is room.
fn keep(kept: &mut Vec<Record>, new: &[Record]) {
    let room = KEPT.saturating_sub(kept.len());
    kept.extend(new.iter().take(room).cloned());
}

fn advice_event(answer: &Answer, orders: &Orders) -> Event {
    let advice = &answer.advice;
    Event::Advice {
        mode: advice.mode,
        congestion_control: advice.congestion_control.clone(),
        available_mbps: advice.available_mbps,
        interval_mbps: advice.interval_mbps,
        threshold_mbps: advice.threshold_mbps,
        ask_again_after_s: answer.ask_again_after().as_secs_f64(),
        reason: orders.reason.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_transfer_is_bounded() {
        let record = Record {
            time: Timestamp::UNIX_EPOCH,
            local: "192.0.2.1:20".parse().unwrap(),
            peer: "192.0.2.7:40000".parse().unwrap(),
            seconds: 0.0,
            bytes: 0,
            event: Event::Lost {
                reason: "because".into(),
            },
        };
        let mut kept = Vec::new();
        for _ in 0..600 {
            keep(&mut kept, &[record.clone(), record.clone()]);
        }
        assert_eq!(kept.len(), 1_000);
    }
}
