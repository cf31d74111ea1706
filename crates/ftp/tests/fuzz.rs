//! Logins, commands, transfers in stream and block mode, and copies between two sessions, valid, broken and hostile, in clear
//! and under TLS, over the sockets of a server in another process: what is right stays right meanwhile, and afterwards
//! nothing is left of them.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_ftp::protocol::host_port::{format_port, parse_epsv_reply, parse_passive_reply};
use fairwind_ftp::protocol::reply::{Reply, ReplyReader};
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, ServerConfig, ServerConnection,
    StreamOwned,
};

use crate::blocks::{END_OF_FILE, END_OF_RECORD, block, in_blocks, read_file};
use crate::common::{
    Client, Process, TIMEOUT, connect_from, eventually, listening, loopback, noise,
    try_connect_from,
};
use crate::strangers::hostile::{Chance, hostile};
use crate::strangers::{LENIENT, bob};

/// Clients at a time.
const CLIENTS: usize = 8;

/// Logins, commands and transfers in `make test`, and for each of the factor in `make fuzz`: a million by its default.
const USUAL: i64 = 10_000;
const FOR_EACH: i64 = 50_000;

/// Those before memory is first looked at: the blocks for passwords, stacks and caches are there then, and stay.
const BEFORE: i64 = 4_000;

/// By how much memory may differ from then, KiB: caches of the C library, one for each thread.
const SPREAD: u64 = 8 << 10;

/// Longest wait of a hostile client for a reply.
const IMPATIENCE: Duration = Duration::from_millis(5);

fn operations() -> i64 {
    let factor = std::env::var(fairwind_testing::fuzz::FACTOR).ok();
    factor.map_or(USUAL, |factor| FOR_EACH * factor.parse::<i64>().unwrap())
}

/// What all clients know.
struct Place {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    /// For a server with the same certificate.
    serving: Arc<ServerConfig>,
    /// What is in the file `middle`.
    middle: Vec<u8>,
    work: std::path::PathBuf,
    /// Operations that are still to be done.
    left: AtomicI64,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    logins: AtomicUsize,
    commands: AtomicUsize,
    transfers: AtomicUsize,
    /// Of these, on a data connection that an earlier one had left open.
    shared: AtomicUsize,
    copies: AtomicUsize,
    hostile: AtomicUsize,
    protected: AtomicUsize,
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Place {
    /// Whether there is more to do; takes `number` off.
    fn take(&self, number: i64) -> bool {
        self.left.fetch_sub(number, Ordering::Relaxed) > 0
    }

    /// TLS for one session: tickets of others are of no use.
    fn own_tls(&self, chance: &mut Chance) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.tls);
        config.resumption = Resumption::in_memory_sessions(16);
        if chance.below(2) == 0 {
            // With it TLS 1.3, otherwise 1.2.
            config.alpn_protocols = vec![b"ftp-data".to_vec()];
        }
        Arc::new(config)
    }
}

