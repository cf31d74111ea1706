//! Output of this crate's eBPF programs: a ring buffer, and a count of what found no room in it.

use std::ffi::OsStr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use libbpf_rs::{Map, MapCore, MapFlags, Object, RingBufferBuilder};
use zerocopy::FromBytes;

/// How often the ring buffers are emptied. The recorder's holds some 120,000 calls, the tap's some
/// 32,000 events.
const FETCH: Duration = Duration::from_millis(20);

/// Runs `work` on another thread and meanwhile takes the records from the ring buffer named `ring`.
pub(crate) fn fetch<E: FromBytes, R: Send>(
    object: &Object,
    ring: &str,
    mut take: impl FnMut(E),
    work: impl FnOnce() -> R + Send,
) -> libbpf_rs::Result<R> {
    let map = find(object, ring);
    let mut builder = RingBufferBuilder::new();
    builder.add(&map, |bytes| {
        take(E::read_from_bytes(bytes).expect("both sides lay out the same record"));
        0
    })?;
    let ring = builder.build()?;
    thread::scope(|scope| {
        // Closes when the work has ended.
        let (working, end) = mpsc::channel::<()>();
        let work = scope.spawn(move || {
            let _working = working;
            work()
        });
        while end.recv_timeout(FETCH) == Err(RecvTimeoutError::Timeout) {
            ring.consume()?;
        }
        ring.consume()?;
        Ok(work
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Number of records that found no room: the first word of the map `counts`.
pub(crate) fn lost(object: &Object, counts: &str) -> libbpf_rs::Result<u64> {
    let value = find(object, counts).lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?;
    let value = value.and_then(|bytes| bytes[..8].try_into().ok());
    Ok(u64::from_ne_bytes(value.expect("an array has its entry")))
}

fn find<'a>(object: &'a Object, name: &str) -> Map<'a> {
    object
        .maps()
        .find(|map| map.name() == OsStr::new(name))
        .expect("the object has the map")
}
