//! Right-sizing of one transfer: a thread beside it that serves the channel and sizes the buffers.
//!
//! That thread, not the transfer's, answers messages: an echo that had to wait for the next piece of a
//! file would make the round-trip time longer than the path's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fairwind_kernel::TcpInfo;
use jiff::Timestamp;
use parking_lot::MutexGuard;

use super::budget::Share;
use super::channel::{Channel, ChannelError, Wake};
use super::estimator::{Estimator, Settings};
use super::message::{Line, Sbuf, trimmed};
use super::record::{Cause, Record, SharedRecord};
use super::sized_buffer::{SizedBuffer, bounded};
use super::token::Token;
use crate::{Direction, Transfer, TransferWatcher};

/// Smallest buffer, in packets.
const PACKETS: u64 = 16;

/// Estimates per round trip.
const ESTIMATES: u32 = 20;

/// Messages per round trip while nothing changes.
const MESSAGES: u32 = 4;

/// Bounds on the time between estimates.
const SHORTEST_TICK: Duration = Duration::from_millis(2);
const LONGEST_TICK: Duration = Duration::from_millis(50);

/// Bounds on the time between messages.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// What the transfer's thread and the right-sizing thread share.
#[derive(Debug)]
struct Shared {
    moved: AtomicU64,
    wake: Wake,
    record: SharedRecord,
}

/// Right-sizes the buffers of one transfer.
#[derive(Debug)]
pub struct RightSizing {
    transfer: Option<Transfer>,
    token: Token,
    share: Option<Share>,
    shared: Option<Arc<Shared>>,
    record: SharedRecord,
    thread: Option<thread::JoinHandle<()>>,
}

impl RightSizing {
    /// For a transfer whose data connection is open. The channel is the connection that presents `token`;
    /// the buffer grows within `share`; what is done is recorded in `record`.
    pub fn new(transfer: &Transfer, token: Token, share: Share, record: SharedRecord) -> Self {
        Self {
            transfer: Some(transfer.clone()),
            token,
            share: Some(share),
            shared: None,
            record,
            thread: None,
        }
    }

    fn begin(&mut self, socket: BorrowedFd<'_>) -> std::io::Result<()> {
        let (Some(transfer), Some(share)) = (self.transfer.take(), self.share.take()) else {
            return Ok(());
        };
        let shared = Arc::new(Shared {
            moved: AtomicU64::new(0),
            wake: Wake::new()?,
            record: self.record.clone(),
        });
        {
            let mut record = self.record.lock();
            record.begin = Timestamp::now();
            record.direction = Some(transfer.direction);
        }
        let mut settings = Settings::default();
        // A buffer of only a few packets would make the connection stop and go.
        let packet = TcpInfo::of(socket).map_or(0, |info| info.tcpi_advmss);
        settings.floor = settings.floor.max(PACKETS * u64::from(packet));
        let work = Work {
            socket: socket.try_clone_to_owned()?,
            shared: Arc::clone(&shared),
            token: self.token,
            settings,
            begin: Instant::now(),
            wall: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        };
        let thread = thread::Builder::new()
            .name("right-sizing".into())
            .stack_size(256 << 10)
            .spawn(move || work.run(transfer, share))?;
        self.shared = Some(shared);
        self.thread = Some(thread);
        Ok(())
    }
}

impl TransferWatcher for RightSizing {
    fn started(&mut self, socket: BorrowedFd<'_>, _: Option<u64>) {
        if let Err(error) = self.begin(socket) {
            tracing::info!("right-sizing: {error}; the kernel sizes the buffers");
        }
    }

    fn progressed(&mut self, moved: u64) {
        if let Some(shared) = &self.shared {
            shared.moved.store(moved, Ordering::Relaxed);
        }
    }

    fn ended(&mut self, moved: u64) {
        self.progressed(moved);
        if let Some(shared) = self.shared.take() {
            shared.wake.signal();
        }
        // The thread waits for nothing but the wake-up: its copy of the socket is closed at once.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for RightSizing {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.wake.signal();
        }
    }
}

/// The work of the right-sizing thread.
struct Work {
    socket: OwnedFd,
    shared: Arc<Shared>,
    token: Token,
    settings: Settings,
    begin: Instant,
    /// The time of day at `begin`: timestamps continue from there, even if the clock is set.
    wall: Duration,
}

impl Work {
    fn run(self, mut transfer: Transfer, share: Share) {
        let (peer, direction) = (transfer.peer, transfer.direction);
        let opened = Channel::open(
            &mut transfer,
            self.socket.as_fd(),
            self.token,
            &self.shared.wake,
        );
        // Closes the listening socket, which nothing waits on any more.
        drop(transfer);
        let ended = opened.and_then(|channel| {
            self.record().paired = Some(self.begin.elapsed());
            self.serve(
                channel,
                SizedBuffer::new(self.socket.try_clone()?, direction, share),
            )
        });
        self.record().pass_time(self.begin.elapsed());
        match ended {
            Err(ChannelError::Over | ChannelError::Closed) | Ok(()) => {}
            Err(error) => {
                tracing::info!("{peer}: right-sizing: {error}; the kernel sizes the buffers");
            }
        }
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.shared.record.lock()
    }

