//! Networks of more than one link, on the running kernel. Needs root, as `exec.rs` does.

use std::fs;
use std::time::{Duration, Instant};

use fairwind_lab::LabError;
use fairwind_lab::emulator::{Emulator, EmulatorOptions};
use fairwind_lab::host::{Host, HostConfig, Offload};
use fairwind_lab::network::Network;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::rate::Rate;
use fairwind_path::scheduler::SchedulerConfig;
use fairwind_path::units::{self, Bandwidth, Time};

use crate::hosts::{address, delayed, host, link, permitted, socket};

#[test]
fn packets_find_their_host_over_routers_and_never_early() {
    if !permitted() {
        return;
    }
    let hosts = [1, 2, 3].map(host);
    let mut network = Network::new();
    let [a, b, c] = [0, 1, 2].map(|n: usize| {
        let address = hosts[n].config().address;
        network.add_host(address).unwrap()
    });
    let [left, right] = [network.add_router(), network.add_router()];
    // A pipe that holds packets back: 1000 bytes take 1 ms.
    let bottleneck = PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(8)),
        scheduler: SchedulerConfig::Wf2q { weights: vec![1] },
        ..delayed(5)
    };
    link(&mut network, a, left, &delayed(1));
    link(&mut network, left, right, &bottleneck);
    link(&mut network, right, b, &delayed(2));
    link(&mut network, right, c, &delayed(0));
    let emulator = Emulator::start(&network, &hosts, EmulatorOptions::default()).unwrap();

    let sockets = hosts.each_ref().map(socket);
    let sent = Instant::now();
    for number in 0..40u8 {
        let to = address(2 + number % 2);
        sockets[0].send_to(&[number; 972], (to, 5001)).unwrap();
    }
    for number in 0..40u8 {
        let mut datagram = [0; 2000];
        let (len, from) = sockets[1 + usize::from(number % 2)]
            .recv_from(&mut datagram)
            .unwrap();
        assert_eq!((len, datagram[0]), (972, number));
        assert_eq!(from.ip(), address(1));
        let last_link_ms = if number % 2 == 0 { 2 } else { 0 };
        let least = 1 + (u64::from(number) + 1) + 5 + last_link_ms;
        assert!(sent.elapsed() >= Duration::from_millis(least), "{number}");
    }
    let statistics = emulator.stop();
    assert_eq!(statistics.pipes[2].statistics.packets, 40);
    assert_eq!(statistics.pipes[4].statistics.packets, 20);
    assert_eq!(statistics.lateness.count(), 40);
    assert_eq!(statistics.mishaps.unroutable, 0);
}

#[test]
fn packets_for_nobody_are_counted() {
    if !permitted() {
        return;
    }
    let hosts = [1, 2].map(host);
    let mut network = Network::new();
    let [a, b] = [0, 1].map(|n: usize| network.add_host(hosts[n].config().address).unwrap());
    link(&mut network, a, b, &PipeConfig::default());
    let emulator = Emulator::start(&network, &hosts, EmulatorOptions::default()).unwrap();
    let socket = socket(&hosts[0]);
    for _ in 0..7 {
        socket.send_to(b"lost", "192.0.2.1:9").unwrap();
    }
    // A later packet on the same path has arrived, so they have been seen.
    let receiver = self::socket(&hosts[1]);
    socket.send_to(b"found", "10.0.0.2:5001").unwrap();
    receiver.recv(&mut [0; 8]).unwrap();
    assert_eq!(emulator.stop().mishaps.unroutable, 7);
}

#[test]
fn what_hosts_send_waits_in_order_until_it_is_read_and_what_has_no_room_is_counted() {
    if !permitted() {
        return;
    }
    const EARLY: u32 = 40_000;
    let hosts = [1, 2].map(host);
    let sockets = hosts.each_ref().map(socket);
    let send = |number: u32| {
        let mut datagram = [0; 1400];
        datagram[..4].copy_from_slice(&number.to_ne_bytes());
        sockets[0].send_to(&datagram, (address(2), 5001)).unwrap();
    };
    (0..EARLY).for_each(send);

    let mut network = Network::new();
    let [a, b] = [1, 2].map(|last| network.add_host(address(last)).unwrap());
    link(&mut network, a, b, &PipeConfig::default());
    let emulator = Emulator::start(&network, &hosts, EmulatorOptions::default()).unwrap();
    // The receiver's socket has room for only a few, so more are sent until one of the last
    // arrives.
    let last = EARLY + 100;
    let mut sent = EARLY;
    let mut before = None;
    let pause = Some(Duration::from_millis(20));
    sockets[1].set_read_timeout(pause).unwrap();
    while before < Some(EARLY) && sent < last {
        send(sent);
        sent += 1;
        let mut datagram = [0; 1400];
        while sockets[1].recv(&mut datagram).is_ok() {
            let number = u32::from_ne_bytes(datagram[..4].try_into().unwrap());
            assert!(before < Some(number), "{number} after {before:?}");
            before = Some(number);
        }
    }
    assert!(before >= Some(EARLY), "{before:?}");
    let statistics = emulator.stop();
    let lost = statistics.mishaps.device_drops;
    assert!((10_000..20_000).contains(&lost), "{lost}");
    assert_eq!(
        statistics.pipes[0].statistics.packets + lost,
        u64::from(sent)
    );
}

