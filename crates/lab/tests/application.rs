//! Applications over the emulator, on the running kernel. Needs root, as `exec.rs` does.

mod lab;

use fairwind_lab::application::Application;
use fairwind_path::units::{Bytes, Duration};

use lab::{Lab, link, permitted, plan};

/// What is left of a packet of 1500 bytes behind the headers of IP and TCP with time stamps.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;

#[test]
fn a_bulk_transfer_delivers_every_byte_and_completes() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(50, 5));
    let bulk = Application::Bulk {
        bytes: Some(Bytes(5_000_000)),
    };
    let outcome = lab.run_one(plan(&lab, bulk), Duration::ZERO, Duration::from_secs(4));
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.bytes, 5_000_000);
    assert_eq!(outcome.objects, 1);
    let completion = outcome.completion.unwrap().as_secs_f64();
    // 5 MB with headers take 0.83 s, and slow start some round trips of 10 ms.
    assert!(completion > 0.84, "{completion}");
    assert_eq!(outcome.active, outcome.completion.unwrap());
    assert!(outcome.packets_sent >= 3454, "{}", outcome.packets_sent);
    assert!(outcome.rtt_min.unwrap() >= Duration::from_millis(10));
}

#[test]
fn a_bulk_flow_fills_the_link_after_the_warmup() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(100, 5));
    let bulk = Application::Bulk { bytes: None };
    let outcome = lab.run_one(
        plan(&lab, bulk),
        Duration::from_secs(1),
        Duration::from_secs(4),
    );
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.active, Duration::from_secs(3));
    assert_eq!(outcome.completion, None);
    assert_eq!(outcome.bytes_per_second.len(), 3);
    assert_eq!(outcome.bytes_per_second.iter().sum::<u64>(), outcome.bytes);
    let share = outcome.bytes as f64 * 8.0 / 3.0 / 100e6 / PAYLOAD_SHARE;
    assert!((0.9..1.001).contains(&share), "{share}");
    let most = (3.1 * 100e6 / 8.0 / 1500.0) as u64;
    assert!(outcome.packets_sent < most, "{}", outcome.packets_sent);
}
