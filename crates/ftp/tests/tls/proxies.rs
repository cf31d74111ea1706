//! Proxies that lie on data connections. In clear a wrong file is found by its size or its checksum, and gets no name; under
//! TLS no byte of a lie gets into a file.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_ftp::client::{
    ChecksumPolicy, ClientError, Connection, FileReport, Options, Retrieval, Route, Storage,
    Verification,
};
use fairwind_testing::proxy::Asked;
use fairwind_transfer::Direction;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::ours::{alice, place, served, trusting};
use super::{Authority, Server};
use crate::common::noise;

/// Bytes of the file.
const FILE: usize = 1_000_000;
/// Where a lie in the middle of it begins.
const MIDDLE: u64 = 300_000;
/// Bytes of a lie that come besides the file.
const MORE: usize = 100;

/// What becomes of a data connection, in the direction of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// Bytes come before the file.
    Before,
    /// Bytes come behind it.
    Behind,
    /// Other bytes come in its place, as many.
    Replaced,
    /// The byte at this offset is another.
    Changed(u64),
    /// It ends after this many bytes, for both sides.
    Cut(u64),
    /// Other bytes come in its place, and it ends after this many.
    ReplacedAndCut(usize),
    /// Nothing is passed on of what is read to its end.
    Swallowed,
    /// Nothing comes any more after this many bytes.
    Stalled(u64),
    /// It is there as the proxy says, but leads nowhere.
    Nowhere,
    /// It is there as the proxy says, and is closed at once.
    Closed,
    /// It leads to somebody else, while the server has a connection on which nothing comes.
    Elsewhere(SocketAddr),
}

impl Lie {
    /// Whether the client learns of it only by waiting.
    fn is_silent(self, scheme: &str) -> bool {
        match self {
            Self::Stalled(_) | Self::Nowhere => true,
            // The server goes on waiting.
            Self::Closed => scheme == "ftp",
            // Neither side of a handshake says anything before the other one has.
            Self::Replaced | Self::Swallowed => scheme == "ftpes",
            _ => false,
        }
    }
}

/// A proxy at this address, which passes connections to the port `control` on and leaves all others to `data`.
fn proxy(
    control: u16,
    data: impl Fn(TcpStream, Asked) -> io::Result<()> + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let data = Arc::new(data);
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let data = Arc::clone(&data);
            thread::spawn(move || {
                let asked = Asked::by(&mut client)?;
                if asked.port != control {
                    return data(client, asked);
                }
                let server = asked.connect()?;
                client.write_all(asked.granted)?;
                relay(client, server, None, None)
            });
        }
    });
    address
}

/// A proxy that lies on so many data connections, of a file that goes there or comes from there; and their number so far.
fn liar(
    control: u16,
    direction: Direction,
    lie: Lie,
    times: usize,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let lies = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&lies);
    let address = proxy(control, move |mut client, asked| {
        let lie = (told.fetch_add(1, Ordering::Relaxed) < times).then_some(lie);
        if let Some(Lie::Nowhere | Lie::Closed) = lie {
            client.write_all(asked.granted)?;
            if lie == Some(Lie::Nowhere) {
                io::copy(&mut client, &mut io::sink())?;
            }
            return Ok(());
        }
        let server = asked.connect()?;
        client.write_all(asked.granted)?;
        match (lie, direction) {
            (Some(Lie::Elsewhere(other)), _) => {
                relay(client, TcpStream::connect(other)?, None, None)?;
                drop(server);
                Ok(())
            }
            (lie, Direction::Receive) => relay(client, server, lie, None),
            (lie, Direction::Send) => relay(client, server, None, lie),
        }
    });
    (address, lies)
}

