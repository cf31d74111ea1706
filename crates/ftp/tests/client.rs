//! The client against this project's server: downloads, uploads and transfers between servers, resumed and
//! verified.
//!
//! Faults are triggered from the client's progress reports, so that they occur at a known byte.

mod again;
mod broken;
mod capricious;
mod copies;
mod every_server;
mod manage;
mod mirror;
mod names;
pub(crate) mod others;
mod places;
pub(crate) mod proftpd;
mod ranges;
mod renames;
mod routes;
mod scripted;
mod small_files;
mod turns;
mod wrong;

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::{
    ChecksumPolicy, ClientError, Connection, Credentials, DataMode, FileReport, Kind, Options,
    Place, Progress, Retrieval, Storage, Verification, third_party, tree,
};

use crate::common::{Running, noise, permitted};

/// Runs an action when a transfer first reaches a byte.
struct At {
    byte: u64,
    done: AtomicBool,
    act: Box<dyn Fn() + Send + Sync>,
}

impl At {
    fn byte(byte: u64, act: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            byte,
            done: AtomicBool::new(false),
            act: Box::new(act),
        })
    }
}

impl Progress for At {
    fn reaches(&self, _: usize, at: u64) {
        if at >= self.byte && !self.done.swap(true, Ordering::Relaxed) {
            (self.act)();
        }
    }
}

/// Options with short timeouts.
fn options() -> Options {
    Options {
        patience: Duration::from_secs(10),
        pause: Duration::from_millis(50),
        ..Options::default()
    }
}

fn place(address: SocketAddr, path: &str) -> Place {
    format!("ftp://{address}/{path}").parse().unwrap()
}

fn alice() -> Credentials {
    Credentials {
        user: "alice".into(),
        password: "secret".into(),
    }
}

fn connection(address: SocketAddr, path: &str, options: Options) -> Connection {
    Connection::new(place(address, path), alice(), options)
}

fn get(
    address: SocketAddr,
    path: &str,
    target: &Path,
    options: Options,
) -> Result<FileReport, ClientError> {
    let retrieval = Retrieval {
        remote: path.into(),
        target: target.to_owned(),
        listed: None,
    };
    retrieval.run(&mut connection(address, path, options), 0)
}

fn put(
    address: SocketAddr,
    source: &Path,
    path: &str,
    options: Options,
) -> Result<FileReport, ClientError> {
    let storage = Storage {
        source: source.to_owned(),
        remote: path.into(),
        present: None,
    };
    storage.run(&mut connection(address, path, options), 0)
}

fn is_verified(report: &FileReport) -> bool {
    matches!(&report.checksum, Verification::Verified(checksum) if checksum.algorithm == "SHA-256")
}

/// Names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_comes_and_goes_in_all_ways_to_connect() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let bytes = noise(3_000_001);
    server.write("x", &bytes);
    let mut modes = vec![];
    for mode in [DataMode::Passive, DataMode::Active] {
        let options = || Options { mode, ..options() };
        let target = here.path().join("x");
        let got = get(server.address, "x", &target, options()).unwrap();
        assert_eq!(fs::read(&target).unwrap(), bytes);
        assert_eq!(
            (got.bytes, got.size, got.resumed_at),
            (3_000_001, 3_000_001, 0)
        );
        assert!(is_verified(&got), "{:?}", got.checksum);
        assert!(got.mbps > 0.0 && got.min_rtt_ms.is_some() && got.out_of_order.is_some());
        let sent = put(server.address, &target, "y", options()).unwrap();
        assert_eq!(server.read("y"), bytes);
        assert_eq!(sent.bytes, 3_000_001);
        assert!(sent.retransmits.is_some() && got.retransmits.is_none());
        assert!(is_verified(&sent), "{:?}", sent.checksum);
        modes.push(got.checksum == sent.checksum);
    }
    assert_eq!(modes, [true, true]);
    assert_eq!(names(here.path()), ["x"]);
    assert_eq!(names(server.dir.path()), ["x", "y"]);
}

/// A server at an IPv6 address; `None` if the machine has no IPv6.
fn over_ipv6() -> Option<Running> {
    let there = std::net::TcpListener::bind("[::1]:0").is_ok();
    permitted("IPv6", there).then(|| {
        Running::with(|config| {
            config.listen = "[::1]:0".parse().unwrap();
            config.foreign_peers.push("::1/128".parse().unwrap());
        })
    })
}

