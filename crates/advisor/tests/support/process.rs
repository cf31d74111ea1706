//! A service in a process of its own, which can be killed, limited and given a file system of its own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fairwind_advice_client::Client;
use fairwind_advisor::run::run;

/// The state directory of the service that this very program is, when a test has started it so.
const STATE: &str = "FAIRWIND_TEST_ADVISOR_STATE";

/// Not a test: the service in a process of its own.
#[test]
fn service_of_its_own() {
    let Some(state) = std::env::var_os(STATE) else {
        return;
    };
    let mut options = super::options(Path::new(&state));
    options.clock = fairwind_advisor::Clock::System;
    // Through the test harness's capture: the parent reads it.
    run(options, |urls| eprintln!("listens on {}", urls[0])).unwrap();
}

/// The running process; it is killed when this is dropped.
pub struct Process {
    child: Child,
    pub url: String,
}

impl Process {
    /// A service in this state directory.
    pub fn start(state: &Path) -> Process {
        // What it writes beyond a limit is an error and not its end.
        Process::after("trap '' XFSZ", "sh", &[], state)
    }

    /// A service that may have so many files open unless it asks for more.
    pub fn start_with_descriptors(state: &Path, number: u32) -> Process {
        Process::after(&format!("ulimit -S -n {number}"), "sh", &[], state)
    }

    /// A service whose state directory is a file system of so many bytes (as tmpfs(5) has it), which
    /// nobody else sees. Needs root.
    pub fn start_in_small_room(state: &Path, size: &str) -> Process {
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
        // Somebody has to take what it says, or it waits one day.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Process {
            url: address.expect("the service has started"),
            child,
        }
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url)
            .unwrap()
            .with_deadline(Duration::from_secs(30))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and its end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets no file grow beyond so many bytes from now on; none: as large as they like.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let limit = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let arguments = [format!("--pid={}", self.id()), format!("--fsize={limit}:")];
        super::output("prlimit", &arguments.each_ref().map(String::as_str));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
