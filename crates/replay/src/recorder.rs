//! Records what the kernel's own congestion controls do on live connections.
//!
//! The requirements are those for loading a congestion control (`fairwind_cc::kernel`).

use std::collections::HashMap;

use fairwind_cc::kernel::{self, LoadError};
use libbpf_rs::{Link, MapCore, MapType, Object, ObjectBuilder};
use zerocopy::FromBytes;

use crate::call::{Call, Hook, Inputs, Window};
use crate::programs::{fetch, lost};

/// The kernel's congestion control to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorder {
    /// Reno, of `tcp_cong.c`.
    Reno,
    /// Cubic, of `tcp_cubic.c`.
    Cubic,
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The kernel cannot load the recorder.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel refused the recorder.
    #[error("the kernel refuses the recorder of its {control}: {error}")]
    Refused {
        /// The congestion control to record.
        control: &'static str,
        /// The error of libbpf.
        error: libbpf_rs::Error,
    },
    /// The ring buffer was full.
    #[error("{0} calls were not recorded: the machine was too slow to fetch them")]
    CallsLost(u64),
}

impl Recorder {
    /// All recorders.
    pub const ALL: [Recorder; 2] = [Recorder::Reno, Recorder::Cubic];

    /// The congestion control's name, in the kernel and in `cc/`.
    pub fn control(self) -> &'static str {
        match self {
            Recorder::Reno => "reno",
            Recorder::Cubic => "cubic",
        }
    }

    /// Loads the recorder, runs `work` with the name for `TCP_CONGESTION`, and returns the calls of
    /// each connection that used it, in the order of the connections' first calls.
    ///
    /// # Errors
    ///
    /// Fails if the recorder cannot be loaded, or calls were lost.
    pub fn record<R: Send>(
        self,
        work: impl FnOnce(&str) -> R + Send,
    ) -> Result<(R, Vec<Vec<Call>>), RecordError> {
        kernel::check_requirements()?;
        let refused = |error| RecordError::Refused {
            control: self.control(),
            error,
        };
        let name = format!("rec{}_{:x}", self.control(), std::process::id());
        let (object, link) = self.load(&name).map_err(refused)?;
        let mut connections = Connections::default();
        let result = fetch(
            &object,
            "calls",
            |event| connections.add(&event),
            || work(&name),
        )
        .map_err(refused)?;
        drop(link);
        match lost(&object, ".bss.recorder").map_err(refused)? {
            0 => Ok((result, connections.calls)),
            lost => Err(RecordError::CallsLost(lost)),
        }
    }

    fn load(self, name: &str) -> libbpf_rs::Result<(Object, Link)> {
        let object = match self {
            Recorder::Reno => fairwind_bpf::object!("reno.bpf.o"),
            Recorder::Cubic => fairwind_bpf::object!("cubic.bpf.o"),
        };
        let mut open = ObjectBuilder::default().name(name)?.open_memory(object)?;
        kernel::set_name(&mut open, name);
        let mut object = open.load()?;
        let link = object
            .maps_mut()
            .find(|map| map.map_type() == MapType::StructOps)
            .expect("CC_CONTROL makes the map")
            .attach_struct_ops()?;
        Ok((object, link))
    }
}

/// Calls by connection.
#[derive(Default)]
struct Connections {
    /// Index in `calls` of each open connection.
    open: HashMap<u64, usize>,
    calls: Vec<Vec<Call>>,
}

impl Connections {
    fn add(&mut self, event: &Event) {
        let call = event.call();
        if call.hook == Hook::Init {
            self.open.insert(event.connection, self.calls.len());
            self.calls.push(Vec::new());
        }
        // A connection whose first call was not seen is not recorded.
        if let Some(&index) = self.open.get(&event.connection) {
            self.calls[index].push(call);
        }
    }
}

/// The hooks that return a value.
const HOOK_SSTHRESH: u32 = 3;
const HOOK_UNDO_CWND: u32 = 4;

/// `struct call` of `bpf/recorder.h`.
#[derive(FromBytes)]
#[repr(C)]
struct Event {
    connection: u64,
    mstamp_us: u64,
    pacing_rate: u64,
    jiffies: u32,
    jiffies_after: u32,
    hook: u32,
    arguments: [u32; 3],
    returned: u32,
    before: Window,
    after: Window,
    inputs: Inputs,
}

impl Event {
    fn call(&self) -> Call {
        let in_slow_start = self.before.cwnd < self.before.ssthresh;
        let numbers = match self.hook {
            HOOK_SSTHRESH | HOOK_UNDO_CWND => [self.returned, 0, 0],
            _ => self.arguments,
        };
        Call {
            hook: Hook::from_numbers(self.hook, numbers).expect("recorder.h has the same hooks"),
            before: self.before,
            after: self.after,
            tcp_mstamp: self.mstamp_us,
            jiffies: self.jiffies,
            ticks: self.jiffies_after.wrapping_sub(self.jiffies),
            sk_pacing_rate: if in_slow_start { self.pacing_rate } else { 0 },
            inputs: self.inputs,
        }
    }
}
