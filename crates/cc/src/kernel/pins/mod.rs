//! Controls that stay in the kernel when their loader has gone.
//!
//! Each has a folder below `/sys/fs/bpf/fairwind`, named as the control is in the kernel:
//!
//! ```text
//! fw_sfsack/operations   the control: its struct tcp_congestion_ops
//! fw_sfsack/settings     its parameters: struct cc_settings
//! fw_sfsack/about        which control and build it is, a symbolic link to those words
//! fw_sfsack/link         what keeps it registered; pinned last, removed first
//! ```
//!
//! So a folder without a working `link` is what a crash has left, and the next load clears it. What
//! a replacement prepares is called `new_…` until the link has been switched to it.

mod about;
mod error;
mod folder;
mod pinned;
mod replace;

pub use about::About;
pub use error::PinError;
pub use pinned::Pinned;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use libbpf_rs::Link;

use super::load::{Verified, verify};
use super::loaded::free;
use super::{available, object, requirements};
use crate::native::Parameters;

const LINK: &str = "link";
const OPERATIONS: &str = "operations";
const SETTINGS: &str = "settings";
const ABOUT: &str = "about";

/// How long the kernel may take to unregister a control whose link has gone.
const UNREGISTERED_WITHIN: Duration = Duration::from_secs(2);

/// The folder in the BPF file system below which controls are pinned.
#[derive(Clone, Debug)]
pub struct Pins {
    root: PathBuf,
}

/// How a load found the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing was there.
    Nothing,
    /// The remains of a load that did not come to its end; they have been cleared.
    Remains,
    /// The control; it has been replaced.
    Control {
        /// Connections and network namespaces that keep the one before.
        users: u32,
    },
}

impl Default for Pins {
    fn default() -> Self {
        Self::at("/sys/fs/bpf/fairwind")
    }
}

impl Pins {
    /// Pins below this folder, which is in a BPF file system, or is to be made in one.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Loads the control that the parameters belong to under this name, to stay.
    ///
    /// The name has 1 to 15 letters, digits or `_`.
    ///
    /// # Errors
    ///
    /// What is missing or wrong; see [`PinError`] and [`LoadError`].
    pub fn load(&self, parameters: &Parameters, name: &str) -> Result<Found, PinError> {
        requirements::check()?;
        let folder = self.folder(name)?;
        let _lock = folder::lock(&self.root)?;
        match Pinned::open(&folder, name)? {
            None => load_into(&folder, parameters, name),
            Some(pinned) => Err(PinError::AlreadyPinned {
                name: name.to_owned(),
                about: pinned.about().cloned().map(Box::new),
            }),
        }
    }

    /// Loads the control in place of the one that is pinned under this name, or as
    /// [`load`](Self::load) does if there is none. Connections that have the control before keep it
    /// until they close; new ones never find the name missing.
    ///
    /// # Errors
    ///
    /// What is missing or wrong; see [`PinError`] and [`LoadError`].
    pub fn replace(&self, parameters: &Parameters, name: &str) -> Result<Found, PinError> {
        requirements::check()?;
        let folder = self.folder(name)?;
        let _lock = folder::lock(&self.root)?;
        let Some(before) = Pinned::open(&folder, name)? else {
            return load_into(&folder, parameters, name);
        };
        let users = before.users()?;
        replace::replace(&before, &folder, parameters, name)?;
        Ok(Found::Control { users })
    }

    /// Takes a control out. Connections that have it keep it until they close; their number, and
    /// that of the network namespaces whose default it is, is the answer.
    ///
    /// # Errors
    ///
    /// If it is not pinned here, or the kernel does not let it go.
    pub fn unload(&self, name: &str) -> Result<u32, PinError> {
        requirements::check()?;
        let folder = self.folder(name)?;
        let not_pinned = || PinError::NotPinned {
            name: name.to_owned(),
        };
        let there = folder.try_exists();
        if !there.map_err(|error| PinError::at(&folder, error))? {
            return Err(not_pinned());
        }
        let _lock = folder::lock(&self.root)?;
        let Some(pinned) = Pinned::open(&folder, name)? else {
            folder::clear(&folder)?;
            return Err(not_pinned());
        };
        let users = pinned.users()?;
        let path = folder.join(LINK);
        fs::remove_file(&path).map_err(|error| PinError::at(&path, error))?;
        // Unregisters it at once from Linux 6.11 on; before, the last reference to the link does.
        let _ = pinned.link().detach();
        drop(pinned);
        folder::clear(&folder)?;
        wait_until_gone(name)?;
        Ok(users)
    }

