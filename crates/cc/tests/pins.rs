//! Congestion controls that stay in the kernel, pinned in a BPF file system that only the test sees.
//!
//! Needs root. Without it, the tests are skipped, or fail if the variable FAIRWIND_NO_SKIPS is set.
//! Nothing outlives a test, and controls loaded by the machine's owner are left alone: each test has its
//! names and folder.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process;
use std::thread;
use std::{io, ptr};

use fairwind_cc::AdvisedStart;
use fairwind_cc::kernel::{self, Destination, Found, Holder, LoadError, PinError, Pins};
use fairwind_cc::native::{self, Parameters};
use fairwind_testing::{bring_loopback_up, eventually, permitted, root};
use libbpf_rs::Link;

#[test]
fn a_pinned_control_stays_and_is_taken_out() {
    with_pins("stay", |pins, name| {
        assert_eq!(pins.load(&nocc(300), name).unwrap(), Found::Nothing);
        let about = fs::read_link(pins.root().join(name).join("about")).unwrap();
        let about = about.to_str().unwrap().to_owned();
        assert!(about.starts_with("control=nocc version="), "{about}");

        // The loader has no descriptor open any more: only the pins keep the control.
        let pinned = pins.get(name).unwrap().unwrap();
        assert!(pinned.is_this_build());
        assert_eq!(pinned.parameters().unwrap(), nocc(300));
        drop(pinned);
        assert!(is_available(name));
        let names: Vec<_> = pins.all().unwrap();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0].name(), name);
        drop(names);

        assert_eq!(pins.unload(name).unwrap(), 0);
        assert!(!is_available(name));
        assert!(!pins.root().join(name).exists());
        assert!(pins.get(name).unwrap().is_none());
    });
}

#[test]
fn pinned_controls_share_what_paths_are_advised_until_the_last_is_unloaded() {
    with_pins("adv", |pins, name| {
        let other = format!("{name}2");
        let of = |control: &str| native::find(control).unwrap().default_parameters();
        assert!(pins.advised_starts().unwrap().is_none());
        pins.load(&of("cubic"), name).unwrap();
        let to = Destination::new(1, "192.0.2.0".parse().unwrap(), 24).unwrap();
        let start = AdvisedStart::new(1_000_000, 50_000, 7).unwrap();
        let advised = pins.advised_starts().unwrap().unwrap();
        advised.advise(&to, &start).unwrap();
        // A second control and a replacement have the same advice.
        pins.load(&of("reno"), &other).unwrap();
        pins.replace(&of("cubic"), name).unwrap();
        pins.unload(name).unwrap();
        let advised = pins.advised_starts().unwrap().unwrap();
        assert_eq!(advised.destinations().unwrap(), [(to, start)]);
        assert_eq!(pins.all().unwrap().len(), 1);
        pins.unload(&other).unwrap();
        assert!(pins.advised_starts().unwrap().is_none());
        assert_eq!(fs::read_dir(pins.root()).unwrap().count(), 0);
    });
}

