//! Block mode (RFC 959, section 3.4.2) under TLS: one handshake for all files of a data connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use fairwind_ftp::protocol::Reply;
use fairwind_ftp::protocol::host_port::{format_port, parse_passive_reply};
use rustls::{SupportedProtocolVersion, version};

use super::flood::process;
use super::{Authority, Secure, Server, Tls, tls};
use crate::blocks::{LARGEST, Speaks, block, get, in_blocks, is_closed, put, read_file, share};
use crate::common::{Client, eventually, listening, noise};

/// A server that closes no connection because it is idle, with the file `x`.
fn serving() -> Server {
    let server = Server::configured(|config| config.limits.connect_s = 600);
    server.running.write("x", "abc");
    server
}

/// alice, in block mode.
fn alice(server: &Server) -> Secure {
    let mut client = Secure::alice(server);
    client.expect("MODE B", 200);
    client
}

impl Speaks for Secure {
    fn expect(&mut self, line: &str, code: u16) -> Reply {
        self.expect(line, code)
    }

    fn reply(&mut self) -> Reply {
        self.reply()
    }
}

/// A client whose protected data connection has been used once.
fn with_kept_connection(server: &Server) -> (Secure, Tls) {
    let mut client = alice(server);
    let mut data = client.protected();
    assert_eq!(get(&mut client, &mut data, "RETR x", 150), b"abc");
    (client, data)
}

/// The session is as good as a new one.
fn goes_on(client: &mut Secure) {
    let mut data = client.protected();
    assert_eq!(get(client, &mut data, "RETR x", 150), b"abc");
    assert_eq!(get(client, &mut data, "RETR x", 125), b"abc");
    client.expect("MODE S", 200);
    assert_eq!(client.fetch("RETR x"), b"abc");
}

#[test]
fn files_of_all_sizes_go_both_ways_over_one_protected_connection() {
    let server = serving();
    let content = noise(1 << 20);
    let versions: [&'static SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    for version in versions {
        let mut client = Secure::alice_as(&server, server.authority.client(&[version]));
        client.expect("MODE B", 200);
        let mut data = client.protected();
        let mut opening = 150;
        for size in [0, 1, LARGEST, LARGEST + 1, 1 << 20] {
            server.running.write("down", &content[..size]);
            let got = get(&mut client, &mut data, "RETR down", opening);
            assert!(got == content[..size], "{size}");
            let sent = in_blocks(&content[..size], 50_000);
            assert_eq!(put(&mut client, &mut data, "STOR up", 125, &sent), 250);
            assert!(server.running.read("up") == content[..size], "{size}");
            opening = 125;
        }
        let names = get(&mut client, &mut data, "NLST", 125);
        assert_eq!(names, b"down\r\nup\r\nx\r\n");
        client.expect("RETR missing", 550);
        assert_eq!(get(&mut client, &mut data, "RETR x", 125), b"abc");
    }
}

#[test]
fn files_that_are_asked_for_or_sent_at_once_are_told_apart() {
    let server = serving();
    let content = noise(300_000);
    server.running.write("large", &content);
    let (listener, port) = listening("127.0.0.1");
    let mut client = alice(&server);
    client.expect(&format!("PORT {port}"), 200);
    client.raw(
        "RETR x\r\nRETR large\r\nRETR gone\r\n"
            .repeat(10)
            .as_bytes(),
    );
    let mut data = tls(listener.accept().unwrap().0, &client.config);
    for _ in 0..10 {
        assert_eq!(read_file(&mut data).unwrap(), b"abc");
        assert!(read_file(&mut data).unwrap() == content);
    }
    let codes: Vec<u16> = (0..50).map(|_| client.reply().code).collect();
    assert_eq!(codes[..5], [150, 250, 125, 250, 550]);
    assert_eq!(codes[5..], [125, 250, 125, 250, 550].repeat(9));
    let mut sent = Vec::new();
    for number in 0..20 {
        client.raw(format!("STOR f{number}\r\n").as_bytes());
        sent.extend(in_blocks(&content[..number * 1_000], 300));
    }
    data.write_all(&sent).unwrap();
    for number in 0..20 {
        assert_eq!([client.reply().code, client.reply().code], [125, 250]);
        let name = format!("f{number}");
        assert!(server.running.read(&name) == content[..number * 1_000]);
    }
}

