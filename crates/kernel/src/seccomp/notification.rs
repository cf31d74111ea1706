//! A system call that waits, and the process that does it.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::filter::Call;

/// `PIDFD_THREAD` (Linux 6.9).
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

/// A system call that waits.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    pub(super) id: u64,
    thread: u32,
    call: Option<Call>,
    arguments: [u64; 6],
}

impl Notification {
    /// Of what the kernel has written.
    pub(super) fn new(raw: &libc::seccomp_notif) -> Notification {
        let mut notification = Notification {
            id: raw.id,
            thread: raw.pid,
            call: Call::of(raw.data.arch, raw.data.nr as u32),
            arguments: raw.data.args,
        };
        if notification.call == Some(Call::Multiplexed) {
            notification.demultiplex();
        }
        notification
    }

    /// The call and the arguments of a `socketcall`, which are in the memory of its process: words of 32 bits.
    fn demultiplex(&mut self) {
        let call = Call::of_multiplexed(self.arguments[0] as u32);
        let mut bytes = [0; 20];
        let length = match call {
            Some(Call::ChooseControl) => bytes.len(),
            _ => 12,
        };
        self.call = self.read(self.arguments[1], &mut bytes[..length]).and(call);
        let (words, _) = bytes.as_chunks::<4>();
        for (argument, word) in self.arguments.iter_mut().zip(words) {
            *argument = u32::from_ne_bytes(*word).into();
        }
        // The filter sees no more than that it is `setsockopt`.
        let choice = [libc::IPPROTO_TCP as u64, libc::TCP_CONGESTION as u64];
        if self.call == Some(Call::ChooseControl) && self.arguments[1..3] != choice {
            self.call = None;
        }
    }

    /// Reads the memory of the process.
    fn read(&self, at: u64, bytes: &mut [u8]) -> Option<()> {
        let memory = File::open(format!("/proc/{}/mem", self.thread)).ok()?;
        memory.read_exact_at(bytes, at).ok()
    }

    /// The address to which a [`connect`](Call::Connect) is about to connect: as the process has it in its memory now, so
    /// another of its threads may change it. `None` if there is none, or of another call.
    pub fn destination(&self) -> Option<IpAddr> {
        let [_, at, length, ..] = self.arguments;
        if self.call != Some(Call::Connect) {
            return None;
        }
        let mut bytes = [0; 28];
        let bytes = &mut bytes[..(length as usize).min(28)];
        self.read(at, bytes)?;
        address(bytes)
    }

    /// The congestion control that a [`ChooseControl`](Call::ChooseControl) asks for: as the process has its name in its
    /// memory now. `None` if that cannot be read, or of another call.
    pub fn congestion_control(&self) -> Option<String> {
        let [_, _, _, at, length, ..] = self.arguments;
        if self.call != Some(Call::ChooseControl) {
            return None;
        }
        let mut bytes = [0; 16];
        let bytes = &mut bytes[..(length as usize).min(15)];
        self.read(at, bytes)?;
        let end = bytes.iter().position(|&byte| byte == 0);
        let name = &bytes[..end.unwrap_or(bytes.len())];
        String::from_utf8(name.to_vec()).ok()
    }

    /// Which call it is; `None` if that cannot be read from the process.
    pub fn call(&self) -> Option<Call> {
        self.call
    }

    /// The descriptor that the call is about.
    pub fn descriptor(&self) -> RawFd {
        self.arguments[0] as RawFd
    }

    /// The process.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn process(&self) -> Result<Process, Errno> {
        Process::of_thread(self.thread)
    }
}

/// A process whose descriptors can be taken.
#[derive(Debug)]
pub struct Process {
    id: u32,
    handle: OwnedFd,
}

impl Process {
    /// That of a thread, with the descriptors of the thread.
    fn of_thread(thread: u32) -> Result<Process, Errno> {
        let pid = pid(thread).ok_or(Errno::SRCH)?;
        match pidfd_open(pid, THREAD) {
            Ok(handle) => Ok(Process { id: thread, handle }),
            // Before Linux 6.9 there are handles of whole processes only.
            Err(Errno::INVAL) => Process::open(group_of(thread).ok_or(Errno::SRCH)?),
            Err(error) => Err(error),
        }
    }

