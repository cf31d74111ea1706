//! Counts the round trips before data flows: replies are held back until both servers and the client are
//! silent, and each release counts as one round trip.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::{ChecksumPolicy, Options, Storage, third_party, tree};
use fairwind_ftp::protocol::reply::{Reply, ReplyReader};

use super::{connection, get, open_to_others, options};
use crate::common::{Running, noise};

const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Consecutive checks without any traffic that end a turn, if no server is about to reply: more than the client needs between
/// two commands. They are counted instead of timed, because a stalled machine delays the checks as well.
const SILENCE: u32 = 50;

/// Control connections that share one slow path.
#[derive(Clone, Default)]
struct Path(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    turns: usize,
    /// Checks since the last traffic.
    silent: u32,
    held: Vec<(TcpStream, Vec<u8>)>,
    /// The client's commands, each with its turn.
    heard: Vec<(usize, String)>,
    connections: usize,
    /// By connection; gone with it.
    owed: HashMap<usize, Owed>,
}

/// The replies that a server owes, one after the other.
struct Owed {
    /// At first the greeting.
    replies: usize,
    /// The next one follows a transfer.
    in_transfer: bool,
}

impl Owed {
    const GREETING: Self = Self {
        replies: 1,
        in_transfer: false,
    };

    /// One has come.
    fn takes(&mut self, reply: &Reply) {
        self.in_transfer = reply.is_preliminary();
        if !self.in_transfer {
            self.replies = self.replies.saturating_sub(1);
        }
    }

    /// Whether a reply will come without any further traffic.
    fn is_due(&self) -> bool {
        self.replies > 0 && !self.in_transfer
    }
}

impl Path {
    fn begin() -> Self {
        let path = Self::default();
        let state = Arc::downgrade(&path.0);
        thread::spawn(move || {
            while let Some(state) = state.upgrade() {
                state.lock().unwrap().let_go();
                thread::sleep(POLL_INTERVAL);
            }
        });
        path
    }

    /// An address that leads over this path to a server's control connection.
    fn to(&self, server: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let path = self.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(server).unwrap();
                let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (there, back) = (path.clone(), path.clone());
                let number = path.0.lock().unwrap().connects();
                thread::spawn(move || there.carry_commands(number, client, server));
                thread::spawn(move || back.hold_replies(number, ends.1, ends.0));
            }
        });
        address
    }

    fn carry_commands(&self, number: usize, client: TcpStream, mut server: TcpStream) {
        for line in BufReader::new(client).lines().map_while(Result::ok) {
            let mut state = self.0.lock().unwrap();
            state.silent = 0;
            if let Some(owed) = state.owed.get_mut(&number) {
                owed.replies += 1;
            }
            let turn = state.turns;
            state.heard.push((turn, line.clone()));
            drop(state);
            if server.write_all(format!("{line}\r\n").as_bytes()).is_err() {
                return;
            }
        }
        let _ = server.shutdown(std::net::Shutdown::Write);
    }

    fn hold_replies(&self, number: usize, server: TcpStream, client: TcpStream) {
        let mut reader = ReplyReader::default();
        for line in BufReader::new(server).lines().map_while(Result::ok) {
            let Ok(client) = client.try_clone() else {
                break;
            };
            let mut state = self.0.lock().unwrap();
            state.silent = 0;
            if let Some(reply) = reader.take(&line).unwrap()
                && let Some(owed) = state.owed.get_mut(&number)
            {
                owed.takes(&reply);
            }
            state
                .held
                .push((client, format!("{line}\r\n").into_bytes()));
        }
        self.0.lock().unwrap().owed.remove(&number);
        let _ = client.shutdown(std::net::Shutdown::Both);
    }

    /// The commands of a turn.
    fn heard_in(&self, turn: usize) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let heard = state.heard.iter().filter(|(at, _)| *at == turn);
        heard.map(|(_, line)| line.clone()).collect()
    }

    /// The turn in which a command was sent.
    fn turn_of(&self, verb: &str) -> usize {
        let state = self.0.lock().unwrap();
        let found = state.heard.iter().find(|(_, line)| line.starts_with(verb));
        found
            .unwrap_or_else(|| panic!("{verb} is not in {:?}", state.heard))
            .0
    }
}

impl State {
    /// A further connection; returns its number.
    fn connects(&mut self) -> usize {
        self.connections += 1;
        self.owed.insert(self.connections, Owed::GREETING);
        self.connections
    }

    fn let_go(&mut self) {
        self.silent += 1;
        let is_due = self.owed.values().any(Owed::is_due);
        if self.held.is_empty() || is_due || self.silent < SILENCE {
            return;
        }
        self.turns += 1;
        self.silent = 0;
        for (mut client, bytes) in self.held.drain(..) {
            // The client may be gone.
            let _ = client.write_all(&bytes);
        }
    }
}

fn without_checksums() -> Options {
    Options {
        checksum: ChecksumPolicy::Off,
        ..options()
    }
}

/// The greeting; USER; PASS; FEAT and TYPE; OPTS UTF8; SIZE, MDTM and EPSV; RETR.
#[test]
fn a_file_is_asked_for_after_six_round_trips() {
    let server = Running::start();
    server.write("x", noise(100_000));
    let path = Path::begin();
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("x");
    get(path.to(server.address), "x", &target, without_checksums()).unwrap();
    assert_eq!((path.turn_of("EPSV"), path.turn_of("RETR")), (5, 6));
}