#[test]
fn blocks_may_come_in_records_of_a_byte() {
    let server = serving();
    let mut client = alice(&server);
    let mut data = client.protected();
    data.sock.set_nodelay(true).unwrap();
    for opening in [150, 125] {
        client.expect("STOR y", opening);
        for byte in in_blocks(b"abcdefgh", 3) {
            data.write_all(&[byte]).unwrap();
            data.flush().unwrap();
        }
        assert_eq!(client.reply().code, 250);
        assert_eq!(server.running.read("y"), b"abcdefgh");
        client.expect("DELE y", 250);
    }
}

/// RFC 4217: what PROT says holds for data connections that are opened from then on.
#[test]
fn a_connection_is_not_kept_for_another_level_of_protection() {
    let server = serving();
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("PROT C", 200);
    assert!(is_closed(&mut data));
    client.expect("RETR x", 425);
    let mut plain = client.passive();
    client.expect("RETR x", 150);
    assert_eq!(read_file(&mut plain).unwrap(), b"abc");
    assert_eq!(client.reply().code, 250);
    client.expect("PROT P", 200);
    assert!(is_closed(&mut plain));
    client.expect("RETR x", 425);
    goes_on(&mut client);
    for command in ["PROT P", "SSCN ON", "SITE PEER OFF", "EPSV", "MODE B"] {
        let (mut client, mut data) = with_kept_connection(&server);
        client.say(command);
        assert!(is_closed(&mut data), "{command}");
    }
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("REIN", 220);
    assert!(is_closed(&mut data));
    client.expect("PBSZ 0", 200);
    client.expect("PROT P", 200);
    client.login();
    client.expect("RETR x", 425);
    client.expect("MODE B", 200);
    goes_on(&mut client);
}

#[test]
fn where_tls_is_required_blocks_are_protected_too() {
    let server = Server::with(|tls| tls.required = true);
    server.running.write("x", "abc");
    let mut client = Secure::explicit(&server, server.stranger());
    client.login();
    client.expect("MODE B", 200);
    let _waiting = client.passive();
    client.expect("RETR x", 521);
    client.expect("STOR y", 521);
    client.expect("PBSZ 0", 200);
    client.expect("PROT P", 200);
    goes_on(&mut client);
}

#[test]
fn an_upload_that_ends_without_its_last_block_can_be_resumed() {
    let server = serving();
    let content = noise(100_000);
    let cut = block(0, &content[..60_000]);
    for (sent, kept, is_in_order) in [
        (&cut[..], 60_000, true),
        (&cut[..], 60_000, false),
        (&cut[..30_003], 30_000, true),
        (&cut[..30_003], 30_000, false),
    ] {
        let (mut client, mut data) = with_kept_connection(&server);
        client.expect("STOR y", 125);
        data.write_all(sent).unwrap();
        if is_in_order {
            data.conn.send_close_notify();
        }
        data.flush().unwrap();
        data.sock.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.reply().code, 426);
        assert!(!server.running.path("y").exists());
        assert_eq!(client.expect("SIZE y", 213).text(), kept.to_string());
        client.expect("STOR y", 425);
        client.expect("MODE S", 200);
        client.expect(&format!("REST {kept}"), 350);
        let rest = client.give("STOR y", &content[kept..], super::End::InOrder);
        assert_eq!(rest.code, 226);
        assert!(server.running.read("y") == content);
        client.expect("DELE y", 250);
    }
}

#[test]
fn a_client_that_has_ended_the_connection_is_told_so() {
    let server = serving();
    for is_in_order in [true, false] {
        for command in ["RETR x", "STOR y", "LIST"] {
            let (mut client, mut data) = with_kept_connection(&server);
            if is_in_order {
                data.conn.send_close_notify();
                data.flush().unwrap();
            }
            drop(data);
            client.expect(command, 425);
            goes_on(&mut client);
        }
    }
    assert!(!server.running.path("y").exists());
}