/// A connection, in clear or protected.
enum Connection {
    Plain(TcpStream),
    Protected(Box<StreamOwned<ClientConnection, TcpStream>>),
    /// With the server's part of TLS.
    Served(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Connection {
    fn new(stream: TcpStream, tls: Option<&Arc<ClientConfig>>) -> Self {
        let Some(config) = tls else {
            return Self::Plain(stream);
        };
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
        Self::Protected(Box::new(StreamOwned::new(connection, stream)))
    }

    fn served(stream: TcpStream, config: &Arc<ServerConfig>) -> Self {
        let connection = ServerConnection::new(Arc::clone(config)).unwrap();
        Self::Served(Box::new(StreamOwned::new(connection, stream)))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Protected(stream) => &stream.sock,
            Self::Served(stream) => &stream.sock,
        }
    }

    /// The server has closed it, behind the last byte that it had to send.
    fn expect_end(&mut self) {
        match self.read(&mut [0]) {
            Ok(count) => assert_eq!(count, 0),
            Err(error) => assert!(
                !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "{error}"
            ),
        }
    }

    /// Takes the tickets of TLS 1.3 that come with its handshake: each is good for one further connection, and nothing
    /// else is read of uploads that are cut.
    fn take_tickets(&mut self) {
        let Self::Protected(stream) = self else {
            return;
        };
        let has_tickets = |connection: &ClientConnection| {
            connection.protocol_version() != Some(ProtocolVersion::TLSv1_3)
                || connection.tls13_tickets_received() > 0
        };
        while !has_tickets(&stream.conn) {
            assert_ne!(stream.conn.read_tls(&mut stream.sock).unwrap(), 0);
            stream.conn.process_new_packets().unwrap();
        }
    }

    /// The end of what is sent; takes what the server still has to say.
    fn end(mut self) {
        if let Self::Protected(stream) = &mut self {
            stream.conn.send_close_notify();
            stream.flush().unwrap();
            self.socket().shutdown(std::net::Shutdown::Write).unwrap();
            let _ = self.read_to_end(&mut Vec::new());
        }
    }
}

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(bytes),
            Self::Protected(stream) => stream.read(bytes),
            Self::Served(stream) => stream.read(bytes),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Protected(stream) => stream.write(bytes),
            Self::Served(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Protected(stream) => stream.flush(),
            Self::Served(stream) => stream.flush(),
        }
    }
}

/// A client that does everything right, and whom everything has to succeed for.
struct Honest<'a> {
    place: &'a Place,
    lines: BufReader<Connection>,
    tls: Option<Arc<ClientConfig>>,
    own: IpAddr,
    number: usize,
}

impl<'a> Honest<'a> {
    fn log_in(place: &'a Place, number: usize, chance: &mut Chance) -> Self {
        let is_protected = chance.below(4) == 0;
        Self::log_in_from(loopback(number), place, number, is_protected, chance)
    }

    fn log_in_from(
        own: IpAddr,
        place: &'a Place,
        number: usize,
        is_protected: bool,
        chance: &mut Chance,
    ) -> Self {
        let stream = connect_from(own, place.address);
        let mut client = Self {
            place,
            lines: BufReader::with_capacity(512, Connection::Plain(stream)),
            tls: None,
            own,
            number,
        };
        assert_eq!(client.reply().code, 220);
        if is_protected {
            client.expect("AUTH TLS", 234);
            let tls = place.own_tls(chance);
            let stream = client.lines.get_ref().socket().try_clone().unwrap();
            let protected = Connection::new(stream, Some(&tls));
            client.lines = BufReader::with_capacity(512, protected);
            client.expect("PBSZ 0", 200);
            client.expect("PROT P", 200);
            client.tls = Some(tls);
            count(&place.counts.protected);
        }
        for _ in 0..chance.below(4) {
            let (name, password, code) = [
                ("carol", "wrong", 530),
                ("nobody", "secret", 530),
                ("anonymous", "me@example.org", 230),
                ("carol", "secret", 230),
            ][chance.below(4)];
            // An unknown name takes as long as the most expensive hash.
            if name != "nobody" || chance.below(50) == 0 {
                client.expect(&format!("USER {name}"), 331);
                client.expect(&format!("PASS {password}"), code);
                client.expect("REIN", 220);
                count(&place.counts.logins);
                place.take(1);
            }
            if client.tls.is_some() {
                client.expect("PBSZ 0", 200);
                client.expect("PROT P", 200);
            }
        }
        client.expect("USER carol", 331);
        client.expect("PASS secret", 230);
        client.expect("TYPE I", 200);
        count(&place.counts.logins);
        client
    }

    fn reply(&mut self) -> Reply {
        let mut reader = ReplyReader::default();
        loop {
            let mut line = String::new();
            let got = self.lines.read_line(&mut line).unwrap();
            assert_ne!(got, 0, "the server has closed");
            if let Some(reply) = reader.take(line.trim_end_matches(['\r', '\n'])).unwrap() {
                return reply;
            }
        }
    }

