//! Connections that break: killed servers and clients, interrupted paths, stalled servers.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::copies::{self, Copying};
use fairwind_ftp::client::{Options, Outcome, Progress, tree};
use fairwind_testing::{in_new_network_namespace, root};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{At, connection, get, is_verified, names, options, put};
use crate::common::{Process, Running, eventually, noise, permitted};

const ADDRESS: &str = "FAIRWIND_FTP_TEST_ADDRESS";
const HERE: &str = "FAIRWIND_FTP_TEST_HERE";

/// Lets a transfer go no further than some megabytes.
struct Halting;

impl Progress for Halting {
    fn reaches(&self, _: usize, bytes: u64) {
        if bytes > 5_000_000 {
            loop {
                thread::park();
            }
        }
    }
}

#[test]
#[ignore = "a role of this program, not a test"]
fn a_client() {
    let (Ok(address), Ok(here)) = (std::env::var(ADDRESS), std::env::var(HERE)) else {
        return;
    };
    let halting = Options {
        progress: Arc::new(Halting),
        ..options()
    };
    get(address.parse().unwrap(), "x", Path::new(&here), halting).unwrap();
}

fn client(server: &Running, target: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "client::broken::a_client", "--ignored"])
        .env(ADDRESS, server.address.to_string())
        .env(HERE, target)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_client_that_is_killed_goes_on_where_it_was() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let bytes = noise(60_000_000);
    server.write("x", &bytes);
    let (target, part) = (here.path().join("x"), here.path().join(".x.part"));
    let mut client = client(&server, &target);
    let length = || fs::metadata(&part).map_or(0, |facts| facts.len());
    eventually("some bytes have come", || length() > 1_000_000);
    client.kill().unwrap();
    client.wait().unwrap();
    assert_eq!(names(here.path()), [".x.part"], "nothing looks complete");
    let had = length();
    assert!(had < 60_000_000, "killed too late");
    let got = get(server.address, "x", &target, options()).unwrap();
    assert_eq!(got.resumed_at, had);
    assert_eq!(fs::read(&target).unwrap(), bytes);
    assert!(is_verified(&got));
}

#[test]
fn a_server_that_is_killed_is_gone_on_with_when_it_is_back() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(20_000_000);
    fs::write(there.path().join("x"), &bytes).unwrap();
    let target = here.path().join("x");
    for sending in [false, true] {
        let server = Process::start(there.path());
        let address = server.address;
        let server = Arc::new(Mutex::new(server));
        let victim = Arc::clone(&server);
        let killing = Options {
            progress: At::byte(5_000_000, move || victim.lock().unwrap().kill()),
            retries: 1,
            ..options()
        };
        let error = if sending {
            put(address, &target, "y", killing)
        } else {
            get(address, "x", &target, killing)
        };
        assert!(error.is_err(), "nobody is there any more");
        let back = Process::start(there.path());
        let report = if sending {
            put(back.address, &target, "y", options())
        } else {
            get(back.address, "x", &target, options())
        };
        let report = report.unwrap();
        assert!(is_verified(&report), "{report:?}");
        assert!(report.resumed_at > 0, "sending {sending}: {report:?}");
        let result = if sending {
            fs::read(there.path().join("y"))
        } else {
            fs::read(&target)
        };
        assert_eq!(result.unwrap(), bytes);
    }
    assert_eq!(names(here.path()), ["x"]);
}

/// Sets `lo` down or up in the network namespace of the calling thread.
fn set_loopback(up: bool) {
    // SAFETY: an all-zero ifreq is valid; the calls read it and write only into it.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        assert!(socket >= 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = if up { libc::IFF_UP as libc::c_short } else { 0 };
        let failed = libc::ioctl(socket, libc::SIOCSIFFLAGS, &request) != 0;
        libc::close(socket);
        assert!(!failed, "{}", std::io::Error::last_os_error());
    }
}

#[test]
fn a_file_is_identical_after_a_path_was_cut_for_ten_seconds() {
    if !fairwind_testing::permitted(root()) {
        return;
    }
    in_new_network_namespace(|| {
        let server = Running::start();
        let here = tempfile::tempdir().unwrap();
        let bytes = noise(20_000_000);
        server.write("x", &bytes);
        let cutting = Options {
            progress: At::byte(5_000_000, || {
                set_loopback(false);
                thread::spawn(|| {
                    thread::sleep(Duration::from_secs(10));
                    set_loopback(true);
                });
            }),
            patience: Duration::from_secs(1),
            // Pauses of 0.6, 1.2, 2.4 and 4.8 s and attempts of a second together outlast the outage, and so many fit into
            // it even if each takes longer.
            pause: Duration::from_millis(600),
            ..options()
        };
        let target = here.path().join("x");
        let got = get(server.address, "x", &target, cutting).unwrap();
        assert!(got.interruptions.len() >= 4, "{:?}", got.interruptions);
        assert!(is_verified(&got));
        assert_eq!(got.bytes, 20_000_000, "nothing was moved twice");
        assert_eq!(fs::read(&target).unwrap(), bytes);
    });
}

