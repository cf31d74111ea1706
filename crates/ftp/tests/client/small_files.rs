//! Many small files through one data connection, from this project's server and from others that announce the same and do
//! not keep to it.

mod between;
mod broken;
mod changed;
mod fake;
mod here;
mod hostile;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairwind_ftp::assembly::{ClientSetup, client_extensions};
use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::{
    ChecksumPolicy, Connection, DataMode, Kept, Options, Outcome, Progress, RateLimit, Retrieval,
    Route, Verification, tree,
};
use fairwind_testing::proxy::Proxy;
use fairwind_transfer::Buffer;

use super::{connection, is_verified, names, options, over_ipv6};
use crate::common::{Running, noise};
use between::Between;

const LARGEST: usize = 256 << 10;

fn workers(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

/// The jobs that bring all files below the user's directory here.
fn jobs(from: &mut Connection, here: &Path) -> Vec<Job> {
    let tree = tree::remote(from, b"", here).unwrap();
    assert_eq!(tree.refused, Vec::<String>::new());
    for directory in &tree.directories {
        fs::create_dir_all(directory).unwrap();
    }
    tree.files.into_iter().map(Job::Get).collect()
}

/// Brings all files below alice's directory here.
fn fetch(address: SocketAddr, here: &Path, count: usize, options: Options) -> Outcome {
    let mut from = connection(address, "", options);
    let jobs = jobs(&mut from, here);
    batch::run(from, jobs, workers(count)).unwrap()
}

/// All files below a directory, by their paths.
fn all(below: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut open) = (BTreeMap::new(), vec![below.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let name = path.strip_prefix(below).unwrap().to_owned();
                    files.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    files
}

/// Both directories have the same files with the same times.
#[track_caller]
fn assert_equal(there: &Path, here: &Path) {
    let (there_all, here_all) = (all(there), all(here));
    let names = |all: &BTreeMap<PathBuf, Vec<u8>>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&here_all), names(&there_all));
    for (name, bytes) in &there_all {
        assert!(here_all[name] == *bytes, "{}", name.display());
        let seconds = |below: &Path| {
            let time = fs::metadata(below.join(name)).unwrap().modified().unwrap();
            time.duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_secs()
        };
        assert_eq!(seconds(here), seconds(there), "{}", name.display());
    }
}

/// So many files of some bytes each in three directories, and some about as large as the largest that share a data
/// connection; the number of the others.
fn fill(there: &Path, small: usize) -> usize {
    let bytes = noise(3_000_000);
    for directory in ["a", "a/b c", "d"] {
        fs::create_dir_all(there.join(directory)).unwrap();
    }
    for number in 0..small {
        let directory = ["a", "a/b c", "d", ""][number % 4];
        let size = [0, 1, 100, 5_000][number / 4 % 4];
        let path = there.join(directory).join(format!("f{number}"));
        fs::write(path, &bytes[number..number + size]).unwrap();
    }
    for (number, size) in [LARGEST - 1, LARGEST, LARGEST, 200_000].iter().enumerate() {
        fs::write(there.join(format!("a/g{number}")), &bytes[..*size]).unwrap();
    }
    for (number, size) in [LARGEST + 1, LARGEST + 1, 3_000_000].iter().enumerate() {
        fs::write(there.join(format!("h{number}")), &bytes[..*size]).unwrap();
    }
    3
}

/// Brings a tree here; checks that all is there, and how many data connections were shared and were not.
#[track_caller]
fn comes(server: &Running, address: SocketAddr, count: usize, options: Options) -> Outcome {
    let here = tempfile::tempdir().unwrap();
    let outcome = fetch(address, here.path(), count, options);
    assert_eq!(outcome.failures, []);
    assert_equal(server.dir.path(), here.path());
    outcome
}

