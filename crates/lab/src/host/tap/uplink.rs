//! Packets that a host sends, in memory shared with the kernel: reading them takes no system call.
//!
//! The filter of the host's device (`bpf/uplink.bpf.c`) puts each packet into a BPF ring buffer, in the order
//! in which the device gets them: into a small one, which stays in the processors' caches, and, once that is
//! full, into a large one until the large one has been read empty.

mod records;

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use fairwind_bpf::messages;
use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder};
use rustix::mm::ProtFlags;

use records::{Batch, Mapping, PAGE, Records};

/// The packets that a host has sent and that have not been read.
#[derive(Debug)]
pub(crate) struct Uplink {
    packets: Records,
    /// Packets for which `packets` had no room. All in `packets` are older.
    spilled: Records,
    /// `struct state` of the filter.
    state: Mapping,
    /// Whether a [`Reader`] exists.
    read: AtomicBool,
}

impl Uplink {
    /// The rings of a device; `attach` installs the filter there. `None` if the kernel does not support this
    /// or does not permit it.
    pub(crate) fn new(attach: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>) -> Option<Uplink> {
        let object = load()?;
        let state = handle(&object, ".bss.uplink")?;
        let uplink = Uplink {
            packets: Records::new(&handle(&object, "packets")?)?,
            spilled: Records::new(&handle(&object, "spilled")?)?,
            state: Mapping::new(state.as_fd(), 0, PAGE, ProtFlags::READ | ProtFlags::WRITE)?,
            read: AtomicBool::new(false),
        };
        let program = object.progs().next()?;
        attach(program.as_fd()).ok()?;
        Some(uplink)
    }

    /// The reader; `None` while another one exists.
    pub(crate) fn reader(self: &Arc<Uplink>) -> Option<Reader> {
        let taken = self.read.swap(true, Ordering::AcqRel);
        (!taken).then(|| Reader {
            uplink: Arc::clone(self),
        })
    }

    /// Packets that the filter could not store, usually because both rings were full.
    pub(crate) fn lost(&self) -> u64 {
        // SAFETY: the state is a mapped page that lives as long as `self`; the integer at its byte 8 is only
        // ever changed atomically.
        unsafe { AtomicU64::from_ptr(self.state.at(8).cast()) }.load(Ordering::Relaxed)
    }

    /// Requests a wake-up: the next packet makes the device readable. Returns false if a packet is already
    /// there.
    pub(crate) fn request_wakeup(&self) -> bool {
        self.wakeup_requested().store(1, Ordering::Relaxed);
        // Pairs with the exchange in `bpf_ringbuf_submit`: either the filter sees the flag, or its packet is
        // seen below.
        fence(Ordering::SeqCst);
        self.packets.is_empty() && self.spilled.is_empty()
    }

    /// Cancels the wake-up.
    pub(crate) fn cancel_wakeup(&self) {
        self.wakeup_requested().store(0, Ordering::Relaxed);
    }

    fn wakeup_requested(&self) -> &AtomicU32 {
        // SAFETY: the state is a mapped page that lives as long as `self`, and begins with an integer that is
        // only ever changed atomically.
        unsafe { AtomicU32::from_ptr(self.state.at(0).cast()) }
    }
}

/// The only reader of an [`Uplink`].
#[derive(Debug)]
pub(crate) struct Reader {
    uplink: Arc<Uplink>,
}

impl Reader {
    /// The oldest packets that have not been read.
    pub(crate) fn batch(&mut self) -> Batch<'_> {
        let Uplink {
            packets, spilled, ..
        } = &*self.uplink;
        // Once something has spilled, the filter puts nothing into the small ring until the large one has
        // been read. So when a spilled packet is seen, everything in the small ring is older, and nothing
        // newer can arrive there.
        let oldest = if !spilled.is_empty() && packets.is_empty() {
            spilled
        } else {
            packets
        };
        // SAFETY: there is no other reader, and this one is borrowed as long as the batch exists.
        unsafe { oldest.batch() }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.uplink.read.store(false, Ordering::Release);
    }
}

/// Loads the filter and its maps. The reasons of a failure do not matter: packets can be read from the device
/// instead.
fn load() -> Option<Object> {
    let object = fairwind_bpf::object!("uplink.bpf.o");
    let load = || ObjectBuilder::default().open_memory(object)?.load();
    messages::discarded(load).ok()
}

fn handle(object: &Object, name: &str) -> Option<MapHandle> {
    let map = object.maps().find(|map| map.name() == OsStr::new(name))?;
    MapHandle::try_from(&map).ok()
}
