//! Clients that send random commands, while others log in, compute checksums and download, for a configurable
//! time.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_ftp::protocol::host_port::parse_passive_reply;

use super::{LENIENT, MEMORY, bob, fetch_from, log_in_ten_times};
use crate::common::{Client, Process, connect_from, eventually, loopback, own_address};

/// Duration of the hostile traffic in [`hostile_commands_cost_nobody_anything`], seconds; 5 by default.
const SOAK: &str = "FAIRWIND_FTP_SOAK_S";

/// Reproducible pseudo-random numbers.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    pub(crate) fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// A malicious or malformed line.
pub(crate) fn hostile(chance: &mut Chance, own: IpAddr) -> Vec<u8> {
    const VERBS: &[&str] = &[
        "USER", "PASS", "ACCT", "CWD", "XCWD", "CDUP", "QUIT", "REIN", "PORT", "PASV", "TYPE",
        "STRU", "MODE", "RETR", "STOR", "STOU", "APPE", "ALLO", "REST", "RNFR", "RNTO", "ABOR",
        "DELE", "RMD", "MKD", "PWD", "LIST", "NLST", "SITE", "SYST", "STAT", "HELP", "NOOP",
        "FEAT", "OPTS", "EPRT", "EPSV", "SIZE", "MDTM", "MLST", "MLSD", "MFMT", "HASH", "RANG",
        "XCRC", "XMD5", "XSHA1", "XSHA256", "XSHA512", "AUTH", "PBSZ", "PROT", "LPRT", "SMNT",
        "SSCN", "CPSV", "\u{fffd}", "",
    ];
    const ARGUMENTS: &[&str] = &[
        "",
        "x",
        "large",
        "small",
        "anonymous",
        "bob",
        "secret",
        "wrong",
        "/",
        "..",
        "../../../../etc/passwd",
        "dir",
        "dir/../dir/./x",
        "-la",
        "-R /",
        "*",
        "[a-z]*{x,y}",
        "~root",
        "A",
        "I",
        "L 8",
        "S",
        "B",
        "Z",
        "F",
        "ALL",
        "1",
        "2",
        "0",
        "18446744073709551615",
        "-1",
        "99999999999999999999999",
        "1 2",
        "5 1",
        "127,0,0,1,200,200",
        "256,1,1,1,1,1",
        "|1|127.0.0.1|65535|",
        "|2|::1|1|",
        "|||||",
        "UTF8 ON",
        "HASH MD5",
        "MLST size;",
        "DRS 00112233445566778899aabbccddeeff",
        "DRS OFF",
        "CHMOD 777 x",
        "CHMOD 99999 x",
        "ON",
        "OFF",
        "PEER",
        "PEER OFF",
        "PEER KEY x",
        "PEER KEY ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "PEER CERTIFICATE ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "20000101000000 x",
        "%s%n%x",
        "a\u{0}b",
        "\u{202e}",
        "\u{1b}[2J",
    ];
    let mut line = match chance.below(20) {
        // Random bytes instead of a command.
        0 => (0..chance.below(200))
            .map(|_| chance.below(256) as u8)
            .collect(),
        1 => vec![b'A' + chance.below(26) as u8; chance.below(20_000)],
        2 => format!(
            "PORT {},{},{}",
            own.to_string().replace('.', ","),
            chance.below(256),
            chance.below(256)
        )
        .into(),
        3 => b"\xff\xf4\xff\xf2ABOR".to_vec(),
        4 => format!("{} {}", chance.of(VERBS), "../".repeat(chance.below(1_000))).into(),
        _ => format!("{} {}", chance.of(VERBS), chance.of(ARGUMENTS)).into_bytes(),
    };
    line.extend_from_slice(if chance.below(30) == 0 {
        b"\n"
    } else {
        b"\r\n"
    });
    line
}