#[test]
fn thousands_come_whole_over_a_data_connection_for_each_worker() {
    let server = Running::start();
    let large = fill(server.dir.path(), 3_000);
    for count in [1, 8] {
        let between = Between::to(server.address);
        let outcome = comes(&server, between.address, count, options());
        assert_eq!((outcome.files, outcome.verified), (3_007, 3_007));
        assert_eq!((outcome.skipped, outcome.retries), (0, 0));
        let bytes: usize = all(server.dir.path()).values().map(Vec::len).sum();
        assert_eq!(outcome.bytes, bytes as u64);
        let shared = between.commands("MODE B");
        assert!((1..=count).contains(&shared), "{shared}");
        assert_eq!(between.commands("MODE S"), shared);
        // The server opens one for each listing and each larger file besides.
        assert_eq!(between.replies("150"), shared + large + 4);
        assert_eq!(between.replies("125"), 3_004 - shared);
        assert!(between.commands("USER") <= count);
        assert_eq!(between.commands("RETR"), 3_007, "none was asked for twice");
    }
}

#[test]
fn what_is_told_of_each_file_is_of_that_file() {
    let server = Running::start();
    fill(server.dir.path(), 100);
    let outcome = comes(&server, server.address, 1, options());
    assert_eq!(outcome.transfers.len(), 107);
    for file in &outcome.transfers {
        let here = Path::new(&file.destination);
        let name = file.source.rsplit('/').next().unwrap();
        assert_eq!(here.file_name().unwrap(), name);
        let path = &file.source[format!("ftp://{}/", server.address).len()..];
        let there = server.read(&path.replace("%20", " "));
        assert_eq!((file.size, file.bytes), (there.len() as u64, file.size));
        assert_eq!((file.resumed_at, file.skipped), (0, false));
        let Verification::Verified(checksum) = &file.checksum else {
            panic!("{file:?}");
        };
        let mut hasher = fairwind_ftp::protocol::digest::Algorithm::Sha256.start();
        hasher.update(&there);
        assert_eq!(checksum.value, hasher.finish());
        assert!(
            file.seconds > 0.0 && file.seconds <= outcome.seconds,
            "{file:?}"
        );
        assert!(file.mbps > 0.0 || file.bytes == 0);
    }
    // One worker moves one after the other.
    let sum: f64 = outcome.transfers.iter().map(|file| file.seconds).sum();
    assert!(sum <= outcome.seconds, "{sum} of {}", outcome.seconds);
}

/// Sums what is told of progress.
#[derive(Default)]
struct Sum {
    expected: Mutex<u64>,
    at: Mutex<BTreeMap<usize, u64>>,
}

impl Progress for Sum {
    fn expect(&self, bytes: u64) {
        *self.expected.lock().unwrap() += bytes;
    }

    fn begins(&self, file: usize, at: u64) {
        self.at.lock().unwrap().insert(file, at);
    }

    fn reaches(&self, file: usize, at: u64) {
        let before = self.at.lock().unwrap().insert(file, at);
        assert!(before.is_some_and(|before| before <= at), "{file}: {at}");
    }
}

#[test]
fn what_is_told_of_progress_sums_to_the_whole() {
    let server = Running::start();
    fill(server.dir.path(), 300);
    let bytes: usize = all(server.dir.path()).values().map(Vec::len).sum();
    for count in [1, 8] {
        let sum = Arc::new(Sum::default());
        let telling = Options {
            progress: sum.clone(),
            ..options()
        };
        let outcome = comes(&server, server.address, count, telling);
        assert_eq!(*sum.expected.lock().unwrap(), bytes as u64);
        let at = sum.at.lock().unwrap();
        assert_eq!(at.values().sum::<u64>(), bytes as u64);
        assert_eq!(at.len(), outcome.files);
    }
}

#[test]
fn they_come_over_ipv6_and_through_proxies() {
    if let Some(server) = over_ipv6() {
        fill(server.dir.path(), 100);
        let between = Between::to(server.address);
        comes(&server, between.address, 2, options());
        assert!(between.commands("MODE B") >= 1);
    }
    let server = Running::start();
    let large = fill(server.dir.path(), 100);
    for scheme in ["socks5", "socks5h", "http"] {
        let proxy = Proxy::start();
        let url = format!("{scheme}://anna:pass%3Aword@{}", proxy.address);
        let through = Options {
            route: Route {
                through: url.parse().unwrap(),
                ..Route::default()
            },
            ..options()
        };
        comes(&server, server.address, 1, through);
        // Control, four listings, and the one that is shared.
        assert_eq!(proxy.connections(), 1 + 4 + 1 + large, "{scheme}");
    }
}

