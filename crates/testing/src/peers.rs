//! Third-party servers, installed or unpacked by `scripts/setup test`.

use std::env;
use std::path::{Path, PathBuf};

/// The folder that contains `usr/sbin/PROGRAM`: `/` if it is installed, or else its unpacked copy in the
/// build directory.
///
/// # Errors
///
/// If it is in neither; the message names the script that unpacks it.
pub fn install_root(program: &str) -> Result<PathBuf, String> {
    let this = env::current_exe().unwrap_or_default();
    let unpacked = this
        .ancestors()
        .skip(1)
        .map(|folder| folder.join("peers").join(program));
    [PathBuf::from("/")]
        .into_iter()
        .chain(unpacked)
        .find(|room| room.join("usr/sbin").join(program).exists())
        .ok_or_else(|| format!("{program} is missing (scripts/setup test unpacks it)"))
}

/// Lines of ProFTPD's configuration that load the modules for transfers, listings and `others`, as far
/// as this build has them as separate modules.
pub fn proftpd_modules(room: &Path, others: &[&str]) -> String {
    let modules = room.join("usr/lib/proftpd");
    let wanted = ["mod_xfer", "mod_ls"].iter().chain(others);
    let loaded = wanted
        .filter(|name| modules.join(format!("{name}.so")).exists())
        .map(|name| format!("LoadModule {name}.c\n"));
    format!("ModulePath \"{}\"\n", modules.display()) + &loaded.collect::<String>()
}
