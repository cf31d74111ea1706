//! A pinned control: its identity, users and parameters.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle};

use super::{ABOUT, About, LINK, OPERATIONS, PinError, SETTINGS, folder, replace};
use crate::kernel::object;
use crate::native::Parameters;

/// A control in the kernel that outlives its loader.
#[derive(Debug)]
pub struct Pinned {
    name: String,
    folder: PathBuf,
    about: Option<About>,
    link: Link,
    operations: MapHandle,
    settings: MapHandle,
}

impl Pinned {
    /// The control pinned in this folder; `None` if there is none, or only remains. The caller holds the
    /// lock on the root.
    pub(super) fn open(folder: &Path, name: &str) -> Result<Option<Pinned>, PinError> {
        fairwind_bpf::messages::collect();
        let path = folder.join(LINK);
        let link = match Link::open(&path) {
            Ok(link) => link,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(PinError::kernel(&path, &error)),
        };
        let Some(registered) = map_of(&link) else {
            return Ok(None);
        };
        let open = |file: &str| -> Result<Option<MapHandle>, PinError> {
            let path = folder.join(file);
            match MapHandle::from_pinned_path(&path) {
                Ok(map) => Ok(Some(map)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(PinError::kernel(&path, &error)),
            }
        };
        replace::settle(folder, registered)?;
        let (Some(operations), Some(settings)) = (open(OPERATIONS)?, open(SETTINGS)?) else {
            return Ok(None);
        };
        Ok(Some(Pinned {
            name: name.to_owned(),
            folder: folder.to_owned(),
            about: about(folder)?,
            link,
            operations,
            settings,
        }))
    }

    /// The name in the kernel, for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder of its pins.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its description, if it has a valid one.
    pub fn about(&self) -> Option<&About> {
        self.about.as_ref()
    }

    /// Whether it is byte for byte what this build would load.
    pub fn is_this_build(&self) -> bool {
        self.about().is_some_and(About::is_this_build)
    }

    /// The number of its current users: connections, in all network namespaces, and network namespaces
    /// whose default it is.
    ///
    /// # Errors
    ///
    /// If the map of the control cannot be read.
    pub fn users(&self) -> Result<u32, PinError> {
        let value = self
            .operations
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| PinError::kernel(&self.folder.join(OPERATIONS), &error))?
            .unwrap_or_default();
        // The link holds one reference.
        Ok(object::references(&value).saturating_sub(1))
    }

    /// The current parameters in the kernel.
    ///
    /// # Errors
    ///
    /// If it is from a build with other parameters, or the settings cannot be read.
    pub fn parameters(&self) -> Result<Parameters, PinError> {
        let value = self
            .settings
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| PinError::kernel(&self.folder.join(SETTINGS), &error))?
            .unwrap_or_default();
        let other_build = || PinError::OtherBuild {
            name: self.name.clone(),
            about: self.about.clone().map(Box::new),
        };
        let values = object::parameter_values(&value).ok_or_else(other_build)?;
        let control = self.about().and_then(About::known_control);
        let control = control.ok_or_else(other_build)?;
        Ok(Parameters::with_values(control, values))
    }

    /// Sets parameters, each in its unit, at once for all connections that use the control: all of them,
    /// or none if one is invalid. Returns the resulting parameters.
    ///
    /// # Errors
    ///
    /// If the control has no such parameter, a value is out of range, the control is from a build with
    /// other parameters, or the kernel refuses the change.
    pub fn set(&self, changes: &[(&str, i64)]) -> Result<Parameters, PinError> {
        let root = self.folder.parent().unwrap_or(&self.folder);
        let _lock = folder::lock(root)?;
        let mut parameters = self.parameters()?;
        for (name, value) in changes {
            parameters.set(name, *value)?;
        }
        let bytes = object::settings(fairwind_kernel::hz(), &parameters);
        self.settings
            .update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY)
            .map_err(|error| PinError::kernel(&self.folder.join(SETTINGS), &error))?;
        Ok(parameters)
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }
}

/// ID of the map that the link registers; `None` if the link has been detached.
fn map_of(link: &Link) -> Option<u32> {
    match link.info().ok()?.info {
        LinkTypeInfo::StructOps(info) => Some(info.map_id).filter(|id| *id != 0),
        _ => None,
    }
}

fn about(folder: &Path) -> Result<Option<About>, PinError> {
    let path = folder.join(ABOUT);
    match fs::read_link(&path) {
        Ok(words) => Ok(words.to_str().and_then(About::parse)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PinError::at(&path, error)),
    }
}
