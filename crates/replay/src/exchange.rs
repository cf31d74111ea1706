//! A recorded exchange, what the sender of a connection received and the state of the kernel's TCP
//! just before; and its file.
//!
//! A file (see `file.rs`) begins with `fairwind exchange 2`; its table has a row per ACK (see `to_row` for
//! the columns).

use std::path::Path;

use fairwind_sim::packet::MAX_SACK_BLOCKS;
use zerocopy::FromBytes;

use crate::file::{self, RecordingError};

const FIRST_LINE: &str = "fairwind exchange 2";

/// The timer wheel rounds by the jiffy's number. Within 16 s at 250 jiffies per second, numbers
/// that are equal modulo this value round alike.
pub const JIFFIES_MODULUS: u64 = 512;

/// Everything that a sender received. Sequence numbers are byte offsets from the first byte of
/// payload; times are microseconds since the start of a jiffy shortly before the SYN was sent. The
/// number of that jiffy is `hz` modulo [`JIFFIES_MODULUS`], like that of the simulator's first jiffy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The kernel's congestion control: `reno` or `cubic`.
    pub control: String,
    /// The path of the connection, by its name in [`crate::path`].
    pub path: String,
    /// The kernel's release, as `uname -r`.
    pub kernel: String,
    /// The kernel's jiffies per second.
    pub hz: u32,
    /// When the SYN was sent.
    pub opened_us: u64,
    /// When the SYN-ACK had arrived.
    pub established_us: u64,
    /// When the application first wrote; afterwards it never ran out of data.
    pub written_us: u64,
    /// The window in the SYN-ACK, bytes.
    pub window: u32,
    /// Every ACK, in order.
    pub acks: Vec<Ack>,
}

/// An ACK that the sender received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// When TCP received it.
    pub time_us: u64,
    /// The next byte expected.
    pub ack: u32,
    /// The receiver's window, bytes.
    pub window: u32,
    /// The peer's time stamp, milliseconds.
    pub ts_val: u32,
    /// The echoed time stamp, milliseconds on the clock of the times here.
    pub ts_ecr: u32,
    /// First and one past the last byte of each SACK block; both 0 if there is none.
    pub blocks: [(u32, u32); MAX_SACK_BLOCKS],
    /// The sender's state before this ACK.
    pub before: SenderState,
}

/// The state of a sender, in the layout of `standing` in `struct event` of `bpf/tap.bpf.c`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes)]
pub struct SenderState {
    /// `snd_cwnd`, packets.
    pub cwnd: u32,
    /// `snd_ssthresh`, packets.
    pub ssthresh: u32,
    /// `icsk_ca_state`.
    pub ca_state: u32,
    /// Packets sent and not acknowledged cumulatively.
    pub packets_out: u32,
    /// Packets acknowledged selectively.
    pub sacked_out: u32,
    /// Packets considered lost.
    pub lost_out: u32,
    /// Packets retransmitted and not yet acknowledged.
    pub retrans_out: u32,
    /// The next byte to send.
    pub snd_nxt: u32,
}

impl Exchange {
    /// Writes a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created or written.
    pub fn write(&self, file: &Path) -> Result<(), RecordingError> {
        file::write(file, &self.encoded())
    }