#[test]
fn abor_ends_a_protected_file_without_its_end() {
    let server = serving();
    server.running.write("large", noise(30_000_000));
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("RETR large", 125);
    let mut first = vec![0; 3 + LARGEST];
    data.read_exact(&mut first).unwrap();
    client.raw(b"ABOR\r\nRETR x\r\n");
    let codes = [(); 3].map(|()| client.reply().code);
    assert_eq!(codes, [426, 226, 425]);
    let error = read_file(&mut data).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    goes_on(&mut client);
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("ABOR", 226);
    assert!(is_closed(&mut data));
    goes_on(&mut client);
}

#[test]
fn bytes_in_clear_on_a_kept_connection_are_no_upload() {
    let server = serving();
    let (mut client, data) = with_kept_connection(&server);
    client.raw(b"STOR y\r\n");
    assert_eq!(client.reply().code, 125);
    (&data.sock).write_all(&in_blocks(b"clear", 9)).unwrap();
    assert_eq!(client.reply().code, 426);
    assert!(!server.running.path("y").exists());
    client.expect("STOR y", 425);
    goes_on(&mut client);
}

/// Another server is known by its handshake: each file has its own.
#[test]
fn servers_that_know_each_other_have_a_connection_for_each_file() {
    let server = serving();
    let content = noise(200_000);
    server.running.write("large", &content);
    let mut ends = [alice(&server), alice(&server)];
    let keys = ends
        .each_mut()
        .map(|end| end.expect("SITE PEER", 200).text());
    for (end, key) in ends.iter_mut().zip(keys.iter().rev()) {
        end.expect(&format!("SITE PEER {key}"), 200);
    }
    let [source, target] = &mut ends;
    source.expect("SSCN ON", 200);
    let begin = Instant::now();
    for name in ["x", "large", "x"] {
        let at = parse_passive_reply(&target.expect("PASV", 227).text());
        let Ok(SocketAddr::V4(at)) = at else {
            panic!("IPv4 only");
        };
        source.expect(&format!("PORT {}", format_port(at)), 200);
        target.raw(b"STOR copy\r\n");
        source.raw(format!("RETR {name}\r\n").as_bytes());
        for end in [&mut *source, &mut *target] {
            assert_eq!([end.reply().code, end.reply().code], [150, 226]);
        }
        assert!(server.running.read("copy") == server.running.read(name));
        source.expect("RETR x", 425);
        target.expect("STOR copy", 425);
    }
    // Neither waits for the other to say more.
    assert!(begin.elapsed() < Duration::from_secs(5), "{begin:?}");
    source.expect("SSCN OFF", 200);
    for end in &mut ends {
        end.expect("SITE PEER OFF", 200);
        goes_on(end);
    }
}

#[test]
fn protected_connections_that_wait_take_little_memory() {
    const SESSIONS: usize = 100;
    /// More than this a session has not taken for its connection, KiB: most of it is [`Protected`]'s for what it reads.
    ///
    /// [`Protected`]: ../../src/tls/stream.rs
    const EACH: u64 = 64;
    let authority = Authority::new();
    let (dir, server) = process(
        &authority,
        "handshakes_per_minute = 0\n\
         [limits]\nconnect_s = 600\nsessions_per_address = 1000\n\
         [[access]]\npath = \"/\"\nusers = [\"anonymous\"]\nrights = [\"list\", \"read\", \"create\", \"write\"]\n",
    );
    let content = noise(1 << 20);
    std::fs::write(dir.path().join("x"), &content).unwrap();
    let own = server.own_descriptors();
    let mut sessions: Vec<Secure> = (0..SESSIONS)
        .map(|_| {
            let mut plain = Client::connect(server.address);
            plain.expect("AUTH TLS", 234);
            // Tickets of other sessions are of no use.
            let config = authority.client(&[&version::TLS13]);
            let mut session = Secure::over(plain.stream, config);
            session.expect("USER anonymous", 331);
            session.expect("PASS me@example.org", 230);
            session.expect("TYPE I", 200);
            session.expect("PBSZ 0", 200);
            session.expect("PROT P", 200);
            assert!(session.fetch("RETR x") == content);
            session
        })
        .collect();
    let mut kept = share(&server, &mut sessions, &content, EACH, Secure::protected);
    drop(sessions);
    eventually("all is closed", || server.descriptors() == own);
    for data in &mut kept {
        assert!(is_closed(data));
    }
}
