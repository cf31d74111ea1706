//! Devices of the TUN driver: a network interface whose packets this process reads and writes. They are
//! TAP devices, with Ethernet headers, because the kernel makes packets of what is written to those in
//! fewer steps, and TCP can join them.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use std::sync::Arc;

use nix::errno::Errno;

use crate::LabError;
use crate::uplink::Uplink;
use crate::vnet;

mod ioctls {
    nix::ioctl_read_bad!(
        set_iff,
        nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()),
        libc::ifreq
    );
    nix::ioctl_write_int_bad!(
        set_offload,
        nix::request_code_write!(b'T', 208, size_of::<libc::c_uint>())
    );
    nix::ioctl_write_ptr_bad!(set_address, libc::SIOCSIFHWADDR as libc::Ioctl, libc::ifreq);
    nix::ioctl_write_ptr_bad!(
        set_steering,
        nix::request_code_read!(b'T', 224, size_of::<libc::c_int>()),
        libc::c_int
    );
    nix::ioctl_write_ptr_bad!(
        set_filter,
        nix::request_code_read!(b'T', 225, size_of::<libc::c_int>()),
        libc::c_int
    );
}

/// What the device takes off the host's hands. Whatever it is, queues, losses and delays see one
/// packet a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Nothing at all: the host cuts what it sends into segments and makes and checks their checksums.
    Software,
    /// One packet a segment. Checksums alone stay to be made and go unchecked, as between hosts that
    /// share a machine.
    None,
    /// What is sent: the device cuts and makes checksums, as network cards do. Programs that look at
    /// the host's packets see large ones.
    #[default]
    Send,
    /// What is received as well: segments that follow each other and are due together are handed over
    /// as one packet, as cards and drivers do.
    Both,
}

/// One interface, seen from the emulator. It vanishes when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    offload: Offload,
    uplink: Option<Arc<Uplink>>,
}

impl Tun {
    /// Makes the interface in the network namespace of the calling thread. `%d` in the name stands for
    /// the first number that is free there.
    pub fn create(name: &str, offload: Offload) -> Result<Tun, LabError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(LabError::NoTun)?;
        let failed = |action: &str, error: Errno| {
            LabError::system(format!("{action} the TUN device {name}"), error)
        };
        let mut request = crate::interface::request(name);
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: the descriptor is open and the request a whole ifreq that outlives the call, which
        // writes the name into it.
        unsafe { ioctls::set_iff(file.as_raw_fd(), &mut request) }
            .map_err(|error| failed("making", error))?;
        let name = crate::interface::name(&request);
        request.ifr_ifru.ifru_hwaddr = hardware_address(vnet::ADDRESS);
        // SAFETY: as above; the call reads the address.
        unsafe { ioctls::set_address(file.as_raw_fd(), &request) }
            .map_err(|error| failed("setting the address of", error))?;
        let features = match offload {
            Offload::Send | Offload::Both => {
                libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN
            }
            Offload::None => libc::TUN_F_CSUM,
            Offload::Software => 0,
        };
        // SAFETY: the descriptor is open; the argument is a number.
        unsafe { ioctls::set_offload(file.as_raw_fd(), features as libc::c_int) }
            .map_err(|error| failed("setting the offloads of", error))?;
        let uplink = Uplink::new(|filter| set_filter(&file, filter));
        Ok(Tun {
            file,
            name,
            offload,
            uplink: uplink.map(Arc::new),
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads a packet behind its [`vnet`] header into the buffers, the first of them first. None if
    /// there is none.
    #[inline]
    pub fn read(&self, first: &mut [u8], rest: &mut [u8]) -> io::Result<Option<usize>> {
        let mut buffers = [IoSliceMut::new(first), IoSliceMut::new(rest)];
        match nix::sys::uio::readv(&self.file, &mut buffers) {
            Ok(len) => Ok(Some(len)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a packet behind its [`vnet`] headers: the host receives it before this returns.
    #[inline]
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        debug_assert!(packet.len() > vnet::LEN);
        nix::unistd::write(&self.file, packet)
            .map(drop)
            .map_err(Into::into)
    }

    /// Writes a packet in several parts, the first of which begins with its [`vnet`] header.
    pub fn write_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        nix::sys::uio::writev(&self.file, parts)
            .map(drop)
            .map_err(Into::into)
    }

    /// What the host sends, where it is not to be read from the device.
    pub fn uplink(&self) -> Option<&Arc<Uplink>> {
        self.uplink.as_ref()
    }

    /// Says that the descriptor is to tell when the host has sent something. False if it already has.
    pub fn sleep(&self) -> bool {
        self.uplink.as_ref().is_none_or(|uplink| uplink.sleep())
    }

    /// Ends what [`Tun::sleep`] began; `told` if the descriptor has told.
    pub fn wake(&self, told: bool) {
        let Some(uplink) = &self.uplink else { return };
        uplink.wake();
        if told {
            // One byte of a packet, which is in the ring as a whole.
            let _ = self.read(&mut [0; vnet::LEN + 1], &mut []);
        }
    }

    /// What the device does for the host.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// True if a packet that is read may be one that the device is to cut into segments.
    pub fn cuts(&self) -> bool {
        matches!(self.offload, Offload::Send | Offload::Both)
    }
}

fn hardware_address(address: [u8; 6]) -> libc::sockaddr {
    // SAFETY: a sockaddr is numbers, for which zero is valid.
    let mut socket_address: libc::sockaddr = unsafe { std::mem::zeroed() };
    socket_address.sa_family = libc::ARPHRD_ETHER;
    for (to, from) in socket_address.sa_data.iter_mut().zip(address) {
        *to = from as libc::c_char;
    }
    socket_address
}

/// Has every packet that the host sends go to the eBPF program of this descriptor.
fn set_filter(file: &File, program: BorrowedFd<'_>) -> Result<(), Errno> {
    let program = program.as_raw_fd();
    // A device that has a program to choose among its queues does not make a hash of each packet for
    // it, and this one has one queue: the program never runs for that.
    // SAFETY: here and below, both descriptors are open, and the call reads an integer.
    unsafe { ioctls::set_steering(file.as_raw_fd(), &program) }?;
    // SAFETY: as above.
    unsafe { ioctls::set_filter(file.as_raw_fd(), &program) }.map(drop)
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
