//! Assigns packets to flows, by the pair of addresses and the port at the flow's receiver.

use std::collections::HashMap;

use crate::network::FlowKey;

/// Size of the cache of connections.
const CONNECTION_CACHE: usize = 1024;
/// Size of the cache of fragmented packets, whose later fragments have no ports.
const FRAGMENT_CACHE: usize = 256;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A packet's flow and direction, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u32);

impl Tag {
    /// A packet of no flow.
    pub(super) const NONE: Tag = Tag(u32::MAX);
    /// Flag of a packet that carries data of its flow.
    const CARRIES: u32 = 1 << 31;

    fn new(flow: usize, acknowledges: bool) -> Tag {
        Tag((flow as u32) << 1 | u32::from(acknowledges))
    }

    /// An index for flow and direction: twice the flow's, plus one in the direction from its
    /// receiver to its sender.
    #[inline]
    pub(super) fn index(self) -> Option<usize> {
        (self != Tag::NONE).then_some((self.0 & !Tag::CARRIES) as usize)
    }

    /// The flow.
    #[inline]
    pub(super) fn flow(self) -> Option<usize> {
        self.index().map(|index| index >> 1)
    }

    /// The flow whose data the packet carries, if any.
    #[inline]
    pub(super) fn carries_data_of(self) -> Option<usize> {
        let carries = self != Tag::NONE && self.0 & Tag::CARRIES != 0;
        carries.then_some((self.0 & !Tag::CARRIES) as usize >> 1)
    }

    fn with_data(self) -> Tag {
        if self == Tag::NONE || self.0 & 1 == 1 {
            self
        } else {
            Tag(self.0 | Tag::CARRIES)
        }
    }
}

/// Addresses of sender and receiver, and a port: the sender's if `from_port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Match {
    from: [u8; 4],
    to: [u8; 4],
    port: Option<u16>,
    from_port: bool,
}

impl Match {
    fn to_port(from: [u8; 4], to: [u8; 4], port: Option<u16>) -> Match {
        Match {
            from,
            to,
            port,
            from_port: false,
        }
    }

    fn from_port(from: [u8; 4], to: [u8; 4], port: Option<u16>) -> Match {
        Match {
            from_port: true,
            ..Match::to_port(from, to, port)
        }
    }
}

/// The addresses and ports of a connection, as they stand in a packet.
type Pair = [u8; 12];

/// Finds the flow of a packet. The cost of a packet does not depend on the number of flows.
pub(super) struct Classifier {
    flows: HashMap<Match, Tag>,
    recent: Box<[(Pair, Tag)]>,
    /// Tags by address pair, protocol and identification.
    fragmented: Box<[([u8; 11], Tag)]>,
}

impl Classifier {
    /// A classifier; `None` without flows. Among flows with the same key, the first gets the
    /// packets.
    pub(super) fn new(keys: &[FlowKey]) -> Option<Classifier> {
        if keys.is_empty() {
            return None;
        }
        let mut flows = HashMap::new();
        for (flow, key) in keys.iter().enumerate() {
            let (from, to) = (key.from.octets(), key.to.octets());
            let data = Match::to_port(from, to, key.port);
            let acknowledgements = Match::from_port(to, from, key.port);
            flows.entry(data).or_insert(Tag::new(flow, false));
            flows
                .entry(acknowledgements)
                .or_insert(Tag::new(flow, true));
        }
        Some(Classifier {
            flows,
            recent: vec![([0; 12], Tag::NONE); CONNECTION_CACHE].into_boxed_slice(),
            fragmented: vec![([0; 11], Tag::NONE); FRAGMENT_CACHE].into_boxed_slice(),
        })
    }

    /// The tag of an IPv4 packet of at least 20 bytes.
    #[inline]
    pub(super) fn classify(&mut self, packet: &[u8]) -> Tag {
        let head = usize::from(packet[0] & 15) * 4;
        let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff;
        let has_ports = matches!(packet[9], TCP | UDP) && packet.len() >= head + 4;
        if !has_ports || fragment != 0 {
            return self.classify_without_ports(packet, has_ports.then_some(head), fragment);
        }
        let tag = self.of_connection(packet, head);
        if packet[9] == TCP && !has_payload(packet, head) {
            tag
        } else {
            tag.with_data()
        }
    }

    /// The tag of a packet whose IP header is `head` bytes long and followed by ports.
    #[inline]
    fn of_connection(&mut self, packet: &[u8], head: usize) -> Tag {
        let mut pair: Pair = [0; 12];
        pair[..8].copy_from_slice(&packet[12..20]);
        pair[8..].copy_from_slice(&packet[head..head + 4]);
        let place = spread(&pair) % CONNECTION_CACHE;
        let (known, tag) = self.recent[place];
        if known == pair {
            return tag;
        }
        let tag = self.find(pair);
        self.recent[place] = (pair, tag);
        tag
    }

