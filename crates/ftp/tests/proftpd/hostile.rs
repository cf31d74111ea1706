//! Advisors that are gone, slow or wrong: they cost a transfer nothing but a bounded time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_testing::advisor::{Reply, TestAdvisor};
use fairwind_testing::{ProftpdFolder, free_address, or_skip, wait_until};

use super::{LARGE, NEVER, advice, alice, asking, fetch, json, noise, other_control, read_all};

/// An advisor that treats each connection so, with its number.
fn advisor(treat: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (treat, count) = (Arc::new(treat), AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (treat, number) = (Arc::clone(&treat), count.fetch_add(1, Ordering::Relaxed));
            thread::spawn(move || treat(number, &mut stream.unwrap()));
        }
    });
    address
}

/// What an advisor sends, whatever is asked.
fn saying(bytes: Vec<u8>) -> SocketAddr {
    advisor(move |_, stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&bytes);
    })
}

fn response(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn sound() -> Vec<u8> {
    response(&advice(1.0, json!({ "congestion_control": other_control() })).to_string())
}

/// Downloads beside this advisor, and checks that the log has this reason.
#[track_caller]
fn harmless(at: SocketAddr, reason: &str) {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let patience = match reason.contains("no answer") {
        true => "FairwindTimeout 150",
        false => "",
    };
    let server = asking(&folder, &format!("http://{at}"), patience);
    let bytes = noise(2_000_000);
    folder.serve("x", &bytes);
    let mut client = alice(server.address);
    let begin = Instant::now();
    for _ in 0..5 {
        assert!(fetch(&mut client, "RETR x") == bytes);
    }
    // One of the five has asked; a busy machine may be slow besides.
    assert!(
        begin.elapsed() < Duration::from_secs(15),
        "{:?}",
        begin.elapsed()
    );
    let log = folder.text("fairwind.log");
    let line =
        format!("no advice from {at}, transfers continue with the kernel's defaults: {reason}\n");
    assert_eq!(log.matches(&line).count(), 1, "{line}{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn one_that_is_gone() {
    harmless(free_address(), "Connection refused");
}

#[test]
fn one_that_never_answers() {
    let at = advisor(|_, stream| drop(stream.read_to_end(&mut Vec::new())));
    harmless(at, "no answer within 150 ms");
}

#[test]
fn one_that_answers_a_byte_at_a_time() {
    let at = advisor(|_, stream| {
        for byte in sound() {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    });
    harmless(at, "no answer within 150 ms");
}

#[test]
fn one_that_closes_the_connection() {
    harmless(
        advisor(|_, stream| drop(stream.read(&mut [0; 4096]))),
        "its answer ends too early",
    );
}

#[test]
fn one_that_breaks_off() {
    let mut bytes = sound();
    bytes.truncate(bytes.len() - 1);
    harmless(saying(bytes), "its answer ends too early");
}

#[test]
fn one_that_never_ends() {
    let at = advisor(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"reason\":\"");
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
    });
    harmless(at, "its answer is too long");
}

#[test]
fn one_that_is_something_else() {
    harmless(
        saying(b"220 smtp.example.org\r\n".to_vec()),
        "what answers does not speak HTTP",
    );
    harmless(saying(vec![0xff; 5000]), "what answers does not speak HTTP");
    harmless(
        saying(response("<html>")),
        "its answer is not the JSON of an advisor",
    );
    let error = b"HTTP/1.1 503 Oh\r\ncontent-length: 2\r\n\r\n{}".to_vec();
    harmless(saying(error), "it answers with status 503");
}

#[test]
fn one_whose_values_cannot_be_meant() {
    for (change, reason) in [
        (
            json!({ "send_buffer_bytes": 1u64 << 40 }),
            "send buffer of 1099511627776 bytes",
        ),
        (json!({ "pacing_mbps": 0.001 }), "pacing at 0.001 Mbit/s"),
        (
            json!({ "congestion_control": "cubic\n; reboot" }),
            "its congestion control has no name that one can have",
        ),
        (
            json!({ "mode": "no-congestion-control" }),
            "congestion control is to be off, but nothing is to replace it",
        ),
        (json!({ "mode": "warp" }), "the mode is unknown"),
    ] {
        harmless(saying(response(&advice(1.0, change).to_string())), reason);
    }
}

/// ProFTPD counts the second that has passed when the timer is set.
#[test]
fn one_whose_first_answer_takes_more_than_a_second_is_asked_again_in_time() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let late = Arc::new(Barrier::new(2));
    let other = advice(1.0, json!({ "congestion_control": other_control() }));
    let advisor = TestAdvisor::answering(vec![
        Reply::Held(Arc::clone(&late), other),
        Reply::Advice(advice(NEVER, json!({}))),
    ]);
    let server = asking(&folder, &advisor.url(), "");
    let bytes = noise(LARGE);
    folder.serve("x", &bytes);
    let mut client = alice(server.address);
    let data = client.passive();
    client.expect("RETR x", 150);
    thread::sleep(Duration::from_millis(1_300));
    late.wait();
    wait_until("asked again", || advisor.asked().len() == 2);
    assert!(read_all(data) == bytes);
    assert_eq!(client.reply().code, 226);
}

/// Its answers, good and bad, change with every question.
#[test]
fn two_hundred_transfers_outlast_one_that_comes_and_goes() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let brief = json!({ "congestion_control": other_control() });
    let brief = response(&advice(0.1, brief).to_string());
    let at = advisor(move |number, stream| {
        let _ = stream.read(&mut [0; 4096]);
        match number % 6 {
            0 | 3 => drop(stream.write_all(&brief)),
            1 => {}
            2 => drop(stream.write_all(b"HTTP/1.1 500 Oh\r\n\r\n")),
            4 => drop(stream.write_all(&response("{}"))),
            _ => thread::sleep(Duration::from_secs(1)),
        }
    });
    let lines =
        "FairwindMinimumBytes 0\nFairwindTimeout 500\nMaxClients none\nMaxClientsPerHost none";
    let server = asking(&folder, &format!("http://{at}"), lines);
    let bytes = noise(3_000_000);
    folder.serve("x", &bytes);
    thread::scope(|scope| {
        for session in 0..20 {
            let (bytes, address) = (&bytes, server.address);
            scope.spawn(move || {
                let mut client = alice(address);
                for number in 0..5 {
                    assert!(fetch(&mut client, "RETR x") == *bytes);
                    let name = format!("STOR y-{session}-{number}");
                    assert_eq!(client.give(&name, &bytes[..500_000]).code, 226);
                }
            });
        }
    });
    for session in 0..20 {
        for number in 0..5 {
            let stored = std::fs::read(folder.path(&format!("there/y-{session}-{number}")));
            assert!(stored.unwrap() == bytes[..500_000]);
        }
    }
    let log = folder.text("fairwind.log");
    assert!(log.contains(": because the test says so\n"), "{log}");
    assert!(log.contains("no advice from "), "{log}");
}
