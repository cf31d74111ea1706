//! Controls that are in the kernel as long as this process keeps them.

use libbpf_rs::Link;

use super::load::{Verified, verify};
use super::{AdvisedStarts, LoadError, available, holder, object, requirements};
use crate::native::Parameters;

/// A control in the kernel, which is unregistered when this is dropped. Connections that use it keep it
/// until they close; new ones can no longer select it.
#[derive(Debug)]
pub struct Loaded {
    name: String,
    parameters: Parameters,
    object: Verified,
    _link: Link,
}

/// Loads the control that the parameters belong to, with these parameters, under this name: 1 to 15
/// letters, digits, `_` or `.`.
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
    let mut object = verify(parameters, name, bytes, None)?;
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

    /// What its connections are advised of their paths; `None`: it takes no advice.
    pub fn advised_starts(&self) -> Option<AdvisedStarts> {
        AdvisedStarts::of_loaded(&self.object)
    }

    /// Its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }
}
