//! Right-sizing as seen on the wire: the server against a peer that sends exactly what a test says, and this
//! project's client and server together.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Client, Running, TIMEOUT, data, eventually, noise};
use fairwind_ftp::assembly::{ClientSetup, client_extensions};
use fairwind_ftp::client::{
    Connection, Credentials, Extension, Features, FileReport, Kept, Options, Place, Retrieval,
    SessionExtension, Storage, third_party,
};
use fairwind_ftp::extension::TransferExtension;
use fairwind_ftp::server::LogTarget;
use fairwind_transfer::{Buffer, Transfer, TransferWatcher};

const TOKEN: &str = "00112233445566778899aabbccddeeff";

/// More than all buffers on the path hold.
const LARGE: usize = 48 << 20;

/// A client that has sent `OPTS DRS`.
fn armed(server: &Running) -> Client {
    let mut client = Client::alice(server);
    client.expect(&format!("OPTS DRS {TOKEN}"), 200);
    client
}

/// The second connection, which starts with `greeting`.
fn channel(address: SocketAddr, greeting: &str) -> (TcpStream, BufReader<TcpStream>) {
    let mut stream = data(address);
    stream.write_all(greeting.as_bytes()).unwrap();
    let lines = BufReader::new(stream.try_clone().unwrap());
    (stream, lines)
}

fn greeting() -> String {
    format!("DRS {TOKEN}\r\n")
}

/// A download of `/large` that stalls until the test reads, with the address for its channel.
fn downloading(server: &Running) -> (Client, TcpStream, SocketAddr) {
    let mut client = armed(server);
    let address = client.passive_address();
    let data = data(address);
    client.expect("RETR large", 150);
    (client, data, address)
}

fn finish(mut client: Client, mut data: TcpStream, content: &[u8]) {
    let mut got = Vec::new();
    data.read_to_end(&mut got).unwrap();
    assert_eq!(client.reply().code, 226);
    assert!(got == content, "{} bytes came", got.len());
}

fn line(lines: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line
}

#[test]
fn right_sizing_is_offered_unless_it_is_off_or_buffers_are_fixed() {
    let offers = |server: Running| {
        let reply = Client::anonymous(&server).expect("FEAT", 211);
        reply.lines.iter().any(|line| line.trim_ascii() == b"DRS")
    };
    assert!(offers(Running::start()));
    assert!(!offers(Running::with(|config| config.drs = false)));
    assert!(!offers(Running::with(|config| {
        config.buffer = Buffer::Fixed(65_536);
    })));
}

#[test]
fn a_sender_echoes_messages_as_they_came_and_ignores_what_is_none() {
    let server = Running::start();
    let content = noise(LARGE);
    server.write("large", &content);
    let (client, data, address) = downloading(&server);
    let (mut stream, mut lines) = channel(address, &greeting());
    let long = "9".repeat(10_000);
    let sent = format!(
        "SBUF 1082714400.50 300000\r\nnonsense\r\nSBUF -1 7\r\nSBUF 1 {long}\r\n\
         sbuf 2 99999999999999999999\nSBUF 3 0\r\n"
    );
    stream.write_all(sent.as_bytes()).unwrap();
    assert_eq!(line(&mut lines), "SBUF 1082714400.50 300000\r\n");
    assert_eq!(line(&mut lines), "sbuf 2 99999999999999999999\n");
    assert_eq!(line(&mut lines), "SBUF 3 0\r\n");
    finish(client, data, &content);
}

#[test]
fn a_peer_that_talks_nonsense_loses_the_channel_and_nothing_else() {
    let server = Running::start();
    let content = noise(LARGE);
    server.write("large", &content);
    let (client, data, address) = downloading(&server);
    let (mut stream, mut lines) = channel(address, &greeting());
    stream
        .write_all("GET / HTTP/1.1\r\n".repeat(40).as_bytes())
        .unwrap();
    let mut rest = Vec::new();
    // The connection is closed, or reset because some data was never read.
    let _ = lines.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    finish(client, data, &content);
}

