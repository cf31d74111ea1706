//! Flows and their scheduler classes, on the running kernel. Needs root, as `exec.rs` does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_lab::LabError;
use fairwind_lab::emulator::{Emulator, EmulatorOptions};
use fairwind_lab::host::Host;
use fairwind_lab::network::{FlowKey, Network};
use fairwind_path::loss::LossConfig;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::scheduler::SchedulerConfig;

use crate::hosts::{PORT, address, delayed, host, link, narrow, permitted, socket};

fn weighted(weights: &[u32], config: PipeConfig) -> PipeConfig {
    PipeConfig {
        scheduler: SchedulerConfig::Wf2q {
            weights: weights.to_vec(),
        },
        ..config
    }
}

fn in_host<R: Send>(host: &Host, work: impl FnOnce() -> std::io::Result<R> + Send) -> R {
    host.within(|| work().map_err(|error| LabError::Failed(error.to_string())))
        .unwrap()
}

#[test]
fn weights_divide_the_bandwidth_between_flows() {
    if !permitted() {
        return;
    }
    let hosts = [1, 2, 3].map(host);
    let mut network = Network::new();
    let [a, b, c] = [1, 2, 3].map(|last| network.add_host(address(last)).unwrap());
    let [left, right] = [network.add_router(), network.add_router()];
    link(&mut network, a, left, &PipeConfig::default());
    link(&mut network, b, left, &PipeConfig::default());
    // 1000 bytes take 1 ms.
    let [there, _] = link(&mut network, left, right, &weighted(&[2, 1], narrow(8)));
    link(&mut network, right, c, &PipeConfig::default());
    let flow = network.add_flow(FlowKey {
        from: address(1),
        to: address(3),
        port: Some(PORT),
    });
    network.set_class(there, flow, false, 0);
    network.set_default_class(there, 1);
    let emulator = Emulator::start(&network, &hosts, EmulatorOptions::default()).unwrap();
    let [heavy, light, sink] = hosts.each_ref().map(socket);
    for _ in 0..900 {
        for socket in [&light, &heavy] {
            socket.send_to(&[0; 972], (address(3), PORT)).unwrap();
        }
    }
    let mut from_heavy = 0;
    for _ in 0..600 {
        let (_, from) = sink.recv_from(&mut [0; 1000]).unwrap();
        from_heavy += u32::from(from.ip() == address(1));
    }
    // Both queues are full; the first few packets left while one of them was empty.
    assert!((390..=405).contains(&from_heavy), "{from_heavy}");
    let statistics = emulator.stop();
    assert_eq!(statistics.flows[0].packets, 900);
    assert_eq!(statistics.flows[0].lost, 0);
    // Those that were read, and those in flight.
    let delivered = statistics.flows[0].datagram_bytes;
    assert!((u64::from(from_heavy) * 972..=900 * 972).contains(&delivered));
    assert_eq!(delivered % 972, 0);
}

/// Bytes that the connection of each listener received in `time`, from senders that never stop.
fn transfer(pairs: [(&Host, &Host, u16); 2], time: Duration) -> [u64; 2] {
    let listeners = pairs.map(|(_, to, port)| {
        let address = SocketAddr::from((to.config().address, port));
        (in_host(to, || TcpListener::bind(address)), address)
    });
    let senders = [0, 1].map(|n: usize| {
        let address = listeners[n].1;
        in_host(pairs[n].0, || TcpStream::connect(address))
    });
    let receivers = listeners.map(|(listener, _)| listener.accept().unwrap().0);
    let end = Instant::now() + time;
    thread::scope(|scope| {
        for mut sender in senders {
            scope.spawn(move || while sender.write_all(&[0; 16 << 10]).is_ok() {});
        }
        let count = |mut receiver: TcpStream| {
            let mut bytes = 0;
            let mut buffer = vec![0; 64 << 10];
            while Instant::now() < end {
                bytes += receiver.read(&mut buffer).unwrap() as u64;
            }
            bytes
        };
        let running = receivers.map(|receiver| scope.spawn(move || count(receiver)));
        running.map(|thread| thread.join().unwrap())
    })
}

#[test]
fn weights_divide_the_bandwidth_between_connections_by_their_ports() {
    if !permitted() {
        return;
    }
    let hosts = [1, 2].map(host);
    let mut network = Network::new();
    let [a, b] = [1, 2].map(|last| network.add_host(address(last)).unwrap());
    let bottleneck = weighted(
        &[1, 2],
        PipeConfig {
            delay: delayed(5).delay,
            ..narrow(20)
        },
    );
    let [there, _] = link(&mut network, a, b, &bottleneck);
    let [light, heavy] = [PORT, PORT + 1].map(|port| {
        network.add_flow(FlowKey {
            from: address(1),
            to: address(2),
            port: Some(port),
        })
    });
    network.set_class(there, light, false, 0);
    network.set_class(there, heavy, false, 1);
    let emulator = Emulator::start(&network, &hosts, EmulatorOptions::default()).unwrap();
    let [a, b] = &hosts;
    let time = Duration::from_secs(4);
    let [light_bytes, heavy_bytes] = transfer([(a, b, PORT), (a, b, PORT + 1)], time);
    let ratio = heavy_bytes as f64 / light_bytes as f64;
    assert!((1.8..2.2).contains(&ratio), "{ratio}");
    let statistics = emulator.stop();
    let received = [light, heavy].map(|flow| statistics.flows[flow.index()]);
    for (counts, bytes) in received.iter().zip([light_bytes, heavy_bytes]) {
        assert!(counts.packets * 1460 > bytes, "{counts:?}, {bytes}");
    }
}

#[test]
fn a_flow_counts_its_data_and_what_is_lost_of_it() {
    if !permitted() {
        return;
    }
    let hosts = [1, 2].map(host);
    let mut network = Network::new();
    let [a, b] = [1, 2].map(|last| network.add_host(address(last)).unwrap());
    let lossy = PipeConfig {
        loss: LossConfig::Bernoulli(0.3),
        ..PipeConfig::default()
    };
    link(&mut network, a, b, &lossy);
    let [one, rest] = [Some(PORT), None].map(|port| {
        network.add_flow(FlowKey {
            from: address(1),
            to: address(2),
            port,
        })
    });
    let emulator = Emulator::start(&network, &hosts, EmulatorOptions::default()).unwrap();
    let [from, to] = hosts.each_ref().map(socket);
    for number in 0..1000u16 {
        let port = PORT + u16::from(number % 4 == 0);
        from.send_to(b"data", (address(2), port)).unwrap();
    }
    // The last packet must have been counted before the end.
    let last = loop {
        from.send_to(b"last", (address(2), PORT)).unwrap();
        to.set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let mut datagram = [0; 4];
        let mut got = || to.recv(&mut datagram).ok().map(|_| datagram == *b"last");
        if let Some(true) = std::iter::from_fn(&mut got).find(|&last| last) {
            break true;
        }
    };
    assert!(last);
    let statistics = emulator.stop();
    let [one, rest] = [one, rest].map(|flow| statistics.flows[flow.index()]);
    assert!(one.packets > 750, "{one:?}");
    assert_eq!(rest.packets, 250);
    let lost = statistics.pipes[0].statistics.random_losses;
    assert_eq!(one.lost + rest.lost, lost);
    // Five standard deviations of 750 draws: 5 sqrt(750 x 0.3 x 0.7) = 63.
    assert!((225 - 63..=225 + 70).contains(&one.lost), "{one:?}");
}