    /// Sizes the buffer until the channel or the transfer ends.
    fn serve(&self, mut channel: Channel, mut sized: SizedBuffer) -> Result<(), ChannelError> {
        let ended = match sized.side {
            Direction::Receive => self.estimate(&mut channel, &mut sized),
            Direction::Send => self.follow(&mut channel, &mut sized),
        };
        if !matches!(ended, Err(ChannelError::Over)) {
            sized.give_back()?;
        }
        ended
    }

    /// The receiver of the file: estimates, sizes its buffer, asks the sender for the same.
    fn estimate(&self, channel: &mut Channel, sized: &mut SizedBuffer) -> Result<(), ChannelError> {
        let mut estimator = Estimator::new(self.settings, sized.size()?);
        let mut arrivals = Arrivals::default();
        let mut taken_over = false;
        let mut message_due = Duration::ZERO;
        loop {
            let now = self.begin.elapsed();
            let arrived = match TcpInfo::of(&self.socket) {
                Ok(info) => arrivals.count(info.tcpi_data_segs_in, info.tcpi_rcv_mss),
                Err(_) => self.shared.moved.load(Ordering::Relaxed),
            };
            let mut changed = false;
            if let Some(estimate) = estimator.arrived(now, arrived) {
                self.record().estimated(now, estimate);
                if !taken_over {
                    estimator.raise(sized.size()?);
                }
                changed = estimator.resize(now).is_some() || !taken_over;
                if changed {
                    taken_over = true;
                    let cause = Cause::Estimate(estimate);
                    sized.request(now, estimator.buffer, cause, &self.shared.record)?;
                }
                sized.settle(now, estimate.round_trip)?;
            }
            if (changed || now >= message_due) && channel.is_idle() {
                let sbuf = Sbuf {
                    timestamp: self.wall + self.begin.elapsed(),
                    buffer_size: estimator.buffer,
                };
                channel.send(format!("{sbuf}\r\n").as_bytes())?;
                self.record().messages += 1;
                message_due = now + pause(&estimator, MESSAGES, SHORTEST_PAUSE, LONGEST_PAUSE);
            }
            let tick = pause(&estimator, ESTIMATES, SHORTEST_TICK, LONGEST_TICK);
            let lines = channel.lines(&self.shared.wake, Instant::now() + tick)?;
            for line in lines {
                self.echo_came(channel, &mut estimator, &line)?;
            }
        }
    }

    fn echo_came(
        &self,
        channel: &mut Channel,
        estimator: &mut Estimator,
        line: &Line,
    ) -> Result<(), ChannelError> {
        let now = self.begin.elapsed();
        let took = message(line)
            .and_then(|sbuf| sbuf.timestamp.checked_sub(self.wall))
            .and_then(|sent| estimator.echoed(now, sent));
        match took {
            Some(took) => self.record().echoed(took),
            None => {
                channel.fault()?;
                self.record().faults += 1;
            }
        }
        Ok(())
    }

    /// The sender of the file: follows the receiver's requests, and echoes them.
    fn follow(&self, channel: &mut Channel, sized: &mut SizedBuffer) -> Result<(), ChannelError> {
        let (mut asked, mut given) = (None, 0);
        loop {
            // Nothing is due until the receiver sends something or the transfer ends.
            let lines =
                channel.lines(&self.shared.wake, Instant::now() + Duration::from_secs(60))?;
            for line in lines {
                let (Line::Whole(bytes), Some(sbuf)) = (&line, message(&line)) else {
                    channel.fault()?;
                    self.record().faults += 1;
                    continue;
                };
                let size = bounded(sbuf.buffer_size, &self.settings);
                // A size that was refused for lack of budget, or of bytes moved, may be granted now.
                if asked != Some(size) || given < size {
                    asked = Some(size);
                    let (now, record) = (self.begin.elapsed(), &self.shared.record);
                    given = sized.request(now, size, Cause::Asked, record)?;
                }
                channel.send(bytes)?;
                self.record().messages += 1;
            }
        }
    }
}

fn message(line: &Line) -> Option<Sbuf> {
    match line {
        Line::Whole(bytes) => Sbuf::parse(trimmed(bytes)),
        Line::TooLong => None,
    }
}

/// Bytes that have arrived, in any order: those that wait behind a lost packet count when they arrive,
/// not when it does.
#[derive(Debug, Default)]
struct Arrivals {
    packets: u32,
    bytes: u64,
}

impl Arrivals {
    /// After `packets` in all (`tcpi_data_segs_in`), the latest of `size` bytes (`tcpi_rcv_mss`).
    fn count(&mut self, packets: u32, size: u32) -> u64 {
        let new = packets.wrapping_sub(self.packets);
        self.packets = packets;
        self.bytes += u64::from(new) * u64::from(size);
        self.bytes
    }
}

/// A fraction of the round-trip time, within bounds.
fn pause(estimator: &Estimator, parts: u32, shortest: Duration, longest: Duration) -> Duration {
    estimator
        .round_trip
        .map_or(shortest, |time| time / parts)
        .clamp(shortest, longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_count_with_the_size_that_they_have_when_they_come() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.count(10, 536), 5_360);
        assert_eq!(arrivals.count(20, 1_448), 19_840);
        assert_eq!(arrivals.count(20, 9_000), 19_840);
        arrivals.packets = u32::MAX;
        assert_eq!(arrivals.count(1, 1_000), 21_840);
    }
}
