//! FileZilla's programs, which need a desktop, or are not in Debian: what they send and demand, according to their source,
//! by scripts over GnuTLS, their library.

use std::fs;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::{Connection, DataMode, Options, Retrieval, Storage};
use rustls::{ClientConfig, SupportedProtocolVersion, version};

use super::ours::{alice, fetch, place, trusting};
use super::{Authority, End, Secure, Server, tls};
use crate::common::{Client, Process, noise, permitted};
use crate::peers::run;

const VERSIONS: [(&str, &SupportedProtocolVersion); 2] =
    [("1.2", &version::TLS12), ("1.3", &version::TLS13)];

/// One of the scripts.
pub(super) fn script(name: &str) -> Option<Command> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls/filezilla");
    let python = |arguments: &[&str]| {
        let mut command = Command::new("/usr/bin/python3");
        command.current_dir(&folder).arg("-B").args(arguments);
        command
    };
    let loads = python(&["-c", "import gnutls"]).output();
    let loads = loads.is_ok_and(|output| output.status.success());
    permitted("GnuTLS for Python", loads).then(|| python(&[name]))
}

/// A server with the rules of FileZilla Server.
pub(super) struct FileZilla {
    pub process: Process,
    pub authority: Authority,
    directory: tempfile::TempDir,
    pub log: PathBuf,
    _log: tempfile::TempDir,
}