#[test]
fn a_flood_of_messages_is_answered_at_a_hundred_a_second() {
    const MESSAGE: &str = "SBUF 1.5 300000\r\n";
    /// Messages that are read before they are counted.
    const AT_ONCE: usize = 4_096 / MESSAGE.len() + 1;
    let server = Running::start();
    let content = noise(LARGE);
    server.write("large", &content);
    let (client, data, address) = downloading(&server);
    let begin = Instant::now();
    let (mut stream, mut echoes) = channel(address, &greeting());
    // The buffers may be too small for all of it.
    let flood = thread::spawn(move || stream.write_all(MESSAGE.repeat(10_000).as_bytes()));
    let wait = Some(Duration::from_millis(100));
    echoes.get_ref().set_read_timeout(wait).unwrap();
    let (mut bytes, mut echoed) = ([0; 4_096], 0);
    while echoed < 256 || begin.elapsed() < Duration::from_secs(3) {
        assert!(begin.elapsed() < TIMEOUT, "{echoed} echoes");
        match echoes.read(&mut bytes) {
            Ok(0) => panic!("closed after {echoed} echoes"),
            Ok(count) => echoed += bytes[..count].iter().filter(|b| **b == b'\n').count(),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    let most = 256 + AT_ONCE + (100.0 * begin.elapsed().as_secs_f64()) as usize;
    println!("{echoed} echoes, {most} allowed");
    assert!(echoed <= most);
    echoes.get_ref().shutdown(Shutdown::Both).unwrap();
    let _ = flood.join().unwrap();
    finish(client, data, &content);
}

#[test]
fn a_channel_that_never_comes_or_dies_costs_nothing() {
    let server = Running::start();
    let content = noise(LARGE);
    server.write("large", &content);
    let (client, data, _) = downloading(&server);
    finish(client, data, &content);

    let (client, data, address) = downloading(&server);
    let (mut stream, mut lines) = channel(address, &greeting());
    stream.write_all(b"SBUF 1.5 300000\r\n").unwrap();
    assert_eq!(line(&mut lines), "SBUF 1.5 300000\r\n");
    drop((stream, lines));
    finish(client, data, &content);
}

#[test]
fn strangers_are_turned_away_and_the_peer_is_let_in() {
    let server = Running::start();
    let content = noise(LARGE);
    server.write("large", &content);
    let (client, data, address) = downloading(&server);
    // One connection sends nothing and stays open.
    let silent = crate::common::data(address);
    for wrong in [
        "DRS ffeeddccbbaa99887766554433221100\r\n".to_owned(),
        "\r\n".to_owned(),
        format!("{}\r\n", "x".repeat(1_000)),
    ] {
        let (_stream, mut lines) = channel(address, &wrong);
        let mut rest = Vec::new();
        let _ = lines.read_to_end(&mut rest);
        assert_eq!(rest, b"", "{wrong}");
    }
    let (mut stream, mut lines) = channel(address, &greeting());
    stream.write_all(b"SBUF 1.5 300000\r\n").unwrap();
    assert_eq!(line(&mut lines), "SBUF 1.5 300000\r\n");
    drop(silent);
    finish(client, data, &content);
}

#[test]
fn a_receiver_asks_for_twice_what_comes_in_a_round_trip() {
    let server = Running::start();
    let mut client = armed(&server);
    let address = client.passive_address();
    let mut data = data(address);
    client.expect("STOR upload", 150);
    let (mut stream, mut lines) = channel(address, &greeting());
    let content = noise(8 << 20);
    let mut sizes = Vec::new();
    for piece in content.chunks(64 << 10) {
        data.write_all(piece).unwrap();
        let message = line(&mut lines);
        let words: Vec<&str> = message.trim_end().split(' ').collect();
        assert_eq!((words.len(), words[0]), (3, "SBUF"), "{message}");
        assert!(words[1].contains('.'), "{message}");
        sizes.push(words[2].parse::<u64>().unwrap());
        // Simulates a long round-trip time.
        thread::sleep(Duration::from_millis(20));
        stream.write_all(message.as_bytes()).unwrap();
    }
    drop(data);
    assert_eq!(client.reply().code, 226);
    assert!(server.read("upload") == content);
    assert!(sizes.iter().all(|size| (65_536..=32 << 20).contains(size)));
    // Messages kept coming, although each waited for its echo.
    assert_eq!(sizes.len(), 128);
}

/// Stretches a transfer of [`LARGE`] bytes to a second, so that messages are exchanged during it.
struct Slow;

impl Extension for Slow {
    fn open(&self, _: &Features) -> Option<Box<dyn SessionExtension>> {
        Some(Box::new(Slow))
    }
}

impl TransferExtension for Slow {
    fn watch(&mut self, _: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        Some(Box::new(Pace(Instant::now())))
    }
}

impl SessionExtension for Slow {}

/// Delays each byte to its time on a schedule that starts here.
struct Pace(Instant);

impl TransferWatcher for Pace {
    fn started(&mut self, _: BorrowedFd<'_>, _: Option<u64>) {}

    fn progressed(&mut self, moved: u64) {
        let due = self.0 + Duration::from_secs_f64(moved as f64 / LARGE as f64);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }

    fn ended(&mut self, _: u64) {}
}

/// This project's client; `drs` turns on its right-sizing.
fn connection(server: &Running, path: &str, drs: bool) -> Connection {
    connection_of(server, path, drs, None)
}

/// The same, with a session that waits for it or that it leaves.
fn connection_of(server: &Running, path: &str, drs: bool, kept: Option<Kept>) -> Connection {
    let url = format!("ftp://alice:secret@{}/{path}", server.address);
    let setup = ClientSetup {
        drs,
        advisor: None,
        allow_nocc: Vec::new(),
        buffer: Buffer::Auto,
        background: false,
    };
    let mut extensions = client_extensions(&setup).unwrap();
    extensions.push(Arc::new(Slow));
    let options = Options {
        patience: TIMEOUT,
        extensions,
        kept,
        ..Options::default()
    };
    let place: Place = url.parse().unwrap();
    let credentials = Credentials::find(&place, &|_| None).unwrap();
    Connection::new(place, credentials, options)
}

fn get(server: &Running, target: &Path, drs: bool) -> FileReport {
    get_by(&mut connection(server, "large", drs), target)
}

fn get_by(connection: &mut Connection, target: &Path) -> FileReport {
    let retrieval = Retrieval {
        remote: b"large".to_vec(),
        target: target.into(),
        listed: None,
    };
    retrieval.run(connection, 0).unwrap()
}

#[test]
fn our_own_ends_find_each_other_for_downloads_and_uploads() {
    let server = Running::start();
    server.write("large", noise(LARGE));
    let local = tempfile::tempdir().unwrap();
    let target = local.path().join("large");
    let report = get(&server, &target, true);
    assert!(report.figures["drs_echoes"] >= 1.0, "{:?}", report.figures);
    assert_eq!(report.figures["drs_faults"], 0.0);
    assert_eq!(report.changes[0].what, "receive buffer");

    let storage = Storage {
        source: target,
        remote: b"again".to_vec(),
        present: None,
    };
    let mut connection = connection(&server, "again", true);
    let report = storage.run(&mut connection, 0).unwrap();
    assert!(
        report.figures["drs_messages"] >= 1.0,
        "{:?}",
        report.figures
    );
    assert_eq!(report.changes[0].what, "send buffer");
    assert!(server.read("again") == server.read("large"));
}

#[test]
fn one_end_without_right_sizing_sees_plain_ftp() {
    let server = Running::with(|config| config.drs = false);
    server.write("large", noise(1 << 20));
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("one");
    let report = get(&server, &source, true);
    assert!(report.figures.is_empty() && report.changes.is_empty());
    let storage = Storage {
        source,
        remote: b"again".to_vec(),
        present: None,
    };
    let mut connection = connection(&server, "again", true);
    let report = storage.run(&mut connection, 0).unwrap();
    assert!(report.figures.is_empty() && report.changes.is_empty());
    let server = Running::start();
    server.write("large", noise(1 << 20));
    let report = get(&server, &local.path().join("other"), false);
    assert!(report.figures.is_empty() && report.changes.is_empty());
}

#[test]
fn a_session_is_right_sized_only_for_those_who_go_on_with_it_and_want_that() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let server = Running::with(|config| {
        config.command_log = Some(LogTarget::File(log.path().to_owned()));
    });
    server.write("large", noise(1 << 20));
    let local = tempfile::tempdir().unwrap();
    let kept = Kept::default();
    for (number, drs) in [true, true, false, false, true].into_iter().enumerate() {
        let mut connection = connection_of(&server, "large", drs, Some(kept.clone()));
        get_by(&mut connection, &local.path().join(number.to_string()));
        connection.close();
    }
    kept.end();
    // The log is written behind the replies.
    let log = || std::fs::read_to_string(log.path()).unwrap();
    eventually("the end of the session", || log().contains("\"close\""));
    let log = log();
    let known = ["OPTS DRS OFF", "OPTS DRS", "RETR", "PASS"];
    let known = |line: &str| known.into_iter().find(|command| line.contains(command));
    let order: Vec<&str> = log.lines().filter_map(known).collect();
    let expected = "PASS, OPTS DRS, RETR, OPTS DRS, RETR, OPTS DRS OFF, RETR, RETR, OPTS DRS, RETR";
    assert_eq!(order.join(", "), expected);
}

#[test]
fn two_servers_right_size_what_they_send_each_other() {
    let (one, other) = (Running::start(), Running::start());
    one.write("large", noise(LARGE));
    let mut source = connection(&one, "large", true);
    let mut destination = connection(&other, "copy", true);
    let report = third_party(&mut source, &mut destination, 0).unwrap();
    assert_eq!(report.bytes, LARGE as u64);
    assert!(other.read("copy") == one.read("large"));
}
