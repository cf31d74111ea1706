//! Blocks of a pcapng file with one interface, in native byte order.
//!
//! Source: draft-ietf-opsawg-pcapng, sections 3.5 and 4.

/// Packets begin with their IP header.
const LINKTYPE_RAW: u16 = 101;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_DROPCOUNT: u16 = 4;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;

/// An enhanced packet block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// The packet from its IP header on, at most the interface's snap length.
    pub bytes: &'a [u8],
    /// Length of the whole packet.
    pub len: u32,
    /// Packets lost since the previous one.
    pub dropped: u64,
    /// Comments on the packet; written only with lost packets.
    pub comments: &'a [String],
}

/// Writes the start of a file: one interface with nanosecond time stamps, and packets cut to `snap_length`
/// bytes.
pub(super) fn header(out: &mut Vec<u8>, application: &str, interface: &str, snap_length: u32) {
    block(out, SECTION_HEADER, |out| {
        let (major, minor) = (1u16, 0u16);
        let unknown_length = u64::MAX;
        out.extend(0x1a2b_3c4d_u32.to_ne_bytes());
        out.extend(major.to_ne_bytes());
        out.extend(minor.to_ne_bytes());
        out.extend(unknown_length.to_ne_bytes());
        option(out, SHB_USERAPPL, application.as_bytes());
        option(out, OPT_END, &[]);
    });
    block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend(LINKTYPE_RAW.to_ne_bytes());
        out.extend([0; 2]);
        out.extend(snap_length.to_ne_bytes());
        let nanoseconds = 9;
        option(out, IF_NAME, interface.as_bytes());
        option(out, IF_TSRESOL, &[nanoseconds]);
        option(out, OPT_END, &[]);
    });
}

/// Writes a packet of the interface.
pub(super) fn packet(out: &mut Vec<u8>, packet: &Packet<'_>) {
    block(out, ENHANCED_PACKET, |out| {
        let interface = 0u32;
        out.extend(interface.to_ne_bytes());
        time(out, packet.time_ns);
        out.extend((packet.bytes.len() as u32).to_ne_bytes());
        out.extend(packet.len.to_ne_bytes());
        out.extend(packet.bytes);
        fill_up(out);
        if packet.dropped > 0 {
            option(out, EPB_DROPCOUNT, &packet.dropped.to_ne_bytes());
            comments(out, packet.comments);
            option(out, OPT_END, &[]);
        }
    });
}

/// Writes the end of a file: packets received by the interface since the start, and how many of them were
/// lost.
pub(super) fn statistics(out: &mut Vec<u8>, time_ns: u64, counts: (u64, u64), said: &[String]) {
    block(out, INTERFACE_STATISTICS, |out| {
        let interface = 0u32;
        out.extend(interface.to_ne_bytes());
        time(out, time_ns);
        let (received, dropped) = counts;
        option(out, ISB_IFRECV, &received.to_ne_bytes());
        option(out, ISB_IFDROP, &dropped.to_ne_bytes());
        comments(out, said);
        option(out, OPT_END, &[]);
    });
}

fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_ne_bytes());
    out.extend([0; 4]);
    body(out);
    let len = (out.len() + 4 - start) as u32;
    out[start + 4..start + 8].copy_from_slice(&len.to_ne_bytes());
    out.extend(len.to_ne_bytes());
}

fn time(out: &mut Vec<u8>, ns: u64) {
    out.extend(((ns >> 32) as u32).to_ne_bytes());
    out.extend((ns as u32).to_ne_bytes());
}

fn comments(out: &mut Vec<u8>, comments: &[String]) {
    for comment in comments {
        option(out, OPT_COMMENT, comment.as_bytes());
    }
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend(code.to_ne_bytes());
    out.extend((value.len() as u16).to_ne_bytes());
    out.extend(value);
    fill_up(out);
}

