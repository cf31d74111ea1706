//! Controls that stay in the kernel after their loader has exited.
//!
//! Each has a folder below `/sys/fs/bpf/fairwind`, or where [`PINS_VARIABLE`] says, named as the control is in the kernel:
//!
//! ```text
//! fw_sfsack/operations   the control: its struct tcp_congestion_ops
//! fw_sfsack/settings     its parameters: struct cc_settings
//! fw_sfsack/about        the control and its build, as the text of a symbolic link
//! fw_sfsack/link         the link that keeps it registered; pinned last, removed first
//! ```
//!
//! Beside the folders are `advised-sockets` and `advised-paths`, with what the connections of all of them are advised
//! of their paths, as long as there is a control that takes advice.
//!
//! So a folder without a working `link` is the remains of a crash, which the next load clears. A
//! replacement names its pins `new_…` until the link has been switched to them.

mod about;
mod error;
mod folder;
mod pinned;
mod replace;

pub use about::About;
pub use error::PinError;
pub use pinned::Pinned;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, iter, thread};

use libbpf_rs::{MapCore, MapHandle, MapMut};

use super::load::{Verified, verify};
use super::loaded::free;
use super::provide::with_private_name;
use super::{AdvisedStarts, LoadError, advised, available, object, requirements};
use crate::native::Parameters;

const LINK: &str = "link";
const OPERATIONS: &str = "operations";
const SETTINGS: &str = "settings";
const ABOUT: &str = "about";

/// Time limit for the kernel to unregister a control whose link is gone.
const UNREGISTERED_WITHIN: Duration = Duration::from_secs(2);

/// The folder in the BPF file system that contains all pinned controls.
#[derive(Clone, Debug)]
pub struct Pins {
    root: PathBuf,
}

/// What a load found under the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// The remains of an interrupted load, which have been cleared.
    Leftovers,
    /// A control, which has been replaced.
    Control {
        /// Number of connections and network namespaces that keep the previous one.
        users: u32,
    },
}

/// The environment's name of [`Pins::default`].
pub const PINS_VARIABLE: &str = "FAIRWIND_PINS";

impl Default for Pins {
    /// Those in the folder that the environment names, or below `/sys/fs/bpf/fairwind`.
    fn default() -> Self {
        let named = std::env::var_os(PINS_VARIABLE).filter(|named| !named.is_empty());
        Self::at(named.map_or_else(|| "/sys/fs/bpf/fairwind".into(), PathBuf::from))
    }
}

impl Pins {
    /// Pins below this folder, which is in a BPF file system or will be created in one.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder of all pins.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Loads and pins the control that the parameters belong to, under this name.
    ///
    /// The name has 1 to 15 letters, digits or `_`.
    ///
    /// # Errors
    ///
    /// If a requirement is not met, the name is invalid or taken, the folder is not in a BPF file system,
    /// or the kernel refuses the object; see [`PinError`] and [`LoadError`].
    pub fn load(&self, parameters: &Parameters, name: &str) -> Result<Found, PinError> {
        requirements::check()?;
        let folder = self.folder(name)?;
        let _lock = folder::lock(&self.root)?;
        load_new(&folder, parameters, name)
    }