#[test]
fn files_come_and_go_over_ipv6_in_both_ways_to_connect() {
    let Some(server) = over_ipv6() else {
        return;
    };
    let here = tempfile::tempdir().unwrap();
    let bytes = noise(3_000_001);
    server.write("x", &bytes);
    let target = here.path().join("x");
    for mode in [DataMode::Passive, DataMode::Active] {
        let options = || Options { mode, ..options() };
        let got = get(server.address, "x", &target, options()).unwrap();
        assert_eq!(fs::read(&target).unwrap(), bytes);
        assert_eq!((got.bytes, is_verified(&got)), (3_000_001, true));
        put(server.address, &target, "y", options()).unwrap();
        assert_eq!(server.read("y"), bytes);
    }
}

#[test]
fn a_file_goes_from_server_to_server_over_ipv6() {
    let (Some(a), Some(b)) = (over_ipv6(), over_ipv6()) else {
        return;
    };
    a.write("x", noise(3_000_000));
    let mut from = connection(a.address, "x", options());
    let mut to = connection(b.address, "y", options());
    let report = third_party(&mut from, &mut to, 0).unwrap();
    assert!(is_verified(&report), "{:?}", report.checksum);
    assert!(b.read("y") == a.read("x"));
}

#[test]
fn an_empty_file_is_a_file() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    server.write("x", b"");
    let target = here.path().join("x");
    assert!(is_verified(
        &get(server.address, "x", &target, options()).unwrap()
    ));
    assert!(is_verified(
        &put(server.address, &target, "y", options()).unwrap()
    ));
    assert_eq!(server.read("y"), b"");
}

#[test]
fn times_of_files_go_with_them() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    server.write("x", b"abc");
    let file = fs::File::options()
        .write(true)
        .open(server.path("x"))
        .unwrap();
    let then = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(then).unwrap();
    let target = here.path().join("x");
    get(server.address, "x", &target, options()).unwrap();
    assert_eq!(fs::metadata(&target).unwrap().modified().unwrap(), then);
    put(server.address, &target, "y", options()).unwrap();
    assert_eq!(
        fs::metadata(server.path("y")).unwrap().modified().unwrap(),
        then
    );
}

#[test]
fn what_an_earlier_transfer_left_is_continued() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let bytes = noise(2_000_000);
    server.write("x", &bytes);
    fs::write(here.path().join(".x.part"), &bytes[..1_500_000]).unwrap();
    let target = here.path().join("x");
    let got = get(server.address, "x", &target, options()).unwrap();
    assert_eq!((got.resumed_at, got.bytes), (1_500_000, 500_000));
    assert_eq!(fs::read(&target).unwrap(), bytes);
    server.write(".y.part", &bytes[..700_000]);
    let sent = put(server.address, &target, "y", options()).unwrap();
    assert_eq!((sent.resumed_at, sent.bytes), (700_000, 1_300_000));
    assert_eq!(server.read("y"), bytes);
    assert!(is_verified(&got) && is_verified(&sent));
}

#[test]
fn what_is_left_of_another_file_is_found_out_by_its_checksum() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let bytes = noise(2_000_000);
    server.write("x", &bytes);
    fs::write(here.path().join(".x.part"), vec![7; 1_000_000]).unwrap();
    let target = here.path().join("x");
    let got = get(server.address, "x", &target, options()).unwrap();
    assert_eq!(fs::read(&target).unwrap(), bytes);
    assert_eq!(got.bytes, 3_000_000, "the rest, then all of it");
    server.write(".y.part", vec![7; 1_000_000]);
    let sent = put(server.address, &target, "y", options()).unwrap();
    assert_eq!(server.read("y"), bytes);
    assert_eq!(sent.bytes, 3_000_000);
    assert!(is_verified(&got) && is_verified(&sent));
}

#[test]
fn nothing_is_continued_if_that_is_not_wanted() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    server.write("x", noise(1_000_000));
    fs::write(here.path().join(".x.part"), &noise(1_000_000)[..400_000]).unwrap();
    let anew = Options {
        resume: false,
        checksum: ChecksumPolicy::Off,
        ..options()
    };
    let got = get(server.address, "x", &here.path().join("x"), anew).unwrap();
    assert_eq!((got.resumed_at, got.bytes), (0, 1_000_000));
    assert_eq!(got.checksum, Verification::Off);
}

