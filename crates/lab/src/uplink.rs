//! What a host sends, in memory that the kernel shares with this process: reading it takes no system
//! call.
//!
//! The filter of the host's device puts each packet into a BPF ring buffer (`bpf/uplink.bpf.c`), in the
//! order in which the device gets them.
//!
//! Source: Documentation/bpf/ringbuf.rst and kernel/bpf/ringbuf.c of Linux, for the ring's layout.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, OpenObject, set_print};
use nix::errno::Errno;

#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

static OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/uplink.bpf.o")));

/// Bit of a record's length: it is being written.
const BUSY: u32 = 1 << 31;
/// Bit of a record's length: there is nothing in it.
const DISCARDED: u32 = 1 << 30;
/// Before each record: its length, and what the kernel keeps there.
const RECORD_HEADER: usize = 8;
/// `struct record` before the packet.
const HEADER: usize = 24;
const PAGE: usize = 4096;

/// The packets that a host has sent and that are not read yet.
#[derive(Debug)]
pub struct Uplink {
    ring: MapHandle,
    /// Where the reader is, a page.
    consumer: Mapping,
    /// Where the writers are, a page, and the ring, twice.
    data: Mapping,
    /// `struct state`.
    state: Mapping,
    /// Bytes of the ring, a power of 2.
    size: usize,
    /// There is a [`Reader`].
    read: AtomicBool,
}

impl Uplink {
    /// The ring of a device, to which `attach` gives the filter. None where the kernel has no such
    /// thing, or does not let this process have it.
    pub fn new(attach: impl FnOnce(BorrowedFd<'_>) -> Result<(), Errno>) -> Option<Uplink> {
        let object = load()?;
        let ring = handle(&object, "packets")?;
        let state = handle(&object, ".bss.uplink")?;
        let size = ring.max_entries() as usize;
        let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
        let uplink = Uplink {
            consumer: Mapping::new(ring.as_fd(), 0, PAGE, read | write)?,
            data: Mapping::new(ring.as_fd(), PAGE, PAGE + 2 * size, read)?,
            state: Mapping::new(state.as_fd(), 0, PAGE, read | write)?,
            ring,
            size,
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

    /// Asks to be woken by the next packet: from now on the descriptor tells when there is one.
    pub fn sleep(&self) {
        self.asleep().store(1, Ordering::Relaxed);
        // Whoever looks at the ring now sees what was sent before the store is seen.
        fence(Ordering::SeqCst);
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

    fn consumed(&self) -> &AtomicU64 {
        // SAFETY: as above, for the reader's page.
        unsafe { AtomicU64::from_ptr(self.consumer.at(0).cast()) }
    }

    fn produced(&self) -> &AtomicU64 {
        // SAFETY: as above, for the writers' page.
        unsafe { AtomicU64::from_ptr(self.data.at(0).cast()) }
    }
}

impl AsFd for Uplink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

/// A packet in the ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Its place in the ring.
    at: usize,
    len: usize,
    /// Bytes of each segment that it is to be cut into; 0 if it is one.
    pub gso_size: u16,
}

/// Reads from the ring.
#[derive(Debug)]
pub struct Reader {
    uplink: Arc<Uplink>,
}

impl Reader {
    /// The next packets in order: as many as there is room for, or up to one that is to be cut, which is
    /// as much as many. Answers how many there are, and where the ring is to be released up to when all
    /// have been taken.
    pub fn look(&self, sent: &mut [Sent]) -> (usize, u64) {
        let uplink = &*self.uplink;
        let mut position = uplink.consumed().load(Ordering::Relaxed);
        let produced = uplink.produced().load(Ordering::Acquire);
        let mut count = 0;
        while position < produced && count < sent.len() {
            let at = PAGE + (position as usize & (uplink.size - 1));
            // SAFETY: the place is within the mapping, and records begin with an integer of 4 bytes.
            let length = unsafe { AtomicU32::from_ptr(uplink.data.at(at).cast()) };
            let length = length.load(Ordering::Acquire);
            if length & BUSY != 0 {
                break;
            }
            let whole = RECORD_HEADER + (length & !DISCARDED) as usize;
            position += whole.next_multiple_of(8) as u64;
            if length & DISCARDED != 0 {
                continue;
            }
            let at = at + RECORD_HEADER;
            // SAFETY: the record is complete and begins with these two integers; it lies within the
            // mapping, which holds the ring twice.
            let [len, gso_size] = unsafe { uplink.data.at(at).cast::<[u32; 2]>().read() };
            sent[count] = Sent {
                at: at + HEADER,
                len: len as usize,
                gso_size: gso_size as u16,
            };
            count += 1;
            if gso_size > 0 {
                break;
            }
        }
        (count, position)
    }

    /// A packet that has not been released.
    pub fn packet(&self, sent: Sent) -> &[u8] {
        // SAFETY: the packet is in the ring, and nothing is written there until it is released, for
        // which nobody may have this slice any more.
        unsafe { std::slice::from_raw_parts(self.uplink.data.at(sent.at), sent.len) }
    }

    /// Lets new packets come where those before `position` were.
    pub fn release(&mut self, position: u64) {
        self.uplink.consumed().store(position, Ordering::Release);
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

/// Memory that the kernel shares.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is nobody's in particular; who reads and writes it sees to it how.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(map: BorrowedFd<'_>, offset: usize, len: usize, protection: i32) -> Option<Mapping> {
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = NonNull::new(start.cast())?;
        Some(Mapping { start, len })
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.len);
        // SAFETY: the place is within the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and nothing borrowed from it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
