//! Controls that are in the kernel as long as this process keeps them.

use libbpf_rs::{Link, MapCore, MapFlags};

use super::load::{Verified, verify};
use super::{LoadError, available, holder, kernel_name, object, requirements};
use crate::native::{self, ParameterError, Parameters};

/// A control in the kernel, which is unregistered when this is dropped. Connections that use it keep it
/// until they close; new ones can no longer select it.
#[derive(Debug)]
pub struct Loaded {
    name: String,
    parameters: Parameters,
    object: Verified,
    _link: Link,
}

/// Loads a control with its parameters at their defaults.
///
/// # Errors
///
/// If there is no such control, the kernel or the process does not meet the requirements, the name is
/// taken, or the kernel refuses the object; see [`LoadError`].
pub fn load(name: &str) -> Result<Loaded, LoadError> {
    let control = native::find(name).ok_or_else(|| LoadError::UnknownControl {
        name: name.to_owned(),
        known: native::all().iter().map(|control| control.name()).collect(),
    })?;
    load_with(&control.default_parameters())
}

/// Loads the control that the parameters belong to, with these parameters.
///
/// # Errors
///
/// If the kernel or the process does not meet the requirements, the name is taken, or the kernel
/// refuses the object; see [`LoadError`].
pub fn load_with(parameters: &Parameters) -> Result<Loaded, LoadError> {
    load_as(parameters, &kernel_name(parameters.control().name()))
}

/// Loads the control that the parameters belong to under another name, as a copy beside others of the
/// same control. The name has 1 to 15 letters, digits, `_` or `.`.
///
/// # Errors
///
/// If the kernel or the process does not meet the requirements, the name is invalid or taken, or the
/// kernel refuses the object; see [`LoadError`].
pub fn load_as(parameters: &Parameters, name: &str) -> Result<Loaded, LoadError> {
    load_object(parameters, name, object::of(parameters.control()))
}

/// Loads an eBPF object, that of the control that the parameters belong to, under this name.
pub(crate) fn load_object(
    parameters: &Parameters,
    name: &str,
    bytes: &[u8],
) -> Result<Loaded, LoadError> {
    requirements::check()?;
    free(name)?;
    let mut object = verify(parameters, name, bytes)?;
    let link = object.register()?;
    Ok(Loaded {
        name: name.to_owned(),
        parameters: parameters.clone(),
        object,
        _link: link,
    })
}

/// Fails if the kernel already has a control of this name.
pub(super) fn free(name: &str) -> Result<(), LoadError> {
    if available().is_ok_and(|names| names.iter().any(|taken| taken == name)) {
        return Err(LoadError::AlreadyLoaded {
            name: name.to_owned(),
            holder: holder::of(name),
        });
    }
    Ok(())
}

impl Loaded {
    /// The name in the kernel, for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The current parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Sets a parameter, in its unit, at once for all connections that use the control.
    ///
    /// # Errors
    ///
    /// If the control has no such parameter, the value is out of its range, or the kernel refuses.
    pub fn set(&mut self, name: &str, value: i64) -> Result<(), SetError> {
        let mut parameters = self.parameters.clone();
        parameters.set(name, value)?;
        write_settings(&*self.object.settings(), &parameters)?;
        self.parameters = parameters;
        Ok(())
    }
}

/// Writes parameters into a control's settings in the kernel.
pub(super) fn write_settings(
    settings: &impl MapCore,
    parameters: &Parameters,
) -> libbpf_rs::Result<()> {
    let bytes = object::settings(fairwind_kernel::hz(), parameters);
    settings.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY)
}

/// Why a parameter was not set.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The control has no such parameter, or the value is out of range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The kernel refused to change the settings.
    #[error("the kernel does not take the parameter: {0}")]
    Kernel(#[from] libbpf_rs::Error),
}
