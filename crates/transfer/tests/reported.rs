//! A sender's report of what limited its transfers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use fairwind_testing::advisor::{Reply, TestAdvisor, advice};
use fairwind_testing::wait_until;
use fairwind_transfer::{Direction, TransferWatcher};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::common::{follow, transfer};

/// The report of a transfer over loopback, in which `receive` takes all that `send` sends; `send` returns the
/// number of its bytes.
fn reported(
    direction: Direction,
    send: impl FnOnce(&mut TcpStream) -> u64,
    receive: impl FnOnce(&mut TcpStream) + Send + 'static,
) -> Value {
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(3600.0, json!({})))]);
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // A small window that fills quickly; connections inherit it.
    listener.set_recv_buffer_size(16 << 10).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(1).unwrap();
    let listener = TcpListener::from(listener);
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let transfer = transfer(&near, direction, None);
    let mut follower = follow(&advisor.url(), &[]).watch(&transfer);
    follower.started(near.as_fd(), None);
    wait_until("asked", || !advisor.asked().is_empty());
    let receiving = thread::spawn(move || {
        receive(&mut far);
        far
    });
    let sent = send(&mut near);
    let _far = receiving.join().unwrap();
    follower.ended(sent);
    wait_until("told", || !advisor.results().is_empty());
    advisor.results()[0].clone()
}

fn seconds(report: &Value, name: &str) -> f64 {
    let seconds = report["limited"][name].as_f64();
    seconds.unwrap_or_else(|| panic!("{name}: {report}"))
}

fn take(far: &mut TcpStream, bytes: usize) {
    far.read_exact(&mut vec![0; bytes]).unwrap();
}

#[test]
fn a_sender_whose_receiver_takes_nothing_says_so() {
    const BYTES: usize = 8 << 20;
    let report = reported(
        Direction::Send,
        |near| {
            near.write_all(&vec![0; BYTES]).unwrap();
            BYTES as u64
        },
        |far| {
            // From when the sender has begun.
            far.peek(&mut [0]).unwrap();
            thread::sleep(Duration::from_millis(1_500));
            take(far, BYTES);
        },
    );
    // The window fills long before the receiver starts to read; the network is never the limit.
    let receiver = seconds(&report, "receiver_s");
    assert!(receiver > 0.4, "{report}");
    assert!(receiver > seconds(&report, "network_s"), "{report}");
}

#[test]
fn a_sender_with_hardly_anything_to_send_says_so() {
    let report = reported(
        Direction::Send,
        |near| {
            for _ in 0..20 {
                near.write_all(&[0; 100]).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
            2_000
        },
        |far| take(far, 2_000),
    );
    assert_eq!(report["bytes"], 2_000);
    let sender = seconds(&report, "sender_s");
    let all = report["seconds"].as_f64().unwrap();
    assert!(sender > 0.5 * all, "{report}");
}

#[test]
fn a_receiver_does_not_know() {
    // The followed near end receives here.
    let report = reported(
        Direction::Receive,
        |near| {
            take(near, 1_000);
            1_000
        },
        |far| far.write_all(&[0; 1_000]).unwrap(),
    );
    assert_eq!(report["direction"], "received");
    assert_eq!(report["limited"], Value::Null);
}