fn relay(
    client: TcpStream,
    server: TcpStream,
    down: Option<Lie>,
    up: Option<Lie>,
) -> io::Result<()> {
    let (from, to) = (client.try_clone()?, server.try_clone()?);
    let upwards = thread::spawn(move || pass(from, to, up));
    // Either side may close before the other one has said everything.
    let _ = pass(server, client, down);
    let _ = upwards.join();
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream, lie: Option<Lie>) -> io::Result<()> {
    match lie {
        Some(Lie::Before) => to.write_all(&[7; MORE])?,
        Some(Lie::Replaced) => {
            let count = io::copy(&mut from, &mut io::sink())?;
            to.write_all(&vec![7; count as usize])?;
        }
        Some(Lie::Changed(at)) => {
            io::copy(&mut (&from).take(at), &mut to)?;
            let mut byte = [0];
            from.read_exact(&mut byte)?;
            to.write_all(&byte.map(|bits| !bits))?;
        }
        Some(Lie::Cut(count)) => {
            io::copy(&mut (&from).take(count), &mut to)?;
            to.shutdown(Shutdown::Both)?;
            return from.shutdown(Shutdown::Both);
        }
        Some(Lie::ReplacedAndCut(count)) => {
            to.write_all(&vec![7; count])?;
            io::copy(&mut from, &mut io::sink())?;
        }
        Some(Lie::Swallowed) => {
            io::copy(&mut from, &mut io::sink())?;
        }
        Some(Lie::Stalled(count)) => {
            io::copy(&mut (&from).take(count), &mut to)?;
            // Until the other side gives up.
            io::copy(&mut to, &mut io::sink())?;
        }
        _ => {}
    }
    io::copy(&mut from, &mut to)?;
    if lie == Some(Lie::Behind) {
        to.write_all(&[7; MORE])?;
    }
    to.shutdown(Shutdown::Write)
}

/// Somebody who sends these bytes to everyone and takes theirs, under TLS if there is a certificate.
fn somebody(tls: Option<Arc<ServerConfig>>, content: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let speak = move |mut stream: TcpStream| -> io::Result<()> {
        let Some(tls) = &tls else {
            stream.write_all(&content)?;
            stream.shutdown(Shutdown::Write)?;
            return io::copy(&mut stream, &mut io::sink()).map(drop);
        };
        let connection = ServerConnection::new(Arc::clone(tls)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        stream.write_all(&content)?;
        stream.conn.send_close_notify();
        stream.flush()?;
        io::copy(&mut stream, &mut io::sink()).map(drop)
    };
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // Whoever does not trust it leaves.
            let _ = speak(stream);
        }
    });
    address
}

fn through(proxy: &str, address: SocketAddr, options: Options) -> Options {
    let url = format!("{proxy}://anna:pass%3Aword@{address}");
    Options {
        route: Route {
            through: url.parse().unwrap(),
            ..Route::default()
        },
        ..options
    }
}

/// Moves a file between `here/x` and the server.
fn carry(
    server: &Server,
    scheme: &str,
    direction: Direction,
    here: &Path,
    remote: &str,
    options: Options,
) -> Result<FileReport, ClientError> {
    let there = place(scheme, server.running.address);
    let remote = remote.as_bytes().to_vec();
    let mut connection = Connection::new(there, alice(), options);
    match direction {
        Direction::Receive => Retrieval {
            remote,
            target: here.join("x"),
            listed: None,
        }
        .run(&mut connection, 0),
        Direction::Send => Storage {
            source: here.join("x"),
            remote,
            present: None,
        }
        .run(&mut connection, 0),
    }
}

/// A file that goes through a lying proxy.
#[derive(Debug, Clone, Copy)]
struct Case {
    scheme: &'static str,
    direction: Direction,
    lie: Lie,
    /// How many data connections it lies on.
    times: usize,
    checksum: ChecksumPolicy,
}

impl Case {
    /// A proxy that lies each time, of a file whose checksum the server is asked for.
    fn new(scheme: &'static str, direction: Direction, lie: Lie) -> Self {
        Self {
            scheme,
            direction,
            lie,
            times: usize::MAX,
            checksum: ChecksumPolicy::Required,
        }
    }

    /// What comes of it; in no case a wrong file under its name, nor, under TLS, anything else that is wrong.
    fn run(self, proxy: &str) -> Result<FileReport, ClientError> {
        let server = Server::start();
        let here = tempfile::tempdir().unwrap();
        let content = noise(FILE);
        let (source, target) = match self.direction {
            Direction::Receive => (server.running.dir.path(), here.path()),
            Direction::Send => (here.path(), server.running.dir.path()),
        };
        fs::write(source.join("x"), &content).unwrap();
        let control = server.running.address.port();
        let (address, lies) = liar(control, self.direction, self.lie, self.times);
        let is_silent = self.lie.is_silent(self.scheme);
        let options = Options {
            checksum: self.checksum,
            // Longer than any answer takes.
            patience: Duration::from_secs(if is_silent { 2 } else { 20 }),
            retries: if is_silent { 0 } else { 1 },
            ..through(proxy, address, trusting(&server.authority))
        };
        let begin = Instant::now();
        let (scheme, direction) = (self.scheme, self.direction);
        let moved = carry(&server, scheme, direction, here.path(), "x", options);
        assert!(begin.elapsed() < Duration::from_secs(15), "{self:?}");
        assert!(lies.load(Ordering::Relaxed) > 0, "{self:?}");
        match &moved {
            Ok(report) => {
                let got = fs::read(target.join("x")).unwrap();
                assert!(got == content, "{self:?}");
                let is_verified = matches!(report.checksum, Verification::Verified(_));
                let is_wanted = self.checksum == ChecksumPolicy::Required;
                assert_eq!(is_verified, is_wanted, "{self:?}");
            }
            Err(error) => assert!(!target.join("x").exists(), "{self:?} {error}"),
        }
        if self.scheme == "ftpes" {
            let partial = fs::read(target.join(".x.part")).unwrap_or_default();
            assert!(content.starts_with(&partial), "{self:?}");
        }
        moved
    }

