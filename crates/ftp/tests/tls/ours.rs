//! The client under TLS: with this project's server, and with servers that mean harm.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fairwind_ftp::assembly::{ClientSetup, client_extensions};
use fairwind_ftp::client::{
    ClientError, Connection, Credentials, DataMode, FileReport, Options, Place, Progress,
    Retrieval, Storage, TlsPolicy, Verification,
};
use fairwind_ftp::tls::{ClientTls, Fingerprint, TlsSettings};
use fairwind_transfer::Buffer;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned,
    SupportedProtocolVersion,
};

use super::authority::{Issued, Time};
use super::{Authority, Server};
use crate::common::{Running, noise};

pub(super) fn options(settings: TlsSettings) -> Options {
    Options {
        patience: Duration::from_secs(10),
        pause: Duration::from_millis(20),
        retries: 2,
        tls: Arc::new(ClientTls::new(settings)),
        ..Options::default()
    }
}

pub(super) fn trusting(authority: &Authority) -> Options {
    options(TlsSettings {
        ca: Some(authority.ca_file()),
        ..TlsSettings::default()
    })
}

pub(super) fn alice() -> Credentials {
    Credentials {
        user: "alice".into(),
        password: "secret".into(),
    }
}

pub(super) fn place(scheme: &str, address: SocketAddr) -> Place {
    format!("{scheme}://localhost:{}/x", address.port())
        .parse()
        .unwrap()
}

pub(super) fn fetch(
    place: Place,
    options: Options,
    to: &Path,
) -> Result<(FileReport, Connection), ClientError> {
    let retrieval = Retrieval {
        remote: place.path.clone(),
        target: to.to_owned(),
        listed: None,
    };
    let mut connection = Connection::new(place, alice(), options);
    let report = retrieval.run(&mut connection, 0)?;
    Ok((report, connection))
}

#[test]
fn files_go_both_ways_implicitly_and_explicitly_passively_and_actively() {
    let server = Server::with(|tls| {
        tls.listen = Some("127.0.0.1:0".parse().unwrap());
        tls.required = true;
    });
    let content = noise(3_000_000);
    server.running.write("x", &content);
    let here = tempfile::tempdir().unwrap();
    let (explicit, implicit) = (server.running.address, server.running.tls_address.unwrap());
    for (scheme, address) in [("ftpes", explicit), ("ftps", implicit)] {
        for mode in [DataMode::Passive, DataMode::Active] {
            let options = Options {
                mode,
                ..trusting(&server.authority)
            };
            let target = here.path().join("x");
            let (got, mut connection) = fetch(place(scheme, address), options, &target).unwrap();
            assert!(matches!(got.checksum, Verification::Verified(_)), "{got:?}");
            assert!(fs::read(&target).unwrap() == content);
            // More data connections in a session than tickets come with the control connection: each of them has to
            // resume it.
            for _ in 0..4 {
                let storage = Storage {
                    source: target.clone(),
                    remote: b"y".to_vec(),
                    present: None,
                };
                storage.run(&mut connection, 0).unwrap();
                assert!(server.running.read("y") == content);
                let names = connection.with(|session| session.list(b"")).unwrap();
                assert_eq!(names.len(), 2);
            }
            fs::remove_file(&target).unwrap();
            fs::remove_file(server.running.path("y")).unwrap();
        }
    }
}

#[test]
fn a_download_is_continued_and_verified_under_tls() {
    let server = Server::start();
    let content = noise(1_000_000);
    server.running.write("x", &content);
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join(".x.part"), &content[..700_000]).unwrap();
    let place = place("ftpes", server.running.address);
    let target = here.path().join("x");
    let (got, _) = fetch(place, trusting(&server.authority), &target).unwrap();
    assert_eq!((got.resumed_at, got.bytes), (700_000, 300_000));
    assert!(fs::read(target).unwrap() == content);
}

#[test]
fn buffers_are_right_sized_inside_the_protection() {
    let server = Server::start();
    server.running.write("x", noise(16_000_000));
    let here = tempfile::tempdir().unwrap();
    let extensions = client_extensions(&ClientSetup {
        drs: true,
        advisor: None,
        allow_nocc: Vec::new(),
        buffer: Buffer::Auto,
        background: false,
    });
    let options = Options {
        extensions: extensions.unwrap(),
        ..trusting(&server.authority)
    };
    let place = place("ftpes", server.running.address);
    let (got, _) = fetch(place, options, &here.path().join("x")).unwrap();
    assert!(got.figures["drs_paired_s"] < 10.0, "{:?}", got.figures);
    assert!(got.figures["drs_messages"] >= 1.0, "{:?}", got.figures);
    assert_eq!(got.figures["drs_faults"], 0.0);
}

