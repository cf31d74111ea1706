//! Admission at each kind of socket.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fairwind_advice::wire::{Direction, TransferReport};
use fairwind_advice_client::{Client, ClientError};
use fairwind_advisor::Config;
use fairwind_advisor::config::TlsFiles;
use fairwind_advisor::http::Limits;
use fairwind_advisor::listener::{ListenError, Right, Tokens};
use fairwind_advisor::run::{RunError, serve};
use fairwind_testing::{in_new_network_namespace, permitted, root, wait_until};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::support::{Running, curl, options, output, python};

const EVIL: &str = "evil.example:8649";

/// Status and body of a request made with curl.
fn asked(arguments: &[&str]) -> (u16, String) {
    let text = curl(&[&["-w", "\n%{http_code}"], arguments].concat());
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}

/// A report of a transfer, as a page might send it.
const REPORT: &str = r#"{"host": "192.0.2.7", "bytes": 1, "seconds": 5, "direction": "sent"}"#;

#[test]
fn a_page_whose_name_leads_to_this_machine_can_neither_ask_nor_write() {
    let service = Running::start();
    let (paths, path) = (
        format!("{}/v1/paths", service.url),
        format!("{}/v1/paths/p", service.url),
    );
    let host = format!("Host: {EVIL}");
    let declare = ["-X", "PUT", "-d", r#"{"hosts": ["192.0.2.7"]}"#];
    let json = ["-H", "content-type: application/json", "-H", &host];
    for request in [
        vec!["-H", &host, &paths],
        [&declare[..], &json[..], &[&path]].concat(),
    ] {
        let (status, body) = asked(&request);
        assert_eq!(status, 421, "{body}");
        let error: Value = serde_json::from_str(&body).unwrap();
        let sentence = error["error"].as_str().unwrap();
        assert!(sentence.contains("--name evil.example"), "{sentence}");
    }
    let call = "<methodCall><methodName>EnableGetBufferSize</methodName><params><param><value>\
                192.0.2.7</value></param></params></methodCall>";
    let rpc = format!("{}/RPC2", service.url);
    let called = [
        "-H",
        &host,
        "-H",
        "content-type: text/xml",
        "-d",
        call,
        &rpc,
    ];
    assert_eq!(asked(&called).0, 421);
    assert_eq!(asked(&[&paths]), (200, "[]".to_owned()));
}

#[test]
fn a_page_of_another_origin_cannot_write() {
    let service = Running::start();
    service.put_path("p", &["192.0.2.7"], json!({}));
    let transfers = format!("{}/v1/transfers", service.url);
    let status = |headers: &[&str]| {
        let mut request = vec!["-d", REPORT];
        for header in headers {
            request.extend(["-H", header]);
        }
        request.push(&transfers);
        asked(&request).0
    };
    let json = "content-type: application/json";
    assert_eq!(status(&[json, "origin: http://evil.example"]), 403);
    assert_eq!(status(&[json, "origin: null"]), 403);
    // Content types that a form can send without a preflight request are not JSON.
    assert_eq!(status(&["content-type: text/plain"]), 415);
    assert_eq!(
        status(&["content-type: application/x-www-form-urlencoded"]),
        415
    );
    let own = format!("origin: {}", service.url);
    assert_eq!(status(&[json, &own]), 201);
}

#[test]
fn a_name_that_was_configured_is_answered() {
    let service =
        Running::with(|options| options.config.names = vec!["Advisor.Example.org".into()]);
    let health = format!("{}/healthz", service.url);
    let name = "Host: advisor.example.org:8649";
    assert_eq!(asked(&["-H", name, &health]), (200, "ok\n".to_owned()));
    assert_eq!(asked(&["-H", "Host: example.org", &health]).0, 421);
}

/// A file with a token to read and one to write.
fn tokens(place: &Path) -> (std::path::PathBuf, String, String) {
    let file = place.join("tokens");
    let reader = Tokens::add(&file, Right::Read).unwrap();
    let writer = Tokens::add(&file, Right::Write).unwrap();
    (file, reader, writer)
}

#[test]
fn a_token_is_good_for_what_it_was_made_for() {
    let place = tempfile::tempdir().unwrap();
    let (file, reader, writer) = tokens(place.path());
    let service = Running::with(|options| options.config.tokens = Some(file));
    let client = service.client();
    let with = |token: &str| client.clone().with_token(token).unwrap();
    let status = |answer: Result<Value, ClientError>| match answer {
        Ok(_) => 200,
        Err(ClientError::Refused { status, .. }) => status,
        Err(error) => panic!("{error}"),
    };
    let path = json!({"hosts": ["192.0.2.7"], "ping": {"interval_s": 0}});
    assert_eq!(status(client.get("/v1/paths")), 401);
    assert_eq!(status(with("unknown-0123456789").get("/v1/paths")), 401);
    assert_eq!(status(with(&reader).get("/v1/paths")), 200);
    assert_eq!(status(with(&reader).put("/v1/paths/p", &path)), 403);
    assert_eq!(status(with(&writer).put("/v1/paths/p", &path)), 200);
    assert_eq!(status(with(&writer).delete("/v1/paths/p")), 200);
    // The health check needs no token.
    assert_eq!(asked(&[&format!("{}/healthz", service.url)]).0, 200);
    assert_eq!(asked(&[&format!("{}/metrics", service.url)]).0, 401);
    let answer = curl(&["-i", &format!("{}/v1/paths", service.url)]);
    assert!(
        answer.to_lowercase().contains("www-authenticate: bearer"),
        "{answer}"
    );
}

#[test]
fn the_calls_of_xmlrpc_need_a_token_too() {
    let place = tempfile::tempdir().unwrap();
    let (file, reader, _) = tokens(place.path());
    let service = Running::with(|options| options.config.tokens = Some(file));
    let program = format!(
        "import sys, xmlrpc.client\n\
         def buffer(**more):\n\
        \x20   server = xmlrpc.client.ServerProxy(sys.argv[1] + '/RPC2', **more)\n\
        \x20   return server.EnableGetBufferSize('192.0.2.7')\n\
         try:\n\
        \x20   print(buffer())\n\
         except xmlrpc.client.ProtocolError as error:\n\
        \x20   print(error.errcode)\n\
         print(buffer(headers=[('Authorization', 'Bearer {reader}')]))\n"
    );
    assert_eq!(python(&program, &service.url), "401\n0\n");
}

/// The error of a service that does not start with this configuration.
fn refused(config: Config) -> RunError {
    let state = tempfile::tempdir().unwrap();
    let mut options = options(state.path());
    options.config = config;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let served = runtime.block_on(serve(options, |urls| panic!("{urls:?}"), async {}));
    served.unwrap_err()
}

#[test]
fn beyond_this_machine_nobody_listens_without_tokens() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let error = refused(Config {
            listen: vec![address.parse().unwrap()],
            ..Config::default()
        });
        assert!(matches!(error, RunError::Listen(ListenError::Unguarded(_))));
        let sentence = error.to_string();
        for part in [address, "--tokens", "fairwind advisor token", "unix:"] {
            assert!(sentence.contains(part), "{sentence}");
        }
    }
}

