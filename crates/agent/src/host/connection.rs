//! A connection of the host, as the kernel lists it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bytes of `struct row` in `bpf/host.bpf.c`.
pub(super) const ROW_BYTES: usize = 224;

/// A connection, what it has been given and why, and what it had before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// Address and port of this host.
    pub local: SocketAddr,
    /// Those of the peer.
    pub remote: SocketAddr,
    /// Inode of the network namespace.
    pub namespace: u32,
    /// Whether the peer has opened it.
    pub incoming: bool,
    /// Name of the process; empty if it is not known.
    pub program: String,
    /// Number of the process; 0 if it is not known.
    pub pid: u32,
    /// Number of the user.
    pub user: u32,
    /// Inode of the control group.
    #[serde(skip)]
    pub cgroup: u64,
    /// Since the agent has known it, seconds.
    pub seconds: f64,
    /// Bytes that the peer has acknowledged.
    pub bytes_sent: u64,
    /// Bytes that have come.
    pub bytes_received: u64,
    /// Smoothed round-trip time, ms.
    pub rtt_ms: f64,
    /// The congestion control that it has, by the kernel's name.
    pub congestion_control: String,
    /// The protocol on top of it in the kernel, such as `tls`.
    pub upper_protocol: Option<String>,
    /// Largest rate, Mbit/s; `None`: no limit.
    pub limit_mbps: Option<f64>,
    /// Whether what it receives is held down.
    pub held: bool,
    /// Whether it has what an advisor says.
    pub advised: bool,
    /// The rule that it meets by [`Rule`](crate::policy::Rule)'s hash, as the kernel knows it.
    #[serde(skip)]
    pub rule: Option<u64>,
    /// Whether that is of the policy that holds now.
    #[serde(skip)]
    pub is_current: bool,
    /// What has been changed, or why not.
    pub why: Why,
    /// What it had before.
    pub before: Before,
}

/// What of a connection has been changed, or why it has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// It has been given its congestion control.
    pub gave_control: bool,
    /// A limit of its rate.
    pub gave_limit: bool,
    /// The mark of its packets.
    pub gave_mark: bool,
    /// The size of its buffers.
    pub gave_buffers: bool,
    /// Its program has chosen its congestion control, and keeps it.
    pub kept_own: bool,
    /// The kernel refuses the congestion control.
    pub refused: bool,
    /// It is left alone, as another protocol is on top of it.
    pub left_alone: bool,
    /// Nothing has been changed, as the agent only tells.
    pub only_told: bool,
}

/// What a connection had before; `None` where nothing has been changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Before {
    /// The congestion control.
    pub congestion_control: Option<String>,
    /// Largest rate, Mbit/s; also `None` if there was no limit.
    pub limit_mbps: Option<f64>,
    /// The traffic class.
    pub traffic_class: Option<u8>,
}

/// Takes numbers from bytes, one after the other.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_at(N);
        self.0 = rest;
        taken.try_into().expect("as many were split off")
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u8(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    fn name(&mut self) -> String {
        let bytes: [u8; 16] = self.take();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(16);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// Unlimited, as the kernel says it: in a word of the machine, or in 32 bits.
fn limit(rate: u64) -> Option<f64> {
    (rate < u64::from(u32::MAX)).then_some(rate as f64 * 8e-6)
}

impl Connection {
    /// From `struct row` of `bpf/host.bpf.c`, `now` by the monotonic clock, under the policy of this number.
    pub(super) fn parse(bytes: &[u8], now: Duration, generation: u32) -> Option<Connection> {
        if bytes.len() != ROW_BYTES {
            return None;
        }
        let mut bytes = Bytes(bytes);
        let rule = bytes.u64();
        let rate_before = bytes.u64();
        let is_current = bytes.u32() == generation;
        let class_before = bytes.u32();
        let _given = bytes.name();
        let control_before = bytes.name();
        let why = Why::parse(bytes.u8());
        let held = bytes.u8() != 0;
        let _has_offered = bytes.u8();
        let _: [u8; 1] = bytes.take();
        let advised = bytes.u32() != 0;
        let program = bytes.name();
        let since = Duration::from_nanos(bytes.u64());
        let pid = bytes.u32();
        let incoming = bytes.u8() != 0;
        let _: [u8; 3] = bytes.take();
        let cgroup = bytes.u64();
        let (bytes_sent, bytes_received) = (bytes.u64(), bytes.u64());
        let _rate = bytes.u64();
        let limit_mbps = limit(bytes.u64());
        let (local, remote): ([u8; 16], [u8; 16]) = (bytes.take(), bytes.take());
        let (namespace, user) = (bytes.u32(), bytes.u32());
        let rtt_ms = f64::from(bytes.u32()) / 1e3;
        let _window = bytes.u32();
        let (local_port, remote_port) = (bytes.u16(), bytes.u16());
        let _state = bytes.u8();
        let _: [u8; 3] = bytes.take();
        let congestion_control = bytes.name();
        let upper_protocol = Some(bytes.name()).filter(|name| !name.is_empty());
        let since = if since.is_zero() { now } else { since };
        let end = |address: [u8; 16], port| {
            let address = IpAddr::V6(Ipv6Addr::from(address)).to_canonical();
            SocketAddr::new(address, port)
        };
        Some(Connection {
            local: end(local, local_port),
            remote: end(remote, remote_port),
            namespace,
            incoming,
            program,
            pid,
            user,
            cgroup,
            seconds: now.saturating_sub(since).as_secs_f64(),
            bytes_sent,
            bytes_received,
            rtt_ms,
            congestion_control,
            upper_protocol,
            limit_mbps,
            held,
            advised,
            rule: (rule != 0).then_some(rule),
            is_current,
            before: Before {
                congestion_control: why.gave_control.then_some(control_before),
                limit_mbps: limit(rate_before).filter(|_| why.gave_limit),
                traffic_class: why.gave_mark.then_some(class_before as u8),
            },
            why,
        })
    }
}

impl Why {
    /// The bits of `bpf/give.h`.
    fn parse(bits: u8) -> Why {
        let has = |bit: u8| bits & bit != 0;
        Why {
            gave_control: has(1),
            gave_limit: has(2),
            gave_mark: has(4),
            gave_buffers: has(8),
            kept_own: has(16),
            refused: has(32),
            left_alone: has(64),
            only_told: has(128),
        }
    }
}
