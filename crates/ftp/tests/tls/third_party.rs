//! Third-party transfers under TLS: two of this project's servers, with ProFTPD, by lftp, and with peers that are not who
//! they should be.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use fairwind_ftp::assembly::{ClientSetup, client_extensions};
use fairwind_ftp::client::{
    ClientError, Connection, Credentials, FileReport, Options, Place, TlsPolicy, Verification,
    third_party, third_party_file,
};
use fairwind_ftp::protocol::host_port::{format_port, parse_epsv_reply, parse_passive_reply};
use fairwind_ftp::server::TlsConfig;
use fairwind_ftp::tls::TlsSettings;
use fairwind_transfer::Buffer;
use rustls::{ServerConnection, StreamOwned};

use super::authority::Issued;
use super::ours::{Notes, Script, Scripted, alice, options, place, served, serving, trusting};
use super::servers::proftpd_tls;
use super::{Authority, Secure, Server, Tls, tls};
use crate::client::others::Vsftpd;
use crate::client::proftpd::Proftpd;
use crate::common::{Running, data, listening, noise};
use crate::peers::{have, run};

const TOKEN: &str = "00112233445566778899aabbccddeeff";

fn at(scheme: &str, address: SocketAddr, options: Options) -> Connection {
    Connection::new(place(scheme, address), alice(), options)
}

fn sized(authority: &Authority) -> Options {
    let extensions = client_extensions(&ClientSetup {
        drs: true,
        advisor: None,
        allow_nocc: Vec::new(),
        buffer: Buffer::Auto,
        background: false,
    });
    Options {
        extensions: extensions.unwrap(),
        ..trusting(authority)
    }
}

fn is_verified(report: &FileReport) -> bool {
    matches!(report.checksum, Verification::Verified(_)) && report.interruptions.is_empty()
}

#[test]
fn two_servers_move_files_under_tls_and_serve_the_client_again() {
    let implicit = |tls: &mut TlsConfig| {
        tls.listen = Some("127.0.0.1:0".parse().unwrap());
        tls.required = true;
    };
    let (a, b) = (Server::with(implicit), Server::with(implicit));
    let content = noise(3_000_000);
    a.running.write("x", &content);
    a.running.write("small", "small");
    let mut from = at("ftpes", a.running.address, sized(&a.authority));
    let mut to = at("ftps", b.running.tls_address.unwrap(), sized(&b.authority));
    for name in ["x", "small", "x"] {
        let report = third_party_file(&mut from, &mut to, name.as_bytes(), b"copy", 0).unwrap();
        assert!(is_verified(&report), "{report:?}");
        assert!(b.running.read("copy") == a.running.read(name));
    }
    // And back, with the parts as they are.
    third_party_file(&mut to, &mut from, b"copy", b"back", 0).unwrap();
    assert!(a.running.read("back") == content);
    for connection in [&mut from, &mut to] {
        let listed = connection.with(|session| session.list(b"")).unwrap();
        assert!(!listed.is_empty());
    }
}

#[test]
fn what_broke_off_between_two_servers_goes_on_under_tls() {
    let (a, b) = (Server::start(), Server::start());
    let content = noise(1_000_000);
    a.running.write("x", &content);
    b.running.write(".x.part", &content[..400_000]);
    let mut from = at("ftpes", a.running.address, trusting(&a.authority));
    let mut to = at("ftpes", b.running.address, trusting(&b.authority));
    let report = third_party(&mut from, &mut to, 0).unwrap();
    assert_eq!((report.resumed_at, report.bytes), (400_000, 600_000));
    assert!(b.running.read("x") == content);
}