#[test]
fn a_name_that_no_request_could_come_by_is_refused() {
    for name in [
        "advisor.example.org:8649",
        "https://advisor.example.org",
        "",
    ] {
        let error = refused(Config {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            names: vec![name.to_owned()],
            ..Config::default()
        });
        let expected = format!("names: {name:?}");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[test]
fn beyond_this_machine_tokens_let_in() {
    let place = tempfile::tempdir().unwrap();
    let (file, reader, _) = tokens(place.path());
    let service = Running::with(|options| {
        options.config.listen = vec!["0.0.0.0:0".parse().unwrap()];
        options.config.tokens = Some(file);
    });
    let url = service.url.replace("0.0.0.0", "127.0.0.1");
    let client = Client::new(&url).unwrap();
    assert!(client.advice("192.0.2.7", None).is_err());
    let client = client.with_token(&reader).unwrap();
    assert!(client.advice("192.0.2.7", None).is_ok());
}

#[test]
fn a_token_file_that_others_may_read_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (file, ..) = tokens(place.path());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let error = refused(Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        tokens: Some(file.clone()),
        ..Config::default()
    });
    let expected = format!("chmod 600 {}", file.display());
    assert!(error.to_string().contains(&expected), "{error}");
}

#[test]
fn a_unix_socket_lets_in_whom_its_permissions_let_in() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("advisor.sock");
    let listen: Vec<_> = vec![format!("unix:{}", socket.display()).parse().unwrap()];
    let (file, ..) = tokens(place.path());
    let mode = || fs::metadata(&socket).unwrap().permissions().mode() & 0o777;
    for (given, expected) in [(None, 0o600), (Some(0o660), 0o660)] {
        let service = Running::with(|options| {
            options.config.listen = listen.clone();
            options.config.socket_mode = given;
            // Tokens only apply to sockets of the network.
            options.config.tokens = Some(file.clone());
        });
        assert_eq!(service.url, format!("unix:{}", socket.display()));
        assert_eq!(mode(), expected);
        let path = json!({"hosts": ["192.0.2.7"], "ping": {"interval_s": 0}});
        let _: Value = service.client().put("/v1/paths/p", &path).unwrap();
        let report = TransferReport {
            host: "192.0.2.7".to_owned(),
            bytes: 1_000,
            seconds: 1.0,
            retransmits: None,
            rtt_ms: None,
            limited: None,
            direction: Direction::Sent,
        };
        service.client().report(&report).unwrap();
        let socket = socket.to_str().unwrap();
        let curled = curl(&["--unix-socket", socket, "http://whatever/healthz"]);
        assert_eq!(curled, "ok\n");
        // A client keeps its connection open; the service closes it when it ends.
        assert!(service.client().advice("192.0.2.7", None).is_ok());
    }
    assert!(!socket.exists(), "it goes with the service");
}