/// Pads to a multiple of four bytes, as everything in a file is.
fn fill_up(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_filled_up_and_its_length_stands_at_both_ends() {
        let mut out = Vec::new();
        let five = Packet {
            time_ns: 0x1_0000_0002,
            bytes: &[1, 2, 3, 4, 5],
            len: 1500,
            dropped: 0,
            comments: &[],
        };
        packet(&mut out, &five);
        let words = out.as_chunks().0.iter();
        let words: Vec<u32> = words.map(|&word| u32::from_ne_bytes(word)).collect();
        let [kind, len, interface, high, low, captured, original] = words[..7] else {
            panic!()
        };
        assert_eq!((kind, len, interface), (6, 40, 0));
        assert_eq!((high, low), (1, 2));
        assert_eq!((captured, original), (5, 1500));
        assert_eq!(out[28..36], [1, 2, 3, 4, 5, 0, 0, 0]);
        assert_eq!(words[9..], [40]);
    }

    #[test]
    fn what_was_lost_before_a_packet_is_an_option_of_it() {
        let mut out = Vec::new();
        let next = Packet {
            time_ns: 0,
            bytes: &[],
            len: 0,
            dropped: 2,
            comments: &["ab".to_owned()],
        };
        packet(&mut out, &next);
        let mut options = Vec::from(4u16.to_ne_bytes());
        options.extend(8u16.to_ne_bytes());
        options.extend(2u64.to_ne_bytes());
        options.extend(1u16.to_ne_bytes());
        options.extend(2u16.to_ne_bytes());
        options.extend(b"ab\0\0");
        options.extend([0; 4]);
        assert_eq!(out[28..out.len() - 4], options[..]);
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::cases;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Kind and content of each block; `None` if they do not fill the file.
    fn blocks(mut bytes: &[u8]) -> Option<Vec<(u32, &[u8])>> {
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let (kind, len) = (word(bytes, 0)?, word(bytes, 4)? as usize);
            let (block, behind) = bytes.split_at_checked(len)?;
            let content = block.get(8..len.checked_sub(4)?)?;
            if !len.is_multiple_of(4) || word(block, len - 4)? as usize != len {
                return None;
            }
            blocks.push((kind, content));
            bytes = behind;
        }
        Some(blocks)
    }

    /// Code and value of each option; `None` if they do not fill the end of a block.
    fn options(mut bytes: &[u8]) -> Option<Vec<(u16, &[u8])>> {
        let mut options = Vec::new();
        loop {
            let (&[a, b, c, d], behind) = bytes.split_first_chunk()?;
            let (code, len) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
            let value = behind.get(..usize::from(len))?;
            bytes = behind.get(usize::from(len).next_multiple_of(4)..)?;
            if code == OPT_END {
                return bytes.is_empty().then_some(options);
            }
            options.push((code, value));
        }
    }

    fn word(bytes: &[u8], at: usize) -> Option<u32> {
        let word = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(word))
    }

    fn comment() -> impl Strategy<Value = String> {
        // An option holds 65,535 bytes.
        prop_oneof![20 => "\\PC{0,40}", 1 => Just("x".repeat(70_000))]
    }

    /// The option of a comment.
    fn cut(comment: &str) -> (u16, Vec<u8>) {
        let kept = comment.len().min(65_535);
        (OPT_COMMENT, comment.as_bytes()[..kept].to_vec())
    }

    /// Time, bytes, packets lost before, and comments.
    fn captured() -> impl Strategy<Value = (u64, Vec<u8>, u64, Vec<String>)> {
        let bytes = vec(any::<u8>(), 0..70);
        (any::<u64>(), bytes, 0..3_u64, vec(comment(), 0..3))
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn what_is_captured_can_be_read(
            name in comment(),
            packets in vec(captured(), 0..5),
            said in vec(comment(), 0..3),
        ) {
            let mut out = Vec::new();
            header(&mut out, "fairwind", &name, 128);
            for (time_ns, bytes, dropped, comments) in &packets {
                let (time_ns, dropped) = (*time_ns, *dropped);
                packet(&mut out, &Packet { time_ns, bytes, len: 1500, dropped, comments });
            }
            statistics(&mut out, 7, (9, 2), &said);

            let read = |content: &[u8]| -> Vec<(u16, Vec<u8>)> {
                let options = options(content).unwrap().into_iter();
                options.map(|(code, value)| (code, value.to_vec())).collect()
            };
            let blocks = blocks(&out).unwrap();
            let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
            prop_assert_eq!(kinds[..2].to_vec(), [SECTION_HEADER, INTERFACE_DESCRIPTION]);
            prop_assert!(kinds[2..kinds.len() - 1].iter().all(|kind| *kind == ENHANCED_PACKET));
            prop_assert_eq!(kinds.len(), packets.len() + 3);
            prop_assert_eq!(read(&blocks[0].1[16..]), [(SHB_USERAPPL, b"fairwind".to_vec())]);
            for ((_, content), (time_ns, bytes, dropped, comments)) in blocks[2..].iter().zip(&packets) {
                let (high, low) = (word(content, 4).unwrap(), word(content, 8).unwrap());
                prop_assert_eq!(u64::from(high) << 32 | u64::from(low), *time_ns);
                prop_assert_eq!(word(content, 12), Some(bytes.len() as u32));
                let (kept, behind) = content[20..].split_at(bytes.len().next_multiple_of(4));
                prop_assert_eq!(&kept[..bytes.len()], bytes.as_slice());
                if *dropped == 0 {
                    prop_assert!(behind.is_empty());
                    continue;
                }
                let mut expected = vec![(EPB_DROPCOUNT, dropped.to_ne_bytes().to_vec())];
                expected.extend(comments.iter().map(|comment| cut(comment)));
                prop_assert_eq!(read(behind), expected);
            }
            let mut expected = vec![
                (ISB_IFRECV, 9_u64.to_ne_bytes().to_vec()),
                (ISB_IFDROP, 2_u64.to_ne_bytes().to_vec()),
            ];
            expected.extend(said.iter().map(|comment| cut(comment)));
            prop_assert_eq!(read(&blocks[blocks.len() - 1].1[12..]), expected);
        }
    }
}