#[test]
fn downloads_are_held_down_under_tls_too() {
    let server = Server::start();
    let content = noise(4_000_000);
    server.running.write("x", &content);
    let here = tempfile::tempdir().unwrap();
    let extensions = client_extensions(&ClientSetup {
        drs: false,
        advisor: None,
        allow_nocc: Vec::new(),
        buffer: Buffer::Auto,
        background: true,
    });
    let options = Options {
        extensions: extensions.unwrap(),
        ..trusting(&server.authority)
    };
    let target = here.path().join("x");
    fetch(place("ftpes", server.running.address), options, &target).unwrap();
    assert!(fs::read(target).unwrap() == content);
}

/// The error of a download, which has to fail before the server hears of a user.
fn failure(issued: &Issued, files: &Authority, settings: TlsSettings) -> String {
    let server = Server::configured(|config| {
        let (certificate, key) = files.files_of(issued);
        let tls = config.tls.as_mut().unwrap();
        (tls.certificate, tls.key) = (certificate, key);
    });
    let here = tempfile::tempdir().unwrap();
    let place = place("ftpes", server.running.address);
    let failed = fetch(place, options(settings), &here.path().join("x"));
    let error = failed.err().expect("this is not to be trusted");
    assert!(!error.is_transient(), "{error}");
    error.to_string()
}

#[test]
fn certificates_that_are_not_the_servers_are_refused_with_the_reason() {
    let authority = Authority::new();
    let ca = || TlsSettings {
        ca: Some(authority.ca_file()),
        ..TlsSettings::default()
    };
    let error = failure(&authority.issue(&["example.org"]), &authority, ca());
    assert!(error.contains("is for another name"), "{error}");
    let past = authority.issue_at(&["localhost"], Time::Past);
    assert!(failure(&past, &authority, ca()).contains("has expired"));
    let future = authority.issue_at(&["localhost"], Time::Future);
    assert!(failure(&future, &authority, ca()).contains("is not valid yet"));
    let foreign = Authority::new().issue(&["localhost"]);
    let error = failure(&foreign, &authority, ca());
    assert!(error.contains("from no known authority"), "{error}");
    let own = Issued::by_itself(&["localhost"]);
    assert!(failure(&own, &authority, ca()).contains("from no known authority"));
}

#[test]
fn a_fingerprint_stands_for_authority_name_and_time_and_for_nothing_else() {
    let authority = Authority::new();
    let old = authority.issue_at(&["example.org"], Time::Past);
    let of = |fingerprint| TlsSettings {
        fingerprint: Some(fingerprint),
        ..TlsSettings::default()
    };
    let error = failure(&old, &authority, of(Fingerprint::of(b"other")));
    assert!(error.contains("another fingerprint"), "{error}");
    let server = Server::configured(|config| {
        let tls = config.tls.as_mut().unwrap();
        (tls.certificate, tls.key) = authority.files_of(&old);
    });
    server.running.write("x", "x");
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("x");
    let place = || place("ftpes", server.running.address);
    fetch(place(), options(of(old.fingerprint())), &target).unwrap();
    let notes = Arc::new(Notes::default());
    let options = Options {
        progress: notes.clone(),
        ..options(TlsSettings {
            insecure: true,
            ..TlsSettings::default()
        })
    };
    fetch(place(), options, &target).unwrap();
    let notes = notes.0.lock().unwrap().join("\n");
    assert!(notes.contains("is not checked"), "{notes}");
}

#[test]
fn a_client_shows_its_certificate_on_all_connections() {
    let clients = Authority::new();
    let server = Server::with(|tls| tls.client_ca = Some(clients.ca_file()));
    server.running.write("x", "x");
    let here = tempfile::tempdir().unwrap();
    let place = || place("ftpes", server.running.address);
    let target = here.path().join("x");
    let refused = fetch(place(), trusting(&server.authority), &target);
    assert!(refused.is_err());
    let options = options(TlsSettings {
        ca: Some(server.authority.ca_file()),
        certificate: Some(clients.files_of(&clients.issue(&["alice"]))),
        ..TlsSettings::default()
    });
    fetch(place(), options, &target).unwrap();
    assert_eq!(fs::read(target).unwrap(), b"x");
}

