//! What an agent leaves in the kernel for the next: what connections have been given, and what they had before.

use std::fs;
use std::path::PathBuf;

use fairwind_kernel::{NoBpfFileSystem, bpf_file_system};
use libbpf_rs::{Link, MapCore, Object};

use super::HostError;
use super::load::SOCKETS;
use crate::control_group;

/// What the names of the files begin with; the inode of the control group follows.
const PREFIX: &str = "fairwind-agent-";
/// What follows for the program. The file system refuses dots.
const PROGRAM: &str = "-program";

/// Files of a BPF file system: for what an agent knows of sockets, and for its program while that holds downloads down. Nothing
/// is kept without such a file system.
#[derive(Clone, Debug)]
pub struct Pin(Result<PathBuf, NoBpfFileSystem>);

impl Pin {
    /// That of the agent that takes care of the control group with this inode.
    pub fn of_group(group: u64) -> Pin {
        Pin(bpf_file_system().map(|bpf| bpf.join(format!("{PREFIX}{group}"))))
    }

    /// Why nothing is kept, if there is no file system for it.
    pub fn missing(&self) -> Option<&NoBpfFileSystem> {
        self.0.as_ref().err()
    }

    /// The file, if an agent has left it.
    pub fn left(&self) -> Option<&PathBuf> {
        self.0.as_ref().ok().filter(|pin| pin.exists())
    }

    /// Keeps what the programs of the object know, if that is not kept yet.
    pub(super) fn keep(&self, object: &mut Object) -> Result<(), HostError> {
        let Some(pin) = self.0.as_ref().ok().filter(|pin| !pin.exists()) else {
            return Ok(());
        };
        let mut sockets = object.maps_mut().filter(|map| map.name() == SOCKETS);
        let kept = sockets.next().map_or(Ok(()), |mut map| map.pin(pin));
        kept.map_err(|error| refused(pin.clone(), &error))
    }

    /// The file of the program.
    fn program(&self) -> Option<PathBuf> {
        let mut name = self.0.clone().ok()?.into_os_string();
        name.push(PROGRAM);
        Some(name.into())
    }

    /// Keeps the program, in the place of one that an earlier agent has left.
    pub(super) fn keep_program(&self, link: &mut Link) -> Result<(), HostError> {
        self.drop_program();
        let Some(pin) = self.program().filter(|_| link.pin_path().is_none()) else {
            return Ok(());
        };
        let kept = link.pin(&pin);
        kept.map_err(|error| refused(pin, &error))
    }

    /// Lets the program go.
    pub(super) fn drop_program(&self) {
        if let Some(pin) = self.program() {
            // There may be none.
            let _ = fs::remove_file(pin);
        }
    }

    /// Removes what agents have left of control groups that are gone.
    pub(super) fn remove_left() {
        let Ok(bpf) = bpf_file_system() else {
            return;
        };
        let files = fs::read_dir(bpf).into_iter().flatten().flatten();
        let left =
            files.filter_map(|file| Some((group_of(file.file_name().to_str()?)?, file.path())));
        let left: Vec<(u64, PathBuf)> = left.collect();
        if left.is_empty() || !control_group::are_all_seen() {
            return;
        }
        // A group whose file was seen was there before. If not all can be looked for, none is taken for gone.
        let Ok(groups) = control_group::paths() else {
            return;
        };
        for (_, file) in left.iter().filter(|(group, _)| !groups.contains_key(group)) {
            let _ = fs::remove_file(file);
        }
    }

    /// Removes it.
    pub fn remove(&self) {
        if let Ok(pin) = &self.0 {
            // Another may have done so.
            let _ = fs::remove_file(pin);
        }
    }
}

fn refused(pin: PathBuf, error: &libbpf_rs::Error) -> HostError {
    HostError::Pin {
        pin,
        reason: error.to_string(),
    }
}

/// The inode of the control group of which a file with this name is.
fn group_of(name: &str) -> Option<u64> {
    let group = name.strip_prefix(PREFIX)?;
    group.strip_suffix(PROGRAM).unwrap_or(group).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_agents_are_known_by_their_names() {
        assert_eq!(group_of("fairwind-agent-13629"), Some(13_629));
        assert_eq!(group_of("fairwind-agent-13629-program"), Some(13_629));
        assert_eq!(group_of("fairwind-run-13629"), None);
        assert_eq!(group_of("fairwind-agent-"), None);
    }
}
