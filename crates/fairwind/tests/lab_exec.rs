//! `fairwind lab exec` as its users meet it.
//!
//! Tests that run a command need root.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use fairwind_testing::or_skip;
use serde_json::Value;

use crate::turn::in_the_lab;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairwind"));
    command.args(["lab", "exec"]).args(arguments);
    command
}

fn exec(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The error for invalid arguments.
fn refused(arguments: &[&str]) -> String {
    let output = exec(arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(output.stdout.is_empty());
    error
}

#[test]
fn a_wrong_path_is_told_as_in_experiment_files() {
    assert_eq!(
        refused(&[
            "--bandwidth",
            "20Mbit/s",
            "--set",
            "dealy=3ms",
            "--",
            "true"
        ]),
        "--set:1:1: unknown field `dealy` in link\n  1 | dealy=3ms\n    | ^^^^^\n  help: did you \
         mean `delay`?\n"
    );
    let error = refused(&[
        "--set",
        "aqm={kind=\"red\", min_th=15, max_th=5}",
        "--",
        "true",
    ]);
    assert!(error.contains("max_th 5 is not above min_th 15"), "{error}");
    let error = refused(&["--delay", "15", "--", "true"]);
    assert!(error.starts_with("--delay:1:1: "), "{error}");
    assert!(error.contains("\n  help: "), "{error}");
}

#[test]
fn options_that_would_change_nothing_are_refused() {
    assert_eq!(
        refused(&["--queue", "100pkt", "--delay", "15ms", "--", "true"]),
        "--queue:1:1: `queue` has no effect without a bandwidth\n  1 | 100pkt\n    | ^^^^^^\n  \
         help: write --bandwidth RATE, too\n"
    );
    let error = refused(&["--bandwidth", "20Mbit/s", "--time-scale", "2", "--", "true"]);
    assert!(error.contains("without a recorded trace"), "{error}");
    let error = refused(&["--trace-interval", "10ms", "--", "true"]);
    assert!(error.contains("--trace <DIR>"), "{error}");
}

#[test]
fn wrong_parameters_of_controls_are_told() {
    let sfsack = ["--congestion-control", "sfsack", "--parameter"];
    let error = refused(&[&sfsack[..], &["taw=50ms", "--", "true"]].concat());
    assert!(error.contains("`taw`"), "{error}");
    let error = refused(&[&sfsack[..], &["tau=often", "--", "true"]].concat());
    assert!(error.contains("a time such as 50ms"), "{error}");
    let error = refused(&[
        "--congestion-control",
        "vegas",
        "--parameter",
        "x=1",
        "--",
        "true",
    ]);
    assert!(error.contains("not for `vegas`"), "{error}");
    refused(&["--parameter", "tau=50ms", "--", "true"]);
}

#[test]
fn the_machine_serves_for_itself() {
    refused(&["--host", "--server", "true", "--", "true"]);
}

#[test]
fn directions_differ_and_are_counted_and_captured() {
    let Some(_turn) = in_the_lab() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // A datagram to a closed port is answered by an ICMP message, which passes the queue of the reverse
    // direction, where everything is lost.
    let client =
        "exec 3<>/dev/udp/{peer}/9; for n in 1 2 3; do echo $n >&3; sleep 0.02; done; echo done";
    let output = exec(&[
        "--delay",
        "1ms",
        "--set",
        "reverse.loss=1",
        "--capture",
        &file("x.pcapng"),
        "--statistics",
        &file("x.json"),
        "--",
        "bash",
        "-c",
        client,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "done\n");
    let statistics: Value =
        serde_json::from_str(&fs::read_to_string(file("x.json")).unwrap()).unwrap();
    assert_eq!(statistics["pipes"][0]["packets"], 3);
    assert_eq!(statistics["pipes"][1]["packets"], 0);
    let lost = statistics["pipes"][1]["random_losses"].as_u64().unwrap();
    assert!((1..=3).contains(&lost), "{lost}");
    for name in ["x.pcapng", "x.reverse.pcapng"] {
        assert_eq!(fs::read(file(name)).unwrap()[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    }
}

#[test]
fn what_the_command_prints_is_never_missing() {
    let Some(_turn) = in_the_lab() else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    let statistics = file.path().to_str().unwrap();
    for _ in 0..10 {
        let output = exec(&["--statistics", statistics, "--", "echo", "{peer}"]);
        assert_eq!(
            text(&output.stdout),
            "10.77.0.2\n",
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn what_fails_when_the_command_has_run_leaves_its_exit_code() {
    let Some(_turn) = in_the_lab() else { return };
    let fails = ["--", "sh", "-c", "exit 3"];
    let full = exec(&[&["--statistics", "/dev/full"], &fails[..]].concat());
    let said = text(&full.stderr);
    assert_eq!(full.status.code(), Some(3), "{said}");
    assert!(said.contains("/dev/full: No space left"), "{said}");

    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let trace = trace.to_str().unwrap();
    let removes = format!("rm -r {trace}; exit 3");
    let lost = exec(&["--trace", trace, "--", "sh", "-c", &removes]);
    let said = text(&lost.stderr);
    assert_eq!(lost.status.code(), Some(3), "{said}");
    assert!(said.contains("error: "), "{said}");

    let (nobody, error) = std::io::pipe().unwrap();
    drop(nobody);
    let mut untold = command(&[&["--trace", trace], &fails[..]].concat());
    assert_eq!(untold.stderr(error).status().unwrap().code(), Some(3));
}

#[test]
fn the_exit_code_is_the_commands_also_where_ends_of_children_are_ignored() {
    let Some(_turn) = in_the_lab() else { return };
    let mut ignored = command(&["--", "sh", "-c", "exit 3"]);
    // SAFETY: between fork and exec it makes a system call only.
    unsafe { ignored.pre_exec(ignore_ends_of_children) };
    assert_eq!(ignored.status().unwrap().code(), Some(3));
}

/// As some programs do that start others.
pub(crate) fn ignore_ends_of_children() -> std::io::Result<()> {
    // SAFETY: no code of the process is to be called.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    Ok(())
}

#[test]
fn a_file_for_statistics_that_cannot_be_opened_is_told_before_the_command_runs() {
    let Some(_turn) = in_the_lab() else { return };
    let output = exec(&["--statistics", "/nonexistent/x.json", "--", "echo", "ran"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/nonexistent/x.json: No such file"), "{said}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_shell_has_a_terminal_and_job_control() {
    let Some(_turn) = in_the_lab() else { return };
    let fairwind = env!("CARGO_BIN_EXE_fairwind");
    // util-linux's `script` provides a terminal.
    let script = Command::new("script")
        .args(["-qec", &format!("{fairwind} lab exec"), "/dev/null"])
        .env("SHELL", "/bin/bash")
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let script = script.map_err(|error| format!("script: {error}"));
    let Some(mut script) = or_skip(script) else {
        return;
    };
    let lines = "sleep 7 &\njobs\nkill %1\nwait\ntty -s && echo terminal=$?\n\
                 echo peer=$FAIRWIND_PEER\nset -o | grep monitor\nexit 5\n";
    let mut input = script.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    let output = script.wait_with_output().unwrap();
    drop(input);
    let shown = text(&output.stdout).replace('\r', "");
    assert_eq!(output.status.code(), Some(5), "{shown}");
    for part in [
        "(fairwind) ",
        "[1]+  Running",
        "\nterminal=0",
        "\npeer=10.77.0.2",
        "monitor        \ton",
    ] {
        assert!(shown.contains(part), "no `{part}` in {shown}");
    }
    assert!(!shown.contains("no job control"), "{shown}");
}
