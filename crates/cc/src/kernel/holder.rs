//! Finds out what holds the name of a control in the kernel.

use std::path::Path;
use std::{fmt, fs};

use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::object;

/// What holds a control in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The kernel: the control is built in or a module.
    Kernel,
    /// A process, as long as it runs.
    Process {
        /// Process ID.
        id: u32,
        /// Its name, from `/proc/PID/comm`.
        command: String,
    },
    /// No process, hence a pin.
    Pin,
    /// Unknown, as this process lacks the privilege to look.
    Hidden,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("it is the kernel's own"),
            Self::Process { id, command } => {
                write!(
                    f,
                    "process {id} ({command}) holds it, and it goes when that ends"
                )
            }
            Self::Pin => f.write_str(
                "a pin holds it, under another folder than this: look below /sys/fs/bpf, and \
                 remove the pin of its link",
            ),
            Self::Hidden => f.write_str("only root sees who holds it"),
        }
    }
}

/// What holds the control of this name.
pub(super) fn of(name: &str) -> Holder {
    let Some(operations) = operations(name) else {
        return match fairwind_kernel::Capabilities::of_this_process() {
            // Listing all links requires this capability.
            Ok(own) if own.missing(&[fairwind_kernel::SYS_ADMIN]).is_empty() => Holder::Kernel,
            _ => Holder::Hidden,
        };
    };
    processes(operations).unwrap_or(Holder::Pin)
}

/// ID of the `struct_ops` map that is registered under this name.
fn operations(name: &str) -> Option<u32> {
    let offset = object::name_offset().ok()??;
    LinkInfoIter::default()
        .filter_map(|link| match link.info {
            LinkTypeInfo::StructOps(info) => Some(info.map_id),
            _ => None,
        })
        .find(|id| {
            MapHandle::from_map_id(*id)
                .and_then(|map| map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY))
                .is_ok_and(|value| {
                    value.is_some_and(|value| object::has_name(&value, offset, name))
                })
        })
}

/// A process that has the map or a link to it open, other processes before this one.
fn processes(map: u32) -> Option<Holder> {
    let own = std::process::id();
    let ids = fs::read_dir("/proc").ok()?.flatten();
    ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .find(|id| *id != own && has_open(*id, map))
        .or_else(|| has_open(own, map).then_some(own))
        .map(|id| Holder::Process {
            id,
            command: fs::read_to_string(format!("/proc/{id}/comm"))
                .map(|name| name.trim_end().to_owned())
                .unwrap_or_default(),
        })
}

fn has_open(process: u32, map: u32) -> bool {
    let line = format!("map_id:\t{map}");
    let files = fs::read_dir(Path::new("/proc").join(process.to_string()).join("fdinfo"));
    files.into_iter().flatten().flatten().any(|file| {
        fs::read_to_string(file.path()).is_ok_and(|text| text.lines().any(|l| l == line))
    })
}
