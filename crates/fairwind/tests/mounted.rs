//! Namespaces of a test's own, with file systems that the host may not have, or in which others make and remove things.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// They are there until this is dropped.
pub(crate) struct Mounted {
    holder: Child,
    /// Options of unshare(1) and nsenter(1).
    kinds: &'static [&'static str],
}

impl Mounted {
    /// A BPF file system.
    pub(crate) fn new() -> Mounted {
        Mounted::by(&["--mount"], "mount -t bpf bpf /sys/fs/bpf")
    }

    /// Namespaces of these kinds, after this command of the shell.
    pub(crate) fn by(kinds: &'static [&'static str], mount: &str) -> Mounted {
        let mut holder = Command::new("unshare")
            .args(kinds)
            .args(["sh", "-c"])
            .arg(format!("{mount} && echo mounted && exec sleep infinity"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(holder.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        assert_eq!(said, "mounted\n");
        Mounted { holder, kinds }
    }

    /// The command in them.
    pub(crate) fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.args(self.kinds);
        inside.args(["--target", &self.holder.id().to_string()]);
        if let Some(folder) = command.get_current_dir() {
            inside.arg(format!("--wd={}", folder.display()));
        }
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }

    /// The root folder that is seen in them.
    pub(crate) fn root(&self) -> PathBuf {
        format!("/proc/{}/root", self.holder.id()).into()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
