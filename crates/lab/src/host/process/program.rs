//! A program in a host: starts it, and finds out when it listens.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::SigSet;
use nix::unistd::Pid;

use super::sysfs::Sysfs;
use crate::LabError;
use crate::host::namespace::Namespace;

/// A program in a host.
#[derive(Clone, Debug)]
pub struct Program {
    /// The network namespace of its host.
    pub namespace: Arc<Namespace>,
    /// The program and its arguments; not empty.
    pub words: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// Where its output goes, with no input. `None`: it inherits this process' input and outputs.
    pub output: Option<Output>,
}

/// Files for the output of a program.
#[derive(Clone, Debug)]
pub struct Output {
    pub standard: Arc<File>,
    pub errors: Arc<File>,
}

impl Program {
    /// Its name in messages: the last word, which is the command line given to the shell.
    pub fn text(&self) -> String {
        let last = self.words.last();
        last.map_or_else(String::new, |word| word.to_string_lossy().into_owned())
    }

    /// Starts it in its host.
    pub fn start(&self) -> Result<Pid, LabError> {
        let name = self.words[0].to_string_lossy().into_owned();
        let failed =
            |error: io::Error| LabError::Program(format!("{name} does not start: {error}"));
        let namespace = self.namespace.as_fd().try_clone_to_owned();
        let namespace = namespace.map_err(failed)?;
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .envs(self.environment.iter().map(|(k, v)| (k, v)));
        if let Some(Output { standard, errors }) = &self.output {
            command
                .stdin(Stdio::null())
                .stdout(standard.try_clone().map_err(failed)?)
                .stderr(errors.try_clone().map_err(failed)?);
        }
        let mut sysfs = Sysfs::look();
        // SAFETY: only system calls are made between fork and exec.
        unsafe {
            command.pre_exec(move || {
                // The first process blocks signals to read them from a descriptor; its children
                // must not inherit that.
                SigSet::empty().thread_set_mask()?;
                setns(&namespace, CloneFlags::CLONE_NEWNET)?;
                sysfs.mount();
                Ok(())
            });
        }
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => LabError::Program(format!("{name}: no such program")),
            _ => failed(error),
        })?;
        Ok(Pid::from_raw(child.id() as i32))
    }

    /// True if one of this PID namespace's processes, other than the first, has a socket in the
    /// program's host that listens for TCP or is bound for UDP.
    pub fn listens(&self) -> Result<bool, LabError> {
        let inodes = self.namespace.within(|| Ok(listening()))?;
        Ok(!inodes.is_empty() && processes().any(|pid| pid != 1 && holds(pid, &inodes)))
    }
}

/// The command that runs `line` in a shell.
pub fn shell(line: impl Into<OsString>) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), line.into()]
}

/// Replaces every `placeholder`, which must not be empty, by `value`.
pub fn with_placeholder(text: &OsStr, placeholder: &str, value: &str) -> OsString {
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

/// The PIDs in /proc.
fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// True if the process has one of these sockets open.
fn holds(pid: u32, inodes: &HashSet<u64>) -> bool {
    let fds = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    fds.filter_map(|fd| fs::read_link(fd.path()).ok())
        .filter_map(|target| socket_inode(&target))
        .any(|inode| inodes.contains(&inode))
}

/// The inode of a socket, from the target of its descriptor's link in /proc.
pub fn socket_inode(target: &Path) -> Option<u64> {
    let text = target.to_str()?.strip_prefix("socket:[")?;
    text.strip_suffix(']')?.parse().ok()
}

/// Inodes of the sockets in the thread's network namespace that listen for TCP or are bound for
/// UDP.
fn listening() -> HashSet<u64> {
    const LISTENING: &str = "0A";
    const BOUND: &str = "07";
    let mut inodes = HashSet::new();
    for (name, wanted) in [
        ("tcp", LISTENING),
        ("tcp6", LISTENING),
        ("udp", BOUND),
        ("udp6", BOUND),
    ] {
        let path = Path::new("/proc/thread-self/net").join(name);
        let table = fs::read_to_string(path).unwrap_or_default();
        let in_state = |line: &str| {
            let (state, inode) = state_and_inode(line)?;
            (state == wanted).then_some(inode)
        };
        inodes.extend(table.lines().filter_map(in_state));
    }
    inodes
}

/// The columns `st` and `inode` of a line in /proc/net/tcp or udp.
fn state_and_inode(line: &str) -> Option<(&str, u64)> {
    let mut columns = line.split_whitespace();
    let state = columns.nth(3)?;
    Some((state, columns.nth(5)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_socket_has_state_0a() {
        let line = "   0: 0100007F:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000 \
                    1000        0 77012 1 0000000000000000 100 0 0 10 0";
        assert_eq!(state_and_inode(line), Some(("0A", 77012)));
        assert_eq!(state_and_inode(""), None);
        assert_eq!(socket_inode(Path::new("socket:[77012]")), Some(77012));
        assert_eq!(socket_inode(Path::new("pipe:[77012]")), None);
    }

    #[test]
    fn a_value_goes_where_its_place_is() {
        let with = |text: &str| with_placeholder(OsStr::new(text), "{to}", "10.0.0.2");
        assert_eq!(with("{to}"), "10.0.0.2");
        assert_eq!(with("http://{to}:80/{to}"), "http://10.0.0.2:80/10.0.0.2");
        assert_eq!(with("{t"), "{t");
        assert_eq!(with(""), "");
    }
}