impl FileZilla {
    pub(super) fn start(settings: &[&str]) -> Option<Self> {
        let mut command = script("server.py")?;
        let authority = Authority::new();
        let files = authority.server_files();
        let (directory, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let log = folder.path().join("log");
        fs::write(&log, "").unwrap();
        command
            .arg(directory.path())
            .args([files.certificate, files.key, log.clone()])
            .args(settings);
        Some(Self {
            process: Process::telling(&mut command),
            authority,
            directory,
            log,
            _log: folder,
        })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Handshakes so far: those of control connections, and of data connections.
    fn handshakes(&self) -> (usize, usize) {
        let log = fs::read_to_string(&self.log).unwrap();
        let data = log.lines().filter(|line| line.contains(" data ")).count();
        (log.lines().count() - data, data)
    }
}

/// Both versions of TLS, explicit and implicit.
fn each(more: &[&str], test: impl Fn(&FileZilla, &str)) {
    for (version, _) in VERSIONS {
        for (scheme, implicit) in [("ftpes", &[][..]), ("ftps", &["implicit=1"])] {
            let versions = format!("versions={version}");
            let settings = [more, &[&*versions], implicit].concat();
            let Some(server) = FileZilla::start(&settings) else {
                return;
            };
            test(&server, scheme);
            let log = fs::read_to_string(&server.log).unwrap();
            for line in log.lines() {
                let words: Vec<&str> = line.split(' ').collect();
                let expected = match words[1] {
                    "control" => [version, "ftp", "new"],
                    _ => [version, "-", "resumed"],
                };
                assert_eq!(words[2..], expected, "{log}");
            }
        }
    }
}

fn connection(server: &FileZilla, scheme: &str, options: Options) -> Connection {
    Connection::new(place(scheme, server.process.address), alice(), options)
}

fn fetching(remote: &str, target: PathBuf) -> Retrieval {
    Retrieval {
        remote: remote.into(),
        target,
        listed: None,
    }
}

#[test]
fn files_and_listings_go_over_many_data_connections_of_a_session() {
    each(&[], |server, scheme| {
        let content = noise(1_000_000);
        fs::write(server.path("x"), &content).unwrap();
        for mode in [DataMode::Passive, DataMode::Active] {
            let options = Options {
                mode,
                ..trusting(&server.authority)
            };
            let mut connection = connection(server, scheme, options);
            let here = tempfile::tempdir().unwrap();
            let before = server.handshakes();
            for round in 0..5 {
                let target = here.path().join(format!("x{round}"));
                let got = fetching("x", target.clone())
                    .run(&mut connection, 0)
                    .unwrap();
                assert_eq!(got.interruptions, [""; 0], "{scheme} {mode:?} {round}");
                assert!(fs::read(&target).unwrap() == content);
                let storage = Storage {
                    source: target,
                    remote: b"y".to_vec(),
                    present: None,
                };
                let sent = storage.run(&mut connection, 0).unwrap();
                assert_eq!(sent.interruptions, [""; 0], "{scheme} {mode:?} {round}");
                assert!(fs::read(server.path("y")).unwrap() == content);
                let listed = connection.with(|session| session.list(b"")).unwrap();
                let names: Vec<String> = listed.iter().map(|entry| entry.text()).collect();
                assert_eq!(names, ["x", "y"]);
            }
            let after = server.handshakes();
            assert_eq!((after.0 - before.0, after.1 - before.1), (1, 15));
            fs::remove_file(server.path("y")).unwrap();
        }
    });
}

#[test]
fn transfers_go_on_in_the_middle_both_ways() {
    each(&["cut=600000"], |server, scheme| {
        let content = noise(1_000_000);
        fs::write(server.path("x"), &content).unwrap();
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("x");
        let place = place(scheme, server.process.address);
        // Cut off without TLS's closing message.
        let (got, mut connection) = fetch(place, trusting(&server.authority), &target).unwrap();
        assert_eq!(got.interruptions.len(), 1, "{:?}", got.interruptions);
        assert_eq!(got.bytes, 1_000_000);
        assert!(fs::read(&target).unwrap() == content);
        // Newer than the file.
        fs::write(server.path(".y.part"), &content[..400_000]).unwrap();
        let storage = Storage {
            source: target,
            remote: b"y".to_vec(),
            present: None,
        };
        let sent = storage.run(&mut connection, 0).unwrap();
        assert_eq!((sent.resumed_at, sent.bytes), (400_000, 600_000));
        assert!(fs::read(server.path("y")).unwrap() == content);
    });
}

#[test]
fn files_and_ranges_move_at_the_same_time() {
    each(&[], |server, scheme| {
        let content = noise(9_000_000);
        fs::write(server.path("large"), &content).unwrap();
        let here = tempfile::tempdir().unwrap();
        let options = Options {
            ranges: NonZeroUsize::new(3).unwrap(),
            ..trusting(&server.authority)
        };
        let target = here.path().join("large");
        let mut session = connection(server, scheme, options);
        fetching("large", target.clone())
            .run(&mut session, 0)
            .unwrap();
        assert!(fs::read(target).unwrap() == content);
        assert!(server.handshakes().0 >= 3, "{:?}", server.handshakes());
        let small = |number: usize| &content[number * 1_000..][..50_000];
        for number in 0..9 {
            fs::write(server.path(&format!("d{number}")), small(number)).unwrap();
            fs::write(here.path().join(format!("u{number}")), small(number)).unwrap();
        }
        let jobs = (0..9).flat_map(|number| {
            let (down, up) = (format!("d{number}"), format!("u{number}"));
            let target = here.path().join(&down);
            let storage = Storage {
                source: here.path().join(&up),
                remote: up.into(),
                present: None,
            };
            [Job::Get(fetching(&down, target)), Job::Put(storage)]
        });
        let connection = connection(server, scheme, trusting(&server.authority));
        let outcome = batch::run(connection, jobs.collect(), NonZeroUsize::new(3).unwrap());
        assert!(outcome.unwrap().failures.is_empty());
        for number in 0..9 {
            let down = fs::read(here.path().join(format!("d{number}"))).unwrap();
            let up = fs::read(server.path(&format!("u{number}"))).unwrap();
            assert!(down == small(number) && up == small(number), "{number}");
        }
    });
}

/// The rules themselves: without them the tests above would say nothing.
#[test]
fn the_server_refuses_what_filezilla_server_refuses() {
    for (version, spoken) in VERSIONS {
        let Some(server) = FileZilla::start(&[&format!("versions={version}")]) else {
            return;
        };
        fs::write(server.path("x"), "x").unwrap();
        let naming = |name: &str| {
            let mut config = ClientConfig::clone(&server.authority.client(&[spoken]));
            config.alpn_protocols = vec![name.into()];
            Arc::new(config)
        };
        let stranger = || naming("ftp");
        let log_in = || {
            let mut client = Client::connect(server.process.address);
            client.expect("USER alice", 503);
            client.expect("AUTH TLS", 234);
            let mut client = Secure::over(client.stream, stranger());
            client.login();
            client
        };
        let mut client = log_in();
        client.expect("PROT C", 534);
        let _waiting = client.passive();
        client.expect("RETR x", 425);
        client.expect("PBSZ 0", 200);
        client.expect("PROT P", 200);
        assert_eq!(client.fetch("RETR x"), b"x");
        assert_eq!(client.give("STOR y", b"content", End::InOrder).code, 226);
        let cut = client.give("STOR y", b"cont", End::Cut);
        assert_eq!(cut.code, 425, "{cut}");
        // A fresh session, and one of another control connection.
        let mut other = log_in();
        other.expect("PASV", 227);
        for config in [stranger(), Arc::clone(&other.config)] {
            let mut data = tls(client.passive(), &config);
            client.expect("RETR x", 150);
            let _ = data.read_to_end(&mut Vec::new());
            let reply = client.reply();
            assert_eq!(reply.code, 425, "{reply}");
            assert!(reply.text().contains("not resumed"), "{reply}");
        }
        assert_eq!(client.fetch("RETR x"), b"x");
        let mut other = Client::connect(server.process.address);
        other.expect("AUTH TLS", 234);
        let mut other = Secure::over(other.stream, naming("ftp-data"));
        let error = other.lines.read(&mut [0]).unwrap_err();
        assert!(
            error.to_string().contains("NoApplicationProtocol"),
            "{error}"
        );
    }
}

/// In our server's eyes: a client that names FTP on the control connection and nothing on data connections, which it
/// resumes with the ticket of the control connection.
#[test]
fn the_client_lists_fetches_and_stores_under_both_versions() {
    let server = Server::with(|tls| {
        tls.required = true;
        tls.listen = Some("127.0.0.1:0".parse().unwrap());
    });
    server.running.write("down", noise(700_000));
    fs::create_dir(server.running.path("sub")).unwrap();
    let ca = server.authority.ca_file();
    let (explicit, implicit) = (server.running.address, server.running.tls_address.unwrap());
    // The second is what it does by itself.
    for versions in ["1.2", "1.2,1.3", "1.3"] {
        for (scheme, address) in [("ftpes", explicit), ("ftps", implicit)] {
            let Some(mut client) = script("client.py") else {
                return;
            };
            client.args([scheme, &address.port().to_string()]);
            run(client.arg(&ca).arg(server.running.dir.path()).arg(versions));
        }
    }
}
