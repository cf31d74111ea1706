//! Copies between servers that break off, while what is there or is to be sent changes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_ftp::client::{ChecksumPolicy, FileReport, Options, third_party};

use super::{connection, options};

/// A file and the time that MDTM tells of it.
#[derive(Clone)]
pub(super) struct File {
    pub bytes: Vec<u8>,
    pub modified: &'static str,
}

impl File {
    fn of(byte: u8, size: usize, modified: &'static str) -> Self {
        Self {
            bytes: vec![byte; size],
            modified,
        }
    }
}

/// What a server has and does.
#[derive(Default)]
pub(super) struct State {
    /// The file that is sent.
    pub original: Option<File>,
    /// After so many bytes the next download is broken off, and the file replaced.
    pub cut: Option<(usize, File)>,
    /// The bytes of the partial file.
    pub partial: Option<Vec<u8>>,
    /// How many uploads are refused for their data connection, before or after their preliminary reply.
    pub refused: usize,
    pub says_first: bool,
    /// Downloads have a preliminary reply again and again, and nothing else.
    pub waits: bool,
    /// The next download that begins in the middle comes as a whole, and then fails.
    pub loses_end: bool,
    /// A byte is added to what is stored.
    pub pads: bool,
    /// The bytes with which downloads began.
    pub offsets: Vec<usize>,
    pub whole: Option<Vec<u8>>,
}

pub(super) struct Server {
    pub address: SocketAddr,
    pub state: Arc<Mutex<State>>,
}

impl Server {
    pub(super) fn start(state: State) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                thread::spawn(move || session(stream, &state).ok());
            }
        });
        Self { address, state }
    }
}

fn session(mut out: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    out.write_all(b"220 Hello\r\n")?;
    let mut listener: Option<TcpListener> = None;
    let mut peer: Option<SocketAddr> = None;
    let mut first = 0;
    for line in BufReader::new(out.try_clone()?).lines() {
        let line = line?;
        let (verb, argument) = line.split_once(' ').unwrap_or((&line, ""));
        let is_partial = argument.ends_with(".part");
        let reply = match verb {
            "USER" => "331 Password".to_owned(),
            "FEAT" => "211-Features\r\n SIZE\r\n MDTM\r\n REST STREAM\r\n211 End".to_owned(),
            "PASS" | "TYPE" | "ALLO" => "200 Done".to_owned(),
            "SIZE" => {
                let state = state.lock().unwrap();
                let size = match is_partial {
                    true => state.partial.as_ref().map(Vec::len),
                    false => state.original.as_ref().map(|file| file.bytes.len()),
                };
                size.map_or("550 None".to_owned(), |size| format!("213 {size}"))
            }
            "MDTM" => match &state.lock().unwrap().original {
                Some(file) => format!("213 {}", file.modified),
                None => "550 None".to_owned(),
            },
            "EPSV" => {
                let new = TcpListener::bind("127.0.0.1:0")?;
                let port = new.local_addr()?.port();
                listener = Some(new);
                format!("229 Here (|||{port}|)")
            }
            "EPRT" => {
                let port = argument
                    .split('|')
                    .nth(3)
                    .and_then(|port| port.parse().ok());
                peer = port.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
                "200 Done".to_owned()
            }
            "REST" => {
                first = argument.parse().unwrap();
                let state = state.lock().unwrap();
                let original = state.original.as_ref();
                match original.is_some_and(|file| first >= file.bytes.len()) {
                    true => "554 Beyond the end".to_owned(),
                    false => "350 More".to_owned(),
                }
            }
            "RETR" => send(&mut out, peer.take().unwrap(), first, state)?,
            "STOR" => take(&mut out, listener.take().unwrap(), first, state)?,
            "RNFR" => "350 More".to_owned(),
            "RNTO" => {
                let mut state = state.lock().unwrap();
                state.whole = state.partial.take();
                "250 Done".to_owned()
            }
            "DELE" => {
                state.lock().unwrap().partial = None;
                "250 Done".to_owned()
            }
            _ => "502 What?".to_owned(),
        };
        if matches!(verb, "RETR" | "STOR") {
            first = 0;
        }
        out.write_all(format!("{reply}\r\n").as_bytes())?;
    }
    Ok(())
}

fn send(
    out: &mut TcpStream,
    to: SocketAddr,
    first: usize,
    state: &Mutex<State>,
) -> io::Result<String> {
    let Ok(mut data) = TcpStream::connect(to) else {
        return Ok("425 Nobody there".to_owned());
    };
    while state.lock().unwrap().waits {
        out.write_all(b"150 Wait\r\n")?;
        thread::sleep(Duration::from_millis(100));
    }
    out.write_all(b"150 Here it comes\r\n")?;
    let (bytes, is_broken) = {
        let mut state = state.lock().unwrap();
        state.offsets.push(first);
        let bytes = state.original.clone().unwrap().bytes;
        match state.cut.take() {
            Some((most, next)) => {
                state.original = Some(next);
                (bytes[first..most].to_vec(), true)
            }
            None => {
                let is_lost = first > 0 && std::mem::take(&mut state.loses_end);
                (bytes[first..].to_vec(), is_lost)
            }
        }
    };
    let _ = data.write_all(&bytes);
    Ok(match is_broken {
        true => "426 Broken off".to_owned(),
        false => "226 That was it".to_owned(),
    })
}

