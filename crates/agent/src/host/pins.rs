//! What an agent leaves in the kernel for the next: what connections have been given, and what they had before.

use std::fs;
use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore, Object};

use super::load::KEPT;

/// A folder of a BPF file system for an agent's maps; nothing is kept without such a file system.
#[derive(Clone, Debug)]
pub struct Pins(Option<PathBuf>);

impl Pins {
    /// Those of the agent that takes care of the control group with this inode.
    pub fn of_group(group: u64) -> Pins {
        let mounted = fairwind_kernel::mounted("bpf");
        Pins(mounted.map(|bpf| bpf.join(format!("fairwind-agent-{group}"))))
    }

    /// Whether there is a file system for them.
    pub fn can_be(&self) -> bool {
        self.0.is_some()
    }

    /// Whether an agent has left anything.
    pub fn are_there(&self) -> bool {
        self.0.as_deref().is_some_and(Path::exists)
    }

    /// The file of a map.
    pub(super) fn of(&self, map: &str) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(map))
    }

    /// Keeps the maps of the object that are not kept yet.
    pub(super) fn keep(&self, object: &mut Object) -> libbpf_rs::Result<()> {
        let Some(folder) = &self.0 else {
            return Ok(());
        };
        // If it cannot be made, pinning says why.
        let _ = fs::create_dir(folder);
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let pin = folder.join(&name);
            if KEPT.contains(&name.as_str()) && !pin.exists() {
                map.pin(pin)?;
            }
        }
        Ok(())
    }

    /// Removes them.
    pub fn remove(&self) {
        if let Some(folder) = &self.0 {
            // Another may have done so.
            for map in KEPT {
                let _ = fs::remove_file(folder.join(map));
            }
            let _ = fs::remove_dir(folder);
        }
    }
}