#[test]
fn what_is_protected_at_one_end_only_is_not_copied() {
    let (a, b) = (Server::start(), Server::start());
    a.running.write("x", "x");
    let mut plain = at("ftp", a.running.address, options(TlsSettings::default()));
    let mut protected = at("ftpes", b.running.address, trusting(&b.authority));
    let error = third_party(&mut plain, &mut protected, 0).unwrap_err();
    assert!(matches!(&error, ClientError::Usage(_)), "{error}");
    assert!(error.to_string().contains("would be in clear"), "{error}");
    // Nor where one of them has no TLS to offer.
    let clear = Running::start();
    let wished = |authority: &Authority| Options {
        tls_policy: TlsPolicy::Offered,
        ..trusting(authority)
    };
    let mut from = at("ftp", a.running.address, wished(&a.authority));
    let mut to = at("ftp", clear.address, wished(&a.authority));
    let error = third_party(&mut from, &mut to, 0).unwrap_err();
    assert!(error.to_string().contains("would be in clear"), "{error}");
    assert!(!b.running.path("x").exists() && !clear.path("x").exists());
}

#[test]
fn servers_that_cannot_be_tls_clients_are_told_so() {
    let authority = Authority::new();
    let script = || Script {
        tls: served(&authority),
        content: b"x".to_vec(),
        ..Script::default()
    };
    let (a, b) = (Scripted::start(script()), Scripted::start(script()));
    let mut from = at("ftpes", a.address, trusting(&authority));
    let mut to = at("ftpes", b.address, trusting(&authority));
    let error = third_party(&mut from, &mut to, 0).unwrap_err();
    assert!(matches!(&error, ClientError::Usage(_)), "{error}");
    assert!(error.to_string().contains("SSCN, CPSV"), "{error}");
    // One of the two is enough.
    let server = Server::start();
    let mut to = at("ftpes", server.running.address, trusting(&server.authority));
    let error = third_party(&mut from, &mut to, 0).unwrap_err();
    assert!(!matches!(&error, ClientError::Usage(_)), "{error}");
}

/// CPSV, as servers without SSCN have it: the server listens and is the TLS client.
#[test]
fn a_server_that_can_only_listen_as_tls_client_does_so() {
    let (authority, ours) = (Authority::new(), Server::start());
    let content = noise(300_000);
    ours.running.write("x", &content);
    let own = authority.issue(&["localhost"]);
    let other = Scripted::start(Script {
        tls: Some(Arc::new(serving(&own))),
        as_client: Some(ours.authority.client_with(own)),
        ..Script::default()
    });
    let stored = Arc::clone(&other.stored);
    let mut from = at("ftpes", ours.running.address, trusting(&ours.authority));
    let mut to = at("ftpes", other.address, trusting(&authority));
    third_party(&mut from, &mut to, 0).unwrap();
    assert!(other.has_heard("CPSV") && !other.has_heard("SSCN"));
    assert!(*stored.lock().unwrap() == content);
}

#[test]
fn the_commands_of_third_parties_need_tls() {
    let server = Server::start();
    let mut plain = crate::common::Client::alice(&server.running);
    for command in ["SSCN ON", "CPSV", "SITE PEER"] {
        plain.expect(command, 503);
    }
    let without = Running::start();
    let mut bare = crate::common::Client::alice(&without);
    let features = bare.expect("FEAT", 211).text();
    assert!(!features.contains("SSCN") && !features.contains("PEER"));
    for command in ["SSCN ON", "CPSV", "SITE PEER"] {
        bare.expect(command, 502);
    }
    let mut client = Secure::alice(&server);
    let features = client.expect("FEAT", 211).text();
    for feature in ["CPSV", "SSCN", "SITE PEER"] {
        assert!(features.lines().any(|line| line.trim() == feature));
    }
    assert_eq!(client.expect("SSCN", 200).text(), "SSCN:SERVER METHOD");
    assert_eq!(client.expect("SSCN ON", 200).text(), "SSCN:CLIENT METHOD");
    assert_eq!(client.expect("sscn off", 200).text(), "SSCN:SERVER METHOD");
    client.expect("SSCN MAYBE", 501);
    let key = client.expect("SITE PEER", 200).text();
    assert_eq!(client.expect("SITE PEER", 200).text(), key);
    assert_ne!(Secure::alice(&server).expect("SITE PEER", 200).text(), key);
    for wrong in ["PEER ON", "PEER KEY", "PEER KEY 00", "PEER CERTIFICATE x y"] {
        client.expect(&format!("SITE {wrong}"), 501);
    }
    client.expect("SITE PEER OFF", 200);
    client.expect("PROT C", 200);
    client.expect("CPSV", 503);
}