    #[cold]
    fn find(&self, pair: Pair) -> Tag {
        let [a, b, c, d, e, f, g, h, from_high, from_low, to_high, to_low] = pair;
        let (from, to) = ([a, b, c, d], [e, f, g, h]);
        let [from_port, to_port] = [[from_high, from_low], [to_high, to_low]];
        let data = Match::to_port(from, to, Some(u16::from_be_bytes(to_port)));
        let acknowledgements = Match::from_port(from, to, Some(u16::from_be_bytes(from_port)));
        self.first([data, acknowledgements])
            .unwrap_or_else(|| self.between(from, to))
    }

    /// The flow between two hosts that gets packets without ports and those of no other flow.
    fn between(&self, from: [u8; 4], to: [u8; 4]) -> Tag {
        let data = Match::to_port(from, to, None);
        let acknowledgements = Match::from_port(from, to, None);
        self.first([data, acknowledgements]).unwrap_or(Tag::NONE)
    }

    fn first(&self, wanted: [Match; 2]) -> Option<Tag> {
        wanted
            .iter()
            .find_map(|wanted| self.flows.get(wanted))
            .copied()
    }

    /// The tag of a fragment, of which only the first has ports, or of a packet without ports.
    #[cold]
    fn classify_without_ports(
        &mut self,
        packet: &[u8],
        ports_at: Option<usize>,
        fragment: u16,
    ) -> Tag {
        let field = |at: usize| [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]];
        let (offset, more) = (fragment & 0x1fff, fragment & 0x2000 != 0);
        let mut whole = [0; 11];
        whole[..8].copy_from_slice(&packet[12..20]);
        whole[8] = packet[9];
        whole[9..].copy_from_slice(&packet[4..6]);
        let place = spread(&whole) % FRAGMENT_CACHE;
        if offset > 0 {
            let (known, tag) = self.fragmented[place];
            return if known == whole {
                tag
            } else {
                self.between(field(12), field(16))
            };
        }
        let tag = match ports_at {
            Some(head) => self.of_connection(packet, head),
            None => self.between(field(12), field(16)),
        };
        if more {
            self.fragmented[place] = (whole, tag);
        }
        tag.with_data()
    }
}

/// Payload bytes of an IPv4 packet if it is UDP, otherwise 0.
#[inline]
pub(super) fn datagram_payload(packet: &[u8]) -> u64 {
    if packet[9] != UDP {
        return 0;
    }
    let head = usize::from(packet[0] & 15) * 4;
    let is_first = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff == 0;
    let udp = if is_first { 8 } else { 0 };
    packet.len().saturating_sub(head + udp) as u64
}

#[inline]
fn has_payload(packet: &[u8], head: usize) -> bool {
    let tcp = packet.get(head + 12).map_or(0, |byte| byte >> 4);
    packet.len() > head + usize::from(tcp) * 4
}

/// A hash of addresses, protocol and ports of an IPv4 packet of at least 20 bytes; of a fragment, without ports.
pub(super) fn flow(packet: &[u8]) -> u32 {
    let head = usize::from(packet[0] & 15) * 4;
    let whole = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff == 0;
    let mut key = [0; 13];
    key[..8].copy_from_slice(&packet[12..20]);
    key[8] = packet[9];
    if whole && matches!(packet[9], TCP | UDP) && packet.len() >= head + 4 {
        key[9..].copy_from_slice(&packet[head..head + 4]);
    }
    spread(&key) as u32
}

