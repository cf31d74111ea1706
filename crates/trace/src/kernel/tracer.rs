//! Attaching the programs, asking for samples, taking what comes out of the ring buffer.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::Read;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;

use libbpf_rs::{
    Iter, Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, PrintLevel, RingBuffer,
    RingBufferBuilder, libbpf_sys, set_print,
};

use super::{TraceError, check_requirements};
use crate::event::Event;
use crate::filter::Filter;

/// libelf wants the object aligned.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o")));

/// The programs that are always attached.
const PROGRAMS: [&str; 2] = ["congestion", "set_state"];
const EVERY_ACK: &str = "ack";
const TICK: &str = "tick";
const TICK_CLOSING: &str = "tick_closing";
const ADOPT: &str = "adopt";

/// Events that are taken at once: so many stay in the processor's cache.
const AT_ONCE: usize = 256;
/// Times that this many are taken at most, so that a flood does not keep the reader for ever.
const TIMES: usize = 256;

/// What is traced, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which connections.
    pub filter: Filter,
    /// Whether every ACK that arrives gives a sample.
    pub every_ack: bool,
    /// Size of the ring buffer, bytes; rounded up to a power of two of at least a page. A sample
    /// takes 264 of them.
    pub ring_bytes: u32,
}

impl Default for Options {
    /// All connections, samples only on demand, 16 MiB.
    fn default() -> Options {
        Options {
            filter: Filter::default(),
            every_ack: false,
            ring_bytes: 16 << 20,
        }
    }
}

/// What the trace did not see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that found no room in the ring buffer, by CPU.
    pub lost: Vec<u64>,
    /// Connections that match but are not traced, since the kernel had no memory for it.
    pub unwatched: u64,
    /// Runs of a program that the kernel left out, since the same program was just running on the
    /// same CPU: each may have been a sample.
    pub missed_runs: u64,
}

/// The tracer in the kernel. When it is dropped, nothing of it stays.
#[derive(Debug)]
pub struct Tracer {
    ring: RingBuffer<'static>,
    events: Rc<RefCell<Vec<Event>>>,
    tick: Link,
    tick_closing: Link,
    _attached: Vec<Link>,
    object: Object,
}

impl Tracer {
    /// Attaches the tracer. From now on events wait in the ring buffer for [`Tracer::take`];
    /// connections that are there already are among them.
    ///
    /// # Errors
    ///
    /// What is missing or wrong; see [`TraceError`].
    pub fn attach(options: &Options) -> Result<Tracer, TraceError> {
        check_requirements()?;
        collect_messages();
        let object = load(options).map_err(|error| match error {
            LoadError::Filter(error) => TraceError::Filter(error),
            LoadError::Kernel(error) => refused(&error),
        })?;
        let mut attached = Vec::new();
        for name in PROGRAMS {
            attached.push(program(&object, name, |program| program.attach())?);
        }
        if options.every_ack {
            attached.push(program(&object, EVERY_ACK, |program| program.attach())?);
        }
        let connections = map(&object, "connections");
        let iterate = |name| {
            program(&object, name, |program| {
                program.attach_iter(connections.as_fd())
            })
        };
        let tick = iterate(TICK)?;
        let tick_closing = iterate(TICK_CLOSING)?;
        let events = Rc::new(RefCell::new(Vec::new()));
        let ring = {
            let events = Rc::clone(&events);
            let map = map(&object, "ring");
            let mut builder = RingBufferBuilder::new();
            builder
                .add(&map, move |bytes| {
                    events.borrow_mut().extend(Event::parse(bytes));
                    0
                })
                .map_err(|error| refused(&error))?;
            builder.build().map_err(|error| refused(&error))?
        };
        let adopt = program(&object, ADOPT, |program| program.attach())?;
        run(&adopt)?;
        Ok(Tracer {
            ring,
            events,
            tick,
            tick_closing,
            _attached: attached,
            object,
        })
    }

    /// Asks for a sample of every connection that is traced.
    ///
    /// # Errors
    ///
    /// If the kernel does not list its connections.
    pub fn sample(&self) -> Result<(), TraceError> {
        run(&self.tick)
    }

