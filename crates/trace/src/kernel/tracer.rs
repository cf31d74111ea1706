//! Attaching the programs, requesting samples, taking events from the ring buffer.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use fairwind_bpf::messages;
use libbpf_rs::{
    Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, RingBuffer, RingBufferBuilder,
    libbpf_sys,
};

use super::sampling::{Listing, Sampling, run};
use super::{TraceError, check_requirements};
use crate::event::Event;
use crate::filter::{Filter, program_key};

/// The programs that are always attached.
const PROGRAMS: [&str; 2] = ["congestion", "set_state"];
const EVERY_ACK: &str = "ack";
const ADOPT: &str = "adopt";

/// Maximum number of events per call of [`Tracer::take`], so that a flood does not occupy the
/// reader forever.
const MAX_EVENTS_PER_TAKE: usize = 1 << 16;

/// What is traced, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which connections are traced.
    pub filter: Filter,
    /// Whether every ACK that arrives gives a sample.
    pub every_ack: bool,
    /// Whether samples include the state of the connection's congestion control.
    pub control_state: bool,
    /// Size of the ring buffer, bytes; rounded up to a power of two of at least a page. A sample
    /// takes 264 of them, and 104 more with the state of the congestion control.
    pub ring_bytes: u32,
}

impl Default for Options {
    /// All connections, samples only on request, 16 MiB.
    fn default() -> Options {
        Options {
            filter: Filter::default(),
            every_ack: false,
            control_state: false,
            ring_bytes: 16 << 20,
        }
    }
}

/// What the trace did not see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that found no room in the ring buffer, per CPU.
    pub lost: Vec<u64>,
    /// Matching connections that are not traced, as the kernel had no memory for them.
    pub unwatched: u64,
    /// Runs of a program that the kernel skipped because the same program was already running on
    /// that CPU: each may have been a sample.
    pub missed_runs: u64,
    /// Segments received by established connections that the kernel did not report to the tracer;
    /// counted only if every ACK is sampled. Each may have been a sample. Segments whose run counts
    /// as missed are included.
    pub skipped: u64,
}

/// The tracer in the kernel. Dropping it removes everything from the kernel.
#[derive(Debug)]
pub struct Tracer {
    ring: RingBuffer<'static>,
    reader: Rc<Reader>,
    sampling: Sampling,
    _attached: Vec<Link>,
    object: Object,
}

impl Tracer {
    /// Attaches the tracer. From now on, events wait in the ring buffer for [`Tracer::take`],
    /// starting with the connections that are already open.
    ///
    /// # Errors
    ///
    /// Fails if the kernel lacks a feature, the process lacks a capability, or the kernel refuses a
    /// program; see [`TraceError`].
    pub fn attach(options: &Options) -> Result<Tracer, TraceError> {
        check_requirements()?;
        messages::collect();
        let (object, listing) = load_either(options)?;
        choose(&object, &options.filter).map_err(|error| refused(&error))?;
        let every_ack = options.every_ack.then_some(EVERY_ACK);
        let attached = PROGRAMS.into_iter().chain(every_ack);
        let attached = attached.map(|name| program(&object, name, |program| program.attach()));
        let attached = attached.collect::<Result<_, _>>()?;
        let connections = map(&object, "connections");
        let iterate = |name| {
            program(&object, name, |program| match listing {
                Listing::Storage => program.attach_iter(connections.as_fd()),
                Listing::Table => program.attach(),
            })
        };
        let [all, closing] = listing.programs();
        let sampling = Sampling::new(listing, iterate(all)?, iterate(closing)?);
        let reader = Rc::new(Reader::default());
        let ring = ring(&object, Rc::clone(&reader)).map_err(|error| refused(&error))?;
        let adopt = program(&object, ADOPT, |program| program.attach())?;
        run(&adopt)?;
        Ok(Tracer {
            ring,
            reader,
            sampling,
            _attached: attached,
            object,
        })
    }

    /// Whether each request for samples goes over all connections of the network namespaces in question, because the
    /// kernel refuses to list only those that are traced.
    pub fn visits_all(&self) -> bool {
        self.sampling.visits_all()
    }

    /// Requests a sample of every traced connection.
    ///
    /// # Errors
    ///
    /// Fails if the iterator over the connections cannot be created or read.
    pub fn sample(&self) -> Result<(), TraceError> {
        self.sampling.all()
    }

