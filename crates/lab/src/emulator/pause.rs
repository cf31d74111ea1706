//! When a thread of the emulator sleeps: it must be awake when a packet is due, and otherwise leave
//! the processor to the hosts.

use std::io::PipeReader;
use std::sync::Arc;

use fairwind_path::units::{Duration, Time};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::setpriority_process;

use crate::clock::{Clock, minimise_timer_slack, timespec};
use crate::host::tap::Tap;

/// Timers wake a sleeper late, so in the last part of the time before a departure the thread spins. The
/// hosts on this machine lose that processor time.
const SPIN_TIME: Duration = Duration::from_micros(25);
/// Under constant load, a thread polls at this interval only, as a network card under load
/// moderates its interrupts: going to sleep and waking up costs more than handling a packet.
const MODERATION: Duration = Duration::from_micros(20);

/// A thread that has run for `BUSY_LIMIT` without a pause sleeps for `YIELD_TIME`. That is the share of time
/// that the kernel reserves for other threads; unless given voluntarily, it is taken in one piece,
/// once a second.
const BUSY_LIMIT: Duration = Duration::from_millis(4);
const YIELD_TIME: Duration = Duration::from_micros(220);

/// The pauses of one thread.
pub(super) struct Pauses {
    clock: Clock,
    /// Its other end is closed when the thread is to end.
    stopped: PipeReader,
    /// Packets from these end a longer pause.
    inputs: Vec<Arc<Tap>>,
    /// When the last pause ended.
    woken: Time,
    /// When the thread was last idle.
    paused: Time,
    /// The departure that it waited for then.
    awaited: Option<Time>,
}

/// What a thread knows when it may pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook {
    /// Whether it has found work since it last asked.
    pub busy: bool,
    /// When the next packet is due; must be met.
    pub departure: Option<Time>,
    /// When something else is due; may be late.
    pub milestone: Time,
}

impl Pauses {
    /// The pauses of the calling thread, which gets priority over the hosts' programs from now on.
    pub(super) fn begin(clock: Clock, stopped: PipeReader, inputs: Vec<Arc<Tap>>) -> Pauses {
        minimise_timer_slack();
        raise_priority();
        Pauses {
            clock,
            stopped,
            inputs,
            woken: clock.now(),
            paused: Time::ZERO,
            awaited: None,
        }
    }

    /// Waits for time 0. True if the thread is to end.
    pub(super) fn await_start(&mut self) -> bool {
        loop {
            let left = self.clock.until_start();
            if left == Duration::ZERO {
                return false;
            }
            if self.wait(false, Some(left)) {
                return true;
            }
        }
    }

    /// Pauses as the outlook permits. True if the thread is to end.
    pub(super) fn pause(&mut self, now: Time, outlook: Outlook) -> bool {
        let ends = if now - self.woken > BUSY_LIMIT {
            self.wait(false, Some(YIELD_TIME))
        } else if outlook.busy {
            return false;
        } else {
            self.rest(now, outlook)
        };
        self.woken = self.clock.now();
        ends
    }

    fn rest(&mut self, now: Time, outlook: Outlook) -> bool {
        let rest = outlook.departure.map(|time| time - now);
        let same = rest.is_some() && outlook.departure == self.awaited;
        self.awaited = outlook.departure;
        if same && rest < Some(SPIN_TIME) {
            return false;
        }
        let often = !same && now - self.paused < MODERATION * 2;
        self.paused = now;
        if often {
            return self.wait(false, Some(MODERATION));
        }
        // Long sleeps end late, so the last fifth is slept separately.
        let asleep = rest.map(|rest| rest - rest / 5);
        let milestone = (outlook.milestone < Time::MAX).then(|| outlook.milestone - now);
        let shortest = asleep.into_iter().chain(milestone).min();
        self.wait(true, shortest)
    }

    /// Sleeps until the time is over (`None`: without limit) or, with `for_inputs`, a host has sent
    /// something. True if the thread is to end.
    fn wait(&self, for_inputs: bool, time: Option<Duration>) -> bool {
        let inputs = if for_inputs { &self.inputs[..] } else { &[] };
        let mut fds = Vec::with_capacity(1 + inputs.len());
        fds.push(PollFd::new(&self.stopped, PollFlags::IN));
        let mut idle = true;
        for tap in inputs {
            idle &= tap.request_wakeup();
            fds.push(PollFd::new(tap, PollFlags::IN));
        }
        let time = if idle { time } else { Some(Duration::ZERO) };
        let time = time.map(|time| timespec(time.as_nanos()));
        // A signal only ends the sleep early, which callers treat like any other wake-up.
        let _ = poll(&mut fds, time.as_ref());
        for (tap, fd) in inputs.iter().zip(&fds[1..]) {
            tap.end_wakeup(!fd.revents().is_empty());
        }
        !fds[0].revents().is_empty()
    }
}

/// Gives the calling thread priority over the hosts' programs and all others, as a network does not
/// wait for them. They get the rest of the processor time; the kernel ensures that there is some.
fn raise_priority() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // By libc, because rustix does not have the call.
    // SAFETY: 0 is the calling thread, and the parameters outlive the call.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &lowest) } != 0 {
        // Without the privilege, packets are merely later.
        let _ = setpriority_process(None, -20);
    }
}