    /// The control that is pinned under this name.
    ///
    /// # Errors
    ///
    /// If this process may not look.
    pub fn get(&self, name: &str) -> Result<Option<Pinned>, PinError> {
        let folder = self.folder(name)?;
        let there = folder.try_exists();
        if !there.map_err(|error| PinError::at(&folder, error))? {
            return Ok(None);
        }
        let _lock = folder::lock(&self.root)?;
        Pinned::open(&folder, name)
    }

    /// All controls that are pinned here, by name.
    ///
    /// # Errors
    ///
    /// If this process may not look.
    pub fn all(&self) -> Result<Vec<Pinned>, PinError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(PinError::at(&self.root, error)),
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| is_name(name))
            .collect();
        names.sort();
        let opened = names.iter().map(|name| self.get(name));
        opened.filter_map(Result::transpose).collect()
    }

    /// The control's own folder.
    fn folder(&self, name: &str) -> Result<PathBuf, PinError> {
        if !is_name(name) {
            let name = name.to_owned();
            return Err(PinError::BadName { name });
        }
        Ok(self.root.join(name))
    }
}

/// The kernel also takes dots in names, a BPF file system does not.
fn is_name(name: &str) -> bool {
    object::is_name(name) && !name.contains('.')
}

/// Loads into a folder of the locked root that holds nothing, or remains.
fn load_into(folder: &Path, parameters: &Parameters, name: &str) -> Result<Found, PinError> {
    let remains = folder::clear(folder)?;
    free(name)?;
    folder::make(folder)?;
    if let Err(error) = fill(folder, parameters, name) {
        // What stays is cleared by the next load; why this one failed is what matters.
        let _ = folder::clear(folder);
        return Err(error);
    }
    Ok(match remains {
        true => Found::Remains,
        false => Found::Nothing,
    })
}

fn fill(folder: &Path, parameters: &Parameters, name: &str) -> Result<(), PinError> {
    let mut object = pinned_object(folder, parameters, name, "")?;
    let mut link = object.register()?;
    pin_link(&mut link, folder)
}

/// The control, verified and pinned but for its link; `prefix` begins the names of its pins.
fn pinned_object(
    folder: &Path,
    parameters: &Parameters,
    name: &str,
    prefix: &str,
) -> Result<Verified, PinError> {
    let bytes = object::of(parameters.control());
    let mut object = verify(parameters, name, bytes)?;
    pin_maps(&mut object, folder, prefix)?;
    let about = About::of(parameters.control(), bytes);
    let path = folder.join(format!("{prefix}{ABOUT}"));
    symlink(about.to_string(), &path).map_err(|error| PinError::at(&path, error))?;
    Ok(object)
}

fn pin_maps(object: &mut Verified, folder: &Path, prefix: &str) -> Result<(), PinError> {
    let operations = folder.join(format!("{prefix}{OPERATIONS}"));
    let refused = |path: &Path, error| PinError::kernel(path, &error);
    object
        .operations()
        .pin(&operations)
        .map_err(|error| refused(&operations, error))?;
    let settings = folder.join(format!("{prefix}{SETTINGS}"));
    object
        .settings()
        .pin(&settings)
        .map_err(|error| refused(&settings, error))
}

/// From here on the control does not need this process any more.
fn pin_link(link: &mut Link, folder: &Path) -> Result<(), PinError> {
    let path = folder.join(LINK);
    link.pin(&path)
        .map_err(|error| PinError::kernel(&path, &error))
}

fn wait_until_gone(name: &str) -> Result<(), PinError> {
    let begun = Instant::now();
    while available().is_ok_and(|names| names.iter().any(|other| other == name)) {
        if begun.elapsed() > UNREGISTERED_WITHIN {
            return Err(PinError::Held {
                name: name.to_owned(),
                holder: super::holder::of(name),
            });
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
