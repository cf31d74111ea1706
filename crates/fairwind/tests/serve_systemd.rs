//! The units of docs/examples under systemd itself, which runs as the first process of namespaces of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use fairwind_testing::{or_skip, permitted, root, wait_until};

/// A systemd that has nothing to do yet; it ends with this.
struct Systemd {
    boot: Child,
    /// The number of its process.
    id: u32,
    group: PathBuf,
    _folder: tempfile::TempDir,
}

impl Systemd {
    /// # Errors
    /// If something is missing that it needs; the message names it.
    fn start() -> Result<Self, String> {
        if !Path::new("/lib/systemd/systemd").exists() {
            return Err("systemd is missing".into());
        }
        let folder = tempfile::tempdir().unwrap();
        let group = control_group()?;
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut boot = Command::new("sh")
            .arg(here.join("tests/serve_systemd/boot.sh"))
            .args([folder.path(), &group])
            .arg(env!("CARGO_BIN_EXE_fairwind"))
            .arg(here.join("../../docs/examples"))
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let children = format!("/proc/{0}/task/{0}/children", boot.id());
        let is_systemd = |id: &u32| {
            fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "systemd\n")
        };
        let mut id = None;
        wait_until("systemd begins", || {
            let text = fs::read_to_string(&children).unwrap_or_default();
            id = text.trim().parse().ok().filter(is_systemd);
            id.is_some() || boot.try_wait().unwrap().is_some()
        });
        let systemd = Self {
            boot,
            id: id.unwrap_or_default(),
            group,
            _folder: folder,
        };
        if systemd.id == 0 {
            return Err("namespaces for systemd cannot be made".into());
        }
        wait_until("systemd answers", || {
            systemd
                .control(&["is-active", "sysinit.target"])
                .status
                .success()
        });
        Ok(systemd)
    }

    /// A program inside.
    fn within(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--mount", "--pid", "--net", "--cgroup", "--target"])
            .arg(self.id.to_string())
            .args(["--", "timeout", "60", program])
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    fn control(&self, arguments: &[&str]) -> Output {
        let mut command = self.within("systemctl");
        command
            .args(["--no-pager"])
            .args(arguments)
            .output()
            .unwrap()
    }

    fn must(&self, arguments: &[&str]) -> String {
        let output = self.control(arguments);
        let status = self.control(&["status", "fairwind-serve.service"]);
        assert!(
            output.status.success(),
            "{arguments:?}: {output:?} {status:?}"
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// What curl says with these arguments.
    fn curl(&self, arguments: &[&str]) -> Command {
        let mut command = self.within("curl");
        command.args(["--silent", "--show-error", "--verbose"]);
        command.args(arguments).arg("ftp://127.0.0.1/x");
        command
    }

    fn banner(&self) -> String {
        let output = self.curl(&["--output", "/dev/null"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = said.lines().find_map(|line| line.strip_prefix("< 220-"));
        line.expect("there is a banner").trim().to_owned()
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        let _ = self.boot.kill();
        let _ = self.boot.wait();
        // Once the last process has gone.
        for _ in 0..100 {
            if remove(&self.group).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Removes a control group and those in it.
fn remove(group: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(group)? {
        let path = entry?.path();
        if path.is_dir() {
            remove(&path)?;
        }
    }
    fs::remove_dir(group)
}

/// A new control group of version 2.
fn control_group() -> Result<PathBuf, String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mounted = mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        (words.get(2) == Some(&"cgroup2")).then(|| words[1].to_owned())
    });
    let mounted = mounted.ok_or("no control groups of version 2 are mounted")?;
    let group = Path::new(&mounted).join(format!("fairwind-test-{}", std::process::id()));
    fs::create_dir(&group).map_err(|error| format!("{}: {error}", group.display()))?;
    Ok(group)
}

#[test]
fn the_socket_starts_the_service_a_reload_is_taken_and_a_stop_lets_transfers_end() {
    if !permitted(root()) {
        return;
    }
    let Some(systemd) = or_skip(Systemd::start()) else {
        return;
    };
    systemd.must(&["start", "fairwind-serve.socket"]);
    assert_eq!(
        systemd.must(&["is-active", "fairwind-serve.socket"]),
        "active"
    );
    assert!(
        !systemd
            .control(&["is-active", "fairwind-serve.service"])
            .status
            .success()
    );

    assert_eq!(systemd.banner(), "one");
    assert_eq!(
        systemd.must(&["is-active", "fairwind-serve.service"]),
        "active"
    );
    let shown = |key: &str| systemd.must(&["show", "--value", "--property", key, "fairwind-serve"]);
    let main = shown("MainPID");

    let changed = systemd
        .within("sh")
        .args(["-c", "echo two >/etc/fairwind/banner"])
        .status();
    assert!(changed.unwrap().success());
    systemd.must(&["reload", "fairwind-serve.service"]);
    wait_until("new clients are greeted anew", || systemd.banner() == "two");
    assert_eq!(shown("MainPID"), main);

    // Two seconds of a transfer, in whose midst the service is stopped.
    let mut slow = systemd.curl(&["--limit-rate", "2M", "--output", "/tmp/x"]);
    let mut slow = slow.stderr(Stdio::null()).spawn().unwrap();
    wait_until("the transfer runs", || {
        let got = systemd.within("sh").args(["-c", "test -s /tmp/x"]).status();
        got.unwrap().success()
    });
    systemd.must(&["stop", "fairwind-serve.socket", "fairwind-serve.service"]);
    assert!(slow.wait().unwrap().success());
    let same = systemd
        .within("cmp")
        .args(["/tmp/x", "/srv/ftp/x"])
        .status();
    assert!(same.unwrap().success());
    assert_eq!(shown("Result"), "success");
    assert_eq!(shown("NRestarts"), "0");
}
