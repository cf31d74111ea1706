//! Records exchanges: taps the kernel's sender of the connection over a path.
//!
//! The requirements are those for loading a congestion control (`fairwind_cc::kernel`).

use std::time::Duration;

use fairwind_cc::kernel::{self, LoadError};
use fairwind_lab::LabError;
use fairwind_sim::packet::MAX_SACK_BLOCKS;
use libbpf_rs::{Link, ObjectBuilder};
use zerocopy::FromBytes;

use crate::exchange::{Ack, Exchange, JIFFIES_MODULUS, SenderState};
use crate::path::RecordedPath;
use crate::programs;

/// Why there is no exchange.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The kernel cannot load eBPF programs.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel refused the tap.
    #[error("the kernel refuses the tap: {0}")]
    Refused(#[from] libbpf_rs::Error),
    /// The connection failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The ring buffer was full.
    #[error("{0} events were not recorded: the machine was too slow to fetch them")]
    EventsLost(u64),
    /// The recording does not contain a complete exchange.
    #[error("no connection was recorded from its SYN to an acknowledgement")]
    NoConnection,
}

/// Records what the sender over this path receives, with the kernel's congestion control of this name.
///
/// # Errors
///
/// Fails if the tap cannot be loaded, the connection fails, events were lost, or no connection was
/// recorded completely.
pub fn record(path: &RecordedPath, control: &str, time: Duration) -> Result<Exchange, TapError> {
    kernel::check_requirements()?;
    let object = ObjectBuilder::default()
        .open_memory(fairwind_bpf::object!("tap.bpf.o"))?
        .load()?;
    let _links: Vec<Link> = object
        .progs_mut()
        .map(|program| program.attach())
        .collect::<Result<_, _>>()?;
    let mut events: Vec<Event> = Vec::new();
    let take = |event: Event| events.push(event);
    programs::fetch(&object, "events", take, || path.run(control, time))??;
    let lost = programs::lost(&object, ".bss.tap")?;
    if lost > 0 {
        return Err(TapError::EventsLost(lost));
    }
    let hz = fairwind_kernel::hz();
    let exchange = assemble(&events, hz).ok_or(TapError::NoConnection)?;
    Ok(Exchange {
        control: control.to_owned(),
        path: path.name.to_owned(),
        kernel: fairwind_kernel::release(),
        hz,
        ..exchange
    })
}

const SENT: u32 = 0;
const ESTABLISHED: u32 = 1;
const RECEIVED: u32 = 2;
/// Flag of a TCP header.
const SYN: u8 = 2;

/// `struct event` of `bpf/tap.bpf.c`.
#[derive(FromBytes)]
#[repr(C)]
struct Event {
    ns: u64,
    jiffies: u64,
    kind: u32,
    payload: u32,
    snd_wnd: u32,
    standing: SenderState,
    header: [u8; 60],
}

impl Event {
    fn is_syn(&self) -> bool {
        self.kind == SENT && self.header[13] & SYN != 0
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = self.header[at..at + 4].try_into();
        u32::from_be_bytes(bytes.expect("four bytes"))
    }

    fn seq(&self) -> u32 {
        self.word(4)
    }

    fn ack(&self) -> u32 {
        self.word(8)
    }

    fn window(&self) -> u32 {
        u16::from_be_bytes([self.header[14], self.header[15]]).into()
    }

    /// The TCP option of this kind: its bytes after kind and length.
    fn option(&self, kind: u8) -> Option<&[u8]> {
        let end = usize::from(self.header[12] >> 4) * 4;
        let mut rest = self.header.get(20..end)?;
        loop {
            match *rest {
                [1, ..] => rest = &rest[1..],
                [found, len, ..] if found != 0 => {
                    let len = usize::from(len);
                    let value = rest.get(2..len)?;
                    if found == kind {
                        return Some(value);
                    }
                    rest = &rest[len..];
                }
                _ => return None,
            }
        }
    }

