//! `fairwind serve` on a public host: what its operator checks, sees and ends, and its life as a service.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use fairwind_testing::{permitted, root, wait_until};
use rustix::process::Signal;

use crate::serve::{NOBODY, Service, curl, fairwind};

/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(30);

fn check(text: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ftp.toml");
    fs::write(&file, text).unwrap();
    let arguments = [dir.path(), "--config".as_ref(), &file, "--check".as_ref()];
    let arguments = arguments.map(|argument| argument.to_str().unwrap());
    fairwind(&arguments).output().unwrap()
}

#[test]
fn a_check_says_what_is_wrong_and_where_and_starts_nothing() {
    for (text, told) in [
        (
            "[limits]\nrate = 1\n",
            "line 2: limits.rate = 1: 0 or at least 1000 bytes per second",
        ),
        ("listen = 21\n", "line 1"),
        ("anonymus = true\n", "anonymus"),
        ("deny = [\"192.0.2.0/33\"]\n", "line 1"),
        (
            "drs = true\nmetrics = \"192.0.2.1:9100\"\n",
            "line 2: metrics = 192.0.2.1:9100: not an address of loopback",
        ),
        (
            "[[user]]\nname = \"ftp\"\npassword = \"x\"\n",
            "user \"ftp\": not a name for a user",
        ),
        (
            "[[access]]\npath = \"/a\"\nrights = [\"execute\"]\n",
            "line 3",
        ),
    ] {
        let output = check(text);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(told), "{text}: {said}");
        assert!(output.stdout.is_empty());
    }
    let output = check("listen = \"127.0.0.1:1\"\nallow = [\"2001:db8::/32\"]\n");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"the configuration is valid\n");
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn sessions_are_listed_and_ended_by_who_may() {
    let (dir, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let control = place.path().join("control");
    let control = control.to_str().unwrap();
    let service = Service::start(dir.path(), &["--user", "alice", "--control", control]);
    let mut alice = service.alice();
    let list = fairwind(&["--sessions", "--control", control])
        .output()
        .unwrap();
    let lines: Vec<Vec<String>> = text(&list)
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert_eq!(lines.len(), 2, "{list:?}");
    assert_eq!(lines[0][..3], ["SESSION", "USER", "ADDRESS"]);
    assert_eq!(lines[1][..3], ["1", "alice", "127.0.0.1"]);
    let json = fairwind(&["--sessions", "--json", "--control", control])
        .output()
        .unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&rows[0]["session"], &rows[0]["user"]),
        (&1.into(), &"alice".into())
    );

    let kill = |session| {
        fairwind(&["--kill", session, "--control", control])
            .output()
            .unwrap()
    };
    let missing = kill("7");
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(missing.stderr, b"error: there is no session 7\n");
    assert!(kill("1").status.success());
    assert_eq!(alice.code(), "421");

    let nowhere = fairwind(&["--sessions", "--control", "/nonexistent/x"])
        .output()
        .unwrap();
    assert_eq!(nowhere.status.code(), Some(1));
    let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(said.contains("/nonexistent/x: "), "{said}");
    if !permitted(root()) {
        return;
    }
    // Somebody without rights, and somebody of the group.
    let program = place.path().join("fairwind");
    fairwind_testing::copy_program(Path::new(env!("CARGO_BIN_EXE_fairwind")), &program);
    let stranger = |group: u32| {
        let mut command = Command::new(&program);
        command.args(["serve", "--sessions", "--control", control]);
        command.uid(NOBODY).gid(group).output().unwrap()
    };
    let refused = stranger(NOBODY);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("ermission denied"),
        "{refused:?}"
    );
    drop(service);
    let dir = tempfile::tempdir().unwrap();
    let options = ["--control", control, "--control-group", "4242"];
    let _service = Service::start(dir.path(), &options);
    assert!(stranger(4_242).status.success());
    assert_eq!(stranger(NOBODY).status.code(), Some(1));
}

#[test]
fn sigterm_lets_a_transfer_end_and_takes_no_new_clients() {
    let dir = tempfile::tempdir().unwrap();
    let mut service = Service::start(dir.path(), &["--user", "alice"]);
    let (mut idle, mut sender) = (service.alice(), service.alice());
    let mut upload = sender.data();
    assert_eq!(sender.say("STOR x"), "150");
    upload.write_all(&[7; 100_000]).unwrap();
    service.ask_to_end();
    assert_eq!(idle.code(), "421");
    let address = service
        .url
        .trim_start_matches("ftp://")
        .trim_end_matches('/')
        .to_owned();
    wait_until("nobody listens", || {
        std::net::TcpStream::connect(&address).is_err()
    });
    upload.write_all(&[7; 100_000]).unwrap();
    drop(upload);
    assert_eq!(sender.code(), "226");
    assert_eq!(sender.code(), "421");
    assert!(service.wait().success());
    assert_eq!(fs::read(dir.path().join("x")).unwrap(), [7; 200_000]);
}

