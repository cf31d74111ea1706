//! FQ-CoDel: shares, sparse flows, and what an overflow drops.

use fairwind_path::ecn::Ecn;
use fairwind_path::fq_codel::FqCoDelConfig;
use fairwind_path::pipe::{Aqm, LossCause, PipeConfig};
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::{Bandwidth, Bytes, Duration, Time};

use crate::drive::{Packet, Run, run};

/// 8 Mbit/s, which is a byte a microsecond. CoDel is out of the way.
fn config(quantum: u64) -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(8)),
        aqm: Aqm::FqCoDel(FqCoDelConfig {
            quantum: Bytes(quantum),
            target: Duration::from_secs(1_000),
            interval: Duration::from_secs(2_000),
            ..FqCoDelConfig::default()
        }),
        ..PipeConfig::default()
    }
}

/// A packet of a flow.
fn packet(at_us: u64, size: u32, flow: u16) -> Packet {
    Packet {
        at: Time::from_micros(at_us),
        size,
        class: flow,
        ecn: Ecn::NotEct,
    }
}

/// The flows of the packets, in the order in which they were sent.
fn order(run: &Run, packets: &[Packet]) -> Vec<u16> {
    run.order.iter().map(|&sent| packets[sent].class).collect()
}

#[test]
fn flows_take_turns() {
    let mut packets = vec![packet(0, 1500, 1); 4];
    packets.extend(vec![packet(0, 1500, 2); 4]);
    // The first packet is being sent when the others come; its flow has used up its turn.
    let run = run(&config(1514), &packets, 1);
    assert_eq!(order(&run, &packets), [1, 2, 1, 2, 1, 2, 1, 2]);
}

#[test]
fn flows_share_bytes_and_not_packets() {
    let mut packets = vec![packet(0, 1500, 1); 100];
    packets.extend(vec![packet(0, 486, 2); 400]);
    let run = run(&config(1514), &packets, 1);
    // 486 and 14 bytes are 500 of 1514: three packets a turn, and four whenever 14 bytes left over from
    // each turn have added up.
    let sent = order(&run, &packets);
    let bytes = |flow| {
        let of_flow = sent[..200].iter().filter(|&&sent| sent == flow).count() as u32;
        of_flow * if flow == 1 { 1514 } else { 500 }
    };
    assert!(
        bytes(1).abs_diff(bytes(2)) <= 1514 + 500,
        "{}, {}",
        bytes(1),
        bytes(2)
    );
}

#[test]
fn the_quantum_is_what_a_flow_sends_in_its_turn() {
    let mut packets = vec![packet(0, 1500, 1); 6];
    packets.extend(vec![packet(0, 1500, 2); 6]);
    let run = run(&config(3 * 1514), &packets, 1);
    assert_eq!(order(&run, &packets), [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2]);
}

#[test]
fn a_sparse_flow_waits_only_for_the_packet_being_sent() {
    let mut packets: Vec<Packet> = (0..200)
        .map(|n| packet(n, 1500, 1 + (n % 3) as u16))
        .collect();
    // Less than a quantum in the time in which the others have a turn each.
    packets.extend((1..20).map(|n| packet(n * 15_000 + 7, 200, 9)));
    let run = run(&config(1514), &packets, 1);
    for (index, packet) in packets.iter().enumerate().skip(200) {
        let waited = run.far_end(index).unwrap() - packet.at;
        assert!(waited <= Duration::from_micros(1_500 + 200), "{waited}");
    }
}

#[test]
fn a_flow_that_comes_and_goes_does_not_starve_the_others() {
    // Flow 2 sends a packet whenever its queue has just run empty: as a new flow it would always go first.
    let mut packets: Vec<Packet> = (0..100).map(|_| packet(0, 1500, 1)).collect();
    packets.extend((0..150).map(|n| packet(1_000 + n * 1_500, 1500, 2)));
    let run = run(&config(1514), &packets, 1);
    let sent = order(&run, &packets);
    let first = sent[..150].iter().filter(|&&flow| flow == 1).count();
    assert!((70..=80).contains(&first), "{first}");
}

#[test]
fn an_overflow_drops_half_of_the_fattest_queue_from_its_head() {
    let config = PipeConfig {
        capacity: Capacity::Packets(10),
        ..config(1514)
    };
    let mut packets = vec![packet(0, 1500, 1); 8];
    packets.extend(vec![packet(1, 1500, 2); 2]);
    packets.push(packet(2, 1500, 3));
    let run = run(&config, &packets, 1);
    // Packet 0 is being sent; flow 1 has seven waiting, of which four go.
    assert_eq!(run.lost_to(LossCause::QueueFull), [1, 2, 3, 4]);
    assert_eq!(run.order, [0, 8, 10, 5, 9, 6, 7]);
}

#[test]
fn no_more_than_64_packets_are_dropped_at_once() {
    let config = PipeConfig {
        capacity: Capacity::Packets(500),
        ..config(1514)
    };
    let packets = vec![packet(0, 1000, 1); 501];
    let run = run(&config, &packets, 1);
    assert!(run.lost_to(LossCause::QueueFull).into_iter().eq(1..65));
}

#[test]
fn each_flow_has_a_codel_of_its_own() {
    let config = PipeConfig {
        aqm: Aqm::FqCoDel(FqCoDelConfig::default()),
        ..config(1514)
    };
    // Flow 1 has a standing queue of more than 5 ms, flow 2 never has two packets waiting.
    let mut packets = vec![packet(0, 1000, 1); 600];
    packets.extend((0..250).map(|n| packet(n * 4_000 + 1, 500, 2)));
    packets.sort_by_key(|packet| packet.at);
    let run = run(&config, &packets, 1);
    let dropped = run.lost_to(LossCause::CoDel);
    assert!(dropped.len() > 10, "{}", dropped.len());
    assert!(dropped.iter().all(|&index| packets[index].class == 1));
}
