//! A service in a separate process, which can be killed, limited and given its own file system.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fairwind_advice_client::Client;
use fairwind_advisor::run::run;

/// Set if this program was started by a test to be the service: its state directory.
const STATE: &str = "FAIRWIND_TEST_ADVISOR_STATE";

/// Not a test by itself: the service in a separate process.
#[test]
fn service_of_its_own() {
    let Some(state) = std::env::var_os(STATE) else {
        return;
    };
    let mut options = super::options(Path::new(&state));
    options.clock = fairwind_advisor::Clock::System;
    // Bypasses the test harness's capture, so that the parent can read it.
    run(options, |urls| eprintln!("listens on {}", urls[0])).unwrap();
}

/// The running process, killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    pub url: String,
}

impl Process {
    /// Starts a service in this state directory.
    pub(crate) fn start(state: &Path) -> Process {
        // Writes beyond a file size limit must fail instead of killing it.
        Process::after("trap '' XFSZ", "sh", &[], state)
    }

    /// Starts a service with this soft limit on open files.
    pub(crate) fn start_with_descriptors(state: &Path, number: u32) -> Process {
        Process::after(&format!("ulimit -S -n {number}"), "sh", &[], state)
    }

    /// Starts a service whose state directory is a private file system of `size` (as in tmpfs(5)). Needs
    /// root.
    pub(crate) fn start_in_small_room(state: &Path, size: &str) -> Process {
        let mount = format!("mount -t tmpfs -o size={size} none \"${STATE}\"");
        Process::after(&mount, "unshare", &["--mount", "sh"], state)
    }

    fn after(first: &str, program: &str, arguments: &[&str], state: &Path) -> Process {
        let script = format!("{first} && exec \"$0\" \"$@\"");
        let mut child = Command::new(program)
            .args(arguments)
            .args([OsString::from("-c"), script.into()])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "support::process::service_of_its_own",
                "--nocapture",
            ])
            .env(STATE, state)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("listens on ")?.1.to_owned()));
        // Its output has to be read, or it blocks once the pipe is full.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Process {
            url: address.expect("the service has started"),
            child,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url)
            .unwrap()
            .with_deadline(Duration::from_secs(30))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Limits the size of its files to `bytes` from now on; `None` removes the limit.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let limit = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let arguments = [format!("--pid={}", self.id()), format!("--fsize={limit}:")];
        super::output("prlimit", &arguments.each_ref().map(String::as_str));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