#[test]
fn transfers_that_do_not_end_are_ended_after_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ftp.toml");
    fs::write(&file, "[limits]\nstop_s = 1\n").unwrap();
    let options = ["--user", "alice", "--config", file.to_str().unwrap()];
    let mut service = Service::start(dir.path(), &options);
    let mut sender = service.alice();
    let mut upload = sender.data();
    assert_eq!(sender.say("STOR x"), "150");
    upload.write_all(&[7; 100_000]).unwrap();
    let begin = std::time::Instant::now();
    service.ask_to_end();
    assert_eq!(sender.code(), "426");
    assert!(begin.elapsed() >= Duration::from_millis(900));
    assert!(service.wait().success());
    assert_eq!(
        fs::read(dir.path().join(".x.fairwind-part")).unwrap(),
        [7; 100_000]
    );
}

/// What a service tells its manager, a message a line.
pub(crate) struct Manager {
    socket: UnixDatagram,
    told: String,
}

impl Manager {
    pub(crate) fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let told = String::new();
        Self { socket, told }
    }

    pub(crate) fn hears(&mut self, what: &str) {
        while !self.told.lines().any(|line| line.starts_with(what)) {
            let mut message = [0; 500];
            let count = self
                .socket
                .recv(&mut message)
                .unwrap_or_else(|_| panic!("no {what}: {}", self.told));
            self.told
                .push_str(std::str::from_utf8(&message[..count]).unwrap());
            self.told.push('\n');
        }
        self.told.clear();
    }
}

#[test]
fn the_service_manager_is_told_and_its_socket_is_served() {
    let (dir, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(dir.path().join("x"), "abc").unwrap();
    if root().is_ok() {
        chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let notify = place.path().join("notify");
    let mut manager = Manager::at(&notify);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, number) = (listener.local_addr().unwrap(), listener.as_raw_fd());
    // The shell keeps its number for the program that it becomes; others take only one digit for a descriptor.
    let script = format!("exec 3<&{number}; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_fairwind"), "serve"]);
    command
        .arg(dir.path())
        .env("NOTIFY_SOCKET", &notify)
        .env("WATCHDOG_USEC", "200000");
    // SAFETY: fcntl(2) may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let open = std::os::fd::BorrowedFd::borrow_raw(number);
            Ok(rustix::io::fcntl_setfd(open, rustix::io::FdFlags::empty())?)
        });
    }
    let mut service = Service::by(&mut command);
    assert_eq!(service.url, format!("ftp://{address}/"));
    manager.hears("READY=1");
    for _ in 0..3 {
        manager.hears("WATCHDOG=1");
    }
    if let Some(got) = curl(&[&format!("{}x", service.url)]) {
        assert_eq!(got.stdout, b"abc", "{got:?}");
    }
    service.signal(Signal::HUP);
    manager.hears("RELOADING=1");
    manager.hears("READY=1");
    service.ask_to_end();
    manager.hears("STOPPING=1");
    assert!(service.wait().success());
}

#[test]
fn what_is_handed_over_must_be_one_listening_socket() {
    for (script, told) in [
        (
            "LISTEN_PID=$$ LISTEN_FDS=2 exec \"$@\"",
            "LISTEN_FDS: 2 sockets, and one is wanted",
        ),
        (
            "exec 3</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"",
            "LISTEN_FDS: it is not a listening TCP socket",
        ),
    ] {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            script,
            "sh",
            env!("CARGO_BIN_EXE_fairwind"),
            "serve",
            "/",
        ]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(output.stderr, format!("error: {told}\n").as_bytes());
    }
}

/// All units of docs/examples, with the program of the test, in a directory of their own; none without systemd-analyze.
fn units() -> Option<(tempfile::TempDir, Vec<PathBuf>)> {
    let there = Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_ok();
    if !permitted(there.then_some(()).ok_or("systemd-analyze is missing")) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let mut files = Vec::new();
    for example in fs::read_dir(examples).unwrap() {
        let example = example.unwrap().path();
        let kind = example.extension().and_then(|kind| kind.to_str());
        if !matches!(kind, Some("service" | "socket")) {
            continue;
        }
        let unit = fs::read_to_string(&example).unwrap();
        let unit = unit.replace("/usr/local/bin/fairwind", env!("CARGO_BIN_EXE_fairwind"));
        files.push(dir.path().join(example.file_name().unwrap()));
        fs::write(files.last().unwrap(), unit).unwrap();
    }
    Some((dir, files))
}