    /// Asks for a sample of those connections that may get ACKs but are no longer established:
    /// their ACKs give no samples by themselves.
    ///
    /// # Errors
    ///
    /// If the kernel does not list its connections.
    pub fn sample_closing(&self) -> Result<(), TraceError> {
        run(&self.tick_closing)
    }

    /// Takes the events that wait. Events of one connection are in their order.
    ///
    /// # Errors
    ///
    /// If the ring buffer cannot be read.
    pub fn take(&self, mut each: impl FnMut(Event)) -> Result<usize, TraceError> {
        let mut count = 0;
        for _ in 0..TIMES {
            let taken = self.ring.consume_raw_n(AT_ONCE);
            if taken < 0 {
                let error = libbpf_rs::Error::from_raw_os_error(-taken);
                return Err(TraceError::Failed(error));
            }
            let mut events = self.events.take();
            count += events.len();
            events.drain(..).for_each(&mut each);
            // The memory is used again.
            self.events.replace(events);
            if (taken as usize) < AT_ONCE {
                break;
            }
        }
        Ok(count)
    }

    /// What the trace has not seen until now.
    ///
    /// # Errors
    ///
    /// If the kernel does not say.
    pub fn counts(&self) -> Result<Counts, TraceError> {
        let cpus = map(&self.object, "counts")
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(TraceError::Failed)?
            .unwrap_or_default();
        let word = |bytes: &[u8], index: usize| {
            let word = bytes.get(8 * index..8 * index + 8);
            u64::from_ne_bytes(word.and_then(|w| w.try_into().ok()).unwrap_or_default())
        };
        let mut missed_runs = 0;
        for program in self.object.progs() {
            missed_runs += missed(program.as_fd());
        }
        Ok(Counts {
            lost: cpus.iter().map(|bytes| word(bytes, 0)).collect(),
            unwatched: cpus.iter().map(|bytes| word(bytes, 1)).sum(),
            missed_runs,
        })
    }
}

enum LoadError {
    Filter(crate::filter::FilterError),
    Kernel(libbpf_rs::Error),
}

impl From<libbpf_rs::Error> for LoadError {
    fn from(error: libbpf_rs::Error) -> LoadError {
        LoadError::Kernel(error)
    }
}

fn load(options: &Options) -> Result<Object, LoadError> {
    let ring_bytes = options.ring_bytes.clamp(4096, 1 << 30).next_power_of_two();
    let settings = options
        .filter
        .settings(ring_bytes)
        .map_err(LoadError::Filter)?;
    let mut open = ObjectBuilder::default()
        .name("fairwind_trace")?
        .open_memory(&OBJECT.0)?;
    for mut map in open.maps_mut() {
        if map.name() == OsStr::new(".rodata.settings") {
            map.set_initial_value(&settings)?;
        } else if map.name() == OsStr::new("ring") {
            map.set_max_entries(ring_bytes)?;
        }
    }
    if !options.every_ack {
        leave_out(&mut open, EVERY_ACK);
    }
    Ok(open.load()?)
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

fn map<'object>(object: &'object Object, name: &str) -> libbpf_rs::Map<'object> {
    object
        .maps()
        .find(|map| map.name() == OsStr::new(name))
        .expect("trace.bpf.c has the map")
}

/// Lets an iterator's program run over all that it iterates over.
fn run(iterator: &Link) -> Result<(), TraceError> {
    let mut iterator = Iter::new(iterator).map_err(TraceError::Failed)?;
    let mut nothing = [0; 64];
    while iterator.read(&mut nothing).map_err(TraceError::Iterator)? > 0 {}
    Ok(())
}

/// Runs that the kernel left out of a program. One that is not loaded has no information, and has
/// missed nothing.
fn missed(program: BorrowedFd<'_>) -> u64 {
    // SAFETY: integers and null pointers, and the kernel writes at most `len` bytes.
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
        log: MESSAGES.take(),
    }
}

thread_local! {
    /// What libbpf has said on this thread since the load began.
    static MESSAGES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps libbpf's messages for the error instead of writing them to the terminal.
fn collect_messages() {
    MESSAGES.take();
    set_print(Some((PrintLevel::Warn, |_, message| {
        MESSAGES.with_borrow_mut(|messages| messages.push_str(&message));
    })));
}