/// A session whose files go to, or come from, another server that is known by this.
fn with_peer(server: &Server, known_by: &str) -> Secure {
    let mut client = Secure::alice(server);
    client.expect(&format!("SITE PEER {known_by}"), 200);
    client
}

fn fingerprint(issued: &Issued) -> String {
    format!("CERTIFICATE {}", issued.fingerprint())
}

/// What a command gives to who comes to its data connection with this configuration.
fn taken(client: &mut Secure, config: Option<Arc<rustls::ClientConfig>>) -> (Vec<u8>, u16) {
    taken_by("RETR x", client, config)
}

fn taken_by(
    command: &str,
    client: &mut Secure,
    config: Option<Arc<rustls::ClientConfig>>,
) -> (Vec<u8>, u16) {
    let stream = client.passive();
    let mut got = Vec::new();
    client.expect(command, 150);
    match config {
        Some(config) => drop(tls(stream, &config).read_to_end(&mut got)),
        None => {
            let _ = stream.shutdown(Shutdown::Write);
            let _ = (&stream).read_to_end(&mut got);
        }
    }
    (got, client.reply().code)
}

#[test]
fn who_connects_in_place_of_the_peer_gets_nothing_and_leaves_nothing() {
    let server = Server::start();
    server.running.write("x", "secret");
    let trusted = server.authority.issue(&["localhost"]);
    let known = fingerprint(&trusted);
    let authority = &server.authority;
    // Another server's certificate, even one from the same authority; none at all; none in clear.
    let other = authority.client_with(authority.issue(&["localhost"]));
    let mut client = with_peer(&server, &known);
    assert_eq!(taken(&mut client, Some(other.clone())), (vec![], 522));
    assert_eq!(taken(&mut client, Some(server.stranger())), (vec![], 522));
    let (got, code) = taken(&mut client, None);
    assert!(!got.windows(6).any(|bytes| bytes == b"secret"), "{got:?}");
    assert!(matches!(code, 425 | 522), "{code}");
    // Nor does the client itself, by its own session.
    let own = client.config.clone();
    assert_eq!(taken(&mut client, Some(own)), (vec![], 522));
    let right = authority.client_with(trusted);
    assert_eq!(
        taken(&mut client, Some(right.clone())),
        (b"secret".to_vec(), 226)
    );
    // What is known by its key cannot be replaced by a certificate.
    let mut client = with_peer(&server, &format!("KEY {}", "ab".repeat(32)));
    for config in [right, other] {
        assert_eq!(taken(&mut client, Some(config)), (vec![], 522));
    }
    let mut stream = client.protected();
    client.expect("STOR y", 150);
    let _ = stream.write_all(b"forged");
    let _ = stream.flush();
    assert_eq!(client.reply().code, 522);
    drop(client);
    assert!(!server.running.path("y").exists());
    let left = fs::read_dir(server.running.dir.path()).unwrap().count();
    assert_eq!(left, 1);
}

/// The keys of two sessions, each told to the other.
fn introduced(a: &mut Secure, b: &mut Secure) {
    let (one, other) = (a.expect("SITE PEER", 200), b.expect("SITE PEER", 200));
    a.expect(&format!("SITE PEER {}", other.text()), 200);
    b.expect(&format!("SITE PEER {}", one.text()), 200);
}