    /// Requests a sample of the connections that may still receive ACKs but are no longer
    /// established, so that their ACKs give no samples.
    ///
    /// # Errors
    ///
    /// Fails if the iterator over the connections cannot be created or read.
    pub fn sample_closing(&self) -> Result<(), TraceError> {
        self.sampling.closing()
    }

    /// Takes the waiting events and returns their number. Events of one connection come in order.
    ///
    /// # Errors
    ///
    /// Fails if the ring buffer cannot be read.
    pub fn take(&self, mut each: impl FnMut(Event<'_>)) -> Result<usize, TraceError> {
        let mut each = |event: Event<'_>| {
            if let Event::Open(identity) | Event::Identity(identity) = event {
                self.sampling.note(identity.netns);
            }
            each(event);
        };
        let taken = self
            .reader
            .lend(&mut each, || self.ring.consume_raw_n(MAX_EVENTS_PER_TAKE));
        usize::try_from(taken)
            .map_err(|_| TraceError::Failed(libbpf_rs::Error::from_raw_os_error(-taken)))
    }

    /// What the trace has not seen so far.
    ///
    /// # Errors
    ///
    /// Fails if the kernel's counters cannot be read.
    pub fn counts(&self) -> Result<Counts, TraceError> {
        let cpus = map(&self.object, "counts")
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(TraceError::Failed)?
            .unwrap_or_default();
        let word = |bytes: &[u8], index: usize| {
            let word = bytes.get(8 * index..8 * index + 8);
            u64::from_ne_bytes(word.and_then(|w| w.try_into().ok()).unwrap_or_default())
        };
        let programs = self.object.progs();
        Ok(Counts {
            lost: cpus.iter().map(|bytes| word(bytes, 0)).collect(),
            unwatched: cpus.iter().map(|bytes| word(bytes, 1)).sum(),
            missed_runs: programs.map(|program| missed(program.as_fd())).sum(),
            skipped: cpus.iter().map(|bytes| word(bytes, 3)).sum(),
        })
    }
}

type Each<'call> = dyn FnMut(Event<'_>) + 'call;

/// The current receiver of events. The ring buffer keeps its callback for good, but each call of
/// [`Tracer::take`] brings another receiver.
#[derive(Default)]
struct Reader(Cell<Option<*mut Each<'static>>>);

impl std::fmt::Debug for Reader {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Reader")
    }
}

impl Reader {
    /// Passes events to `each` while `run` runs.
    fn lend<T>(&self, each: &mut Each<'_>, run: impl FnOnce() -> T) -> T {
        struct Back<'reader>(&'reader Reader);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.0.set(None);
            }
        }
        let each: *mut Each<'_> = each;
        // SAFETY: only the lifetime changes, and `Back` removes the pointer before that lifetime ends.
        let each = unsafe { mem::transmute::<*mut Each<'_>, *mut Each<'static>>(each) };
        self.0.set(Some(each));
        let _back = Back(self);
        run()
    }

    fn read(&self, bytes: &[u8]) {
        // The pointer is taken out during the call, so that a nested read cannot borrow `each` again.
        if let (Some(each), Some(event)) = (self.0.take(), Event::parse(bytes)) {
            // SAFETY: set by `lend`, which is still running and has borrowed it exclusively.
            unsafe { (*each)(event) };
            self.0.set(Some(each));
        }
    }
}

/// The programs, loaded, and how they list the connections. Some kernels have the iterator over socket storage but
/// refuse it.
fn load_either(options: &Options) -> Result<(Object, Listing), TraceError> {
    let error = match load(options, Listing::Storage) {
        Ok(object) => return Ok((object, Listing::Storage)),
        Err(error) => refused(&error),
    };
    let Ok(object) = load(options, Listing::Table) else {
        messages::take();
        return Err(error);
    };
    Ok((object, Listing::Table))
}

fn load(options: &Options, listing: Listing) -> libbpf_rs::Result<Object> {
    let ring_bytes = options.ring_bytes.clamp(4096, 1 << 30).next_power_of_two();
    let filter = &options.filter;
    let mut open = ObjectBuilder::default()
        .name("fairwind_trace")?
        .open_memory(fairwind_bpf::object!("trace.bpf.o"))?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match name.as_str() {
            ".rodata.settings" => map.set_initial_value(&settings(options, ring_bytes)?)?,
            "ring" => map.set_max_entries(ring_bytes)?,
            name => {
                if let Some((_, keys)) = filter_keys(filter).iter().find(|(map, _)| *map == name) {
                    map.set_max_entries((keys.len() as u32).max(1))?;
                }
            }
        }
    }
    if !options.every_ack {
        leave_out(&mut open, EVERY_ACK);
    }
    for name in listing.other().programs() {
        leave_out(&mut open, name);
    }
    open.load()
}

