//! The client against well-behaved, failing and malicious servers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use fairwind_advice::wire::{Direction, Limited, TransferReport};
use fairwind_advice_client::{Client, ClientError};

const ADVICE: &str = r#"{"mode":"no-congestion-control","congestion_control":"nocc",
    "available_mbps":45.5,"interval_mbps":[44.0,47.0],"rtt_ms":50.0,"send_buffer_bytes":625000,
    "receive_buffer_bytes":625000,"pacing_mbps":null,"threshold_mbps":42.0,
    "next_advice":"2026-03-02T14:05:00Z","model":"linear","days_used":63,"r_squared":0.5,
    "reason":"because","path":"argonne","ask_again_after_s":5.0}"#;

/// Serves one connection with `answer`; the thread returns the request.
fn server(answer: Vec<u8>) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let asked = request(&mut stream);
        let _ = stream.write_all(&answer);
        asked
    });
    (url, thread)
}

fn request(stream: &mut TcpStream) -> String {
    let mut asked = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).unwrap();
        asked.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&asked).into_owned();
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
        let length = text
            .lines()
            .find_map(|line| {
                line.to_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            })
            .unwrap_or(0);
        if read == 0 || body.is_some_and(|body| body >= length) {
            return text;
        }
    }
}

fn http(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into()
}

#[test]
fn advice_is_read() {
    let (url, server) = server(http("200 OK", ADVICE));
    let answer = Client::new(&url)
        .unwrap()
        .advice("2001:db8::7", Some(16_000_000_000))
        .unwrap();
    assert_eq!(answer.advice.available_mbps, Some(45.5));
    assert_eq!(answer.advice.congestion_control.as_deref(), Some("nocc"));
    assert_eq!(answer.path.as_deref(), Some("argonne"));
    assert_eq!(answer.ask_again_after(), Duration::from_secs(5));
    let asked = server.join().unwrap();
    let line = asked.lines().next().unwrap();
    assert_eq!(
        line,
        "GET /v1/advice?host=2001%3Adb8%3A%3A7&bytes=16000000000 HTTP/1.1"
    );
}

#[test]
fn a_transfer_is_reported() {
    let (url, server) = server(http("201 Created", r#"{"path":"argonne"}"#));
    let transfer = TransferReport {
        host: "192.0.2.7".to_owned(),
        bytes: 1_000,
        seconds: 2.0,
        retransmits: None,
        rtt_ms: Some(50.0),
        limited: Some(Limited {
            network_s: 1.5,
            receiver_s: 0.25,
            sender_s: 0.25,
        }),
        direction: Direction::Sent,
    };
    Client::new(&url).unwrap().report(&transfer).unwrap();
    let asked = server.join().unwrap();
    assert!(asked.starts_with("POST /v1/transfers HTTP/1.1"), "{asked}");
    let body = r#"{"host":"192.0.2.7","bytes":1000,"seconds":2.0,"rtt_ms":50.0,"limited":{"network_s":1.5,"receiver_s":0.25,"sender_s":0.25},"direction":"sent"}"#;
    assert!(asked.ends_with(body), "{asked}");
}

#[test]
fn the_sentence_of_a_refusal_is_passed_on() {
    let (url, _server) = server(http("404 Not Found", r#"{"error":"no such path"}"#));
    let error = Client::new(&url).unwrap().advice("h", None).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{url}/v1/advice?host=h: 404 no such path")
    );
}

#[test]
fn nonsense_is_an_error() {
    for answer in [
        http("200 OK", "{}"),
        http("200 OK", "<html>"),
        b"gibberish\r\n\r\n".to_vec(),
    ] {
        let (url, _server) = server(answer);
        assert!(Client::new(&url).unwrap().advice("h", None).is_err());
    }
}

#[test]
fn an_advisor_that_does_not_answer_costs_no_more_than_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::new(&url)
        .unwrap()
        .with_deadline(Duration::from_millis(200));
    let begin = Instant::now();
    let error = client.advice("h", None).unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn an_answer_that_never_ends_is_cut_by_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let client = Client::new(&url)
        .unwrap()
        .with_deadline(Duration::from_millis(300));
    let begin = Instant::now();
    assert!(client.advice("h", None).is_err());
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn what_is_no_address_of_an_advisor_is_refused() {
    for url in [
        "ftp://x",
        "http://",
        "https://",
        "unix:",
        "a b",
        "garbage",
        "http://10.0.0.1:99999",
        "http://10.0.0.1:0",
        "http://10.0.0.1:",
        "[::1]",
        "[::1]:99999",
    ] {
        assert!(
            matches!(Client::new(url), Err(ClientError::Url(_))),
            "{url}"
        );
    }
    assert_eq!(
        Client::new("localhost:8649/").unwrap().url(),
        "http://localhost:8649"
    );
    for url in [
        "http://a",
        "https://a:8649/x",
        "http://8:8",
        "[::1]:8649",
        "http://u@a:1",
    ] {
        assert!(Client::new(url).is_ok(), "{url}");
    }
}

#[test]
fn an_advisor_cannot_make_anybody_ask_without_pause_or_never() {
    for (said, expected) in [("0", 100), ("-5", 100), ("1e300", 86_400_000)] {
        let advice = ADVICE.replace(
            "\"ask_again_after_s\":5.0",
            &format!("\"ask_again_after_s\":{said}"),
        );
        let (url, _server) = server(http("200 OK", &advice));
        let answer = Client::new(&url).unwrap().advice("h", None).unwrap();
        assert_eq!(
            answer.ask_again_after(),
            Duration::from_millis(expected),
            "{said}"
        );
    }
}
