//! The heap of a process with a thread for each transfer.

/// Makes the C library keep little of what is freed. By default glibc has eight arenas per processor, each of which keeps
/// what its threads once needed. Once a large block has been freed, it takes later blocks of that size from there, too,
/// instead of from the kernel, and keeps twice as much free at each arena's end (mallopt(3)): both limits stay where they
/// were only if each is set before. Small blocks are kept apart ("fastbins"), and when they are joined to an arena's end,
/// nothing of it is returned.
pub(super) fn keep_little() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the calls take numbers and affect only later allocations.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 4);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_MXFAST, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 128 << 10);
    }
}

/// Returns whole pages that are free to the kernel, also from between blocks that are in use: by itself the C library
/// returns only what is free at an arena's end, and there the next session keeps it.
pub(super) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches no memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
