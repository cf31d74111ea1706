//! Configures interfaces of the calling thread's network namespace.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::ifreq::{Ifreq, Request};
use super::queueing;
use crate::LabError;

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
        let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
        let socket = socket_with(family, SocketType::DGRAM, flags, None)
            .map_err(|error| LabError::system("opening a socket for interfaces", error))?;
        Ok(Interfaces { socket })
    }

    /// Configures an interface and brings it up.
    pub fn configure(&self, name: &str, settings: Settings) -> Result<(), LabError> {
        let Settings {
            address,
            mtu,
            queue,
        } = settings;
        let ifreq = || Ifreq::new(name);
        let failed = |what: &'static str| {
            move |error: io::Error| LabError::system(format!("setting {what} of {name}"), error)
        };
        let set = |mut ifreq: Ifreq, request| ifreq.send(&self.socket, request);
        set(ifreq().with_number(mtu), Request::SetMtu).map_err(failed("the MTU"))?;
        set(ifreq().with_number(queue), Request::SetQueueLength).map_err(failed("the queue"))?;
        set(ifreq().with_address(address), Request::SetAddress).map_err(failed("the address"))?;
        set(
            ifreq().with_address(Ipv4Addr::BROADCAST),
            Request::SetNetmask,
        )
        .map_err(failed("the netmask"))?;
        // There is nobody to answer ARP requests.
        self.add_flags(name, libc::IFF_UP | libc::IFF_NOARP)?;
        queueing::set_pfifo_fast(self.index(name)?)
    }

    /// Gives an interface an additional address, with a netmask of 32 bits; `number` distinguishes
    /// it from others.
    pub fn add_address(
        &self,
        name: &str,
        number: usize,
        address: Ipv4Addr,
    ) -> Result<(), LabError> {
        let alias = format!("{name}:{number}");
        let set = |address, request| {
            let mut ifreq = Ifreq::new(&alias).with_address(address);
            ifreq.send(&self.socket, request)
        };
        set(address, Request::SetAddress)
            .and_then(|()| set(Ipv4Addr::BROADCAST, Request::SetNetmask))
            .map_err(|error| {
                LabError::system(format!("giving {name} the address {address}"), error)
            })
    }

    /// Brings the interface up.
    pub fn bring_up(&self, name: &str) -> Result<(), LabError> {
        self.add_flags(name, libc::IFF_UP)
    }

    fn add_flags(&self, name: &str, added: libc::c_int) -> Result<(), LabError> {
        let mut ifreq = Ifreq::new(name);
        ifreq
            .send(&self.socket, Request::Flags)
            .and_then(|()| {
                let flags = ifreq.flags() | added as libc::c_short;
                Ifreq::new(name)
                    .with_flags(flags)
                    .send(&self.socket, Request::SetFlags)
            })
            .map_err(|error| LabError::system(format!("setting {name} up"), error))
    }

    /// The interface's index.
    pub fn index(&self, name: &str) -> Result<u32, LabError> {
        name_to_index(&self.socket, name)
            .map_err(|error| LabError::system(format!("finding {name}"), error))
    }
}