#[test]
fn a_socket_that_a_killed_service_left_is_taken_over_and_one_in_use_is_not() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("advisor.sock");
    let listen = vec![format!("unix:{}", socket.display()).parse().unwrap()];
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    let service = Running::with(|options| options.config.listen = listen.clone());
    assert!(service.client().advice("192.0.2.7", None).is_ok());
    let error = refused(Config {
        listen: listen.clone(),
        ..Config::default()
    });
    assert!(error.to_string().contains("in use"), "{error}");
    assert!(service.client().advice("192.0.2.7", None).is_ok());
    drop(service);
    fs::write(&socket, "a file of somebody's").unwrap();
    refused(Config {
        listen,
        ..Config::default()
    });
    assert_eq!(fs::read_to_string(&socket).unwrap(), "a file of somebody's");
}

#[test]
fn a_service_listens_at_several_places() {
    let place = tempfile::tempdir().unwrap();
    let unix = format!("unix:{}", place.path().join("advisor.sock").display());
    let service = Running::with(|options| options.config.listen.push(unix.parse().unwrap()));
    for url in [&service.url, &unix] {
        let client = Client::new(url).unwrap();
        assert!(client.advice("192.0.2.7", None).is_ok(), "{url}");
    }
}

/// A certificate for `localhost` and its key, in this directory.
fn certificate(place: &Path) -> TlsFiles {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        certificate: place.join("cert.pem"),
        key: place.join("key.pem"),
    };
    fs::write(&files.certificate, signed.cert.pem()).unwrap();
    fs::write(&files.key, signed.signing_key.serialize_pem()).unwrap();
    files
}

/// The service's URL with the name in the certificate.
fn by_name(service: &Running) -> String {
    assert!(
        service.url.starts_with("https://127.0.0.1:"),
        "{}",
        service.url
    );
    service.url.replace("127.0.0.1", "localhost")
}

/// Not a test by itself: a client whose trusted certificates come from the environment of its process.
#[test]
fn client_with_an_environment_of_its_own() {
    let Some(url) = std::env::var_os("FAIRWIND_TEST_ADVISOR_URL") else {
        return;
    };
    let client = Client::new(url.to_str().unwrap()).unwrap();
    let client = client.with_token_of_environment().unwrap();
    match client
        .with_deadline(Duration::from_secs(30))
        .advice("192.0.2.7", None)
    {
        Ok(_) => println!("advised"),
        Err(error) => println!("refused: {error}"),
    }
}

fn client_process(url: &str, environment: &[(&str, &str)]) -> String {
    let name = "admission::client_with_an_environment_of_its_own";
    let child: Child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("FAIRWIND_TEST_ADVISOR_URL", url)
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let lines = BufReader::new(&output.stdout[..])
        .lines()
        .map_while(Result::ok);
    let mut told = lines.filter(|line| line.contains("advised") || line.contains("refused"));
    told.next().expect("the client tells")
}

#[test]
fn tls_with_a_certificate_and_a_token_of_the_environment() {
    let place = tempfile::tempdir().unwrap();
    let files = certificate(place.path());
    let (file, reader, _) = tokens(place.path());
    let service = Running::with(|options| {
        options.config.tls = Some(files.clone());
        options.config.tokens = Some(file);
    });
    let url = by_name(&service);
    let authority = files.certificate.to_str().unwrap();
    let token = ("FAIRWIND_ADVISOR_TOKEN", &reader[..]);
    let trusted = ("SSL_CERT_FILE", authority);
    assert!(client_process(&url, &[token, trusted]).contains("advised"));
    let unknown = client_process(&url, &[token]);
    assert!(
        unknown.contains("refused"),
        "nobody vouches for it: {unknown}"
    );
    let without = client_process(&url, &[trusted]);
    assert!(without.contains("401"), "{without}");
    let health = format!("{url}/healthz");
    assert_eq!(curl(&["--cacert", authority, &health]), "ok\n");
}