#[derive(Default)]
pub(super) struct Notes(pub Mutex<Vec<String>>);

impl Progress for Notes {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// A server that speaks TLS if it has a certificate, and says what a test wants.
#[derive(Clone, Default)]
pub(super) struct Script {
    pub tls: Option<Arc<ServerConfig>>,
    /// TLS of its data connections, if it is not that of the control connection.
    pub data_tls: Option<Arc<ServerConfig>>,
    /// In place of the reply to AUTH.
    pub auth: Option<&'static str>,
    /// In place of the reply to PROT.
    pub prot: Option<&'static str>,
    pub content: Vec<u8>,
    /// Bytes after which data connections are cut off, one after the other; then they end in order.
    pub cuts: Vec<usize>,
    /// SIZE is answered.
    pub sized: bool,
    /// How it is the TLS client of another server, after CPSV.
    pub as_client: Option<Arc<ClientConfig>>,
    /// What it has stored.
    pub stored: Arc<Mutex<Vec<u8>>>,
}

impl Script {
    fn data_connection(&self, stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
        let tls = self.data_tls.clone().or_else(|| self.tls.clone());
        StreamOwned::new(ServerConnection::new(tls.unwrap()).unwrap(), stream)
    }
}

pub(super) struct Scripted {
    pub address: SocketAddr,
    pub stored: Arc<Mutex<Vec<u8>>>,
    heard: Arc<Mutex<Vec<String>>>,
}

trait ReadWrite: Read + Write + Send {}
impl<T: Read + Write + Send> ReadWrite for T {}

impl Scripted {
    pub(super) fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&heard);
        let stored = Arc::clone(&script.stored);
        let cuts = Arc::new(Mutex::new(script.cuts.clone().into_iter()));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, heard, cuts) = (script.clone(), shared.clone(), cuts.clone());
                thread::spawn(move || {
                    serve(stream, &script, &heard, &mut || cuts.lock().unwrap().next()).ok()
                });
            }
        });
        Self {
            address,
            stored,
            heard,
        }
    }

    pub(super) fn has_heard(&self, verb: &str) -> bool {
        let heard = self.heard.lock().unwrap();
        heard.iter().any(|line| line.starts_with(verb))
    }
}