/// pyftpdlib with faults; `None` if it is not installed.
pub(super) fn pyftpd(directory: &Path, faults: &[&str]) -> Option<Process> {
    let python = ["/usr/bin/python3", "python3"].into_iter().find(|python| {
        let mut import = Command::new(python);
        import
            .args(["-c", "import pyftpdlib"])
            .stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    });
    if !permitted("pyftpdlib", python.is_some()) {
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/pyftpd.py");
    let mut command = Command::new(python?);
    command
        .arg(script)
        .arg(directory)
        .args(faults)
        .stderr(Stdio::null());
    Some(Process::telling(&mut command))
}

#[test]
fn a_server_that_stands_still_is_left_and_come_back_to() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(8_000_000);
    fs::write(there.path().join("x"), &bytes).unwrap();
    let Some(server) = pyftpd(there.path(), &["stall=3000000"]) else {
        return;
    };
    let impatient = Options {
        patience: Duration::from_secs(4),
        ..options()
    };
    let target = here.path().join("x");
    let got = get(server.address, "x", &target, impatient).unwrap();
    assert_eq!(got.interruptions.len(), 1);
    assert!(
        got.interruptions[0].contains("nothing moved for 4s"),
        "{:?}",
        got.interruptions
    );
    assert_eq!(got.bytes, 8_000_000, "nothing was moved twice");
    assert_eq!(fs::read(&target).unwrap(), bytes);
}

#[test]
fn connections_that_are_cut_are_taken_up_again_in_both_directions() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(8_000_000);
    let target = here.path().join("x");
    fs::write(there.path().join("x"), &bytes).unwrap();
    for sending in [false, true] {
        let Some(server) = pyftpd(there.path(), &["cut=3000000"]) else {
            return;
        };
        let report = if sending {
            put(server.address, &target, "y", options())
        } else {
            get(server.address, "x", &target, options())
        };
        let report = report.unwrap();
        assert_eq!(report.interruptions.len(), 1, "{:?}", report.interruptions);
        assert_eq!(fs::read(&target).unwrap(), bytes);
    }
    assert_eq!(fs::read(there.path().join("y")).unwrap(), bytes);
    assert_eq!(names(there.path()), ["x", "y"]);
}

#[test]
fn trying_again_has_an_end() {
    let here = tempfile::tempdir().unwrap();
    let there = tempfile::tempdir().unwrap();
    fs::write(there.path().join("x"), noise(20_000_000)).unwrap();
    let server = Process::start(there.path());
    let address = server.address;
    let victim = Mutex::new(server);
    let killing = Options {
        progress: At::byte(1_000_000, move || victim.lock().unwrap().kill()),
        retries: 2,
        ..options()
    };
    let error = get(address, "x", &here.path().join("x"), killing).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("no connection to 127.0.0.1:"), "{error}");
    assert_eq!(names(here.path()), [".x.part"]);
}

/// Kills a process when the first byte of a transfer has come, and keeps all notes.
struct Killing {
    victim: Pid,
    done: AtomicBool,
    notes: Mutex<Vec<String>>,
}

impl Progress for Killing {
    fn reaches(&self, _: usize, at: u64) {
        if at > 0 && !self.done.swap(true, Ordering::Relaxed) {
            kill_process(self.victim, Signal::KILL).unwrap();
        }
    }

    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.to_owned());
    }
}

impl Killing {
    /// Options with which a transfer kills the server and is tried again twice.
    fn options(server: &Process) -> (Arc<Self>, Options) {
        let progress = Arc::new(Self {
            victim: Pid::from_child(&server.child),
            done: AtomicBool::new(false),
            notes: Mutex::default(),
        });
        let options = Options {
            retries: 2,
            progress: progress.clone(),
            ..options()
        };
        (progress, options)
    }

    /// All 40 files have come or failed, and nobody has waited for the server more than twice.
    fn check(&self, server: &mut Process, outcome: &Outcome) {
        server.child.wait().unwrap();
        assert!(outcome.files < 40, "{}", outcome.files);
        assert_eq!(outcome.files + outcome.failures.len(), 40);
        let last = outcome.failures.last().unwrap();
        assert!(last.error.contains("no connection to"), "{last:?}");
        let notes = self.notes.lock().unwrap();
        let pauses = notes.iter().filter(|note| note.contains("trying again"));
        // Of two sessions.
        assert!(pauses.count() <= 2 * 2, "{notes:?}");
    }
}

/// A directory with 40 files, every other one small enough to come through a shared data connection.
fn forty() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..40 {
        let size = 10_000 + 1_000_000 * (number % 2);
        fs::write(dir.path().join(format!("f{number}")), vec![7; size]).unwrap();
    }
    dir
}

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

#[test]
fn files_behind_one_that_has_lost_the_server_fail_with_it() {
    let (dir, back) = (forty(), tempfile::tempdir().unwrap());
    let mut server = Process::start(dir.path());
    let (killing, options) = Killing::options(&server);
    let mut connection = connection(server.address, "", options);
    let found = tree::remote(&mut connection, b"", back.path()).unwrap();
    let jobs = found.files.into_iter().map(Job::Get).collect();
    let outcome = batch::run(connection, jobs, TWO).unwrap();
    killing.check(&mut server, &outcome);
}

#[test]
fn copies_behind_one_that_has_lost_a_server_fail_with_it() {
    let (from, to) = (forty(), tempfile::tempdir().unwrap());
    let source = Process::start(from.path());
    let mut destination = Process::start(to.path());
    let (killing, options) = Killing::options(&destination);
    let ends = [&source, &destination].map(|end| connection(end.address, "", options.clone()));
    let copies = (0..40).map(|number| Copying {
        from: format!("f{number}").into(),
        to: format!("f{number}").into(),
        present: None,
    });
    let [source, there] = ends;
    let outcome = copies::run(source, there, copies.collect(), TWO).unwrap();
    killing.check(&mut destination, &outcome);
}
