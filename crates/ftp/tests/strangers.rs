//! What untrusted clients can do to a server: exhaust its memory, its ports, its processors.

pub(crate) mod hostile;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use argon2::password_hash::PasswordHasher;
use argon2::{Argon2, Params};

use fairwind_ftp::assembly::bind_server;
use fairwind_ftp::protocol::host_port::parse_passive_reply;
use fairwind_ftp::server::Stop;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use socket2::{Domain, Socket, Type};

use crate::common::{
    Client, Process, Running, TIMEOUT, connect_from, eventually, loopback, noise, own_address,
};

/// Memory limit of the whole server, KiB.
const MEMORY: u64 = 64 << 10;

/// Limits that allow unlimited guessing.
pub(crate) const LENIENT: &str =
    "[limits]\nlogin_pause_ms = 0\nlogin_failures = 100000\nlogin_ban_failures = 0\n";

/// A user `bob` whose password `secret` has a hash that is cheap to check.
pub(crate) fn bob() -> String {
    bob_with_hash_of(8)
}

/// The same with a hash that takes so much memory, KiB, and time in proportion.
fn bob_with_hash_of(memory: u32) -> String {
    let cheap = Argon2::from(Params::new(memory, 1, 1, None).unwrap());
    let hash = cheap.hash_password(b"secret").unwrap();
    format!("[[user]]\nname = \"bob\"\npassword = \"{hash}\"\nwrite = true\n")
}

/// Logs in with name and password and out again; returns the code of the reply to PASS.
fn log_in(client: &mut Client, name: &str, password: &str) -> u16 {
    client.expect(&format!("USER {name}"), 331);
    let code = client.say(&format!("PASS {password}")).code;
    client.expect("REIN", 220);
    code
}

/// Ten logins of all kinds in one session, one of them as alice, whose hash takes 19 MiB, or as an unknown
/// user.
fn log_in_ten_times(number: usize, session: usize, address: SocketAddr) {
    const CHEAP: [(&str, &str, u16); 3] = [
        ("anonymous", "me@example.org", 230),
        ("bob", "secret", 230),
        ("bob", "wrong", 530),
    ];
    const COSTLY: [(&str, &str, u16); 3] = [
        ("alice", "secret", 230),
        ("alice", "wrong", 530),
        ("nobody", "secret", 530),
    ];
    let (mut client, _) = Client::from(loopback(number), address);
    for login in 0..9 {
        let (name, password, code) = CHEAP[login % CHEAP.len()];
        assert_eq!(log_in(&mut client, name, password), code, "{name}");
    }
    let (name, password, code) = COSTLY[session % COSTLY.len()];
    assert_eq!(log_in(&mut client, name, password), code, "{name}");
}

/// 20 at a time, 10,000 in all.
#[test]
fn ten_thousand_logins_of_any_kind_leave_less_than_64_mib() {
    let dir = tempfile::tempdir().unwrap();
    let server = Process::with_settings(dir.path(), &format!("{LENIENT}{}", bob()));
    let address = server.address;
    let crowd: Vec<_> = (0..20)
        .map(|number| {
            thread::spawn(move || (0..50).for_each(|n| log_in_ten_times(number, n, address)))
        })
        .collect();
    for client in crowd {
        client.join().unwrap();
    }
    let (now, most) = (server.kib("VmRSS"), server.kib("VmHWM"));
    println!("after 10,000 logins: {now} KiB, {most} KiB at most");
    assert!(most < MEMORY, "{most} KiB, {now} KiB now");
}

