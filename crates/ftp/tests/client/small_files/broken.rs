//! Connections that break between files, and users who stop.

use std::fs;
use std::io::{PipeReader, PipeWriter};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairwind_ftp::client::batch;
use fairwind_ftp::client::{
    ChecksumPolicy, ClientError, Kept, Options, Outcome, Progress, RateLimit,
};
use fairwind_ftp::server::Config;

use super::super::{connection, options};
use super::between::{Between, Line, Verdict};
use super::fake::{Answer, Fake, File};
use super::{all, assert_equal, fetch, fill, jobs, workers};
use crate::common::{Running, noise};

fn soon() -> Options {
    Options {
        patience: Duration::from_secs(2),
        pause: Duration::from_millis(1),
        ..options()
    }
}

/// A way on which each so many-th line of this kind cuts its session off.
fn cutting(server: &Running, period: usize, is_kind: fn(&Line) -> bool) -> Between {
    let count = AtomicUsize::new(0);
    Between::judging(server.address, move |line| {
        let is_due = is_kind(line) && count.fetch_add(1, Ordering::Relaxed) % period == period - 1;
        if is_due {
            Verdict::Cut
        } else {
            Verdict::Passes
        }
    })
}

fn is_end(line: &Line) -> bool {
    matches!(line, Line::Reply(reply) if reply.starts_with("250 ") || reply.starts_with("226 "))
}

fn is_opening(line: &Line) -> bool {
    matches!(line, Line::Reply(reply) if reply.starts_with("125 "))
}

fn is_checksum(line: &Line) -> bool {
    matches!(line, Line::Reply(reply) if reply.starts_with("213 SHA-256"))
}

#[test]
fn all_come_though_the_session_breaks_again_and_again() {
    let server = Running::start();
    fill(server.dir.path(), 40);
    for (is_kind, period, count) in [
        // A listing is one of them, and may be tried five times.
        (is_end as fn(&Line) -> bool, 3, 1),
        (is_end, 11, 4),
        (is_opening, 1, 1),
        (is_opening, 7, 4),
        (is_checksum, 2, 1),
        (is_checksum, 30, 1),
    ] {
        let here = tempfile::tempdir().unwrap();
        let between = cutting(&server, period, is_kind);
        let outcome = fetch(between.address, here.path(), count, soon());
        assert_eq!(outcome.failures, [], "{period}");
        assert_eq!((outcome.files, outcome.verified), (47, 47), "{period}");
        assert_equal(server.dir.path(), here.path());
        let logins = between.commands("USER");
        assert!(logins > count, "{logins}");
        // Each break asks for 64 files once more, and for one of them by itself.
        assert!(between.commands("RETR") <= 47 + 65 * logins);
    }
}

/// A server that closes what is idle for a second, and 120 files of 1 kB at `limit`, bytes/s.
fn idle(limit: u64, change: impl FnOnce(&mut Config)) -> (Outcome, Between) {
    let server = Running::with(change);
    for number in 0..120 {
        server.write(&format!("f{number:03}"), noise(1_000));
    }
    let limited = Options {
        limit: Some(RateLimit::new(NonZeroU64::new(limit).unwrap())),
        ..soon()
    };
    let between = Between::to(server.address);
    let here = tempfile::tempdir().unwrap();
    let outcome = fetch(between.address, here.path(), 1, limited);
    assert_equal(server.dir.path(), here.path());
    (outcome, between)
}

#[test]
fn a_server_that_closes_what_is_idle_is_gone_on_with() {
    let (outcome, between) = idle(30_000, |config| config.limits.connect_s = 1);
    assert_eq!((outcome.files, outcome.failures), (120, vec![]));
    let shared = between.commands("MODE B");
    assert!((2..=8).contains(&shared), "{shared}");
    // All but one for each connection shared it with others.
    let come = between.replies("250") - shared;
    assert!(come + 10 >= 120, "{come}");
    // Half of the files that are asked for at a time take two seconds, after which the next are asked for.
    let (outcome, between) = idle(15_000, |config| config.limits.idle_s = 1);
    assert_eq!((outcome.files, outcome.failures), (120, vec![]));
    // On a busy machine the session is idle for a second more often.
    assert!(between.commands("MODE B") >= 2);
}

/// Stops when so many bytes in all have been told of.
struct Stop {
    after: u64,
    bytes: AtomicUsize,
    is_asked: AtomicBool,
}

impl Stop {
    fn after(after: u64) -> Arc<Self> {
        Arc::new(Self {
            after,
            bytes: AtomicUsize::new(0),
            is_asked: AtomicBool::new(false),
        })
    }
}

impl Progress for Stop {
    fn reaches(&self, _: usize, at: u64) {
        let before = self.bytes.fetch_add(at as usize, Ordering::Relaxed) as u64;
        if before + at >= self.after {
            self.is_asked.store(true, Ordering::Relaxed);
        }
    }

    fn stopped(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }
}

fn stopped_fetch(
    address: std::net::SocketAddr,
    here: &Path,
    count: usize,
    options: Options,
) -> Result<Outcome, ClientError> {
    let mut from = connection(address, "", options);
    let jobs = jobs(&mut from, here);
    batch::run(from, jobs, workers(count))
}

