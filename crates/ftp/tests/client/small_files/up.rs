//! The same up: many small files through one data connection.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fairwind_ftp::assembly::{ClientSetup, client_extensions};
use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::{
    ChecksumPolicy, ClientError, Connection, DataMode, Kept, Options, Outcome, RateLimit, Storage,
};
use fairwind_ftp::server::Config;
use fairwind_transfer::Buffer;

use super::super::{connection, names, options};
use super::between::{Between, Line, Verdict};
use super::broken::{Stop, soon};
use super::{LARGEST, Sum, all, assert_equal, fill, workers};
use crate::common::{Running, noise};

/// The jobs that bring all files below a directory to the user's.
fn jobs(to: &mut Connection, here: &Path) -> Vec<Job> {
    let mut jobs = Vec::new();
    for name in all(here).into_keys() {
        let remote = name.to_str().unwrap().as_bytes().to_vec();
        if let Some(above) = name.parent() {
            let above = above.to_str().unwrap().as_bytes();
            to.with(|session| session.make_directories(above)).unwrap();
        }
        jobs.push(Job::Put(Storage {
            source: here.join(&name),
            remote,
            present: None,
        }));
    }
    jobs
}

fn try_send(
    address: SocketAddr,
    here: &Path,
    count: usize,
    options: Options,
) -> Result<Outcome, ClientError> {
    let mut to = connection(address, "", options);
    let jobs = jobs(&mut to, here);
    batch::run(to, jobs, workers(count))
}

/// Brings all files below a directory to alice's; checks that all is there.
#[track_caller]
fn goes(
    server: &Running,
    address: SocketAddr,
    here: &Path,
    count: usize,
    options: Options,
) -> Outcome {
    let outcome = try_send(address, here, count, options).unwrap();
    assert_eq!(outcome.failures, []);
    assert_equal(here, server.dir.path());
    outcome
}

#[test]
fn thousands_go_whole_over_a_data_connection_for_each_worker() {
    let here = tempfile::tempdir().unwrap();
    let large = fill(here.path(), 3_000);
    for count in [1, 8] {
        let server = Running::start();
        let between = Between::to(server.address);
        // Once to an empty place, once over what is there.
        for round in 1..=2 {
            let outcome = goes(&server, between.address, here.path(), count, options());
            assert_eq!((outcome.files, outcome.verified), (3_007, 3_007));
            assert_eq!((outcome.skipped, outcome.retries), (0, 0));
            let bytes: usize = all(here.path()).values().map(Vec::len).sum();
            assert_eq!(outcome.bytes, bytes as u64);
            let shared = between.commands("MODE B");
            assert!((1..=round * count).contains(&shared), "{shared}");
            assert_eq!(between.commands("MODE S"), shared);
            assert_eq!(between.replies("150"), shared + round * large);
            assert_eq!(between.replies("125") + shared, round * 3_004);
            assert_eq!(between.commands("STOR"), round * 3_007);
        }
    }
}