    fn send(&mut self, line: &str) {
        let line = format!("{line}\r\n");
        self.lines.get_mut().write_all(line.as_bytes()).unwrap();
    }

    fn say(&mut self, line: &str) -> Reply {
        self.send(line);
        self.reply()
    }

    fn expect(&mut self, line: &str, code: u16) -> Reply {
        let reply = self.say(line);
        assert_eq!(reply.code, code, "{line}: {reply}");
        reply
    }

    fn command(&mut self, chance: &mut Chance) {
        const ANSWERS: [(&str, u16); 34] = [
            ("PWD", 257),
            ("NOOP", 200),
            ("SYST", 215),
            ("FEAT", 211),
            ("HELP", 214),
            ("SITE HELP", 214),
            ("TYPE I", 200),
            ("MODE S", 200),
            ("STRU F", 200),
            ("REST 0", 350),
            ("ALLO 3", 200),
            ("STAT", 211),
            ("STAT small", 213),
            ("SIZE small", 213),
            ("MDTM small", 213),
            ("MLST small", 250),
            ("HASH small", 213),
            ("XCRC small", 250),
            ("OPTS MLST size;type;modify;", 200),
            ("SITE UMASK 022", 200),
            ("CWD dir", 250),
            ("CDUP", 250),
            ("ABOR", 226),
            ("MFMT 20200101000000 small", 213),
            ("CWD nowhere", 550),
            ("SIZE ../../etc/passwd", 550),
            ("DELE nowhere", 550),
            ("RMD nowhere", 550),
            ("MKD small", 550),
            ("RNTO x", 503),
            ("TYPE Q", 504),
            ("XYZZY", 500),
            ("PORT 192,0,2,1,200,200", 504),
            ("RANG 5 x", 501),
        ];
        // The codes in clear, and under TLS.
        const OF_THIRD_PARTIES: [(&str, u16, u16); 8] = [
            ("SSCN", 503, 200),
            ("SSCN ON", 503, 200),
            ("SSCN MAYBE", 501, 501),
            ("CPSV", 503, 227),
            ("SITE PEER", 503, 200),
            ("SITE PEER KEY 00", 503, 501),
            ("SITE PEER NOBODY", 503, 501),
            ("SITE PEER OFF", 503, 200),
        ];
        let (line, code) = match chance.below(ANSWERS.len() + OF_THIRD_PARTIES.len()) {
            at if at < ANSWERS.len() => ANSWERS[at],
            at => {
                let (line, clear, protected) = OF_THIRD_PARTIES[at - ANSWERS.len()];
                (line, if self.tls.is_some() { protected } else { clear })
            }
        };
        self.expect(line, code);
        if line == "SSCN ON" && self.tls.is_some() {
            self.expect("SSCN OFF", 200);
        }
        if line == "CWD dir" {
            self.expect("CWD /", 250);
        }
        count(&self.place.counts.commands);
    }

    /// A data connection for a command that the server accepts.
    fn data(&mut self, command: &str, chance: &mut Chance) -> Connection {
        let own = self.own.to_string();
        let stream = if chance.below(4) == 0 {
            let (listener, port) = listening(&own);
            self.expect(&format!("PORT {port}"), 200);
            self.expect(command, 150);
            listener.accept().unwrap().0
        } else {
            let at = if chance.below(2) == 0 {
                parse_passive_reply(&self.expect("PASV", 227).text()).unwrap()
            } else {
                let port = parse_epsv_reply(&self.expect("EPSV", 229).text()).unwrap();
                SocketAddr::new(self.place.address.ip(), port)
            };
            let stream = connect_from(self.own, at);
            self.expect(command, 150);
            stream
        };
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Connection::new(stream, self.tls.as_ref())
    }

