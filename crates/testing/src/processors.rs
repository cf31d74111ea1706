//! The processors of this machine.

use std::ops::Range;
use std::thread;

/// Their numbers.
pub fn processors() -> Range<usize> {
    0..thread::available_parallelism().map_or(1, usize::from)
}

/// This thread, and threads and processes that it starts from now on, run on the processor of that number
/// only; anywhere if there is none.
pub fn keep_to(processor: usize) {
    // SAFETY: the set is valid when it is all zeroes, and its size is its own.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
