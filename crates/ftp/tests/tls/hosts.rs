//! Virtual hosts under TLS: the name in the handshake (SNI) chooses certificate and host, and HOST has to agree.

use std::io::{Read, Write};
use std::process::Command;
use std::sync::Arc;

use fairwind_ftp::server::{Config, HostConfig, TlsConfig};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::{Secure, Server};
use crate::common::{Client, data, permitted};

/// A server with the name localhost and a host `b.example`, which has a certificate of its own, and `c.example`, which
/// has not; their files `x` are named after them.
struct Hosts {
    server: Server,
    _trees: [tempfile::TempDir; 2],
}

impl Hosts {
    fn start() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let trees = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let authority = super::Authority::new();
        let running = crate::common::Running::with(|config| {
            let names = ["localhost", "127.0.0.1", "alias.example"];
            let (certificate, key) = authority.files_of(&authority.issue(&names));
            config.tls = Some(TlsConfig::new(certificate, key));
            config.hosts = vec!["localhost".into()];
            for (tree, name) in trees.iter().zip(["b.example", "c.example"]) {
                std::fs::write(tree.path().join("x"), name).unwrap();
                config.host.push(HostConfig {
                    names: vec![name.into()],
                    root: tree.path().to_owned(),
                    ..HostConfig::default()
                });
            }
            let (certificate, key) = authority.files_of(&authority.issue(&["b.example"]));
            config.host[0].certificate = Some(certificate);
            config.host[0].key = Some(key);
            change(config);
        });
        running.write("x", "localhost");
        Self {
            server: Server { running, authority },
            _trees: trees,
        }
    }

    /// AUTH TLS with this name.
    fn explicit(&self, name: &str, before: &[(&str, u16)]) -> Named {
        let mut client = Client::connect(self.server.running.address);
        for (command, code) in before {
            client.expect(command, *code);
        }
        client.expect("AUTH TLS", 234);
        Named::over(client, name, self.server.stranger())
    }
}

/// A client that gives a name in the handshake, on data connections, too.
struct Named {
    client: Secure,
    name: ServerName<'static>,
}

impl Named {
    fn over(client: Client, name: &str, config: Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        Self {
            client: Secure::over_as(client.stream, config, name.clone()),
            name,
        }
    }

    /// The content of `x` for an anonymous user, over a protected data connection.
    fn fetch(&mut self) -> String {
        let client = &mut self.client;
        client.expect("PBSZ 0", 200);
        client.expect("PROT P", 200);
        client.expect("USER anonymous", 331);
        client.expect("PASS me@example.org", 230);
        let stream = client.passive();
        client.expect("RETR x", 150);
        let config = Arc::clone(&client.config);
        let connection = ClientConnection::new(config, self.name.clone()).unwrap();
        let mut content = String::new();
        let mut tls = StreamOwned::new(connection, stream);
        tls.read_to_string(&mut content).unwrap();
        assert_eq!(client.reply().code, 226);
        content
    }
}

#[test]
fn the_name_in_the_handshake_chooses_certificate_and_host() {
    let hosts = Hosts::start();
    // Each client takes only a certificate with the name that it gives.
    for name in ["localhost", "b.example"] {
        let mut client = hosts.explicit(name, &[]);
        assert_eq!(client.fetch(), name);
    }
}

#[test]
fn host_has_to_agree_with_the_name_in_the_handshake() {
    let hosts = Hosts::start();
    let mut client = hosts.explicit("b.example", &[]);
    client.client.expect("HOST localhost", 504);
    client.client.expect("HOST c.example", 504);
    client.client.expect("HOST d.example", 504);
    client.client.expect("HOST B.example", 220);
    assert_eq!(client.fetch(), "b.example");
    // Nobody on the way can choose another host before.
    let mut client = hosts.explicit("b.example", &[("HOST localhost", 220)]);
    assert_eq!(client.fetch(), "b.example");
    client.client.expect("REIN", 220);
    assert_eq!(client.client.expect("HOST b.example", 220).code, 220);
}

