//! The congestion controls in the running kernel, as eBPF `struct_ops`.
//!
//! [`load_as`] registers a control under a name, usually its [`kernel_name`]. From then on, any connection
//! of any program can select it with `setsockopt(TCP_CONGESTION)`, in every network namespace, until the
//! [`Loaded`] is dropped; connections that use it keep it until they close. A control that [`Pins`] has
//! loaded stays until it is unloaded.
//!
//! Requires Linux 6.4 with BTF, and root or the capabilities `CAP_BPF`, `CAP_PERFMON` and
//! `CAP_NET_ADMIN`. The [`LoadError`] names what is missing.

mod advised;
mod holder;
mod load;
mod loaded;
mod object;
mod pins;
mod provide;
mod requirements;

pub use advised::{AdviceError, AdvisedStarts, Destination};
pub use holder::Holder;
pub use load::set_name;
#[cfg(test)]
pub(crate) use loaded::load_object;
pub use loaded::{Loaded, load_as};
pub use object::find as object;
pub use pins::{About, Found, PINS_VARIABLE, PinError, Pinned, Pins};
pub use provide::{Choice, Provided, load_private, provide};
pub use requirements::check as check_requirements;

use std::{fs, io};

/// Why a control was not loaded, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The kernel has no description of its types.
    #[error(
        "the kernel has no BTF (/sys/kernel/btf/vmlinux), without which it takes no congestion \
         control in eBPF: it needs CONFIG_DEBUG_INFO_BTF=y; `fairwind sim run` works without, \
         `fairwind lab exec` with the kernel's own controls"
    )]
    NoBtf,
    /// The kernel does not support `struct_ops` links.
    #[error(
        "Linux {release} is too old for congestion controls in eBPF: 6.4 or newer is required; \
         `fairwind sim run` works without, `fairwind lab exec` with the kernel's own controls"
    )]
    KernelTooOld {
        /// The running kernel, as by `uname -r`.
        release: String,
    },
    /// The process may not load eBPF.
    #[error("not permitted to load eBPF: run as root, or with {}", missing.join(", "))]
    NotPermitted {
        /// Capabilities that would permit it.
        missing: Vec<&'static str>,
    },
    /// The kernel does not accept the name.
    #[error("`{name}` is not a name for a congestion control: 1 to 15 letters, digits, `_` or `.`")]
    BadName {
        /// The requested name.
        name: String,
    },
    /// The name is taken.
    #[error("`{name}` is already in the kernel: {holder}")]
    AlreadyLoaded {
        /// The name in the kernel.
        name: String,
        /// What holds it.
        holder: Holder,
    },
    /// Neither the kernel nor `cc/` has the control.
    #[error("there is no congestion control `{name}`; the kernel has {}, and {} can be loaded", kernel.join(", "), own.join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// The controls in the kernel.
        kernel: Vec<String>,
        /// The controls of `cc/`.
        own: Vec<&'static str>,
    },
    /// All names for private copies of a control are taken.
    #[error(
        "no free name in the kernel for a copy of `{control}`; unload some: fairwind cc list, \
         fairwind cc unload"
    )]
    NoFreeName {
        /// The control.
        control: &'static str,
    },
    /// The kernel does not tell its controls.
    #[error("the kernel's congestion controls cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The kernel refused the object.
    #[error("the kernel refuses `{name}`: {reason}\n{log}")]
    Refused {
        /// The name in the kernel.
        name: String,
        /// The error.
        reason: String,
        /// Messages of libbpf and the verifier.
        log: String,
    },
}

impl LoadError {
    /// The kernel refused although the capabilities seemed sufficient.
    fn not_permitted() -> LoadError {
        LoadError::NotPermitted {
            missing: vec!["CAP_NET_ADMIN", "CAP_PERFMON", "CAP_BPF"],
        }
    }
}

/// Names of the controls in the kernel, its own and loaded ones.
///
/// # Errors
///
/// If `/proc/sys` cannot be read.
pub fn available() -> io::Result<Vec<String>> {
    named("available")
}

/// Names of the controls that every process may choose.
///
/// # Errors
///
/// If `/proc/sys` cannot be read.
pub fn allowed() -> io::Result<Vec<String>> {
    named("allowed")
}

fn named(which: &str) -> io::Result<Vec<String>> {
    let setting = format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control");
    let names = fs::read_to_string(setting)?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

/// What the names of our controls in the kernel begin with.
const PREFIX: &str = "fw_";

/// The default name of a control in the kernel: `fw_<name>`.
pub fn kernel_name(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// A control's name without what begins it in the kernel.
pub fn own_name(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// Whether the control of this name is congestion control switched off: `nocc`, under any name that it may be loaded by.
pub fn is_nocc(name: &str) -> bool {
    own_name(name).starts_with("nocc")
}
