//! TLS (RFC 4217): the server's commands and data connections, by a client that does exactly what a test says.

mod authority;
mod blocks;
mod filezilla;
mod flood;
mod hostile;
mod hosts;
mod impostors;
mod kernel;
mod memory;
mod ours;
mod peers;
mod proftpd;
mod proxies;
mod renegotiation;
mod resumption;
mod revocation;
mod servers;
mod third_party;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use fairwind_ftp::protocol::host_port::parse_epsv_reply;
use fairwind_ftp::protocol::reply::{Reply, ReplyReader};
use fairwind_ftp::server::{Config, TlsConfig};
use fairwind_testing::advisor::{Reply as Answer, TestAdvisor, advice};
use fairwind_testing::wait_until;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned, SupportedProtocolVersion, version};
use serde_json::json;

use crate::common::{Client, Running, data, noise};
use authority::Authority;

/// A TLS connection of the client.
type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A server with a certificate for localhost.
struct Server {
    running: Running,
    authority: Authority,
}

impl Server {
    fn start() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut TlsConfig)) -> Self {
        Self::configured(|config| change(config.tls.as_mut().unwrap()))
    }

    fn configured(change: impl FnOnce(&mut Config)) -> Self {
        let authority = Authority::new();
        let running = Running::with(|config| {
            config.tls = Some(authority.server_files());
            change(config);
        });
        Self { running, authority }
    }

    /// What a client needs who trusts the server's authority and has no session yet.
    fn stranger(&self) -> Arc<ClientConfig> {
        self.authority.client(&[&version::TLS13, &version::TLS12])
    }
}

/// The control connection of a client, under TLS.
struct Secure {
    lines: BufReader<Tls>,
    config: Arc<ClientConfig>,
}

fn tls(stream: TcpStream, config: &Arc<ClientConfig>) -> Tls {
    let name = ServerName::try_from("localhost").unwrap();
    tls_as(stream, config, name)
}

/// With another name of the server.
fn tls_as(stream: TcpStream, config: &Arc<ClientConfig>, name: ServerName<'static>) -> Tls {
    let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    StreamOwned::new(connection, stream)
}

impl Secure {
    /// AUTH TLS on a fresh connection.
    fn explicit(server: &Server, config: Arc<ClientConfig>) -> Self {
        let mut client = Client::connect(server.running.address);
        client.expect("AUTH TLS", 234);
        Self::over(client.stream, config)
    }

    fn over(stream: TcpStream, config: Arc<ClientConfig>) -> Self {
        Self {
            lines: BufReader::with_capacity(512, tls(stream, &config)),
            config,
        }
    }

    /// With another name of the server.
    fn over_as(stream: TcpStream, config: Arc<ClientConfig>, name: ServerName<'static>) -> Self {
        Self {
            lines: BufReader::with_capacity(512, tls_as(stream, &config, name)),
            config,
        }
    }

    /// alice with protected data connections.
    fn alice(server: &Server) -> Self {
        Self::alice_as(server, server.stranger())
    }

    fn alice_as(server: &Server, config: Arc<ClientConfig>) -> Self {
        let mut client = Self::explicit(server, config);
        client.expect("PBSZ 0", 200);
        client.expect("PROT P", 200);
        client.login();
        client
    }

    fn login(&mut self) {
        self.expect("USER alice", 331);
        self.expect("PASS secret", 230);
        self.expect("TYPE I", 200);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.lines.get_mut().write_all(bytes).unwrap();
    }

    fn reply(&mut self) -> Reply {
        let mut reader = ReplyReader::default();
        loop {
            let mut line = String::new();
            let count = self.lines.read_line(&mut line).unwrap();
            assert_ne!(count, 0, "the server has closed");
            if let Some(reply) = reader.take(line.trim_end_matches(['\r', '\n'])).unwrap() {
                return reply;
            }
        }
    }

    fn say(&mut self, line: &str) -> Reply {
        self.raw(format!("{line}\r\n").as_bytes());
        self.reply()
    }

    fn expect(&mut self, line: &str, code: u16) -> Reply {
        let reply = self.say(line);
        assert_eq!(reply.code, code, "{line}: {reply}");
        reply
    }