#[test]
fn the_units_are_such_that_systemd_takes_them() {
    let Some((_dir, files)) = units() else { return };
    assert_eq!(files.len(), 3, "{files:?}");
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args(&files)
        .output()
        .unwrap();
    assert!(verify.status.success(), "{verify:?}");
    let said = String::from_utf8_lossy(&verify.stderr).into_owned();
    assert!(!said.contains("fairwind-"), "{said}");
}

/// What a program that was taken over could do, as systemd counts it: 0 is nothing, 100 all that root may do.
#[test]
fn the_services_are_exposed_no_more_than_they_need() {
    let Some((_dir, files)) = units() else { return };
    for (name, most) in [
        ("fairwind-serve.service", 30),
        ("fairwind-agent.service", 40),
    ] {
        let file = files.iter().find(|file| file.ends_with(name)).unwrap();
        let told = Command::new("systemd-analyze")
            .args(["security", "--offline=yes", "--no-pager"])
            .arg(format!("--threshold={most}"))
            .arg(file)
            .output()
            .unwrap();
        assert!(told.status.success(), "{}", text(&told));
    }
}

/// What no analysis of the units tells, since it shows only when they run: `scripts/try-systemd` runs them.
#[test]
fn the_units_leave_the_services_what_they_call() {
    let unit = |name| {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
        fs::read_to_string(examples.join(name)).unwrap()
    };
    let has = |unit: &str, key: &str, value: &str| {
        let mut lines = unit.lines().filter_map(|line| line.strip_prefix(key));
        lines.any(|values| values.split_whitespace().any(|one| one == value))
    };
    let server = unit("fairwind-serve.service");
    // systemd answers openat2(2), which resolves every path, as if the kernel lacked it.
    assert!(!server.contains("\nRestrictSUIDSGID="));
    // The server is another user's, and the unit has no CAP_KILL.
    assert!(has(&server, "ExecReload=", "+/bin/kill"));
    // Without it libpam refuses every login: its record for the kernel's audit is lost.
    assert!(has(&server, "CapabilityBoundingSet=", "CAP_AUDIT_WRITE"));
    // Sessions of PAM are closed after the server has ended, and nothing ends them before.
    assert!(has(&server, "KillMode=", "control-group"));
    assert!(has(&server, "KillSignal=", "SIGCONT"));

    let agent = unit("fairwind-agent.service");
    for family in ["AF_INET", "AF_INET6"] {
        assert!(has(&agent, "RestrictAddressFamilies=", family), "{family}");
    }
    // Control groups of users' sessions are the users'.
    assert!(has(&agent, "CapabilityBoundingSet=", "CAP_DAC_OVERRIDE"));
    // 64 runs of users with three threads each, and its own.
    let mut lines = agent.lines();
    let tasks = lines.find_map(|line| line.strip_prefix("TasksMax="));
    assert!(tasks.unwrap().parse::<u32>().unwrap() >= 64 * 3 + 16);
}

#[test]
fn banner_log_and_metrics_are_read_and_written_with_the_rights_of_the_start() {
    let (dir, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("banner"), "one\n").unwrap();
    let options = [
        "--user",
        "alice",
        "--metrics",
        "127.0.0.1:0",
        "--banner",
        &at("banner"),
        "--command-log",
        &at("log"),
    ];
    let service = Service::start(dir.path(), &options);
    let list = |user: &str| curl(&["-u", user, &service.url]);
    let Some(listed) = list("alice:secret") else {
        return;
    };
    assert!(listed.status.success(), "{listed:?}");
    wait_until("the log is written", || {
        let log = fs::read_to_string(at("log")).unwrap();
        log.contains("\"command\":\"PASS ****\"") && !log.contains("secret")
    });
    // Rotated: the next lines go to a new file.
    fs::rename(at("log"), at("log.1")).unwrap();
    fs::write(at("banner"), "two\n").unwrap();
    service.signal(Signal::HUP);
    let metrics = service
        .log
        .iter()
        .find_map(|line| Some(line.strip_prefix("metrics at ")?.to_owned()));
    service.tells("the configuration was read again");
    let mut line = [0; 7];
    let address = service
        .url
        .trim_start_matches("ftp://")
        .trim_end_matches('/')
        .to_owned();
    std::net::TcpStream::connect(address)
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    assert_eq!(&line, b"220-two");
    wait_until("the new log is written", || Path::new(&at("log")).exists());
    if let Some(got) = curl(&[&metrics.unwrap()]) {
        assert!(
            text(&got).contains("\nfairwind_ftp_logins_total{user=\"named\"} 1\n"),
            "{got:?}"
        );
    }
}