#[test]
fn of_as_many_pipes_packets_take_those_of_the_least_delay() {
    if !permitted() {
        return;
    }
    let hosts = [1, 2].map(host);
    let mut network = Network::new();
    let [a, b] = [1, 2].map(|last| network.add_host(address(last)).unwrap());
    let router = network.add_router();
    link(&mut network, a, router, &PipeConfig::default());
    link(&mut network, router, b, &delayed(60));
    link(&mut network, router, b, &delayed(20));
    let emulator = Emulator::start(&network, &hosts, EmulatorOptions::default()).unwrap();
    let sockets = hosts.each_ref().map(socket);
    let sent = Instant::now();
    sockets[0].send_to(b"there", (address(2), 5001)).unwrap();
    sockets[1].recv(&mut [0; 8]).unwrap();
    assert!(sent.elapsed() >= Duration::from_millis(20));
    sockets[1].send_to(b"back", (address(1), 5001)).unwrap();
    sockets[0].recv(&mut [0; 8]).unwrap();
    let packets = emulator.stop().pipes;
    let packets: Vec<u64> = packets.iter().map(|p| p.statistics.packets).collect();
    assert_eq!(packets, [1, 1, 0, 0, 1, 1]);
}

#[test]
fn samples_are_of_exact_times_and_totals_start_behind_the_warm_up() {
    if !permitted() {
        return;
    }
    let hosts = [1, 2].map(host);
    let mut network = Network::new();
    let [a, b] = [1, 2].map(|last| network.add_host(address(last)).unwrap());
    // 1000 bytes take 10 ms.
    let slow = PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_bps(800_000)),
        ..crate::hosts::narrow(1)
    };
    let [there, back] = link(&mut network, a, b, &slow);
    let options = EmulatorOptions {
        sample_interval: Some(units::Duration::from_millis(20)),
        warmup: units::Duration::from_millis(500),
        ..EmulatorOptions::default()
    };
    let emulator = Emulator::start(&network, &hosts, options).unwrap();
    let [from, to] = hosts.each_ref().map(socket);
    for _ in 0..100 {
        from.send_to(&[0; 972], (address(2), 5001)).unwrap();
    }
    for _ in 0..100 {
        to.recv(&mut [0; 1000]).unwrap();
    }
    // Time for the sample after the last packet.
    std::thread::sleep(Duration::from_millis(40));
    let early = emulator.samples().recv().unwrap();
    assert_eq!(early.time, Time::ZERO);
    let statistics = emulator.stop();
    let of = |pipe: usize| statistics.samples.iter().filter(move |s| s.pipe == pipe);
    let mut bytes_before = 0;
    for (number, sample) in (1u64..).zip(of(there.index())) {
        let number = number - u64::from(early.pipe != there.index());
        assert_eq!(sample.time, Time::from_millis(20 * number));
        assert_eq!(sample.queue_bytes, 1000 * sample.queue_packets);
        // While there is a queue, 2 packets leave between two samples, except around its beginning
        // and end.
        let left = sample.bytes - bytes_before;
        if sample.queue_packets > 0 && bytes_before > 0 {
            assert_eq!(left, 2000, "{number}");
        }
        bytes_before = sample.bytes;
    }
    assert_eq!(bytes_before, 100_000);
    assert!(of(back.index()).all(|sample| sample.bytes == 0));
    assert_eq!(statistics.samples_lost, 0);
    // All take a second; half of it, and the time of the start, is warm-up.
    let counted = statistics.pipes[there.index()].statistics.packets;
    assert!((50..100).contains(&counted), "{counted}");
}

#[test]
fn packets_may_be_as_large_as_the_hosts_let_them_be() {
    if !permitted() {
        return;
    }
    for offload in [Offload::None, Offload::Send] {
        let hosts = [1, 2].map(|last| {
            let config = HostConfig {
                mtu: 9000,
                offload,
                ..HostConfig::new(address(last))
            };
            Host::create(config).unwrap()
        });
        let mut network = Network::new();
        let [a, b] = [1, 2].map(|last| network.add_host(address(last)).unwrap());
        link(&mut network, a, b, &delayed(1));
        let emulator = Emulator::start(&network, &hosts, EmulatorOptions::default()).unwrap();
        let [from, to] = hosts.each_ref().map(socket);
        from.send_to(&[7; 8972], (address(2), 5001)).unwrap();
        assert_eq!(to.recv(&mut [0; 9000]).unwrap(), 8972);
        let statistics = emulator.stop().pipes;
        assert_eq!(statistics[0].statistics.bytes, 9000);
    }
}

#[test]
fn a_host_is_set_up_as_it_was_asked_for() {
    if !permitted() {
        return;
    }
    let config = HostConfig {
        tcp_rmem: [4096, 87_380, 174_760],
        initial_window: Some(2),
        sysctls: vec![("net.ipv4.tcp_recovery".into(), "0".into())],
        ..HostConfig::new(address(1))
    };
    let host = Host::create(config.clone()).unwrap();
    let read = |path: &'static str| {
        let text =
            host.within(|| fs::read_to_string(path).map_err(|e| LabError::Failed(e.to_string())));
        text.unwrap().trim().replace('\t', " ")
    };
    assert_eq!(read("/proc/sys/net/ipv4/tcp_recovery"), "0");
    assert_eq!(read("/proc/sys/net/ipv4/tcp_rmem"), "4096 87380 174760");
    let inode = host.within(|| {
        let link = fs::read_link("/proc/thread-self/ns/net");
        link.map_err(|e| LabError::Failed(e.to_string()))
    });
    let expected = format!("net:[{}]", host.namespace_inode());
    assert_eq!(inode.unwrap().to_str(), Some(&expected[..]));

    let wrong = HostConfig {
        sysctls: vec![("net.ipv4.no_such".into(), "1".into())],
        ..config
    };
    let error = Host::create(wrong).unwrap_err().to_string();
    assert!(
        error.starts_with("setting net.ipv4.no_such to `1`: "),
        "{error}"
    );
}