/// With two hashes at a time and fifty clients that keep guessing, an honest user would wait for fifty
/// hashes.
#[test]
fn who_guesses_waits_behind_who_has_not() {
    // The hash takes much longer than all else that a login consists of, and a round of all guesses hardly any of the
    // seconds by which one falls behind with each wrong password.
    let server = Running::with(|config| {
        config.read(&bob_with_hash_of(8 << 10)).unwrap();
        config.limits.login_failures = 1_000_000;
        config.limits.login_ban_failures = 0;
    });
    let address = server.address;
    let over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let guessing: Vec<_> = (0..50)
        .map(|number| {
            let (over, answered) = (Arc::clone(&over), Arc::clone(&answered));
            thread::spawn(move || {
                let (mut client, _) = Client::from(loopback(number), address);
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(log_in(&mut client, "bob", "wrong"), 530);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    eventually("each has guessed several times", || {
        answered.load(Ordering::Relaxed) > 500
    });
    // How long one waits is told by the guesses that are answered meanwhile: time would depend on the machine.
    let mut honest: Vec<usize> = (100..110)
        .map(|number| {
            let (mut client, _) = Client::from(loopback(number), address);
            client.expect("USER bob", 331);
            let before = answered.load(Ordering::Relaxed);
            client.expect("PASS secret", 230);
            answered.load(Ordering::Relaxed) - before
        })
        .collect();
    over.store(true, Ordering::Relaxed);
    for one in guessing {
        one.join().unwrap();
    }
    honest.sort();
    println!("during a login so many guesses were answered: {honest:?}");
    let most = honest[honest.len() / 2];
    // A guess waits for those of the 49 others.
    assert!(most < 49 / 4, "{honest:?}");
}

/// A server with 31 passive ports.
fn with_few_ports(connect_s: u64) -> Running {
    Running::with(|config| {
        config.listen = SocketAddr::new(own_address(), 0);
        config.passive_ports = Some(50_000..=50_030);
        config.limits.connect_s = connect_s;
        config.limits.sessions = 1_000;
    })
}

/// An anonymous client at the address with this number.
fn anonymous_from(number: usize, server: &Running) -> Client {
    let (mut client, _) = Client::from(loopback(number), server.address);
    client.login("anonymous", "me@example.org");
    client
}

/// Downloads over a passive port; `None` if there was no free one.
fn fetch_from(client: &mut Client, name: &str) -> Option<Vec<u8>> {
    let reply = client.say("PASV");
    if reply.code == 425 {
        return None;
    }
    let own = client.stream.local_addr().unwrap().ip();
    let mut data = connect_from(own, parse_passive_reply(&reply.text()).unwrap());
    client.expect(&format!("RETR {name}"), 150);
    let mut content = Vec::new();
    data.read_to_end(&mut content).unwrap();
    assert_eq!(client.reply().code, 226);
    Some(content)
}

/// The sender closes first, and its port would stay in TIME_WAIT for a minute.
#[test]
fn two_hundred_downloads_go_through_31_ports() {
    let server = with_few_ports(30);
    server.write("x", "abc");
    let mut client = anonymous_from(1, &server);
    for download in 0..200 {
        assert_eq!(
            fetch_from(&mut client, "x").as_deref(),
            Some(&b"abc"[..]),
            "{download}"
        );
    }
    let mut others: Vec<Client> = (2..40).map(|n| anonymous_from(n, &server)).collect();
    for client in &mut others {
        assert!(fetch_from(client, "x").is_some());
    }
}

#[test]
fn who_holds_all_ports_gives_them_up_to_those_who_have_none() {
    let server = with_few_ports(600);
    server.write("x", "abc");
    let mut hoarder: Vec<Client> = (0..31).map(|_| anonymous_from(1, &server)).collect();
    let held: Vec<SocketAddr> = hoarder.iter_mut().map(Client::passive_address).collect();
    // No address has fewer ports to give up: another session of the same address gets none.
    let mut greedy = anonymous_from(1, &server);
    greedy.expect("PASV", 425);
    let mut others: Vec<Client> = (2..17).map(|n| anonymous_from(n, &server)).collect();
    for client in &mut others {
        assert_eq!(fetch_from(client, "x").as_deref(), Some(&b"abc"[..]));
    }
    // They used one port in turn; only the first of them had to take it from the hoarder.
    assert_eq!(hoarder[0].expect("RETR x", 425).code, 425);
    let mut kept = connect_from(loopback(1), held[30]);
    hoarder[30].expect("RETR x", 150);
    let mut content = String::new();
    kept.read_to_string(&mut content).unwrap();
    assert_eq!(content, "abc");
}

#[test]
fn ports_are_held_by_as_many_addresses_as_there_are_ports() {
    let server = with_few_ports(600);
    let mut hoarder: Vec<Client> = (0..31).map(|_| anonymous_from(1, &server)).collect();
    for client in &mut hoarder {
        client.expect("PASV", 227);
    }
    let mut others: Vec<Client> = (2..33).map(|n| anonymous_from(n, &server)).collect();
    let replies: Vec<u16> = others
        .iter_mut()
        .map(|client| client.say("PASV").code)
        .collect();
    assert_eq!(replies[..30], [227; 30]);
    assert_eq!(replies[30], 425);
}

#[test]
fn a_session_holds_one_port_however_often_it_asks() {
    let server = with_few_ports(600);
    let mut insistent = anonymous_from(1, &server);
    for _ in 0..40 {
        insistent.expect("PASV", 227);
    }
    let mut others: Vec<Client> = (0..30).map(|_| anonymous_from(1, &server)).collect();
    for client in &mut others {
        client.expect("PASV", 227);
    }
    anonymous_from(1, &server).expect("PASV", 425);
    // The only port that is not another's is its own.
    insistent.expect("PASV", 227);
}

#[test]
fn a_passive_port_that_nobody_uses_is_free_again() {
    let server = with_few_ports(1);
    server.write("x", "abc");
    let mut idle: Vec<Client> = (0..31).map(|_| anonymous_from(1, &server)).collect();
    for client in &mut idle {
        client.expect("PASV", 227);
    }
    let begin = Instant::now();
    let mut client = anonymous_from(1, &server);
    eventually("a port is free", || fetch_from(&mut client, "x").is_some());
    assert!(begin.elapsed() < Duration::from_secs(20));
    idle[0].expect("RETR x", 425);
}

/// The wide window agreed on for a connection is allowed only once the connection is in use.
#[test]
fn a_client_that_comes_before_its_command_is_served_all_the_same() {
    let server = with_few_ports(30);
    server.write("x", "abc");
    let mut client = anonymous_from(1, &server);
    let mut data = connect_from(loopback(1), client.passive_address());
    let status = client.expect("STAT", 211).text();
    assert!(status.contains("Data connection agreed on"), "{status}");
    client.expect("RETR x", 150);
    let mut content = String::new();
    data.read_to_string(&mut content).unwrap();
    assert_eq!((content.as_str(), client.reply().code), ("abc", 226));
}

/// A sparse file: it occupies no space but takes seconds to hash.
fn write_sparse(server: &Running, name: &str, size: u64) {
    let file = std::fs::File::create(server.path(name)).unwrap();
    file.set_len(size).unwrap();
}

#[test]
fn eight_checksums_of_a_large_file_delay_nobody_elses() {
    let server = Running::start();
    write_sparse(&server, "large", 3_000_000_000);
    server.write("small", "abc");
    let mut strangers: Vec<Client> = (0..8).map(|_| anonymous_from(1, &server)).collect();
    for stranger in &mut strangers {
        stranger.raw(b"XSHA512 large\r\n");
    }
    // One client of the same address and one of another.
    for number in [1, 2] {
        let mut client = anonymous_from(number, &server);
        let begin = Instant::now();
        client.expect("HASH small", 213);
        let taken = begin.elapsed();
        println!("a small file beside eight large ones: {taken:?}");
        assert!(taken < Duration::from_secs(5), "{taken:?}");
    }
    for stranger in &mut strangers {
        stranger.raw(b"ABOR\r\n");
        assert_eq!([stranger.reply().code, stranger.reply().code], [426, 226]);
    }
}

#[test]
fn a_checksum_is_made_once_as_long_as_the_file_stays_as_it_is() {
    const SIZE: u64 = 50_000_000;
    let dir = tempfile::tempdir().unwrap();
    let large = dir.path().join("large");
    std::fs::File::create(&large)
        .and_then(|file| file.set_len(SIZE))
        .unwrap();
    let server = Process::start(dir.path());
    // A file changed this recently could change again within the same tick of the file system's clock.
    thread::sleep(Duration::from_millis(2_100));
    let mut client = Client::connect(server.address);
    client.login("alice", "secret");
    let mut ask = |command: &str| {
        let before = server.bytes_read();
        let sum = client.expect(command, 250).text();
        (sum, server.bytes_read() - before)
    };
    let ((first, made), (again, looked_up)) = (ask("XMD5 large"), ask("XMD5 large"));
    assert_eq!(first, again);
    assert!(made >= SIZE, "{made} bytes");
    assert!(looked_up < SIZE / 4, "{looked_up} bytes after {made}");
    std::fs::write(&large, "abc").unwrap();
    assert_eq!(ask("XMD5 large").0, "900150983CD24FB0D6963F7D28E17F72");
}

#[test]
fn an_address_has_so_many_checksums_made_at_once() {
    let server = Running::with(|config| {
        config.read("[limits]\nchecksums_per_address = 2").unwrap();
    });
    write_sparse(&server, "huge", 1 << 40);
    let mut busy: Vec<Client> = (0..2).map(|_| anonymous_from(1, &server)).collect();
    for client in &mut busy {
        client.raw(b"HASH huge\r\nSTAT\r\n");
        // STAT is answered while the checksum is being computed.
        assert_eq!(client.reply().code, 211);
    }
    anonymous_from(1, &server).expect("HASH huge", 450);
    server.write("x", "abc");
    anonymous_from(2, &server).expect("HASH x", 213);
    drop(busy);
    let mut client = anonymous_from(1, &server);
    eventually("a place is free", || client.say("HASH x").code == 213);
}

#[test]
fn a_checksum_that_takes_too_long_is_given_up() {
    let server = Running::with(|config| {
        config.read("[limits]\nchecksum_s = 1").unwrap();
    });
    write_sparse(&server, "huge", 1 << 40);
    let reply = anonymous_from(1, &server).expect("HASH huge", 451);
    assert!(reply.text().contains("1 s"), "{reply}");
}

/// An upload of `content` to `x` that then falls silent, as after a silent loss of the network.
fn lost_upload(server: &Running, content: &[u8]) -> (Client, std::net::TcpStream) {
    let mut client = Client::alice(server);
    let mut data = client.passive();
    client.expect("STOR x", 150);
    data.write_all(content).unwrap();
    eventually("all bytes are there", || {
        let partial = std::fs::metadata(server.path(".x.fairwind-part"));
        partial.is_ok_and(|facts| facts.len() == content.len() as u64)
    });
    (client, data)
}

#[test]
fn a_user_whose_network_was_lost_goes_on_from_elsewhere() {
    let server = Running::start();
    let content = noise(1_000_000);
    let (mut lost, _data) = lost_upload(&server, &content[..600_000]);
    let (mut client, _) = Client::from(loopback(1), server.address);
    client.login("alice", "secret");
    let begin = Instant::now();
    assert_eq!(client.expect("SIZE x", 213).text(), "600000");
    client.expect("REST 600000", 350);
    let at = parse_passive_reply(&client.expect("PASV", 227).text()).unwrap();
    let mut data = connect_from(loopback(1), at);
    client.expect("STOR x", 150);
    let taken = begin.elapsed();
    assert!(taken < Duration::from_secs(10), "{taken:?}");
    data.write_all(&content[600_000..]).unwrap();
    drop(data);
    assert_eq!(client.reply().code, 226);
    assert!(server.read("x") == content);
    // If the lost client is still there, it gets the reply and can go on.
    assert_eq!(lost.reply().code, 426);
    lost.expect("PWD", 257);
}

#[test]
fn an_upload_is_taken_from_nobody_else_and_not_while_it_moves() {
    let server = Running::with(|config| {
        config.read(&bob()).unwrap();
    });
    let (mut lost, data) = lost_upload(&server, &noise(1_000));
    let mut other = Client::connect(server.address);
    other.login("bob", "secret");
    let _waiting = other.passive();
    other.expect("STOR x", 450);

    let moves = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&moves);
    let sender = thread::spawn(move || {
        let mut data = data;
        while seen.load(Ordering::Relaxed) {
            data.write_all(&noise(1_000)).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
    });
    let mut again = Client::alice(&server);
    let _waiting = again.passive();
    again.expect("STOR x", 450);
    moves.store(false, Ordering::Relaxed);
    sender.join().unwrap();
    assert_eq!(lost.reply().code, 226);
    assert!(server.read("x").len() > 1_000);
}

#[test]
fn a_data_connection_that_was_reset_costs_the_transfer_and_not_the_session() {
    let server = Running::start();
    server.write("x", "abc");
    let mut client = Client::alice(&server);
    for command in ["RETR x", "STOR y"] {
        let data = client.passive();
        socket2::SockRef::from(&data)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        drop(data);
        assert_eq!(client.expect(command, 150).code, 150);
        assert_eq!(client.reply().code, 426);
    }
    assert_eq!(client.fetch("RETR x"), b"abc");
}

/// Without keepalive and a timeout they would stay for ever. The end of an unreachable connection is not the
/// end of a file.
#[test]
fn clients_that_are_not_reached_any_more_are_gone() {
    if !fairwind_testing::permitted(fairwind_testing::root()) {
        return;
    }
    fairwind_testing::in_new_network_namespace(|| {
        let dir = tempfile::tempdir().unwrap();
        let server = Process::with_settings(dir.path(), "[limits]\nunreachable_s = 3\n");
        let mut idle = Client::connect(server.address);
        idle.login("anonymous", "me@example.org");
        // The listening socket and this client's connection.
        let sockets = server.sockets();
        assert_eq!(sockets, 2);
        let mut client = Client::connect(server.address);
        client.login("alice", "secret");
        let mut data = client.passive();
        client.expect("STOR x", 150);
        data.write_all(b"abc").unwrap();
        eventually("the upload runs", || server.sockets() == 4);
        let down = Command::new("ip")
            .args(["link", "set", "lo", "down"])
            .status();
        assert!(down.unwrap().success());
        eventually("all have gone", || server.sockets() == 1);
        let waits = std::fs::read(dir.path().join(".x.fairwind-part")).unwrap();
        assert_eq!(waits, b"abc");
    });
}

#[test]
fn a_transfer_that_trickles_and_one_that_never_ends_are_ended() {
    let limits = |limits: &str| {
        let limits = format!("[limits]\n{limits}");
        Running::with(|config| config.read(&limits).unwrap())
    };
    for (server, word) in [
        (
            limits("stalled_s = 3\nleast_rate = 100000"),
            "bytes a second",
        ),
        (limits("longest_s = 1"), "longer than"),
    ] {
        let mut client = Client::alice(&server);
        let mut data = client.passive();
        client.expect("STOR x", 150);
        let trickle = thread::spawn(move || {
            while data.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let reply = client.reply();
        assert_eq!(reply.code, 426);
        assert!(reply.text().contains(word), "{reply}");
        trickle.join().unwrap();
        assert!(server.path(".x.fairwind-part").exists());
    }
}

const TOKEN: &str = "00112233445566778899aabbccddeeff";

/// A client that downloads `huge`, reads only what the test says, and keeps asking for a buffer of 32 MiB.
struct Greedy {
    client: Client,
    data: TcpStream,
    channel: TcpStream,
    echoes: BufReader<TcpStream>,
    /// Bytes read.
    read: u64,
}

impl Greedy {
    /// At the address with this number.
    fn at(number: usize, server: &Running) -> Self {
        let mut client = anonymous_from(number, server);
        client.expect(&format!("OPTS DRS {TOKEN}"), 200);
        let address = client.passive_address();
        // A small receive buffer keeps unread bytes at the server.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(256 << 10).unwrap();
        let own = SocketAddr::new(loopback(number), 0);
        socket.bind(&own.into()).unwrap();
        socket.connect(&address.into()).unwrap();
        let data = TcpStream::from(socket);
        data.set_read_timeout(Some(TIMEOUT)).unwrap();
        client.expect("RETR huge", 150);
        let mut channel = connect_from(own.ip(), address);
        channel
            .write_all(format!("DRS {TOKEN}\r\n").as_bytes())
            .unwrap();
        Self {
            client,
            data,
            echoes: BufReader::new(channel.try_clone().unwrap()),
            channel,
            read: 0,
        }
    }

    fn ask(&mut self) {
        self.channel.write_all(b"SBUF 1.5 33554432\r\n").unwrap();
        let mut echo = String::new();
        self.echoes.read_line(&mut echo).unwrap();
        assert_eq!(echo, "SBUF 1.5 33554432\r\n");
    }

    /// Reads this many MiB, and asks after each of them.
    fn read(&mut self, mebibytes: u64) {
        let mut chunk = vec![0; 1 << 20];
        for _ in 0..mebibytes {
            self.data.read_exact(&mut chunk).unwrap();
            self.ask();
        }
        self.read += mebibytes << 20;
    }

    /// The number of bytes that the server has sent but nobody has read once the transfer stalls.
    fn unread(&mut self) -> u64 {
        self.ask();
        let mut moved = 0;
        eventually("nothing moves", || {
            let before = moved;
            thread::sleep(Duration::from_secs(1));
            let status = self.client.expect("STAT", 211).text();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("Data connection open: "));
            moved = line.unwrap().split(' ').next().unwrap().parse().unwrap();
            moved == before
        });
        moved - self.read
    }

    fn leave(mut self) {
        drop(self.data);
        assert_eq!(self.client.reply().code, 426);
    }
}

/// What a greedy client leaves unread after this many MiB.
fn unread(settings: &str, mebibytes: u64) -> u64 {
    let server = Running::with(|config| config.read(settings).unwrap());
    write_sparse(&server, "huge", 1 << 40);
    let mut greedy = Greedy::at(1, &server);
    greedy.read(mebibytes);
    greedy.unread()
}

#[test]
fn who_only_asks_for_a_buffer_gets_none_and_who_moves_bytes_does() {
    let asked = unread("", 0);
    assert!(asked < 16 << 20, "{asked}");
    // Others are held to net.core.wmem_max.
    if fairwind_testing::permitted(fairwind_testing::root()) {
        let earned = unread("", 64);
        println!("unread: {asked} bytes without reading, {earned} after 64 MiB");
        assert!(earned > 24 << 20, "{earned}");
    }
}

#[test]
fn right_sized_buffers_keep_to_a_budget() {
    let within = unread("[limits]\ndrs_bytes_per_address = 6291456", 64);
    println!("unread: {within} bytes within a budget of 6 MiB");
    assert!(within < 16 << 20, "{within}");
}

#[test]
fn right_sized_buffers_of_all_addresses_keep_to_one_budget() {
    // Others are held to net.core.wmem_max.
    if !fairwind_testing::permitted(fairwind_testing::root()) {
        return;
    }
    let budget = "[limits]\ndrs_bytes = 33554432";
    let server = Running::with(|config| config.read(budget).unwrap());
    write_sparse(&server, "huge", 1 << 40);
    let mut first = Greedy::at(1, &server);
    first.read(64);
    let mut second = Greedy::at(2, &server);
    second.read(64);
    let (all, none) = (first.unread(), second.unread());
    println!("unread: {all} bytes of the first and {none} of the second within 32 MiB");
    assert!(all > 24 << 20, "{all}");
    assert!(none < 16 << 20, "{none}");
    first.leave();
    second.read(1);
    let freed = second.unread();
    assert!(freed > 24 << 20, "{freed}");
}

#[test]
fn wrong_passwords_ban_an_address_from_logging_in_by_name() {
    let server = Running::with(|config| {
        config.limits.login_ban_failures = 2;
    });
    let log_in = |number: usize, password: &str| {
        let (mut client, _) = Client::from(loopback(number), server.address);
        client.expect("USER alice", 331);
        let reply = client.say(&format!("PASS {password}"));
        (reply.code, reply.text())
    };
    assert_eq!(log_in(1, "wrong").0, 530);
    assert_eq!(log_in(1, "secret").0, 230);
    assert_eq!(log_in(1, "wrong").0, 530);
    let (code, text) = log_in(1, "secret");
    assert_eq!(code, 421);
    assert!(text.contains("try again in 600 s"), "{text}");
    assert_eq!(log_in(2, "secret").0, 230);
    anonymous_from(1, &server).expect("PWD", 257);
}

#[test]
fn another_configuration_is_for_new_sessions_and_disturbs_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let config = |settings: &str| {
        let mut config = crate::common::config(dir.path());
        config.read(settings).unwrap();
        config
    };
    let server = bind_server(config("")).unwrap();
    let (address, reload, stop) = (server.address().unwrap(), server.reload(), Stop::default());
    let asked = stop.clone();
    let running = thread::spawn(move || server.run(&asked));
    let content = noise(20_000_000);
    std::fs::write(dir.path().join("x"), &content).unwrap();
    let mut before = Client::connect(address);
    before.login("anonymous", "me@example.org");
    let mut data = before.passive();
    before.expect("RETR x", 150);
    let mut got = vec![0; 1_000];
    data.read_exact(&mut got).unwrap();

    reload
        .with(config(&format!("anonymous = false\n{}", bob())))
        .unwrap();
    let mut after = Client::connect(address);
    after.login("bob", "secret");
    let mut stranger = Client::connect(address);
    stranger.expect("USER anonymous", 331);
    stranger.expect("PASS me@example.org", 530);
    // An invalid change is reported and changes nothing.
    let mut nowhere = config("");
    nowhere.root = "/nowhere".into();
    let error = reload.with(nowhere).unwrap_err().to_string();
    assert!(error.contains("/nowhere"), "{error}");
    let mut again = Client::connect(address);
    again.login("bob", "secret");

    data.read_to_end(&mut got).unwrap();
    assert_eq!(before.reply().code, 226);
    assert!(got == content);
    before.expect("PWD", 257);
    stop.ask();
    running.join().unwrap().unwrap();
}

#[test]
fn uploads_of_one_name_in_two_roots_of_a_user_are_two() {
    let dir = tempfile::tempdir().unwrap();
    let config = |home: &str| {
        std::fs::create_dir_all(dir.path().join(home)).unwrap();
        let mut config = crate::common::config(dir.path());
        config.users[0].home = Some(home.into());
        config
    };
    let server = bind_server(config("old")).unwrap();
    let (address, reload, stop) = (server.address().unwrap(), server.reload(), Stop::default());
    let asked = stop.clone();
    let running = thread::spawn(move || server.run(&asked));
    let alice = || {
        let mut client = Client::connect(address);
        client.login("alice", "secret");
        client
    };
    let [mut first, mut second] = [alice(), alice()];
    let mut old_data = first.passive();
    first.expect("STOR x", 150);
    old_data.write_all(b"old").unwrap();
    reload.with(config("new")).unwrap();
    let mut elsewhere = alice();
    let mut new_data = elsewhere.passive();
    elsewhere.expect("STOR x", 150);
    new_data.write_all(b"new").unwrap();
    thread::sleep(Duration::from_millis(1_100));
    // The one that it takes over is that of its own root.
    let data = second.passive();
    second.expect("APPE x", 150);
    assert_eq!(first.reply().code, 426);
    drop((data, new_data));
    assert_eq!(second.reply().code, 226);
    assert_eq!(elsewhere.reply().code, 226);
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert_eq!(
        (read("old/x"), read("new/x")),
        (b"old".to_vec(), b"new".to_vec())
    );
    stop.ask();
    running.join().unwrap().unwrap();
}

#[test]
fn a_server_without_descriptors_says_so_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x"), "abc").unwrap();
    let server = Process::start(dir.path());
    let mut client = Client::connect(server.address);
    client.login("anonymous", "me@example.org");
    let open = server.descriptors() as u64;
    let limit = |current| Rlimit {
        current: Some(current),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    let pid = Pid::from_child(&server.child);
    prlimit(Some(pid), Resource::Nofile, limit(open + 4)).unwrap();
    let mut crowd = Vec::new();
    let refused = loop {
        let (next, greeting) = Client::greeted(server.address);
        match greeting.code {
            220 => crowd.push(next),
            _ => break greeting,
        }
        assert!(crowd.len() < 10);
    };
    assert_eq!(refused.code, 421);
    assert!(refused.text().contains("descriptor"), "{refused}");
    // From now on no descriptor is available, even if one is closed.
    prlimit(Some(pid), Resource::Nofile, limit(3)).unwrap();
    for (command, code) in [("PASV", 425), ("HASH x", 451), ("STAT /", 451)] {
        let reply = client.expect(command, code);
        assert!(reply.text().contains("descriptor"), "{command}: {reply}");
    }
    drop(crowd);
    prlimit(Some(pid), Resource::Nofile, limit(open + 100)).unwrap();
    eventually("there is room again", || {
        Client::greeted(server.address).1.code == 220
    });
    assert_eq!(client.fetch("RETR x"), b"abc");
}

#[test]
fn a_checksum_whose_client_has_left_is_given_up_whatever_was_sent_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let huge = std::fs::File::create(dir.path().join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let server = Process::start(dir.path());
    let mut client = Client::connect(server.address);
    client.login("anonymous", "me@example.org");
    client.raw("HASH huge\r\n".repeat(200).as_bytes());
    client.raw(b"QUIT\r\n");
    drop(client);
    eventually("the session has ended", || server.sockets() == 1);
}

#[test]
fn who_logs_out_has_the_time_to_log_in_again() {
    let server = Running::with(|config| config.limits.login_s = 1);
    let mut client = Client::alice(&server);
    thread::sleep(Duration::from_millis(1_100));
    client.expect("REIN", 220);
    client.login("alice", "secret");
    thread::sleep(Duration::from_millis(1_100));
    client.expect("REIN", 220);
    assert_eq!(client.reply().code, 421);
}

#[test]
fn who_talks_all_the_time_has_no_more_time_to_log_in() {
    let server = Running::with(|config| config.limits.login_s = 1);
    let mut talking = TcpStream::connect(server.address).unwrap();
    let mut listening = talking.try_clone().unwrap();
    let begin = Instant::now();
    let talk = "NOOP\r\n".repeat(1_000);
    thread::spawn(move || while talking.write_all(talk.as_bytes()).is_ok() {});
    let mut replies = vec![0; 64 << 10];
    // The server may close with unread data left, so the connection may end with an error.
    while matches!(listening.read(&mut replies), Ok(1..)) {
        assert!(begin.elapsed() < Duration::from_secs(10), "still served");
    }
}
