//! Local targets that are not regular files: links, pipes, devices.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;

use fairwind_testing::{permitted, root};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use super::every_server::own;
use super::{get, is_verified, names, options, put};
use crate::common::{Running, noise};

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn a_link_is_followed_and_stays() {
    let (server, here) = (Running::start(), tempfile::tempdir().unwrap());
    server.write("x", b"new");
    let at = |name: &str| here.path().join(name);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/file"), "old").unwrap();
    symlink("d/file", at("link")).unwrap();
    symlink("d/missing", at("dangling")).unwrap();
    for (link, file) in [("link", "d/file"), ("dangling", "d/missing")] {
        let got = get(server.address, "x", &at(link), options()).unwrap();
        assert!(is_verified(&got));
        assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink());
        assert_eq!(fs::read(at(file)).unwrap(), b"new");
    }
    assert_eq!(names(here.path()), ["d", "dangling", "link"]);
    assert_eq!(names(&at("d")), ["file", "missing"]);
}

#[test]
fn a_link_that_leads_in_a_circle_is_told() {
    let (server, here) = (Running::start(), tempfile::tempdir().unwrap());
    server.write("x", b"new");
    let link = here.path().join("x");
    symlink("x", &link).unwrap();
    let error = get(server.address, "x", &link, options()).unwrap_err();
    assert!(error.to_string().contains("symbolic links"), "{error}");
}

#[test]
fn a_pipe_gets_the_bytes_and_stays() {
    let (server, here) = (Running::start(), tempfile::tempdir().unwrap());
    let bytes = noise(3_000_000);
    server.write("x", &bytes);
    let target = here.path().join("pipe");
    pipe(&target);
    let reader = thread::spawn({
        let target = target.clone();
        move || {
            let mut read = Vec::new();
            File::open(target).unwrap().read_to_end(&mut read).unwrap();
            read
        }
    });
    let got = get(server.address, "x", &target, options()).unwrap();
    assert!(reader.join().unwrap() == bytes);
    assert!(is_verified(&got), "{:?}", got.checksum);
    assert_eq!((got.size, got.bytes), (3_000_000, 3_000_000));
    assert_eq!(names(here.path()), ["pipe"]);
    assert!(fs::metadata(&target).unwrap().file_type().is_fifo());
}

#[test]
fn a_reader_that_leaves_is_told() {
    let (server, here) = (Running::start(), tempfile::tempdir().unwrap());
    server.write("x", noise(3_000_000));
    let target = here.path().join("pipe");
    pipe(&target);
    let reader = thread::spawn({
        let target = target.clone();
        move || {
            File::open(target)
                .unwrap()
                .read_exact(&mut [0; 10])
                .unwrap()
        }
    });
    let error = get(server.address, "x", &target, options()).unwrap_err();
    reader.join().unwrap();
    assert!(error.to_string().contains("Broken pipe"), "{error}");
}

#[test]
fn a_device_is_written_to_and_stays() {
    // Only root could replace the device, so only root can test that it stays.
    if !permitted(root()) {
        return;
    }
    let (server, here) = (Running::start(), tempfile::tempdir().unwrap());
    server.write("x", b"abc");
    let link = here.path().join("null");
    symlink("/dev/null", &link).unwrap();
    for target in [Path::new("/dev/null"), &link] {
        assert!(is_verified(
            &get(server.address, "x", target, options()).unwrap()
        ));
        let facts = fs::metadata("/dev/null").unwrap();
        assert!(facts.file_type().is_char_device());
    }
    assert_eq!(names(here.path()), ["null"]);
}

#[test]
fn what_a_pipe_gives_is_stored() {
    let here = tempfile::tempdir().unwrap();
    let (server, bytes) = (Running::start(), noise(3_000_000));
    let source = here.path().join("pipe");
    pipe(&source);
    let writer = thread::spawn({
        let (source, bytes) = (source.clone(), bytes.clone());
        move || {
            let mut pipe = File::options().write(true).open(source).unwrap();
            pipe.write_all(&bytes).unwrap();
        }
    });
    let sent = put(server.address, &source, "x", options()).unwrap();
    writer.join().unwrap();
    assert!(server.read("x") == bytes);
    assert!(is_verified(&sent), "{:?}", sent.checksum);
    assert_eq!((sent.size, sent.bytes), (3_000_000, 3_000_000));
    assert_eq!(names(server.dir.path()), ["x"]);
}

#[test]
fn several_files_come_to_a_device_in_their_order() {
    let (peer, here) = (own(), tempfile::tempdir().unwrap());
    fs::write(peer.there.join("a"), "first").unwrap();
    fs::write(peer.there.join("b"), "second").unwrap();
    let target = here.path().join("pipe");
    pipe(&target);
    // Opened for both directions, the pipe keeps a reader between the files.
    let mut reader = File::options()
        .read(true)
        .write(true)
        .open(&target)
        .unwrap();
    let outcome = peer.run(vec![
        peer.fetching(b"a", &target),
        peer.fetching(b"b", &target),
    ]);
    assert_eq!((outcome.verified, outcome.failures.len()), (2, 0));
    let mut read = [0; 11];
    reader.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"firstsecond");
}

/// The server address for [`somebody_else`].
const ADDRESS: &str = "FAIRWIND_FTP_TEST_ADDRESS";

/// Downloads to a standard output that another user has opened.
#[test]
#[ignore = "a role of this program, not a test"]
fn somebody_else() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    let address: SocketAddr = address.parse().unwrap();
    let nobody = Uid::from_raw(65_534);
    set_thread_res_uid(nobody, nobody, nobody).unwrap();
    get(address, "x", Path::new("/dev/stdout"), options()).unwrap();
}

#[test]
fn a_pipe_that_another_user_opened_is_written_to() {
    if !permitted(root()) {
        return;
    }
    let server = Running::start();
    server.write("x", b"through somebody else's pipe");
    let role = [
        "--exact",
        "client::places::somebody_else",
        "--ignored",
        "--nocapture",
    ];
    let output = Command::new(std::env::current_exe().unwrap())
        .args(role)
        .env(ADDRESS, server.address.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("through somebody else's pipe"), "{said}");
}
