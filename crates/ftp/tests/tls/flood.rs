//! Strangers who begin handshakes by the thousand.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::authority::Authority;
use super::{Secure, Server, tls};
use crate::common::{Client, Process, connect_from, eventually, loopback, own_address};

/// Memory limit of the whole server, KiB.
const MEMORY: u64 = 64 << 10;

/// A server in a process of its own, whose handshakes may take two seconds.
pub(super) fn process(authority: &Authority, more: &str) -> (tempfile::TempDir, Process) {
    let dir = tempfile::tempdir().unwrap();
    let files = authority.server_files();
    let settings = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nhandshake_s = 2\n{more}\n",
        files.certificate, files.key
    );
    let server = Process::with_settings(dir.path(), &settings);
    (dir, server)
}

/// The first message of a handshake.
fn hello(authority: &Authority) -> Vec<u8> {
    let config = authority.client(&[&rustls::version::TLS13, &rustls::version::TLS12]);
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(config, name).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

/// A connection after AUTH TLS; none if the server had no room.
fn begun(from: IpAddr, server: &Process) -> Option<TcpStream> {
    let (mut client, greeting) = Client::from(from, server.address);
    if greeting.code != 220 {
        return None;
    }
    client.expect("AUTH TLS", 234);
    Some(client.stream)
}

/// Somebody else logs in and lists, in time.
fn others_get_in(authority: &Authority, server: &Process, number: usize) -> Duration {
    let begin = Instant::now();
    let (mut plain, greeting) = Client::from(loopback(number), server.address);
    assert_eq!(greeting.code, 220, "{greeting}");
    plain.expect("AUTH TLS", 234);
    let config = authority.client(&[&rustls::version::TLS13]);
    let mut client = Secure::over(plain.stream, config);
    client.expect("USER anonymous", 331);
    client.expect("PASS me@example.org", 230);
    begin.elapsed()
}

/// From ten addresses: none may have more sessions than its share, so that others find room.
#[test]
fn a_thousand_handshakes_that_stall_anywhere_cost_little_and_are_over_in_time() {
    let authority = Authority::new();
    let (_dir, server) = process(&authority, "");
    let hello = hello(&authority);
    let before = server.kib("VmRSS");
    let own: Vec<IpAddr> = (0..10).map(|_| own_address()).collect();
    let mut stalled = Vec::new();
    for number in 0..1_000 {
        let Some(mut stream) = begun(own[number % own.len()], &server) else {
            continue;
        };
        // Nothing, a part of the record's header, of the message, or all of it: then the server's answer waits.
        let length = hello.len() * (number % 11) / 10;
        stream.write_all(&hello[..length]).unwrap();
        stalled.push((stream, Instant::now()));
    }
    assert!(stalled.len() >= 500, "{}", stalled.len());
    let most = server.kib("VmHWM");
    println!(
        "{} stalled handshakes: {before} KiB before, {most} KiB at most",
        stalled.len()
    );
    assert!(most < MEMORY, "{most} KiB");
    others_get_in(&authority, &server, 1);
    for (mut stream, since) in stalled {
        // The server ends it: an end, or an alert before it.
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(since.elapsed() < Duration::from_secs(25), "{answer:?}");
    }
    eventually("all sessions have ended", || server.descriptors() < 40);
    let now = server.kib("VmRSS");
    assert!(now < MEMORY, "{now} KiB");
}

/// One stranger who connects, completes the handshake and leaves, as fast as it goes, a thousand times and more.
#[test]
fn who_repeats_handshakes_keeps_nobody_else_out() {
    let authority = Authority::new();
    let (_dir, server) = process(&authority, "handshakes_per_minute = 1000000");
    let over = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicUsize::new(0));
    let (own, address) = (own_address(), server.address);
    let config = authority.client(&[&rustls::version::TLS13]);
    let crowd: Vec<_> = (0..4)
        .map(|_| {
            let (over, done, config) = (Arc::clone(&over), Arc::clone(&done), config.clone());
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let (mut client, greeting) = Client::from(own, address);
                    if greeting.code != 220 {
                        continue;
                    }
                    client.expect("AUTH TLS", 234);
                    let mut stream = tls(client.stream, &config);
                    while stream.conn.is_handshaking() {
                        if stream.conn.complete_io(&mut stream.sock).is_err() {
                            break;
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut longest = Duration::ZERO;
    let mut number = 10;
    while done.load(Ordering::Relaxed) < 1_000 {
        assert!(Instant::now() < deadline, "{done:?} handshakes");
        longest = longest.max(others_get_in(&authority, &server, number));
        number += 1;
    }
    over.store(true, Ordering::Relaxed);
    for client in crowd {
        client.join().unwrap();
    }
    let most = server.kib("VmHWM");
    println!("{done:?} handshakes: others waited {longest:?}, {most} KiB at most");
    assert!(longest < Duration::from_secs(10), "{longest:?}");
    assert!(most < MEMORY, "{most} KiB");
    eventually("all sessions have ended", || server.descriptors() < 40);
}

#[test]
fn an_address_has_a_number_of_handshakes_a_minute_and_others_have_theirs() {
    let authority = Authority::new();
    let (_dir, server) = process(&authority, "handshakes_per_minute = 20");
    let own = own_address();
    let mut shaken = 0;
    let refused = (0..100).find_map(|_| {
        let (mut client, greeting) = Client::from(own, server.address);
        assert_eq!(greeting.code, 220);
        let reply = client.say("AUTH TLS");
        if reply.code != 234 {
            return Some(reply);
        }
        shaken += 1;
        None
    });
    let reply = refused.expect("the limit is reached");
    assert_eq!(reply.code, 421, "{reply}");
    assert!(reply.text().contains("handshakes"), "{reply}");
    assert!((20..=30).contains(&shaken), "{shaken}");
    others_get_in(&authority, &server, 2);
    // What needs no handshake is still to be had.
    let (mut plain, _) = Client::from(own, server.address);
    plain.expect("USER anonymous", 331);
    // A fresh connection of the same address: as long as nothing is forgotten, it is refused, too.
    let mut stream = connect_from(own, server.address);
    stream.write_all(b"AUTH TLS\r\n").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.contains("421"), "{answer}");
}

#[test]
fn handshakes_at_the_port_of_implicit_tls_are_counted_with_the_others() {
    let server = Server::with(|tls| {
        tls.listen = Some("127.0.0.1:0".parse().unwrap());
        tls.handshakes_per_minute = 3;
    });
    let implicit = server.running.tls_address.unwrap();
    let is_greeted = |own: IpAddr| {
        let mut session = tls(connect_from(own, implicit), &server.stranger());
        let mut code = [0; 3];
        session.read_exact(&mut code).is_ok() && code == *b"220"
    };
    let (own, other) = (own_address(), own_address());
    assert_eq!((0..5).filter(|_| is_greeted(own)).count(), 3);
    // It is closed before the first byte of a handshake.
    let mut refused = connect_from(own, implicit);
    assert_eq!(refused.read(&mut [0]).unwrap(), 0);
    let (mut plain, _) = Client::from(own, server.running.address);
    plain.expect("AUTH TLS", 421);
    assert!(is_greeted(other));
}
