//! Captures a pipe's packets in a file, on a separate thread. The emulator never waits for it:
//! packets that it cannot take in time are missing from the file, and counted.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use fairwind_path::pipe::LossCause;
use fairwind_path::units::{Duration, Time};

use super::pcapng;
use crate::error::{During, LabError, joined};
use crate::host::tap::words::word;
use crate::network::PipeId;

/// A pipe whose packets are written to a pcapng file: those that arrive at its far end, with the
/// time of arrival. Comments of a packet list the packets lost before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The pipe.
    pub pipe: PipeId,
    /// The file; created, or truncated.
    pub file: PathBuf,
    /// Bytes kept of each packet, from its IP header on.
    pub snap_length: u32,
}

impl Capture {
    /// Enough for the headers of IP and TCP with all their options.
    pub const HEADERS: u32 = 128;
}

/// Outcome of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureCounts {
    /// The file.
    pub file: PathBuf,
    /// Packets in it.
    pub packets: u64,
    /// Packets missing from it, because they could not be written fast enough or at all.
    pub missed: u64,
    /// Why writing stopped before the end, if it did.
    pub failure: Option<String>,
}

impl CaptureCounts {
    /// A warning if the file is incomplete.
    pub fn warning(&self) -> Option<String> {
        let file = self.file.display();
        let missed = self.missed;
        match &self.failure {
            Some(failure) => Some(format!(
                "the capture {file} is incomplete, {missed} packets are missing: {failure}"
            )),
            None if missed > 0 => Some(format!(
                "{missed} packets are missing in the capture {file}: it could not be written fast enough"
            )),
            None => None,
        }
    }
}

/// A buffer is written when it reaches this size or age.
const FLUSH_BYTES: usize = 256 << 10;
const FLUSH_AGE: Duration = Duration::from_millis(200);
/// Buffers of a capture that may wait to be written: half a second at 1 Gbit/s.
const BUFFERS: usize = 256;
/// Lost packets described in the comments of the next packet that is not lost.
const DESCRIBED: usize = 100;

/// The emulator's side of a capture.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Nanoseconds since 1970 at the run's time 0. Later adjustments of the machine's clock do not show.
    start_unix_ns: u64,
    snap_length: usize,
    buffer: Vec<u8>,
    /// Packets in the buffer, and the time of the first.
    in_buffer: u64,
    since: Time,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    /// Packets lost since the last one recorded, and descriptions of the first of them.
    dropped: u64,
    described: Vec<String>,
    packets: u64,
    missed: u64,
    lost: u64,
}

/// The thread's side of a capture.
#[derive(Debug)]
pub(super) struct Writer {
    file: PathBuf,
    thread: JoinHandle<Option<String>>,
}

/// Creates the file of a capture. `name` is the pipe's name, `start_unix_ns` the run's time 0 in
/// nanoseconds since 1970.
pub(super) fn start(
    capture: &Capture,
    name: &str,
    start_unix_ns: u64,
) -> Result<(Recorder, Writer), LabError> {
    let path = capture.file.display();
    let file = File::create(&capture.file).during(format!("making the capture file {path}"))?;
    let mut buffer = Vec::with_capacity(FLUSH_BYTES + FLUSH_BYTES / 4);
    let application = concat!("fairwind ", env!("CARGO_PKG_VERSION"));
    pcapng::header(&mut buffer, application, name, capture.snap_length);
    let (full, to_write) = mpsc::sync_channel(BUFFERS);
    let (written, empty) = mpsc::channel();
    let thread = thread::Builder::new()
        .name("fw-capture".into())
        .spawn(move || write(file, &to_write, &written))
        .during("starting the writer of a capture")?;
    let recorder = Recorder {
        start_unix_ns,
        snap_length: capture.snap_length as usize,
        buffer,
        in_buffer: 0,
        since: Time::ZERO,
        full,
        empty,
        dropped: 0,
        described: Vec::new(),
        packets: 0,
        missed: 0,
        lost: 0,
    };
    let writer = Writer {
        file: capture.file.clone(),
        thread,
    };
    Ok((recorder, writer))
}

fn write(
    mut file: File,
    to_write: &Receiver<Vec<u8>>,
    written: &mpsc::Sender<Vec<u8>>,
) -> Option<String> {
    for mut buffer in to_write {
        if let Err(error) = file.write_all(&buffer) {
            return Some(error.to_string());
        }
        buffer.clear();
        // Fails once the recorder has finished, which needs no buffers back.
        let _ = written.send(buffer);
    }
    None
}

impl Recorder {
    /// Records a packet that arrived at the far end.
    pub(super) fn reached(&mut self, time: Time, packet: &[u8]) {
        if self.in_buffer == 0 {
            self.since = time;
        }
        let kept = packet.len().min(self.snap_length);
        let entry = pcapng::Packet {
            time_ns: self.unix_ns(time),
            bytes: &packet[..kept],
            len: packet.len() as u32,
            dropped: self.dropped,
            comments: &self.described,
        };
        pcapng::packet(&mut self.buffer, &entry);
        self.in_buffer += 1;
        self.dropped = 0;
        self.described.clear();
        if self.buffer.len() >= FLUSH_BYTES || time - self.since > FLUSH_AGE {
            self.hand_over();
        }
    }

    /// Records a loss.
    pub(super) fn lost(&mut self, time: Time, packet: &[u8], cause: LossCause) {
        self.lost += 1;
        self.dropped += 1;
        if self.described.len() < DESCRIBED {
            let description = describe(self.unix_ns(time), packet, cause);
            self.described.push(description);
        }
    }

