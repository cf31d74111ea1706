//! What is in the way here.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use fairwind_ftp::client::{Options, Outcome};
use rustix::fs::{FlockOperation, XattrFlags, flock, fsetxattr};

use super::super::wrong::{leave, small_room};
use super::super::{names, options};
use super::between::Between;
use super::{LARGEST, all, assert_equal, fetch};
use crate::common::{Running, noise};

/// A server of twelve files of different bytes.
fn serving() -> Running {
    let server = Running::start();
    let bytes = noise(20_000);
    for number in 0..12 {
        server.write(&format!("f{number:02}"), &bytes[number..5_000 + number]);
    }
    server
}

fn failed(outcome: &Outcome) -> Vec<&str> {
    let failures = outcome.failures.iter();
    let mut failed: Vec<&str> = failures
        .map(|failed| failed.source.rsplit('/').next().unwrap())
        .collect();
    failed.sort_unstable();
    failed
}

#[test]
fn what_cannot_be_put_in_its_place_fails_by_itself() {
    let server = serving();
    let here = tempfile::tempdir().unwrap();
    let at = |name: &str| here.path().join(name);
    fs::create_dir(at("f00")).unwrap();
    fs::create_dir(at(".f03.part")).unwrap();
    symlink("nowhere/x", at("f05")).unwrap();
    symlink("f07", at("f07")).unwrap();
    fs::write(at("precious"), "p").unwrap();
    symlink("precious", at(".f09.part")).unwrap();
    // Another transfer is at it.
    let busy = File::create(at(".f11.part")).unwrap();
    flock(&busy, FlockOperation::NonBlockingLockExclusive).unwrap();
    let between = Between::to(server.address);
    let outcome = fetch(between.address, here.path(), 1, options());
    assert_eq!(failed(&outcome), ["f00", "f03", "f05", "f07", "f09", "f11"]);
    assert_eq!(outcome.files, 6);
    for name in ["f01", "f02", "f04", "f06", "f08", "f10"] {
        assert!(fs::read(at(name)).unwrap() == server.read(name), "{name}");
    }
    assert_eq!(fs::read(at("precious")).unwrap(), b"p");
    assert!(!at("f09").exists() && !at("f11").exists());
    assert_eq!(fs::metadata(at(".f11.part")).unwrap().len(), 0);
}