#[test]
fn set_governs_live_connections_all_or_nothing() {
    with_pins("set", |pins, name| {
        pins.load(&nocc(300), name).unwrap();
        let mut connection = Connection::new(name);
        assert_eq!(connection.window(), 300);

        let pinned = pins.get(name).unwrap().unwrap();
        assert_eq!(pinned.set(&[("window", 500)]).unwrap(), nocc(500));
        connection.acknowledge();
        assert_eq!(connection.window(), 500);

        let error = pinned.set(&[("window", 700), ("tau", 1)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`nocc` has no parameter `tau`; it has window"
        );
        assert!(pinned.set(&[("window", 1)]).is_err());
        assert_eq!(pinned.parameters().unwrap(), nocc(500));
    });
}

#[test]
fn connections_keep_an_unloaded_control_and_are_counted() {
    with_pins("keep", |pins, name| {
        pins.load(&nocc(300), name).unwrap();
        let users = || pins.get(name).unwrap().unwrap().users().unwrap();
        assert_eq!(users(), 0);
        let mut first = Connection::new(name);
        let second = Connection::new(name);
        assert_eq!(users(), 2);
        drop(second);
        assert_eq!(pins.unload(name).unwrap(), 1);
        first.acknowledge();
        assert_eq!(first.window(), 300);
        // The name is free again although a connection still uses the old control.
        assert_eq!(pins.load(&nocc(400), name).unwrap(), Found::Nothing);
        assert_eq!(Connection::new(name).window(), 400);
    });
}

#[test]
fn a_second_load_is_told_of_the_first_and_replaces_it_on_demand() {
    with_pins("replace", |pins, name| {
        pins.load(&nocc(300), name).unwrap();
        let error = pins.load(&nocc(400), name).unwrap_err();
        assert!(matches!(error, PinError::AlreadyPinned { .. }), "{error}");

        let mut before = Connection::new(name);
        let replaced = pins.replace(&nocc(400), name).unwrap();
        assert_eq!(replaced, Found::Control { users: 1 });
        let mut after = Connection::new(name);
        before.acknowledge();
        after.acknowledge();
        assert_eq!((before.window(), after.window()), (300, 400));

        // Settings now apply to the new control, and no pins of the replacement are left.
        let pinned = pins.get(name).unwrap().unwrap();
        pinned.set(&[("window", 600)]).unwrap();
        before.acknowledge();
        after.acknowledge();
        assert_eq!((before.window(), after.window()), (300, 600));
        assert_eq!(
            files(pins, name),
            ["about", "link", "operations", "settings"]
        );
        drop(pinned);
        pins.unload(name).unwrap();
        assert!(!is_available(name));
    });
}

#[test]
fn what_a_crash_left_is_cleared() {
    with_pins("crash", |pins, name| {
        pins.load(&nocc(300), name).unwrap();
        // As if the loader had crashed before it pinned the link.
        fs::remove_file(pins.root().join(name).join("link")).unwrap();
        assert!(eventually(|| !is_available(name)));
        assert!(pins.get(name).unwrap().is_none());
        assert_eq!(pins.load(&nocc(400), name).unwrap(), Found::Leftovers);
        assert_eq!(Connection::new(name).window(), 400);

        // As if the control had been detached without removing its pins.
        let link = Link::open(pins.root().join(name).join("link")).unwrap();
        link.detach().unwrap();
        assert!(eventually(|| !is_available(name)));
        assert!(matches!(pins.unload(name), Err(PinError::NotPinned { .. })));
        assert!(!pins.root().join(name).exists());
    });
}

#[test]
fn an_interrupted_replacement_is_undone() {
    with_pins("undo", |pins, name| {
        pins.load(&nocc(300), name).unwrap();
        // Pins that the link has not been switched to.
        let folder = pins.root().join(name);
        let other = format!("{name}b");
        pins.load(&nocc(400), &other).unwrap();
        for file in ["operations", "settings", "about"] {
            let from = pins.root().join(&other).join(file);
            fs::rename(from, folder.join(format!("new_{file}"))).unwrap();
        }
        let pinned = pins.get(name).unwrap().unwrap();
        assert_eq!(pinned.parameters().unwrap(), nocc(300));
        assert_eq!(
            files(pins, name),
            ["about", "link", "operations", "settings"]
        );
    });
}

#[test]
fn a_name_that_something_else_has_is_told_with_who() {
    with_pins("taken", |pins, name| {
        let _other = kernel::load_as(&nocc(300), name).unwrap();
        let error = pins.load(&nocc(300), name).unwrap_err();
        let PinError::Load(LoadError::AlreadyLoaded { holder, .. }) = error else {
            panic!("{error}");
        };
        assert!(
            matches!(&holder, Holder::Process { id, .. } if *id == process::id()),
            "{holder}"
        );
        // No folder was created.
        assert!(!pins.root().join(name).exists());

        let error = pins.load(&nocc(300), "reno").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`reno` is already in the kernel: it is the kernel's own"
        );
    });
}

