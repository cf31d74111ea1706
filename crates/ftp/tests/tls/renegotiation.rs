//! Renegotiation, which TLS 1.2 has and neither the server nor the client does: the first request on a connection is
//! declined, the second one ends it. Keys and certificate stay those of the first handshake.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use fairwind_ftp::client::{Options, Storage};
use fairwind_ftp::protocol::host_port::parse_epsv_reply;
use rustls::version;

use super::filezilla::{FileZilla, script};
use super::ours::{fetch, place, trusting};
use super::{Authority, Secure, Server};
use crate::common::{Client, Process, eventually, noise, permitted};
use crate::peers::run;

/// `openssl s_client`, which begins another handshake when a line `R` comes.
struct SClient {
    child: Child,
    input: ChildStdin,
    said: Arc<Mutex<String>>,
}

impl SClient {
    fn start(address: SocketAddr, ca: &Path, more: &[&str]) -> Self {
        let mut command = Command::new("openssl");
        command
            .args(["s_client", "-tls1_2", "-crlf", "-verify_return_error"])
            .args(["-servername", "localhost", "-connect", &address.to_string()])
            .arg("-CAfile")
            .arg(ca)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let outputs: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for mut output in outputs {
            let said = Arc::clone(&said);
            thread::spawn(move || {
                let mut part = [0; 4_096];
                while let Ok(count @ 1..) = output.read(&mut part) {
                    let text = String::from_utf8_lossy(&part[..count]);
                    said.lock().unwrap().push_str(&text);
                }
            });
        }
        Self {
            input: child.stdin.take().unwrap(),
            child,
            said,
        }
    }

    fn has_said(&self, text: &str) -> bool {
        self.said.lock().unwrap().contains(text)
    }

    fn hears(&self, text: &str) {
        eventually(text, || self.has_said(text));
    }

    fn say(&mut self, line: &str) {
        self.input
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
    }

    /// It is told to negotiate anew, which it gives up with an error when the server declines.
    fn negotiates_in_vain(mut self) {
        self.say("R");
        self.hears("RENEGOTIATING");
        let ended = self.child.wait().unwrap();
        self.hears("no renegotiation");
        assert!(!ended.success());
    }
}

impl Drop for SClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn have_openssl() -> bool {
    let version = Command::new("openssl").arg("version").output();
    permitted(
        "openssl",
        version.is_ok_and(|output| output.status.success()),
    )
}

#[test]
fn openssl_does_not_get_the_server_to_negotiate_anew() {
    if !have_openssl() {
        return;
    }
    let (authority, there) = (Authority::new(), tempfile::tempdir().unwrap());
    let files = authority.server_files();
    let settings = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\n",
        files.certificate, files.key
    );
    let process = Process::with_settings(there.path(), &settings);
    let log_in = || {
        let mut client = Client::connect(process.address);
        client.expect("AUTH TLS", 234);
        let mut client = Secure::over(client.stream, authority.client(&[&version::TLS12]));
        client.login();
        client
    };
    let mut other = log_in();
    let before = process.descriptors();
    let ca = authority.ca_file();
    for _ in 0..5 {
        let starttls = ["-starttls", "ftp"];
        let mut client = SClient::start(process.address, &ca, &starttls);
        client.say("USER alice");
        client.hears("\n331 ");
        client.say("PASS secret");
        client.hears("\n230 ");
        client.say("NOOP");
        client.hears("\n200 ");
        client.negotiates_in_vain();
        other.expect("NOOP", 200);
        eventually("its session has ended", || process.descriptors() == before);
        drop(log_in());
        eventually("the others, too", || process.descriptors() == before);
    }
}

