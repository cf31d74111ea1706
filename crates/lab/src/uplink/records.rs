//! A BPF ring buffer, seen from its reader.
//!
//! Source: Documentation/bpf/ringbuf.rst and kernel/bpf/ringbuf.c of Linux, for its layout.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapHandle};

/// Bit of a record's length: it is being written.
const BUSY: u32 = 1 << 31;
/// Bit of a record's length: there is nothing in it.
const DISCARDED: u32 = 1 << 30;
/// Before each record: its length, and what the kernel keeps there.
const RECORD_HEADER: usize = 8;
/// `struct record` before the packet.
const HEADER: usize = 24;
pub const PAGE: usize = 4096;

/// The records of one ring.
#[derive(Debug)]
pub struct Records {
    /// Where the reader is, a page.
    consumer: Mapping,
    /// Where the writers are, a page, and the ring, twice.
    data: Mapping,
    /// Bytes of the ring, a power of 2.
    size: usize,
}

/// A packet in a ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Its place in the ring.
    at: usize,
    len: usize,
    /// Bytes of each segment that it is to be cut into; 0 if it is one.
    pub gso_size: u16,
}

impl Records {
    pub fn new(ring: &MapHandle) -> Option<Records> {
        let size = ring.max_entries() as usize;
        let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
        Some(Records {
            consumer: Mapping::new(ring.as_fd(), 0, PAGE, read | write)?,
            data: Mapping::new(ring.as_fd(), PAGE, PAGE + 2 * size, read)?,
            size,
        })
    }

    fn consumed(&self) -> &AtomicU64 {
        // SAFETY: the reader's page lives as long as this, and begins with an integer that is only ever
        // changed in one piece.
        unsafe { AtomicU64::from_ptr(self.consumer.at(0).cast()) }
    }

    fn produced(&self) -> &AtomicU64 {
        // SAFETY: as above, for the writers' page.
        unsafe { AtomicU64::from_ptr(self.data.at(0).cast()) }
    }

    /// True if nothing is in it, not even what is still being written.
    pub fn is_empty(&self) -> bool {
        self.consumed().load(Ordering::Relaxed) == self.produced().load(Ordering::Acquire)
    }

    /// The next packets in order: as many as there is room for, or up to one that is to be cut, which is
    /// as much as many. Answers how many there are, and where the ring is to be released up to when all
    /// have been taken.
    pub fn look(&self, sent: &mut [Sent]) -> (usize, u64) {
        let mut position = self.consumed().load(Ordering::Relaxed);
        let produced = self.produced().load(Ordering::Acquire);
        let mut count = 0;
        while position < produced && count < sent.len() {
            let at = PAGE + (position as usize & (self.size - 1));
            // SAFETY: the place is within the mapping, and records begin with an integer of 4 bytes.
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
        unsafe { std::slice::from_raw_parts(self.data.at(sent.at), sent.len) }
    }

    /// Lets new packets come where those before `position` were. Nobody may have them any more.
    pub fn release(&self, position: u64) {
        self.consumed().store(position, Ordering::Release);
    }
}

/// Memory that the kernel shares.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is nobody's in particular; who reads and writes it sees to it how.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub fn new(map: BorrowedFd<'_>, offset: usize, len: usize, protection: i32) -> Option<Mapping> {
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

    pub fn at(&self, offset: usize) -> *mut u8 {
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
