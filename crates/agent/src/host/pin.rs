//! What an agent leaves in the kernel for the next: what connections have been given, and what they had before.

use std::fs;
use std::path::PathBuf;

use libbpf_rs::{Link, MapCore, Object};

use super::load::SOCKETS;

/// Files of a BPF file system: for what an agent knows of sockets, and for its program while that holds downloads down. Nothing
/// is kept without such a file system.
#[derive(Clone, Debug)]
pub struct Pin(Option<PathBuf>);

impl Pin {
    /// That of the agent that takes care of the control group with this inode.
    pub fn of_group(group: u64) -> Pin {
        let mounted = fairwind_kernel::mounted("bpf");
        Pin(mounted.map(|bpf| bpf.join(format!("fairwind-agent-{group}"))))
    }

    /// Whether there is a file system for it.
    pub fn can_be(&self) -> bool {
        self.0.is_some()
    }

    /// The file, if an agent has left it.
    pub fn left(&self) -> Option<&PathBuf> {
        self.0.as_ref().filter(|pin| pin.exists())
    }

    /// Keeps what the programs of the object know, if that is not kept yet.
    pub(super) fn keep(&self, object: &mut Object) -> libbpf_rs::Result<()> {
        let Some(pin) = self.0.as_ref().filter(|pin| !pin.exists()) else {
            return Ok(());
        };
        let mut sockets = object.maps_mut().filter(|map| map.name() == SOCKETS);
        sockets.next().map_or(Ok(()), |mut map| map.pin(pin))
    }

    /// The file of the program. The file system refuses dots.
    fn program(&self) -> Option<PathBuf> {
        let mut name = self.0.clone()?.into_os_string();
        name.push("-program");
        Some(name.into())
    }

    /// Keeps the program, in the place of one that an earlier agent has left.
    pub(super) fn keep_program(&self, link: &mut Link) -> libbpf_rs::Result<()> {
        self.drop_program();
        let Some(pin) = self.program().filter(|_| link.pin_path().is_none()) else {
            return Ok(());
        };
        link.pin(pin)
    }

    /// Lets the program go.
    pub(super) fn drop_program(&self) {
        if let Some(pin) = self.program() {
            // There may be none.
            let _ = fs::remove_file(pin);
        }
    }

    /// Removes it.
    pub fn remove(&self) {
        if let Some(pin) = &self.0 {
            // Another may have done so.
            let _ = fs::remove_file(pin);
        }
    }
}
