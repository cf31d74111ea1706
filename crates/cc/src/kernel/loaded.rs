//! Loading a control, changing its parameters, taking it out.

use std::cell::RefCell;
use std::ffi::OsStr;

use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapType, Object, ObjectBuilder, OpenObject, PrintLevel,
    set_print,
};

use super::{LoadError, available, kernel_name, object, requirements};
use crate::native::{self, ParameterError, Parameters};

/// A control in the kernel; it leaves when this is dropped. Connections that have it keep it until
/// they close, new ones cannot take it any more.
#[derive(Debug)]
pub struct Loaded {
    name: String,
    hz: u32,
    parameters: Parameters,
    object: Object,
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
    let object = object::find(parameters.control().name()).expect("every control has its object");
    load_object(parameters, name, object)
}

/// Loads the eBPF object of the control that the parameters belong to, under this name.
pub(crate) fn load_object(
    parameters: &Parameters,
    name: &str,
    bytes: &[u8],
) -> Result<Loaded, LoadError> {
    requirements::check()?;
    let name = name.to_owned();
    if !object::is_name(&name) {
        return Err(LoadError::BadName { name });
    }
    if available().is_ok_and(|names| names.contains(&name)) {
        return Err(LoadError::AlreadyLoaded { name });
    }
    collect_messages();
    let refused = |error: libbpf_rs::Error| explain(&name, &error);

    let hz = fairwind_kernel::hz();
    let mut open = ObjectBuilder::default()
        .name(&name)
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(refused)?;
    set_initial(&mut open, &object::settings(hz, parameters)).map_err(refused)?;
    set_name(&mut open, &name);
    let mut object = open.load().map_err(refused)?;
    let link = object
        .maps_mut()
        .find(|map| map.map_type() == MapType::StructOps)
        .expect("CC_CONTROL makes the map")
        .attach_struct_ops()
        .map_err(refused)?;
    Ok(Loaded {
        name,
        hz,
        parameters: parameters.clone(),
        object,
        _link: link,
    })
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
        self.object
            .maps()
            .find(|map| is_settings(map.name()))
            .expect("ebpf.h makes the map")
            .update(
                &0u32.to_ne_bytes(),
                &object::settings(self.hz, &parameters),
                MapFlags::ANY,
            )?;
        self.parameters = parameters;
        Ok(())
    }
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

fn set_initial(open: &mut OpenObject, bytes: &[u8]) -> libbpf_rs::Result<()> {
    open.maps_mut()
        .find(|map| is_settings(map.name()))
        .expect("ebpf.h makes the map")
        .set_initial_value(bytes)
}

/// Writes the name into the `struct tcp_congestion_ops` of the object.
fn set_name(open: &mut OpenObject, name: &str) {
    let mut operations = open
        .maps_mut()
        .find(|map| map.map_type() == MapType::StructOps)
        .expect("CC_CONTROL makes the map");
    let data = operations
        .initial_value_mut()
        .expect("struct_ops maps have an initial value");
    object::write_name(data, name);
}

fn is_settings(name: &OsStr) -> bool {
    name == OsStr::new(object::SETTINGS_MAP)
}

fn explain(name: &str, error: &libbpf_rs::Error) -> LoadError {
    match error.kind() {
        ErrorKind::PermissionDenied => LoadError::NotPermitted {
            missing: vec!["CAP_NET_ADMIN", "CAP_PERFMON", "CAP_BPF"],
        },
        ErrorKind::AlreadyExists => LoadError::AlreadyLoaded {
            name: name.to_owned(),
        },
        _ => LoadError::Refused {
            name: name.to_owned(),
            reason: error.to_string(),
            log: MESSAGES.take(),
        },
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