#[test]
fn who_stops_has_whole_files_only_and_goes_on_later() {
    let server = Running::start();
    fill(server.dir.path(), 200);
    let there = all(server.dir.path());
    for count in [1, 4] {
        for after in [1, 1_000, 100_000, 400_000, 900_000] {
            let here = tempfile::tempdir().unwrap();
            let stopping = Options {
                progress: Stop::after(after),
                ..soon()
            };
            let begin = Instant::now();
            let error = stopped_fetch(server.address, here.path(), count, stopping).unwrap_err();
            assert!(matches!(error, ClientError::Stopped), "{error}");
            assert!(begin.elapsed() < Duration::from_secs(5));
            for (path, bytes) in all(here.path()) {
                let name = path.file_name().unwrap().to_str().unwrap();
                match name.starts_with('.') {
                    true => assert!(!bytes.is_empty(), "{name} is of no use"),
                    false => assert!(there[&path] == bytes, "{name}"),
                }
            }
            let outcome = fetch(server.address, here.path(), count, options());
            assert_eq!(outcome.failures, []);
            assert_equal(server.dir.path(), here.path());
        }
    }
}

fn some(count: usize) -> Vec<File> {
    let file = |number| File {
        name: format!("f{number:02}"),
        listed: 1_000,
        content: vec![b'a' + number as u8; 1_000],
    };
    (0..count).map(file).collect()
}

/// Asked to stop when the test says so.
struct Flag {
    is_asked: AtomicBool,
    asked: PipeReader,
    asks: Mutex<Option<PipeWriter>>,
}

impl Flag {
    fn new() -> Arc<Self> {
        let (asked, asks) = std::io::pipe().unwrap();
        Arc::new(Self {
            is_asked: AtomicBool::new(false),
            asked,
            asks: Mutex::new(Some(asks)),
        })
    }

    fn stop(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
        self.asks.lock().unwrap().take();
    }
}

impl Progress for Flag {
    fn stopped(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    fn stop_signal(&self) -> Option<BorrowedFd<'_>> {
        Some(self.asked.as_fd())
    }
}

/// Asks for ten files, and to stop when the server takes its time for the one of this number. Nothing comes of the one before
/// if that is the fifth.
fn stopped_at(number: usize, kept: Option<Kept>, here: &Path) -> Fake {
    let flag = Flag::new();
    let stop = Arc::clone(&flag);
    let server = Fake::start(some(10), move |asked, answer| {
        let answer = match asked.in_blocks && asked.before == 3 && number == 4 {
            true => Answer {
                data: Vec::new(),
                ending: String::new(),
                ..answer
            },
            false => answer,
        };
        if asked.in_blocks && asked.before == number {
            std::thread::sleep(Duration::from_millis(300));
            stop.stop();
            std::thread::sleep(Duration::from_secs(1));
        }
        answer
    });
    let stopping = Options {
        progress: flag,
        kept,
        ..soon()
    };
    let error = stopped_fetch(server.address, here, 1, stopping).unwrap_err();
    assert!(matches!(error, ClientError::Stopped), "{error}");
    server
}

#[test]
fn a_session_in_which_files_are_under_way_is_not_kept() {
    let (kept, here) = (Kept::default(), tempfile::tempdir().unwrap());
    let server = stopped_at(3, Some(kept.clone()), here.path());
    let options = Options {
        kept: Some(kept.clone()),
        retries: 0,
        ..soon()
    };
    let mut next = connection(server.address, "", options);
    let listed = next.with(|session| session.list(b"")).unwrap();
    assert_eq!(listed.len(), 10);
    assert_eq!(server.count("USER"), 2);
}

#[test]
fn nothing_is_left_of_a_file_of_which_nothing_has_come() {
    let here = tempfile::tempdir().unwrap();
    stopped_at(4, None, here.path());
    let names = super::super::names(here.path());
    assert_eq!(names, ["f00", "f01", "f02"]);
}

/// As each file by itself: its data connection is part of it.
#[test]
fn the_time_of_the_first_begins_with_the_first_command() {
    let server = Running::start();
    for name in ["a", "b", "c"] {
        server.write(name, name);
    }
    let between = Between::judging(server.address, |line| {
        if matches!(line, Line::Reply(reply) if reply.starts_with("229")) {
            std::thread::sleep(Duration::from_millis(400));
        }
        Verdict::Passes
    });
    let here = tempfile::tempdir().unwrap();
    let outcome = fetch(between.address, here.path(), 1, options());
    let seconds: Vec<f64> = outcome.transfers.iter().map(|file| file.seconds).collect();
    assert!(seconds[0] >= 0.4 && outcome.seconds >= 0.4, "{seconds:?}");
    let sum: f64 = seconds.iter().sum();
    assert!(sum <= outcome.seconds, "{seconds:?} in {}", outcome.seconds);
}

#[test]
fn a_connection_that_was_closed_for_its_slow_reader_is_opened_again_for_the_rest() {
    // As a server does that has waited too long for the next command.
    let server = Fake::start(some(90), |asked, answer| Answer {
        closes: !asked.in_blocks || asked.before == 70,
        ..answer
    });
    let here = tempfile::tempdir().unwrap();
    let options = Options {
        checksum: ChecksumPolicy::Off,
        ..soon()
    };
    let outcome = fetch(server.address, here.path(), 1, options);
    assert_eq!((outcome.files, outcome.failures), (90, vec![]));
    assert_eq!(server.shared_connections(), 2);
    for number in 0..90 {
        let bytes = fs::read(here.path().join(format!("f{number:02}"))).unwrap();
        assert!(bytes == vec![b'a' + number; 1_000]);
    }
}
