//! The thread that sends datagrams at regular intervals.
//!
//! Datagram number k of a flow is due k intervals after the flow's start, so that neither rounding
//! errors nor delays accumulate. A late one leaves immediately. One that is later than both
//! [`MAX_LATENESS`] and an interval is skipped and counted: a machine that stalled does not make up for
//! it with a burst. Datagrams that have not left when the run ends are skipped, too.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fairwind_path::units::{Duration, Time};
use fairwind_workload::{Driver, Step};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::shared::Shared;
use super::socket;
use super::timers::Timers;
use crate::clock::minimise_timer_slack;

/// How late a datagram may leave at most.
const MAX_LATENESS: Duration = Duration::from_millis(10);
/// Headers of IP and UDP, bytes.
const HEADERS: u32 = 28;
/// The largest packet of IPv4, bytes.
const MAX_PACKET: usize = 65_535;

/// The stream of a flow's datagrams.
#[derive(Debug)]
pub(super) struct Stream {
    index: usize,
    to: SocketAddrV4,
    socket: OwnedFd,
    driver: Driver,
    /// When the next datagram is due.
    due: Time,
    /// Datagrams after the warm-up.
    sent: u64,
    skipped: u64,
}

/// State of the thread.
pub(super) struct Datagrams {
    shared: Arc<Shared>,
    streams: Vec<Stream>,
    timers: Timers<usize>,
    zeros: Vec<u8>,
}

/// A datagram that is due.
struct Datagram {
    /// Size including headers, bytes.
    size: u32,
    due: Time,
    /// When its successor is due.
    next: Time,
}

impl Datagram {
    fn is_in_time(&self, now: Time) -> bool {
        now < self.next || now - self.due <= MAX_LATENESS
    }
}

impl Stream {
    /// Sends the datagrams of `driver` over `socket`, for the flow with this index.
    pub(super) fn new(
        index: usize,
        to: SocketAddrV4,
        socket: OwnedFd,
        mut driver: Driver,
    ) -> Stream {
        let due = driver.first();
        Stream {
            index,
            to,
            socket,
            driver,
            due,
            sent: 0,
            skipped: 0,
        }
    }
}

impl Datagrams {
    pub(super) fn new(shared: Arc<Shared>, streams: Vec<Stream>) -> Datagrams {
        let mut timers = Timers::new();
        for (number, stream) in streams.iter().enumerate() {
            timers.set(stream.due, number);
        }
        Datagrams {
            shared,
            streams,
            timers,
            zeros: vec![0; MAX_PACKET],
        }
    }

    /// Runs until the end of the run, or until asked to stop.
    pub(super) fn run(mut self) -> Vec<OwnedFd> {
        minimise_timer_slack();
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
            if next <= self.shared.end {
                self.shared.sleep_until(next);
            }
        }
        while let Some(stream) = self.timers.take_due(self.shared.over()) {
            if let Some(datagram) = self.take(stream) {
                self.count(stream, &datagram, false);
            }
        }
        let mut outcomes = self.shared.outcomes();
        for stream in self.streams {
            let outcome = &mut outcomes[stream.index];
            outcome.packets_sent = stream.sent;
            outcome.datagrams_skipped = stream.skipped;
        }
        Vec::new()
    }

    fn send(&mut self, now: Time, at: usize) {
        if let Some(datagram) = self.take(at) {
            let sent = datagram.is_in_time(now) && self.hand_over(at, datagram.size);
            self.count(at, &datagram, sent);
        }
    }

    /// Takes the stream's next datagram, and sets the timer for the one after it.
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
            let counts = &mut self.streams[at];
            counts.sent += u64::from(sent);
            counts.skipped += u64::from(!sent);
        }
    }

    /// Hands a datagram of `size` IP bytes to the kernel; false if the kernel does not take it.
    fn hand_over(&self, at: usize, size: u32) -> bool {
        let stream = &self.streams[at];
        let payload = size.saturating_sub(HEADERS) as usize;
        match socket::send(&stream.socket, &self.zeros[..payload], SendFlags::empty()) {
            Ok(_) => true,
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(error) => {
                let error = std::io::Error::from(error);
                let text = format!("sending datagrams to {}: {error}", stream.to);
                self.shared.fail(stream.index, text);
                false
            }
        }
    }
}
