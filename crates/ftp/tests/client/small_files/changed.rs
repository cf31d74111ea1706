//! Files that are no longer what the listing said when they are asked for.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Once;

use fairwind_ftp::client::{ChecksumPolicy, Options, Outcome};

use super::super::{names, options};
use super::between::{Between, Line, Verdict};
use super::{assert_equal, fetch};
use crate::common::Running;

/// A way to a server on which this is done before the first file is asked for.
fn changing(address: SocketAddr, change: impl Fn() + Send + Sync + 'static) -> Between {
    let once = Once::new();
    Between::judging(address, move |line| {
        if matches!(line, Line::Command(command) if command.starts_with("RETR")) {
            once.call_once(&change);
        }
        Verdict::Passes
    })
}

/// What comes of eight files that are changed between listing and transfer.
fn of_changed(
    change: impl Fn(&Path) + Send + Sync + 'static,
    options: Options,
    here: &Path,
) -> (Running, Outcome, Between) {
    let server = Running::start();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        server.write(name, name.repeat(1_000));
    }
    let there = server.dir.path().to_owned();
    let between = changing(server.address, move || change(&there));
    let outcome = fetch(between.address, here, 1, options);
    (server, outcome, between)
}

#[test]
fn what_has_gone_is_told_and_the_others_come() {
    let here = tempfile::tempdir().unwrap();
    let remove = |there: &Path| {
        for name in ["a", "d", "h"] {
            fs::remove_file(there.join(name)).unwrap();
        }
        fs::create_dir(there.join("d")).unwrap();
        symlink("/etc/hostname", there.join("h")).unwrap();
    };
    let (_server, outcome, between) = of_changed(remove, options(), here.path());
    assert_eq!((outcome.files, outcome.failures.len()), (5, 3));
    for failure in &outcome.failures {
        assert!(failure.error.contains("550"), "{}", failure.error);
    }
    assert_eq!(names(here.path()), ["b", "c", "e", "f", "g"]);
    assert_eq!(between.commands("USER"), 1, "the session goes on");
}

#[test]
fn what_has_another_size_comes_as_it_is_now() {
    for checksum in [ChecksumPolicy::Offered, ChecksumPolicy::Off] {
        let here = tempfile::tempdir().unwrap();
        let options = Options {
            checksum,
            ..options()
        };
        let change = |there: &Path| {
            for (name, size) in [("a", 0), ("c", 999), ("e", 1_001), ("h", 2_000_000)] {
                fs::write(there.join(name), vec![b'z'; size]).unwrap();
            }
        };
        let (server, outcome, _) = of_changed(change, options, here.path());
        assert_eq!((outcome.files, outcome.failures), (8, vec![]));
        assert_equal(server.dir.path(), here.path());
    }
}

#[test]
fn what_has_other_bytes_of_the_same_size_is_verified_as_it_is_now() {
    let here = tempfile::tempdir().unwrap();
    let change = |there: &Path| {
        for name in ["a", "d", "h"] {
            fs::write(there.join(name), "Z".repeat(1_000)).unwrap();
        }
    };
    let (server, outcome, _) = of_changed(change, options(), here.path());
    assert_eq!((outcome.files, outcome.verified), (8, 8));
    for name in ["a", "d", "h"] {
        assert!(fs::read(here.path().join(name)).unwrap() == server.read(name));
    }
    // If they were given the times of the files before, the next run will see it.
    let again = fetch(server.address, here.path(), 1, options());
    assert_eq!(again.failures, []);
    assert_equal(server.dir.path(), here.path());
}

#[test]
fn what_is_written_all_the_time_comes_whole_or_not_at_all() {
    let server = Running::start();
    let (there, here) = (server.dir.path().to_owned(), tempfile::tempdir().unwrap());
    for number in 0..100 {
        server.write(&format!("f{number}"), vec![b'0'; 20_000]);
    }
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_done = std::sync::Arc::clone(&done);
    let writer = std::thread::spawn(move || {
        let mut digits = (b'0'..=b'9').cycle();
        while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
            let digit = digits.next().unwrap();
            for number in 0..100 {
                let name = there.join("new");
                fs::write(&name, vec![digit; 20_000]).unwrap();
                fs::rename(&name, there.join(format!("f{number}"))).unwrap();
            }
        }
    });
    let outcome = fetch(server.address, here.path(), 2, options());
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
    for name in names(here.path()) {
        // One that differed from its checksum twice may be left for later.
        if name.starts_with('f') {
            let bytes = fs::read(here.path().join(&name)).unwrap();
            assert!(bytes.len() == 20_000 && bytes.iter().all(|byte| *byte == bytes[0]));
        }
    }
    assert!(outcome.files + outcome.failures.len() >= 100);
    for failure in &outcome.failures {
        assert!(
            !here
                .path()
                .join(failure.source.rsplit('/').next().unwrap())
                .exists()
        );
    }
}
