//! What travels through the pipes: 48 bytes per packet, with SACK blocks stored separately.

use std::ops::Range;

use fairwind_path::ecn::Ecn;

/// Bytes of IP and TCP header with the timestamp option: 20 + 20 + 12.
pub const HEADER: u32 = 52;
/// Bytes of a SYN or SYN-ACK with the options that Linux sends.
pub const SYN_SIZE: u32 = 60;
/// SACK blocks that fit beside the timestamp option (RFC 2018, section 3).
pub const MAX_SACK_BLOCKS: usize = 3;

/// Kinds of packets that a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Opens a connection.
    Syn,
    /// Answers a SYN.
    SynAck,
    /// Payload, towards the receiver.
    Data,
    /// A pure acknowledgement, towards the sender.
    Ack,
    /// Payload without a connection.
    Datagram,
}

/// A packet in transit. Sequence numbers are byte offsets from the first byte of payload and do not
/// wrap.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Data: first byte of payload. ACK: next byte expected.
    pub seq: u64,
    /// The connection it belongs to.
    pub connection: u32,
    /// Bytes of payload.
    pub len: u32,
    /// ACK, SYN-ACK: the receiver's window in bytes.
    pub window: u32,
    /// Timestamp value (RFC 7323), milliseconds.
    pub ts_val: u32,
    /// Timestamp echo reply, milliseconds.
    pub ts_ecr: u32,
    /// ACK: handle of its SACK blocks, or [`SackPool::NONE`].
    pub sack: u32,
    /// Index of its next hop; only the network uses it.
    pub hop: u32,
    /// IP length, bytes.
    pub size: u16,
    /// Web sessions reuse a connection for the next object; packets of an earlier use are ignored.
    pub generation: u16,
    /// What kind of packet it is.
    pub kind: Kind,
    /// Data: the PSH bit.
    pub push: bool,
    /// The codepoint in its IP header.
    pub ecn: Ecn,
    /// The ECE bit: a mark is echoed, or a handshake is about ECN (RFC 3168).
    pub ece: bool,
    /// The CWR bit: the window has been reduced, or a SYN asks for ECN.
    pub cwr: bool,
}

impl Packet {
    /// A packet without payload, numbers or size.
    #[inline]
    pub fn new(kind: Kind, connection: u32, generation: u16) -> Packet {
        Packet {
            seq: 0,
            connection,
            len: 0,
            window: 0,
            ts_val: 0,
            ts_ecr: 0,
            sack: SackPool::NONE,
            hop: 0,
            size: 0,
            generation,
            kind,
            push: false,
            ecn: Ecn::NotEct,
            ece: false,
            cwr: false,
        }
    }

    /// Whether it travels the flow's forward route.
    #[inline]
    pub fn is_forward(&self) -> bool {
        matches!(self.kind, Kind::Syn | Kind::Data | Kind::Datagram)
    }

    /// The number that queues know its flow by.
    #[inline]
    pub fn flow(&self) -> u32 {
        self.connection << 1 | u32::from(self.is_forward())
    }

    /// One past the last byte of payload.
    #[inline]
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// The SACK blocks of one acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u64, u64); MAX_SACK_BLOCKS],
    len: u8,
    /// The first block reports a duplicate (RFC 2883).
    pub duplicate_first: bool,
}

impl SackBlocks {
    /// Adds a block; ignored if there is no room.
    pub fn push(&mut self, block: Range<u64>) {
        if usize::from(self.len) < MAX_SACK_BLOCKS {
            self.blocks[usize::from(self.len)] = (block.start, block.end);
            self.len += 1;
        }
    }

    /// The blocks; a duplicate report comes first.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.blocks[..usize::from(self.len)]
            .iter()
            .map(|&(start, end)| start..end)
    }

    /// Puts the blocks in order of their first bytes.
    pub fn sort(&mut self) {
        self.blocks[..usize::from(self.len)].sort_unstable();
    }

    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the option with its padding: 4, and 8 per block; 0 without blocks.
    pub fn option_size(&self) -> u32 {
        if self.is_empty() {
            0
        } else {
            4 + 8 * u32::from(self.len)
        }
    }
}

/// Storage for the SACK blocks of acknowledgements in transit.
#[derive(Debug, Default)]
pub struct SackPool {
    blocks: Vec<SackBlocks>,
    free: Vec<u32>,
}

impl SackPool {
    /// The handle of an acknowledgement without blocks.
    pub const NONE: u32 = u32::MAX;

    /// Stores blocks and returns their handle.
    pub fn put(&mut self, blocks: SackBlocks) -> u32 {
        if blocks.is_empty() {
            return Self::NONE;
        }
        if let Some(handle) = self.free.pop() {
            self.blocks[handle as usize] = blocks;
            handle
        } else {
            self.blocks.push(blocks);
            (self.blocks.len() - 1) as u32
        }
    }

    /// Returns the blocks of a handle and frees the handle.
    #[inline]
    pub fn take(&mut self, handle: u32) -> SackBlocks {
        if handle == Self::NONE {
            return SackBlocks::default();
        }
        self.free.push(handle);
        self.blocks[handle as usize]
    }

    /// A second handle with the same blocks, for a packet that a pipe duplicates.
    pub fn duplicate(&mut self, handle: u32) -> u32 {
        if handle == Self::NONE {
            return handle;
        }
        let blocks = self.blocks[handle as usize];
        self.put(blocks)
    }
}
