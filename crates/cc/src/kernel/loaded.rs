//! Controls that are in the kernel as long as this process wants them.

use libbpf_rs::{Link, MapCore, MapFlags};

use super::load::{Verified, verify};
use super::{LoadError, available, holder, kernel_name, object, requirements};
use crate::native::{self, ParameterError, Parameters};

/// A control in the kernel; it leaves when this is dropped. Connections that have it keep it until
/// they close, new ones cannot take it any more.
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
/// What is missing or wrong; see [`LoadError`].
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
/// What is missing or wrong; see [`LoadError`].
pub fn load_with(parameters: &Parameters) -> Result<Loaded, LoadError> {
    load_as(parameters, &kernel_name(parameters.control().name()))
}

/// Loads the control that the parameters belong to under another name: a copy beside others of the
/// same control, with parameters of its own. The name has 1 to 15 letters, digits, `_` or `.`.
///
/// # Errors
///
/// What is missing or wrong; see [`LoadError`].
pub fn load_as(parameters: &Parameters, name: &str) -> Result<Loaded, LoadError> {
    load_object(parameters, name, object::of(parameters.control()))
}

/// Loads the eBPF object of the control that the parameters belong to, under this name.
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

/// Whether the kernel has no control of this name.
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
    /// Its name in the kernel, for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters as they are now.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Sets a parameter, in its own unit, for all connections that have the control, at once.
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

/// A parameter that was not set.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The control does not take it.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The kernel does not take it.
    #[error("the kernel does not take the parameter: {0}")]
    Kernel(#[from] libbpf_rs::Error),
}
