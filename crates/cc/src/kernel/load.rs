//! Brings an eBPF object into the kernel: opened, named, verified, registered.

use std::ffi::OsStr;
use std::path::Path;

use fairwind_bpf::messages;
use libbpf_rs::{
    ErrorKind, Link, Map, MapCore, MapMut, MapType, Object, ObjectBuilder, OpenObject,
};

use super::{LoadError, advised, holder, object};
use crate::native::Parameters;

/// An object that the kernel has verified, not yet registered for connections.
#[derive(Debug)]
pub(super) struct Verified {
    name: String,
    object: Object,
}

/// Loads a control with these parameters under this name, without registering it. What its connections are advised
/// of their paths is in the maps pinned in `advised`, where there are any, or in its own.
pub(super) fn verify(
    parameters: &Parameters,
    name: &str,
    bytes: &[u8],
    advised: Option<&Path>,
) -> Result<Verified, LoadError> {
    if !object::is_name(name) {
        let name = name.to_owned();
        return Err(LoadError::BadName { name });
    }
    messages::collect();
    let refused = |error: libbpf_rs::Error| explain(name, &error);
    let settings = object::settings(fairwind_kernel::hz(), parameters);
    let mut open = ObjectBuilder::default()
        .name(name)
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(refused)?;
    set_initial(&mut open, &settings).map_err(refused)?;
    set_name(&mut open, name);
    if let Some(folder) = advised {
        share_advice(&mut open, folder).map_err(refused)?;
    }
    Ok(Verified {
        name: name.to_owned(),
        object: open.load().map_err(refused)?,
    })
}

impl Verified {
    /// Registers the control, so that connections can use it until the link is dropped.
    pub(super) fn register(&mut self) -> Result<Link, LoadError> {
        let link = self.operations().attach_struct_ops();
        link.map_err(|error| explain(&self.name, &error))
    }

    /// The map with its `struct tcp_congestion_ops`.
    pub(super) fn operations(&mut self) -> MapMut<'_> {
        self.map(|map| map.map_type() == MapType::StructOps)
            .expect("CC_CONTROL makes the map")
    }

    /// The map with its `struct cc_settings`.
    pub(super) fn settings(&mut self) -> MapMut<'_> {
        self.map(|map| is_settings(map.name()))
            .expect("ebpf.h makes the map")
    }

    /// The maps with what its connections are advised of their paths, and their names; none if it takes no advice.
    pub(super) fn advised(&self) -> impl Iterator<Item = Map<'_>> {
        let maps = self.object.maps();
        maps.filter(|map| advised::is_advised(map.name()))
    }

    fn map(&mut self, is_it: impl Fn(&MapMut<'_>) -> bool) -> Option<MapMut<'_>> {
        self.object.maps_mut().find(is_it)
    }
}

/// Uses the maps that are pinned in this folder.
fn share_advice(open: &mut OpenObject, folder: &Path) -> libbpf_rs::Result<()> {
    for mut map in open
        .maps_mut()
        .filter(|map| advised::is_advised(map.name()))
    {
        let pin = advised::pin(folder, map.name());
        if pin.exists() {
            map.reuse_pinned_map(pin)?;
        }
    }
    Ok(())
}

fn set_initial(open: &mut OpenObject, bytes: &[u8]) -> libbpf_rs::Result<()> {
    open.maps_mut()
        .find(|map| is_settings(map.name()))
        .expect("ebpf.h makes the map")
        .set_initial_value(bytes)
}

/// Sets the name under which connections select the control of an object. To be called before the
/// object is loaded.
///
/// # Panics
///
/// If the name is invalid, that is, not 1 to 15 letters, digits, `_` or `.`; or if the object has no
/// `CC_CONTROL`.
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

/// Translates an error of libbpf.
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
            log: messages::take(),
        },
    }
}