#[test]
fn what_is_told_of_each_file_is_of_that_file() {
    let here = tempfile::tempdir().unwrap();
    fill(here.path(), 100);
    let server = Running::start();
    let sum = Arc::new(Sum::default());
    let telling = Options {
        progress: sum.clone(),
        ..options()
    };
    let outcome = goes(&server, server.address, here.path(), 2, telling);
    let bytes: usize = all(here.path()).values().map(Vec::len).sum();
    assert_eq!(*sum.expected.lock().unwrap(), bytes as u64);
    assert_eq!(sum.at.lock().unwrap().values().sum::<u64>(), bytes as u64);
    for file in &outcome.transfers {
        let (source, there) = (Path::new(&file.source), &file.destination);
        let name = source.strip_prefix(here.path()).unwrap().to_str().unwrap();
        assert!(there.ends_with(&name.replace(' ', "%20")), "{there}");
        let size = fs::metadata(source).unwrap().len();
        assert_eq!((file.size, file.bytes), (size, size));
        assert!(
            file.seconds > 0.0 && file.seconds <= outcome.seconds,
            "{file:?}"
        );
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

fn asks(verb: &str, line: &Line) -> bool {
    matches!(line, Line::Command(line) if line.starts_with(verb))
}

fn says(code: &str, line: &Line) -> bool {
    matches!(line, Line::Reply(line) if line.starts_with(code))
}

#[test]
fn all_go_though_the_session_breaks_again_and_again() {
    let here = tempfile::tempdir().unwrap();
    fill(here.path(), 80);
    for (is_kind, period, count) in [
        ((|line| says("125 ", line)) as fn(&Line) -> bool, 3, 1),
        (|line| says("213 SHA-256", line), 5, 1),
        (|line| says("213 Modify", line), 7, 1),
        (|line| says("350 ", line), 20, 4),
        (|line| asks("STOR", line), 30, 2),
        (|line| asks("HASH", line), 30, 1),
        (|line| asks("RNTO", line), 11, 4),
    ] {
        let server = Running::start();
        let between = cutting(&server, period, is_kind);
        let outcome = try_send(between.address, here.path(), count, soon()).unwrap();
        assert_eq!(outcome.failures, []);
        assert_eq!((outcome.files, outcome.verified), (87, 87), "{period}");
        // What a session that broke had still to store waits to be resumed.
        for name in all(server.dir.path()).into_keys() {
            if name.to_str().unwrap().ends_with(".fairwind-part") {
                fs::remove_file(server.dir.path().join(name)).unwrap();
            }
        }
        assert_equal(here.path(), server.dir.path());
        let logins = between.commands("USER");
        assert!(logins > count, "{logins}");
        assert!(between.commands("STOR") <= 87 + 65 * logins);
    }
}

#[test]
fn what_is_refused_fails_by_itself() {
    let here = tempfile::tempdir().unwrap();
    for number in 0..60 {
        fs::write(
            here.path().join(format!("f{number:02}")),
            noise(number * 50),
        )
        .unwrap();
    }
    for count in [1, 3] {
        let server = Running::start();
        // In the place of the unfinished file, and in that of the file.
        fs::create_dir(server.path(".f10.part")).unwrap();
        fs::create_dir(server.path(".f11.part")).unwrap();
        fs::create_dir_all(server.path("f40/x")).unwrap();
        let between = Between::to(server.address);
        let outcome = try_send(between.address, here.path(), count, soon()).unwrap();
        let mut failed: Vec<_> = outcome
            .failures
            .iter()
            .map(|it| &it.source[it.source.len() - 3..])
            .collect();
        failed.sort_unstable();
        assert_eq!(failed, ["f10", "f11", "f40"]);
        assert_eq!((outcome.files, outcome.verified), (57, 57));
        for number in (0..60).filter(|number| ![10, 11, 40].contains(number)) {
            assert!(server.read(&format!("f{number:02}")) == noise(number * 50));
        }
        assert!(between.commands("MODE B") >= 2);
    }
}

#[test]
fn a_quota_that_is_reached_lets_those_before_it_be() {
    let here = tempfile::tempdir().unwrap();
    for number in 0..60 {
        fs::write(here.path().join(format!("f{number:02}")), noise(10_000)).unwrap();
    }
    let server = Running::with(|config| config.users[0].quota_bytes = 305_000);
    let outcome = try_send(server.address, here.path(), 1, soon()).unwrap();
    assert_eq!(outcome.files + outcome.failures.len(), 60);
    assert!((25..=30).contains(&outcome.files), "{}", outcome.files);
    let whole = names(server.dir.path());
    let whole = whole.iter().filter(|name| !name.starts_with('.'));
    assert_eq!(whole.clone().count(), outcome.files);
    for name in whole {
        assert!(server.read(name) == noise(10_000), "{name}");
    }
}

#[test]
fn a_file_that_changes_on_its_way_is_sent_as_it_is_then() {
    let here = tempfile::tempdir().unwrap();
    fill(here.path(), 80);
    let server = Running::start();
    let changed = here.path().join("a/f4");
    let first = AtomicUsize::new(0);
    let between = {
        let changed = changed.clone();
        Between::judging(server.address, move |line| {
            let is_it = says("213 SHA-256", line)
                && matches!(line, Line::Reply(line) if line.ends_with("/.f4.part"));
            if is_it && first.fetch_add(1, Ordering::Relaxed) == 0 {
                fs::write(&changed, "now it is another").unwrap();
            }
            Verdict::Passes
        })
    };
    let outcome = goes(&server, between.address, here.path(), 1, options());
    assert_eq!(outcome.files, 87);
    assert_eq!(server.read("a/f4"), b"now it is another");
}

#[test]
fn what_cannot_be_read_fails_by_itself() {
    let here = tempfile::tempdir().unwrap();
    fill(here.path(), 40);
    let server = Running::start();
    let mut to = connection(server.address, "", options());
    let jobs = jobs(&mut to, here.path());
    fs::remove_file(here.path().join("f3")).unwrap();
    let unreadable = here.path().join("f7");
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o000)).unwrap();
    let is_read = fs::read(&unreadable).is_ok();
    let outcome = batch::run(to, jobs, workers(2)).unwrap();
    assert_eq!(outcome.failures.len(), if is_read { 1 } else { 2 });
    assert_eq!(outcome.files + outcome.failures.len(), 47);
}

