//! Batched reads and writes: many packets in one system call.
//!
//! Source: io_uring(7), io_uring_enter(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};

use super::arena::{Arena, PacketId};
use crate::host::tap::{MAX_BATCH, Tap};

/// An io_uring whose submissions are complete when the submitting call returns.
pub(super) struct Ring {
    ring: IoUring,
}

impl Ring {
    /// A ring for the calling thread and these devices, which are addressed by their position here. `None` if
    /// the kernel does not support this or does not permit it.
    pub(super) fn new<'a>(taps: impl Iterator<Item = &'a Arc<Tap>>) -> Option<Ring> {
        let files: Vec<RawFd> = taps.map(|tap| tap.as_fd().as_raw_fd()).collect();
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_coop_taskrun();
        let ring = builder.build(MAX_BATCH as u32).ok()?;
        ring.submitter().register_files(&files).ok()?;
        let mut ring = Ring { ring };
        let able = (0..files.len()).all(|device| ring.can_write_without_waiting(device));
        able.then_some(ring)
    }

    /// Whether the kernel supports writes to the device that do not block. Older kernels refuse all of them;
    /// this write is refused only for its length.
    fn can_write_without_waiting(&mut self, device: usize) -> bool {
        let too_short = [0];
        let entry = write(device, &too_short);
        self.submit([entry].into_iter())[0] == -libc::EINVAL
    }

    /// Reads a packet from a device into each of these slots. Returns the lengths, or negative error numbers:
    /// EAGAIN if there are no more packets.
    pub(super) fn read(
        &mut self,
        device: usize,
        arena: &mut Arena,
        slots: &[PacketId],
    ) -> [i32; MAX_BATCH] {
        self.submit(slots.iter().map(|&id| {
            let slot = arena.slot(id);
            let (file, len) = (types::Fixed(device as u32), slot.len() as u32);
            opcode::Read::new(file, slot.as_mut_ptr(), len)
                .offset(u64::MAX)
                .rw_flags(libc::RWF_NOWAIT)
                .build()
        }))
    }

    /// Writes frames to devices, in this order. Returns negative error numbers for those that could not be
    /// written.
    pub(super) fn write<'a>(
        &mut self,
        frames: impl ExactSizeIterator<Item = (usize, &'a [u8])>,
    ) -> [i32; MAX_BATCH] {
        let last = frames.len() - 1;
        // Success is reported for the last frame only, and means that all have been tried.
        self.submit(frames.enumerate().map(|(number, (device, frame))| {
            let entry = write(device, frame);
            if number == last {
                entry
            } else {
                entry.flags(squeue::Flags::SKIP_SUCCESS)
            }
        }))
    }

    /// Submits one to [`MAX_BATCH`] entries and waits until all are complete. Their buffers must not move
    /// meanwhile.
    fn submit(&mut self, entries: impl Iterator<Item = squeue::Entry>) -> [i32; MAX_BATCH] {
        let mut given = 0;
        for entry in entries.take(MAX_BATCH) {
            let entry = entry.user_data(given);
            // SAFETY: the callers borrow what the entries point to for longer than this call, which does not
            // return before the last entry is complete. None of them blocks, so they complete in order.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.expect("the ring has room for all orders of a call");
            given += 1;
        }
        let mut results = [0; MAX_BATCH];
        let mut done = false;
        while !done {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Returning would free memory that the kernel may still write to.
                Err(error) => {
                    eprintln!("io_uring: {error}");
                    std::process::abort();
                }
            }
            for completion in self.ring.completion() {
                results[completion.user_data() as usize] = completion.result();
                done |= completion.user_data() + 1 == given;
            }
        }
        results
    }
}

fn write(device: usize, frame: &[u8]) -> squeue::Entry {
    let (file, len) = (types::Fixed(device as u32), frame.len() as u32);
    opcode::Write::new(file, frame.as_ptr(), len)
        .offset(u64::MAX)
        .rw_flags(libc::RWF_NOWAIT)
        .build()
}
