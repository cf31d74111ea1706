//! Limits the files that the server can reach, whatever is wrong with it: Landlock (landlock(7)).

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// Before ABI 2 files cannot be moved between directories, so nothing older is of use.
const LEAST: ABI = ABI::V2;

/// The newest ABI whose rights are known here.
const NEWEST: ABI = ABI::V6;

/// What may be done below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Read files and list directories.
    Read,
    /// Read, write, create, rename and remove files and directories; rename and remove links. Nothing is
    /// executed, and no devices or sockets are created.
    Serve,
    /// Read files.
    ReadFiles,
    /// Create files and append to them.
    Append,
}

impl Reach {
    fn rights(self) -> landlock::BitFlags<AccessFs> {
        match self {
            Self::Read => AccessFs::ReadFile | AccessFs::ReadDir,
            Self::ReadFiles => AccessFs::ReadFile.into(),
            Self::Append => AccessFs::WriteFile | AccessFs::MakeReg,
            Self::Serve => {
                AccessFs::ReadFile
                    | AccessFs::ReadDir
                    | AccessFs::WriteFile
                    | AccessFs::Truncate
                    | AccessFs::MakeReg
                    | AccessFs::MakeDir
                    // Renaming a link requires the right to create one; no FTP command creates any other.
                    | AccessFs::MakeSym
                    | AccessFs::RemoveFile
                    | AccessFs::RemoveDir
                    | AccessFs::Refer
            }
        }
    }
}

/// A prepared confinement, made while all paths can still be opened.
#[derive(Debug)]
pub(crate) struct Confinement(Option<RulesetCreated>);

impl Confinement {
    /// Prepares a confinement to these paths; paths that cannot be opened are left out.
    ///
    /// # Errors
    /// Fails if the kernel rejects the rule set or a rule.
    pub(crate) fn prepare(paths: &[(PathBuf, Reach)]) -> Result<Self, RulesetError> {
        let least = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(LEAST));
        if least.is_err() {
            return Ok(Self(None));
        }
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        for (path, reach) in paths {
            let Ok(open) = PathFd::new(path) else {
                continue;
            };
            let rights = if path.is_dir() {
                reach.rights()
            } else {
                reach.rights() & AccessFs::from_file(NEWEST)
            };
            rules = rules.add_rule(PathBeneath::new(open, rights))?;
        }
        Ok(Self(Some(rules)))
    }

    /// Confines this thread and those that it starts. Returns false if the kernel has no Landlock.
    ///
    /// # Errors
    /// Fails if the kernel refuses the restriction.
    pub(crate) fn enter(self) -> Result<bool, RulesetError> {
        let Some(rules) = self.0 else {
            return Ok(false);
        };
        Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
    }
}

/// The files that jiff reads for the time zone.
pub(crate) fn of_local_time() -> Vec<(PathBuf, Reach)> {
    read(&["/etc/localtime", "/usr/share/zoneinfo"])
}

/// The files that the C library and its plug-ins read to find the address of a host.
pub(crate) fn of_host_names() -> Vec<(PathBuf, Reach)> {
    read(&[
        "/etc",
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/run/systemd/resolve",
        "/run/resolvconf",
        "/run/NetworkManager",
    ])
}

/// The limits and congestion controls of the kernel.
pub(crate) fn of_network_settings() -> Vec<(PathBuf, Reach)> {
    read(&["/proc/sys/net"])
}

fn read(paths: &[&str]) -> Vec<(PathBuf, Reach)> {
    let paths = paths.iter().map(Path::new);
    paths.map(|path| (path.to_owned(), Reach::Read)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};
    use std::io::Write;

    use fairwind_testing::or_skip;

    use super::*;

    /// A thread cannot undo its confinement: each test uses a new one.
    fn confined(to: &[(PathBuf, Reach)], act: impl FnOnce() + Send) {
        let confinement = Confinement::prepare(to).unwrap();
        std::thread::scope(|scope| {
            let done = scope.spawn(|| {
                if confinement.enter().unwrap() {
                    act()
                } else {
                    or_skip(Err::<(), _>("this kernel has no Landlock"));
                }
            });
            done.join().unwrap();
        });
    }

    #[test]
    fn what_is_served_is_all_there_is() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (inside.path(), outside.path());
        fs::write(there.join("secret"), "x").unwrap();
        std::os::unix::fs::symlink("x", here.join("link")).unwrap();
        confined(&[(here.to_owned(), Reach::Serve)], || {
            fs::create_dir(here.join("d")).unwrap();
            fs::write(here.join("x"), "1").unwrap();
            fs::rename(here.join("x"), here.join("d/y")).unwrap();
            fs::rename(here.join("link"), here.join("d/link")).unwrap();
            fs::remove_file(here.join("d/link")).unwrap();
            File::options()
                .write(true)
                .open(here.join("d/y"))
                .unwrap()
                .set_len(0)
                .unwrap();
            fs::remove_file(here.join("d/y")).unwrap();
            fs::remove_dir(here.join("d")).unwrap();
            assert!(fs::read(there.join("secret")).is_err());
            assert!(fs::write(there.join("new"), "").is_err());
            assert!(fs::remove_file(there.join("secret")).is_err());
            assert!(fs::read("/etc/passwd").is_err());
            // No program can be run, not even an uploaded one.
            assert!(std::process::Command::new("/bin/true").status().is_err());
        });
    }

    #[test]
    fn logs_are_appended_to_and_configurations_read() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        fs::write(here.join("log"), "1\n").unwrap();
        confined(&[(here.to_owned(), Reach::Append)], || {
            let open = |name| {
                OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(here.join(name))
            };
            open("log").unwrap().write_all(b"2\n").unwrap();
            open("log.new").unwrap();
            assert!(fs::read(here.join("log")).is_err());
            assert!(fs::remove_file(here.join("log")).is_err());
        });
        confined(&[(here.to_owned(), Reach::ReadFiles)], || {
            assert_eq!(fs::read(here.join("log")).unwrap(), b"1\n2\n");
            assert!(fs::write(here.join("log"), "").is_err());
        });
    }
}
