//! Files that are already there are not transferred again, for every server.

use std::fs;
use std::time::{Duration, SystemTime};

use fairwind_ftp::client::batch::Job;
use fairwind_ftp::client::{Entry, Outcome, Storage, tree};

use super::every_server::{Peer, every};

const NAMES: [&str; 3] = ["x", ".hidden", "with blank"];

fn list(peer: &Peer) -> Vec<Entry> {
    let mut connection = peer.connection();
    let root = peer.path(b"");
    let entries = connection.with(|session| session.list(&root)).unwrap();
    connection.close();
    entries
}

fn summary(outcome: &Outcome) -> (usize, usize, u64, usize) {
    let failures = outcome.failures.len();
    (outcome.files, outcome.skipped, outcome.bytes, failures)
}

#[test]
fn what_has_been_fetched_is_not_fetched_again() {
    for peer in every() {
        let back = tempfile::tempdir().unwrap();
        for name in NAMES {
            fs::write(peer.there.join(name), "abc").unwrap();
        }
        let fetch = || {
            let mut connection = peer.connection();
            let found = tree::remote(&mut connection, &peer.path(b""), back.path()).unwrap();
            connection.close();
            peer.run(found.files.into_iter().map(Job::Get).collect())
        };
        assert_eq!(summary(&fetch()), (3, 0, 9, 0), "{}", peer.name);
        assert_eq!(summary(&fetch()), (3, 3, 0, 0), "{}", peer.name);
        // A different file of the same size.
        let changed = fs::File::options()
            .write(true)
            .open(peer.there.join("x"))
            .unwrap();
        changed
            .set_modified(SystemTime::now() + Duration::from_secs(100))
            .unwrap();
        assert_eq!(summary(&fetch()), (3, 2, 3, 0), "{}", peer.name);
    }
}

#[test]
fn what_has_been_stored_is_not_stored_again() {
    for peer in every() {
        let here = tempfile::tempdir().unwrap();
        for name in NAMES {
            let path = here.path().join(name);
            fs::write(&path, "abc").unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            let before = SystemTime::now() - Duration::from_secs(5_000);
            file.set_modified(before).unwrap();
        }
        let store = || {
            let there = list(&peer);
            let jobs = NAMES.iter().map(|name| {
                let name = name.as_bytes();
                Job::Put(Storage {
                    source: here.path().join(std::str::from_utf8(name).unwrap()),
                    remote: peer.path(name),
                    present: there.iter().find(|entry| entry.name == name).cloned(),
                })
            });
            peer.run(jobs.collect())
        };
        assert_eq!(summary(&store()), (3, 0, 9, 0), "{}", peer.name);
        assert_eq!(summary(&store()), (3, 3, 0, 0), "{}", peer.name);
        let newer = fs::File::options()
            .write(true)
            .open(here.path().join("x"))
            .unwrap();
        newer
            .set_modified(SystemTime::now() + Duration::from_secs(100))
            .unwrap();
        assert_eq!(summary(&store()), (3, 2, 3, 0), "{}", peer.name);
    }
}

#[test]
fn a_missing_directory_is_an_error() {
    for peer in every() {
        for name in [&b"none"[..], b"none/", b"-none", b"n*ne"] {
            let path = peer.path(name);
            let mut connection = peer.connection();
            let error = connection.with(|session| session.list(&path)).unwrap_err();
            assert!(
                error.to_string().contains("refused"),
                "{}: {error}",
                peer.name
            );
            connection.close();
        }
    }
}

#[test]
fn a_directory_is_listed_though_its_name_looks_like_a_pattern_or_an_option() {
    for peer in every() {
        for name in ["-la", "a*", "[ab]", "a b"] {
            fs::create_dir(peer.there.join(name)).unwrap();
            fs::write(peer.there.join(name).join("x"), "abc").unwrap();
            let path = peer.path(name.as_bytes());
            let mut connection = peer.connection();
            let entries = connection.with(|session| session.list(&path)).unwrap();
            let names: Vec<String> = entries.iter().map(Entry::text).collect();
            assert_eq!(names, ["x"], "{}: {name}", peer.name);
            connection.close();
        }
        fs::create_dir(peer.there.join("empty")).unwrap();
        let path = peer.path(b"empty");
        let mut connection = peer.connection();
        let entries = connection.with(|session| session.list(&path)).unwrap();
        assert_eq!(entries, [], "{}", peer.name);
    }
}

#[test]
fn directories_are_made_as_far_as_they_are_not_there() {
    for peer in every() {
        let mut connection = peer.connection();
        let path = peer.path(b"a/b/c");
        for _ in 0..2 {
            connection
                .with(|session| session.make_directories(&path))
                .unwrap();
        }
        assert!(peer.there.join("a/b/c").is_dir(), "{}", peer.name);
    }
}
