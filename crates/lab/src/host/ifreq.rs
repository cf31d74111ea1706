//! Requests about network interfaces: ioctls with a `struct ifreq`.
//!
//! Source: netdevice(7), linux/if.h, linux/if_tun.h. By libc, because rustix has only those requests that
//! translate between names and indices.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

/// What to do with an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Make a descriptor of /dev/net/tun an interface with the name and flags; reads the name given to it.
    SetTun,
    /// Read the flags.
    Flags,
    SetFlags,
    SetMtu,
    SetQueueLength,
    SetAddress,
    SetNetmask,
    SetHardwareAddress,
}

impl Request {
    fn number(self) -> libc::Ioctl {
        match self {
            Request::SetTun => libc::TUNSETIFF,
            Request::Flags => libc::SIOCGIFFLAGS as libc::Ioctl,
            Request::SetFlags => libc::SIOCSIFFLAGS as libc::Ioctl,
            Request::SetMtu => libc::SIOCSIFMTU as libc::Ioctl,
            Request::SetQueueLength => libc::SIOCSIFTXQLEN as libc::Ioctl,
            Request::SetAddress => libc::SIOCSIFADDR as libc::Ioctl,
            Request::SetNetmask => libc::SIOCSIFNETMASK as libc::Ioctl,
            Request::SetHardwareAddress => libc::SIOCSIFHWADDR as libc::Ioctl,
        }
    }
}

/// The name of an interface, and one value: which one depends on the request.
pub struct Ifreq(libc::ifreq);

impl Ifreq {
    /// Names are cut to 15 bytes.
    pub fn new(name: &str) -> Ifreq {
        // SAFETY: an ifreq consists of integers and a union of such, for which zero is valid.
        let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
        let room = ifreq.ifr_name.len() - 1;
        for (to, from) in ifreq.ifr_name[..room].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ifreq(ifreq)
    }

    pub fn name(&self) -> String {
        let bytes = self.0.ifr_name.iter().map(|&c| c as u8);
        let name: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&name).into_owned()
    }

    /// The value of [`Request::Flags`].
    pub fn flags(&self) -> libc::c_short {
        // SAFETY: every bit pattern is a valid integer.
        unsafe { self.0.ifr_ifru.ifru_flags }
    }

    pub fn with_flags(mut self, flags: libc::c_short) -> Ifreq {
        self.0.ifr_ifru.ifru_flags = flags;
        self
    }

    /// For [`Request::SetMtu`] (bytes) and [`Request::SetQueueLength`] (packets).
    pub fn with_number(mut self, number: u16) -> Ifreq {
        self.0.ifr_ifru.ifru_mtu = number.into();
        self
    }

    /// For [`Request::SetAddress`] and [`Request::SetNetmask`].
    pub fn with_address(mut self, address: Ipv4Addr) -> Ifreq {
        // The address follows the port, which takes two bytes.
        self.0.ifr_ifru.ifru_addr = socket_address(libc::AF_INET as u16, 2, &address.octets());
        self
    }

    /// For [`Request::SetHardwareAddress`].
    pub fn with_hardware_address(mut self, address: [u8; 6]) -> Ifreq {
        self.0.ifr_ifru.ifru_hwaddr = socket_address(libc::ARPHRD_ETHER, 0, &address);
        self
    }

    /// Makes the request: to any socket of the interface's network namespace, [`Request::SetTun`] to
    /// /dev/net/tun.
    pub fn send(&mut self, fd: impl AsFd, request: Request) -> io::Result<()> {
        let fd = fd.as_fd().as_raw_fd();
        // SAFETY: these requests read and write a whole ifreq at most.
        match unsafe { libc::ioctl(fd, request.number(), &raw mut self.0) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

fn socket_address(family: libc::sa_family_t, offset: usize, address: &[u8]) -> libc::sockaddr {
    let mut sa_data = [0; 14];
    for (to, from) in sa_data[offset..].iter_mut().zip(address) {
        *to = *from as libc::c_char;
    }
    libc::sockaddr {
        sa_family: family,
        sa_data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_to_15_bytes() {
        assert_eq!(Ifreq::new("fw0").name(), "fw0");
        assert_eq!(Ifreq::new("0123456789abcdef").name(), "0123456789abcde");
    }

    #[test]
    fn an_ipv4_address_stands_after_the_port() {
        let address = socket_address(2, 2, &[10, 77, 0, 1]);
        assert_eq!(address.sa_family, 2);
        assert_eq!(address.sa_data[..7], [0, 0, 10, 77, 0, 1, 0]);
    }
}