    fn fetch(&mut self, command: &str, chance: &mut Chance) -> Vec<u8> {
        let mut content = Vec::new();
        // Under TLS, fails without its closing message.
        let read = self.data(command, chance).read_to_end(&mut content);
        self.succeeds(command, read);
        let reply = self.reply();
        assert_eq!(reply.code, 226, "{command}: {reply}");
        content
    }

    /// What has come of using a data connection; if nothing, the server says why.
    fn succeeds<T>(&mut self, command: &str, used: std::io::Result<T>) -> T {
        used.unwrap_or_else(|error| panic!("{command}: {error}: {}", self.reply()))
    }

    fn transfer(&mut self, chance: &mut Chance) {
        let middle = &self.place.middle;
        match chance.below(10) {
            0 => assert_eq!(self.fetch("RETR small", chance), b"abc"),
            1 => assert!(self.fetch("RETR middle", chance) == *middle),
            2 => {
                let from = chance.below(middle.len());
                self.expect(&format!("REST {from}"), 350);
                assert!(self.fetch("RETR middle", chance) == middle[from..]);
            }
            3 => {
                let list = String::from_utf8(self.fetch("NLST", chance)).unwrap();
                assert!(list.contains("small\r\n"), "{list}");
                let list = String::from_utf8(self.fetch("MLSD", chance)).unwrap();
                assert!(list.contains("; middle\r\n"), "{list}");
            }
            4 | 5 => {
                let name = format!("up-{}", self.number);
                // ALLO may have announced three. Without a byte the end would come before the handshake of TLS is over.
                let content = &middle[..3 + chance.below(middle.len() - 3)];
                let mut data = self.data(&format!("STOR {name}"), chance);
                data.write_all(content).unwrap();
                data.end();
                let reply = self.reply();
                assert_eq!(reply.code, 226, "{reply}");
                assert!(std::fs::read(self.place.work.join(&name)).unwrap() == content);
                self.expect(&format!("DELE {name}"), 250);
            }
            6 => {
                let mut data = self.data("RETR large", chance);
                let read = data.read_exact(&mut vec![0; 1 + chance.below(100_000)]);
                self.succeeds("RETR large", read);
                if chance.below(2) == 0 {
                    drop(data);
                    assert_eq!(self.reply().code, 426);
                } else {
                    assert_eq!(self.say("ABOR").code, 426);
                    assert_eq!(self.reply().code, 226);
                }
            }
            7 | 8 => return self.transfer_in_blocks(chance),
            _ => {
                let name = format!("cut-{}", self.number);
                let mut data = self.data(&format!("STOR {name}"), chance);
                data.write_all(&middle[..1 + chance.below(middle.len())])
                    .unwrap();
                data.take_tickets();
                assert_eq!(self.say("ABOR").code, 426);
                assert_eq!(self.reply().code, 226);
                drop(data);
                // Gone, or never begun.
                let code = self.say(&format!("DELE {name}")).code;
                assert!(matches!(code, 250 | 550), "{code}");
            }
        }
        count(&self.place.counts.transfers);
    }

    /// Several files, listings and failures in block mode, most of them over one data connection.
    fn transfer_in_blocks(&mut self, chance: &mut Chance) {
        self.expect("MODE B", 200);
        let mut data = None;
        for _ in 0..1 + chance.below(8) {
            if data.is_some() && chance.below(10) == 0 {
                // Another one takes its place.
                data = None;
            }
            if !self.transfer_block(&mut data, chance) {
                data = None;
            }
            count(&self.place.counts.transfers);
            self.place.take(1);
        }
        if let Some(data) = &mut data
            && chance.below(4) == 0
        {
            let (line, code) = [("ABOR", 226), ("PASV", 227), ("EPSV", 229)][chance.below(3)];
            self.expect(line, code);
            data.expect_end();
        }
        self.expect("MODE S", 200);
        if let Some(data) = &mut data {
            data.expect_end();
        }
    }