fn serve(
    stream: TcpStream,
    script: &Script,
    heard: &Mutex<Vec<String>>,
    cut: &mut dyn FnMut() -> Option<usize>,
) -> std::io::Result<()> {
    let plain = stream.try_clone()?;
    let mut lines: BufReader<Box<dyn ReadWrite>> = BufReader::new(Box::new(stream));
    let mut say = "220 ready".to_owned();
    let (mut passive, mut first) = (None::<TcpListener>, 0);
    loop {
        lines.get_mut().write_all(format!("{say}\r\n").as_bytes())?;
        lines.get_mut().flush()?;
        if say.starts_with("234 ") && !say.contains('\n') {
            let tls = script.tls.clone().expect("it has a certificate");
            let stream = StreamOwned::new(ServerConnection::new(tls).unwrap(), plain.try_clone()?);
            lines = BufReader::new(Box::new(stream));
        }
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let (verb, argument) = line
            .trim_end()
            .split_once(' ')
            .unwrap_or((line.trim_end(), ""));
        heard.lock().unwrap().push(line.trim_end().to_owned());
        say = match verb {
            "AUTH" => script.auth.unwrap_or("234 go on").into(),
            "USER" => "331 password".into(),
            "PASS" => "230 in".into(),
            "SIZE" if script.sized => format!("213 {}", script.content.len()),
            "MDTM" => "213 20200101000000".into(),
            "REST" => {
                first = argument.parse().unwrap();
                "350 from there".into()
            }
            "EPSV" => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let port = listener.local_addr()?.port();
                passive = Some(listener);
                format!("229 (|||{port}|)")
            }
            "RETR" => {
                lines.get_mut().write_all(b"150 here\r\n")?;
                lines.get_mut().flush()?;
                let (stream, _) = passive.take().unwrap().accept()?;
                let mut stream = script.data_connection(stream);
                let rest = &script.content[std::mem::take(&mut first)..];
                match cut() {
                    // A plain FIN, as anybody between the two can make it.
                    Some(count) => stream.write_all(&rest[..count.min(rest.len())])?,
                    None => {
                        stream.write_all(rest)?;
                        stream.conn.send_close_notify();
                    }
                }
                stream.flush()?;
                stream.sock.shutdown(Shutdown::Write)?;
                "226 all of it".into()
            }
            "FEAT" if script.as_client.is_some() => "211-Features\r\n CPSV\r\n211 End".into(),
            "CPSV" => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let port = listener.local_addr()?.port();
                passive = Some(listener);
                format!("227 (127,0,0,1,{},{})", port >> 8, port & 255)
            }
            "STOR" => {
                lines.get_mut().write_all(b"150 go on\r\n")?;
                lines.get_mut().flush()?;
                let (stream, _) = passive.take().unwrap().accept()?;
                let mut data: Box<dyn Read> = match script.as_client.clone() {
                    Some(config) => {
                        let name = ServerName::try_from("localhost").unwrap();
                        let connection = ClientConnection::new(config, name).unwrap();
                        Box::new(StreamOwned::new(connection, stream))
                    }
                    None => Box::new(script.data_connection(stream)),
                };
                let mut content = Vec::new();
                let ended = data.read_to_end(&mut content);
                // What has come before an error counts, too.
                heard
                    .lock()
                    .unwrap()
                    .push(format!("{} bytes", content.len()));
                *script.stored.lock().unwrap() = content;
                ended?;
                "226 all of it".into()
            }
            "RNFR" => "350 ready".into(),
            "RNTO" => "250 done".into(),
            "PROT" => script.prot.unwrap_or("200 fine").into(),
            "TYPE" | "PBSZ" | "OPTS" => "200 fine".into(),
            "QUIT" => "221 bye".into(),
            _ => "502 no".into(),
        };
    }
}

/// The TLS of a scripted server.
pub(super) fn served(authority: &Authority) -> Option<Arc<ServerConfig>> {
    Some(Arc::new(serving(&authority.issue(&["localhost"]))))
}

/// TLS of a server with this certificate.
pub(super) fn serving(issued: &Issued) -> ServerConfig {
    serving_under(issued, rustls::ALL_VERSIONS)
}

/// The same under these versions.
pub(super) fn serving_under(
    issued: &Issued,
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    config.unwrap()
}

