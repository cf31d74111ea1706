//! Segments that the kernel does not report to the tracer.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::*;

/// For each connection, the segments received and how many of them were skipped, at this moment.
fn look(tracer: &Tracer) -> HashMap<u64, (u64, u64)> {
    // Longer than an acknowledgement is delayed.
    thread::sleep(Duration::from_millis(300));
    tracer.sample().unwrap();
    let mut seen = HashMap::new();
    let each = |event: Event<'_>| {
        if let Event::Sample(sample, _) = event {
            seen.insert(sample.head.id, (sample.segs_in.into(), sample.skipped));
        }
    };
    tracer.take(each).unwrap();
    seen
}

fn trips(stream: &mut TcpStream, peer: &mut TcpStream, count: u32) {
    for _ in 0..count {
        stream.write_all(&[1; 100]).unwrap();
        peer.read_exact(&mut [0; 100]).unwrap();
        peer.write_all(&[1; 100]).unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
    }
}

#[test]
fn segments_of_which_the_kernel_does_not_tell_are_counted() {
    if !fairwind_testing::permitted(check_requirements()) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut tracer = Tracer::attach(&Options {
        filter: Filter {
            ports: vec![listener.local_addr().unwrap().port()],
            ..Filter::default()
        },
        every_ack: true,
        ..Options::default()
    })
    .unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut peer = listener.accept().unwrap().0;
    stream.set_nodelay(true).unwrap();
    peer.set_nodelay(true).unwrap();

    trips(&mut stream, &mut peer, 20);
    let before = look(&tracer);
    assert_eq!(before.len(), 2);
    // Simulates a kernel that skips the program.
    drop(tracer._attached.pop());
    trips(&mut stream, &mut peer, 30);
    let after = look(&tracer);
    let ack = program(&tracer.object, EVERY_ACK, |program| program.attach());
    tracer._attached.push(ack.unwrap());
    trips(&mut stream, &mut peer, 20);
    let end = look(&tracer);

    let mut skipped = 0;
    for (id, (_, counted)) in end {
        let (before, after) = (before[&id], after[&id]);
        assert!(after.0 - before.0 >= 30, "{before:?} {after:?}");
        // A kernel that skips programs by itself may add to it.
        let told = counted - before.1;
        assert!(told >= after.0 - before.0, "{before:?} {after:?} {told}");
        assert!(
            told <= after.0 - before.0 + 2,
            "{before:?} {after:?} {told}"
        );
        skipped += counted;
    }
    assert_eq!(tracer.counts().unwrap().skipped, skipped);
}