    /// Asks for something over the data connection that is open, or a new one.
    fn data_in_blocks(
        &mut self,
        data: &mut Option<Connection>,
        command: &str,
        chance: &mut Chance,
    ) {
        if data.is_some() {
            let reply = self.say(command);
            match reply.code {
                125 => return count(&self.place.counts.shared),
                // It was idle for too long, on a busy machine.
                425 => assert!(reply.text().contains("without a transfer"), "{reply}"),
                _ => panic!("{command}: {reply}"),
            }
        }
        *data = Some(self.data(command, chance));
    }

    /// Whether the data connection stays open behind it.
    fn transfer_block(&mut self, data: &mut Option<Connection>, chance: &mut Chance) -> bool {
        let middle = &self.place.middle;
        let (up, cut) = (
            format!("up-{}", self.number),
            format!("cut-{}", self.number),
        );
        match chance.below(12) {
            at @ 0..3 => {
                let (name, content) = [("small", &b"abc"[..]), ("middle", middle)][at % 2];
                self.data_in_blocks(data, &format!("RETR {name}"), chance);
                let read = read_file(data.as_mut().unwrap());
                assert!(self.succeeds(name, read) == content);
            }
            3 => {
                self.data_in_blocks(data, "NLST", chance);
                let list = String::from_utf8(read_file(data.as_mut().unwrap()).unwrap()).unwrap();
                assert!(list.contains("small\r\n"), "{list}");
            }
            4 => {
                self.expect("RETR nowhere", 550);
                self.expect("REST 3", 350);
                self.expect("RETR small", 501);
                return true;
            }
            5 => {
                // At once.
                self.data_in_blocks(data, "RETR small", chance);
                let number = chance.below(5);
                for _ in 0..number {
                    self.send("RETR middle");
                }
                let from = data.as_mut().unwrap();
                assert_eq!(read_file(from).unwrap(), b"abc");
                for _ in 0..number {
                    assert!(read_file(from).unwrap() == *middle);
                    assert_eq!([self.reply().code, self.reply().code], [250, 125]);
                }
            }
            6..9 => {
                // As above.
                let content = &middle[..3 + chance.below(middle.len() - 3)];
                self.data_in_blocks(data, &format!("STOR {up}"), chance);
                let mut sent = block(END_OF_RECORD, &content[..content.len() / 2]);
                let largest = 1 + chance.below(content.len() + 1);
                sent.extend(in_blocks(&content[content.len() / 2..], largest));
                let to = data.as_mut().unwrap();
                to.write_all(&sent).unwrap();
                to.flush().unwrap();
                to.take_tickets();
                let reply = self.reply();
                assert_eq!(reply.code, 250, "{reply}");
                assert!(std::fs::read(self.place.work.join(&up)).unwrap() == content);
                self.expect(&format!("DELE {up}"), 250);
                return true;
            }
            9 => {
                self.data_in_blocks(data, "RETR large", chance);
                let from = data.as_mut().unwrap();
                from.read_exact(&mut vec![0; 1 + chance.below(100_000)])
                    .unwrap();
                if chance.below(2) == 0 {
                    *data = None;
                    assert_eq!(self.reply().code, 426);
                } else {
                    assert_eq!(self.say("ABOR").code, 426);
                    assert_eq!(self.reply().code, 226);
                }
                return false;
            }
            at => {
                self.data_in_blocks(data, &format!("STOR {cut}"), chance);
                let sent = block(0, &middle[..1 + chance.below(middle.len() - 1)]);
                let to = data.as_mut().unwrap();
                to.write_all(&sent[..1 + chance.below(sent.len())]).unwrap();
                to.flush().unwrap();
                to.take_tickets();
                if at == 10 {
                    assert_eq!(self.say("ABOR").code, 426);
                    assert_eq!(self.reply().code, 226);
                } else {
                    if chance.below(2) == 0 {
                        // No descriptor of any RFC, wherever it is taken for one: the server may close before it has all.
                        let _ = to.write_all(&[0x0f; 70_000]).and_then(|()| to.flush());
                    }
                    *data = None;
                    assert_eq!(self.reply().code, 426);
                }
                let code = self.say(&format!("DELE {cut}")).code;
                assert!(matches!(code, 250 | 550), "{code}");
                return false;
            }
        }
        let reply = self.reply();
        assert_eq!(reply.code, 250, "{reply}");
        true
    }