    /// `TSval` and `TSecr`, milliseconds.
    fn time_stamps(&self) -> Option<(u32, u32)> {
        let (val, ecr) = self.option(8)?.split_first_chunk::<4>()?;
        Some((
            u32::from_be_bytes(*val),
            u32::from_be_bytes(*ecr.first_chunk()?),
        ))
    }

    fn blocks(&self, isn: u32) -> [(u32, u32); MAX_SACK_BLOCKS] {
        let mut blocks = [(0, 0); MAX_SACK_BLOCKS];
        let option = self.option(5).unwrap_or_default();
        let edges = option.as_chunks().0.iter();
        let edges: Vec<u32> = edges
            .map(|&edge| u32::from_be_bytes(edge).wrapping_sub(isn))
            .collect();
        for (block, &[left, right]) in blocks.iter_mut().zip(edges.as_chunks().0) {
            *block = (left, right);
        }
        blocks
    }
}

/// The exchange of these events, without the names.
fn assemble(events: &[Event], hz: u32) -> Option<Exchange> {
    let syn = events.iter().find(|event| event.is_syn())?;
    let isn = syn.seq().wrapping_add(1);
    let base_ms = base_ms(syn, hz);
    let time_us = |event: &Event| event.ns / 1000 - base_ms * 1000;
    let established = events.iter().find(|event| event.kind == ESTABLISHED)?;
    let written = events
        .iter()
        .find(|event| event.kind == SENT && event.payload > 0)?;
    let stamp_offset = stamp_offset(events)?.wrapping_add(base_ms as u32);
    let received: Vec<&Event> = events
        .iter()
        .filter(|event| event.kind == RECEIVED)
        .collect();
    let shift = window_shift(&received)?;
    let ack = |event: &&Event| {
        let (ts_val, ts_ecr) = event.time_stamps()?;
        Some(Ack {
            time_us: time_us(event),
            ack: event.ack().wrapping_sub(isn),
            window: event.window() << shift,
            ts_val,
            ts_ecr: ts_ecr.wrapping_sub(stamp_offset),
            blocks: event.blocks(isn),
            before: SenderState {
                snd_nxt: event.standing.snd_nxt.wrapping_sub(isn),
                ..event.standing
            },
        })
    };
    Some(Exchange {
        control: String::new(),
        path: String::new(),
        kernel: String::new(),
        hz: 0,
        opened_us: time_us(syn),
        established_us: time_us(established),
        written_us: time_us(written),
        window: established.snd_wnd,
        acks: received.iter().map(ack).collect::<Option<_>>()?,
    })
}

/// The time that all times count from, milliseconds of the monotonic clock. Ticks fall on multiples
/// of a jiffy of that clock.
fn base_ms(syn: &Event, hz: u32) -> u64 {
    let jiffy_ms = u64::from(1000 / hz);
    let since = syn.jiffies.wrapping_sub(hz.into()) % JIFFIES_MODULUS;
    (syn.ns / 1_000_000 / jiffy_ms - since) * jiffy_ms
}

/// How far the sender's time stamps are ahead of the clock, milliseconds: a random number per
/// connection. A packet may be stamped before it is sent, never after, so the largest offset is the
/// right one.
fn stamp_offset(events: &[Event]) -> Option<u32> {
    let sent = events.iter().filter(|event| event.kind == SENT);
    let offset = |event: &Event| {
        let (stamp, _) = event.time_stamps()?;
        Some(stamp.wrapping_sub((event.ns / 1_000_000) as u32))
    };
    sent.filter_map(offset)
        .reduce(|most, offset| match offset.wrapping_sub(most) as i32 {
            1.. => offset,
            _ => most,
        })
}

/// The receiver's window scale, bits: from the window of an ACK and the one that TCP then holds.
fn window_shift(received: &[&Event]) -> Option<u32> {
    let scaled = |pair: &[&Event]| {
        let (window, held) = (pair[0].window(), pair[1].snd_wnd);
        (window > 0 && held % window == 0).then(|| (held / window).trailing_zeros())
    };
    received.windows(2).find_map(scaled)
}