/// Sends hostile lines until the time is over, connects wherever it is told to, sends there or reads a bit,
/// and disconnects in the middle.
fn misbehave(number: usize, address: SocketAddr, until: Instant) -> usize {
    let (own, mut chance) = (loopback(number), Chance(0x9e37_79b9 + number as u64));
    let mut said = 0;
    while Instant::now() < until {
        let mut stream = connect_from(own, address);
        stream
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let mut data: Vec<std::net::TcpStream> = Vec::new();
        if chance.below(10) > 0 {
            let _ = stream.write_all(b"USER anonymous\r\nPASS x\r\nTYPE I\r\n");
        }
        for _ in 0..chance.below(60) {
            let mut lines = Vec::new();
            for _ in 0..=chance.below(5) {
                lines.extend(hostile(&mut chance, own));
                said += 1;
            }
            if stream.write_all(&lines).is_err() {
                break;
            }
            let mut replies = vec![0; 64 << 10];
            let Ok(count) = stream.read(&mut replies) else {
                continue;
            };
            if count == 0 {
                break;
            }
            let text = String::from_utf8_lossy(&replies[..count]);
            let waiting = text
                .lines()
                .filter_map(|line| parse_passive_reply(line.strip_prefix("227 ")?).ok());
            for at in waiting.take(2) {
                let Ok(mut connection) =
                    std::net::TcpStream::connect_timeout(&at, Duration::from_secs(1))
                else {
                    continue;
                };
                connection
                    .set_read_timeout(Some(Duration::from_millis(5)))
                    .unwrap();
                connection
                    .set_write_timeout(Some(Duration::from_millis(5)))
                    .unwrap();
                let mut chunk = vec![0; 64 << 10];
                let _ = match chance.below(3) {
                    0 => connection.read(&mut chunk).map(drop),
                    1 => connection
                        .write_all(b"DRS 00112233445566778899aabbccddeeff\r\nSBUF 1 33554432\r\n"),
                    _ => connection.write_all(&chunk),
                };
                data.push(connection);
            }
            data.truncate(4);
        }
    }
    said
}

/// Logins, checksums and a fuzzer run at once, while everybody else is served through the same 31 ports.
#[test]
fn hostile_commands_cost_nobody_anything() {
    let seconds = std::env::var(SOAK).map_or(5, |seconds| seconds.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("small"), "abc").unwrap();
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    let large = std::fs::File::create(dir.path().join("large")).unwrap();
    large.set_len(3_000_000_000).unwrap();
    let settings = format!(
        "listen = \"{}:0\"\npassive_ports = [50000, 50030]\n{LENIENT}idle_s = 10\nconnect_s = 5\n{}home = \"dir\"\n",
        own_address(),
        bob()
    );
    let server = Process::with_settings(dir.path(), &settings);
    let address = server.address;
    let mut honest = Client::connect(address);
    honest.login("anonymous", "me@example.org");
    assert_eq!(honest.fetch("RETR small"), b"abc");
    drop(honest);
    eventually("the first one has gone", || server.sockets() == 1);
    let open = server.descriptors();

    let until = Instant::now() + Duration::from_secs(seconds);
    let strangers: Vec<_> = (0..16)
        .map(|number| thread::spawn(move || misbehave(number, address, until)))
        .collect();
    let logging_in = thread::spawn(move || {
        let running = |_: &usize| Instant::now() < until;
        let sessions = (0..).take_while(running);
        10 * sessions
            .map(|n| log_in_ten_times(300 + n % 20, n, address))
            .count()
    });
    let mut summing: Vec<Client> = Vec::new();
    for number in 0..8 {
        let (mut client, _) = Client::from(loopback(100 + number % 2), address);
        client.login("anonymous", "me@example.org");
        summing.push(client);
    }
    let (mut most, mut taken) = (0, Vec::new());
    let mut range = 0;
    while Instant::now() < until {
        for client in &mut summing {
            // A different range each time, so that no checksum is known yet.
            range += 1;
            client.raw(format!("XSHA512 large {range} 3000000000\r\nABOR\r\n").as_bytes());
        }
        let begin = Instant::now();
        let (mut client, greeting) = Client::from(loopback(200 + taken.len() % 50), address);
        assert_eq!(greeting.code, 220);
        client.login("alice", "secret");
        assert_eq!(
            fetch_from(&mut client, "small").as_deref(),
            Some(&b"abc"[..])
        );
        client.expect("HASH small", 213);
        taken.push(begin.elapsed());
        most = most.max(server.kib("VmRSS"));
        for client in &mut summing {
            let codes = [client.reply().code, client.reply().code];
            assert!(codes == [426, 226] || codes == [250, 226], "{codes:?}");
        }
    }
    let said: usize = strangers.into_iter().map(|one| one.join().unwrap()).sum();
    let logins = logging_in.join().unwrap();
    drop(summing);
    most = most.max(server.kib("VmHWM"));
    taken.sort();
    let (served, slowest) = (taken.len(), taken[taken.len() - 1]);
    println!(
        "{said} lines and {logins} logins in {seconds} s; {served} served, half of them in {:?}, 99 of 100 in {:?}, \
         the slowest in {slowest:?}; {most} KiB at most",
        taken[served / 2],
        taken[served * 99 / 100],
    );
    assert!(most < MEMORY, "{most} KiB");
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    // The server releases the descriptors when it notices that the clients are gone.
    eventually("descriptors are back", || server.descriptors() <= open);
}
