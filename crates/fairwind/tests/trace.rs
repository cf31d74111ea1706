//! `fairwind trace` as a process: the daemon with its file and signals, files on the command line,
//! and commands behind a path whose connections are traced.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use fairwind_testing::permitted;
use fairwind_trace::kernel::check_requirements;
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn what_is_for_files_is_refused_without_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    for option in [&["--variables", "CurCwnd"][..], &["--control-state"]] {
        let output = fairwind(&folder, &[&["trace", "--live"], option].concat()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2));
        let error = text(&output.stderr);
        assert!(error.contains("--out <DIR>"), "{error}");
    }
}

fn fairwind(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairwind"));
    command.current_dir(folder.path()).args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A daemon with its standard output.
struct Daemon {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Daemon {
    fn start(folder: &TempDir) -> Daemon {
        let mut child = fairwind(folder, &["trace", "daemon", "trace.toml"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Daemon { child, lines }
    }

    /// Waits for the line that names the folder of the files.
    fn folder(&mut self) -> PathBuf {
        for line in &mut self.lines {
            if let Some(folder) = line.unwrap().strip_prefix("tracing into ") {
                return PathBuf::from(folder);
            }
        }
        let mut error = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut error).unwrap();
        panic!("the daemon has ended: {error}");
    }

    fn signal(&self, signal: i32) {
        // SAFETY: our own child, which has not been waited for.
        let failed = unsafe { libc::kill(self.child.id() as i32, signal) };
        assert_eq!(failed, 0);
    }

    /// Ends it by SIGTERM and returns its standard error.
    fn end(mut self) -> String {
        self.signal(libc::SIGTERM);
        self.lines.by_ref().for_each(drop);
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr)
    }
}

/// A connection to the listener from beginning to end.
fn connect(listener: &TcpListener) {
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut peer = listener.accept().unwrap().0;
    stream.write_all(&[1; 10_000]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    peer.read_to_end(&mut Vec::new()).unwrap();
}

fn index(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("trace.json")).unwrap()).unwrap()
}

fn configure(folder: &TempDir, port: u16, variables: &str) {
    let config = format!(
        "out = \"traces\"\nevery_ack = true\nvariables = [{variables}]\n[match]\nports = [{port}]\n"
    );
    fs::write(folder.path().join("trace.toml"), config).unwrap();
}

#[test]
fn the_daemon_follows_its_file_until_it_is_told_to_stop() {
    if !permitted(check_requirements()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    configure(&folder, port, "\"SmoothedRTT\", \"CurCwnd\"");
    let mut daemon = Daemon::start(&folder);
    let first = folder.path().join(daemon.folder());
    assert_eq!(index(&first)["complete"], false);
    connect(&listener);

    configure(&folder, port, "\"CurSsthresh\"");
    daemon.signal(libc::SIGHUP);
    let second = folder.path().join(daemon.folder());
    assert_ne!(first, second);
    connect(&listener);

    fs::write(folder.path().join("trace.toml"), "out = 5").unwrap();
    daemon.signal(libc::SIGHUP);
    let stderr = daemon.end();
    // The file may or may not be read before the end.
    assert!(
        stderr.is_empty() || stderr.contains("trace.toml stays as it was"),
        "{stderr}"
    );

    for (run, header) in [
        (&first, "time_s,CurCwnd,SmoothedRTT,CongestionControl"),
        (&second, "time_s,CurSsthresh,CongestionControl"),
    ] {
        let index = index(run);
        assert_eq!(index["complete"], true);
        let connections = index["connections"].as_array().unwrap();
        assert_eq!(connections.len(), 2, "{index}");
        assert!(connections.iter().all(|c| c["began_before"] == false));
        let file = run.join(connections[0]["file"].as_str().unwrap());
        let csv = fairwind(&folder, &["trace", file.to_str().unwrap(), "--csv"]);
        let Output { status, stdout, .. } = { csv }.output().unwrap();
        assert!(status.success());
        let csv = text(&stdout);
        assert_eq!(csv.lines().next(), Some(header));
        let samples = connections[0]["samples"].as_u64().unwrap();
        assert_eq!(csv.lines().count() as u64, samples + 1);
    }
}

#[test]
fn a_wrong_file_is_shown_with_its_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let text_of = "out = \"traces\"\nvariables = [\"CurCwn\"]\n";
    fs::write(folder.path().join("trace.toml"), text_of).unwrap();
    let output = fairwind(&folder, &["trace", "daemon", "trace.toml", "--check"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.starts_with("trace.toml:2:14: `CurCwn` is not an instrument"));
    assert!(message.contains("did you mean `CurCwnd`?"), "{message}");
}

#[test]
fn the_connections_of_a_command_behind_a_path_are_kept() {
    if !permitted(check_requirements()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The client stays until all is acknowledged: a connection that it has closed is not sampled on
    // every ACK.
    let server = "python3 -c 'import socket\nc = socket.create_server((\"\", 7000)).accept()[0]\n\
                  left = 200000\nwhile left: left -= len(c.recv(65536))\nc.send(b\"1\")'";
    let client = "import socket; s = socket.create_connection((\"{peer}\", 7000)); \
                  s.sendall(bytes(200000)); s.recv(1)";
    let output = fairwind(
        &folder,
        &[
            "lab",
            "exec",
            "--bandwidth",
            "50Mbit/s",
            "--delay",
            "5ms",
            "--congestion-control",
            "fairwind",
            "--offload",
            "none",
            "--server",
            server,
            "--trace",
            "kept",
            "--",
            "python3",
            "-c",
            client,
        ],
    )
    .output()
    .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("trace: 2 connections in kept, 0 samples lost"),
        "{stderr}"
    );
    let index = index(&folder.path().join("kept"));
    let connections = index["connections"].as_array().unwrap();
    let sender = connections.iter().find(|c| c["incoming"] == false).unwrap();
    assert_eq!(sender["remote"], "10.77.0.2:7000");
    // At least every second one of 139 segments is acknowledged.
    assert!(sender["samples"].as_u64().unwrap() > 50, "{index}");
    // The copy of a run has a name of its own in the kernel, cut where that is full.
    let file = folder
        .path()
        .join("kept")
        .join(sender["file"].as_str().unwrap());
    let csv = fairwind(&folder, &["trace", file.to_str().unwrap(), "--csv"]).output();
    let csv = text(&csv.unwrap().stdout);
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let last: Vec<&str> = lines.next_back().unwrap().split(',').collect();
    let value = |name| last[names.iter().position(|other| *other == name).unwrap()];
    assert!(
        value("fairwind_window").parse::<u32>().unwrap() > 0,
        "{csv}"
    );
    // A bit field, and a member of a union.
    assert_eq!(value("fairwind_is_starting"), "0");
    assert!(value("fairwind_round_start_us").parse::<u32>().unwrap() > 0);
    assert_eq!(value("imtcp_low"), "");
}
