//! Separate networks for tests, and what the kernel itself reports of a socket.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use fairwind_kernel::TcpInfo;
use fairwind_testing::or_skip;
pub(crate) use fairwind_testing::{in_new_network_namespace, wait_until};
use fairwind_trace::event::{Control, Event, Head, Identity, Sample};
use fairwind_trace::kernel::check_requirements;

/// An event that owns its data.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Open(Identity),
    Identity(Identity),
    Control(Control),
    Sample(Sample),
    Close(Sample),
}

impl From<Event<'_>> for Seen {
    fn from(event: Event<'_>) -> Seen {
        match event {
            Event::Open(identity) => Seen::Open(*identity),
            Event::Identity(identity) => Seen::Identity(*identity),
            Event::Control(control) => Seen::Control(*control),
            Event::Sample(sample, _) => Seen::Sample(*sample),
            Event::Close(sample, _) => Seen::Close(*sample),
        }
    }
}

impl Seen {
    pub(crate) fn head(&self) -> &Head {
        match self {
            Seen::Open(identity) | Seen::Identity(identity) => &identity.head,
            Seen::Control(control) => &control.head,
            Seen::Sample(sample) | Seen::Close(sample) => &sample.head,
        }
    }
}

/// Whether this process has the privileges for the test.
pub(crate) fn privileged() -> bool {
    fairwind_testing::permitted(check_requirements())
}

/// Inode of this thread's network namespace.
pub(crate) fn netns() -> u32 {
    fs::metadata("/proc/thread-self/ns/net").unwrap().ino() as u32
}

/// The name of this process as the kernel keeps it.
pub(crate) fn program() -> String {
    fs::read_to_string("/proc/self/comm")
        .unwrap()
        .trim_end()
        .to_owned()
}

/// Both ends of a new connection to this address.
pub(crate) fn connection(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let peer = listener.accept().unwrap().0;
    (stream, peer)
}

fn option<const LENGTH: usize>(socket: &impl AsRawFd, level: i32, name: i32) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let mut length = LENGTH as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            bytes.as_mut_ptr().cast(),
            &mut length,
        )
    };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
    bytes
}

/// `SO_COOKIE`.
pub(crate) fn cookie(socket: &impl AsRawFd) -> u64 {
    u64::from_ne_bytes(option(socket, libc::SOL_SOCKET, libc::SO_COOKIE))
}

/// Waits until all that was sent has been acknowledged.
pub(crate) fn wait_until_idle(stream: &TcpStream) {
    wait_until("everything is acknowledged", || {
        let info = TcpInfo::of(stream).unwrap();
        info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0
    });
}

/// A control group within another, for a test; dropping it removes both.
pub(crate) struct ControlGroups {
    root: PathBuf,
    outer: PathBuf,
    /// The control group that this process was in.
    before: PathBuf,
}

impl ControlGroups {
    /// `None` if there is no writable version 2 hierarchy.
    pub(crate) fn create() -> Option<ControlGroups> {
        let needed = "control groups of version 2 are needed";
        let root = or_skip(mount_of_version_2().ok_or(needed))?;
        let text = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let outer = root.join(format!("fairwind-test-{}", std::process::id()));
        let made = fs::create_dir_all(outer.join("inner"));
        or_skip(made.map_err(|error| format!("{needed}: {}: {error}", root.display())))?;
        let before = root.join(own);
        Some(ControlGroups {
            root,
            outer,
            before,
        })
    }

    /// Calls `run` while this process is in the inner group.
    pub(crate) fn within_the_inner<T>(&self, run: impl FnOnce() -> T) -> T {
        let process = std::process::id().to_string();
        fs::write(self.outer.join("inner/cgroup.procs"), &process).unwrap();
        let value = run();
        fs::write(self.before.join("cgroup.procs"), &process).unwrap();
        value
    }

    pub(crate) fn inner(&self) -> u64 {
        fs::metadata(self.outer.join("inner")).unwrap().ino()
    }

    pub(crate) fn outer(&self) -> u64 {
        fs::metadata(&self.outer).unwrap().ino()
    }

    pub(crate) fn root(&self) -> u64 {
        fs::metadata(&self.root).unwrap().ino()
    }
}

/// Where the version 2 hierarchy is mounted, according to `/proc/self/mounts`.
fn mount_of_version_2() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut mounts = mounts.lines().map(|line| line.split(' '));
    let mount = mounts.find_map(|mut words| {
        let place = words.nth(1)?;
        (words.next()? == "cgroup2").then_some(place)
    });
    mount.map(PathBuf::from)
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.outer.join("inner"));
        let _ = fs::remove_dir(&self.outer);
    }
}

/// Sets the congestion control of a socket.
pub(crate) fn set_control(stream: &TcpStream, name: &str) {
    // SAFETY: the option is a string, given with its length.
    let failed = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
}
