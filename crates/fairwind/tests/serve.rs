//! `fairwind serve` as its operator meets it: options, a configuration file, signals; with curl as the
//! client.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_cc::kernel::check_requirements;
use fairwind_testing::advisor::TestAdvisor;
use fairwind_testing::{or_skip, permitted, root, wait_until};
use rustix::process::Signal;

use crate::agent::forecast;
use crate::mounted::Mounted;

/// A user and a group without rights.
pub(crate) const NOBODY: u32 = 65_534;

/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn fairwind(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairwind"));
    command.arg("serve").args(arguments);
    command
}

/// A server at a free port, killed when it is dropped.
pub(crate) struct Service {
    pub child: Child,
    /// `ftp://127.0.0.1:PORT/`
    pub url: String,
    pub log: Receiver<String>,
}

impl Service {
    /// Serves a directory of the tester's; root gives it away, because the server takes its owner's rights.
    pub(crate) fn start(dir: &Path, options: &[&str]) -> Self {
        if fairwind_testing::root().is_ok() {
            chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut command = fairwind(&[dir.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        Self::by(command.args(options))
    }

    /// A server started by this command.
    pub(crate) fn by(command: &mut Command) -> Self {
        let mut child = command
            .env("FAIRWIND_FTP_PASSWORD", "secret")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.strip_prefix("serving ")?.to_owned()));
        let (tell, log) = mpsc::channel();
        // Drains its messages, so that it never blocks on a full pipe.
        thread::spawn(move || lines.for_each(|line| drop(tell.send(line))));
        Self {
            child,
            url: url.expect("the server says where it is"),
            log,
        }
    }

    pub(crate) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let number = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(number, signal).unwrap();
    }