#[test]
fn who_does_not_shake_hands_keeps_nobody_waiting() {
    let place = tempfile::tempdir().unwrap();
    let files = certificate(place.path());
    let authority = files.certificate.to_str().unwrap().to_owned();
    let service = Running::with(|options| {
        options.config.tls = Some(files);
        options.limits = Limits {
            connections: 2,
            // Time enough for a handshake on a busy machine.
            head: Duration::from_secs(3),
            ..Limits::default()
        };
    });
    let address = service.url.strip_prefix("https://").unwrap();
    let patience = Some(Duration::from_secs(30));
    let mut silent: Vec<TcpStream> = (0..2)
        .map(|_| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(patience).unwrap();
            stream
        })
        .collect();
    // Both connections are in use; they become free when the handshake times out.
    let health = format!("{}/healthz", by_name(&service));
    assert_eq!(curl(&["--cacert", &authority, &health]), "ok\n");
    for stream in &mut silent {
        assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0, "it was closed");
    }
    let mut plain = TcpStream::connect(address).unwrap();
    plain.set_read_timeout(patience).unwrap();
    plain
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "nothing is told without TLS");
}

#[test]
fn a_certificate_that_is_none_is_named() {
    let place = tempfile::tempdir().unwrap();
    let files = certificate(place.path());
    let config = |certificate: &Path, key: &Path| Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        tls: Some(TlsFiles {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        }),
        ..Config::default()
    };
    let nothing = place.path().join("nothing.pem");
    fs::write(&nothing, "nothing").unwrap();
    let missing = place.path().join("missing.pem");
    for (config, named) in [
        (config(&nothing, &files.key), &nothing),
        (config(&files.certificate, &nothing), &nothing),
        (config(&missing, &files.key), &missing),
        (config(&files.certificate, &missing), &missing),
    ] {
        let error = refused(config).to_string();
        assert!(error.contains(named.to_str().unwrap()), "{error}");
    }
}

#[test]
fn what_the_service_knows_is_its_owners_alone() {
    let state = tempfile::tempdir().unwrap();
    let directory = state.path().join("state");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    // As an earlier version left it.
    fs::write(directory.join("advisor.db"), "").unwrap();
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(directory.join("advisor.db"), open).unwrap();
    let service = Running::with(|options| options.state = Some(directory.clone()));
    service.put_path("p", &["192.0.2.7"], json!({}));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in ["advisor.db", "advisor.db-wal", "advisor.db-shm"] {
        assert!(names.iter().any(|there| there == name), "{name}: {names:?}");
    }
    for name in &names {
        assert_eq!(mode(&directory.join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&directory), 0o700);
}

/// The connection of a request from this address; `None` if it was not answered.
fn answered(from: &str, service: SocketAddr) -> Option<Socket> {
    let socket = Socket::new(Domain::for_address(service), Type::STREAM, None).unwrap();
    let from: IpAddr = from.parse().unwrap();
    socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    socket.connect(&service.into()).unwrap();
    // If the connection is closed at once, even this may fail.
    let _ = (&socket).write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut answer = [0; 8];
    let answered = (&socket).read(&mut answer).is_ok_and(|read| read > 0);
    answered.then_some(socket)
}

#[test]
fn an_address_beyond_this_machine_has_so_many_connections() {
    if !permitted(root()) {
        return;
    }
    in_new_network_namespace(|| {
        for address in [
            "192.0.2.1",
            "192.0.2.2",
            "192.0.2.3",
            "2001:db8::1",
            "2001:db8::2",
            "2001:db8:0:1::2",
        ] {
            output("ip", &["address", "add", address, "dev", "lo"]);
        }
        let place = tempfile::tempdir().unwrap();
        for (own, one, same, other) in [
            ("192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.3"),
            ("2001:db8:0:1::2", "2001:db8::1", "2001:db8::2", "192.0.2.3"),
        ] {
            let (file, ..) = tokens(place.path());
            let service = Running::with(|options| {
                options.config.listen = vec!["[::]:0".parse().unwrap()];
                options.config.tokens = Some(file);
                options.limits.connections_per_address = 2;
            });
            let (_, port) = service.url.rsplit_once(':').unwrap();
            let at =
                |address: &str| SocketAddr::new(address.parse().unwrap(), port.parse().unwrap());
            let first = answered(one, at(own)).unwrap();
            let _second = answered(same, at(own)).unwrap();
            assert!(answered(one, at(own)).is_none(), "{one}");
            let _other = answered(other, at("192.0.2.1")).unwrap();
            let itself: Vec<_> = (0..4).map(|_| answered(own, at(own))).collect();
            assert!(itself.iter().all(Option::is_some), "{own}");
            drop(first);
            wait_until("there is room again", || answered(one, at(own)).is_some());
        }
    });
}
