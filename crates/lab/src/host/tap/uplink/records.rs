//! The reader's side of a BPF ring buffer.
//!
//! Source of the layout: Documentation/bpf/ringbuf.rst and kernel/bpf/ringbuf.c of Linux.

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapHandle};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::host::tap::MAX_BATCH;

/// Flag in a record's length: it is being written.
const BUSY: u32 = 1 << 31;
/// Flag in a record's length: it is empty.
const DISCARDED: u32 = 1 << 30;
/// Bytes before each record: its length and a field of the kernel's.
const RECORD_HEADER: usize = 8;
/// Bytes of `struct record` before the packet.
const HEADER: usize = 24;
pub(super) const PAGE: usize = 4096;

/// The records of one ring.
#[derive(Debug)]
pub(super) struct Records {
    /// A page with the reader's position.
    consumer: Mapping,
    /// A page with the writers' position, then the ring, mapped twice in a row.
    data: Mapping,
    /// Size of the ring, bytes, a power of two.
    size: usize,
}

/// Where a packet is in a ring.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Offset in the mapping.
    at: usize,
    len: usize,
    gso_size: u16,
}

/// A packet in a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<'a> {
    pub bytes: &'a [u8],
    /// Payload bytes of each segment that it is to be cut into; 0 if it is one segment.
    pub gso_size: u16,
}

/// The next packets of a ring. Dropping them frees their room for the kernel.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    records: &'a Records,
    places: [Place; MAX_BATCH],
    count: usize,
    /// Where the record after the last of them begins.
    end: u64,
}

impl Batch<'_> {
    /// True if there was no packet.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The packets in the order in which they were sent.
    pub(crate) fn packets(&self) -> impl Iterator<Item = Sent<'_>> {
        self.places[..self.count].iter().map(|place| Sent {
            // SAFETY: the packet lies within the mapping, which outlives `self`, and nothing is written there
            // until the room is freed, which ends the borrow of `self`.
            bytes: unsafe { std::slice::from_raw_parts(self.records.data.at(place.at), place.len) },
            gso_size: place.gso_size,
        })
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.records.consumed().store(self.end, Ordering::Release);
    }
}

impl Records {
    pub(super) fn new(ring: &MapHandle) -> Option<Records> {
        let size = ring.max_entries() as usize;
        let (read, write) = (ProtFlags::READ, ProtFlags::WRITE);
        Some(Records {
            consumer: Mapping::new(ring.as_fd(), 0, PAGE, read | write)?,
            data: Mapping::new(ring.as_fd(), PAGE, PAGE + 2 * size, read)?,
            size,
        })
    }

    fn consumed(&self) -> &AtomicU64 {
        // SAFETY: the reader's page lives as long as `self`, and begins with an integer that is only ever
        // changed atomically.
        unsafe { AtomicU64::from_ptr(self.consumer.at(0).cast()) }
    }

    fn produced(&self) -> &AtomicU64 {
        // SAFETY: as above, for the writers' page.
        unsafe { AtomicU64::from_ptr(self.data.at(0).cast()) }
    }

    /// True if the ring holds nothing, not even an unfinished record.
    pub(super) fn is_empty(&self) -> bool {
        self.consumed().load(Ordering::Relaxed) == self.produced().load(Ordering::Acquire)
    }

    /// The next packets in order: up to [`MAX_BATCH`], or up to one that is to be cut, which is as much work as
    /// many.
    ///
    /// # Safety
    ///
    /// No other batch of this ring exists: the first to be dropped would free what the other still shows.
    pub(super) unsafe fn batch(&self) -> Batch<'_> {
        let mut position = self.consumed().load(Ordering::Relaxed);
        let produced = self.produced().load(Ordering::Acquire);
        let mut places = [Place::default(); MAX_BATCH];
        let mut count = 0;
        while position < produced && count < places.len() {
            let at = PAGE + (position as usize & (self.size - 1));
            // SAFETY: the offset is within the mapping, and records begin with an integer of 4 bytes.
            let length = unsafe { AtomicU32::from_ptr(self.data.at(at).cast()) };
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
            let [len, gso_size] = unsafe { self.data.at(at).cast::<[u32; 2]>().read() };
            places[count] = Place {
                at: at + HEADER,
                len: len as usize,
                gso_size: gso_size as u16,
            };
            count += 1;
            if gso_size > 0 {
                break;
            }
        }
        Batch {
            records: self,
            places,
            count,
            end: position,
        }
    }
}

/// Memory shared with the kernel.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is not tied to a thread, and access through the raw pointers of [`Mapping::at`] is
// synchronised by the users.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a BPF map; `None` if the kernel refuses.
    pub(super) fn new(
        map: BorrowedFd<'_>,
        offset: usize,
        len: usize,
        protection: ProtFlags,
    ) -> Option<Mapping> {
        let (anywhere, flags) = (ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { mmap(anywhere, len, protection, flags, map, offset as u64) };
        let start = NonNull::new(start.ok()?.cast())?;
        Some(Mapping { start, len })
    }

    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.len);
        // SAFETY: the offset is within the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `self` owns the mapping, and nothing borrowed from it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
