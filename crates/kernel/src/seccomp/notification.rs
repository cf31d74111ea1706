//! A system call that waits, and the process that does it.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::filter::Call;
use crate::Process;

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

#[cfg(test)]
mod tests {
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
}