#[test]
fn settings_of_another_build_are_not_touched() {
    with_pins("other", |pins, name| {
        pins.load(&nocc(300), name).unwrap();
        let about = pins.root().join(name).join("about");
        fs::remove_file(&about).unwrap();
        let words = "control=nocc version=0.0.9 object=0 parameters=gain,window";
        std::os::unix::fs::symlink(words, &about).unwrap();

        let pinned = pins.get(name).unwrap().unwrap();
        assert!(!pinned.is_this_build());
        let error = pinned.set(&[("window", 500)]).unwrap_err().to_string();
        assert!(error.contains("fairwind 0.0.9"), "{error}");
        let error = pins.load(&nocc(300), name).unwrap_err().to_string();
        assert!(error.contains("fairwind 0.0.9"), "{error}");
        pins.replace(&nocc(300), name).unwrap();
        assert!(pins.get(name).unwrap().unwrap().is_this_build());
    });
}

#[test]
fn pins_outside_of_a_bpf_file_system_are_refused_with_the_way_to_one() {
    if !permitted(root()) || !permitted(kernel::check_requirements()) {
        return;
    }
    let folder = std::env::temp_dir().join(format!("fairwind-no-bpf-fs-{}", process::id()));
    let error = Pins::at(&folder).load(&nocc(300), "fwt_nowhere");
    let error = error.unwrap_err().to_string();
    assert!(error.contains("mount -t bpf bpf /sys/fs/bpf"), "{error}");
    assert!(!folder.exists());
}

fn nocc(window: i64) -> Parameters {
    let mut parameters = native::find("nocc").unwrap().default_parameters();
    parameters.set("window", window).unwrap();
    parameters
}

fn files(pins: &Pins, name: &str) -> Vec<String> {
    let entries = fs::read_dir(pins.root().join(name)).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    files
}

fn is_available(name: &str) -> bool {
    let names = kernel::available().unwrap();
    names.iter().any(|other| other == name)
}

/// Runs `run` in separate mount and network namespaces. The name of the control is derived from the
/// test's.
fn with_pins(test: &'static str, run: impl FnOnce(&Pins, &str) + Send + 'static) {
    let needed = kernel::check_requirements().map_err(|error| error.to_string());
    if !permitted(root()) || !permitted(needed) {
        return;
    }
    let thread = thread::spawn(move || {
        // SAFETY: changes the namespaces of this thread only.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWNET) });
        let folder = std::env::temp_dir().join(format!("fairwind-pins-{test}-{}", process::id()));
        DirBuilder::new().recursive(true).create(&folder).unwrap();
        mount(None, Path::new("/"), libc::MS_REC | libc::MS_PRIVATE);
        mount(Some("bpf"), &folder, 0);
        bring_loopback_up();
        let name = format!("fwt_{test:.7}_{:x}", process::id() % 0x1000);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(&Pins::at(folder.join("fairwind")), &name);
        }));
        let path = CString::new(folder.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is a string. Only the test's own mount is there.
        check(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) });
        fs::remove_dir(&folder).unwrap();
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn mount(kind: Option<&str>, folder: &Path, flags: libc::c_ulong) {
    let kind = kind.map(|kind| CString::new(kind).unwrap());
    let source = kind.as_ref().map_or(ptr::null(), |kind| kind.as_ptr());
    let path = CString::new(folder.as_os_str().as_bytes()).unwrap();
    // SAFETY: the strings live through the call, and no data is passed.
    check(unsafe { libc::mount(source, path.as_ptr(), source, flags, ptr::null()) });
}

fn check(outcome: libc::c_int) {
    assert_eq!(outcome, 0, "{}", io::Error::last_os_error());
}

/// A connection over loopback that uses the control.
struct Connection {
    stream: TcpStream,
    peer: TcpStream,
}

impl Connection {
    fn new(control: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peer = listener.accept().unwrap().0;
        // SAFETY: the option is a string with its length.
        check(unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                control.as_ptr().cast(),
                control.len() as libc::socklen_t,
            )
        });
        Self { stream, peer }
    }

    /// Makes an acknowledgement arrive, so that the control runs.
    fn acknowledge(&mut self) {
        self.stream.write_all(b"x").unwrap();
        self.peer.read_exact(&mut [0]).unwrap();
        self.peer.write_all(b"y").unwrap();
        self.stream.read_exact(&mut [0]).unwrap();
    }

    /// The congestion window, packets.
    fn window(&self) -> u32 {
        fairwind_kernel::TcpInfo::of(&self.stream)
            .unwrap()
            .tcpi_snd_cwnd
    }
}
