//! One file in several ranges at the same time.

use std::fs;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use fairwind_ftp::client::{ChecksumPolicy, DataMode, Options, Progress, Verification};

use super::broken::pyftpd;
use super::every_server::every;
use super::scripted::{Script, Scripted};
use super::{copies, get, is_verified, names, options};
use crate::common::{Running, noise};

fn in_ranges(count: usize) -> Options {
    Options {
        ranges: NonZeroUsize::new(count).unwrap(),
        ..options()
    }
}

/// Asks to stop when the ranges have reached so many bytes together.
#[derive(Default)]
struct StopAt {
    bytes: u64,
    reached: AtomicU64,
    stopped: AtomicBool,
}

impl StopAt {
    fn after(bytes: u64) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

impl Progress for StopAt {
    fn reaches(&self, _: usize, _: u64) {
        // Called for every chunk of 256 KiB at most.
        let reached = self.reached.fetch_add(256 << 10, Ordering::Relaxed);
        if reached >= self.bytes {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

#[test]
fn every_server_gives_a_file_in_ranges() {
    let bytes = noise(9_000_001);
    for peer in every() {
        fs::write(peer.there.join("x"), &bytes).unwrap();
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("x");
        let retrieval = fairwind_ftp::client::Retrieval {
            remote: peer.path(b"x"),
            target: target.clone(),
            listed: None,
        };
        let got = retrieval
            .run(&mut peer.connection_with(in_ranges(4)), 0)
            .unwrap();
        assert!(fs::read(&target).unwrap() == bytes, "{}", peer.name);
        assert_eq!(
            (got.bytes, got.size),
            (9_000_001, 9_000_001),
            "{}",
            peer.name
        );
        assert_eq!(got.figures["ranges"], 4.0, "{}", peer.name);
        assert_eq!(names(here.path()), ["x"], "{}", peer.name);
        let there = fs::metadata(peer.there.join("x"))
            .unwrap()
            .modified()
            .unwrap();
        let here = fs::metadata(&target).unwrap().modified().unwrap();
        let seconds = |time: std::time::SystemTime| {
            time.duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_secs()
        };
        assert_eq!(seconds(here), seconds(there), "{}", peer.name);
    }
}

#[test]
fn all_ranges_go_on_where_they_were() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("x");
    let bytes = noise(32_000_000);
    server.write("x", &bytes);
    let stop = Arc::new(StopAt::after(8 << 20));
    let stopping = Options {
        progress: stop,
        ..in_ranges(4)
    };
    assert!(get(server.address, "x", &target, stopping).is_err());
    assert_eq!(names(here.path()), [".x.ranges"]);
    let got = get(server.address, "x", &target, in_ranges(2)).unwrap();
    assert!(got.resumed_at > 1 << 20, "{}", got.resumed_at);
    assert_eq!(got.resumed_at + got.bytes, 32_000_000);
    assert_eq!(got.figures["ranges"], 4.0);
    assert!(is_verified(&got), "{:?}", got.checksum);
    assert!(fs::read(&target).unwrap() == bytes);
    assert_eq!(names(here.path()), ["x"]);
}

/// Holds the first range back until another connection has begun with a part of it.
#[derive(Default)]
struct SlowFirst {
    begun: Mutex<bool>,
    divided: Condvar,
}

impl Progress for SlowFirst {
    fn begins(&self, part: usize, _: u64) {
        if part >> 32 >= 2 {
            *self.begun.lock().unwrap() = true;
            self.divided.notify_all();
        }
    }

    fn reaches(&self, part: usize, _: u64) {
        if part >> 32 == 0 {
            let begun = self.begun.lock().unwrap();
            let limit = Duration::from_secs(30);
            let waited = self
                .divided
                .wait_timeout_while(begun, limit, |begun| !*begun);
            assert!(*waited.unwrap().0, "nobody takes a part of the range");
        }
    }
}

#[test]
fn who_is_done_takes_half_of_the_slowest_range() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("x");
    let bytes = noise(20_000_000);
    server.write("x", &bytes);
    let slow = Arc::new(SlowFirst::default());
    let options = Options {
        progress: Arc::clone(&slow) as Arc<dyn Progress>,
        ..in_ranges(2)
    };
    let got = get(server.address, "x", &target, options).unwrap();
    assert!(*slow.begun.lock().unwrap());
    assert_eq!((got.bytes, got.size), (20_000_000, 20_000_000));
    assert!(is_verified(&got), "{:?}", got.checksum);
    assert!(fs::read(&target).unwrap() == bytes);
    assert_eq!(names(here.path()), ["x"]);
}

#[test]
fn ranges_of_a_file_that_has_changed_begin_anew() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("x");
    server.write("x", noise(32_000_000));
    let stop = Arc::new(StopAt::after(8 << 20));
    let stopping = Options {
        progress: stop,
        checksum: ChecksumPolicy::Off,
        ..in_ranges(4)
    };
    assert!(get(server.address, "x", &target, stopping).is_err());
    let bytes: Vec<u8> = noise(32_000_000).into_iter().rev().collect();
    server.write("x", &bytes);
    let when = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let file = fs::File::options()
        .write(true)
        .open(server.path("x"))
        .unwrap();
    file.set_modified(when).unwrap();
    let got = get(server.address, "x", &target, in_ranges(4)).unwrap();
    assert_eq!((got.resumed_at, got.bytes), (0, 32_000_000));
    assert!(fs::read(&target).unwrap() == bytes);
}

#[test]
fn bytes_here_that_are_wrong_are_found_and_fetched_again() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("x");
    let bytes = noise(32_000_000);
    server.write("x", &bytes);
    let stop = Arc::new(StopAt::after(8 << 20));
    let stopping = Options {
        progress: stop,
        ..in_ranges(4)
    };
    assert!(get(server.address, "x", &target, stopping).is_err());
    let partial = fs::File::options()
        .write(true)
        .open(here.path().join(".x.ranges"))
        .unwrap();
    std::os::unix::fs::FileExt::write_at(&partial, b"wrong", 0).unwrap();
    let got = get(server.address, "x", &target, in_ranges(4)).unwrap();
    assert!(is_verified(&got));
    assert!(got.bytes > 32_000_000, "it began anew: {}", got.bytes);
    assert!(fs::read(&target).unwrap() == bytes);
}