#[test]
fn a_client_without_a_name_has_the_certificate_of_host() {
    let hosts = Hosts::start();
    // An address is no name: nothing is said of it in the handshake, and only the server's certificate has it.
    let mut client = hosts.explicit("127.0.0.1", &[]);
    assert_eq!(client.fetch(), "localhost");
    client.client.expect("REIN", 220);
    client.client.expect("HOST c.example", 220);
    // c.example has the server's certificate.
    let mut client = hosts.explicit("127.0.0.1", &[("HOST c.example", 220)]);
    assert_eq!(client.fetch(), "c.example");
    let mut client = Client::connect(hosts.server.running.address);
    client.expect("HOST b.example", 220);
    client.expect("AUTH TLS", 234);
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(hosts.server.stranger(), name).unwrap();
    let mut tls = StreamOwned::new(connection, client.stream);
    let error = tls.write_all(b"NOOP\r\n").unwrap_err().to_string();
    assert!(error.contains("b.example"), "{error}");
}

#[test]
fn a_name_that_no_host_has_leaves_the_host_whose_certificate_was_shown() {
    let hosts = Hosts::start();
    let mut client = hosts.explicit("alias.example", &[]);
    client.client.expect("HOST b.example", 504);
    client.client.expect("HOST alias.example", 504);
    client.client.expect("HOST localhost", 220);
    assert_eq!(client.fetch(), "localhost");
    let mut client = hosts.explicit("alias.example", &[("HOST c.example", 220)]);
    client.client.expect("HOST localhost", 504);
    assert_eq!(client.fetch(), "c.example");
}

#[test]
fn implicit_tls_has_its_host_from_the_first_byte() {
    let texts = tempfile::tempdir().unwrap();
    let banner = texts.path().join("banner");
    std::fs::write(&banner, "This is b\n").unwrap();
    let hosts = Hosts::with(|config| {
        config.tls.as_mut().unwrap().listen = Some("127.0.0.1:0".parse().unwrap());
        config.host[0].banner = Some(banner);
    });
    let stream = data(hosts.server.running.tls_address.unwrap());
    let name = ServerName::try_from("b.example").unwrap();
    let mut client = Secure::over_as(stream, hosts.server.stranger(), name);
    assert_eq!(client.reply().lines[0], b"This is b");
}

#[test]
fn a_certificate_that_cannot_be_read_is_told_with_its_host() {
    let authority = super::Authority::new();
    let dir = tempfile::tempdir().unwrap();
    let mut config = crate::common::config(dir.path());
    config.tls = Some(authority.server_files());
    let (certificate, _) = authority.files_of(&authority.issue(&["b.example"]));
    let (_, key) = authority.files_of(&authority.issue(&["b.example"]));
    config.host.push(HostConfig {
        names: vec!["b.example".into()],
        root: dir.path().to_owned(),
        certificate: Some(certificate),
        key: Some(key.clone()),
        ..HostConfig::default()
    });
    let error = fairwind_ftp::assembly::bind_server(config).err().unwrap();
    let expected = format!("host b.example: {}: ", key.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[test]
fn curl_and_lftp_find_the_host_by_its_name() {
    let there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    let hosts = Hosts::start();
    let (address, ca) = (
        hosts.server.running.address,
        hosts.server.authority.ca_file(),
    );
    if permitted("curl", there("curl")) {
        for name in ["localhost", "b.example"] {
            let done = Command::new("curl")
                .args(["-sS", "--ssl-reqd", "--resolve"])
                .arg(format!("{name}:{}:127.0.0.1", address.port()))
                .arg("--cacert")
                .arg(&ca)
                .arg(format!("ftp://{name}:{}/x", address.port()))
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&done.stdout), name, "{done:?}");
        }
    }
    if permitted("lftp", there("lftp")) {
        let script = format!(
            "set net:max-retries 1; set ssl:ca-file {}; set ftp:ssl-force true; set ftp:use-hftp no; \
             set cmd:fail-exit true; open -u anonymous,me@example.org ftp://localhost:{}; cat x",
            ca.display(),
            address.port()
        );
        let done = Command::new("lftp")
            .args(["--norc", "-c", &script])
            .output();
        let done = done.unwrap();
        assert_eq!(
            String::from_utf8_lossy(&done.stdout),
            "localhost",
            "{done:?}"
        );
    }
}
