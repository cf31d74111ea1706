//! Whose data connection it is: it resumes the TLS session of its control connection, or it is refused.

use std::io::Read;
use std::sync::Arc;

use rustls::{ClientConfig, ProtocolVersion, version};

use super::{Authority, End, Secure, Server, tls};

#[test]
fn a_data_connection_that_resumes_nothing_is_refused() {
    for version in [&version::TLS13, &version::TLS12] {
        let server = Server::start();
        server.running.write("x", "x");
        let mut client = Secure::alice_as(&server, server.authority.client(&[version]));
        let mut data = tls(client.passive(), &server.authority.client(&[version]));
        client.expect("RETR x", 150);
        let mut got = Vec::new();
        let _ = data.read_to_end(&mut got);
        let reply = client.reply();
        assert_eq!((reply.code, got.len()), (522, 0), "{reply}");
        assert!(reply.text().contains("must resume"), "{reply}");
        // The session goes on.
        assert_eq!(client.fetch("RETR x"), b"x");
    }
}

#[test]
fn the_session_of_another_control_connection_takes_no_data_connection_over() {
    let server = Server::start();
    server.running.write("x", "x");
    let mut victim = Secure::alice(&server);
    let mut thief = Secure::alice(&server);
    // It has tickets, though not those of the victim's session.
    thief.expect("NOOP", 200);
    let mut stolen = tls(victim.passive(), &thief.config);
    victim.expect("RETR x", 150);
    let mut got = Vec::new();
    let _ = stolen.read_to_end(&mut got);
    let reply = victim.reply();
    assert_eq!((reply.code, got.len()), (522, 0), "{reply}");
    let mut stolen = tls(victim.passive(), &thief.config);
    victim.expect("STOR y", 150);
    let _ = std::io::Write::write_all(&mut stolen, b"other");
    assert_eq!(victim.reply().code, 522);
    assert!(!server.running.path("y").exists());
}

/// FileZilla names FTP in ALPN on the control connection, and nothing on data connections.
#[test]
fn a_data_connection_has_the_version_of_its_control_connection_whatever_it_names() {
    let server = Server::start();
    server.running.write("x", "x");
    for (control, data, version) in [
        (Some("ftp"), None, ProtocolVersion::TLSv1_3),
        (None, Some("ftp-data"), ProtocolVersion::TLSv1_2),
    ] {
        let mut config = ClientConfig::clone(&server.stranger());
        let named = |name: Option<&str>| name.map(|name| name.into()).into_iter().collect();
        config.alpn_protocols = named(control);
        let mut client = Secure::alice_as(&server, Arc::new(config.clone()));
        let spoken = client.lines.get_ref().conn.protocol_version();
        assert_eq!(spoken, Some(version));
        config.alpn_protocols = named(data);
        client.config = Arc::new(config);
        assert_eq!(client.fetch("RETR x"), b"x");
        assert_eq!(client.give("STOR y", b"y", End::InOrder).code, 226);
        assert_eq!(client.fetch("RETR y"), b"y");
    }
}

#[test]
fn resumption_is_not_demanded_where_the_operator_does_not_want_it() {
    let server = Server::with(|tls| tls.resumption = false);
    server.running.write("x", "x");
    let mut client = Secure::alice(&server);
    client.config = server.stranger();
    assert_eq!(client.fetch("RETR x"), b"x");
    assert_eq!(client.give("STOR y", b"y", End::InOrder).code, 226);
}

#[test]
fn without_resumption_the_data_connection_shows_the_certificate_of_the_control_connection() {
    let clients = Authority::new();
    let server = Server::with(|tls| {
        tls.resumption = false;
        tls.client_ca = Some(clients.ca_file());
    });
    server.running.write("x", "x");
    let mut client = Secure::alice_as(&server, server.authority.client_with(clients.issue(&["a"])));
    let own = Arc::clone(&client.config);
    client.config = server.authority.client_with(clients.issue(&["b"]));
    let mut data = client.protected();
    client.expect("RETR x", 150);
    let mut got = Vec::new();
    let _ = data.read_to_end(&mut got);
    let reply = client.reply();
    assert_eq!((reply.code, got.len()), (522, 0), "{reply}");
    client.config = own;
    assert_eq!(client.fetch("RETR x"), b"x");
}