#[test]
fn a_connection_that_breaks_costs_its_range_a_retry() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(9_000_000);
    fs::write(there.path().join("x"), &bytes).unwrap();
    let Some(server) = pyftpd(there.path(), &["cut=700000"]) else {
        return;
    };
    let target = here.path().join("x");
    let got = get(server.address, "x", &target, in_ranges(3)).unwrap();
    assert_eq!(got.interruptions.len(), 1);
    assert!(fs::read(&target).unwrap() == bytes);
}

#[test]
fn a_server_that_cannot_start_in_the_middle_gives_the_whole() {
    let bytes = noise(5_000_000);
    for features in [vec![], vec!["REST STREAM"]] {
        let server = Scripted::start(Script {
            content: bytes.clone(),
            features,
            ..Script::default()
        });
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("x");
        let got = get(server.address, "x", &target, in_ranges(4)).unwrap();
        assert!(fs::read(&target).unwrap() == bytes);
        assert!(!got.figures.contains_key("ranges"));
        assert_eq!(got.checksum, Verification::NotOffered);
        assert_eq!(names(here.path()), ["x"]);
    }
}

#[test]
fn a_server_that_accepts_an_offset_and_ignores_it_gives_the_whole() {
    let bytes = noise(9_000_000);
    let server = Scripted::start(Script {
        content: bytes.clone(),
        features: vec!["REST STREAM"],
        replies: vec![("REST", "350 Yes\r\n"), ("MDTM", "213 20260101000000\r\n")],
        ..Script::default()
    });
    for count in [2, 4] {
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("x");
        let got = get(server.address, "x", &target, in_ranges(count)).unwrap();
        assert!(fs::read(&target).unwrap() == bytes);
        assert!(!got.figures.contains_key("ranges"));
        assert_eq!(names(here.path()), ["x"]);
    }
}

#[test]
fn a_range_that_is_complete_is_not_asked_for_again_when_the_reply_was_lost() {
    let file = copies::File {
        bytes: noise(9_000_000),
        modified: "20260101000000",
    };
    let server = copies::Server::start(copies::State {
        original: Some(file.clone()),
        loses_end: true,
        ..copies::State::default()
    });
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("x");
    let active = Options {
        mode: DataMode::Active,
        ..in_ranges(2)
    };
    let got = get(server.address, "x", &target, active).unwrap();
    assert!(fs::read(&target).unwrap() == file.bytes);
    assert_eq!((got.bytes, got.figures["ranges"]), (9_000_000, 2.0));
    assert!(!server.state.lock().unwrap().loses_end);
}

#[test]
fn a_file_that_is_refused_leaves_nothing() {
    let server = Scripted::start(Script {
        content: noise(5_000_000),
        features: vec!["REST STREAM"],
        replies: vec![("REST", "350 Yes\r\n"), ("RETR", "550 No\r\n")],
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let error = get(server.address, "x", &here.path().join("x"), in_ranges(4)).unwrap_err();
    assert!(error.to_string().contains("550 No"), "{error}");
    assert_eq!(names(here.path()), Vec::<String>::new());
}

#[test]
fn a_small_file_and_one_begun_as_a_whole_come_as_a_whole() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    server.write("small", noise(1_000_000));
    let got = get(
        server.address,
        "small",
        &here.path().join("small"),
        in_ranges(4),
    )
    .unwrap();
    assert!(!got.figures.contains_key("ranges"));
    let bytes = noise(9_000_000);
    server.write("x", &bytes);
    fs::write(here.path().join(".x.part"), &bytes[..1_000_000]).unwrap();
    let got = get(server.address, "x", &here.path().join("x"), in_ranges(4)).unwrap();
    assert_eq!(got.resumed_at, 1_000_000);
    assert_eq!(names(here.path()), ["small", "x"]);
}
