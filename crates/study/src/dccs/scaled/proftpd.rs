//! ProFTPD with this project's module in the place of `fairwind serve`: where it is, its configuration, and what its
//! log says of the advisor's answers.
//!
//! Each of the thesis' ways is a mode of the module. The client logs in as it does elsewhere, anonymously; the rate of a
//! transfer begins with its data connection.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fairwind_advice::Mode;
use fairwind_cc::kernel::{LoadError, Loaded, kernel_name, load_as};
use fairwind_cc::native;
use jiff::civil::DateTime;
use rustix::process::geteuid;
use tempfile::TempDir;

use super::RATE;
use crate::Error;
use crate::dccs::following::Input;
use crate::demo::lab::{ADVISOR, FILE, NETWORK, PORT, shell_word};
use crate::demo::network::filled;
use crate::demo::story::Way;

/// The script that builds the module, and knows where ProFTPD is, in the repository.
const SCRIPT: &str = "scripts/proftpd-module";
/// Its own modules that it needs, where its build has them as files.
const MODULES: [&str; 2] = ["mod_xfer", "mod_ls"];

/// ProFTPD and the module.
pub(crate) struct Proftpd {
    program: PathBuf,
    module: PathBuf,
}

/// ProFTPD as it serves one file. When dropped, it leaves the kernel and the disk as they were.
pub(crate) struct Serving {
    /// Starts it, in the words of the shell.
    pub command: String,
    folder: TempDir,
    /// The control of the mode `nocc`, unless the kernel has it in any case.
    _nocc: Option<Loaded>,
}

impl Proftpd {
    /// Finds ProFTPD and builds the module, by the script of the repository that has this plan.
    ///
    /// # Errors
    /// What is missing, and what helps.
    pub(crate) fn find(plan: &Path) -> Result<Proftpd, String> {
        if !geteuid().is_root() {
            return Err(
                "ProFTPD: root has to start it, so that its sessions may keep CAP_NET_ADMIN".into(),
            );
        }
        let script = plan.join("../..").join(SCRIPT);
        let printed = |arguments: &[&str]| -> Result<PathBuf, String> {
            let output = Command::new(&script).args(arguments).output();
            let output = output.map_err(|error| format!("{}: {error}", script.display()))?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
            match output.status.success() {
                true => Ok(text(&output.stdout).into()),
                false => Err(text(&output.stderr)),
            }
        };
        Ok(Proftpd {
            program: printed(&["server"])?,
            module: printed(&[])?,
        })
    }

    /// Lets it serve a copy of the file by the way's mode, with send buffers of so many bytes.
    ///
    /// # Errors
    /// If a file cannot be written, or the congestion control of the way cannot be loaded.
    pub(crate) fn serve(&self, file: &Path, way: Way, buffer: u64) -> Result<Serving, Error> {
        // The folder of results may be out of reach for its sessions, which are not root's.
        let folder = tempfile::tempdir()?;
        let path = folder.path();
        fs::set_permissions(path, Permissions::from_mode(0o755))?;
        for name in ["there", "modules"] {
            fs::create_dir(path.join(name))?;
            fs::set_permissions(path.join(name), Permissions::from_mode(0o755))?;
        }
        let copy = path.join("there").join(FILE);
        fs::copy(file, &copy)?;
        fs::set_permissions(&copy, Permissions::from_mode(0o644))?;
        let config = path.join("proftpd.conf");
        fs::write(&config, self.configuration(path, way, buffer)?)?;
        let (program, config) = (shell_word(&self.program)?, shell_word(&config)?);
        Ok(Serving {
            command: format!("exec {program} --nodaemon --quiet --config {config}"),
            folder,
            _nocc: (way == Way::Nocc).then(nocc).transpose()?.flatten(),
        })
    }

    fn configuration(&self, folder: &Path, way: Way, buffer: u64) -> Result<String, Error> {
        let modules = folder.join("modules");
        symlink(&self.module, modules.join("mod_fairwind.so"))?;
        let mut loaded = String::new();
        for name in MODULES {
            let file = format!("{name}.so");
            if let Some(there) = own_module(&self.program, &file) {
                symlink(there, modules.join(&file))?;
                loaded.push_str(&format!("LoadModule {name}.c\n"));
            }
        }
        loaded.push_str("LoadModule mod_fairwind.c");
        Ok(filled(
            include_str!("proftpd.conf"),
            &[
                ("port", &PORT),
                ("folder", &folder.display()),
                ("modules", &loaded),
                ("buffer", &buffer),
                ("way", &way.folder()),
                ("advisor", &ADVISOR),
                ("network", &NETWORK),
            ],
        ))
    }
}