    /// A connection to the port that the server opens for data; plain so far.
    fn passive(&mut self) -> TcpStream {
        let port = parse_epsv_reply(&self.expect("EPSV", 229).text()).unwrap();
        data(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// A protected data connection, whose handshake comes with its first bytes.
    fn protected(&mut self) -> Tls {
        let stream = self.passive();
        tls(stream, &self.config)
    }

    /// What a command sends over a protected data connection.
    fn fetch(&mut self, command: &str) -> Vec<u8> {
        let mut data = self.protected();
        self.expect(command, 150);
        let mut content = Vec::new();
        // Fails without TLS's closing message.
        data.read_to_end(&mut content).unwrap();
        assert_eq!(self.reply().code, 226);
        content
    }

    /// Sends bytes for a command, ended in order or cut off; returns the final reply.
    fn give(&mut self, command: &str, content: &[u8], end: End) -> Reply {
        let mut data = self.protected();
        self.expect(command, 150);
        data.write_all(content).unwrap();
        if end == End::InOrder {
            data.conn.send_close_notify();
        }
        data.flush().unwrap();
        data.sock.shutdown(Shutdown::Write).unwrap();
        // What the server has to say: tickets.
        let _ = data.read_to_end(&mut Vec::new());
        self.reply()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    InOrder,
    Cut,
}

#[test]
fn both_versions_protect_the_session_and_its_data_connections() {
    let server = Server::start();
    let content = noise(3_000_000);
    server.running.write("x", &content);
    let versions: [&'static SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    for version in versions {
        let mut client = Secure::alice_as(&server, server.authority.client(&[version]));
        assert!(client.fetch("RETR x") == content);
        // More data connections than tickets have come with the control connection.
        for _ in 0..5 {
            assert_eq!(client.give("STOR y", &content, End::InOrder).code, 226);
            assert!(server.running.read("y") == content);
        }
        let list = String::from_utf8(client.fetch("NLST")).unwrap();
        assert_eq!(list, "x\r\ny\r\n");
        client.expect("PROT C", 200);
        let mut plain = client.passive();
        client.expect("RETR x", 150);
        let mut got = Vec::new();
        plain.read_to_end(&mut got).unwrap();
        assert!(got == content);
        assert_eq!(client.reply().code, 226);
        let status = client.say("STAT").text();
        assert!(
            status.contains("TLS on the control connection\n"),
            "{status}"
        );
        client.expect("QUIT", 221);
        // In order, with TLS's closing message.
        assert_eq!(client.lines.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn commands_come_in_the_order_of_the_standard() {
    let server = Server::start();
    let mut plain = Client::connect(server.running.address);
    let features = plain.expect("FEAT", 211).lines;
    for feature in ["AUTH TLS", "PBSZ", "PROT"] {
        assert!(
            features
                .iter()
                .any(|line| line.trim_ascii() == feature.as_bytes()),
            "{features:?}"
        );
    }
    assert!(plain.expect("HELP", 214).text().contains("AUTH PBSZ PROT"));
    plain.expect("PBSZ 0", 503);
    plain.expect("PROT P", 503);
    plain.expect("CCC", 534);
    plain.expect("AUTH", 501);
    plain.expect("AUTH SSL", 504);
    plain.expect("AUTH KERBEROS_V4", 504);
    plain.expect("AUTH tls", 234);
    let mut client = Secure::over(plain.stream, server.stranger());
    client.expect("AUTH TLS", 503);
    client.expect("PROT P", 503);
    client.expect("PBSZ x", 501);
    client.expect("PBSZ 4294967296", 501);
    assert_eq!(client.expect("PBSZ 16384", 200).text(), "PBSZ=0");
    client.expect("PROT S", 536);
    client.expect("PROT E", 536);
    client.expect("PROT X", 504);
    client.expect("PROT", 501);
    client.expect("PROT P", 200);
    client.expect("CCC", 534);
    client.login();
    client.expect("REIN", 220);
    client.expect("PROT P", 503);
    client.expect("USER alice", 331);
}

#[test]
fn a_login_before_tls_does_not_count_behind_it() {
    let server = Server::start();
    let mut plain = Client::alice(&server.running);
    plain.expect("AUTH TLS", 234);
    let mut client = Secure::over(plain.stream, server.stranger());
    client.expect("PWD", 530);
    client.login();
    client.expect("PWD", 257);
}

#[test]
fn a_server_without_a_certificate_offers_nothing() {
    let server = Running::start();
    let mut client = Client::connect(server.address);
    let features = client.expect("FEAT", 211).text();
    assert!(!features.contains("AUTH"), "{features}");
    for command in ["AUTH TLS", "PBSZ 0", "PROT P", "CCC", "ADAT x"] {
        client.expect(command, 502);
    }
}

#[test]
fn where_tls_is_required_neither_names_nor_files_pass_in_clear() {
    let server = Server::with(|tls| tls.required = true);
    server.running.write("x", "x");
    let mut plain = Client::connect(server.running.address);
    plain.expect("USER alice", 530);
    plain.expect("USER anonymous", 530);
    plain.expect("PASS secret", 503);
    plain.expect("AUTH TLS", 234);
    let mut client = Secure::over(plain.stream, server.stranger());
    client.login();
    let _waiting = client.passive();
    client.expect("RETR x", 521);
    client.expect("STOR y", 521);
    client.expect("LIST", 521);
    client.expect("PBSZ 0", 200);
    client.expect("PROT C", 534);
    client.expect("PROT P", 200);
    assert_eq!(client.fetch("RETR x"), b"x");
}

#[test]
fn implicit_tls_protects_from_the_first_byte_and_data_connections_unasked() {
    let server = Server::with(|tls| {
        tls.listen = Some("127.0.0.1:0".parse().unwrap());
        tls.required = true;
    });
    server.running.write("x", "x");
    let stream = data(server.running.tls_address.unwrap());
    let mut client = Secure::over(stream, server.stranger());
    assert_eq!(client.reply().code, 220);
    client.expect("AUTH TLS", 503);
    client.login();
    assert_eq!(client.fetch("RETR x"), b"x");
    client.expect("REIN", 220);
    client.login();
    assert_eq!(client.fetch("RETR x"), b"x");
}

#[test]
fn data_connections_that_the_server_opens_are_protected_by_it_all_the_same() {
    let server = Server::start();
    server.running.write("x", "content");
    let mut client = Secure::alice(&server);
    let (listener, port) = crate::common::listening("127.0.0.1");
    client.expect(&format!("PORT {port}"), 200);
    client.expect("RETR x", 150);
    let mut data = tls(listener.accept().unwrap().0, &client.config);
    let mut content = String::new();
    data.read_to_string(&mut content).unwrap();
    assert_eq!(content, "content");
    assert_eq!(client.reply().code, 226);
}

#[test]
fn names_of_alpn_are_taken_and_not_asked_for() {
    let server = Server::start();
    for (offered, chosen) in [
        (vec!["ftp"], Some("ftp")),
        (vec!["http/1.1", "ftp-data"], Some("ftp-data")),
        (vec!["http/1.1"], None),
        (vec![], None),
    ] {
        let mut config = ClientConfig::clone(&server.stranger());
        config.alpn_protocols = offered
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let mut client = Secure::explicit(&server, Arc::new(config));
        client.expect("NOOP", 200);
        let got = client.lines.get_ref().conn.alpn_protocol();
        assert_eq!(got, chosen.map(str::as_bytes), "{offered:?}");
    }
}

#[test]
fn abor_is_answered_during_a_protected_transfer() {
    let server = Server::start();
    server.running.write("x", noise(20_000_000));
    let mut client = Secure::alice(&server);
    let mut data = client.protected();
    client.expect("RETR x", 150);
    data.read_exact(&mut [0; 100_000]).unwrap();
    assert_eq!(client.say("ABOR").code, 426);
    assert_eq!(client.reply().code, 226);
    let mut rest = Vec::new();
    let error = data.read_to_end(&mut rest).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn new_certificates_are_for_new_sessions_and_old_ones_go_on() {
    let server = Server::start();
    server.running.write("x", "x");
    let mut old = Secure::alice(&server);
    let shown = |client: &Secure| {
        let certificates = client.lines.get_ref().conn.peer_certificates();
        certificates.unwrap()[0].clone()
    };
    let first = shown(&old);
    let mut config = crate::common::config(server.running.dir.path());
    config.tls = Some(server.authority.server_files());
    server.running.reload.with(config.clone()).unwrap();
    let mut new = Secure::alice(&server);
    assert_ne!(shown(&new), first);
    assert_eq!(new.fetch("RETR x"), b"x");
    assert_eq!(old.fetch("RETR x"), b"x");
    // Nothing changes if the new one cannot be used.
    std::fs::write(&config.tls.as_ref().unwrap().key, "no key").unwrap();
    let error = server.running.reload.with(config).unwrap_err().to_string();
    assert!(
        error.contains("key") && error.contains("no private key"),
        "{error}"
    );
    assert_eq!(shown(&Secure::alice(&server)), shown(&new));
}

fn bind_error(tls: TlsConfig) -> String {
    let dir = tempfile::tempdir().unwrap();
    let config = Config {
        tls: Some(tls),
        ..crate::common::config(dir.path())
    };
    let error = fairwind_ftp::assembly::bind_server(config).err();
    error.expect("this cannot be served").to_string()
}

#[test]
fn what_is_wrong_with_certificates_and_keys_is_said_with_their_file() {
    let authority = Authority::new();
    let good = authority.server_files();
    let missing = TlsConfig::new("/nonexistent/cert.pem", &good.key);
    assert!(bind_error(missing).contains("/nonexistent/cert.pem: No such file"));
    let error = bind_error(TlsConfig::new(&good.key, &good.key));
    assert!(
        error.contains("there is no certificate (PEM) in it"),
        "{error}"
    );
    let error = bind_error(TlsConfig::new(&good.certificate, &good.certificate));
    assert!(error.contains("there is no private key"), "{error}");
    let other = authority.server_files();
    let error = bind_error(TlsConfig::new(&good.certificate, &other.key));
    assert!(error.contains(&shown(&other.key)), "{error}");
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn clients_show_certificates_where_they_are_asked_for() {
    let clients = Authority::new();
    let ca = clients.ca_file();
    for required in [true, false] {
        let server = Server::with(|tls| {
            tls.client_ca = Some(ca.clone());
            if !required {
                tls.client_certificates = "allow".parse().unwrap();
            }
        });
        server.running.write("x", "x");
        let known = server.authority.client_with(clients.issue(&["alice"]));
        assert_eq!(Secure::alice_as(&server, known).fetch("RETR x"), b"x");
        let foreign = server
            .authority
            .client_with(Authority::new().issue(&["alice"]));
        assert!(is_refused(&server, foreign));
        assert_eq!(is_refused(&server, server.stranger()), required);
    }
}

/// Whether the server ends a session before its first reply under TLS.
fn is_refused(server: &Server, config: Arc<ClientConfig>) -> bool {
    let mut client = Secure::explicit(server, config);
    let sent = client.lines.get_mut().write_all(b"NOOP\r\n");
    let mut line = String::new();
    sent.and_then(|()| client.lines.read_line(&mut line))
        .is_err()
}

#[test]
fn right_sizing_runs_inside_the_protection() {
    let server = Server::start();
    server.running.write("x", noise(8_000_000));
    let mut client = Secure::alice(&server);
    client.expect("OPTS DRS 00112233445566778899aabbccddeeff", 200);
    let port = parse_epsv_reply(&client.expect("EPSV", 229).text()).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = tls(data(address), &client.config);
    client.expect("RETR x", 150);
    stream.read_exact(&mut [0; 1_000]).unwrap();
    // In clear the token is not even looked at.
    let mut plain = data(address);
    plain
        .write_all(b"DRS 00112233445566778899aabbccddeeff\r\n")
        .unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).ok();
    assert!(!answer.starts_with(b"SBUF"), "{answer:?}");
    let mut channel = tls(data(address), &client.config);
    channel
        .write_all(b"DRS 00112233445566778899aabbccddeeff\r\n")
        .unwrap();
    assert!(!channel.conn.is_handshaking());
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 7_999_000);
    assert_eq!(client.reply().code, 226);
}

#[test]
fn advice_is_followed_on_protected_data_connections() {
    let log = tempfile::tempdir().unwrap();
    let advised = json!({ "send_buffer_bytes": 3_000_000, "reason": "the test says so" });
    let advisor = TestAdvisor::answering(vec![Answer::Advice(advice(3600.0, advised))]);
    let file = log.path().join("advice.log");
    let server = Server::configured(|config| {
        config.advisor = Some(advisor.url());
        config.advice_log = Some(file.clone());
    });
    // More than the buffers hold: the transfer lasts until its client reads.
    server.running.write("x", noise(32_000_000));
    let mut client = Secure::alice(&server);
    let mut data = client.protected();
    client.expect("RETR x", 150);
    data.read_exact(&mut [0; 1_000]).unwrap();
    wait_until("the buffer is set", || {
        let told = std::fs::read_to_string(&file).unwrap_or_default();
        told.contains(r#""what":"send_buffer""#)
    });
    let mut rest = Vec::new();
    data.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 31_999_000);
    assert_eq!(client.reply().code, 226);
}
