//! Networks of their own for tests, and what the kernel itself says of a socket.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use fairwind_trace::kernel::check_requirements;

/// Whether the test can run. Without privileges it says so, except where the variable CI is set:
/// there it fails.
pub fn privileged() -> bool {
    match check_requirements() {
        Ok(()) => true,
        Err(error) if std::env::var_os("CI").is_some() => panic!("CI must trace: {error}"),
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

/// Runs on a thread that has a network of its own, with loopback only.
pub fn in_own_network<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(move || {
        // SAFETY: changes the network namespace of this thread and of those it starts.
        let failed = unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0;
        assert!(!failed, "{}", io::Error::last_os_error());
        bring_loopback_up().unwrap();
        run()
    });
    match thread.join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn bring_loopback_up() -> io::Result<()> {
    // SAFETY: an all-zero ifreq is valid; the calls read it and write only into it.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        let failed = libc::ioctl(socket, libc::SIOCSIFFLAGS, &request) != 0;
        let error = io::Error::last_os_error();
        libc::close(socket);
        if failed { Err(error) } else { Ok(()) }
    }
}

/// Inode of this thread's network namespace.
pub fn netns() -> u32 {
    fs::metadata("/proc/thread-self/ns/net").unwrap().ino() as u32
}

/// The name of this process as the kernel has it.
pub fn program() -> String {
    fs::read_to_string("/proc/self/comm")
        .unwrap()
        .trim_end()
        .to_owned()
}

/// Both ends of a connection to this address.
pub fn connection(address: &str) -> (TcpStream, TcpStream) {
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
pub fn cookie(socket: &impl AsRawFd) -> u64 {
    u64::from_ne_bytes(option(socket, libc::SOL_SOCKET, libc::SO_COOKIE))
}

/// `TCP_INFO`, by the offsets of `linux/tcp.h`.
pub struct TcpInfo([u8; 248]);

impl TcpInfo {
    pub fn of(socket: &impl AsRawFd) -> TcpInfo {
        TcpInfo(option(socket, libc::IPPROTO_TCP, libc::TCP_INFO))
    }

    pub fn u8(&self, offset: usize) -> u8 {
        self.0[offset]
    }

    pub fn u16(&self, offset: usize) -> u16 {
        u16::from_ne_bytes(self.0[offset..offset + 2].try_into().unwrap())
    }

    pub fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.0[offset..offset + 4].try_into().unwrap())
    }

    pub fn u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.0[offset..offset + 8].try_into().unwrap())
    }

    pub fn unacked(&self) -> u32 {
        self.u32(24)
    }

    pub fn segs_in(&self) -> u32 {
        self.u32(140)
    }
}

/// Waits until all that was sent is acknowledged.
pub fn wait_until_idle(stream: &TcpStream) {
    wait_until("everything is acknowledged", || {
        let info = TcpInfo::of(stream);
        info.unacked() == 0 && info.u32(144) == 0
    });
}

/// Waits, 10 s at most.
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !happened() {
        assert!(Instant::now() < end, "not in 10 s: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
