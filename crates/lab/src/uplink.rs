//! What a host sends, in memory that the kernel shares with this process: reading it takes no system
//! call.
//!
//! The filter of the host's device puts each packet into a BPF ring buffer (`bpf/uplink.bpf.c`), in the
//! order in which the device gets them: into a small one, which stays in the processors' caches, and, where
//! that is full, into a large one, until that has been read.

mod records;

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, OpenObject, set_print};
use nix::errno::Errno;

use records::{Mapping, PAGE, Records};

pub use records::Sent;

#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

static OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/uplink.bpf.o")));

/// The packets that a host has sent and that are not read yet.
#[derive(Debug)]
pub struct Uplink {
    packets: Records,
    /// Those that found no room there; all in `packets` are older.
    spilled: Records,
    /// `struct state`.
    state: Mapping,
    /// There is a [`Reader`].
    read: AtomicBool,
}

impl Uplink {
    /// The ring of a device, to which `attach` gives the filter. None where the kernel has no such
    /// thing, or does not let this process have it.
    pub fn new(attach: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>) -> Option<Uplink> {
        let object = load()?;
        let state = handle(&object, ".bss.uplink")?;
        let uplink = Uplink {
            packets: Records::new(&handle(&object, "packets")?)?,
            spilled: Records::new(&handle(&object, "spilled")?)?,
            state: Mapping::new(state.as_fd(), 0, PAGE, libc::PROT_READ | libc::PROT_WRITE)?,
            read: AtomicBool::new(false),
        };
        let program = object.progs().next()?;
        attach(program.as_fd()).ok()?;
        Some(uplink)
    }

    /// Its only reader, until that is dropped.
    pub fn reader(self: &Arc<Uplink>) -> Option<Reader> {
        let taken = self.read.swap(true, Ordering::AcqRel);
        (!taken).then(|| Reader {
            uplink: Arc::clone(self),
        })
    }

    /// Packets that the host has sent and that found no room.
    pub fn lost(&self) -> u64 {
        // SAFETY: the state is a page, and there is an integer at its byte 8 that is only ever changed
        // in one piece.
        unsafe { AtomicU64::from_ptr(self.state.at(8).cast()) }.load(Ordering::Relaxed)
    }

    /// Asks to be woken by the next packet: the device then has something to be read. False if there is
    /// a packet already.
    pub fn sleep(&self) -> bool {
        self.asleep().store(1, Ordering::Relaxed);
        // Whoever looks at the ring now sees what was sent before the store is seen.
        fence(Ordering::SeqCst);
        self.packets.is_empty() && self.spilled.is_empty()
    }

    /// Asks not to be woken.
    pub fn wake(&self) {
        self.asleep().store(0, Ordering::Relaxed);
    }

    fn asleep(&self) -> &AtomicU32 {
        // SAFETY: the state is a page, which lives as long as this, and begins with an integer that is
        // only ever changed in one piece.
        unsafe { AtomicU32::from_ptr(self.state.at(0).cast()) }
    }
}

/// Reads what the host sends.
#[derive(Debug)]
pub struct Reader {
    uplink: Arc<Uplink>,
}

impl Reader {
    /// Where the next packets are.
    pub fn next(&mut self) -> &Records {
        let Uplink {
            packets, spilled, ..
        } = &*self.uplink;
        // The filter leaves the small ring alone from when something has spilled until that has been
        // read. So once that is seen, what is in the small ring is older, and stays all that is.
        match !spilled.is_empty() && packets.is_empty() {
            true => spilled,
            false => packets,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.uplink.read.store(false, Ordering::Release);
    }
}

/// The filter and its maps. The kernel's reasons are nobody's concern: there is another way to read.
fn load() -> Option<Object> {
    let print = set_print(None);
    let object = ObjectBuilder::default().open_memory(&OBJECT.0);
    let object = object.and_then(OpenObject::load);
    set_print(print);
    object.ok()
}

fn handle(object: &Object, name: &str) -> Option<MapHandle> {
    let map = object.maps().find(|map| map.name() == OsStr::new(name))?;
    MapHandle::try_from(&map).ok()
}
