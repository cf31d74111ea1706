//! Clients that keep the service waiting, and more connections than it allows.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use fairwind_advisor::http::Limits;

use crate::support::process::Process;
use crate::support::{Running, curl};

/// Limits short enough for tests.
fn limits() -> Limits {
    Limits {
        connections: 2,
        head: Duration::from_millis(400),
        ..Limits::default()
    }
}

fn connect(service: &Running) -> TcpStream {
    let address = service.url.strip_prefix("http://").unwrap();
    let stream = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).unwrap();
    stream
}

/// Reads until the service closes the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    match stream.read_to_end(&mut text) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => String::from_utf8(text).unwrap(),
    }
}

#[test]
fn a_head_that_does_not_come_to_an_end_is_not_waited_for_and_keeps_nobody_waiting() {
    let head = Duration::from_secs(3);
    let service = Running::with(|options| options.limits = Limits { head, ..limits() });
    let mut stream = connect(&service);
    let begin = Instant::now();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost")
        .unwrap();
    assert_eq!(curl(&[&format!("{}/healthz", service.url)]), "ok\n");
    stream.set_nonblocking(true).unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "the other came first");
    stream.set_nonblocking(false).unwrap();
    let text = rest(&mut stream);
    assert!(!text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(begin.elapsed() >= Duration::from_millis(2_900));
}

#[test]
fn a_body_that_does_not_come_to_an_end_is_answered_by_408() {
    let answer = Duration::from_millis(400);
    let service = Running::with(|options| options.limits = Limits { answer, ..limits() });
    let mut stream = connect(&service);
    let head = "POST /v1/transfers HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    let text = rest(&mut stream);
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    assert!(
        text.ends_with("{\"error\":\"no answer within 0.4 s\"}"),
        "{text}"
    );
}

#[test]
fn silent_connections_give_way_to_one_that_asks() {
    let service = Running::with(|options| options.limits = limits());
    let silent: Vec<TcpStream> = (0..8).map(|_| connect(&service)).collect();
    assert_eq!(curl(&[&format!("{}/healthz", service.url)]), "ok\n");
    drop(silent);
}

#[test]
fn the_service_ends_although_a_connection_stays_open() {
    let service = Running::with(|_| {});
    let mut stream = connect(&service);
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut first = [0; 15];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    let begin = Instant::now();
    drop(service);
    assert!(
        begin.elapsed() < Duration::from_secs(8),
        "{:?}",
        begin.elapsed()
    );
}

/// A service at a TCP port and a Unix socket; returns the path of the latter.
fn with_socket(place: &Path, limits: Limits) -> (Running, String) {
    let socket = place.join("advisor.sock").to_str().unwrap().to_owned();
    let listen = format!("unix:{socket}").parse().unwrap();
    let service = Running::with(|options| {
        options.config.listen.push(listen);
        options.limits = limits;
    });
    (service, socket)
}

fn health_by(socket: &str) -> String {
    let url = "http://localhost/healthz";
    curl(&["--max-time", "15", "--unix-socket", socket, url])
}

#[test]
fn whoever_fills_one_door_keeps_nobody_from_another() {
    let place = tempfile::tempdir().unwrap();
    let head = Duration::from_secs(120);
    let limits = Limits {
        connections: 4,
        head,
        ..limits()
    };
    let (service, socket) = with_socket(place.path(), limits);
    let silent: Vec<TcpStream> = (0..8).map(|_| connect(&service)).collect();
    let others: Vec<_> = (0..3).map(|_| UnixStream::connect(&socket)).collect();
    // Long enough for the service to accept them.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(health_by(&socket), "ok\n");
    drop((silent, others));
}

#[test]
fn the_service_has_descriptors_for_all_connections_that_it_may_have() {
    let state = tempfile::tempdir().unwrap();
    let service = Process::start_with_descriptors(state.path(), 128);
    let limits = format!("/proc/{}/limits", service.id());
    let files = || {
        let text = std::fs::read_to_string(&limits).unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files"));
        let soft = line.unwrap().split_whitespace().nth(3).unwrap();
        soft.parse::<u32>().unwrap()
    };
    // 1,024 for the connections of the one socket, and 256 for other purposes.
    assert!(fairwind_testing::eventually(|| files() == 1_280));
}

#[test]
fn a_client_of_the_socket_that_takes_nothing_of_its_answers_is_cut_off() {
    let place = tempfile::tempdir().unwrap();
    let limits = Limits {
        connections: 1,
        unread: Duration::from_millis(400),
        ..Limits::default()
    };
    let (_service, socket) = with_socket(place.path(), limits);
    let mut stream = UnixStream::connect(&socket).unwrap();
    // More answers than the kernel buffers for a client.
    let asked = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
    stream.write_all(&asked).unwrap();
    assert_eq!(health_by(&socket), "ok\n");
    drop(stream);
}
