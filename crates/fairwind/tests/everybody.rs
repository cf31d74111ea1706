//! The command for other users, who may have no access to the folder in which it was built.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fairwind_testing::copy_program;
use tempfile::TempDir;

/// `nobody`.
const OTHER: u32 = 65_534;

/// A copy of the command where every user may run it.
pub(crate) struct Everybody {
    folder: TempDir,
}

impl Everybody {
    pub(crate) fn new() -> Everybody {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_fairwind"));
        copy_program(program, &folder.path().join("fairwind"));
        Everybody { folder }
    }

    /// Where the copy is.
    pub(crate) fn program(&self) -> PathBuf {
        self.folder.path().join("fairwind")
    }

    /// The command run as another user without privileges, in a folder which that user may read.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.program());
        command.current_dir("/").uid(OTHER).gid(OTHER);
        command
    }
}