#[test]
fn openssl_does_not_get_the_server_to_negotiate_anew_in_the_middle_of_an_upload() {
    if !have_openssl() {
        return;
    }
    let server = Server::with(|tls| tls.resumption = false);
    let mut client = Secure::alice_as(&server, server.authority.client(&[&version::TLS12]));
    let port = parse_epsv_reply(&client.expect("EPSV", 229).text()).unwrap();
    client.raw(b"STOR y\r\n");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut data = SClient::start(address, &server.authority.ca_file(), &[]);
    assert_eq!(client.reply().code, 150);
    data.hears("Verify return code: 0 (ok)");
    data.say("begun");
    // A line by itself: only then is the next one a command.
    let partial = server.running.path(".y.fairwind-part");
    eventually("the line has come", || {
        fs::metadata(&partial).is_ok_and(|facts| facts.len() == 7)
    });
    data.negotiates_in_vain();
    let reply = client.reply();
    assert_eq!(reply.code, 426, "{reply}");
    assert!(!server.running.path("y").exists());
    assert_eq!(client.expect("SIZE y", 213).text(), "7");
    client.config = server.authority.client(&[&version::TLS12]);
    assert_eq!(client.fetch("NLST"), b"");
}

#[test]
fn a_client_that_is_declined_goes_on_and_one_that_insists_is_disconnected() {
    let server = Server::start();
    let Some(mut client) = script("renegotiate.py") else {
        return;
    };
    client.arg(server.running.address.port().to_string());
    run(client
        .arg(server.authority.ca_file())
        .arg(server.running.path("up")));
    let mut other = Secure::alice(&server);
    assert_eq!(other.fetch("RETR up"), b"before, after");
}

/// What the client does with a server that wants to negotiate anew: a download and an upload, or the error.
fn moves_files(server: &FileZilla, here: &Path) -> Result<(), String> {
    let content = noise(300_000);
    fs::write(server.path("x"), &content).unwrap();
    let target = here.join("x");
    let options = Options {
        retries: 1,
        ..trusting(&server.authority)
    };
    let place = place("ftpes", server.process.address);
    let got = fetch(place, options, &target).map_err(|error| error.to_string());
    let (_, mut connection) = got?;
    assert!(fs::read(&target).unwrap() == content);
    let storage = Storage {
        source: target,
        remote: b"y".to_vec(),
        present: None,
    };
    let stored = storage.run(&mut connection, 0);
    stored.map_err(|error| error.to_string())?;
    assert!(fs::read(server.path("y")).unwrap() == content);
    connection.close();
    Ok(())
}

#[test]
fn a_server_that_asks_once_is_declined_and_what_it_was_asked_for_goes_on() {
    for (whose, declined) in [
        ("control", "1 control declined 1"),
        ("data", "1 data declined 1"),
    ] {
        let setting = format!("renegotiate={whose}:1");
        let Some(server) = FileZilla::start(&["versions=1.2", &setting]) else {
            return;
        };
        let here = tempfile::tempdir().unwrap();
        moves_files(&server, here.path()).unwrap();
        let log = || fs::read_to_string(&server.log).unwrap();
        eventually("it was declined", || {
            log().lines().any(|line| line == declined)
        });
        // No handshake but those with which the connections began.
        let log = log();
        let count = |what: &str| log.lines().filter(|line| *line == what).count();
        let handshakes = (
            count("1 control 1.2 ftp new"),
            count("1 data 1.2 - resumed"),
        );
        assert_eq!(handshakes, (1, 2), "{log}");
        assert_eq!(log.lines().count(), 4, "{log}");
    }
}

#[test]
fn a_server_that_insists_is_left_with_an_error() {
    for (whose, begun) in [
        ("control", "control connection"),
        ("data", "data connection"),
    ] {
        let setting = format!("renegotiate={whose}:3");
        let Some(server) = FileZilla::start(&["versions=1.2", &setting]) else {
            return;
        };
        let here = tempfile::tempdir().unwrap();
        let error = moves_files(&server, here.path()).unwrap_err();
        assert!(error.contains(begun), "{error}");
        assert!(error.contains("TooManyRenegotiationRequests"), "{error}");
        assert!(!here.path().join("x").exists() && !server.path("y").exists());
    }
}
