//! TAP devices: network interfaces whose Ethernet frames this process reads and writes. The frames hold IP
//! packets; the kernel handles them in fewer steps than the bare packets of a TUN device, and TCP can merge
//! them.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use fairwind_kernel::checked;
use rustix::io::Errno;

use crate::error::{During, LabError};

pub(crate) mod uplink;
pub(crate) mod vnet;
pub(crate) mod words;

use uplink::Uplink;

/// Most packets read or written in one batch.
pub(crate) const MAX_BATCH: usize = 32;

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
pub(crate) struct Tap {
    file: File,
    name: String,
    offload: Offload,
    uplink: Option<Arc<Uplink>>,
}

impl Tap {
    /// Creates the interface in the network namespace of the calling thread. The kernel replaces `%d` in the
    /// name by the first free number there.
    pub(crate) fn create(name: &str, offload: Offload) -> Result<Tap, LabError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(LabError::NoTun)?;
        let name = attach(&file, name).during(format!("making the TUN device {name}"))?;
        set_offload(&file, offload)
            .during(format!("setting the offloads of the TUN device {name}"))?;
        let uplink = Uplink::new(|filter| set_filter(&file, filter));
        Ok(Tap {
            file,
            name,
            offload,
            uplink: uplink.map(Arc::new),
        })
    }

    /// The interface's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reads a packet with its [`vnet`] headers into the buffers, `first` before `rest`. `None` if there is
    /// no packet.
    #[inline]
    pub(crate) fn read(&self, first: &mut [u8], rest: &mut [u8]) -> io::Result<Option<usize>> {
        let mut buffers = [IoSliceMut::new(first), IoSliceMut::new(rest)];
        match rustix::io::readv(&self.file, &mut buffers) {
            Ok(len) => Ok(Some(len)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a packet with its [`vnet`] headers: the host receives it before this returns.
    #[inline]
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        debug_assert!(packet.len() > vnet::LEN);
        rustix::io::write(&self.file, packet)?;
        Ok(())
    }

    /// Writes a packet in several parts, the first of which begins with the [`vnet`] headers.
    pub(crate) fn write_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        rustix::io::writev(&self.file, parts)?;
        Ok(())
    }

    /// The packets that the host sends, if they are not to be read from the device.
    pub(crate) fn uplink(&self) -> Option<&Arc<Uplink>> {
        self.uplink.as_ref()
    }

    /// Requests a wake-up: the descriptor becomes readable once the host has sent something. Returns false if
    /// it already has.
    pub(crate) fn request_wakeup(&self) -> bool {
        self.uplink
            .as_ref()
            .is_none_or(|uplink| uplink.request_wakeup())
    }

    /// Ends what [`Tap::request_wakeup`] began; `readable` if the descriptor was.
    pub(crate) fn end_wakeup(&self, readable: bool) {
        let Some(uplink) = &self.uplink else { return };
        uplink.cancel_wakeup();
        if readable {
            // One byte of a packet that is in the ring as a whole.
            let _ = self.read(&mut [0; vnet::LEN + 1], &mut []);
        }
    }

    /// The offload that it was created with.
    pub(crate) fn offload(&self) -> Offload {
        self.offload
    }

    /// True if the device may return packets that it is to segment.
    pub(crate) fn may_return_unsegmented(&self) -> bool {
        matches!(self.offload, Offload::Send | Offload::Both)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes the descriptor of /dev/net/tun an interface. Returns the name that the kernel has given it.
fn attach(file: &File, name: &str) -> io::Result<String> {
    // SAFETY: an ifreq consists of integers and a union of such, for which zero is valid.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = ifreq.ifr_name.len() - 1;
    for (to, from) in ifreq.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    ifreq.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the call reads and writes an ifreq.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut ifreq) })?;
    let name = ifreq.ifr_name.iter().map(|&c| char::from(c as u8));
    Ok(name.take_while(|&c| c != '\0').collect())
}

/// Sets what the host may leave to the device.
fn set_offload(file: &File, offload: Offload) -> io::Result<()> {
    let features = match offload {
        Offload::Send | Offload::Both => {
            libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN
        }
        Offload::None => libc::TUN_F_CSUM,
        Offload::Software => 0,
    };
    // SAFETY: the call takes an integer.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, features) }).map(drop)
}

/// Installs the eBPF program as the filter of every packet that the host sends.
fn set_filter(file: &File, program: BorrowedFd<'_>) -> io::Result<()> {
    // A device with a program for choosing among its queues does not hash each packet for that. As this one
    // has one queue, the program never runs for it.
    for request in [libc::TUNSETSTEERINGEBPF, libc::TUNSETFILTEREBPF] {
        let program: libc::c_int = program.as_raw_fd();
        // SAFETY: the call reads an integer.
        checked(unsafe { libc::ioctl(file.as_raw_fd(), request, &raw const program) })?;
    }
    Ok(())
}