#[test]
fn a_download_that_is_cut_off_is_not_taken_for_the_file() {
    let authority = Authority::new();
    let content = noise(100_000);
    let server = Scripted::start(Script {
        tls: served(&authority),
        content: content.clone(),
        cuts: vec![50_000; 100],
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("x");
    let place = place("ftpes", server.address);
    let error = fetch(place, trusting(&authority), &target).err().unwrap();
    assert!(error.to_string().contains("cut off"), "{error}");
    assert!(!target.exists());
}

#[test]
fn a_download_that_was_cut_off_goes_on_where_it_was() {
    let authority = Authority::new();
    let content = noise(100_000);
    let server = Scripted::start(Script {
        tls: served(&authority),
        content: content.clone(),
        cuts: vec![30_000, 40_000],
        sized: true,
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("x");
    let (got, _) = fetch(
        place("ftpes", server.address),
        trusting(&authority),
        &target,
    )
    .unwrap();
    assert!(fs::read(target).unwrap() == content);
    assert_eq!(got.interruptions.len(), 2, "{:?}", got.interruptions);
    assert!(server.has_heard("REST 30000") && server.has_heard("REST 70000"));
}

#[test]
fn tls_that_was_asked_for_is_had_or_nothing_is_said() {
    for reply in ["500 what", "502 no", "530 no", "534 no", "431 later"] {
        let server = Scripted::start(Script {
            auth: Some(reply),
            ..Script::default()
        });
        let here = tempfile::tempdir().unwrap();
        let required = Options {
            tls_policy: TlsPolicy::Required,
            ..options(TlsSettings::default())
        };
        for (scheme, options) in [
            ("ftp", required),
            ("ftpes", options(TlsSettings::default())),
        ] {
            let place = place(scheme, server.address);
            let error = fetch(place, options, &here.path().join("x")).err().unwrap();
            assert!(
                error.to_string().contains("nothing was sent in clear"),
                "{error}"
            );
        }
        assert!(
            !server.has_heard("USER") && !server.has_heard("FEAT"),
            "{reply}"
        );
    }
}

#[test]
fn tls_that_is_only_wished_for_may_be_missing_and_the_user_is_told() {
    let plain = Running::start();
    plain.write("x", "x");
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("x");
    let notes = Arc::new(Notes::default());
    let wished = Options {
        tls_policy: TlsPolicy::Offered,
        progress: notes.clone(),
        ..options(TlsSettings::default())
    };
    fetch(place("ftp", plain.address), wished.clone(), &target).unwrap();
    let said = notes.0.lock().unwrap().join("\n");
    assert!(said.contains("nothing is protected"), "{said}");
    // Where it is offered, certificates are checked.
    let server = Server::start();
    server.running.write("x", "x");
    let place = place("ftp", server.running.address);
    assert!(fetch(place.clone(), wished, &target).is_err());
    let wished = Options {
        tls_policy: TlsPolicy::Offered,
        ..trusting(&server.authority)
    };
    fetch(place, wished, &target).unwrap();
}

#[test]
fn replies_that_came_in_clear_are_not_taken_for_replies_under_tls() {
    let authority = Authority::new();
    let server = Scripted::start(Script {
        tls: served(&authority),
        auth: Some("234 go on\r\n230 you are in already"),
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let place = place("ftpes", server.address);
    let error = fetch(place, trusting(&authority), &here.path().join("x"))
        .err()
        .unwrap();
    assert!(error.to_string().contains("plain text behind"), "{error}");
    assert!(!server.has_heard("USER"));
}

#[test]
fn what_feat_does_not_name_is_tried_all_the_same() {
    let authority = Authority::new();
    let server = Scripted::start(Script {
        tls: served(&authority),
        content: b"x".into(),
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let wished = Options {
        tls_policy: TlsPolicy::Offered,
        ..trusting(&authority)
    };
    fetch(place("ftp", server.address), wished, &here.path().join("x")).unwrap();
    let heard = server.heard.lock().unwrap();
    let position = |verb: &str| heard.iter().position(|line| line.starts_with(verb));
    assert!(position("AUTH TLS").is_some() && position("AUTH TLS") < position("USER"));
    assert!(position("PROT P").is_some() && position("PROT P") < position("RETR"));
}

/// As vsftpd does since 3.0.4.
#[test]
fn a_server_may_take_no_other_alpn_than_ftp_on_data_connections() {
    let authority = Authority::new();
    let mut config = ServerConfig::clone(&served(&authority).unwrap());
    config.alpn_protocols = vec![b"ftp".to_vec()];
    let server = Scripted::start(Script {
        tls: Some(Arc::new(config)),
        content: b"x".into(),
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let (place, target) = (place("ftpes", server.address), here.path().join("x"));
    fetch(place, trusting(&authority), &target).unwrap();
    assert_eq!(fs::read(target).unwrap(), b"x");
}

#[test]
fn a_server_that_does_not_protect_data_is_asked_for_none() {
    let authority = Authority::new();
    for (reply, policy) in [
        ("534 no", TlsPolicy::Required),
        ("536 no", TlsPolicy::Offered),
        ("502 what", TlsPolicy::Offered),
    ] {
        let server = Scripted::start(Script {
            tls: served(&authority),
            prot: Some(reply),
            ..Script::default()
        });
        let here = tempfile::tempdir().unwrap();
        let options = Options {
            tls_policy: policy,
            ..trusting(&authority)
        };
        let target = here.path().join("x");
        let error = fetch(place("ftp", server.address), options, &target);
        let error = error.err().unwrap().to_string();
        assert!(error.contains(reply), "{error}");
        assert!(server.has_heard("PROT P") && !server.has_heard("RETR"));
        assert!(!target.exists());
    }
}

#[test]
fn what_does_not_begin_with_tls_is_told_nothing() {
    let server = Server::start();
    let here = tempfile::tempdir().unwrap();
    // Anything but TLS where TLS begins with the first byte.
    let place = place("ftps", server.running.address);
    let error = fetch(place, trusting(&server.authority), &here.path().join("x"))
        .err()
        .unwrap();
    assert!(error.to_string().contains("no TLS"), "{error}");
}
