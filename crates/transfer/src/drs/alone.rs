//! Right-sizing of a sender whose peer has none: it grows a buffer that, as its own kernel tells, slows the connection
//! down.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use fairwind_kernel::TcpInfo;
use jiff::Timestamp;

use super::budget::Share;
use super::estimator::Settings;
use super::record::{Cause, SharedRecord};
use super::sized_buffer::SizedBuffer;
use crate::{Direction, TransferWatcher, buffers};

/// The kernel is asked after so many bytes, or after such a time.
const PIECE: u64 = 16 << 20;
const PERIOD: Duration = Duration::from_millis(100);

/// On the fastest paths, above all within a host, the sender is woken each time that a third of its buffer has drained. The
/// buffer lasts for this time, so that it is woken hundreds of times a second and not thousands.
const LASTS: Duration = Duration::from_millis(5);

/// Largest buffer for the sake of that, bytes: a larger one only displaces more from the processor's caches.
const MOST_TO_LAST: u64 = 8 << 20;

/// Sizes the send buffer of one transfer.
#[derive(Debug)]
pub struct SizedAlone {
    share: Option<Share>,
    record: SharedRecord,
    sender: Option<Sender>,
}

#[derive(Debug)]
struct Sender {
    sized: SizedBuffer,
    begin: Instant,
    /// The size that autotuning can reach, bytes; none until it matters.
    adapted: Option<u64>,
    /// When the kernel was last asked, and after how many bytes.
    last: (Duration, u64),
}

impl SizedAlone {
    /// For a transfer whose data connection is open. The buffer grows within `share`; what is done is recorded in `record`.
    pub fn new(share: Share, record: SharedRecord) -> Self {
        Self {
            share: Some(share),
            record,
            sender: None,
        }
    }
}

impl TransferWatcher for SizedAlone {
    fn started(&mut self, socket: BorrowedFd<'_>, _: Option<u64>) {
        let (Some(share), Ok(socket)) = (self.share.take(), socket.try_clone_to_owned()) else {
            return;
        };
        let mut record = self.record.lock();
        record.begin = Timestamp::now();
        record.direction = Some(Direction::Send);
        self.sender = Some(Sender {
            sized: SizedBuffer::new(socket, Direction::Send, share),
            begin: Instant::now(),
            adapted: None,
            last: (Duration::ZERO, 0),
        });
    }

    fn progressed(&mut self, moved: u64) {
        if let Some(sender) = &mut self.sender
            && !sender.goes_on(moved, &self.record).unwrap_or(false)
        {
            self.sender = None;
        }
    }

    fn ended(&mut self, _: u64) {
        if let Some(sender) = self.sender.take() {
            self.record.lock().pass_time(sender.begin.elapsed());
        }
    }
}

impl Sender {
    /// After `moved` bytes: asks the kernel, if that is due, and grows the buffer. False if something else sizes it.
    fn goes_on(&mut self, moved: u64, record: &SharedRecord) -> io::Result<bool> {
        let (now, (at, before)) = (self.begin.elapsed(), self.last);
        let (time, bytes) = (now - at, moved - before);
        if time < PERIOD && bytes < PIECE {
            return Ok(true);
        }
        let socket = self.sized.socket();
        let info = TcpInfo::of(socket)?;
        // What changes now shows after a round trip.
        if time < Duration::from_micros(info.tcpi_rtt.into()) {
            return Ok(true);
        }
        if buffers::is_set(socket, Direction::Send)? != self.sized.is_set() {
            return Ok(false);
        }
        self.last = (now, moved);
        let adapted = self
            .adapted
            .get_or_insert_with(|| Direction::Send.buffer_limits().adapted);
        let seen = Seen {
            rate: bytes as f64 / time.as_secs_f64(),
            in_flight: u64::from(info.tcpi_unacked) * u64::from(info.tcpi_snd_mss),
            unsent: info.tcpi_notsent_bytes.into(),
            size: self.sized.size()?,
            adapted: *adapted,
        };
        if let Some((wanted, cause)) = seen.wants() {
            self.sized.request(now, wanted, cause, record)?;
        }
        Ok(true)
    }
}

/// What the sender sees. Sizes are in bytes as passed to setsockopt.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Bytes a second since it last looked.
    rate: f64,
    /// Bytes that are sent and not acknowledged.
    in_flight: u64,
    /// Bytes that are not sent.
    unsent: u64,
    /// The buffer's size.
    size: u64,
    /// The size at which autotuning ends.
    adapted: u64,
}