    fn end(mut self, chance: &mut Chance) {
        if chance.below(3) > 0 {
            self.expect("QUIT", 221);
        }
    }
}

/// Has two sessions move files to each other under TLS, in both directions of the connection and with both parts of TLS.
fn copy(place: &Place, number: usize, chance: &mut Chance) {
    // From the server's own address, so that the other session's port is at the client's.
    let own = place.address.ip();
    let mut ends = [(); 2].map(|()| Honest::log_in_from(own, place, number, true, chance));
    let keys = ends
        .each_mut()
        .map(|end| end.expect("SITE PEER", 200).text());
    for (end, key) in ends.iter_mut().zip(keys.iter().rev()) {
        end.expect(&format!("SITE PEER {key}"), 200);
    }
    for _ in 0..=chance.below(3) {
        let (source, listening, client) = (chance.below(2), chance.below(2), chance.below(2));
        let is_once = listening == client && chance.below(2) == 0;
        for (number, end) in ends.iter_mut().enumerate() {
            let is_client = number == client && !is_once;
            end.expect(if is_client { "SSCN ON" } else { "SSCN OFF" }, 200);
        }
        let passive = if is_once { "CPSV" } else { "PASV" };
        let reply = ends[listening].expect(passive, 227).text();
        let Ok(SocketAddr::V4(at)) = parse_passive_reply(&reply) else {
            panic!("{reply}");
        };
        ends[1 - listening].expect(&format!("PORT {}", format_port(at)), 200);
        let name = format!("copy-{number}");
        ends[1 - source].send(&format!("STOR {name}"));
        ends[source].send("RETR middle");
        for code in [150, 226] {
            for end in &mut ends {
                let reply = end.reply();
                assert_eq!(reply.code, code, "{reply}");
            }
        }
        assert!(std::fs::read(place.work.join(&name)).unwrap() == place.middle);
        ends[0].expect(&format!("DELE {name}"), 250);
        count(&place.counts.copies);
        place.take(2);
    }
    for mut end in ends {
        end.expect("SSCN OFF", 200);
        end.expect("SITE PEER OFF", 200);
        assert_eq!(end.fetch("RETR small", chance), b"abc");
        end.end(chance);
    }
}

/// Blocks of any kind, with any end.
fn hostile_blocks(chance: &mut Chance) -> Vec<u8> {
    let mut blocks = Vec::new();
    for _ in 0..chance.below(30) {
        let descriptor = match chance.below(4) {
            0 => END_OF_FILE,
            1 => chance.below(256) as u8,
            _ => 0,
        };
        let bytes = vec![b'b'; chance.below(3_000)];
        blocks.extend(block(descriptor, &bytes));
    }
    blocks.truncate(chance.below(blocks.len() + 1));
    blocks
}

