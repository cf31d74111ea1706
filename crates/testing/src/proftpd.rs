//! ProFTPD with this project's module mod_fairwind.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use crate::{eventually, free_address, install_root, root};

/// alice's password `secret` as a crypt(5) hash.
const SECRET: &str = "$6$fairwind$J.Cu/z00AXnowPS2V6vRr6WvX/KBIR40YYFsny4LLsAyEpoPG3/RLOv8q/LmHmG5HIYlDsT0jygFOLOwaySmj1";
/// User and group `nobody`, whose rights alice has if root runs the tests.
const NOBODY: u32 = 65_534;

/// Builds the module, once for each test program.
///
/// # Errors
///
/// If it cannot be built, with the reason; the message names what installs what is missing.
pub fn proftpd_module() -> Result<PathBuf, String> {
    static MODULE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    MODULE.get_or_init(build).clone()
}

fn build() -> Result<PathBuf, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/proftpd-module");
    let output = Command::new(script)
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(path.into())
}

/// Where a server has its files: all in one folder, with the directory `there` that it serves to alice.
pub struct ProftpdFolder {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl ProftpdFolder {
    /// A folder with ProFTPD's modules, those of its package `proftpd-mod-crypto` and mod_fairwind.
    ///
    /// # Errors
    ///
    /// If one of them is missing.
    ///
    /// # Panics
    ///
    /// If a file cannot be written.
    pub fn new() -> Result<Self, String> {
        let room = install_root("proftpd")?;
        let crypto = ["/".into(), room.join("../proftpd-mod-crypto")]
            .into_iter()
            .map(|room: PathBuf| room.join("usr/lib/proftpd"))
            .find(|modules| modules.join("mod_tls.so").exists())
            .ok_or("mod_tls is missing (scripts/setup test unpacks it)")?;
        let module = proftpd_module()?;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        // alice has to reach her directory.
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        for name in ["there", "modules"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        if root().is_ok() {
            chown(path.join("there"), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        for modules in [room.join("usr/lib/proftpd"), crypto] {
            for file in fs::read_dir(modules).unwrap().map(Result::unwrap) {
                // Both are the same folder where they are installed.
                let _ = symlink(file.path(), path.join("modules").join(file.file_name()));
            }
        }
        let own = path.join("modules/mod_fairwind.so");
        let _ = fs::remove_file(&own);
        symlink(module, own).unwrap();
        Ok(Self {
            program: room.join("usr/sbin/proftpd"),
            folder,
        })
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a file in it has; nothing if there is none yet.
    pub fn text(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Writes a file into the directory that is served.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub fn serve(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path("there").join(name), bytes).unwrap();
    }

    /// What `proftpd --configtest` says of these lines.
    ///
    /// # Panics
    ///
    /// If it cannot be run.
    pub fn tested(&self, lines: &str) -> Output {
        let file = self.configured(9, lines);
        let mut command = Command::new(&self.program);
        command.args(["--configtest", "--config"]).arg(file);
        command.output().unwrap()
    }

    fn configured(&self, port: u16, lines: &str) -> PathBuf {
        // Not started by root, it stays who it is only if it is told so.
        let [user, group, name, of_group] = match root() {
            Ok(()) => [
                NOBODY.to_string(),
                NOBODY.to_string(),
                "nobody".into(),
                "nogroup".into(),
            ],
            Err(_) => ["-u", "-g", "-un", "-gn"].map(own),
        };
        let here = self.folder.path().display();
        let users = self.path("users");
        fs::write(
            &users,
            format!("alice:{SECRET}:{user}:{group}::{here}/there:/bin/sh\n"),
        )
        .unwrap();
        // It refuses a password file that others may read.
        fs::set_permissions(&users, Permissions::from_mode(0o600)).unwrap();
        let static_modules = ["mod_xfer", "mod_ls"];
        let shared = static_modules
            .iter()
            .filter(|name| self.path(&format!("modules/{name}.so")).exists());
        let shared: String = shared
            .map(|name| format!("LoadModule {name}.c\n"))
            .collect();
        let text = format!(
            "ServerType standalone\nUser {name}\nGroup {of_group}\nDefaultAddress 127.0.0.1\n\
             SocketBindTight on\nPort {port}\nUseIPv6 off\nModulePath {here}/modules\n{shared}\
             LoadModule mod_fairwind.c\nControlsEngine off\n<IfModule mod_delay.c>\nDelayEngine off\n\
             </IfModule>\nUseReverseDNS off\nAuthOrder mod_auth_file.c\nAuthPAM off\n\
             AuthUserFile {here}/users\nUseFtpUsers off\nRequireValidShell off\nAllowOverwrite on\n\
             AllowStoreRestart on\nWtmpLog off\nUseLastlog off\nTransferLog none\n\
             SystemLog {here}/system.log\nPidFile {here}/pid\nScoreboardFile {here}/scores\n\
             MaxInstances 500\nFairwindLog {here}/fairwind.log\n{lines}\n"
        );
        let text = text.replace("@PORT@", &port.to_string());
        let file = self.path("proftpd.conf");
        fs::write(&file, text).unwrap();
        file
    }

    /// Starts the server at a free port, with these lines at the end of its configuration, where `@PORT@` stands for the
    /// port. The module is on if they say so.
    ///
    /// # Panics
    ///
    /// If it does not accept connections within a minute.
    pub fn start(&self, lines: &str) -> Proftpd {
        let address = free_address();
        let mut child = Command::new(&self.program)
            .args(["--nodaemon", "--quiet", "--config"])
            .arg(self.configured(address.port(), lines))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut has_ended = false;
        let accepts = eventually(|| {
            has_ended = child.try_wait().unwrap().is_some();
            has_ended || TcpStream::connect(address).is_ok()
        });
        if accepts && !has_ended {
            return Proftpd { child, address };
        }
        let _ = child.kill();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        let said: Vec<String> = said.map_while(Result::ok).collect();
        child.wait().unwrap();
        panic!(
            "proftpd does not start: {said:?} {}",
            self.text("system.log")
        );
    }
}

/// A server, which ends when this is dropped.
pub struct Proftpd {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Proftpd {
    /// Lets it read its configuration again, and load its modules anew.
    pub fn restart(&self) {
        self.signal(libc::SIGHUP);
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so this is its number.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }
}

impl Drop for Proftpd {
    fn drop(&mut self) {
        // So it ends its sessions, too.
        self.signal(libc::SIGTERM);
        let _ = self.child.wait();
    }
}

/// What `id` says of whoever runs the tests.
fn own(option: &str) -> String {
    let output = Command::new("id").arg(option).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
