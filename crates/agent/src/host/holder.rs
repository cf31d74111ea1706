//! Computes the windows that held connections offer, in a thread of its own.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwind_kernel::NetworkNamespaces;
use fairwind_transfer::background::Arrived;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, RingBufferBuilder};

use super::load::map;
use crate::attach::LEASE;
use crate::hold::{Arrivals, Hold};

/// Time between renewals of the lease.
const RENEWALS: Duration = Duration::from_millis(250);
/// Time between looks for connections of which nothing is told any more.
const SWEEPS: Duration = Duration::from_secs(1);

/// The thread, until this is dropped.
#[derive(Debug)]
pub(super) struct Holder {
    must_end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Holder {
    /// Starts it for the programs of the object; when this returns, the lease holds.
    pub(super) fn start(object: &Object) -> libbpf_rs::Result<Holder> {
        let handle = |name: &str| MapHandle::try_from(&map(object, name));
        let maps = Maps {
            samples: handle("samples")?,
            windows: handle("windows")?,
            held_until: handle("held_until")?,
            namespaces: handle("namespaces")?,
        };
        renew(&maps.held_until);
        let must_end = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&must_end);
        let hold = move || {
            if let Err(error) = follow(&maps, &is_over) {
                tracing::error!("downloads are no longer held down: {error}");
            }
        };
        let thread = thread::Builder::new().name("hold".to_owned()).spawn(hold);
        let failed = |error: std::io::Error| {
            libbpf_rs::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EAGAIN))
        };
        Ok(Holder {
            must_end,
            thread: Some(thread.map_err(failed)?),
        })
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.must_end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Of the programs.
struct Maps {
    samples: MapHandle,
    windows: MapHandle,
    held_until: MapHandle,
    namespaces: MapHandle,
}

fn renew(held_until: &MapHandle) {
    let until = fairwind_kernel::monotonic_ns() + LEASE.as_nanos() as u64;
    // Its memory is there from the start.
    let _ = held_until.update(&0u32.to_ne_bytes(), &until.to_ne_bytes(), MapFlags::ANY);
}

/// What the connections of every network namespace have received.
fn list(maps: &Maps, namespaces: &NetworkNamespaces) -> std::io::Result<Vec<Arrived>> {
    let mut arrived = Vec::new();
    let add = || {
        arrived.extend(Arrived::list()?);
        Ok(())
    };
    super::in_each(&maps.namespaces, namespaces, add, |error| error)?;
    Ok(arrived)
}

fn follow(maps: &Maps, is_over: &AtomicBool) -> libbpf_rs::Result<()> {
    let namespaces = NetworkNamespaces::default();
    let mut hold = Hold::default();
    let mut sweep_at = Duration::ZERO;
    let told = RefCell::new(Vec::new());
    let mut ring = RingBufferBuilder::new();
    ring.add(&maps.samples, |bytes| {
        told.borrow_mut().extend(parse(bytes));
        0
    })?;
    let ring = ring.build()?;
    while !is_over.load(Ordering::Relaxed) {
        renew(&maps.held_until);
        ring.poll_raw(RENEWALS);
        // Where they cannot be listed, their queue still can be seen.
        let _ = hold.look(|| list(maps, &namespaces));
        for arrivals in told.borrow_mut().drain(..) {
            if let Some(window) = hold.arrivals(&arrivals) {
                let (cookie, window) = (arrivals.cookie.to_ne_bytes(), window.to_ne_bytes());
                let _ = maps.windows.update(&cookie, &window, MapFlags::ANY);
            }
        }
        let now = Duration::from_nanos(fairwind_kernel::monotonic_ns());
        if now >= sweep_at {
            sweep_at = now + SWEEPS;
            hold.forget_silent(now);
        }
    }
    Ok(())
}

/// From `struct arrivals` of `bpf/host.bpf.c`.
fn parse(bytes: &[u8]) -> Option<Arrivals> {
    let (words, _) = bytes.as_chunks::<8>();
    let [cookie, at, received, halves, window] = *words.get(..5)? else {
        return None;
    };
    let [a, b, c, d, e, f, g, h] = halves;
    Some(Arrivals {
        cookie: u64::from_ne_bytes(cookie),
        at: Duration::from_nanos(u64::from_ne_bytes(at)),
        bytes: u64::from_ne_bytes(received),
        rtt_eighths_us: u32::from_ne_bytes([a, b, c, d]),
        mss: u32::from_ne_bytes([e, f, g, h]),
        window: u64::from_ne_bytes(window) as u32,
    })
}