#[test]
fn all_keep_to_the_limit_together() {
    let server = Running::start();
    for number in 0..400 {
        server.write(&format!("f{number}"), noise(1_000));
    }
    for count in [1, 4] {
        let limited = Options {
            limit: Some(RateLimit::new(NonZeroU64::new(400_000).unwrap())),
            ..options()
        };
        let begin = Instant::now();
        let between = Between::to(server.address);
        comes(&server, between.address, count, limited);
        assert!(between.commands("MODE B") >= 1);
        // A second, less what may be made up for.
        assert!(begin.elapsed() >= Duration::from_millis(800));
    }
}

#[test]
fn checksums_may_be_off_or_required() {
    let server = Running::start();
    fill(server.dir.path(), 100);
    for (checksum, verified) in [(ChecksumPolicy::Off, 0), (ChecksumPolicy::Required, 107)] {
        let between = Between::to(server.address);
        let options = Options {
            checksum,
            ..options()
        };
        let outcome = comes(&server, between.address, 2, options);
        assert_eq!(outcome.verified, verified);
        assert!(between.commands("MODE B") >= 1);
        assert_eq!(between.commands("HASH"), verified);
    }
}

#[test]
fn ranges_are_for_larger_files() {
    let server = Running::start();
    fill(server.dir.path(), 100);
    let between = Between::to(server.address);
    let options = Options {
        ranges: workers(3),
        ..options()
    };
    comes(&server, between.address, 2, options);
    assert!(between.commands("MODE B") >= 1);
    assert!(between.replies("125") >= 100);
}

/// Whether files share a data connection.
fn are_shared(options: Options) -> bool {
    let server = Running::start();
    fill(server.dir.path(), 20);
    let between = Between::to(server.address);
    comes(&server, between.address, 2, options);
    between.commands("MODE B") > 0
}

#[test]
fn what_is_for_each_data_connection_has_one_for_each_file() {
    let with = |drs, background, advisor| Options {
        extensions: client_extensions(&ClientSetup {
            drs,
            advisor,
            allow_nocc: Vec::new(),
            buffer: Buffer::Auto,
            background,
        })
        .unwrap(),
        ..options()
    };
    assert!(are_shared(with(true, false, None)), "right-sizing alone");
    assert!(!are_shared(with(true, true, None)), "in the background");
    let advisor = "http://127.0.0.1:1".to_owned();
    assert!(!are_shared(with(true, false, Some(advisor))), "advised");
    assert!(!are_shared(Options {
        mode: DataMode::Active,
        ..options()
    }));
}

/// Names that are sent as they are, and some that are not.
const NAMES: [&[u8]; 14] = [
    b" begins and ends ",
    b"two  spaces",
    b"\"quoted\"",
    b"it's",
    b"100%",
    b"%41",
    b"back\\slash",
    b"-r",
    b"*?[a]",
    b"ta\tb",
    "na\u{ef}ve \u{1f600}".as_bytes(),
    b"not utf-8 \xe9\xfe",
    b"255 \xff",
    b"255 twice \xff\xff",
];

#[test]
fn names_of_all_sorts_come_to_their_places() {
    let server = Running::start();
    fs::create_dir(server.path("d")).unwrap();
    let long = [b'x'; 255];
    for name in NAMES.iter().copied().chain([&long[..]]) {
        for below in ["", "d"] {
            let path = server.path(below).join(OsStr::from_bytes(name));
            fs::write(path, [below.as_bytes(), name].concat()).unwrap();
        }
    }
    for count in [1, 3] {
        let between = Between::to(server.address);
        let outcome = comes(&server, between.address, count, options());
        assert_eq!(outcome.verified, 30);
        // All but those with the byte 255.
        assert!(between.replies("125") + between.commands("MODE B") == 26);
    }
}

