//! A congestion control for connections of the lab: the kernel's own, or one of `cc/`, loaded under a
//! name of this process alone.

use std::sync::atomic::{AtomicU32, Ordering};

use fairwind_cc::kernel::{self, LoadError, Loaded};
use fairwind_cc::native::{self, Parameters};

use crate::LabError;

/// Attempts to find a name that nobody else has.
const ATTEMPTS: u32 = 64;

/// Which control connections are to have.
#[derive(Clone, Debug, PartialEq)]
pub enum Control {
    /// The kernel's of this name, or else that of `cc/`, its parameters at their defaults.
    Named(String),
    /// That of `cc/` with these parameters.
    Own(Parameters),
}

/// A control that connections can take; one of ours leaves the kernel when this is dropped.
pub(crate) struct Available {
    /// Its name in the kernel.
    pub name: String,
    /// What keeps it there, if it was loaded for this run.
    _loaded: Option<Loaded>,
}

/// The control in the kernel. One of ours also goes by `fw_` and its name.
pub(crate) fn provide(control: &Control) -> Result<Available, LabError> {
    let name = match control {
        Control::Own(parameters) => return load(parameters),
        Control::Named(name) => name,
    };
    let kernel = kernel::available()
        .map_err(|error| LabError::system("reading the kernel's congestion controls", error))?;
    if kernel.contains(name) {
        return Ok(Available {
            name: name.clone(),
            _loaded: None,
        });
    }
    match native::find(name.strip_prefix("fw_").unwrap_or(name)) {
        Some(own) => load(&own.default_parameters()),
        None => Err(LabError::UnknownControl {
            name: name.clone(),
            kernel,
            own: native::all().iter().map(|control| control.name()).collect(),
        }),
    }
}

fn load(parameters: &Parameters) -> Result<Available, LabError> {
    let loaded = load_private(parameters)?;
    Ok(Available {
        name: loaded.name().to_owned(),
        _loaded: Some(loaded),
    })
}

/// Loads a copy of the control that the parameters belong to under a name that nobody else has, such
/// as `fw_sfsack_1a2b`. It leaves the kernel when it is dropped, or with the process.
///
/// # Errors
/// If the kernel refuses it, or has no free name.
pub fn load_private(parameters: &Parameters) -> Result<Loaded, LabError> {
    /// Makes the names of one process differ.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let control = parameters.control().name();
    for _ in 0..ATTEMPTS {
        let number = std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        match kernel::load_as(parameters, &private_name(control, number)) {
            Err(LoadError::AlreadyLoaded { .. }) => {}
            outcome => return Ok(outcome?),
        }
    }
    Err(LabError::NoFreeName { control })
}

/// `fw_sfsack_1a2b`: the kernel's names have 15 bytes at most.
fn private_name(control: &str, number: u32) -> String {
    format!("fw_{control:.7}_{:04x}", number & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_kernel() {
        assert_eq!(private_name("sfsack", 0x1_1a2b), "fw_sfsack_1a2b");
        assert_eq!(private_name("imtcp_bg", 3), "fw_imtcp_b_0003");
        assert_eq!(private_name("imtcp_bg", 3).len(), 15);
    }
}
