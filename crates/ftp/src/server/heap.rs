//! The heap of a process with a thread for each transfer.

/// Has the C library keep little of what is freed. By itself glibc has eight arenas a processor, each with
/// what its threads once needed, and once a large block was freed it takes the next ones of that size from
/// there, too, instead of from the kernel (mallopt(3)).
pub fn keep_little() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the calls take numbers and set what later allocations do.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 4);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}