#[test]
fn links_are_followed_and_permissions_are_kept() {
    let server = serving();
    let here = tempfile::tempdir().unwrap();
    let at = |name: &str| here.path().join(name);
    fs::create_dir(at("elsewhere")).unwrap();
    fs::write(at("elsewhere/x"), "old").unwrap();
    symlink("elsewhere/x", at("f00")).unwrap();
    symlink("elsewhere/new", at("f01")).unwrap();
    fs::write(at("f02"), "old").unwrap();
    fs::set_permissions(at("f02"), Permissions::from_mode(0o600)).unwrap();
    let outcome = fetch(server.address, here.path(), 1, options());
    assert_eq!(outcome.failures, []);
    for (link, place) in [("f00", "elsewhere/x"), ("f01", "elsewhere/new")] {
        assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink());
        assert!(fs::read(at(place)).unwrap() == server.read(link));
    }
    assert_eq!(
        fs::metadata(at("f02")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(fs::read(at("f02")).unwrap() == server.read("f02"));
}

/// What an earlier transfer has noted beside its bytes.
fn note_origin(part: &Path, there: &Path) {
    let facts = fs::metadata(there).unwrap();
    let time = facts.modified().unwrap();
    let seconds = time
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let time = jiff::Timestamp::from_second(seconds as i64).unwrap();
    let note = format!("{} bytes of {time}", facts.len());
    let file = File::options().write(true).open(part).unwrap();
    let flags = XattrFlags::empty();
    // Not every file system has them.
    let _ = fsetxattr(&file, "user.fairwind.origin", note.as_bytes(), flags);
}

#[test]
fn what_an_earlier_transfer_left_does_no_harm() {
    let server = serving();
    let here = tempfile::tempdir().unwrap();
    let part = |name: &str| here.path().join(format!(".{name}.part"));
    fs::write(part("f00"), "of another file").unwrap();
    fs::write(part("f01"), "of another file").unwrap();
    note_origin(&part("f01"), &server.path("f01"));
    fs::write(part("f02"), &server.read("f02")[..3_000]).unwrap();
    note_origin(&part("f02"), &server.path("f02"));
    fs::write(part("f03"), server.read("f03")).unwrap();
    fs::write(part("f04"), noise(400_000)).unwrap();
    for resume in [true, false] {
        let options = Options {
            resume,
            ..options()
        };
        let outcome = fetch(server.address, here.path(), 1, options);
        assert_eq!(
            (outcome.failures, outcome.skipped),
            (vec![], if resume { 0 } else { 12 })
        );
        assert_equal(server.dir.path(), here.path());
    }
}

#[test]
fn names_that_are_one_file_here_fail_together() {
    let server = serving();
    fs::create_dir(server.path("f12")).unwrap();
    server.write("f12/x", "one");
    fs::create_dir(server.path("f13")).unwrap();
    server.write("f13/x", "two");
    let here = tempfile::tempdir().unwrap();
    // As on a file system for which both names are equal.
    fs::create_dir(here.path().join("f12")).unwrap();
    symlink("f12", here.path().join("f13")).unwrap();
    let outcome = fetch(server.address, here.path(), 1, options());
    assert_eq!((outcome.files, outcome.failures.len()), (13, 1));
    assert!(
        outcome.failures[0].error.contains("would be the same file"),
        "{:?}",
        outcome.failures
    );
    let kept = fs::read(here.path().join("f12/x")).unwrap();
    let failed = failed_directory(&outcome);
    assert_eq!(kept, if failed == "f13" { b"one" } else { b"two" });
}

fn failed_directory(outcome: &Outcome) -> &str {
    outcome.failures[0].source.rsplit('/').nth(1).unwrap()
}

#[test]
fn a_disk_that_is_full_here_has_the_files_that_fit() {
    let Some(room) = small_room("2m") else {
        return;
    };
    let server = Running::start();
    let bytes = noise(LARGEST);
    for number in 0..20 {
        server.write(&format!("f{number:02}"), &bytes[number..]);
    }
    let between = Between::to(server.address);
    let outcome = fetch(between.address, room.path(), 1, options());
    let logins = between.commands("USER");
    let (come, left) = (outcome.files, names(room.path()));
    let are_right = all(room.path()).iter().all(|(name, bytes)| {
        let name = name.to_str().unwrap();
        name.starts_with('.') || *bytes == server.read(name)
    });
    let more = Command::new("mount")
        .args(["-o", "remount,size=16m"])
        .arg(room.path())
        .status();
    let again = fetch(between.address, room.path(), 1, options());
    let is_equal = all(room.path()) == all(server.dir.path());
    leave(room);
    assert!(more.unwrap().success());
    assert!((5..=8).contains(&come), "{come}: {left:?}");
    assert_eq!(come + outcome.failures.len(), 20);
    for failure in &outcome.failures {
        assert!(
            failure.error.contains("No space left on device"),
            "{failure:?}"
        );
    }
    assert!(are_right, "{left:?}");
    // One for each failure, as without a shared connection.
    assert!(logins <= outcome.failures.len() + 3, "{logins}");
    assert_eq!((again.failures, again.skipped), (vec![], come));
    assert!(is_equal);
}

#[test]
fn a_file_system_that_may_only_be_read_is_told_of_each_file() {
    let Some(room) = small_room("1m") else {
        return;
    };
    let only_read = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(room.path())
        .status();
    let server = serving();
    let between = Between::to(server.address);
    let outcome = fetch(between.address, room.path(), 1, options());
    let left = names(room.path());
    leave(room);
    assert!(only_read.unwrap().success());
    assert_eq!((outcome.files, outcome.failures.len()), (0, 12));
    for failure in &outcome.failures {
        assert!(
            failure.error.contains("Read-only file system"),
            "{failure:?}"
        );
    }
    assert_eq!(left, [""; 0]);
}
