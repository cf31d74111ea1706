//! State shared by the threads of a run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fairwind_path::units::Time;
use fairwind_workload::Meter;

use super::outcome::{Failure, FlowOutcome};
use super::plan::FlowPlan;
use crate::clock::Clock;

/// Most failures recorded per flow; a web flow could have thousands.
const FAILURES_OF_A_FLOW: usize = 16;

/// The times of the run, what the flows did, and what failed.
#[derive(Debug)]
pub(super) struct Shared {
    pub clock: Clock,
    pub warmup: Time,
    pub end: Time,
    received: Vec<AtomicU64>,
    outcomes: Mutex<Vec<FlowOutcome>>,
    failures: Mutex<Vec<Failure>>,
    pending: Vec<Mutex<HashMap<u16, PendingConnection>>>,
    /// When the threads were asked to stop.
    stopped: OnceLock<Time>,
    /// Held by a thread from its last look at `stopped` until it sleeps.
    sleep: Mutex<()>,
    /// Notified when `stopped` is set.
    stopping: Condvar,
}

/// A connection that the sender has opened and the receiver has not accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingConnection {
    /// The sender's number of the connection.
    pub connection: u64,
    /// Bytes that complete it, if it is to end.
    pub bytes: Option<u64>,
    /// When the sender began to open it.
    pub opened: Time,
}

impl Shared {
    pub(super) fn new(flows: usize, clock: Clock, warmup: Time, end: Time) -> Shared {
        Shared {
            clock,
            warmup,
            end,
            received: (0..flows).map(|_| AtomicU64::new(0)).collect(),
            outcomes: Mutex::new(vec![FlowOutcome::default(); flows]),
            failures: Mutex::default(),
            pending: (0..flows).map(|_| Mutex::default()).collect(),
            stopped: OnceLock::new(),
            sleep: Mutex::default(),
            stopping: Condvar::new(),
        }
    }

    /// A meter for what a flow delivers from the warm-up and its start on.
    pub(super) fn meter(&self, plan: &FlowPlan) -> Meter {
        Meter::new((Time::ZERO + plan.start).max(self.warmup), self.end)
    }

    /// Counts bytes received by a flow's application.
    #[inline]
    pub(super) fn add_received(&self, flow: usize, bytes: u64) {
        self.received[flow].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn received(&self, flow: usize) -> u64 {
        self.received[flow].load(Ordering::Relaxed)
    }

    /// Records a failure of a flow, unless the same one is already recorded or the flow has too
    /// many.
    pub(super) fn fail(&self, flow: usize, text: impl Into<String>) {
        let failure = Failure {
            flow,
            text: text.into(),
        };
        let mut failures = lock(&self.failures);
        let of_flow = failures.iter().filter(|known| known.flow == flow).count();
        if of_flow < FAILURES_OF_A_FLOW && !failures.contains(&failure) {
            failures.push(failure);
        }
    }

    pub(super) fn failures(&self) -> Vec<Failure> {
        lock(&self.failures).clone()
    }

    /// The pending connections of a flow, by the sender's port. The sender holds the lock from
    /// connecting until the entry is inserted, so that the receiver finds it.
    pub(super) fn pending(&self, flow: usize) -> MutexGuard<'_, HashMap<u16, PendingConnection>> {
        lock(&self.pending[flow])
    }

    /// Asks all threads to stop.
    pub(super) fn stop(&self) {
        let _ = self.stopped.set(self.clock.now());
        drop(lock(&self.sleep));
        self.stopping.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// The end of the run, or when it was stopped if that was earlier.
    pub(super) fn over(&self) -> Time {
        self.stopped.get().map_or(self.end, |&at| at.min(self.end))
    }

    /// What the flows did; each thread adds its part when it ends.
    pub(super) fn outcomes(&self) -> MutexGuard<'_, Vec<FlowOutcome>> {
        lock(&self.outcomes)
    }

    /// Sleeps until this time of the run, or until all threads are asked to stop. It is as punctual as
    /// clock_nanosleep(2): a futex has the same timer.
    pub(super) fn sleep_until(&self, time: Time) {
        let mut awake = lock(&self.sleep);
        while !self.is_stopped() {
            let now = self.clock.now();
            if now >= time {
                return;
            }
            let left = Duration::from_nanos((time - now).as_nanos());
            let woken = self.stopping.wait_timeout(awake, left);
            (awake, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Locks, ignoring poison: a thread that panics leaves nothing half done under these locks.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use fairwind_kernel::monotonic_ns;

    use super::*;

    #[test]
    fn a_sleeper_wakes_at_its_time_and_when_all_are_to_stop() {
        let clock = Clock::since(monotonic_ns());
        let shared = Shared::new(0, clock, Time::ZERO, Time::MAX);
        shared.sleep_until(Time::from_millis(1));
        assert!(clock.now() >= Time::from_millis(1));
        std::thread::scope(|scope| {
            scope.spawn(|| shared.sleep_until(Time::MAX));
            shared.stop();
        });
        shared.sleep_until(Time::MAX);
    }

    #[test]
    fn a_failure_is_told_once_and_not_without_end() {
        let shared = Shared::new(2, Clock::since(0), Time::ZERO, Time::ZERO);
        shared.fail(0, "reset");
        shared.fail(0, "reset");
        shared.fail(1, "reset");
        assert_eq!(shared.failures().len(), 2);
        for number in 0..100 {
            shared.fail(0, number.to_string());
        }
        assert_eq!(shared.failures().len(), 1 + FAILURES_OF_A_FLOW);
    }
}