    /// Writes what is left and the final statistics block. Returns the packets in the file and
    /// those missed.
    pub(super) fn finish(mut self, time: Time) -> (u64, u64) {
        let received = self.packets + self.in_buffer + self.missed + self.lost;
        let counts = (received, self.lost);
        let now = self.unix_ns(time);
        pcapng::statistics(&mut self.buffer, now, counts, &self.described);
        // This part of the network has stopped, so blocking delays no packet.
        match self.full.send(self.buffer) {
            Ok(()) => (self.packets + self.in_buffer, self.missed),
            Err(_) => (self.packets, self.missed + self.in_buffer),
        }
    }

    fn unix_ns(&self, time: Time) -> u64 {
        self.start_unix_ns + time.as_nanos()
    }

    fn hand_over(&mut self) {
        let next = self.empty.try_recv();
        let next = next.unwrap_or_else(|_| Vec::with_capacity(FLUSH_BYTES + FLUSH_BYTES / 4));
        let buffer = std::mem::replace(&mut self.buffer, next);
        match self.full.try_send(buffer) {
            Ok(()) => self.packets += self.in_buffer,
            Err(_) => self.missed += self.in_buffer,
        }
        self.in_buffer = 0;
    }
}

impl Writer {
    /// Waits until everything that the finished recorder counted is written.
    pub(super) fn finish(self, (packets, missed): (u64, u64)) -> CaptureCounts {
        CaptureCounts {
            file: self.file,
            packets,
            missed,
            failure: joined(self.thread.join()),
        }
    }
}

/// `lost at 1700000000.123456789: queue full: 10.0.0.1:4711 > 10.0.0.2:80, seq 17, 1500 bytes`
fn describe(unix_ns: u64, packet: &[u8], cause: LossCause) -> String {
    let cause = match cause {
        LossCause::QueueFull => "queue full",
        LossCause::Red => "RED",
        LossCause::CoDel => "CoDel",
        LossCause::Pie => "PIE",
        LossCause::DualPi2 => "DualPI2",
        LossCause::Random => "random",
        LossCause::Policer => "policer",
    };
    let (seconds, nanos) = (unix_ns / 1_000_000_000, unix_ns % 1_000_000_000);
    let bytes = packet.len();
    let from = address(packet, 12, 0);
    let to = address(packet, 16, 2);
    let seq = sequence(packet).map_or(String::new(), |seq| format!("seq {seq}, "));
    format!("lost at {seconds}.{nanos:09}: {cause}: {from} > {to}, {seq}{bytes} bytes")
}

/// Offset of the TCP or UDP ports.
fn ports_at(packet: &[u8]) -> Option<usize> {
    let head = usize::from(packet.first()? & 15) * 4;
    (matches!(packet.get(9)?, 6 | 17) && packet.len() >= head + 8).then_some(head)
}

fn address(packet: &[u8], at: usize, port_at: usize) -> String {
    let Some(&[a, b, c, d]) = packet.get(at..at + 4) else {
        return "?".to_owned();
    };
    match ports_at(packet).map(|head| word(packet, head + port_at)) {
        Some(port) => format!("{a}.{b}.{c}.{d}:{port}"),
        None => format!("{a}.{b}.{c}.{d}"),
    }
}

fn sequence(packet: &[u8]) -> Option<u32> {
    let head = ports_at(packet).filter(|_| packet[9] == 6)?;
    let bytes = packet.get(head + 4..head + 8)?;
    Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_packet_is_described_by_what_tells_it_apart() {
        let mut packet = vec![0x45, 0, 0, 44, 0, 0, 0, 0, 64, 6, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x12, 0x67, 0, 80, 0, 0, 1, 0]);
        packet.resize(44, 0);
        let text = describe(1_700_000_000_000_000_005, &packet, LossCause::QueueFull);
        assert_eq!(
            text,
            "lost at 1700000000.000000005: queue full: 10.0.0.1:4711 > 10.0.0.2:80, seq 256, 44 bytes"
        );
        packet[9] = 1;
        assert!(
            describe(0, &packet, LossCause::Red).ends_with("RED: 10.0.0.1 > 10.0.0.2, 44 bytes")
        );
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::prelude::*;

    use super::*;

    /// From 10.0.0.1 to 10.0.0.2: TCP, UDP, and ICMP behind an IP header with options.
    const PACKETS: [&[u8]; 3] = [
        b"E\0\0\x2c\0\0@\0@\x06\0\0\x0a\0\0\x01\x0a\0\0\x02\x12g\0P\0\0\x01\0\0\0\0\0P\x10\x01\0\0\0\0\0abcd",
        b"E\0\0\x1e\0\x01\0\0@\x11\0\0\x0a\0\0\x01\x0a\0\0\x02\x10\0 \0\0\x0a\0\0\x01\x02",
        b"F\0\0\x20\0\x01\0\0@\x01\0\0\x0a\0\0\x01\x0a\0\0\x02\x94\x04\0\0\x08\0\xf7\xff\0\0\0\0",
    ];

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_description_is_a_line_whatever_was_lost(unix_ns: u64, packet in damaged(&PACKETS)) {
            let text = describe(unix_ns, &packet, LossCause::Random);
            prop_assert!(text.starts_with("lost at ") && text.len() < 120);
            let end = format!(" {} bytes", packet.len());
            prop_assert!(text.ends_with(&end));
            prop_assert!(text.chars().all(|c| c == ' ' || c.is_ascii_graphic()));
        }
    }
}