fn listens(client: &mut Secure) -> SocketAddr {
    let port = parse_epsv_reply(&client.expect("EPSV", 229).text()).unwrap();
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn port_of(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else {
        panic!("IPv4 only");
    };
    format!("PORT {}", format_port(address))
}

#[test]
fn a_stranger_who_is_there_before_the_other_server_is_refused() {
    let (a, b) = (Server::start(), Server::start());
    b.running.write("x", "secret");
    let (mut to, mut from) = (Secure::alice(&a), Secure::alice(&b));
    introduced(&mut to, &mut from);
    from.expect("SSCN ON", 200);
    let address = listens(&mut to);
    let mut stranger = tls(data(address), &a.stranger());
    from.expect(&port_of(address), 200);
    to.expect("STOR x", 150);
    let _ = stranger.write_all(b"forged");
    let _ = stranger.flush();
    assert_eq!(to.reply().code, 522);
    from.raw(b"RETR x\r\n");
    assert_eq!(from.reply().code, 150);
    assert!(from.reply().code >= 400);
    assert!(!a.running.path("x").exists());
    // The same two sessions then meet.
    let address = listens(&mut to);
    from.expect(&port_of(address), 200);
    to.expect("STOR x", 150);
    from.expect("RETR x", 150);
    assert_eq!((to.reply().code, from.reply().code), (226, 226));
    assert_eq!(a.running.read("x"), b"secret");
}

/// A user of the same two servers cannot put himself in the place of another's transfer.
#[test]
fn another_session_of_the_right_server_is_a_stranger() {
    let (a, b) = (Server::start(), Server::start());
    a.running.write("x", "secret");
    let (mut from, mut to) = (Secure::alice(&a), Secure::alice(&b));
    introduced(&mut from, &mut to);
    let mut thief = Secure::alice(&b);
    thief.expect("SITE PEER", 200);
    let key = from.expect("SITE PEER", 200).text();
    thief.expect(&format!("SITE PEER {key}"), 200);
    thief.expect("SSCN ON", 200);
    let address = listens(&mut from);
    thief.expect(&port_of(address), 200);
    from.expect("RETR x", 150);
    thief.expect("STOR stolen", 150);
    assert_eq!(from.reply().code, 522);
    assert!(thief.reply().code >= 400);
    assert!(!b.running.path("stolen").exists());
}

#[test]
fn protected_at_one_server_and_clear_at_the_other_moves_nothing() {
    let (a, b) = (Server::start(), Server::start());
    a.running.write("x", "secret");
    let (mut from, mut to) = (Secure::alice(&a), Secure::alice(&b));
    introduced(&mut from, &mut to);
    from.expect("SSCN ON", 200);
    to.expect("PROT C", 200);
    let address = listens(&mut to);
    from.expect(&port_of(address), 200);
    to.expect("STOR x", 150);
    from.expect("RETR x", 150);
    // The first message of the handshake must not become a file.
    to.raw(b"ABOR\r\n");
    assert!(from.reply().code >= 400);
    assert_eq!(to.reply().code, 426);
    drop((from, to));
    assert!(!b.running.path("x").exists());
}

#[test]
fn a_server_that_is_the_tls_client_takes_no_other_certificate() {
    let server = Server::start();
    server.running.write("x", "secret");
    let right = server.authority.issue(&["localhost"]);
    let mut client = with_peer(&server, &fingerprint(&right));
    client.expect("SSCN ON", 200);
    let wrong = served(&server.authority).unwrap();
    for command in ["RETR x", "STOR y"] {
        let (listener, port) = listening("127.0.0.1");
        client.expect(&format!("PORT {port}"), 200);
        client.expect(command, 150);
        let (stream, _) = listener.accept().unwrap();
        let connection = ServerConnection::new(Arc::clone(&wrong)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let mut got = Vec::new();
        assert!(stream.read_to_end(&mut got).is_err());
        assert_eq!(got, b"");
        let reply = client.reply();
        assert_eq!(reply.code, 522, "{reply}");
        assert!(reply.text().contains("should be with"), "{reply}");
    }
    assert!(!server.running.path("y").exists());
}

#[test]
fn without_a_peer_a_tls_client_moves_no_files_and_still_lists() {
    let server = Server::start();
    server.running.write("x", "x");
    let mut client = Secure::alice(&server);
    client.expect("SSCN ON", 200);
    assert_eq!(client.fetch("NLST"), b"x\r\n");
    listens(&mut client);
    let reply = client.expect("RETR x", 503);
    assert!(reply.text().contains("SITE PEER"), "{reply}");
    client.expect("STOR y", 503);
    client.expect("SSCN OFF", 200);
    parse_passive_reply(&client.expect("CPSV", 227).text()).unwrap();
    client.expect("RETR x", 503);
    // CPSV is for one data connection.
    assert_eq!(client.fetch("RETR x"), b"x");
    client.expect(&format!("SITE PEER KEY {}", "ab".repeat(32)), 200);
    assert_eq!(client.fetch("NLST"), b"x\r\n");
    client.expect("REIN", 220);
    client.login();
    client.expect("PBSZ 0", 200);
    client.expect("PROT P", 200);
    assert_eq!(client.fetch("RETR x"), b"x");
}

/// A connection of right-sizing beside an upload, whose other end is another server.
fn says_sbuf(mut channel: impl Read + Write) {
    let greeting = format!("DRS {TOKEN}\r\n");
    channel.write_all(greeting.as_bytes()).unwrap();
    channel.flush().unwrap();
    let mut line = String::new();
    BufReader::new(channel).read_line(&mut line).unwrap();
    assert!(line.starts_with("SBUF "), "{line:?}");
}

#[test]
fn servers_right_size_inside_the_protection_whichever_is_the_tls_client() {
    let server = Server::start();
    let peer = server.authority.issue(&["localhost"]);
    let known = fingerprint(&peer);
    let as_server = Arc::new(serving(&peer));
    let as_client = server.authority.client_with(peer);
    for is_tls_client in [false, true] {
        let mut client = with_peer(&server, &known);
        client.expect(&format!("OPTS DRS {TOKEN}"), 200);
        client.expect(if is_tls_client { "SSCN ON" } else { "SSCN OFF" }, 200);
        let address = listens(&mut client);
        let (stream, channel) = (data(address), || data(address));
        client.expect("STOR y", 150);
        if is_tls_client {
            let tls = |stream: TcpStream| {
                let connection = ServerConnection::new(Arc::clone(&as_server)).unwrap();
                StreamOwned::new(connection, stream)
            };
            let mut data = tls(stream);
            data.write_all(&[7; 1_000]).unwrap();
            data.flush().unwrap();
            says_sbuf(tls(channel()));
            data.conn.send_close_notify();
            data.flush().unwrap();
            data.sock.shutdown(Shutdown::Write).unwrap();
        } else {
            let mut data: Tls = tls(stream, &as_client);
            data.write_all(&[7; 1_000]).unwrap();
            data.flush().unwrap();
            says_sbuf(tls(channel(), &as_client));
            data.conn.send_close_notify();
            data.flush().unwrap();
            data.sock.shutdown(Shutdown::Write).unwrap();
        }
        assert_eq!(client.reply().code, 226, "{is_tls_client}");
        assert_eq!(server.running.read("y"), [7; 1_000]);
    }
}

/// Two servers with certificates of one authority, whose servers both take for peers.
fn authorised(authority: &Authority) -> [Running; 2] {
    [0, 1].map(|_| {
        Running::with(|config| {
            config.tls = Some(TlsConfig {
                peer_ca: Some(authority.ca_file()),
                ..authority.server_files()
            });
        })
    })
}

#[test]
fn servers_that_the_operator_trusts_need_not_be_named() {
    let authority = Authority::new();
    let [running, _] = authorised(&authority);
    running.write("x", "x");
    let server = Server {
        running,
        authority: Authority::new(),
    };
    let authorities = |issued| authority.client_with(issued);
    let mut client = Secure::alice_as(&server, authorities(authority.issue(&["localhost"])));
    let own = client.config.clone();
    assert_eq!(taken(&mut client, Some(own)), (b"x".to_vec(), 226));
    let peer = authorities(authority.issue(&["b.example.org"]));
    assert_eq!(taken(&mut client, Some(peer.clone())), (b"x".to_vec(), 226));
    for listing in ["NLST", "LIST", "MLSD"] {
        let refused = taken_by(listing, &mut client, Some(peer.clone()));
        assert_eq!(refused, (vec![], 522), "{listing}");
    }
    let foreign = authorities(Authority::new().issue(&["localhost"]));
    assert_eq!(taken(&mut client, Some(foreign)), (vec![], 522));
    let none = authority.client(&[&rustls::version::TLS13, &rustls::version::TLS12]);
    assert_eq!(taken(&mut client, Some(none.clone())), (vec![], 522));
    // A client that shows none goes on as it would without.
    let mut client = Secure::alice_as(&server, none);
    assert_eq!(client.fetch("RETR x"), b"x");
    assert_eq!(client.fetch("NLST"), b"x\r\n");
}

#[test]
fn lftp_copies_between_two_servers_under_tls() {
    if !have("lftp") {
        return;
    }
    let authority = Authority::new();
    let content = noise(2_000_000);
    // Which server is the TLS client: the one that listens (CPSV), or the other (SSCN).
    for passive in ["yes", "no"] {
        let [a, b] = authorised(&authority);
        a.write("x", &content);
        let here = tempfile::tempdir().unwrap();
        let at = |server: &Running, name| {
            format!(
                "ftp://alice:secret@localhost:{}/{name}",
                server.address.port()
            )
        };
        let commands = format!(
            "set net:timeout 20; set net:max-retries 1; set cmd:fail-exit yes; set xfer:log no; \
             set ftp:ssl-force yes; set ftp:ssl-protect-data yes; set ftp:ssl-protect-fxp yes; \
             set ftp:fxp-force yes; set ftp:fxp-passive-sscn {passive}; set ssl:ca-file {}; \
             get {} -o {}; bye",
            authority.ca_file().display(),
            at(&a, "x"),
            at(&b, "y"),
        );
        let mut command = Command::new("lftp");
        command
            .current_dir(here.path())
            .env("HOME", here.path())
            .env("LC_ALL", "C.UTF-8")
            .args(["--norc", "-c", &commands]);
        run(&mut command);
        assert!(b.read("y") == content, "{passive}");
    }
}

/// ProFTPD with these lines, and the authority of its certificate.
fn proftpd(folder: &Path, authority: &Authority, lines: &str) -> Option<Proftpd> {
    let tls = proftpd_tls(folder, authority)?;
    Proftpd::start_with(&format!("{tls}{lines}"))
}

fn copy_both_ways(server: &Server, other: &Proftpd, authority: &Authority) {
    let content = noise(1_500_000);
    fs::write(other.there.join("x"), &content).unwrap();
    let there: Place = format!("ftpes://localhost:{}/x", other.process.address.port())
        .parse()
        .unwrap();
    let mut theirs = Connection::new(there, alice(), trusting(authority));
    let mut ours = at("ftpes", server.running.address, trusting(&server.authority));
    for _ in 0..3 {
        third_party_file(&mut theirs, &mut ours, b"x", b"y", 0).unwrap();
        assert!(server.running.read("y") == content);
        third_party_file(&mut ours, &mut theirs, b"y", b"z", 0).unwrap();
        assert!(fs::read(other.there.join("z")).unwrap() == content);
        fs::remove_file(other.there.join("z")).unwrap();
    }
}

/// As ProFTPD is by default, it demands resumption where it is the TLS server, and checks certificates where it is the
/// client.
#[test]
fn proftpd_is_the_tls_client_of_this_server_both_ways() {
    let (folder, authority, server) = (
        tempfile::tempdir().unwrap(),
        Authority::new(),
        Server::start(),
    );
    let lines = format!(
        "TLSCACertificateFile {}\nTLSVerifyServer NoReverseDNS\n",
        server.authority.ca_file().display()
    );
    let Some(other) = proftpd(folder.path(), &authority, &lines) else {
        return;
    };
    copy_both_ways(&server, &other, &authority);
}

/// ProFTPD 1.3.8 crashes when it refuses a certificate, which ends the session.
#[test]
fn this_server_is_the_tls_client_of_proftpd_both_ways_if_that_does_not_trust_it() {
    let (folder, authority, server) = (
        tempfile::tempdir().unwrap(),
        Authority::new(),
        Server::start(),
    );
    let lines = "TLSOptions NoSessionReuseRequired\n";
    let Some(other) = proftpd(folder.path(), &authority, lines) else {
        return;
    };
    copy_both_ways(&server, &other, &authority);
}

#[test]
fn two_servers_that_do_not_know_each_other_move_nothing() {
    let (folder, authority, server) = (
        tempfile::tempdir().unwrap(),
        Authority::new(),
        Server::start(),
    );
    // It demands resumption, and is not to be the TLS client.
    let lines = "<Limit SSCN>\nDenyAll\n</Limit>\n";
    let Some(other) = proftpd(folder.path(), &authority, lines) else {
        return;
    };
    server.running.write("x", noise(100_000));
    let place: Place = format!("ftpes://localhost:{}/z", other.process.address.port())
        .parse()
        .unwrap();
    let mut theirs = Connection::new(
        place,
        alice(),
        Options {
            retries: 0,
            ..trusting(&authority)
        },
    );
    let mut ours = at("ftpes", server.running.address, trusting(&server.authority));
    let error = third_party(&mut ours, &mut theirs, 0).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("SSCN ON"), "{error}");
    assert!(error.contains("with the parts of TLS exchanged"), "{error}");
    assert!(!other.there.join("z").exists());
}

#[test]
fn two_proftpds_copy_under_tls_with_a_note_that_nobody_tells_them_whom_to_expect() {
    let authority = Authority::new();
    let lines = format!(
        "TLSCACertificateFile {}\nTLSVerifyServer NoReverseDNS\nTLSOptions NoSessionReuseRequired\n",
        authority.ca_file().display()
    );
    let folders = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let start = |index: usize| proftpd(folders[index].path(), &authority, &lines);
    let (Some(a), Some(b)) = (start(0), start(1)) else {
        return;
    };
    let content = noise(500_000);
    fs::write(a.there.join("x"), &content).unwrap();
    let notes = Arc::new(Notes::default());
    let at = |server: &Proftpd| {
        let options = Options {
            progress: notes.clone(),
            ..trusting(&authority)
        };
        at("ftpes", server.process.address, options)
    };
    third_party(&mut at(&a), &mut at(&b), 0).unwrap();
    assert!(fs::read(b.there.join("x")).unwrap() == content);
    let notes = notes.0.lock().unwrap().join("\n");
    assert!(notes.contains("up to their operators"), "{notes}");
}

/// vsftpd has neither SSCN nor CPSV.
#[test]
fn this_server_is_the_tls_client_of_one_that_cannot_be_it() {
    let authority = Authority::new();
    let files = authority.server_files();
    let lines = format!(
        "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\n\
         require_ssl_reuse=NO\nssl_ciphers=HIGH\nrsa_cert_file={}\nrsa_private_key_file={}\n",
        files.certificate.display(),
        files.key.display(),
    );
    let Some(other) = Vsftpd::start_with(&lines) else {
        return;
    };
    let (server, content) = (Server::start(), noise(1_000_000));
    fs::write(other.directory.path().join("pub/x"), &content).unwrap();
    let there = format!("ftpes://localhost:{}/pub/x", other.process.address.port());
    let theirs = || {
        let options = trusting(&authority);
        Connection::new(there.parse().unwrap(), Credentials::anonymous(), options)
    };
    let mut ours = at("ftpes", server.running.address, trusting(&server.authority));
    third_party_file(&mut theirs(), &mut ours, b"pub/x", b"y", 0).unwrap();
    assert!(server.running.read("y") == content);
    third_party_file(&mut ours, &mut theirs(), b"y", b"pub/z", 0).unwrap();
    assert!(fs::read(other.directory.path().join("pub/z")).unwrap() == content);
}
