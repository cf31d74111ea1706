//! Captures of pipes, on the running kernel. Needs root, as `exec.rs` does.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use fairwind_lab::emulator::{Capture, Emulator, EmulatorOptions};
use fairwind_lab::network::Network;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::Bandwidth;
use fairwind_testing::with_stalls;

use crate::hosts::{PORT, address, host, link, permitted, socket};

/// The blocks of a pcapng file: kind and content.
fn blocks(file: &[u8]) -> Vec<(u32, &[u8])> {
    let mut rest = file;
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        let len = word(rest, 4) as usize;
        assert_eq!(word(rest, len - 4) as usize, len);
        blocks.push((word(rest, 0), &rest[8..len - 4]));
        rest = &rest[len..];
    }
    blocks
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The values of the options with this code, from offset `at` on.
fn options(block: &[u8], mut at: usize, code: u16) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while at < block.len() {
        let head = word(block, at);
        let (its_code, len) = (head as u16, (head >> 16) as usize);
        if its_code == code {
            found.push(&block[at + 4..at + 4 + len]);
        }
        at += 4 + len.next_multiple_of(4);
    }
    found
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_nanos() as u64
}

#[test]
fn a_capture_has_what_reached_the_far_end_and_tells_of_the_rest() {
    if !permitted() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("there.pcapng");
    let hosts = [1, 2].map(host);
    let mut network = Network::new();
    let [a, b] = [1, 2].map(|last| network.add_host(address(last)).unwrap());
    // 1000 bytes take 100 ms: of 15 sent at once, 10 have room.
    let narrow = PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_bps(80_000)),
        capacity: Capacity::Packets(10),
        ..PipeConfig::default()
    };
    let [there, _] = link(&mut network, a, b, &narrow);
    let options_ = EmulatorOptions {
        captures: vec![Capture {
            pipe: there,
            file: file.clone(),
            snap_length: 101,
        }],
        ..EmulatorOptions::default()
    };
    let started = now_ns();
    let emulator = Emulator::start(&network, &hosts, options_).unwrap();
    let [from, to] = hosts.each_ref().map(socket);
    let (statistics, stalls) = with_stalls(|| {
        for _ in 0..15 {
            from.send_to(&[7; 972], (address(2), PORT)).unwrap();
        }
        for _ in 0..10 {
            to.recv(&mut [0; 1000]).unwrap();
        }
        emulator.stop()
    });
    assert_eq!(statistics.captures[0].packets, 10);
    assert_eq!(statistics.captures[0].missed, 0);
    let mut warnings = statistics.warnings();
    if !stalls.is_zero() {
        // The machine stalled, so the emulator may have fallen behind.
        warnings.retain(|warning| !warning.starts_with("the emulator fell behind"));
    }
    assert_eq!(warnings, Vec::<String>::new());

    let bytes = fs::read(&file).unwrap();
    let blocks = blocks(&bytes);
    let kinds: Vec<u32> = blocks.iter().map(|block| block.0).collect();
    assert_eq!(kinds, [&[0x0a0d_0d0a, 1][..], &[6; 10], &[5]].concat());
    let interface = blocks[1].1;
    assert_eq!((word(interface, 0), word(interface, 4)), (101, 101));
    assert_eq!(options(interface, 8, 2), [b"there"]);
    assert_eq!(options(interface, 8, 9), [[9]]);
    let mut before = started;
    for (number, (_, packet)) in blocks[2..12].iter().enumerate() {
        assert_eq!((word(packet, 12), word(packet, 16)), (101, 1000));
        let time = u64::from(word(packet, 4)) << 32 | u64::from(word(packet, 8));
        assert!(time >= before + 100_000_000, "{number}");
        before = time;
        assert_eq!(packet[20], 0x45);
        assert_eq!(packet[48], 7);
        let dropped = options(packet, 124, 4);
        assert_eq!(dropped.is_empty(), number > 0);
    }
    assert!(before <= now_ns());
    let comments = options(blocks[2].1, 124, 1);
    assert_eq!(comments.len(), 5);
    let comment = std::str::from_utf8(comments[0]).unwrap();
    assert!(
        comment.ends_with(": queue full: 10.0.0.1:5001 > 10.0.0.2:5001, 1000 bytes"),
        "{comment}"
    );
    let end = blocks[12].1;
    assert_eq!(options(end, 12, 4), [15u64.to_ne_bytes()]);
    assert_eq!(options(end, 12, 5), [5u64.to_ne_bytes()]);
    read_by_others(&file);
}

/// tcpdump finds the same packets, if it is there.
fn read_by_others(file: &std::path::Path) {
    let read = Command::new("tcpdump")
        .args(["--nano", "-nr"])
        .arg(file)
        .output();
    let read = read.map_err(|error| format!("tcpdump: {error}"));
    let Some(read) = fairwind_testing::or_skip(read) else {
        return;
    };
    assert!(read.status.success(), "{read:?}");
    let text = String::from_utf8(read.stdout).unwrap();
    let lines = text.lines();
    let same = lines.filter(|l| l.contains("10.0.0.1.5001 > 10.0.0.2.5001: UDP, length 972"));
    assert_eq!(same.count(), 10, "{text}");
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    if !permitted() {
        return;
    }
    let hosts = [1, 2].map(host);
    let mut network = Network::new();
    let [a, b] = [1, 2].map(|last| network.add_host(address(last)).unwrap());
    let [pipe, _] = link(&mut network, a, b, &PipeConfig::default());
    let options = EmulatorOptions {
        captures: vec![Capture {
            pipe,
            file: "/nowhere/x.pcapng".into(),
            snap_length: Capture::HEADERS,
        }],
        ..EmulatorOptions::default()
    };
    let error = Emulator::start(&network, &hosts, options).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("making the capture file /nowhere/x.pcapng: No such file"),
        "{text}"
    );
}
