//! The thread that sends datagrams at even intervals.
//!
//! Datagram number k of a flow is due k intervals after the flow's start, so that neither rounding
//! nor lateness adds up. One that is late leaves at once. One that is later than [`LATEST`], and than
//! an interval, does not leave any more and is counted: a machine that stood still does not make up
//! for it with a burst. Nor does one that has not left when the run ends.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use fairwind_path::units::{Duration, Time};
use fairwind_workload::{Driver, Step};

use super::shared::Shared;
use super::timers::Timers;

/// How late a datagram may leave.
const LATEST: Duration = Duration::from_millis(10);
/// The longest sleep, so that the thread hears when it is to stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// Headers of IP and UDP, bytes.
const HEADERS: u32 = 28;
/// The largest packet of IPv4, bytes.
const LARGEST: usize = 65_535;

/// A flow's datagrams.
#[derive(Debug)]
pub struct Stream {
    index: usize,
    to: SocketAddrV4,
    socket: OwnedFd,
    driver: Driver,
    /// When the next one is due.
    due: Time,
}

/// What one flow has sent after the warm-up.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentDatagrams {
    pub index: usize,
    pub sent: u64,
    pub skipped: u64,
}

/// The thread's work.
pub struct Datagrams {
    shared: Arc<Shared>,
    streams: Vec<Stream>,
    sent: Vec<SentDatagrams>,
    timers: Timers<usize>,
    zeros: Vec<u8>,
}

/// One that is due.
struct Datagram {
    /// With its headers, bytes.
    size: u32,
    due: Time,
    /// When its successor is due.
    next: Time,
}

impl Datagram {
    fn is_in_time(&self, now: Time) -> bool {
        now < self.next || now - self.due <= LATEST
    }
}

impl Stream {
    /// What `driver` says over `socket`, for flow number `index`.
    pub fn new(index: usize, to: SocketAddrV4, socket: OwnedFd, mut driver: Driver) -> Stream {
        let due = driver.first();
        Stream {
            index,
            to,
            socket,
            driver,
            due,
        }
    }
}

impl Datagrams {
    pub fn new(shared: Arc<Shared>, streams: Vec<Stream>) -> Datagrams {
        let mut timers = Timers::new();
        for (number, stream) in streams.iter().enumerate() {
            timers.set(stream.due, number);
        }
        let sent = |stream: &Stream| SentDatagrams {
            index: stream.index,
            ..SentDatagrams::default()
        };
        Datagrams {
            shared,
            sent: streams.iter().map(sent).collect(),
            streams,
            timers,
            zeros: vec![0; LARGEST],
        }
    }

    /// Works until the end of the run, or until it is asked to stop.
    pub fn run(mut self) -> Vec<SentDatagrams> {
        super::wake_in_time();
        self.shared.clock.await_start();
        while !self.shared.is_stopped() {
            let now = self.shared.clock.now();
            let next = self.timers.next().unwrap_or(Time::MAX);
            if now > self.shared.end || next > self.shared.end {
                break;
            }
            while let Some(stream) = self.timers.take_due(now) {
                self.send(now, stream);
            }
            let next = self.timers.next().unwrap_or(Time::MAX);
            self.sleep_until(next.min(now + LONGEST_SLEEP));
        }
        let over = self.shared.clock.now().min(self.shared.end);
        while let Some(stream) = self.timers.take_due(over) {
            if let Some(datagram) = self.take(stream) {
                self.count(stream, &datagram, false);
            }
        }
        self.sent
    }

    fn send(&mut self, now: Time, at: usize) {
        if let Some(datagram) = self.take(at) {
            let sent = datagram.is_in_time(now) && self.hand_over(at, datagram.size);
            self.count(at, &datagram, sent);
        }
    }

    /// The stream's next datagram; the one after it is awaited.
    fn take(&mut self, at: usize) -> Option<Datagram> {
        let stream = &mut self.streams[at];
        let due = stream.due;
        let (Step::Datagram(size), Some(next)) = stream.driver.step(due) else {
            return None;
        };
        stream.due = next;
        self.timers.set(next, at);
        Some(Datagram { size, due, next })
    }

    fn count(&mut self, at: usize, datagram: &Datagram, sent: bool) {
        if datagram.due >= self.shared.warmup {
            let counts = &mut self.sent[at];
            counts.sent += u64::from(sent);
            counts.skipped += u64::from(!sent);
        }
    }

    /// Hands a datagram of so many IP bytes to the kernel; false if that does not take it.
    fn hand_over(&self, at: usize, size: u32) -> bool {
        let stream = &self.streams[at];
        let payload = size.saturating_sub(HEADERS) as usize;
        match super::socket::send(&stream.socket, &self.zeros[..payload]) {
            Ok(_) => true,
            Err(Errno::EAGAIN | Errno::EINTR) => false,
            Err(error) => {
                let error = std::io::Error::from(error);
                let text = format!("sending datagrams to {}: {error}", stream.to);
                self.shared.fail(stream.index, text);
                false
            }
        }
    }

    fn sleep_until(&self, time: Time) {
        let time = self.shared.clock.monotonic(time);
        // Woken early by a signal, it looks at the time and sleeps again.
        let _ = clock_nanosleep(
            ClockId::CLOCK_MONOTONIC,
            ClockNanosleepFlags::TIMER_ABSTIME,
            &time,
        );
    }
}
