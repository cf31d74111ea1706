//! Devices of the TUN driver: network interfaces whose packets this process reads and writes. They are TAP
//! devices, with Ethernet headers, because the kernel handles packets written to those in fewer steps, and
//! TCP can merge them.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use std::sync::Arc;

use nix::errno::Errno;

use crate::LabError;

pub mod uplink;
pub mod vnet;

use uplink::Uplink;

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

/// Most packets read or written in one batch.
pub const MAX_BATCH: usize = 32;

/// Work that the device does for the host. In every case queues, losses and delays apply to single segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// None at all: the host segments what it sends, and computes and verifies checksums.
    Software,
    /// The host segments what it sends. Checksums are neither computed nor verified, as between hosts that
    /// share a machine.
    None,
    /// Sending: the device segments and computes checksums, as network cards do. Programs that capture the
    /// host's packets see large ones.
    #[default]
    Send,
    /// Sending and receiving: consecutive segments that are due together are delivered as one packet, as
    /// cards and drivers do.
    Both,
}

/// The emulator's side of an interface, which vanishes when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    offload: Offload,
    uplink: Option<Arc<Uplink>>,
}

impl Tun {
    /// Creates the interface in the network namespace of the calling thread. The kernel replaces `%d` in the
    /// name by the first free number there.
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
        let mut request = super::interface::request(name);
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: the descriptor is open, and the request is a whole ifreq that outlives the call, which
        // writes the name into it.
        unsafe { ioctls::set_iff(file.as_raw_fd(), &mut request) }
            .map_err(|error| failed("making", error))?;
        let name = super::interface::name(&request);
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
        // SAFETY: the descriptor is open, and the argument is an integer.
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

    /// Reads a packet with its [`vnet`] headers into the buffers, `first` before `rest`. `None` if there is
    /// no packet.
    #[inline]
    pub fn read(&self, first: &mut [u8], rest: &mut [u8]) -> io::Result<Option<usize>> {
        let mut buffers = [IoSliceMut::new(first), IoSliceMut::new(rest)];
        match nix::sys::uio::readv(&self.file, &mut buffers) {
            Ok(len) => Ok(Some(len)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a packet with its [`vnet`] headers: the host receives it before this returns.
    #[inline]
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        debug_assert!(packet.len() > vnet::LEN);
        nix::unistd::write(&self.file, packet)
            .map(drop)
            .map_err(Into::into)
    }

    /// Writes a packet in several parts, the first of which begins with the [`vnet`] headers.
    pub fn write_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        nix::sys::uio::writev(&self.file, parts)
            .map(drop)
            .map_err(Into::into)
    }

    /// The packets that the host sends, if they are not to be read from the device.
    pub fn uplink(&self) -> Option<&Arc<Uplink>> {
        self.uplink.as_ref()
    }

    /// Makes the descriptor readable once the host has sent something. Returns false if it already has.
    pub fn sleep(&self) -> bool {
        self.uplink.as_ref().is_none_or(|uplink| uplink.sleep())
    }

    /// Ends what [`Tun::sleep`] began; `told` if the descriptor was readable.
    pub fn wake(&self, told: bool) {
        let Some(uplink) = &self.uplink else { return };
        uplink.wake();
        if told {
            // One byte of a packet that is in the ring as a whole.
            let _ = self.read(&mut [0; vnet::LEN + 1], &mut []);
        }
    }

    /// The offload that it was created with.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// True if the device may return packets that it is to segment.
    pub fn cuts(&self) -> bool {
        matches!(self.offload, Offload::Send | Offload::Both)
    }
}

fn hardware_address(address: [u8; 6]) -> libc::sockaddr {
    // SAFETY: a sockaddr consists of integers, for which zero is valid.
    let mut socket_address: libc::sockaddr = unsafe { std::mem::zeroed() };
    socket_address.sa_family = libc::ARPHRD_ETHER;
    for (to, from) in socket_address.sa_data.iter_mut().zip(address) {
        *to = from as libc::c_char;
    }
    socket_address
}

/// Installs the eBPF program as the filter of every packet that the host sends.
fn set_filter(file: &File, program: BorrowedFd<'_>) -> Result<(), Errno> {
    let program = program.as_raw_fd();
    // A device with a program for choosing among its queues does not hash each packet for that. As this one
    // has one queue, the program never runs for it.
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