/// Where a module of the server's build is, if it is a file.
fn own_module(program: &Path, file: &str) -> Option<PathBuf> {
    let there = program.parent()?.parent()?.join("lib/proftpd").join(file);
    there.exists().then_some(there)
}

/// Loads the control that the mode `nocc` takes, under its own name; nothing if the kernel has it.
fn nocc() -> Result<Option<Loaded>, Error> {
    let control = native::find("nocc").expect("it is in cc/");
    match load_as(&control.default_parameters(), &kernel_name("nocc")) {
        Ok(loaded) => Ok(Some(loaded)),
        Err(LoadError::AlreadyLoaded { .. }) => Ok(None),
        Err(error) => Err(Error::work(error)),
    }
}

impl Serving {
    /// The last that it said of what went wrong.
    pub(crate) fn said(&self) -> String {
        let log = self.text("system.log");
        log.lines().last().unwrap_or_default().to_owned()
    }

    /// The answers that its transfer got.
    ///
    /// # Errors
    /// If it was not sent in this way.
    pub(crate) fn inputs(&self, way: Way) -> Result<Vec<Input>, String> {
        let log = self.text("trace.log");
        if let Some(line) = log
            .lines()
            .find(|line| line.contains(" advised and refused: "))
        {
            return Err(line.to_owned());
        }
        let inputs = traced(&log);
        match way {
            Way::Nocc if !log.contains(" -> fw_nocc: ") => {
                Err("congestion control stayed on".into())
            }
            Way::Advised if inputs.is_empty() => Err("no answer of the advisor was traced".into()),
            _ => Ok(inputs),
        }
    }

    fn text(&self, name: &str) -> String {
        let bytes = fs::read(self.folder.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The answers in the module's trace, on the advisor's clock, the first of which came when the data connection opened:
///
/// `2026-11-26 16:44:23,156 [741] <fairwind:7>: 10.77.0.2: congestion-control, reno, ask again after 1250 ms: …`
fn traced(log: &str) -> Vec<Input> {
    let answer = |line: &str| {
        let (head, text) = line.split_once(" <fairwind:7>: ")?;
        let (_, text) = text.split_once(": ")?;
        let (answer, _) = text.split_once(", ask again after ")?;
        let mode = match answer.split_once(", ")?.0 {
            "congestion-control" => Mode::CongestionControl,
            "no-congestion-control" => Mode::NoCongestionControl,
            _ => return None,
        };
        let (time, _) = head.split_once(" [")?;
        let time: DateTime = time.replace(',', ".").parse().ok()?;
        Some((time, mode))
    };
    let answers: Vec<(DateTime, Mode)> = log.lines().filter_map(answer).collect();
    let input = |&(time, mode): &(DateTime, Mode)| {
        let after = time.duration_since(answers[0].0).as_secs_f64();
        let after = Duration::try_from_secs_f64(after * RATE).ok()?;
        Some(Input { after, mode })
    };
    answers.iter().filter_map(input).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dccs::following;

    #[test]
    fn modules_of_the_servers_build_are_found_where_they_are_files() {
        let room = tempfile::tempdir().unwrap();
        let path = |name: &str| room.path().join(name);
        for name in ["usr/sbin", "usr/lib/proftpd"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        for name in ["usr/sbin/proftpd", "usr/lib/proftpd/mod_xfer.so"] {
            fs::write(path(name), "").unwrap();
        }
        let found = |file| own_module(&path("usr/sbin/proftpd"), file);
        assert_eq!(
            found("mod_xfer.so"),
            Some(path("usr/lib/proftpd/mod_xfer.so"))
        );
        assert_eq!(found("mod_ls.so"), None);
    }

    #[test]
    fn the_answers_in_a_trace_are_inputs_on_the_advisors_clock() {
        let log = "2026-11-26 16:44:23,156 [741] <fairwind:7>: 10.77.0.2: congestion-control, reno, ask again after \
                   1250 ms: fewer than all\n\
                   2026-11-26 16:44:23,157 [741] <fairwind:3>: 10.77.0.2:4711: send buffer 1 -> 2: as it is\n\
                   2026-11-26 16:44:24,656 [741] <fairwind:7>: 10.77.0.2: no-congestion-control, fw_nocc_1a2b, ask \
                   again after 15000 ms: every hop\n";
        let inputs = traced(log);
        assert_eq!(following::text(&inputs), "1,0");
        assert_eq!(inputs[1].after, Duration::from_secs(360));
    }
}