    /// Loads and pins several controls, each under its name; on several processors side by side. Returns what came of
    /// each, in their order.
    ///
    /// # Errors
    ///
    /// If a requirement is not met, or the folder is not in a BPF file system. Those of each control are as those of
    /// [`load`](Self::load).
    pub fn load_all(
        &self,
        all: &[(Parameters, String)],
    ) -> Result<Vec<Result<Found, PinError>>, PinError> {
        requirements::check()?;
        let _lock = folder::lock(&self.root)?;
        let load = |(parameters, name): &(Parameters, String)| {
            load_new(&self.folder(name)?, parameters, name)
        };
        // The first that takes advice pins the maps that the others share.
        let maps_are_there = || {
            let mut maps = advised::MAPS.iter();
            maps.all(|map| advised::pin(&self.root, OsStr::new(map)).exists())
        };
        let mut found = Vec::new();
        while found.len() < all.len() && !maps_are_there() {
            found.push(load(&all[found.len()]));
        }
        let rest = &all[found.len()..];
        let names: BTreeSet<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
        let threads = match thread::available_parallelism() {
            // Of two of the same name, the second finds the first.
            Ok(count) if names.len() == all.len() => count.get().min(rest.len()),
            _ => 1,
        };
        let next = AtomicUsize::new(0);
        let worker = || {
            let turns = iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
            let turns = turns.take_while(|turn| *turn < rest.len());
            turns.map(|turn| (turn, load(&rest[turn]))).collect()
        };
        let mut loaded: Vec<(usize, Result<Found, PinError>)> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
            let ended = workers.into_iter().map(|worker| worker.join());
            ended
                .flat_map(|done: thread::Result<Vec<_>>| {
                    done.unwrap_or_else(|panic| resume_unwind(panic))
                })
                .collect()
        });
        loaded.sort_by_key(|(turn, _)| *turn);
        found.extend(loaded.into_iter().map(|(_, found)| found));
        Ok(found)
    }

    /// The same under an unused name, which is returned.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), or if no name is free.
    pub fn load_private(&self, parameters: &Parameters) -> Result<String, PinError> {
        with_private_name(parameters.control().name(), |name| {
            match self.load(parameters, name) {
                Err(PinError::AlreadyPinned { .. })
                | Err(PinError::Load(LoadError::AlreadyLoaded { .. })) => Ok(None),
                outcome => outcome.map(|_| Some(name.to_owned())),
            }
        })
    }

    /// Loads the control in place of the one that is pinned under this name, or as [`load`](Self::load) if
    /// there is none. Connections that use the previous control keep it until they close; new ones always
    /// find a control of this name.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), except that a pinned control may have the name.
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

    /// Unloads a pinned control. Connections that use it keep it until they close. Returns the number of
    /// these and of the network namespaces whose default it is.
    ///
    /// # Errors
    ///
    /// If a requirement is not met, the name is invalid, no control is pinned under it, or the control
    /// stays in the kernel because something else holds it.
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
        // From Linux 6.11 on, detaching unregisters it at once; before, dropping the last reference
        // to the link does.
        let _ = pinned.link().detach();
        drop(pinned);
        folder::clear(&folder)?;
        self.forget_unused_advice()?;
        wait_until_gone(name)?;
        Ok(users)
    }

    /// The control that is pinned under this name, if any.
    ///
    /// # Errors
    ///
    /// If the name is invalid, or the pins cannot be read.
    pub fn get(&self, name: &str) -> Result<Option<Pinned>, PinError> {
        let folder = self.folder(name)?;
        let there = folder.try_exists();
        if !there.map_err(|error| PinError::at(&folder, error))? {
            return Ok(None);
        }
        let _lock = folder::lock(&self.root)?;
        Pinned::open(&folder, name)
    }

    /// All controls that are pinned here, sorted by name.
    ///
    /// # Errors
    ///
    /// If the pins cannot be read.
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

    /// What the connections of the pinned controls are advised of their paths; `None`: no pinned control takes advice.
    ///
    /// # Errors
    ///
    /// If the pins cannot be read.
    pub fn advised_starts(&self) -> Result<Option<AdvisedStarts>, PinError> {
        AdvisedStarts::pinned(&self.root).map_err(|error| PinError::kernel(&self.root, &error))
    }

    /// The same, if a control that takes advice is pinned under this name in the kernel.
    pub fn advised_starts_of(&self, name: &str) -> Option<AdvisedStarts> {
        let pinned = self.get(name).ok().flatten()?;
        let control = pinned.about().and_then(About::known_control)?;
        let starts = || self.advised_starts().ok().flatten();
        control.takes_advised_start().then(starts).flatten()
    }

    /// Removes the pins of the advice if no control is left. The caller holds the lock on the root.
    fn forget_unused_advice(&self) -> Result<(), PinError> {
        let entries = fs::read_dir(&self.root).map_err(|error| PinError::at(&self.root, error))?;
        let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        if names.any(|name| is_name(&name)) {
            return Ok(());
        }
        for map in advised::MAPS {
            let path = advised::pin(&self.root, OsStr::new(map));
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(PinError::at(&path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The folder of the control of this name.
    fn folder(&self, name: &str) -> Result<PathBuf, PinError> {
        if !is_name(name) {
            let name = name.to_owned();
            return Err(PinError::BadName { name });
        }
        Ok(self.root.join(name))
    }
}

/// Whether a pinned control can have this name: the kernel accepts dots, a BPF file system does not.
fn is_name(name: &str) -> bool {
    object::is_name(name) && !name.contains('.')
}

/// Loads the control, unless one is pinned in its folder, in the locked root.
fn load_new(folder: &Path, parameters: &Parameters, name: &str) -> Result<Found, PinError> {
    match Pinned::open(folder, name)? {
        None => load_into(folder, parameters, name),
        Some(pinned) => Err(PinError::AlreadyPinned {
            name: name.to_owned(),
            about: pinned.about().cloned().map(Box::new),
        }),
    }
}

/// Loads into a folder, in the locked root, that is absent or holds remains.
fn load_into(folder: &Path, parameters: &Parameters, name: &str) -> Result<Found, PinError> {
    let remains = folder::clear(folder)?;
    free(name)?;
    folder::make(folder)?;
    if let Err(error) = fill(folder, parameters, name) {
        // The next load clears the rest; the original error matters more than one from clearing.
        let _ = folder::clear(folder);
        return Err(error);
    }
    Ok(if remains {
        Found::Leftovers
    } else {
        Found::Nothing
    })
}

fn fill(folder: &Path, parameters: &Parameters, name: &str) -> Result<(), PinError> {
    let mut object = pinned_object(folder, parameters, name, "")?;
    let mut link = object.register()?;
    // From now on, the control does not depend on this process.
    let path = folder.join(LINK);
    link.pin(&path)
        .map_err(|error| PinError::kernel(&path, &error))
}

/// Verifies the control and pins all but its link, with `prefix` before the names of the pins.
fn pinned_object(
    folder: &Path,
    parameters: &Parameters,
    name: &str,
    prefix: &str,
) -> Result<Verified, PinError> {
    let bytes = object::of(parameters.control());
    let root = folder.parent().unwrap_or(folder);
    let mut object = verify(parameters, name, bytes, Some(root))?;
    for map in object.advised() {
        let path = advised::pin(root, map.name());
        // Its control may have been pinned before.
        if !path.exists() {
            let mut map =
                MapHandle::try_from(&map).map_err(|error| PinError::kernel(&path, &error))?;
            map.pin(&path)
                .map_err(|error| PinError::kernel(&path, &error))?;
        }
    }
    let pin = |mut map: MapMut<'_>, file| {
        let path = folder.join(format!("{prefix}{file}"));
        map.pin(&path)
            .map_err(|error| PinError::kernel(&path, &error))
    };
    pin(object.operations(), OPERATIONS)?;
    pin(object.settings(), SETTINGS)?;
    let about = About::of(parameters.control(), bytes);
    let path = folder.join(format!("{prefix}{ABOUT}"));
    symlink(about.to_string(), &path).map_err(|error| PinError::at(&path, error))?;
    Ok(object)
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
