//! The processors of this machine.

use std::ops::Range;
use std::thread;

/// The numbers of all processors.
pub fn processors() -> Range<usize> {
    0..thread::available_parallelism().map_or(1, usize::from)
}

/// Binds this thread, and threads and processes that it starts later, to the processor of this number.
/// No effect if there is none.
pub fn keep_to(processor: usize) {
    // SAFETY: an all-zero set is valid, and its size is passed with it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