/// The bytes of `struct settings` of `bpf/event.h`.
fn settings(options: &Options, ring_bytes: u32) -> libbpf_rs::Result<Vec<u8>> {
    let cpus = libbpf_rs::num_possible_cpus()? as u32;
    let mut bytes = ring_bytes.to_ne_bytes().to_vec();
    bytes.extend(cpus.to_ne_bytes());
    // Without /proc, processes are not identified.
    let pid_namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |entry| entry.ino() as u32);
    bytes.extend(pid_namespace.to_ne_bytes());
    let chooses = |(_, keys): &(&str, Vec<Vec<u8>>)| u8::from(!keys.is_empty());
    bytes.extend(filter_keys(&options.filter).iter().map(chooses));
    bytes.extend([u8::from(options.control_state), 0, 0]);
    Ok(bytes)
}

/// The filter's maps with their keys, in the order of `struct settings`.
fn filter_keys(filter: &Filter) -> [(&'static str, Vec<Vec<u8>>); 5] {
    [
        ("networks", keys(&filter.hosts, |network| network.key())),
        (
            "ports",
            keys(&filter.ports, |&port| u32::from(port).to_ne_bytes().into()),
        ),
        ("programs", keys(&filter.programs, |name| program_key(name))),
        (
            "namespaces",
            keys(&filter.namespaces, |inode| inode.to_ne_bytes().into()),
        ),
        (
            "cgroups",
            keys(&filter.cgroups, |inode| inode.to_ne_bytes().into()),
        ),
    ]
}

fn keys<T>(choices: &[T], key: impl Fn(&T) -> Vec<u8>) -> Vec<Vec<u8>> {
    choices.iter().map(key).collect()
}

/// The ring buffer, whose records go to the reader.
fn ring(object: &Object, reader: Rc<Reader>) -> libbpf_rs::Result<RingBuffer<'static>> {
    let map = map(object, "ring");
    let mut builder = RingBufferBuilder::new();
    builder.add(&map, move |bytes| {
        reader.read(bytes);
        0
    })?;
    builder.build()
}

fn choose(object: &Object, filter: &Filter) -> libbpf_rs::Result<()> {
    for (name, keys) in filter_keys(filter) {
        for key in keys {
            map(object, name).update(&key, &[1], MapFlags::ANY)?;
        }
    }
    Ok(())
}

fn leave_out(open: &mut OpenObject, name: &str) {
    for mut program in open.progs_mut() {
        if program.name() == OsStr::new(name) {
            program.set_autoload(false);
        }
    }
}

fn program(
    object: &Object,
    name: &str,
    attach: impl FnOnce(&libbpf_rs::ProgramMut<'_>) -> libbpf_rs::Result<Link>,
) -> Result<Link, TraceError> {
    let program = object
        .progs_mut()
        .find(|program| program.name() == OsStr::new(name))
        .expect("trace.bpf.c has the program");
    attach(&program).map_err(|error| refused(&error))
}

fn map<'object>(object: &'object Object, name: &str) -> Map<'object> {
    object
        .maps()
        .find(|map| map.name() == OsStr::new(name))
        .expect("trace.bpf.c has the map")
}

/// Runs of a program that the kernel skipped. A program that is not loaded gives no information and
/// has missed nothing.
fn missed(program: BorrowedFd<'_>) -> u64 {
    // SAFETY: all-zero bytes are a valid `bpf_prog_info` (integers and null pointers), and the
    // kernel writes at most `len` bytes.
    unsafe {
        let mut info: libbpf_sys::bpf_prog_info = mem::zeroed();
        let mut len = size_of_val(&info) as u32;
        let failed =
            libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut len) != 0;
        if failed { 0 } else { info.recursion_misses }
    }
}

fn refused(error: &libbpf_rs::Error) -> TraceError {
    TraceError::Refused {
        reason: error.to_string(),
        log: messages::take(),
    }
}

#[cfg(test)]
mod tests;
