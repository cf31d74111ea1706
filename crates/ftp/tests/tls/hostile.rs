//! Clients that mean harm, or are cut off.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_ftp::server::Limits;
use rustls::{ClientConfig, version};

use super::{End, Secure, Server, Tls, tls};
use crate::common::{Client, noise};

#[test]
fn plain_text_behind_auth_ends_the_session_and_is_never_obeyed() {
    let server = Server::start();
    server.running.write("x", "x");
    for injected in ["USER alice\r\n", "DELE x", "\u{ff}"] {
        let mut client = Client::alice(&server.running);
        client.raw(format!("AUTH TLS\r\n{injected}").as_bytes());
        let reply = client.reply();
        assert_eq!(reply.code, 421, "{injected:?}: {reply}");
        assert!(client.is_closed());
    }
    assert_eq!(server.running.read("x"), b"x");
}

#[test]
fn plain_text_in_place_of_a_handshake_ends_the_session() {
    let server = Server::start();
    for garbage in [
        b"USER alice\r\nPASS secret\r\n".to_vec(),
        vec![0; 100],
        // A record of a handshake message longer than any is.
        [
            &[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..],
            &noise(0x4000),
        ]
        .concat(),
        noise(100_000),
    ] {
        let mut client = Client::connect(server.running.address);
        client.expect("AUTH TLS", 234);
        // The server may have closed before all was sent.
        let _ = client.stream.write_all(&garbage);
        let mut answer = Vec::new();
        let _ = client.stream.read_to_end(&mut answer);
        assert!(
            !answer.starts_with(b"2") && !answer.starts_with(b"5"),
            "{answer:?}"
        );
    }
    Secure::alice(&server).expect("PWD", 257);
}

#[test]
fn a_handshake_that_does_not_go_on_ends_in_time() {
    let server = Server::with(|tls| {
        tls.handshake_s = 1;
        tls.listen = Some("127.0.0.1:0".parse().unwrap());
    });
    let begin = Instant::now();
    let mut explicit = Client::connect(server.running.address);
    explicit.expect("AUTH TLS", 234);
    let mut implicit = crate::common::data(server.running.tls_address.unwrap());
    implicit.write_all(&[22, 3, 1]).unwrap();
    assert!(explicit.is_closed());
    assert_eq!(implicit.read(&mut [0]).unwrap_or(0), 0);
    assert!(begin.elapsed() >= Duration::from_secs(1));
    // Nor is a data connection waited for without end.
    let mut client = Secure::alice(&server);
    server.running.write("x", "x");
    let _silent = client.passive();
    client.expect("RETR x", 150);
    let reply = client.reply();
    assert_eq!(reply.code, 425, "{reply}");
    assert!(reply.text().contains("handshake"), "{reply}");
}