/// Hashes with FNV-1a, so that similar keys spread over the table.
#[inline]
fn spread(bytes: &[u8]) -> usize {
    let mut hash = 0x811c_9dc5_u32;
    for &byte in bytes {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    (hash ^ hash >> 16) as usize
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, last)
    }

    fn key(from: u8, to: u8, port: Option<u16>) -> FlowKey {
        FlowKey {
            from: address(from),
            to: address(to),
            port,
        }
    }

    /// A packet of `payload` bytes after the header of IP and that of the protocol (20 bytes, for
    /// UDP 8).
    fn packet(protocol: u8, from: (u8, u16), to: (u8, u16), payload: usize) -> Vec<u8> {
        let transport = if protocol == TCP { 20 } else { 8 };
        let mut packet = vec![0; 20 + transport + payload];
        packet[0] = 0x45;
        packet[9] = protocol;
        packet[12..16].copy_from_slice(&address(from.0).octets());
        packet[16..20].copy_from_slice(&address(to.0).octets());
        packet[20..22].copy_from_slice(&from.1.to_be_bytes());
        packet[22..24].copy_from_slice(&to.1.to_be_bytes());
        if protocol == TCP {
            packet[32] = 0x50;
        }
        packet
    }

    #[test]
    fn the_port_is_that_of_the_receivers_socket() {
        let keys = [key(1, 2, Some(80)), key(1, 2, Some(81)), key(1, 2, None)];
        let mut classifier = Classifier::new(&keys).unwrap();
        let mut index = |from, to| classifier.classify(&packet(TCP, from, to, 0)).index();
        for _ in 0..2 {
            assert_eq!(index((1, 4711), (2, 80)), Some(0));
            assert_eq!(index((2, 80), (1, 4711)), Some(1));
            assert_eq!(index((1, 4711), (2, 81)), Some(2));
            assert_eq!(index((1, 80), (2, 4711)), Some(4));
            assert_eq!(index((2, 4711), (1, 80)), Some(5));
            assert_eq!(index((1, 80), (3, 80)), None);
        }
    }

    #[test]
    fn only_what_carries_something_toward_the_receiver_is_data() {
        let mut classifier = Classifier::new(&[key(1, 2, Some(80))]).unwrap();
        let mut data = |packet: &[u8]| classifier.classify(packet).carries_data_of();
        assert_eq!(data(&packet(TCP, (1, 9), (2, 80), 0)), None);
        assert_eq!(data(&packet(TCP, (1, 9), (2, 80), 1)), Some(0));
        assert_eq!(data(&packet(TCP, (2, 80), (1, 9), 1)), None);
        assert_eq!(data(&packet(UDP, (1, 9), (2, 80), 0)), Some(0));
        assert_eq!(data(&packet(TCP, (1, 9), (2, 81), 1)), None);
    }

    #[test]
    fn the_payload_of_datagrams_is_what_headers_leave() {
        assert_eq!(datagram_payload(&packet(UDP, (1, 9), (2, 80), 100)), 100);
        assert_eq!(datagram_payload(&packet(TCP, (1, 9), (2, 80), 100)), 0);
        // Only the first fragment has a UDP header.
        let mut second = packet(UDP, (1, 0), (2, 0), 92);
        second[7] = 2;
        assert_eq!(datagram_payload(&second), 100);
    }

    #[test]
    fn the_number_of_a_flow_is_that_of_its_addresses_protocol_and_ports() {
        let one = flow(&packet(TCP, (1, 9), (2, 80), 0));
        assert_eq!(one, flow(&packet(TCP, (1, 9), (2, 80), 1000)));
        let others = [
            packet(TCP, (1, 10), (2, 80), 0),
            packet(TCP, (1, 9), (2, 81), 0),
            packet(TCP, (1, 9), (3, 80), 0),
            packet(TCP, (2, 80), (1, 9), 0),
            packet(UDP, (1, 9), (2, 80), 0),
        ];
        assert!(others.iter().all(|other| flow(other) != one));
        // All fragments of a packet are of one flow, though only the first has ports.
        let mut fragments = [
            packet(UDP, (1, 9), (2, 80), 8),
            packet(UDP, (1, 0), (2, 0), 8),
        ];
        fragments[0][6] = 0x20;
        fragments[1][7] = 2;
        assert_eq!(flow(&fragments[0]), flow(&fragments[1]));
    }

    #[test]
    fn fragments_go_with_the_first_of_them() {
        let mut classifier = Classifier::new(&[key(1, 2, Some(80)), key(1, 2, None)]).unwrap();
        let mut first = packet(UDP, (1, 9), (2, 80), 8);
        first[5] = 77;
        first[6] = 0x20;
        let mut second = packet(UDP, (1, 0), (2, 0), 8);
        second[5] = 77;
        second[7] = 2;
        assert_eq!(classifier.classify(&first).carries_data_of(), Some(0));
        let tag = classifier.classify(&second);
        assert_eq!((tag.index(), tag.carries_data_of()), (Some(0), None));
        second[5] = 78;
        assert_eq!(classifier.classify(&second).index(), Some(2));
    }

    #[test]
    fn protocols_without_ports_belong_to_the_flow_without_one() {
        let keys = [key(1, 2, Some(80)), key(1, 2, None)];
        let mut classifier = Classifier::new(&keys).unwrap();
        let ping = packet(1, (1, 0), (2, 80), 56);
        assert_eq!(classifier.classify(&ping).carries_data_of(), Some(1));
        assert!(Classifier::new(&[]).is_none());
    }
}