    fn encoded(&self) -> Vec<u8> {
        let rows: Vec<Row> = self.acks.iter().map(to_row).collect();
        file::encoded(
            FIRST_LINE,
            &[
                ("control", &self.control),
                ("path", &self.path),
                ("kernel", &self.kernel),
                ("hz", &self.hz),
                ("opened_us", &self.opened_us),
                ("established_us", &self.established_us),
                ("written_us", &self.written_us),
                ("window", &self.window),
            ],
            &rows,
        )
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is not an exchange.
    pub fn read(file: &Path) -> Result<Exchange, RecordingError> {
        Exchange::parse(&file::read(file)?)
    }

    fn parse(mut rest: &[u8]) -> Result<Exchange, RecordingError> {
        file::take_first(&mut rest, FIRST_LINE)?;
        Ok(Exchange {
            control: file::take(&mut rest, "control")?,
            path: file::take(&mut rest, "path")?,
            kernel: file::take(&mut rest, "kernel")?,
            hz: file::take(&mut rest, "hz")?,
            opened_us: file::take(&mut rest, "opened_us")?,
            established_us: file::take(&mut rest, "established_us")?,
            written_us: file::take(&mut rest, "written_us")?,
            window: file::take(&mut rest, "window")?,
            acks: acks(&mut rest)?,
        })
    }
}

fn acks(rest: &mut &[u8]) -> Result<Vec<Ack>, RecordingError> {
    let acks: Option<_> = file::take_table(rest)?.iter().map(from_row).collect();
    let wrong = RecordingError::Malformed("an ACK has a number out of range");
    acks.ok_or(wrong)
}

type Row = [i64; 19];

/// Sequence numbers other than the ACK's own are stored relative to it.
fn to_row(ack: &Ack) -> Row {
    let from_ack = |seq: u32| i64::from(seq) - i64::from(ack.ack);
    let [a, b, c] = ack.blocks.map(|(start, end)| match (start, end) {
        (0, 0) => (0, 0),
        _ => (from_ack(start), i64::from(end) - i64::from(start)),
    });
    let before = &ack.before;
    [
        ack.time_us as i64,
        ack.ack.into(),
        ack.window.into(),
        ack.ts_val.into(),
        ack.ts_ecr.into(),
        a.0,
        a.1,
        b.0,
        b.1,
        c.0,
        c.1,
        before.cwnd.into(),
        before.ssthresh.into(),
        before.ca_state.into(),
        before.packets_out.into(),
        before.sacked_out.into(),
        before.lost_out.into(),
        before.retrans_out.into(),
        from_ack(before.snd_nxt),
    ]
}

fn from_row(row: &Row) -> Option<Ack> {
    let number = |column: usize| u32::try_from(row[column]).ok();
    let from_ack = |offset: i64| u32::try_from(row[1].checked_add(offset)?).ok();
    let block = |column: usize| match (row[column], row[column + 1]) {
        (0, 0) => Some((0, 0)),
        (offset, len) => Some((from_ack(offset)?, from_ack(offset.checked_add(len)?)?)),
    };
    Some(Ack {
        time_us: u64::try_from(row[0]).ok()?,
        ack: number(1)?,
        window: number(2)?,
        ts_val: number(3)?,
        ts_ecr: number(4)?,
        blocks: [block(5)?, block(7)?, block(9)?],
        before: SenderState {
            cwnd: number(11)?,
            ssthresh: number(12)?,
            ca_state: number(13)?,
            packets_out: number(14)?,
            sacked_out: number(15)?,
            lost_out: number(16)?,
            retrans_out: number(17)?,
            snd_nxt: from_ack(row[18])?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn exchange() -> Exchange {
        let ack = Ack {
            time_us: 70_000,
            ack: 1448,
            window: 65_536,
            ts_val: 4_000_000_000,
            ts_ecr: 10,
            blocks: [(0, 1448), (4344, 5792), (0, 0)],
            before: SenderState {
                cwnd: 10,
                ssthresh: 0x7fff_ffff,
                ca_state: 1,
                packets_out: 10,
                sacked_out: 1,
                lost_out: 0,
                retrans_out: 0,
                snd_nxt: 14_480,
            },
        };
        Exchange {
            control: "reno".into(),
            path: "random loss".into(),
            kernel: "6.18.44".into(),
            hz: 250,
            opened_us: 300,
            established_us: 50_300,
            written_us: 50_400,
            window: 65_160,
            acks: vec![ack, Ack { ack: 0, ..ack }],
        }
    }

    #[test]
    fn a_file_gives_back_what_was_written() {
        let exchange = exchange();
        let file = std::env::temp_dir().join(format!("fairwind-exchange-{}", std::process::id()));
        exchange.write(&file).unwrap();
        let read = Exchange::read(&file);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read.unwrap(), exchange);
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::prelude::*;

    use super::tests::exchange;
    use super::*;

    proptest! {
        #![proptest_config(cases(512))]

        #[test]
        fn an_exchange_that_is_read_is_written_alike(bytes in damaged(&[exchange().encoded()])) {
            if let Ok(exchange) = Exchange::parse(&bytes) {
                let again = Exchange::parse(&exchange.encoded()).unwrap();
                prop_assert_eq!(again, exchange);
            }
        }
    }
}
