//! A congestion control for connections of a run: the kernel's own, or one of `cc/`, loaded under a name private to
//! this process.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{AdvisedStarts, LoadError, Loaded, Pins, available, load_as, own_name};
use crate::native::{self, Parameters};

/// Attempts to find an unused name.
const ATTEMPTS: u32 = 64;

/// Selects a congestion control.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// The kernel's congestion control of this name, or else that of `cc/` with its default
    /// parameters.
    Named(String),
    /// The congestion control of `cc/` with these parameters.
    Own(Parameters),
}

/// A congestion control present in the kernel; one of ours is unloaded when this is dropped.
#[derive(Debug)]
pub struct Provided {
    name: String,
    /// Keeps it loaded, if it was loaded for this run.
    loaded: Option<Loaded>,
}

impl Provided {
    /// Its name in the kernel.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its connections are advised of their paths; `None`: it takes no advice, or is held by another process.
    pub fn advised_starts(&self) -> Option<AdvisedStarts> {
        match &self.loaded {
            Some(loaded) => loaded.advised_starts(),
            None => Pins::default().advised_starts_of(&self.name),
        }
    }
}

/// Makes the congestion control available in the kernel. The name of one of ours may have the
/// prefix `fw_`.
///
/// # Errors
///
/// If there is none of this name, or the kernel refuses it; see [`LoadError`].
pub fn provide(choice: &Choice) -> Result<Provided, LoadError> {
    let name = match choice {
        Choice::Own(parameters) => return load(parameters),
        Choice::Named(name) => name,
    };
    let kernel = available().map_err(LoadError::Unreadable)?;
    if kernel.contains(name) {
        return Ok(Provided {
            name: name.clone(),
            loaded: None,
        });
    }
    match native::find(own_name(name)) {
        Some(own) => load(&own.default_parameters()),
        None => Err(LoadError::Unknown {
            name: name.clone(),
            kernel,
            own: native::all().iter().map(|control| control.name()).collect(),
        }),
    }
}

fn load(parameters: &Parameters) -> Result<Provided, LoadError> {
    let loaded = load_private(parameters)?;
    Ok(Provided {
        name: loaded.name().to_owned(),
        loaded: Some(loaded),
    })
}

/// Loads a copy of the parameters' congestion control under an unused name, such as
/// `fw_sfsack_1a2b`. It is unloaded when the value is dropped, or with the process.
///
/// # Errors
///
/// If the kernel refuses it, or no name is free; see [`LoadError`].
pub fn load_private(parameters: &Parameters) -> Result<Loaded, LoadError> {
    with_private_name(parameters.control().name(), |name| {
        match load_as(parameters, name) {
            Err(LoadError::AlreadyLoaded { .. }) => Ok(None),
            outcome => outcome.map(Some),
        }
    })
}

/// What `load` makes of the first name that is not taken; it returns `None` for one that is.
pub(super) fn with_private_name<T, E: From<LoadError>>(
    control: &'static str,
    mut load: impl FnMut(&str) -> Result<Option<T>, E>,
) -> Result<T, E> {
    /// Makes the names of one process differ.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..ATTEMPTS {
        let number = std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        if let Some(loaded) = load(&private_name(control, number))? {
            return Ok(loaded);
        }
    }
    Err(LoadError::NoFreeName { control }.into())
}

/// `fw_sfsack_1a2b`: names in the kernel have at most 15 bytes.
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
