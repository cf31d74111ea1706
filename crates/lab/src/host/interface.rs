//! Configures interfaces of the calling thread's network namespace.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

use super::queueing;
use crate::LabError;

mod ioctls {
    use libc::{Ioctl, ifreq};

    nix::ioctl_read_bad!(flags, libc::SIOCGIFFLAGS as Ioctl, ifreq);
    nix::ioctl_read_bad!(index, libc::SIOCGIFINDEX as Ioctl, ifreq);
    nix::ioctl_write_ptr_bad!(set_flags, libc::SIOCSIFFLAGS as Ioctl, ifreq);
    nix::ioctl_write_ptr_bad!(set_address, libc::SIOCSIFADDR as Ioctl, ifreq);
    nix::ioctl_write_ptr_bad!(set_netmask, libc::SIOCSIFNETMASK as Ioctl, ifreq);
    nix::ioctl_write_ptr_bad!(set_mtu, libc::SIOCSIFMTU as Ioctl, ifreq);
    nix::ioctl_write_ptr_bad!(set_queue, libc::SIOCSIFTXQLEN as Ioctl, ifreq);
}

/// Settings of an interface.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Its address, with a netmask of 32 bits.
    pub address: Ipv4Addr,
    /// MTU, bytes.
    pub mtu: u16,
    /// Packets that the device queues until they are read.
    pub queue: u16,
}

/// A socket through which interfaces are configured.
pub struct Interfaces {
    socket: OwnedFd,
}

impl Interfaces {
    pub fn open() -> Result<Interfaces, LabError> {
        // SAFETY: the call takes numbers only.
        let socket =
            unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        let socket = Errno::result(socket)
            .map_err(|error| LabError::system("opening a socket for interfaces", error))?;
        // SAFETY: the descriptor has just been opened and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        Ok(Interfaces { socket })
    }

    /// Configures an interface and brings it up.
    pub fn set_up(&self, name: &str, settings: Settings) -> Result<(), LabError> {
        let fd = self.socket.as_raw_fd();
        let failed = |what: &'static str| {
            move |error: Errno| LabError::system(format!("setting {what} of {name}"), error)
        };
        let mut request = request(name);
        request.ifr_ifru.ifru_mtu = settings.mtu.into();
        // SAFETY: here and below, the socket is open, and the request is a whole ifreq that
        // outlives the call and has the member set that the call reads.
        unsafe { ioctls::set_mtu(fd, &request) }.map_err(failed("the MTU"))?;
        request.ifr_ifru.ifru_metric = settings.queue.into();
        // SAFETY: as above; the queue length is read as an integer, like the metric.
        unsafe { ioctls::set_queue(fd, &request) }.map_err(failed("the queue"))?;
        request.ifr_ifru.ifru_addr = socket_address(settings.address);
        // SAFETY: as above.
        unsafe { ioctls::set_address(fd, &request) }.map_err(failed("the address"))?;
        request.ifr_ifru.ifru_addr = socket_address(Ipv4Addr::BROADCAST);
        // SAFETY: as above.
        unsafe { ioctls::set_netmask(fd, &request) }.map_err(failed("the netmask"))?;
        // There is nobody to answer ARP requests.
        self.add_flags(name, libc::IFF_UP | libc::IFF_NOARP)?;
        queueing::set_plain(self.index(name)?)
    }

    /// Gives an interface an additional address, with a netmask of 32 bits; `number` distinguishes
    /// it from others.
    pub fn add_address(
        &self,
        name: &str,
        number: usize,
        address: Ipv4Addr,
    ) -> Result<(), LabError> {
        let fd = self.socket.as_raw_fd();
        let failed =
            |error: Errno| LabError::system(format!("giving {name} the address {address}"), error);
        let mut request = request(&format!("{name}:{number}"));
        request.ifr_ifru.ifru_addr = socket_address(address);
        // SAFETY: here and below, the socket is open, and the request is a whole ifreq that
        // outlives the call and has the member set that the call reads.
        unsafe { ioctls::set_address(fd, &request) }.map_err(failed)?;
        request.ifr_ifru.ifru_addr = socket_address(Ipv4Addr::BROADCAST);
        // SAFETY: as above.
        unsafe { ioctls::set_netmask(fd, &request) }
            .map(drop)
            .map_err(failed)
    }

    /// Brings the interface up.
    pub fn raise(&self, name: &str) -> Result<(), LabError> {
        self.add_flags(name, libc::IFF_UP)
    }

    fn add_flags(&self, name: &str, added: libc::c_int) -> Result<(), LabError> {
        let fd = self.socket.as_raw_fd();
        let failed = |error: Errno| LabError::system(format!("setting {name} up"), error);
        let mut request = request(name);
        // SAFETY: the socket is open, and the request is a whole ifreq that the call fills.
        unsafe { ioctls::flags(fd, &mut request) }.map_err(failed)?;
        // SAFETY: the previous call has set this member.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | added as libc::c_short;
        // SAFETY: the socket is open, and the request is a whole ifreq that outlives the call.
        unsafe { ioctls::set_flags(fd, &request) }
            .map(drop)
            .map_err(failed)
    }

    /// The interface's index.
    pub fn index(&self, name: &str) -> Result<u32, LabError> {
        let mut request = request(name);
        // SAFETY: the socket is open, and the request is a whole ifreq that the call fills.
        unsafe { ioctls::index(self.socket.as_raw_fd(), &mut request) }
            .map_err(|error| LabError::system(format!("finding {name}"), error))?;
        // SAFETY: the previous call has set this member.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
    }
}

/// A request about an interface; names are cut to 15 bytes.
pub fn request(name: &str) -> libc::ifreq {
    // SAFETY: an ifreq consists of integers and a union of such, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// The name in a request.
pub fn name(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().map(|&c| c as u8);
    let name: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&name).into_owned()
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: a sockaddr consists of integers, for which zero is valid.
    let mut socket_address: libc::sockaddr = unsafe { std::mem::zeroed() };
    socket_address.sa_family = libc::AF_INET as libc::sa_family_t;
    // The address follows the port, which takes two bytes.
    for (to, from) in socket_address.sa_data[2..6]
        .iter_mut()
        .zip(address.octets())
    {
        *to = from as libc::c_char;
    }
    socket_address
}
