//! Servers reached from an address, through proxies that keep their word and others that do not, and at a limited rate.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::{
    Bind, ClientError, DataMode, Options, Progress, RateLimit, Retrieval, Route, Storage, Through,
};

use fairwind_testing::proxy::Proxy;

use super::{connection, get, is_verified, options, put};
use crate::common::{Running, noise};

fn through(proxy: &str) -> Options {
    Options {
        route: Route {
            through: proxy.parse::<Through>().unwrap(),
            ..Route::default()
        },
        ..options()
    }
}

#[test]
fn files_come_and_go_through_proxies() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let bytes = noise(3_000_000);
    server.write("x", &bytes);
    let target = here.path().join("x");
    for scheme in ["socks5", "socks5h", "http"] {
        let proxy = Proxy::start();
        let url = format!("{scheme}://anna:pass%3Aword@{}", proxy.address);
        let got = get(server.address, "x", &target, through(&url)).unwrap();
        assert!(fs::read(&target).unwrap() == bytes);
        assert!(is_verified(&got));
        let sent = put(server.address, &target, scheme, through(&url)).unwrap();
        assert!(is_verified(&sent));
        // Right-sizing would need a connection of the two hosts.
        assert!(got.figures.is_empty() && sent.figures.is_empty());
        // A control and a data connection for each.
        assert_eq!(proxy.connections(), 4, "{scheme}");
    }
    let active = Options {
        mode: DataMode::Active,
        ..through(&format!(
            "http://anna:pass%3Aword@{}",
            Proxy::start().address
        ))
    };
    let error = get(server.address, "x", &target, active).unwrap_err();
    assert!(matches!(error, ClientError::Usage(_)), "{error}");
}

/// What a client of this patience says of a proxy that answers so, whatever it is asked, and then is silent or closes.
fn with_liar(scheme: &str, answer: &'static [u8], closes: bool, patience: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("{scheme}://{}", listener.local_addr().unwrap());
    let liar = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        // The client may have closed the connection.
        let _ = client.write_all(answer);
        if closes {
            let _ = client.shutdown(std::net::Shutdown::Write);
        }
        let _ = client.read_to_end(&mut Vec::new());
    });
    let impatient = Options {
        patience,
        retries: 0,
        ..through(&url)
    };
    let here = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    let server: SocketAddr = "192.0.2.1:21".parse().unwrap();
    let error = get(server, "x", &here.path().join("x"), impatient).unwrap_err();
    // As soon as it is known, or the patience is over.
    assert!(begin.elapsed() < Duration::from_secs(5));
    liar.join().unwrap();
    let error = error.to_string();
    assert!(error.contains("no connection to 192.0.2.1:21"), "{error}");
    error
}

#[test]
fn a_proxy_that_lies_or_stands_still_is_told() {
    /// Longer than any answer takes.
    const PATIENCE: Duration = Duration::from_secs(30);
    let told: [(&str, &[u8], bool, &str); 14] = [
        ("socks5", b"", false, "did not answer"),
        ("socks5", b"", true, "closed"),
        (
            "socks5",
            b"HTTP/1.1 400 Bad\r\n\r\n",
            false,
            "does not speak SOCKS",
        ),
        ("socks5", b"\x05\xff", false, "wants a user"),
        ("socks5", b"\x05\x02", false, "not offered"),
        (
            "socks5",
            b"\x05\x00\x05\x05\x00\x01",
            false,
            "refused the connection",
        ),
        ("socks5", b"\x05\x00\x05\x02\x00\x01", false, "rules"),
        (
            "socks5",
            b"\x05\x00\x05\x00\x00\x09",
            false,
            "no known kind",
        ),
        (
            "socks5",
            b"\x05\x00\x05\x00\x00\x03\xffshort",
            true,
            "closed",
        ),
        ("http", b"220 FTP server\r\n", false, "does not speak HTTP"),
        (
            "http",
            b"HTTP/1.1 407 No\r\n\r\n",
            false,
            "user and a password",
        ),
        (
            "http",
            b"HTTP/1.1 403 \x1b[31mNo\r\n\r\n",
            false,
            "refused with HTTP/1.1 403",
        ),
        ("http", b"HTTP/1.1 200 Fine\r\n", false, "did not answer"),
        ("http", &[b'H'; 5], false, "does not speak HTTP"),
    ];
    for (scheme, answer, closes, expected) in told {
        let error = match expected {
            "did not answer" => with_liar(scheme, answer, closes, Duration::from_millis(300)),
            _ => with_liar(scheme, answer, closes, PATIENCE),
        };
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(!error.contains('\x1b'), "{error}");
    }
    let gone = fairwind_testing::free_address();
    let here = tempfile::tempdir().unwrap();
    let nobody = through(&format!("http://{gone}"));
    let error = get(gone, "x", &here.path().join("x"), nobody).unwrap_err();
    let expected = format!("the proxy http://{gone}: Connection refused");
    assert!(error.to_string().contains(&expected), "{error}");
    let endless: &'static [u8] = [b"HTTP/1.1 200 ".as_slice(), &[b'x'; 20_000]]
        .concat()
        .leak();
    let error = with_liar("http", endless, false, PATIENCE);
    assert!(error.contains("without end"), "{error}");
}