/// A client that keeps to nothing: lines of all kinds, several at once, data connections that are opened, stuffed and
/// left, and no goodbye.
fn misbehave(place: &Place, number: usize, chance: &mut Chance) {
    let own = loopback(number);
    let stream = connect_from(own, place.address);
    stream.set_read_timeout(Some(IMPATIENCE)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    let mut tls = None;
    let mut connection = Connection::Plain(stream);
    match chance.below(12) {
        0 => {
            // No handshake follows, or a broken one.
            let mut lines = b"AUTH TLS\r\n".to_vec();
            if chance.below(2) == 0 {
                lines.extend((0..chance.below(300)).map(|_| chance.below(256) as u8));
            }
            let _ = connection.write_all(&lines);
            let _ = connection.read(&mut [0; 512]);
            place.take(1);
            return;
        }
        1 => {
            let stream = connection.socket().try_clone().unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            let mut greeting = BufReader::with_capacity(1, connection);
            greeting.get_mut().write_all(b"AUTH TLS\r\n").unwrap();
            for _ in 0..2 {
                greeting.read_line(&mut String::new()).unwrap();
            }
            let config = place.own_tls(chance);
            connection = Connection::new(stream, Some(&config));
            let _ = connection.write_all(b"PBSZ 0\r\nPROT P\r\n");
            let _ = connection.read(&mut [0; 512]);
            let _ = connection.socket().set_read_timeout(Some(IMPATIENCE));
            tls = Some(config);
            count(&place.counts.protected);
        }
        _ => {}
    }
    if chance.below(10) > 0 {
        let user = chance.of(&["anonymous", "bob", "bob"]);
        let password = chance.of(&["secret", "secret", "wrong"]);
        let _ = connection
            .write_all(format!("USER {user}\r\nPASS {password}\r\nTYPE I\r\n").as_bytes());
        if chance.below(3) == 0 {
            let _ = connection.write_all(b"MODE B\r\n");
        }
        count(&place.counts.logins);
    }
    let mut data: Vec<Connection> = Vec::new();
    let mut replies = vec![0; 64 << 10];
    for _ in 0..chance.below(40) {
        let mut lines = Vec::new();
        let mut several = 1 + chance.below(5);
        for _ in 0..several {
            lines.extend(hostile(chance, own));
        }
        if chance.below(8) == 0 {
            lines.extend(
                b"MODE B\r\nPASV\r\nRETR small\r\nSTOR x\r\nRETR small\r\nNLST\r\nAPPE x\r\n",
            );
            several += 7;
        }
        if !place.take(several as i64) || connection.write_all(&lines).is_err() {
            break;
        }
        place.counts.hostile.fetch_add(several, Ordering::Relaxed);
        let got = match connection.read(&mut replies) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => break,
        };
        let text = String::from_utf8_lossy(&replies[..got]);
        let ports = text
            .lines()
            .filter_map(|line| parse_passive_reply(line.strip_prefix("227 ")?).ok());
        for at in ports.take(2) {
            // Now and then from another host than the control connection. Never from the server's, which is that of copies.
            let from = if chance.below(8) == 0 {
                loopback(CLIENTS)
            } else {
                own
            };
            let Ok(stream) = try_connect_from(from, at) else {
                continue;
            };
            stream.set_read_timeout(Some(IMPATIENCE)).unwrap();
            stream.set_write_timeout(Some(IMPATIENCE)).unwrap();
            let mut stream = match (&tls, chance.below(4)) {
                // In clear, or with the part of TLS that the server has itself unless it was told otherwise.
                (Some(_), 0) => Connection::Plain(stream),
                (Some(_), 1) => Connection::served(stream, &place.serving),
                (tls, _) => Connection::new(stream, tls.as_ref()),
            };
            let mut chunk = vec![0; 64 << 10];
            let _ = match chance.below(4) {
                0 => stream.read(&mut chunk).map(drop),
                1 => stream.write_all(&hostile_blocks(chance)),
                2 => {
                    stream.write_all(b"DRS 00112233445566778899aabbccddeeff\r\nSBUF 1 33554432\r\n")
                }
                _ => stream.write_all(&chunk),
            };
            data.push(stream);
        }
        data.truncate(4);
    }
}

/// Sessions until all operations are done.
fn run(place: &Place, number: usize, seed: u64) {
    let mut chance = Chance(seed);
    while place.left.load(Ordering::Relaxed) > 0 {
        if chance.below(3) > 0 {
            misbehave(place, number, &mut chance);
            continue;
        }
        if chance.below(10) == 0 {
            copy(place, number, &mut chance);
            continue;
        }
        let mut client = Honest::log_in(place, number, &mut chance);
        place.take(1);
        for _ in 0..chance.below(80) {
            if !place.take(1) {
                break;
            }
            if chance.below(4) == 0 {
                client.transfer(&mut chance);
            } else {
                client.command(&mut chance);
            }
        }
        client.end(&mut chance);
    }
}

