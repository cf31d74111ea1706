//! A program in a host: starts it, and finds out when it listens.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use fairwind_kernel::{SignalSet, open_sockets, processes};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::procfs::listening_sockets;
use super::sysfs::Sysfs;
use crate::LabError;
use crate::host::Inherited;
use crate::host::Namespace;

/// A program in a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The network namespace of its host.
    pub namespace: Namespace,
    /// The program and its arguments; not empty.
    pub words: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// Where its standard output and standard error go, with no input. `None`: it inherits this
    /// process' input and outputs.
    pub output: Option<[Inherited; 2]>,
}

impl Program {
    /// Its name in messages: the last word, which is the command line given to the shell.
    pub(crate) fn text(&self) -> String {
        let last = self.words.last();
        last.map_or_else(String::new, |word| word.to_string_lossy().into_owned())
    }

    /// Starts it in its host.
    pub(crate) fn start(&self) -> Result<Pid, LabError> {
        let name = self.words[0].to_string_lossy().into_owned();
        let failed = |error: io::Error| LabError::Failed(format!("{name} does not start: {error}"));
        let namespace = self.namespace.clone();
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .envs(self.environment.iter().map(|(k, v)| (k, v)));
        if let Some([standard, errors]) = &self.output {
            command
                .stdin(Stdio::null())
                .stdout(standard.try_clone().map_err(failed)?)
                .stderr(errors.try_clone().map_err(failed)?);
        }
        let mut sysfs = Sysfs::of_this_process();
        // SAFETY: only system calls are made between fork and exec.
        unsafe {
            command.pre_exec(move || {
                // The first process blocks signals to read them from a descriptor; its children
                // must not inherit that.
                SignalSet::empty().set_mask()?;
                namespace.enter_before_exec()?;
                sysfs.mount();
                Ok(())
            });
        }
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => LabError::Failed(format!("{name}: no such program")),
            _ => failed(error),
        })?;
        Ok(Pid::from_child(&child))
    }

    /// True if one of this PID namespace's processes, other than the first, has a socket in the
    /// program's host that listens for TCP or is bound for UDP.
    pub(crate) fn listens(&self) -> Result<bool, LabError> {
        let inodes = self.namespace.within(|| Ok(listening_sockets()))?;
        let listens = |pid| open_sockets(pid).any(|(_, inode)| inodes.contains(&inode));
        Ok(!inodes.is_empty() && processes().any(|pid| pid != 1 && listens(pid)))
    }
}

/// The command that runs `line` in a shell.
pub(crate) fn shell(line: impl Into<OsString>) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), line.into()]
}

/// Replaces every `placeholder`, which must not be empty, by `value`.
pub(crate) fn with_placeholder(text: &OsStr, placeholder: &str, value: &str) -> OsString {
    let mut rest = text.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some(&byte) = rest.first() {
        if let Some(behind) = rest.strip_prefix(placeholder.as_bytes()) {
            out.extend(value.bytes());
            rest = behind;
        } else {
            out.push(byte);
            rest = &rest[1..];
        }
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_goes_where_its_place_is() {
        let with = |text: &str| with_placeholder(OsStr::new(text), "{to}", "10.0.0.2");
        assert_eq!(with("{to}"), "10.0.0.2");
        assert_eq!(with("http://{to}:80/{to}"), "http://10.0.0.2:80/10.0.0.2");
        assert_eq!(with("{t"), "{t");
        assert_eq!(with(""), "");
    }
}
