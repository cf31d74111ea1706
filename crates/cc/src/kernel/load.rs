//! An eBPF object on its way into the kernel: opened, named, verified, registered.

use std::cell::RefCell;
use std::ffi::OsStr;

use libbpf_rs::{
    ErrorKind, Link, MapCore, MapMut, MapType, Object, ObjectBuilder, OpenObject, PrintLevel,
    set_print,
};

use super::{LoadError, holder, object};
use crate::native::Parameters;

/// An object that the kernel has verified and that nobody can take yet.
#[derive(Debug)]
pub(super) struct Verified {
    name: String,
    object: Object,
}

/// Brings a control into the kernel under this name, with these parameters.
pub(super) fn verify(
    parameters: &Parameters,
    name: &str,
    bytes: &[u8],
) -> Result<Verified, LoadError> {
    if !object::is_name(name) {
        let name = name.to_owned();
        return Err(LoadError::BadName { name });
    }
    collect_messages();
    let refused = |error: libbpf_rs::Error| explain(name, &error);
    let settings = object::settings(fairwind_kernel::hz(), parameters);
    let mut open = ObjectBuilder::default()
        .name(name)
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(refused)?;
    set_initial(&mut open, &settings).map_err(refused)?;
    set_name(&mut open, name);
    Ok(Verified {
        name: name.to_owned(),
        object: open.load().map_err(refused)?,
    })
}

impl Verified {
    /// Makes it a control that connections can take, until the link goes.
    pub(super) fn register(&mut self) -> Result<Link, LoadError> {
        let link = self.operations().attach_struct_ops();
        link.map_err(|error| explain(&self.name, &error))
    }

    /// Its `struct tcp_congestion_ops`.
    pub(super) fn operations(&mut self) -> MapMut<'_> {
        self.map(|map| map.map_type() == MapType::StructOps)
            .expect("CC_CONTROL makes the map")
    }

    /// Its `struct cc_settings`.
    pub(super) fn settings(&mut self) -> MapMut<'_> {
        self.map(|map| is_settings(map.name()))
            .expect("ebpf.h makes the map")
    }

    fn map(&mut self, is_it: impl Fn(&MapMut<'_>) -> bool) -> Option<MapMut<'_>> {
        self.object.maps_mut().find(is_it)
    }
}

fn set_initial(open: &mut OpenObject, bytes: &[u8]) -> libbpf_rs::Result<()> {
    open.maps_mut()
        .find(|map| is_settings(map.name()))
        .expect("ebpf.h makes the map")
        .set_initial_value(bytes)
}

/// Gives the control of an object that is not in the kernel yet the name by which connections take
/// it.
///
/// # Panics
///
/// If the kernel takes no such name: it is 1 to 15 letters, digits, `_` or `.`; or if the object has
/// no `CC_CONTROL`.
pub fn set_name(open: &mut OpenObject, name: &str) {
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

/// What an error of libbpf means.
fn explain(name: &str, error: &libbpf_rs::Error) -> LoadError {
    match error.kind() {
        ErrorKind::PermissionDenied => LoadError::not_permitted(),
        ErrorKind::AlreadyExists => LoadError::AlreadyLoaded {
            name: name.to_owned(),
            holder: holder::of(name),
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
pub(super) fn collect_messages() {
    MESSAGES.take();
    set_print(Some((PrintLevel::Warn, |_, message| {
        MESSAGES.with_borrow_mut(|messages| messages.push_str(&message));
    })));
}