impl Seen {
    /// A larger buffer, and why.
    fn wants(&self) -> Option<(u64, Cause)> {
        // With a larger window than that of congestion control or of the receiver, bytes would wait in the buffer; with a program
        // that does not fill it, there would be few in flight.
        let all_in_flight = self.unsent <= self.in_flight / 8 && self.in_flight >= self.size / 2;
        if all_in_flight && self.size >= self.adapted {
            let wanted = (2 * self.size).min(Settings::default().ceiling);
            let cause = Cause::AllInFlight(self.in_flight);
            return (wanted > self.size).then_some((wanted, cause));
        }
        // The kernel takes twice what it is asked for, and fills all of it.
        let lasts = (self.rate * LASTS.as_secs_f64() / 2.0) as u64;
        let wanted = lasts.min(MOST_TO_LAST);
        (wanted > self.size + self.size / 8).then_some((wanted, Cause::Rate(self.rate * 8.0)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, TcpListener, TcpStream};
    use std::thread;

    use fairwind_origin::Origin;

    use super::*;
    use crate::drs::{Budget, Caps};
    use crate::{Bounds, Meter, Mover};

    /// 40 MB/s with the largest buffer of autotuning, all of it in flight.
    const SEEN: Seen = Seen {
        rate: 40e6,
        in_flight: 3_900_000,
        unsent: 0,
        size: 2 << 20,
        adapted: 2 << 20,
    };

    fn wants(seen: Seen) -> Option<u64> {
        seen.wants().map(|(bytes, _)| bytes)
    }

    #[test]
    fn a_buffer_of_which_all_is_in_flight_is_doubled_where_autotuning_ends() {
        assert_eq!(wants(SEEN), Some(4 << 20));
        let sized = |size| {
            wants(Seen {
                size,
                in_flight: size,
                ..SEEN
            })
        };
        assert_eq!(sized(1 << 20), None);
        assert_eq!(sized(24 << 20), Some(32 << 20));
        assert_eq!(sized(32 << 20), None);
    }

    #[test]
    fn neither_a_window_nor_the_program_is_taken_for_the_buffer() {
        let window = Seen {
            in_flight: 2_600_000,
            unsent: 1_300_000,
            ..SEEN
        };
        assert_eq!(wants(window), None);
        let program = Seen {
            in_flight: 900_000,
            ..SEEN
        };
        assert_eq!(wants(program), None);
    }

    #[test]
    fn on_a_fast_path_the_buffer_lasts_for_five_milliseconds() {
        let at = |rate, size| {
            wants(Seen {
                rate,
                in_flight: 0,
                size,
                ..SEEN
            })
        };
        assert_eq!(at(2e9, 2 << 20), Some(5_000_000));
        assert_eq!(at(2e9, 1 << 20), Some(5_000_000));
        assert_eq!(at(9e9, 2 << 20), Some(8 << 20));
        assert_eq!(at(0.6e9, 2 << 20), None);
        assert_eq!(at(9e9, 8 << 20), None);
    }

    /// How often the buffer changes in a transfer of 256 MiB to a peer that reads as fast as it can.
    fn changes(share: Share, prepare: impl Fn(&TcpStream)) -> usize {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        prepare(&near);
        let reader = thread::spawn(move || io::copy(&mut far, &mut io::sink()).unwrap());
        let file = tempfile::tempfile().unwrap();
        file.set_len(256 << 20).unwrap();
        let record = SharedRecord::default();
        let mut watcher = SizedAlone::new(share, record.clone());
        let meter = Meter::default();
        let mover = Mover::new(
            &near,
            &meter,
            &mut watcher,
            Bounds::patience(Duration::from_secs(30)),
        )
        .unwrap();
        assert_eq!(mover.send_file(&file, 0, u64::MAX).unwrap(), 256 << 20);
        assert_eq!(reader.join().unwrap(), 256 << 20);
        let record = record.lock();
        record.resizes.len()
    }

    #[test]
    fn a_buffer_that_something_else_has_set_stays() {
        let set = |near: &TcpStream| {
            buffers::set(near, Direction::Send, 300_000).unwrap();
        };
        assert_eq!(changes(Share::unlimited(), set), 0);
    }

    #[test]
    fn without_a_budget_left_the_kernel_sizes_the_buffer() {
        let caps = Caps { all: 1, own: 1 };
        let share = Budget::default().share(caps, Origin::from(IpAddr::from([127, 0, 0, 1])));
        assert_eq!(changes(share, |_| ()), 0);
    }
}