    /// Waits for a line of its log.
    pub(crate) fn tells(&self, what: &str) {
        while !self.log.recv_timeout(TIMEOUT).unwrap().contains(what) {}
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < TIMEOUT, "the server does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// A control connection before login.
    pub(crate) fn connect(&self) -> Control {
        let (control, code) = self.greeted();
        assert_eq!(code, "220");
        control
    }

    /// A control connection and the code of its greeting.
    pub(crate) fn greeted(&self) -> (Control, String) {
        let address = self.url.trim_start_matches("ftp://").trim_end_matches('/');
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        let mut control = Control { stream, lines };
        let code = control.code();
        (control, code)
    }

    /// A control connection, logged in as alice.
    pub(crate) fn alice(&self) -> Control {
        let mut control = self.connect();
        for (command, code) in [
            ("USER alice", "331"),
            ("PASS secret", "230"),
            ("TYPE I", "200"),
        ] {
            assert_eq!(control.say(command), code, "{command}");
        }
        control
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Control {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Control {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn code(&mut self) -> String {
        self.line().chars().take(3).collect()
    }

    pub(crate) fn send(&mut self, command: &str) {
        write!(self.stream, "{command}\r\n").unwrap();
    }

    pub(crate) fn say(&mut self, command: &str) -> String {
        self.send(command);
        self.code()
    }

    /// Whether nothing has come so far.
    pub(crate) fn is_silent(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let came = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        came.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    pub(crate) fn data(&mut self) -> TcpStream {
        write!(self.stream, "EPSV\r\n").unwrap();
        let line = self.line();
        let port = line.split('|').nth(3).expect("229 … (|||PORT|)");
        let stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }
}

pub(crate) fn curl(arguments: &[&str]) -> Option<Output> {
    let output = Command::new("curl").args(["-sS"]).args(arguments).output();
    or_skip(output)
}

fn complaint(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_directory_is_served_to_curl_and_an_upload_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x"), "abc").unwrap();
    let log = dir.path().join("log");
    let service = Service::start(
        dir.path(),
        &[
            "--user",
            "alice",
            "--sync",
            "uploads",
            "--xferlog",
            log.to_str().unwrap(),
        ],
    );
    let Some(got) = curl(&[&format!("{}x", service.url)]) else {
        return;
    };
    assert_eq!(got.stdout, b"abc", "{got:?}");
    let local = dir.path().join("x");
    let sent = curl(&[
        "-u",
        "alice:secret",
        "-T",
        local.to_str().unwrap(),
        &format!("{}y", service.url),
    ]);
    assert!(sent.unwrap().status.success());
    assert_eq!(fs::read(dir.path().join("y")).unwrap(), b"abc");
    // Nobody writes without a password.
    let refused = curl(&["-T", local.to_str().unwrap(), &format!("{}z", service.url)]).unwrap();
    assert_eq!(refused.status.code(), Some(25), "{refused:?}");
    wait_until("both are logged", || lines(&log) == 2);
    let told = |line: String| line.contains("alice received /y: 3 bytes");
    while !told(service.log.recv_timeout(TIMEOUT).unwrap()) {}
}

#[test]
fn sigterm_ends_the_server_and_what_was_uploaded_waits() {
    let dir = tempfile::tempdir().unwrap();
    fs::File::create(dir.path().join("huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let mut service = Service::start(dir.path(), &["--user", "alice"]);
    let (mut idle, mut sender, mut receiver) = (service.alice(), service.alice(), service.alice());
    let mut upload = sender.data();
    assert_eq!(sender.say("STOR x"), "150");
    upload.write_all(&[7; 100_000]).unwrap();
    let mut download = receiver.data();
    assert_eq!(receiver.say("RETR huge"), "150");
    download.read_exact(&mut [0; 1000]).unwrap();
    let partial = dir.path().join(".x.fairwind-part");
    let begin = Instant::now();
    while !fs::metadata(&partial).is_ok_and(|facts| facts.len() == 100_000) {
        assert!(begin.elapsed() < TIMEOUT, "the upload does not arrive");
        thread::sleep(Duration::from_millis(5));
    }

    service.ask_to_end();
    assert_eq!(idle.code(), "421");
    // The second signal ends transfers, too.
    service.ask_to_end();
    assert_eq!(sender.code(), "426");
    assert_eq!(receiver.code(), "426");
    assert!(service.wait().success());
    assert!(!dir.path().join("x").exists());
    assert_eq!(fs::read(partial).unwrap(), [7; 100_000]);
}

#[test]
fn a_configuration_file_is_taken_and_options_replace_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x"), "abc").unwrap();
    let file = dir.path().join("ftp.toml");
    fs::write(
        &file,
        "listen = \"127.0.0.1:1\"\nanonymous = false\n[limits]\nidle_s = 9\n",
    )
    .unwrap();
    let service = Service::start(
        dir.path(),
        &["--config", file.to_str().unwrap(), "--user", "alice"],
    );
    let Some(refused) = curl(&[&format!("{}x", service.url)]) else {
        return;
    };
    assert_eq!(refused.status.code(), Some(67), "{refused:?}");
    let got = curl(&["-u", "alice:secret", &format!("{}x", service.url)]).unwrap();
    assert_eq!(got.stdout, b"abc", "{got:?}");
}

#[test]
fn sighup_reads_the_configuration_again_and_disturbs_nobody() {
    let dir = tempfile::tempdir().unwrap();
    fs::File::create(dir.path().join("huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let file = dir.path().join("ftp.toml");
    fs::write(&file, "anonymous = true\n").unwrap();
    let options = ["--config", file.to_str().unwrap(), "--user", "alice"];
    let service = Service::start(dir.path(), &options);
    let mut before = service.alice();
    let mut download = before.data();
    assert_eq!(before.say("RETR huge"), "150");
    let anonymous = || {
        let mut stranger = service.connect();
        assert_eq!(stranger.say("USER anonymous"), "331");
        stranger.say("PASS me@example.org")
    };
    assert_eq!(anonymous(), "230");

    fs::write(&file, "anonymous = perhaps\n").unwrap();
    service.signal(Signal::HUP);
    service.tells("the configuration stays as it was");
    assert_eq!(anonymous(), "230");
    fs::write(&file, "anonymous = false\n").unwrap();
    service.signal(Signal::HUP);
    service.tells("the configuration was read again");
    assert_eq!(anonymous(), "530");
    service.alice();
    download.read_exact(&mut vec![0; 10_000_000]).unwrap();
    assert_eq!(before.say("NOOP"), "200");
}

#[test]
fn rust_log_chooses_what_is_logged() {
    let dir = tempfile::tempdir().unwrap();
    if fairwind_testing::root().is_ok() {
        chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    for (chosen, is_logged) in [
        ("info", true),
        ("warn", false),
        ("fairwind_ftp=info", true),
        ("info,fairwind_ftp=warn", false),
        // What is no choice leaves the default.
        ("fairwind_ftp=perhaps", true),
    ] {
        let mut command = fairwind(&[dir.path().to_str().unwrap(), "--user", "alice"]);
        let command = command.args(["--listen", "127.0.0.1:0"]);
        let mut service = Service::by(command.env("RUST_LOG", chosen));
        service.alice();
        service.ask_to_end();
        service.wait();
        let mut lines = service.log.iter();
        let logged = lines.any(|line| line.contains("alice logs in"));
        assert_eq!(logged, is_logged, "{chosen}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    let file = dir.path().join("ftp.toml");
    let name = file.to_str().unwrap();
    let with_file = |text: &str| {
        fs::write(&file, text).unwrap();
        complaint(&mut fairwind(&[root, "--config", name]))
    };
    let said = with_file("anonymous = true\nanonymus = true\n");
    assert!(said.contains(name) && said.contains("line 2"), "{said}");
    assert!(said.contains("unknown field `anonymus`"), "{said}");
    let said = with_file("sync = \"always\"\n");
    assert!(
        said.contains("`never`") && said.contains("`uploads`"),
        "{said}"
    );
    let said = with_file("buffer = \"64 parsecs\"\n");
    assert!(said.contains(name) && said.contains("64 parsecs"), "{said}");
    let said = complaint(&mut fairwind(&[root, "--config", "/no/such/file"]));
    assert!(said.contains("/no/such/file: No such file"), "{said}");
    let said = complaint(fairwind(&[root, "--user", "alice"]).env_remove("FAIRWIND_FTP_PASSWORD"));
    assert!(said.contains("FAIRWIND_FTP_PASSWORD"), "{said}");
    let said = complaint(&mut fairwind(&[root, "--passive-ports", "9-3"]));
    assert!(said.contains("50000-50100"), "{said}");
    let said = complaint(&mut fairwind(&[]));
    assert!(said.contains("<DIR>"), "{said}");
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let first = Service::start(dir.path(), &[]);
    let taken = first.url.trim_start_matches("ftp://").trim_end_matches('/');
    let cases = [
        (vec![missing.to_str().unwrap()], missing.to_str().unwrap()),
        (vec![dir.path().to_str().unwrap(), "--listen", taken], taken),
        (
            vec![dir.path().to_str().unwrap(), "--user", "alice:nonsense"],
            "--hash-password",
        ),
    ];
    for (arguments, expected) in cases {
        let output = fairwind(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_hash_made_of_a_password_admits_its_user() {
    let mut child = fairwind(&["--hash-password"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let hash = String::from_utf8(output.stdout).unwrap();
    assert!(
        hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
        "{hash}"
    );
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start(dir.path(), &["--user", &format!("alice:{}", hash.trim())]);
    assert_eq!(service.alice().say("MKD d"), "257");
    assert!(dir.path().join("d").is_dir());

    let empty = fairwind(&["--hash-password"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(empty.status.code(), Some(2));
}

#[test]
fn a_log_that_hangs_holds_up_neither_clients_nor_the_end() {
    let (dir, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(dir.path().join("x"), "abc").unwrap();
    let (log, file) = (logs.path().join("xferlog"), logs.path().join("ftp.toml"));
    fs::write(&file, format!("xferlog = {log:?}\n")).unwrap();
    let options = ["--user", "alice", "--config", file.to_str().unwrap()];
    let mut service = Service::start(dir.path(), &options);
    // A pipe that nobody reads cannot be opened for writing.
    fs::remove_file(&log).unwrap();
    mkfifo(&log);
    for name in ["x", "x", "x"] {
        let mut control = service.alice();
        let mut data = control.data();
        assert_eq!(control.say(&format!("RETR {name}")), "150");
        data.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(control.code(), "226");
    }
    // The keeper, which would have to open the configuration, is still waiting for the log.
    service.signal(Signal::HUP);
    thread::sleep(Duration::from_millis(100));
    service.ask_to_end();
    assert!(service.wait().success());
    drop(fs::File::options().read(true).write(true).open(&log));
}

/// Lines of a log.
pub(crate) fn lines(log: &Path) -> usize {
    fs::read_to_string(log).map_or(0, |text| text.lines().count())
}

/// Makes a named pipe.
pub(crate) fn mkfifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn downloads_start_as_the_advisor_forecasts_though_root_is_given_up() {
    if !permitted(check_requirements()) || !permitted(root()) {
        return;
    }
    let mounted = Mounted::new();
    let load = |what: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairwind"));
        command.args(["cc", what, "cubic", "--prefix", "fwserve_"]);
        let output = mounted.inside(&command).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), vec![0; 100_000]).unwrap();
    chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let advisor = TestAdvisor::answering(vec![forecast("fwserve_cubic")]);
    load("load");
    let mut command = fairwind(&[dir.path().to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    command.args(["--advisor", &advisor.url()]);
    let service = Service::by(&mut mounted.inside(&command));
    let mut get = Command::new("curl");
    get.args(["--silent", "--output", "/dev/null"]);
    let status = get.arg(format!("{}file", service.url)).status().unwrap();
    assert!(status.success(), "{status}");
    service.tells("start plain -> 100 Mbit/s in 100 ms");
    drop(service);
    load("unload");
}