/// Three files of this size, fetched by one worker; the path, and the turn of the first RETR.
fn three_of(size: usize) -> (Path, usize) {
    let server = Running::start();
    fs::create_dir(server.path("d")).unwrap();
    for name in ["d/a", "d/b", "d/c"] {
        server.write(name, noise(size));
    }
    let path = Path::begin();
    let here = tempfile::tempdir().unwrap();
    let mut from = connection(path.to(server.address), "d", options());
    let tree = tree::remote(&mut from, b"d", here.path()).unwrap();
    let jobs = tree.files.into_iter().map(Job::Get).collect();
    let outcome = batch::run(from, jobs, NonZeroUsize::MIN).unwrap();
    assert_eq!((outcome.verified, outcome.failures), (3, vec![]));
    for name in ["a", "b", "c"] {
        assert!(fs::read(here.path().join(name)).unwrap() == noise(size));
    }
    let listed = path.turn_of("MLSD");
    assert_eq!(path.heard_in(listed), ["MLSD d", "EPSV"]);
    let begin = path.turn_of("RETR");
    (path, begin)
}

/// With each file come its checksum and all that the next one needs.
#[test]
fn further_files_are_asked_for_with_the_one_before() {
    let (path, begin) = three_of((256 << 10) + 1);
    let heard = [begin, begin + 1, begin + 2].map(|turn| path.heard_in(turn));
    assert_eq!(
        heard[0],
        ["RETR d/a", "HASH d/a", "SIZE d/b", "MDTM d/b", "EPSV"]
    );
    assert_eq!(
        heard[1],
        ["RETR d/b", "HASH d/b", "SIZE d/c", "MDTM d/c", "EPSV"]
    );
    assert_eq!(heard[2][..2], ["RETR d/c", "HASH d/c"]);
}

/// With the first goes all that the others need.
#[test]
fn small_files_are_asked_for_together() {
    for size in [0, 1_000, 256 << 10] {
        let (path, begin) = three_of(size);
        let heard = path.heard_in(begin);
        let files = [
            "RETR d/a", "HASH d/a", "RETR d/b", "HASH d/b", "RETR d/c", "HASH d/c",
        ];
        assert_eq!(heard[..2], ["MODE B", "EPSV"]);
        assert_eq!(heard[2..8], files);
        assert_eq!(heard[8..], ["MODE S"]);
        assert_eq!(path.turn_of("MLSD"), begin - 1);
    }
}

/// After each file, which bears its name only when its checksum is known, goes all that the next one needs. From one STOR to
/// the next are three round trips of the control connection, and that of the data connection's handshake.
#[test]
fn further_files_are_stored_in_four_round_trips() {
    let server = Running::start();
    let path = Path::begin();
    let here = tempfile::tempdir().unwrap();
    let job = |name: &str| {
        let source = here.path().join(name);
        fs::write(&source, name.repeat(3)).unwrap();
        Job::Put(Storage {
            source,
            remote: name.into(),
            present: None,
        })
    };
    let jobs = ["a", "b", "c"].map(job).into();
    let to = connection(path.to(server.address), "", options());
    let outcome = batch::run(to, jobs, NonZeroUsize::MIN).unwrap();
    assert_eq!((outcome.verified, outcome.failures), (3, vec![]));
    for name in ["a", "b", "c"] {
        assert_eq!(server.read(name), name.repeat(3).as_bytes());
    }
    let begin = path.turn_of("STOR");
    assert_eq!(path.heard_in(begin - 1), ["SIZE .a.part", "EPSV"]);
    let stored = |name: &str| {
        let commands = ["ALLO 3", "STOR", "SIZE", "HASH"];
        let end = format!(" .{name}.part");
        commands.map(|command| match command {
            "ALLO 3" => command.to_owned(),
            command => format!("{command}{end}"),
        })
    };
    for (number, name) in ["a", "b", "c"].iter().enumerate() {
        let turn = begin + 3 * number;
        assert_eq!(path.heard_in(turn), stored(name));
        assert_eq!(path.heard_in(turn + 1), [""; 0]);
        let heard = path.heard_in(turn + 2);
        assert!(heard[0].starts_with("MFMT ") && heard[0].ends_with(&format!(" .{name}.part")));
        let renamed = [format!("RNFR .{name}.part"), format!("RNTO {name}")];
        assert_eq!(heard[1..3], renamed);
        let next = ["SIZE .b.part", "SIZE .c.part"].get(number);
        match next {
            Some(next) => assert_eq!(heard[3..], [*next, "EPSV"]),
            None => assert_eq!(heard.len(), 3),
        }
    }
}

/// As for a download from both servers at once, but with ALLO before EPSV and EPRT after it. There is one round trip
/// more from EPSV to RETR than for a client, which opens the data connection itself in that time; here the
/// server connects after RETR.
#[test]
fn a_file_goes_between_servers_after_nine_round_trips() {
    let (a, b) = (open_to_others(), open_to_others());
    a.write("x", noise(100_000));
    let path = Path::begin();
    let mut from = connection(path.to(a.address), "x", without_checksums());
    let mut to = connection(path.to(b.address), "y", without_checksums());
    third_party(&mut from, &mut to, 0).unwrap();
    assert!(b.read("y") == a.read("x"));
    let turns = ["USER", "ALLO", "EPSV", "EPRT", "STOR", "RETR"].map(|verb| path.turn_of(verb));
    assert_eq!(turns, [1, 6, 7, 8, 9, 9]);
}