    /// Fails, with one of these reasons.
    #[track_caller]
    fn fails(self, reasons: &[&str]) {
        let proxies = match (self.lie.is_silent(self.scheme), self.direction) {
            (false, _) => &["socks5h", "http"][..],
            // Each takes its time.
            (true, Direction::Receive) => &["socks5h"],
            (true, Direction::Send) => &["http"],
        };
        for proxy in proxies {
            let error = self.run(proxy).expect_err(&format!("{self:?}")).to_string();
            let is_told = reasons.iter().any(|reason| error.contains(reason));
            assert!(is_told, "{self:?} {proxy}: {error}");
        }
    }

    /// Succeeds, after this many interruptions at least.
    #[track_caller]
    fn succeeds(self, interruptions: usize) {
        for proxy in ["socks5h", "http"] {
            let report = self.run(proxy);
            let report = report.unwrap_or_else(|error| panic!("{self:?} {proxy}: {error}"));
            let told = report.interruptions;
            assert!(told.len() >= interruptions, "{self:?} {proxy}: {told:?}");
        }
    }
}

const DOWN: Direction = Direction::Receive;
const UP: Direction = Direction::Send;

#[test]
fn a_download_that_a_proxy_falsifies_is_found_out() {
    let down = |lie| Case::new("ftp", DOWN, lie);
    for lie in [Lie::Replaced, Lie::Changed(MIDDLE), Lie::Changed(0)] {
        down(lie).fails(&["is not what"]);
    }
    for lie in [Lie::Before, Lie::Behind] {
        for checksum in [ChecksumPolicy::Required, ChecksumPolicy::Off] {
            let case = Case {
                checksum,
                ..down(lie)
            };
            case.fails(&["sends more than the 1000000 bytes"]);
        }
    }
    // The server has a connection and sends nothing on it that arrives.
    down(Lie::Elsewhere(somebody(None, vec![7; FILE]))).fails(&["is not what"]);
}

#[test]
fn an_upload_that_a_proxy_falsifies_is_found_out() {
    let up = |lie| Case::new("ftp", UP, lie);
    for lie in [Lie::Replaced, Lie::Changed(MIDDLE), Lie::Changed(0)] {
        up(lie).fails(&["is not what"]);
    }
    for lie in [Lie::Before, Lie::Behind] {
        for checksum in [ChecksumPolicy::Required, ChecksumPolicy::Off] {
            let case = Case {
                checksum,
                ..up(lie)
            };
            case.fails(&["is not what"]);
        }
    }
}

#[test]
fn what_a_proxy_breaks_off_goes_on_where_it_was() {
    for direction in [DOWN, UP] {
        for scheme in ["ftp", "ftpes"] {
            Case::new(scheme, direction, Lie::Cut(MIDDLE)).succeeds(3);
        }
        let unverified = Case {
            checksum: ChecksumPolicy::Off,
            ..Case::new("ftp", direction, Lie::Cut(MIDDLE))
        };
        unverified.succeeds(3);
    }
}

#[test]
fn a_proxy_that_passes_nothing_on_is_told() {
    for direction in [DOWN, UP] {
        let case = |lie| Case::new("ftp", direction, lie);
        let nothing = [
            "it ended after 0 of 1000000 bytes",
            "0 of the 1000000 bytes announced",
            // The server has noticed it.
            "426 data connection",
        ];
        case(Lie::Cut(0)).fails(&nothing);
        case(Lie::Swallowed).fails(&nothing);
    }
    let elsewhere = Lie::Elsewhere(somebody(None, Vec::new()));
    Case::new("ftp", UP, elsewhere).fails(&["0 of the 1000000 bytes announced"]);
}

