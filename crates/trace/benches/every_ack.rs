//! The cost of a sample on every ACK: processor time of both ends of a connection with and without
//! the trace, alternating, and that of the thread that fetches and writes the samples.
//!
//! Both ends are in one thread, and loopback does the receiver's work in the sender's call, so all
//! that the kernel does for them counts as that thread's time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use fairwind_kernel::thread_cpu_ns;
use fairwind_trace::file::Columns;
use fairwind_trace::filter::Filter;
use fairwind_trace::kernel::{Options, check_requirements};
use fairwind_trace::record::{Limits, Recorder};
use fairwind_trace::session::Session;

/// Messages in each direction per turn; each message brings an ACK.
const TRIPS: u32 = 20_000;
const TURNS: usize = 24;

fn main() {
    if let Err(error) = check_requirements() {
        eprintln!("skipped: {error}");
        return;
    }
    let mut pair = connection();
    turn(&mut pair);
    let mut kernel = Vec::new();
    let mut reader = Vec::new();
    let mut bare = Vec::new();
    for number in 0..TURNS {
        // The order is without, with, with, without.
        let traced_first = number % 2 == 1;
        let before = (!traced_first).then(|| turn(&mut pair));
        let (with, reading, samples) = traced(&mut pair);
        let without = before.unwrap_or_else(|| turn(&mut pair));
        bare.push(without / f64::from(TRIPS));
        kernel.push((with - without) / samples);
        reader.push(reading / samples);
    }
    println!(
        "round trip, both ends, without a trace: {:.0} ns",
        median(&mut bare)
    );
    println!("a sample in the kernel: {}", spread(&mut kernel));
    println!("a sample fetched and written: {}", spread(&mut reader));
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let peer = listener.accept().unwrap().0;
    stream.set_nodelay(true).unwrap();
    peer.set_nodelay(true).unwrap();
    (stream, peer)
}

/// Processor time of a turn, nanoseconds.
fn turn((stream, peer): &mut (TcpStream, TcpStream)) -> f64 {
    let message = [1; 100];
    let began = thread_cpu_ns();
    for _ in 0..TRIPS {
        stream.write_all(&message).unwrap();
        peer.read_exact(&mut [0; 100]).unwrap();
        peer.write_all(&message).unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
    }
    (thread_cpu_ns() - began) as f64
}

/// The same with the trace: time of the turn, time of the reader, and number of samples.
fn traced(pair: &mut (TcpStream, TcpStream)) -> (f64, f64, f64) {
    let options = Options {
        filter: Filter {
            ports: vec![pair.1.local_addr().unwrap().port()],
            ..Filter::default()
        },
        every_ack: true,
        ..Options::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = mpsc::channel();
    let reader = {
        let stop = Arc::clone(&stop);
        let reader = thread::Builder::new().name("reader".to_owned());
        let run = move || {
            let folder = tempfile::tempdir().unwrap();
            let mut recorder =
                Recorder::create(folder.path(), Columns::default(), Limits::default()).unwrap();
            let mut session = Session::start(&options, None).unwrap();
            ready.send(()).unwrap();
            let began = thread_cpu_ns();
            while !stop.load(Ordering::Relaxed) {
                session
                    .step(|event| recorder.event(event).unwrap())
                    .unwrap();
            }
            let (counts, manner) = session
                .finish(|event| recorder.event(event).unwrap())
                .unwrap();
            let (index, _) = recorder.finish(&counts, &manner).unwrap();
            let time = (thread_cpu_ns() - began) as f64;
            assert_eq!(index.lost, 0);
            let samples: u64 = index.connections.iter().map(|c| c.samples).sum();
            (time, samples as f64)
        };
        reader.spawn(run).unwrap()
    };
    is_ready.recv().unwrap();
    let time = turn(pair);
    stop.store(true, Ordering::Relaxed);
    let (reading, samples) = reader.join().unwrap();
    (time, reading, samples)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn spread(values: &mut [f64]) -> String {
    let median = median(values);
    let quarter = values.len() / 4;
    let (low, high) = (values[quarter], values[values.len() - 1 - quarter]);
    format!(
        "{median:.0} ns (half of {} turns: {low:.0} to {high:.0})",
        values.len()
    )
}
