//! What the operator sees and ends: the list of sessions, the log of commands, the metrics.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use fairwind_ftp::server::{LogTarget, console};

use crate::common::{Client, Running, eventually, noise};

/// A server with an operator's socket, and where that is.
fn server() -> (Running, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("control");
    let server = Running::with(|config| config.control = Some(control));
    (server, dir)
}

#[test]
fn sessions_are_listed_with_what_they_do_and_can_be_ended() {
    let (server, dir) = server();
    let control = dir.path().join("control");
    let mode = std::fs::metadata(&control).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::File::create(server.path("huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let mut idle = Client::connect(server.address);
    let mut busy = Client::alice(&server);
    let mut data = busy.passive();
    busy.expect("RETR huge", 150);
    data.read_exact(&mut [0; 100_000]).unwrap();

    // What a call of sendfile has moved is known when it returns.
    let mut rows = Vec::new();
    eventually("bytes are counted", || {
        rows = console::sessions(&control).unwrap();
        rows.len() == 2 && rows[1].bytes >= Some(100_000)
    });
    assert_eq!(
        (rows[0].user.as_deref(), rows[0].command.as_deref()),
        (None, None)
    );
    assert_eq!(rows[0].address, idle.stream.local_addr().unwrap().ip());
    let row = &rows[1];
    assert_eq!(row.user.as_deref(), Some("alice"));
    assert_eq!(row.command.as_deref(), Some("RETR huge"));
    assert_eq!(row.file.as_deref(), Some("/huge"));
    assert_eq!(row.direction.as_deref(), Some("sent"));
    assert!(row.rate > Some(0), "{row:?}");

    assert!(console::kill(&control, row.session).unwrap());
    assert_eq!(busy.reply().code, 426);
    assert!(busy.is_closed());
    assert!(console::kill(&control, rows[0].session).unwrap());
    assert_eq!(idle.reply().code, 421);
    assert!(idle.is_closed());
    eventually("the list is empty", || {
        console::sessions(&control).unwrap().is_empty()
    });
    assert!(!console::kill(&control, row.session).unwrap());
}

#[test]
fn sessions_whose_clients_have_quit_can_be_ended_as_well() {
    let (server, dir) = server();
    let control = dir.path().join("control");
    std::fs::File::create(server.path("huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let end = || {
        let mut rows = Vec::new();
        eventually("there is no other session", || {
            rows = console::sessions(&control).unwrap();
            rows.len() == 1
        });
        assert!(console::kill(&control, rows[0].session).unwrap());
    };
    // Whether or not the client has closed its side.
    for leaves in [false, true] {
        let mut client = Client::alice(&server);
        let mut data = client.passive();
        client.raw(b"RETR huge\r\nQUIT\r\n");
        assert_eq!(client.reply().code, 150);
        if leaves {
            client.stream.shutdown(Shutdown::Write).unwrap();
        }
        data.read_exact(&mut [0; 100_000]).unwrap();
        end();
        assert_eq!(client.reply().code, 426);
        assert!(client.is_closed());

        let mut client = Client::alice(&server);
        let mut data = client.passive();
        client.raw(b"STOR x\r\nQUIT\r\n");
        assert_eq!(client.reply().code, 150);
        data.write_all(b"abc").unwrap();
        if leaves {
            client.stream.shutdown(Shutdown::Write).unwrap();
        }
        eventually("it has come", || {
            std::fs::read(server.path(".x.fairwind-part")).is_ok_and(|found| found == b"abc")
        });
        end();
        assert_eq!(client.reply().code, 426);
        assert!(client.is_closed());
        assert_eq!(server.read(".x.fairwind-part"), b"abc");
        assert!(!server.path("x").exists());
    }
}

#[test]
fn the_socket_takes_short_requests_only_and_is_replaced_if_nobody_listens() {
    let (server, dir) = server();
    let control = dir.path().join("control");
    for request in ["nonsense\n".to_owned(), "x".repeat(2_000), "\n".into()] {
        let mut stream = UnixStream::connect(&control).unwrap();
        // The server may have answered before it has read all.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with("{\"wrong\":"),
            "{answer}"
        );
    }
    let mut taken = crate::common::config(server.dir.path());
    taken.control = Some(control.clone());
    let error = fairwind_ftp::assembly::bind_server(taken.clone())
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    drop(server);
    assert!(control.exists());
    taken.root = dir.path().to_owned();
    fairwind_ftp::assembly::bind_server(taken).unwrap();
}

#[test]
fn every_command_is_an_object_in_the_log_and_no_password_is() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut server = Running::with(|config| {
        config.command_log = Some(LogTarget::File(log.clone()));
    });
    let mut client = Client::connect(server.address);
    client.expect("USER alice", 331);
    client.expect("PASS wrong-1", 530);
    client.expect("USER alice", 331);
    client.expect("PASS secret", 230);
    client.expect("secret", 500);
    client.expect("TYPE I", 200);
    assert_eq!(client.give("STOR a \u{1b}b\"", &noise(70_000)).code, 226);
    client.expect("QUIT", 221);
    server.stop();
    let text = std::fs::read_to_string(log).unwrap();
    assert!(
        !text.contains("secret") && !text.contains("wrong-1"),
        "{text}"
    );
    let records: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let commands: Vec<_> = records
        .iter()
        .filter_map(|record| record["command"].as_str())
        .collect();
    assert_eq!(
        commands[..5],
        [
            "USER alice",
            "PASS ****",
            "USER alice",
            "PASS ****",
            "(no command)"
        ]
    );
    assert_eq!(records[0]["event"], "open");
    assert_eq!(records.last().unwrap()["event"], "close");
    let stored = records.iter().find(|record| {
        record["command"]
            .as_str()
            .is_some_and(|command| command.starts_with("STOR"))
    });
    let stored = stored.unwrap();
    assert_eq!(stored["user"], "alice");
    assert_eq!(stored["address"], "127.0.0.1");
    assert_eq!(stored["reply"], 226);
    assert_eq!(stored["bytes"], 70_000);
    assert!(stored["seconds"].as_f64().unwrap() > 0.0);
    assert!(stored["time"].as_str().unwrap().ends_with('Z'));
    assert!(
        !commands
            .iter()
            .any(|command| command.chars().any(char::is_control))
    );
}

fn scrape(address: SocketAddr, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_count_what_happens_and_are_for_this_machine_only() {
    let address = fairwind_testing::free_address();
    let server = Running::with(|config| {
        config.metrics = Some(address);
        config.deny = vec!["127.17.0.0/16".parse().unwrap()];
    });
    let (_, refused) = Client::from(crate::common::loopback(0x10_0001), server.address);
    assert_eq!(refused.code, 421);
    let mut client = Client::connect(server.address);
    client.expect("USER alice", 331);
    client.expect("PASS wrong", 530);
    client.login("alice", "secret");
    assert_eq!(client.give("STOR x", &noise(1_234)).code, 226);
    client.fetch("RETR x");
    client.fetch("RETR x");
    let _stranger = Client::anonymous(&server);
    let text = scrape(address, "Host: localhost\r\n");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for line in [
        "fairwind_ftp_sessions 2",
        "fairwind_ftp_transfers 0",
        "fairwind_ftp_sessions_total 2",
        "fairwind_ftp_refused_total{reason=\"network\"} 1",
        "fairwind_ftp_logins_total{user=\"named\"} 1",
        "fairwind_ftp_logins_total{user=\"anonymous\"} 1",
        "fairwind_ftp_wrong_passwords_total 1",
        "fairwind_ftp_transfers_total{direction=\"sent\",complete=\"true\"} 2",
        "fairwind_ftp_transfers_total{direction=\"received\",complete=\"true\"} 1",
        "fairwind_ftp_bytes_total{direction=\"sent\"} 2468",
        "fairwind_ftp_bytes_total{direction=\"received\"} 1234",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let rebound = scrape(address, "Host: evil.example\r\n");
    assert!(rebound.starts_with("HTTP/1.1 421 "), "{rebound}");
    let page = scrape(
        address,
        "Host: localhost\r\nOrigin: http://evil.example\r\n",
    );
    assert!(page.starts_with("HTTP/1.1 403 "), "{page}");
    let long = format!("Host: localhost\r\nX: {}\r\n", "x".repeat(20_000));
    let mut stream = TcpStream::connect(address).unwrap();
    let _ = write!(stream, "GET /metrics HTTP/1.1\r\n{long}\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn the_systems_log_has_a_record_for_each_command_and_no_password() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = UnixDatagram::bind(&path).unwrap();
    log.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let server = Running::with(|config| config.command_log = Some(LogTarget::Syslog(path.clone())));
    let mut client = Client::connect(server.address);
    client.expect("USER alice", 331);
    client.expect("PASS secret", 230);
    client.expect("PWD", 257);
    let records = [
        ("event", "open"),
        ("command", "USER alice"),
        ("command", "PASS ****"),
        ("command", "PWD"),
    ];
    for (what, value) in records {
        let mut record = [0; 4_096];
        let count = log.recv(&mut record).unwrap();
        let record = std::str::from_utf8(&record[..count]).unwrap();
        assert!(!record.contains("secret"), "{record}");
        // RFC 3164: a priority ahead of it.
        let (head, object) = record.split_at(record.find('{').unwrap());
        assert!(head.starts_with('<') && head.contains('>'), "{record}");
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        assert_eq!(object[what], value, "{record}");
    }
}