#[test]
fn what_earlier_attempts_have_left_is_no_part_of_it() {
    let here = tempfile::tempdir().unwrap();
    fill(here.path(), 40);
    let server = Running::start();
    server.write(".f3.part", "something else");
    server.write(".f7.part", noise(LARGEST));
    server.write("f11", "an older one");
    let outcome = try_send(server.address, here.path(), 1, options()).unwrap();
    assert_eq!((outcome.files, outcome.verified), (47, 47));
    assert_equal(here.path(), server.dir.path());
}

#[test]
fn they_keep_to_the_limit_and_checksums_may_be_off() {
    let here = tempfile::tempdir().unwrap();
    for number in 0..400 {
        fs::write(here.path().join(format!("f{number}")), noise(1_000)).unwrap();
    }
    for (checksum, verified) in [(ChecksumPolicy::Off, 0), (ChecksumPolicy::Required, 400)] {
        let server = Running::start();
        let between = Between::to(server.address);
        let limited = Options {
            limit: Some(RateLimit::new(400_000.try_into().unwrap())),
            checksum,
            ..options()
        };
        let begin = Instant::now();
        let outcome = goes(&server, between.address, here.path(), 2, limited);
        assert!(begin.elapsed() >= Duration::from_millis(800));
        assert_eq!(outcome.verified, verified);
        assert_eq!(
            (between.commands("HASH"), between.commands("SIZE")),
            (verified, 400 - verified)
        );
        assert!(between.commands("MODE B") >= 1);
    }
}

/// Whether files share a data connection.
fn are_shared(change: impl FnOnce(&mut Config), options: Options) -> bool {
    let here = tempfile::tempdir().unwrap();
    fill(here.path(), 20);
    let server = Running::with(change);
    let between = Between::to(server.address);
    goes(&server, between.address, here.path(), 2, options);
    between.commands("MODE B") > 0
}

#[test]
fn what_is_for_each_data_connection_has_one_for_each_file() {
    let extensions = client_extensions(&ClientSetup {
        drs: true,
        advisor: None,
        allow_nocc: Vec::new(),
        buffer: Buffer::Auto,
        background: true,
    });
    assert!(are_shared(|_| {}, options()));
    for options in [
        Options {
            extensions: extensions.unwrap(),
            ..options()
        },
        Options {
            mode: DataMode::Active,
            ..options()
        },
        // A file that is written in its place would lose the one before.
        Options {
            in_place: true,
            ..options()
        },
    ] {
        assert!(!are_shared(|_| {}, options));
    }
}

#[test]
fn who_stops_leaves_whole_files_only_and_goes_on_later() {
    let here = tempfile::tempdir().unwrap();
    fill(here.path(), 200);
    let sent = all(here.path());
    for (count, after) in [(1, 1), (1, 100_000), (4, 400_000), (4, 900_000)] {
        let server = Running::start();
        let stopping = Options {
            progress: Stop::after(after),
            ..soon()
        };
        let error = try_send(server.address, here.path(), count, stopping).unwrap_err();
        assert!(matches!(error, ClientError::Stopped), "{error}");
        for (path, bytes) in all(server.dir.path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(name.starts_with('.') || sent[&path] == bytes, "{name}");
        }
        goes(&server, server.address, here.path(), count, options());
    }
}

#[test]
fn a_session_that_is_kept_moves_other_things_afterwards() {
    let here = tempfile::tempdir().unwrap();
    fill(here.path(), 50);
    let server = Running::start();
    let kept = Kept::default();
    let keeping = || Options {
        kept: Some(kept.clone()),
        ..options()
    };
    let between = Between::to(server.address);
    goes(&server, between.address, here.path(), 1, keeping());
    let mut next = connection(between.address, "", keeping());
    assert!(!next.with(|session| session.list(b"d")).unwrap().is_empty());
    next.close();
    let target = here.path().join("x");
    super::super::get(between.address, "h2", &target, keeping()).unwrap();
    assert!(fs::read(&target).unwrap() == server.read("h2"));
    assert_eq!(between.commands("USER"), 1);
    kept.end();
}
