//! Events from the kernel, in the layout of `bpf/event.h`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use zerocopy::{FromBytes, Immutable, KnownLayout};

/// An event that the kernel's programs report about a connection.
///
/// Samples are borrowed from the ring buffer, as copying them would be a large part of a trace's cost.
#[derive(Clone, Copy, Debug)]
pub enum Event<'ring> {
    /// A matching connection: new, or open when the trace began.
    Open(&'ring Identity),
    /// The connection's port is now known.
    Identity(&'ring Identity),
    /// The connection has switched to the congestion control with this name.
    Control(&'ring Control),
    /// The instruments at one moment, and the state of the congestion control if it is traced.
    Sample(&'ring Sample, Option<&'ring State>),
    /// The same at the end of the connection; its last event.
    Close(&'ring Sample, Option<&'ring State>),
}

/// Bytes of private state that the kernel gives a congestion control per connection
/// (`icsk_ca_priv`).
pub const STATE_BYTES: usize = 104;

/// The private state of a congestion control, in its own layout.
pub type State = [u8; STATE_BYTES];

/// The start of every event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Head {
    kind: u32,
    /// Events of this connection so far that found no room in the ring buffer.
    pub lost: u32,
    /// The socket's cookie (`SO_COOKIE`), unique until the next boot.
    pub id: u64,
    /// Time of the event, nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
}

/// What identifies a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Identity {
    /// Connection and time.
    pub head: Head,
    /// Inode of the socket's control group (version 2).
    pub cgroup: u64,
    /// Inode of the socket's network namespace.
    pub netns: u32,
    /// The process that opened the connection or listens for it; for a connection from before the
    /// trace, one that has its socket open. 0 if unknown.
    pub pid: u32,
    local_port: u16,
    remote_port: u16,
    family: u8,
    adopted: u8,
    incoming: u8,
    unused: u8,
    local: [u8; 16],
    remote: [u8; 16],
    program: [u8; 16],
}

impl Identity {
    /// Local address and port.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(address(self.local), self.local_port)
    }

    /// The peer's address and port.
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(address(self.remote), self.remote_port)
    }

    /// Whether the connection was open before the trace; its counts of congestion signals then
    /// start with the trace.
    pub fn is_adopted(&self) -> bool {
        self.adopted != 0
    }

    /// Whether the peer opened it; unknown for adopted connections.
    pub fn is_incoming(&self) -> bool {
        self.incoming != 0
    }

    /// The name of the process, at most 15 bytes; empty if unknown.
    pub fn program(&self) -> String {
        text(&self.program)
    }
}

/// The name of a connection's congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Control {
    /// Connection and time.
    pub head: Head,
    name: [u8; 16],
}

impl Control {
    /// The name, as `TCP_CONGESTION` reports it.
    pub fn name(&self) -> String {
        text(&self.name)
    }
}

// `Sample`: the kernel's values at one moment, which event.h defines.
include!(concat!(env!("OUT_DIR"), "/sample.rs"));

const OPEN: u32 = 1;
const IDENTITY: u32 = 2;
const CONTROL: u32 = 3;
const SAMPLE: u32 = 4;
const CLOSE: u32 = 5;

const _: () = assert!(size_of::<Head>() == 24, "as in event.h");
const _: () = assert!(size_of::<Identity>() == 96, "as in event.h");
const _: () = assert!(size_of::<Control>() == 40, "as in event.h");
const _: () = assert!(size_of::<Sample>() == 256, "as in event.h");

impl<'ring> Event<'ring> {
    /// The event in a record of the ring buffer; `None` if the record is not one.
    pub fn parse(bytes: &'ring [u8]) -> Option<Event<'ring>> {
        let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
        match kind {
            OPEN => view(bytes).map(Event::Open),
            IDENTITY => view(bytes).map(Event::Identity),
            CONTROL => view(bytes).map(Event::Control),
            SAMPLE => view(bytes).map(|sample| Event::Sample(sample, state(bytes))),
            CLOSE => view(bytes).map(|sample| Event::Close(sample, state(bytes))),
            _ => None,
        }
    }

    /// Connection and time.
    pub fn head(&self) -> &'ring Head {
        match self {
            Event::Open(identity) | Event::Identity(identity) => &identity.head,
            Event::Control(control) => &control.head,
            Event::Sample(sample, _) | Event::Close(sample, _) => &sample.head,
        }
    }
}

/// The state that follows a sample.
fn state(bytes: &[u8]) -> Option<&State> {
    bytes.get(size_of::<Sample>()..)?.first_chunk()
}

fn view<T: FromBytes + Immutable + KnownLayout>(bytes: &[u8]) -> Option<&T> {
    let (event, _) = T::ref_from_prefix(bytes).ok()?;
    Some(event)
}

fn address(octets: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(octets).to_canonical()
}

fn text(bytes: &[u8]) -> String {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_kind_or_length_is_no_event() {
        assert!(Event::parse(&[]).is_none());
        assert!(Event::parse(&9u64.to_ne_bytes()).is_none());
        let mut words = [0u64; 45];
        words[0] = u64::from(SAMPLE);
        // SAFETY: the bytes of `words`, which is 45 * 8 = 360 bytes long.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), 360) };
        assert!(Event::parse(&bytes[..255]).is_none());
        assert!(matches!(
            Event::parse(&bytes[..256]),
            Some(Event::Sample(_, None))
        ));
        assert!(matches!(
            Event::parse(bytes),
            Some(Event::Sample(_, Some(_)))
        ));
        // Records are aligned to eight bytes.
        assert!(Event::parse(&bytes[1..]).is_none());
    }

    #[test]
    fn ipv4_is_told_from_ipv6() {
        let mut identity = Identity {
            local_port: 80,
            ..Identity::default()
        };
        identity.local = Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x0a00, 0x0001).octets();
        assert_eq!(identity.local().to_string(), "10.0.0.1:80");
        identity.local = Ipv6Addr::LOCALHOST.octets();
        assert_eq!(identity.local().to_string(), "[::1]:80");
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::cases;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(cases(512))]

        #[test]
        fn a_record_is_an_event_if_it_is_long_enough_for_its_kind(
            kind in 0..8_u32,
            rest in vec(any::<u64>(), 0..50),
            missing in 0..8_usize,
        ) {
            let words: Vec<u64> = [u64::from(kind)].into_iter().chain(rest).collect();
            let length = 8 * words.len() - missing;
            // SAFETY: bytes of `words`, which has eight for each word.
            let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), length) };
            let needed = match kind {
                OPEN | IDENTITY => size_of::<Identity>(),
                CONTROL => size_of::<Control>(),
                SAMPLE | CLOSE => size_of::<Sample>(),
                _ => usize::MAX,
            };
            let event = Event::parse(bytes);
            prop_assert_eq!(event.is_some(), length >= needed);
            let Some(event) = event else {
                return Ok(());
            };
            prop_assert_eq!((event.head().id, event.head().time_ns), (words[1], words[2]));
            match event {
                Event::Open(identity) | Event::Identity(identity) => {
                    // A name of 16 bytes, none of which need be UTF-8.
                    prop_assert!(identity.program().len() <= 16 * 3);
                    prop_assert_eq!(identity.local().ip().to_canonical(), identity.local().ip());
                }
                Event::Control(control) => prop_assert!(control.name().len() <= 16 * 3),
                Event::Sample(_, state) | Event::Close(_, state) => {
                    prop_assert_eq!(state.is_some(), length >= needed + STATE_BYTES);
                }
            }
        }
    }
}