#[test]
fn connections_begin_where_they_are_told_to() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    server.write("x", b"abc");
    let own: IpAddr = Ipv4Addr::new(127, 0, 0, 2).into();
    for bind in [Bind::Address(own), Bind::Interface("lo".into())] {
        for mode in [DataMode::Passive, DataMode::Active] {
            let options = Options {
                mode,
                route: Route {
                    bind: Some(bind.clone()),
                    ..Route::default()
                },
                ..options()
            };
            // The server takes data connections from the address of the control connection only.
            let got = get(server.address, "x", &here.path().join("x"), options).unwrap();
            assert_eq!(got.bytes, 3);
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bound = |bind| Options {
        route: Route {
            bind: Some(bind),
            ..Route::default()
        },
        retries: 0,
        patience: Duration::from_secs(2),
        ..options()
    };
    let address = listener.local_addr().unwrap();
    let target = here.path().join("y");
    let client = thread::spawn(move || get(address, "x", &target, bound(Bind::Address(own))));
    let (stream, peer) = listener.accept().unwrap();
    assert_eq!(peer.ip(), own);
    drop(stream);
    assert!(client.join().unwrap().is_err());
    for elsewhere in ["192.0.2.1", "::1"] {
        let bind = Bind::Address(elsewhere.parse().unwrap());
        let error = get(server.address, "x", &here.path().join("y"), bound(bind)).unwrap_err();
        assert!(error.to_string().contains(elsewhere), "{error}");
    }
}

#[test]
fn all_transfers_together_keep_to_the_limit() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let bytes = noise(200_000);
    for name in ["a", "b"] {
        server.write(name, &bytes);
        fs::write(here.path().join(name), &bytes).unwrap();
    }
    let two = NonZeroUsize::new(2).unwrap();
    let down = |name: &str| {
        Job::Get(Retrieval {
            remote: name.into(),
            target: here.path().join("got").join(name),
            listed: None,
        })
    };
    let up = |name: &str| {
        Job::Put(Storage {
            source: here.path().join(name),
            remote: format!("stored-{name}").into(),
            present: None,
        })
    };
    fs::create_dir(here.path().join("got")).unwrap();
    for jobs in [vec![down("a"), down("b")], vec![up("a"), up("b")]] {
        let limited = Options {
            limit: Some(RateLimit::new(NonZeroU64::new(400_000).unwrap())),
            ..options()
        };
        let begin = Instant::now();
        let outcome = batch::run(connection(server.address, "", limited), jobs, two).unwrap();
        let taken = begin.elapsed();
        assert_eq!((outcome.failures, outcome.bytes), (vec![], 400_000));
        // A second, less what may be made up for.
        assert!(taken >= Duration::from_millis(800), "{taken:?}");
    }
}

/// Asks to stop at a time.
struct StopAfter(Instant);

impl Progress for StopAfter {
    fn stopped(&self) -> bool {
        Instant::now() >= self.0
    }
}

#[test]
fn a_limited_transfer_stops_at_once_when_it_is_asked_to() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    server.write("x", noise(3_000_000));
    let limited = Options {
        limit: Some(RateLimit::new(NonZeroU64::new(1_000).unwrap())),
        progress: Arc::new(StopAfter(Instant::now() + Duration::from_millis(500))),
        ..options()
    };
    let begin = Instant::now();
    let error = get(server.address, "x", &here.path().join("x"), limited).unwrap_err();
    assert!(matches!(error, ClientError::Stopped), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(5));
}