    /// The process of this number.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn open(id: u32) -> Result<Process, Errno> {
        let handle = pidfd_open(pid(id).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        Ok(Process { id, handle })
    }

    /// Its name, at most 15 bytes; empty if it has ended.
    pub fn name(&self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.id)).unwrap_or_default();
        name.trim_end().to_owned()
    }

    /// A duplicate of its descriptor. While this is open, what it refers to is not closed by the process closing its own.
    ///
    /// # Errors
    ///
    /// [`Errno::BADF`] if it has no such descriptor; [`Errno::PERM`] if it is of another user, a parent that it does not
    /// descend from may not attach to it (Yama), or it does not want to be attached to (`PR_SET_DUMPABLE`).
    pub fn take(&self, descriptor: RawFd) -> Result<OwnedFd, Errno> {
        pidfd_getfd(&self.handle, descriptor, PidfdGetfdFlags::empty())
    }
}

/// Of a `struct sockaddr_in` or `sockaddr_in6`; IPv4 as such, however it is written.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let (family, rest) = bytes.split_first_chunk()?;
    let address = match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => Ipv4Addr::from(*rest.get(2..)?.first_chunk::<4>()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(*rest.get(6..)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    Some(IpAddr::to_canonical(&address))
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// The process of a thread.
fn group_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    group.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn an_address_is_that_of_the_kernels_layout() {
        let of = |family: i32, rest: &[u8]| {
            let family = (family as u16).to_ne_bytes();
            address(&[&family, rest].concat())
        };
        let four = [0x1f, 0x90, 192, 0, 2, 7];
        let known: Option<IpAddr> = Some([192, 0, 2, 7].into());
        assert_eq!(of(libc::AF_INET, &four), known);
        assert_eq!(of(libc::AF_INET, &four[..5]), None);
        let mut six = [0; 26];
        six[6..22].copy_from_slice(&Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).octets());
        assert_eq!(of(libc::AF_INET6, &six), "2001:db8::7".parse().ok());
        six[6..22].copy_from_slice(&Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped().octets());
        assert_eq!(of(libc::AF_INET6, &six), known);
        assert_eq!(of(libc::AF_INET6, &six[..20]), None);
        assert_eq!(of(libc::AF_UNIX, &six), None);
        assert_eq!(address(&[]), None);
    }

    /// A `socketcall` of this thread.
    fn multiplexed(number: u64, words: &[u32]) -> Notification {
        let mut notification = Notification {
            id: 0,
            thread: rustix::thread::gettid().as_raw_pid() as u32,
            call: Some(Call::Multiplexed),
            arguments: [number, words.as_ptr() as u64, 7, 7, 7, 7],
        };
        notification.demultiplex();
        notification
    }

    #[test]
    fn of_multiplexed_options_the_congestion_control_alone_is_a_choice() {
        let chosen = multiplexed(14, &[5, 6, 13, 0x1000, 6]);
        assert_eq!(chosen.call(), Some(Call::ChooseControl));
        assert_eq!(chosen.arguments[..5], [5, 6, 13, 0x1000, 6]);
        // SO_REUSEADDR
        assert_eq!(multiplexed(14, &[5, 1, 2, 0x1000, 4]).call(), None);
        let listens = multiplexed(4, &[5, 128, 0]);
        assert_eq!(
            (listens.call(), listens.descriptor()),
            (Some(Call::Listen), 5)
        );
    }

    #[test]
    fn a_threads_process_and_its_descriptors_are_found() {
        let thread = rustix::thread::gettid().as_raw_pid() as u32;
        assert_eq!(group_of(thread), Some(std::process::id()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for process in [
            Process::of_thread(thread).unwrap(),
            Process::open(std::process::id()).unwrap(),
        ] {
            let taken = process.take(listener.as_raw_fd()).unwrap();
            let taken = TcpListener::from(taken);
            assert_eq!(taken.local_addr().unwrap(), listener.local_addr().unwrap());
            assert_eq!(process.take(1 << 20).unwrap_err(), Errno::BADF);
            assert!(!process.name().is_empty());
        }
    }
}