#[test]
fn clients_in_a_handshake_count_as_sessions() {
    let server = Server::configured(|config| {
        config.tls.as_mut().unwrap().listen = Some("127.0.0.1:0".parse().unwrap());
        config.limits = Limits {
            sessions_per_address: 1,
            ..config.limits.clone()
        };
    });
    let implicit = server.running.tls_address.unwrap();
    let mut first = None;
    crate::common::eventually("one is in its handshake", || {
        // It may come too early, while the session before has not ended.
        let mut stream = crate::common::data(implicit);
        stream.write_all(&[22]).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        first = Some(stream);
        let (_, greeting) = Client::greeted(server.running.address);
        greeting.code == 421
    });
    // Another one there is turned away without a handshake.
    let mut second = crate::common::data(implicit);
    assert_eq!(second.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn commands_and_files_in_the_smallest_records_are_understood() {
    let server = Server::start();
    let content = noise(20_000);
    let mut config = ClientConfig::clone(&server.stranger());
    // The least that the library makes: a byte or two of text each, under TLS 1.2 and 1.3.
    config.max_fragment_size = Some(32);
    let mut client = Secure::alice_as(&server, Arc::new(config));
    for byte in b"NOOP\r\n" {
        client.raw(&[*byte]);
    }
    assert_eq!(client.reply().code, 200);
    assert_eq!(client.give("STOR y", &content, End::InOrder).code, 226);
    assert!(server.running.read("y") == content);
    assert!(client.fetch("RETR y") == content);
}

/// Passes bytes on one at a time, both ways.
fn dribble(from: TcpStream, to: TcpStream) {
    for (mut from, mut to) in [
        (from.try_clone().unwrap(), to.try_clone().unwrap()),
        (to, from),
    ] {
        to.set_nodelay(true).unwrap();
        std::thread::spawn(move || {
            let mut byte = [0];
            while let Ok(1) = from.read(&mut byte) {
                if to.write_all(&byte).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

#[test]
fn a_handshake_of_single_bytes_succeeds() {
    let server = Server::start();
    let (listener, _) = crate::common::listening("127.0.0.1");
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut client = Client::connect(server.running.address);
    client.expect("AUTH TLS", 234);
    dribble(listener.accept().unwrap().0, client.stream);
    let mut client = Secure::over(near, server.stranger());
    client.expect("NOOP", 200);
}

#[test]
fn an_upload_that_is_cut_off_is_not_complete_and_can_be_resumed() {
    let server = Server::start();
    let content = noise(1_000_000);
    let mut client = Secure::alice(&server);
    let reply = client.give("STOR y", &content[..600_000], End::Cut);
    assert_eq!(reply.code, 426, "{reply}");
    assert!(reply.text().contains("cut off"), "{reply}");
    assert!(!server.running.path("y").exists());
    assert_eq!(client.expect("SIZE y", 213).text(), "600000");
    client.expect("REST 600000", 350);
    let reply = client.give("STOR y", &content[600_000..], End::InOrder);
    assert_eq!(reply.code, 226, "{reply}");
    assert!(server.running.read("y") == content);
}

#[test]
fn a_cut_behind_the_last_byte_announced_cuts_nothing_off() {
    let server = Server::start();
    let content = noise(100_000);
    let mut client = Secure::alice(&server);
    client.expect("ALLO 100000", 200);
    let reply = client.give("STOR y", &content, End::Cut);
    assert_eq!(reply.code, 226, "{reply}");
    assert!(server.running.read("y") == content);
    client.expect("ALLO 100001", 200);
    assert_eq!(client.give("STOR z", &content, End::Cut).code, 426);
    assert!(!server.running.path("z").exists());
}

/// Who closes without having read what the server has still to say, tickets, resets the connection (RFC 9293 section 3.6.1).
#[test]
fn an_upload_is_whole_though_its_client_resets_the_connection_behind_it() {
    let server = Server::start();
    let content = noise(1_000);
    for _ in 0..5 {
        // Without the tickets that it does not read, it has only those of its control connection.
        let mut client = Secure::alice_as(&server, server.authority.client(&[&version::TLS13]));
        let mut data = client.protected();
        client.expect("STOR y", 150);
        let Tls { conn, sock } = &mut data;
        while conn.is_handshaking() {
            while conn.wants_write() {
                conn.write_tls(sock).unwrap();
            }
            conn.read_tls(sock).unwrap();
            conn.process_new_packets().unwrap();
        }
        // All at once, with the last message of the handshake, which the tickets answer.
        conn.writer().write_all(&content).unwrap();
        conn.send_close_notify();
        let mut rest = Vec::new();
        while conn.wants_write() {
            conn.write_tls(&mut rest).unwrap();
        }
        sock.write_all(&rest).unwrap();
        drop(data);
        let reply = client.reply();
        assert_eq!(reply.code, 226, "{reply}");
        assert!(server.running.read("y") == content);
        client.expect("DELE y", 250);
    }
}

#[test]
fn bytes_that_are_changed_on_their_way_are_not_stored() {
    let server = Server::start();
    let mut client = Secure::alice(&server);
    let mut data = client.protected();
    client.expect("STOR y", 150);
    data.write_all(b"true").unwrap();
    data.flush().unwrap();
    // A record of application data that nobody with the keys made.
    data.sock.write_all(&[23, 3, 3, 0, 32]).unwrap();
    data.sock.write_all(&noise(32)).unwrap();
    let reply = client.reply();
    assert_eq!(reply.code, 426, "{reply}");
    assert!(!server.running.path("y").exists());
}

#[test]
fn a_client_in_clear_is_refused_a_protected_data_connection() {
    let server = Server::start();
    server.running.write("x", "secret");
    let mut client = Secure::alice(&server);
    let mut data = client.passive();
    client.expect("RETR x", 150);
    data.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut got = Vec::new();
    let _ = data.read_to_end(&mut got);
    assert!(!got.windows(6).any(|bytes| bytes == b"secret"));
    assert_eq!(client.reply().code, 522);
}

/// What is not encrypted by the session's keys ends it. A second handshake under them is in `renegotiation`.
#[test]
fn a_second_handshake_in_clear_ends_the_session() {
    let server = Server::start();
    let mut client = Secure::alice(&server);
    let mut again = tls(
        client.lines.get_ref().sock.try_clone().unwrap(),
        &server.stranger(),
    );
    again.conn.write_tls(&mut again.sock).unwrap();
    let mut answer = Vec::new();
    let ended = client.lines.read_to_end(&mut answer);
    assert!(ended.is_err() && answer.is_empty(), "{answer:?}");
}
