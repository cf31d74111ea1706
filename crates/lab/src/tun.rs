//! TUN devices: a network interface whose packets this process reads and writes.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;

use crate::LabError;
use crate::vnet;

mod ioctls {
    nix::ioctl_write_ptr_bad!(
        set_iff,
        nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()),
        libc::ifreq
    );
    nix::ioctl_write_int_bad!(
        set_offload,
        nix::request_code_write!(b'T', 208, size_of::<libc::c_uint>())
    );
}

/// Who cuts what a host sends into segments and makes their checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// The device, as network cards do: programs that look at the host's packets see large ones.
    Device,
    /// The host: the device sees one packet a segment.
    #[default]
    Host,
}

/// One interface, seen from the emulator. It vanishes when this is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// Makes the interface in the network namespace of the calling thread.
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
            (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: the descriptor is open and the request a whole ifreq that outlives the call.
        unsafe { ioctls::set_iff(file.as_raw_fd(), &request) }
            .map_err(|error| failed("making", error))?;
        let features = match offload {
            Offload::Device => {
                libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN
            }
            Offload::Host => 0,
        };
        // SAFETY: the descriptor is open; the argument is a number.
        unsafe { ioctls::set_offload(file.as_raw_fd(), features as libc::c_int) }
            .map_err(|error| failed("setting the offloads of", error))?;
        Ok(Tun { file })
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

    /// Writes a packet behind its [`vnet`] header: the host receives it before this returns.
    #[inline]
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        debug_assert!(packet.len() > vnet::LEN);
        nix::unistd::write(&self.file, packet)
            .map(drop)
            .map_err(Into::into)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
