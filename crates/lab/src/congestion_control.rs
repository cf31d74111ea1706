//! A congestion control by name: the kernel's own, or one of `cc/`, loaded for the run.

use fairwind_cc::kernel::{self, Loaded};
use fairwind_cc::native;

use crate::LabError;

/// A control that connections can take; one of ours leaves the kernel when this is dropped.
pub struct Available {
    /// Its name in the kernel.
    pub name: String,
    /// What keeps it there, if it was loaded for this run.
    _loaded: Option<Loaded>,
}

/// The control of this name: the kernel's, or else ours, which also goes by `fw_` and its name.
pub fn provide(name: &str) -> Result<Available, LabError> {
    let kernel = kernel::available()
        .map_err(|error| LabError::system("reading the kernel's congestion controls", error))?;
    if kernel.iter().any(|known| known == name) {
        return Ok(Available {
            name: name.to_owned(),
            _loaded: None,
        });
    }
    let own = name.strip_prefix("fw_").unwrap_or(name);
    if native::find(own).is_none() {
        return Err(LabError::UnknownControl {
            name: name.to_owned(),
            kernel,
            own: native::all().iter().map(|control| control.name()).collect(),
        });
    }
    // Somebody else may have loaded it.
    let ours = kernel::kernel_name(own);
    if kernel.contains(&ours) {
        return Ok(Available {
            name: ours,
            _loaded: None,
        });
    }
    let loaded = kernel::load(own)?;
    Ok(Available {
        name: loaded.name().to_owned(),
        _loaded: Some(loaded),
    })
}