fn take(
    out: &mut TcpStream,
    listener: TcpListener,
    first: usize,
    state: &Mutex<State>,
) -> io::Result<String> {
    let is_refused = {
        let mut state = state.lock().unwrap();
        let is_refused = state.refused > 0;
        state.refused = state.refused.saturating_sub(1);
        is_refused.then_some(state.says_first)
    };
    if is_refused != Some(false) {
        out.write_all(b"150 Go on\r\n")?;
    }
    if is_refused.is_some() {
        return Ok("425 No data connection".to_owned());
    }
    let (mut data, _) = listener.accept()?;
    let mut bytes = Vec::new();
    data.read_to_end(&mut bytes)?;
    let mut state = state.lock().unwrap();
    let partial = state.partial.get_or_insert_default();
    partial.truncate(first);
    partial.extend(bytes);
    if state.pads {
        state.partial.get_or_insert_default().push(0);
    }
    Ok("226 That was it".to_owned())
}

/// Copies without checksums; returns the report, the bytes there, and the bytes with which the downloads began.
fn copy(source: State, destination: State) -> (FileReport, Vec<u8>, Vec<usize>) {
    let (source, destination) = (Server::start(source), Server::start(destination));
    let without = || Options {
        checksum: ChecksumPolicy::Off,
        ..options()
    };
    let mut from = connection(source.address, "x", without());
    let mut to = connection(destination.address, "y", without());
    let report = third_party(&mut from, &mut to, 0).unwrap();
    let offsets = source.state.lock().unwrap().offsets.clone();
    let whole = destination.state.lock().unwrap().whole.take();
    (report, whole.unwrap(), offsets)
}

#[test]
fn a_copy_that_broke_off_goes_on_where_it_was() {
    let file = File::of(b'a', 600_000, "20260101000000");
    let source = State {
        cut: Some((400_000, file.clone())),
        original: Some(file.clone()),
        ..State::default()
    };
    let (report, there, offsets) = copy(source, State::default());
    assert_eq!(offsets, [0, 400_000]);
    assert_eq!(report.interruptions.len(), 1, "{report:?}");
    assert!(there == file.bytes);
}

#[test]
fn a_copy_of_which_nothing_but_preliminary_replies_comes_is_broken_off() {
    let source = Server::start(State {
        original: Some(File::of(b'a', 600_000, "20260101000000")),
        waits: true,
        ..State::default()
    });
    let destination = Server::start(State::default());
    let impatient = || Options {
        patience: Duration::from_secs(1),
        retries: 0,
        ..options()
    };
    let mut from = connection(source.address, "x", impatient());
    let mut to = connection(destination.address, "y", impatient());
    let begin = Instant::now();
    let error = third_party(&mut from, &mut to, 0).unwrap_err().to_string();
    assert!(error.starts_with("nothing moved for 1s"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_copy_with_too_many_bytes_gets_no_name() {
    let source = Server::start(State {
        original: Some(File::of(b'a', 600_000, "20260101000000")),
        ..State::default()
    });
    let destination = Server::start(State {
        pads: true,
        ..State::default()
    });
    let mut from = connection(source.address, "x", options());
    let mut to = connection(destination.address, "y", options());
    let error = third_party(&mut from, &mut to, 0).unwrap_err().to_string();
    assert!(error.ends_with("it has 600001 bytes of 600000"), "{error}");
    let state = destination.state.lock().unwrap();
    assert!(state.partial.is_none() && state.whole.is_none());
}

#[test]
fn a_copy_of_a_file_that_changes_meanwhile_begins_anew() {
    for size in [800_000, 600_000] {
        let next = File::of(b'b', size, "20260601000000");
        let source = State {
            original: Some(File::of(b'a', 600_000, "20260101000000")),
            cut: Some((400_000, next.clone())),
            ..State::default()
        };
        let (_, there, offsets) = copy(source, State::default());
        assert_eq!(offsets, [0, 0]);
        assert!(there == next.bytes);
    }
}

#[test]
fn a_copy_without_checksums_does_not_continue_what_it_has_not_sent() {
    for says_first in [false, true] {
        let file = File::of(b'a', 600_000, "20260101000000");
        let source = State {
            original: Some(file.clone()),
            ..State::default()
        };
        let destination = State {
            partial: Some(vec![b'o'; 300_000]),
            refused: 2,
            says_first,
            ..State::default()
        };
        let (report, there, offsets) = copy(source, destination);
        assert_eq!(offsets.last(), Some(&0), "{says_first}");
        assert_eq!(report.interruptions.len(), 2, "{report:?}");
        assert!(there == file.bytes);
    }
}