fn do_it(place: &Place, operations: i64, seed: u64) {
    place.left.store(operations, Ordering::Relaxed);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let seed = seed + 0x9e37_79b9 * (1 + number as u64);
            scope.spawn(move || run(place, number, seed));
        }
    });
}

/// Two passwords are checked at a time, each in a block of 19 MiB that stays: both are there after this.
fn check_costly_passwords(address: SocketAddr) {
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            scope.spawn(move || {
                let (mut client, _) = Client::from(loopback(number), address);
                client.login("alice", "secret");
            });
        }
    });
}

/// A certificate for localhost in two files, what a client needs who trusts it, and what a server needs who has it.
fn certificate(folder: &Path) -> (String, Arc<ClientConfig>, Arc<ServerConfig>) {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, issued.cert.pem()).unwrap();
    std::fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(issued.cert.der().clone()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let own = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let serving = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], own)
        .unwrap();
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let settings = format!(
        "[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
        certificate.display(),
        key.display()
    );
    (settings, Arc::new(config), Arc::new(serving))
}

#[test]
fn of_a_million_logins_commands_and_transfers_nothing_is_left() {
    let (dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let work = dir.path().join("work");
    std::fs::create_dir_all(work.join("dir")).unwrap();
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    let middle = noise(50_000);
    for folder in [dir.path(), &work, &dir.path().join("dir")] {
        std::fs::write(folder.join("small"), "abc").unwrap();
        std::fs::write(folder.join("middle"), &middle).unwrap();
        let large = std::fs::File::create(folder.join("large")).unwrap();
        large.set_len(3_000_000_000).unwrap();
    }
    let (tls, config, serving) = certificate(files.path());
    let settings = format!(
        "{LENIENT}idle_s = 10\nconnect_s = 2\n{tls}handshake_s = 5\n{}home = \"dir\"\nquota_bytes = 4000000000\n{}home = \"work\"\n",
        bob(),
        bob().replace("\"bob\"", "\"carol\"")
    );
    let server = Process::with_settings(dir.path(), &settings);
    let place = Place {
        address: server.address,
        tls: config,
        serving,
        middle,
        work,
        left: AtomicI64::new(0),
        counts: Counts::default(),
    };
    check_costly_passwords(server.address);
    eventually("the first ones have gone", || server.sockets() == 1);
    let quiet = server.descriptors();
    let settled = || {
        let begin = Instant::now();
        while server.descriptors() > quiet {
            let open: Vec<_> = server.open_files().collect();
            assert!(begin.elapsed() < 2 * TIMEOUT, "left behind: {open:?}");
            thread::sleep(Duration::from_millis(20));
        }
        server.kib("VmRSS")
    };
    let begin = Instant::now();
    do_it(&place, BEFORE, 1);
    let before = settled();
    let quarters = [2, 3, 4, 5].map(|seed| {
        do_it(&place, (operations() - BEFORE) / 4, seed);
        settled()
    });
    let after = quarters[3];
    let counts = &place.counts;
    let of = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    println!(
        "{} logins, {} right commands, {} transfers, {} of them on a shared connection, {} copies, {} hostile lines, \
         {} protected sessions in {:?}; \
         {before} KiB before, {quarters:?} KiB after each quarter, {} KiB at most",
        of(&counts.logins),
        of(&counts.commands),
        of(&counts.transfers),
        of(&counts.shared),
        of(&counts.copies),
        of(&counts.hostile),
        of(&counts.protected),
        begin.elapsed(),
        server.kib("VmHWM"),
    );
    assert!(
        after < before + SPREAD,
        "{before} KiB before, {after} KiB after"
    );
}