#[test]
fn a_directory_goes_there_and_back_with_all_that_is_in_it() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let tree_here = here.path().join("tree");
    fs::create_dir_all(tree_here.join("a/b c")).unwrap();
    for (name, size) in [("one", 10), ("a/two", 300_000), ("a/b c/th ree", 0)] {
        fs::write(tree_here.join(name), noise(size)).unwrap();
    }
    let found = tree::local(&tree_here, b"tree").unwrap();
    let mut to = connection(server.address, "", options());
    for directory in &found.directories {
        to.with(|session| session.make_directories(directory))
            .unwrap();
    }
    let jobs = found.files.into_iter().map(Job::Put).collect();
    let put = batch::run(to, jobs, NonZeroUsize::new(3).unwrap()).unwrap();
    assert_eq!((put.files, put.verified, put.bytes), (3, 3, 300_010));
    assert_eq!(put.failures, []);

    let back = here.path().join("back");
    let mut from = connection(server.address, "", options());
    let found = tree::remote(&mut from, b"tree", &back).unwrap();
    for directory in &found.directories {
        fs::create_dir(directory).unwrap();
    }
    let jobs: Vec<Job> = found.files.into_iter().map(Job::Get).collect();
    let got = batch::run(from, jobs.clone(), NonZeroUsize::new(2).unwrap()).unwrap();
    assert_eq!((got.files, got.verified, got.skipped), (3, 3, 0));
    for name in ["one", "a/two", "a/b c/th ree"] {
        assert_eq!(
            fs::read(back.join(name)).unwrap(),
            fs::read(tree_here.join(name)).unwrap()
        );
    }
    let again = connection(server.address, "", options());
    let again = batch::run(again, jobs, NonZeroUsize::MIN).unwrap();
    assert_eq!((again.files, again.skipped, again.bytes), (3, 3, 0));
}

#[test]
fn a_listing_tells_kinds_sizes_and_times() {
    let server = Running::start();
    fs::create_dir(server.path("d")).unwrap();
    server.write("x", b"abc");
    let entries = connection(server.address, "", options())
        .with(|session| session.list(b""))
        .unwrap();
    let told: Vec<_> = entries
        .iter()
        .map(|entry| (entry.name.as_slice(), entry.kind, entry.modified.is_some()))
        .collect();
    assert_eq!(
        told,
        [(&b"d"[..], Kind::Directory, true), (b"x", Kind::File, true)]
    );
    assert_eq!(entries[1].size, Some(3));
}

/// A server that allows data connections with any address of this host.
fn open_to_others() -> Running {
    Running::with(|config| config.foreign_peers.push("127.0.0.0/8".parse().unwrap()))
}

#[test]
fn a_file_goes_from_server_to_server() {
    let (a, b) = (open_to_others(), open_to_others());
    let bytes = noise(3_000_000);
    a.write("x", &bytes);
    b.write(".y.part", &bytes[..1_000_000]);
    let mut from = connection(a.address, "x", options());
    let mut to = connection(b.address, "y", options());
    let report = third_party(&mut from, &mut to, 0).unwrap();
    assert_eq!(b.read("y"), bytes);
    assert_eq!(
        (report.resumed_at, report.bytes, report.size),
        (1_000_000, 2_000_000, 3_000_000)
    );
    assert!(is_verified(&report), "{:?}", report.checksum);
    assert_eq!(names(b.dir.path()), ["y"]);
}

#[test]
fn what_each_server_says_of_a_third_party_is_told() {
    let (a, b) = (open_to_others(), open_to_others());
    a.write("x", noise(1_000_000));
    let mut from = connection(a.address, "x", options());
    let mut to = connection(b.address, "none/y", options());
    let error = third_party(&mut from, &mut to, 0).unwrap_err().to_string();
    assert!(
        error.contains(&format!("{} said 550", b.address)),
        "{error}"
    );
    assert!(error.contains(&format!("{} said", a.address)), "{error}");
    let mut from = connection(a.address, "none", options());
    let mut to = connection(b.address, "y", options());
    let error = third_party(&mut from, &mut to, 0).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{} refused SIZE none: 550", a.address)),
        "{error}"
    );
    assert_eq!(names(b.dir.path()), Vec::<String>::new());
}

#[test]
fn servers_that_connect_to_no_stranger_are_both_told_of() {
    let refusing = || {
        scripted::Scripted::start(scripted::Script {
            replies: vec![
                ("PORT", "500 Illegal PORT command.\r\n"),
                ("ALLO", "202 No need\r\n"),
            ],
            ..scripted::Script::default()
        })
    };
    let (a, b) = (refusing(), refusing());
    let mut from = connection(a.address, "x", options());
    let mut to = connection(b.address, "y", options());
    let error = third_party(&mut from, &mut to, 0).unwrap_err().to_string();
    assert!(
        error.starts_with("neither server connects to the other: "),
        "{error}"
    );
    for server in [&a, &b] {
        assert!(
            error.contains(&format!("{} refused PORT", server.address)),
            "{error}"
        );
        assert!(server.has_heard("PASV"));
    }
}
