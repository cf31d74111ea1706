//! When a thread of the emulator lets time pass: it must be awake when a packet is due, and leave
//! the processor to the hosts otherwise.

use std::io::PipeReader;
use std::os::fd::AsFd;
use std::sync::Arc;

use fairwind_path::units::{Duration, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::clock::Clock;
use crate::tun::Tun;

/// Timers wake a sleeper late; so much time before a departure is spent awake. It is time that the
/// hosts on this machine do not get.
const AWAKE: Duration = Duration::from_micros(25);
/// Where there is something to do all the time, a thread looks only so often, as a network card
/// under load interrupts only so often: going to sleep and waking up costs more than a packet.
const MODERATION: Duration = Duration::from_micros(20);

/// Who works so long without a pause makes one of this length. It is the share that the kernel sees to
/// it that others get; left to it, it is taken once a second, at one go.
const BUSY: Duration = Duration::from_millis(4);
const BREATH: Duration = Duration::from_micros(220);

/// The pauses of one thread.
pub struct Pauses {
    clock: Clock,
    /// Its other end is closed when the thread is to end.
    stopped: PipeReader,
    /// What ends a longer pause: packets from these.
    inputs: Vec<Arc<Tun>>,
    /// When it last came back from a pause.
    woken: Time,
    /// When it last had nothing to do.
    paused: Time,
    /// The departure that it waited for then.
    awaited: Option<Time>,
}

/// What a thread knows when it might pause.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// It has found something to do since it last asked.
    pub busy: bool,
    /// When a packet is due, in time.
    pub departure: Option<Time>,
    /// When something else is to be done, more or less.
    pub milestone: Time,
}

impl Pauses {
    /// The pauses of the calling thread, which from now on runs before the hosts' programs.
    pub fn begin(clock: Clock, stopped: PipeReader, inputs: Vec<Arc<Tun>>) -> Pauses {
        // Without it the kernel may let timers of this thread wait 50 us for others.
        let _ = nix::sys::prctl::set_timerslack(1);
        ahead_of_hosts();
        Pauses {
            clock,
            stopped,
            inputs,
            woken: clock.now(),
            paused: Time::ZERO,
            awaited: None,
        }
    }

    /// Waits for time 0. True if the work is to end.
    pub fn await_start(&mut self) -> bool {
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

    /// Lets time pass, or not, until there is something to do. True if the work is to end.
    pub fn pause(&mut self, now: Time, outlook: Outlook) -> bool {
        let ends = match outlook.busy {
            _ if now - self.woken > BUSY => self.wait(false, Some(BREATH)),
            true => return false,
            false => self.rest(now, outlook),
        };
        self.woken = self.clock.now();
        ends
    }

    fn rest(&mut self, now: Time, outlook: Outlook) -> bool {
        let rest = outlook.departure.map(|time| time - now);
        let same = rest.is_some() && outlook.departure == self.awaited;
        self.awaited = outlook.departure;
        if same && rest < Some(AWAKE) {
            return false;
        }
        let often = !same && now - self.paused < MODERATION * 2;
        self.paused = now;
        if often {
            return self.wait(false, Some(MODERATION));
        }
        // Who sleeps long wakes late: the last part of the time is slept by itself.
        let asleep = rest.map(|rest| rest - rest / 5);
        let milestone = (outlook.milestone < Time::MAX).then(|| outlook.milestone - now);
        let shortest = asleep.into_iter().chain(milestone).min();
        self.wait(true, shortest)
    }

    /// Sleeps until the time is over, or a host has sent something and that is to count. True if the
    /// work is to end.
    fn wait(&self, for_inputs: bool, time: Option<Duration>) -> bool {
        let inputs = if for_inputs { &self.inputs[..] } else { &[] };
        let mut fds = Vec::with_capacity(1 + inputs.len());
        fds.push(PollFd::new(self.stopped.as_fd(), PollFlags::POLLIN));
        let mut idle = true;
        for tun in inputs {
            idle &= tun.sleep();
            fds.push(PollFd::new(tun.as_fd(), PollFlags::POLLIN));
        }
        let time = if idle { time } else { Some(Duration::ZERO) };
        let time = time.map(|time| {
            let nanos = time.as_nanos();
            TimeSpec::new(
                (nanos / 1_000_000_000) as i64,
                (nanos % 1_000_000_000) as i64,
            )
        });
        // A signal only wakes early, which the caller takes for a wake-up like any other.
        let _ = ppoll(&mut fds, time, None);
        for (tun, fd) in inputs.iter().zip(&fds[1..]) {
            tun.wake(fd.any() == Some(true));
        }
        fds[0].any() == Some(true)
    }
}

/// Lets the calling thread run before the hosts' programs and everybody else's: a network does not
/// wait for them. What it leaves of the processors is theirs, and the kernel sees to it that it is
/// never nothing.
fn ahead_of_hosts() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the parameters outlive the call.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &lowest) } != 0 {
        // Without the privilege packets are merely later.
        // SAFETY: the call takes numbers only.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    }
}
