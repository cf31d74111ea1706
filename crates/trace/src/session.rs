//! The pace of a trace: when samples are requested and when they are fetched.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use crate::event::Event;
use crate::kernel::{Counts, Options, TraceError, Tracer};
use crate::record::Manner;

/// The shortest interval.
pub const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// The ring buffer is emptied at least this often.
const FETCH: Duration = Duration::from_millis(25);
/// With a sample on every ACK: interval for connections whose ACKs give none.
const CLOSING: Duration = Duration::from_millis(1);

/// A running trace.
#[derive(Debug)]
pub struct Session {
    tracer: Tracer,
    every_ack: bool,
    interval: Option<Duration>,
    began: Instant,
    next: Instant,
    late_intervals: u64,
    closing: HashSet<u64>,
}

impl Session {
    /// Attaches the tracer. With an interval (at least [`MIN_INTERVAL`]), it samples all
    /// connections that often.
    ///
    /// # Errors
    ///
    /// Fails if the kernel lacks a feature, the process lacks a capability, or the kernel refuses a
    /// program; see [`TraceError`].
    pub fn start(options: &Options, interval: Option<Duration>) -> Result<Session, TraceError> {
        let interval = interval.map(|interval| interval.max(MIN_INTERVAL));
        let tracer = Tracer::attach(options)?;
        let began = Instant::now();
        Ok(Session {
            tracer,
            every_ack: options.every_ack,
            interval,
            began,
            next: began + interval.unwrap_or_default(),
            late_intervals: 0,
            closing: HashSet::new(),
        })
    }

    /// Waits at most 25 ms until there is something to do, does it, and hands out the events.
    ///
    /// # Errors
    ///
    /// Fails if samples cannot be requested or the ring buffer cannot be read.
    pub fn step(&mut self, mut each: impl FnMut(&Event<'_>)) -> Result<(), TraceError> {
        let mut wait = FETCH;
        if let Some(interval) = self.interval {
            wait = wait.min(self.next.saturating_duration_since(Instant::now()));
            thread::sleep(wait);
            let now = Instant::now();
            if now >= self.next {
                self.tracer.sample()?;
                // Missed intervals are counted, not made up for.
                let over = (now - self.next).as_nanos() / interval.as_nanos();
                self.late_intervals += over as u64;
                self.next += interval * (over as u32 + 1);
            }
        } else {
            if !self.closing.is_empty() {
                wait = CLOSING;
            }
            thread::sleep(wait);
            if !self.closing.is_empty() {
                self.tracer.sample_closing()?;
            }
        }
        self.fetch(&mut each)?;
        Ok(())
    }

    /// Takes a last sample of every connection and hands out all waiting events.
    ///
    /// # Errors
    ///
    /// Fails if the samples, the ring buffer or the counts cannot be read.
    pub fn finish(
        mut self,
        mut each: impl FnMut(&Event<'_>),
    ) -> Result<(Counts, Manner), TraceError> {
        let manner = self.manner();
        self.tracer.sample()?;
        let end = Instant::now() + Duration::from_secs(1);
        while self.fetch(&mut each)? > 0 && Instant::now() < end {}
        Ok((self.tracer.counts()?, manner))
    }

    /// Duration and mode of the trace so far.
    pub fn manner(&self) -> Manner {
        Manner {
            duration_s: self.began.elapsed().as_secs_f64(),
            interval_s: self.interval.map(|interval| interval.as_secs_f64()),
            every_ack: self.every_ack,
            late_intervals: self.late_intervals,
        }
    }

    /// What the trace has not seen so far.
    ///
    /// # Errors
    ///
    /// Fails if the kernel's counters cannot be read.
    pub fn counts(&self) -> Result<Counts, TraceError> {
        self.tracer.counts()
    }

    /// How long the trace has been running.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn fetch(&mut self, each: &mut impl FnMut(&Event<'_>)) -> Result<usize, TraceError> {
        let closing = &mut self.closing;
        self.tracer.take(|event| {
            match &event {
                Event::Sample(sample, _) if is_closing(sample.state) => {
                    closing.insert(sample.head.id);
                }
                Event::Sample(sample, _) | Event::Close(sample, _) if !closing.is_empty() => {
                    closing.remove(&sample.head.id);
                }
                _ => {}
            }
            each(&event);
        })
    }
}

/// FIN wait 1, close wait, last ACK, closing.
fn is_closing(state: u8) -> bool {
    matches!(state, 4 | 8 | 9 | 11)
}
