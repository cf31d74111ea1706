//! Networks of more than one link, on the running kernel. Needs root, as `exec.rs` does.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use fairwind_lab::LabError;
use fairwind_lab::emulator::{Emulator, EmulatorOptions};
use fairwind_lab::host::{Host, HostConfig};
use fairwind_lab::network::{Network, NodeId};
use fairwind_path::delay::{Delay, DelayConfig};
use fairwind_path::pipe::PipeConfig;
use fairwind_path::rate::Rate;
use fairwind_path::scheduler::SchedulerConfig;
use fairwind_path::units::{self, Bandwidth};

fn permitted() -> bool {
    match fairwind_lab::privilege::check() {
        Ok(()) => true,
        Err(error) if std::env::var_os("CI").is_some() => panic!("{error}"),
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

fn host(last: u8) -> Host {
    Host::create(HostConfig::new(Ipv4Addr::new(10, 0, 0, last))).unwrap()
}

/// A socket in the host; it stays there wherever it is used from.
fn socket(host: &Host) -> UdpSocket {
    let bind = || UdpSocket::bind("0.0.0.0:5001").map_err(|e| LabError::Program(e.to_string()));
    let socket = host.within(bind).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    socket
}

fn delayed(ms: u64) -> PipeConfig {
    PipeConfig {
        delay: DelayConfig {
            base: Delay::Constant(units::Duration::from_millis(ms)),
            ..DelayConfig::default()
        },
        ..PipeConfig::default()
    }
}

fn link(network: &mut Network, a: NodeId, b: NodeId, config: &PipeConfig) {
    network.add_pipe("there", a, b, config.clone()).unwrap();
    network.add_pipe("back", b, a, config.clone()).unwrap();
}

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
    // A pipe that holds its packets: 1000 bytes take 1 ms.
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
        let to = Ipv4Addr::new(10, 0, 0, 2 + number % 2);
        sockets[0].send_to(&[number; 972], (to, 5001)).unwrap();
    }
    for number in 0..40u8 {
        let mut datagram = [0; 2000];
        let (len, from) = sockets[1 + usize::from(number % 2)]
            .recv_from(&mut datagram)
            .unwrap();
        assert_eq!((len, datagram[0]), (972, number));
        assert_eq!(from.ip(), Ipv4Addr::new(10, 0, 0, 1));
        let last_link_ms = if number % 2 == 0 { 2 } else { 0 };
        let least = 1 + (u64::from(number) + 1) + 5 + last_link_ms;
        assert!(sent.elapsed() >= Duration::from_millis(least), "{number}");
    }
    let statistics = emulator.stop().unwrap();
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
    // What follows them on the same way has come, so they have been seen.
    let receiver = self::socket(&hosts[1]);
    socket.send_to(b"found", "10.0.0.2:5001").unwrap();
    receiver.recv(&mut [0; 8]).unwrap();
    assert_eq!(emulator.stop().unwrap().mishaps.unroutable, 7);
}