/// CR and LF are no part of any name in a listing; they may be in the path above it.
#[test]
fn a_name_with_the_end_of_a_line_fails_by_itself() {
    let server = Running::start();
    for name in ["a", "b", "c"] {
        server.write(name, name);
    }
    let here = tempfile::tempdir().unwrap();
    let mut from = connection(server.address, "", options());
    let mut jobs = jobs(&mut from, here.path());
    for (number, name) in [b"a\nDELE a".as_slice(), b"b\r\nDELE b"].iter().enumerate() {
        let Job::Get(before) = jobs[0].clone() else {
            unreachable!();
        };
        jobs.insert(
            number,
            Job::Get(Retrieval {
                remote: name.to_vec(),
                target: here.path().join(format!("x{number}")),
                ..before
            }),
        );
    }
    let outcome = batch::run(from, jobs, workers(1)).unwrap();
    assert_eq!((outcome.files, outcome.failures.len()), (3, 2));
    assert_eq!(names(here.path()), ["a", "b", "c"]);
    assert_eq!(names(server.dir.path()), ["a", "b", "c"]);
}

#[test]
fn what_is_there_already_is_not_asked_for() {
    let server = Running::start();
    fill(server.dir.path(), 100);
    let here = tempfile::tempdir().unwrap();
    let first = fetch(server.address, here.path(), 2, options());
    assert_eq!((first.files, first.skipped), (107, 0));
    // Of the same size, and of the same time.
    fs::write(here.path().join("f3"), "").unwrap();
    fs::write(here.path().join("f19"), "?").unwrap();
    let time = fs::metadata(server.path("f35"))
        .unwrap()
        .modified()
        .unwrap();
    fs::write(here.path().join("f35"), "other").unwrap();
    let mut opening = fs::File::options();
    let file = opening.write(true).open(here.path().join("f35"));
    file.unwrap().set_modified(time).unwrap();
    let sum = Arc::new(Sum::default());
    let between = Between::to(server.address);
    let telling = Options {
        progress: sum.clone(),
        ..options()
    };
    let again = fetch(between.address, here.path(), 1, telling);
    assert_eq!(again.failures, []);
    assert_equal(server.dir.path(), here.path());
    let asked = between.commands("RETR");
    assert_eq!((again.files, again.skipped), (107, 107 - asked));
    // The one of no bytes may have been written within the same second.
    assert!((2..=3).contains(&asked), "{asked}");
    let bytes: usize = all(server.dir.path()).values().map(Vec::len).sum();
    assert_eq!(sum.at.lock().unwrap().values().sum::<u64>(), bytes as u64);
}

#[test]
fn a_session_that_is_kept_moves_other_things_afterwards() {
    let server = Running::start();
    fill(server.dir.path(), 100);
    let between = Between::to(server.address);
    let kept = Kept::default();
    let keeping = || Options {
        kept: Some(kept.clone()),
        ..options()
    };
    for _ in 0..2 {
        comes(&server, between.address, 1, keeping());
        let mut next = connection(between.address, "", keeping());
        let listed = next.with(|session| session.list(b"d")).unwrap();
        assert_eq!(listed.len(), 25);
        next.close();
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("x");
        let got = super::get(between.address, "h2", &target, keeping()).unwrap();
        assert!(is_verified(&got) && fs::read(&target).unwrap() == server.read("h2"));
        super::put(between.address, &target, "put", keeping()).unwrap();
        assert!(server.read("put") == server.read("h2"));
        fs::remove_file(server.path("put")).unwrap();
    }
    assert_eq!(between.commands("USER"), 1);
    assert_eq!(
        (between.commands("MODE B"), between.commands("MODE S")),
        (2, 2)
    );
    kept.end();
}

#[test]
fn one_file_alone_has_nothing_to_share_with() {
    let server = Running::start();
    server.write("x", "abc");
    let between = Between::to(server.address);
    comes(&server, between.address, 8, options());
    assert_eq!(between.commands("MODE B"), 0);
    assert_eq!(between.commands("USER"), 1);
}