/// What is continued is checked as a whole.
#[test]
fn a_beginning_that_a_proxy_made_up_does_not_stay() {
    for direction in [DOWN, UP] {
        let case = Case {
            times: 1,
            ..Case::new("ftp", direction, Lie::ReplacedAndCut(MIDDLE as usize))
        };
        case.succeeds(1);
    }
}

/// How it is told that nothing came for the two seconds that these tests wait.
const PATIENCE_ENDS: [&str; 3] = ["nothing moved for 2s", "within 2s", "took longer than 2s"];

#[test]
fn a_proxy_that_stands_still_is_waited_for_as_long_as_the_user_wants() {
    thread::scope(|scope| {
        for (scheme, direction) in [("ftp", DOWN), ("ftp", UP), ("ftpes", DOWN), ("ftpes", UP)] {
            scope.spawn(move || {
                for lie in [Lie::Stalled(0), Lie::Stalled(MIDDLE), Lie::Nowhere] {
                    Case::new(scheme, direction, lie).fails(&PATIENCE_ENDS);
                }
            });
        }
    });
    // The server waits for somebody who was said to be there.
    Case::new("ftp", DOWN, Lie::Closed).fails(&PATIENCE_ENDS);
    let noticed = ["Broken pipe", "reset by peer", "within 2s"];
    Case::new("ftp", UP, Lie::Closed).fails(&noticed);
}

#[test]
fn what_a_proxy_says_itself_is_no_tls() {
    for direction in [DOWN, UP] {
        let case = |lie| Case::new("ftpes", direction, lie);
        for lie in [Lie::Before, Lie::Changed(0)] {
            case(lie).fails(&["TLS"]);
        }
        for lie in [Lie::Replaced, Lie::Swallowed] {
            case(lie).fails(&PATIENCE_ENDS);
        }
        for lie in [Lie::Cut(0), Lie::Closed] {
            case(lie).fails(&["TLS"]);
        }
        // A record that was changed is not taken, and what came before it stays.
        case(Lie::Changed(MIDDLE)).succeeds(3);
        // Nobody listens any more behind TLS's last message.
        case(Lie::Behind).succeeds(0);
        let stranger = served(&Authority::new());
        let elsewhere = Lie::Elsewhere(somebody(stranger, vec![7; FILE]));
        case(elsewhere).fails(&["from no known authority"]);
    }
}

/// A proxy that gives the first two data connections to each other's sessions.
fn crossing(control: u16) -> SocketAddr {
    let waiting = Mutex::new(None::<(TcpStream, Asked)>);
    proxy(control, move |mut client, asked| {
        let other = {
            let mut waiting = waiting.lock().unwrap();
            let Some(other) = waiting.take() else {
                *waiting = Some((client, asked));
                return Ok(());
            };
            other
        };
        let (mut other, other_asked) = other;
        client.write_all(asked.granted)?;
        other.write_all(other_asked.granted)?;
        let (here, there) = (other_asked.connect()?, asked.connect()?);
        thread::spawn(move || relay(other, there, None, None));
        relay(client, here, None, None)
    })
}

/// Both are the same user's, with the same server.
#[test]
fn data_connections_that_a_proxy_crosses_move_no_file_under_the_name_of_the_other() {
    for (scheme, reason) in [("ftp", "is not what"), ("ftpes", "522")] {
        for direction in [DOWN, UP] {
            let server = Server::start();
            let address = crossing(server.running.address.port());
            let files: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
            thread::scope(|scope| {
                for (number, here) in files.iter().enumerate() {
                    let (server, remote) = (&server, format!("x{number}"));
                    let content = vec![number as u8; FILE];
                    let source = match direction {
                        Direction::Receive => server.running.path(&remote),
                        Direction::Send => here.path().join("x"),
                    };
                    fs::write(source, content).unwrap();
                    scope.spawn(move || {
                        let options = Options {
                            retries: 0,
                            ..through("socks5h", address, trusting(&server.authority))
                        };
                        let moved = carry(server, scheme, direction, here.path(), &remote, options);
                        let error = moved.unwrap_err().to_string();
                        assert!(error.contains(reason), "{scheme} {direction:?}: {error}");
                        let target = match direction {
                            Direction::Receive => here.path().join("x"),
                            Direction::Send => server.running.path(&remote),
                        };
                        assert!(!target.exists(), "{scheme} {direction:?}");
                    });
                }
            });
        }
    }
}
