//! `fairwind run` as its users meet it: programs of all sorts over loopback, and beside others on a path of the lab.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_cc::kernel::{available, check_requirements};
use fairwind_testing::{eventually, in_new_network_namespace, permitted, root, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::lab_exec::ignore_ends_of_children;
use crate::mounted::Mounted;
use crate::turn::in_the_lab;

const FAIRWIND: &str = env!("CARGO_BIN_EXE_fairwind");

/// What the probes have in common: sockets, and what the kernel says of them.
pub(crate) const PROBE: &str = r#"
import ctypes, mmap, os, signal, socket, struct, subprocess, sys, threading, time
def control(s): return s.getsockopt(6, 13, 16).split(b'\0')[0].decode()
def pair(family, address, prepare=lambda s: None, here=None):
    server = socket.create_server((address, 0), family=family)
    client = socket.socket(family)
    prepare(client)
    if here: client.bind((here, 0))
    client.connect(server.getsockname()[:2])
    return client, server.accept()[0]
"#;

/// Prints the congestion controls of six connections of itself and of a child.
pub(crate) const OF_ITSELF_AND_A_CHILD: &str = "
both = pair(socket.AF_INET, '127.0.0.1') + pair(socket.AF_INET6, '::1')
print(*[control(s) for s in both], flush=True)
if os.fork() == 0:
    print(*[control(s) for s in pair(socket.AF_INET, '127.0.0.1')], flush=True)
    os._exit(0)
os.wait()
";

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program of Python's by `fairwind run` with these options, in a network namespace of its own.
fn probe(options: &'static [&'static str], program: &'static str) -> Output {
    in_new_network_namespace(move || {
        let program = format!("{PROBE}{program}");
        let mut command = Command::new(FAIRWIND);
        command.arg("run").args(options);
        command.args(["--", "/usr/bin/python3", "-c", &program]);
        command.output().unwrap()
    })
}

/// What it has printed, word by word.
pub(crate) fn words(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

fn may_run() -> bool {
    permitted(check_requirements()) && permitted(root())
}

#[test]
fn every_connection_of_the_command_and_its_children_has_the_control() {
    if !may_run() {
        return;
    }
    let output = probe(&["--control", "reno"], OF_ITSELF_AND_A_CHILD);
    assert_eq!(words(&output), ["reno"; 6]);
    let said = text(&output.stderr);
    assert!(said.starts_with("fairwind: 6 connections: "), "{said}");
}

#[test]
fn other_programs_are_left_alone() {
    if !may_run() {
        return;
    }
    let [before, meanwhile] = in_new_network_namespace(|| {
        let other = || {
            let program = format!("{PROBE}\nprint(control(pair(socket.AF_INET, '127.0.0.1')[0]))");
            let output = Command::new("/usr/bin/python3")
                .args(["-c", &program])
                .output();
            text(&output.unwrap().stdout)
        };
        let before = other();
        let mut run = Command::new(FAIRWIND)
            .args(["run", "--quiet", "--control", "reno", "--", "sleep", "30"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("the command runs", || command_of(run.id()).is_some());
        let meanwhile = other();
        end(&mut run, libc::SIGTERM);
        [before, meanwhile]
    });
    assert_ne!(before, "reno\n");
    assert_eq!(meanwhile, before);
}

/// The only child of a process.
fn command_of(process: u32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    children.ok()?.split_whitespace().next()?.parse().ok()
}

fn end(run: &mut Child, signal: i32) -> Option<i32> {
    // SAFETY: our own child, which has not been waited for.
    unsafe { libc::kill(run.id() as i32, signal) };
    run.wait().unwrap().code()
}

#[test]
fn what_a_program_chooses_itself_is_kept_unless_forced() {
    if !may_run() {
        return;
    }
    const CHOOSES: &str = "
choose = lambda s: s.setsockopt(6, 13, b'cubic')
chosen, accepted = pair(socket.AF_INET, '127.0.0.1', choose)
late, _ = pair(socket.AF_INET, '127.0.0.1')
choose(late)
print(control(chosen), control(accepted), control(late))
";
    let kept = probe(&["--control", "reno"], CHOOSES);
    assert_eq!(words(&kept), ["cubic", "reno", "cubic"]);
    let said = text(&kept.stderr);
    assert!(
        said.contains("\n1 connection keeps the congestion control that the program has chosen"),
        "{said}"
    );
    let forced = probe(&["--control", "reno", "--force"], CHOOSES);
    assert_eq!(words(&forced), ["reno"; 3]);
    let said = text(&forced.stderr);
    assert!(
        said.contains("\n2 attempts of the program to choose another"),
        "{said}"
    );
    // Where nothing is given instead, no call is left out.
    let limited = words(&probe(&["--limit", "1Gbit/s", "--force"], CHOOSES));
    assert_eq!((&*limited[0], &*limited[2]), ("cubic", "cubic"));
}

#[test]
fn what_the_kernel_refuses_a_program_is_no_choice() {
    if !may_run() {
        return;
    }
    let output = probe(
        &["--control", "reno"],
        "
def attempt(s):
    try: s.setsockopt(6, 13, b'no-such')
    except OSError: pass
def choose_and_attempt(s):
    s.setsockopt(6, 13, b'cubic')
    attempt(s)
refused, chosen = (pair(socket.AF_INET, '127.0.0.1', do)[0] for do in (attempt, choose_and_attempt))
print(control(refused), control(chosen))
",
    );
    assert_eq!(words(&output), ["reno", "cubic"]);
    let said = text(&output.stderr);
    assert!(
        said.contains("\n1 connection keeps the congestion control that the program has chosen"),
        "{said}"
    );
}

#[test]
fn other_options_of_a_program_are_its_own() {
    if !may_run() {
        return;
    }
    // Larger than the page of an option that a program at a control group sees.
    let output = probe(
        &["--control", "reno", "--force"],
        "
import struct
s = socket.socket()
s.setsockopt(6, 1, 1)
print(s.getsockopt(6, 1))
try: s.setsockopt(6, 1, struct.pack('i', 0) + bytes(20000))
except OSError as error: print(error)
print(s.getsockopt(6, 1))
",
    );
    assert_eq!(words(&output), ["1", "0"]);
}

#[test]
fn rate_and_mark_are_those_of_the_options() {
    if !may_run() {
        return;
    }
    let output = probe(
        &["--limit", "8Mbit/s", "--lower-effort"],
        "
for family, address, level, option in (2, '127.0.0.1', 0, 1), (10, '::1', 41, 67):
    client, accepted = pair(family, address)
    for s in client, accepted:
        print(s.getsockopt(1, 47), s.getsockopt(level, option))
",
    );
    assert_eq!(words(&output), ["1000000", "4"].repeat(4));
}

#[test]
fn a_limit_holds_for_what_is_sent() {
    if !may_run() {
        return;
    }
    let output = probe(
        &["--limit", "40Mbit/s"],
        "
import threading, time
client, accepted = pair(socket.AF_INET, '127.0.0.1')
took = []
def read():
    began = time.monotonic()
    while accepted.recv(1 << 20): pass
    took.append(time.monotonic() - began)
reader = threading.Thread(target=read)
reader.start()
client.sendall(bytes(10_000_000))
client.close()
reader.join()
print(took[0])
",
    );
    let seconds: f64 = words(&output)[0].parse().unwrap();
    assert!(
        (1.6..4.0).contains(&seconds),
        "10 MB at 40 Mbit/s in {seconds} s"
    );
}

#[test]
fn a_control_of_ours_is_there_for_the_run_alone() {
    if !may_run() {
        return;
    }
    let output = probe(
        &["--background", "--parameter", "delay=1ms", "--json"],
        "print(control(pair(socket.AF_INET, '127.0.0.1')[0]))",
    );
    let [name] = &words(&output)[..] else {
        panic!("one word")
    };
    assert!(name.starts_with("fw_fairwin_"), "{name}");
    assert!(eventually(|| !available().unwrap().contains(name)));
    let told: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(told["congestion_control"], name.as_str());
    assert_eq!(told["given"], 2);
    let connections = told["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 2);
    assert_eq!(connections[0]["program"], "python3");
    assert_eq!(connections[0]["yielded_seconds"], 0.0);
}

#[test]
fn the_exit_code_and_signals_are_the_commands() {
    if !may_run() {
        return;
    }
    let run = |line: &str| {
        let mut command = Command::new(FAIRWIND);
        command
            .args(["run", "--control", "reno", "--", "sh", "-c", line])
            .output()
            .unwrap()
    };
    assert_eq!(run("exit 3").status.code(), Some(3));
    assert_eq!(run("kill -9 $$").status.code(), Some(137));
    let mut ignored = Command::new(FAIRWIND);
    ignored.args([
        "run",
        "--quiet",
        "--control",
        "reno",
        "--",
        "sh",
        "-c",
        "exit 3",
    ]);
    // SAFETY: between fork and exec it makes a system call only.
    unsafe { ignored.pre_exec(ignore_ends_of_children) };
    assert_eq!(ignored.status().unwrap().code(), Some(3));
    let trapping = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    // Nobody has to answer there; the asking is in a thread of its own.
    for what in ["--control=reno", "--advised=http://127.0.0.1:1"] {
        let mut waiting = Command::new(FAIRWIND)
            .args(["run", "--quiet", what, "--", "sh", "-c", trapping])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The shell has come to its trap.
        let mut said = String::new();
        let mut output = BufReader::new(waiting.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n", "{what}");
        assert_eq!(end(&mut waiting, libc::SIGTERM), Some(5), "{what}");
    }
}

#[test]
fn without_an_advisor_the_command_runs_and_that_is_told() {
    if !may_run() {
        return;
    }
    const CONNECTS: &str = "
pair(socket.AF_INET, '127.0.0.2', here='127.0.0.3')
time.sleep(0.5)
print('done')
";
    let output = probe(&["--advised=http://127.0.0.1:1"], CONNECTS);
    assert_eq!(words(&output), ["done"]);
    let said = text(&output.stderr);
    assert!(
        said.contains("\nleft out: advice: http://127.0.0.1:1"),
        "{said}"
    );
    let output = probe(&["--advised=http://127.0.0.1:1", "--json"], CONNECTS);
    let told: Value = serde_json::from_slice(&output.stderr).unwrap();
    let left_out = told["left_out"][0].as_str().unwrap();
    assert!(
        left_out.starts_with("advice: http://127.0.0.1:1"),
        "{left_out}"
    );
}

#[test]
fn what_cannot_be_told_leaves_the_command_its_exit_code() {
    if !may_run() {
        return;
    }
    let command = |option: &str| {
        let mut command = Command::new(FAIRWIND);
        command.args(["run", "--control", "reno", option]);
        command.args(["--", "sh", "-c", "exit 3"]);
        command
    };
    for option in ["--connections", "--json"] {
        let (nobody, error) = std::io::pipe().unwrap();
        drop(nobody);
        let status = command(option).stderr(error).status().unwrap();
        assert_eq!(status.code(), Some(3), "{option}");
    }
    let full = command("--json=/dev/full").output().unwrap();
    assert_eq!(full.status.code(), Some(3));
    let said = text(&full.stderr);
    assert!(said.contains("/dev/full: No space left"), "{said}");
}

#[test]
fn what_is_in_the_file_is_replaced_when_the_command_has_run() {
    if !may_run() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("told.json");
    let before = "before ".repeat(10_000);
    fs::write(&file, &before).unwrap();
    let run = |program: &str| {
        let mut command = Command::new(FAIRWIND);
        command.args(["run", "--control", "reno"]);
        command.arg(format!("--json={}", file.display()));
        command.args(["--", program]).output().unwrap()
    };
    assert_eq!(run("/nonexistent/program").status.code(), Some(2));
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    assert_eq!(run("true").status.code(), Some(0));
    let told: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(told["congestion_control"], "reno");
}

#[test]
fn a_transfer_goes_on_when_the_run_is_killed() {
    if !may_run() {
        return;
    }
    let (folder, exit) = in_new_network_namespace(|| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("done");
        let program = format!(
            "{PROBE}
import threading, time
client, accepted = pair(socket.AF_INET, '127.0.0.1')
received = []
def read():
    while part := accepted.recv(1 << 20): received.append(len(part))
reader = threading.Thread(target=read)
reader.start()
for _ in range(40):
    client.sendall(bytes(1_000_000))
    time.sleep(0.05)
client.close()
reader.join()
open('{}', 'w').write(f'{{sum(received)}}.')
",
            file.display()
        );
        let mut run = Command::new(FAIRWIND)
            .args([
                "run",
                "--background",
                "--",
                "/usr/bin/python3",
                "-c",
                &program,
            ])
            .spawn()
            .unwrap();
        wait_until("the command runs", || command_of(run.id()).is_some());
        thread::sleep(Duration::from_millis(500));
        let exit = end(&mut run, libc::SIGKILL);
        wait_until("all has arrived", || {
            fs::read_to_string(&file).is_ok_and(|text| text.ends_with('.'))
        });
        (folder, exit)
    });
    assert_eq!(exit, None);
    let bytes = fs::read_to_string(folder.path().join("done")).unwrap();
    assert_eq!(bytes, "40000000.");
}

/// Holds a download down, with a BPF file system, until the run ends as this statement of its program says. Returns the run's
/// exit code; the window and priority before and after; and the traffic class of a connection that begins then.
fn held_until(end: &'static str) -> (Option<i32>, [u64; 5]) {
    in_new_network_namespace(move || {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("windows");
        let program = format!(
            "{PROBE}
import time
server = socket.create_server(('127.0.0.2', 0))
client = socket.create_connection(server.getsockname(), source_address=('127.0.0.3', 0))
accepted = server.accept()[0]
window = lambda: accepted.getsockopt(6, 10)
priority = lambda: accepted.getsockopt(1, 12)
def receive(seconds, until=lambda: False):
    end = time.monotonic() + seconds
    # Less than would let the window grow.
    while time.monotonic() < end and not until():
        client.sendall(bytes(500))
        accepted.recv(500)
        time.sleep(0.02)
receive(1)
held = f'{{window()}} {{priority()}}'
{end}
receive(15, lambda: window() > 20 << 16 and priority() == 0)
later = socket.create_connection(server.getsockname()).getsockopt(0, 1)
open('{}', 'w').write(f'{{held}} {{window()}} {{priority()}} {{later}}')
",
            file.display()
        );
        // With a BPF file system that only these processes see.
        let bpf = folder.path().join("bpf");
        fs::create_dir(&bpf).unwrap();
        let line = format!(
            "mount -t bpf bpf {} && exec {FAIRWIND} run --background --lower-effort -- /usr/bin/python3 -c \"$1\"",
            bpf.display()
        );
        let mut run = Command::new("unshare")
            .args(["--mount", "sh", "-c", &line, "sh", &program])
            .spawn()
            .unwrap();
        let exit = run.wait().unwrap().code();
        wait_until("the windows are written", || {
            fs::read_to_string(&file).is_ok_and(|text| text.split(' ').count() == 5)
        });
        let text = fs::read_to_string(&file).unwrap();
        let told: Vec<u64> = text.split(' ').map(|word| word.parse().unwrap()).collect();
        (exit, told.try_into().unwrap())
    })
}

#[test]
fn downloads_are_released_when_the_run_is_killed_and_new_connections_given_nothing() {
    if !may_run() {
        return;
    }
    let (exit, told) = held_until("os.kill(os.getppid(), 9)");
    assert_eq!(exit, None);
    let [held, marked, released, unmarked, class] = told;
    // Twenty segments of loopback's.
    assert!(held < 20 << 16, "{held} {released}");
    assert!(released > 20 << 16, "{released}");
    // By which other downloads in the background know it.
    assert_eq!([marked, unmarked], [1, 0]);
    assert_eq!(class, 0);
}

#[test]
fn downloads_that_the_command_leaves_behind_are_released() {
    if !may_run() {
        return;
    }
    let (exit, told) = held_until("if os.fork(): os._exit(0)");
    assert_eq!(exit, Some(0));
    let [held, marked, released, unmarked, class] = told;
    assert!(held < 20 << 16, "{held} {released}");
    assert!(released > 20 << 16, "{released}");
    assert_eq!([marked, unmarked, class], [1, 0, 0]);
}

#[test]
fn what_a_killed_run_has_pinned_is_removed_by_a_later_one_also_without_its_group() {
    if !may_run() {
        return;
    }
    let mounted = Mounted::new();
    let fairwind = |arguments: &[&str]| {
        let mut command = Command::new(FAIRWIND);
        command.arg("run").args(arguments);
        mounted.inside(&command)
    };
    let mut run = fairwind(&["--background", "--", "sleep", "100"])
        .spawn()
        .unwrap();
    let group_of = |process: i32| {
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
        let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        group.contains("fairwind-run-").then(|| group.to_owned())
    };
    let mut found = None;
    wait_until("the command is in its group", || {
        let command = command_of(run.id());
        found = command.and_then(|command| Some((command, group_of(command)?)));
        found.is_some()
    });
    let (command, group) = found.unwrap();
    let group = fairwind_kernel::mounted("cgroup2").unwrap().join(group);
    let pin = format!("fairwind-run-{}", fs::metadata(&group).unwrap().ino());
    // As a service manager ends a unit.
    end(&mut run, libc::SIGKILL);
    // SAFETY: a child of our child, which nobody has waited for.
    unsafe { libc::kill(command, libc::SIGKILL) };
    // Another run, of another test, may be the first.
    let is_removed = || fs::remove_dir(&group).is_ok() || !group.exists();
    wait_until("the group is removed", is_removed);

    let is_pinned = || {
        let mut list = Command::new("ls");
        list.arg("/sys/fs/bpf");
        let listed = mounted.inside(&list).output().unwrap();
        text(&listed.stdout).lines().any(|name| name == pin)
    };
    assert!(is_pinned());
    wait_until("it is removed", || {
        let next = fairwind(&["--quiet", "--control", "reno", "--", "true"]).status();
        assert!(next.unwrap().success());
        !is_pinned()
    });
}

/// Control groups of runs, wherever they are.
fn groups() -> Vec<String> {
    let root = fairwind_kernel::mounted("cgroup2").unwrap();
    let mut found = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("fairwind-run-") {
                    found.push(name);
                }
                folders.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn what_a_command_leaves_behind_is_named_and_its_group_removed_by_a_later_run() {
    if !may_run() {
        return;
    }
    let run = |line: &str| {
        let mut command = Command::new(FAIRWIND);
        command.args(["run", "--control", "reno", "--", "sh", "-c", line]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let group = format!("fairwind-run-{}", child.id());
        (text(&child.wait_with_output().unwrap().stderr), group)
    };
    let (said, group) = run("sleep 2 >/dev/null 2>&1 &");
    assert!(said.contains("has left processes behind ("), "{said}");
    assert!(groups().contains(&group));
    let (_, own) = run("true");
    assert!(!groups().contains(&own), "its own is removed");
    assert!(eventually(|| {
        run("true");
        !groups().contains(&group)
    }));
}

#[test]
fn wrong_usage_is_refused_before_the_command_runs() {
    let folder = TempDir::new().unwrap();
    let ran = folder.path().join("ran");
    let refuse = |options: &[&str], code: i32, expected: &str| {
        let mut command = Command::new(FAIRWIND);
        let output = command.arg("run").args(options).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(!ran.exists());
    };
    let touch = ran.to_str().unwrap();
    refuse(&["--", "touch", touch], 2, "--background");
    refuse(&["--background"], 2, "COMMAND");
    refuse(
        &["--background", "--control", "bbr", "--", "touch", touch],
        2,
        "cannot be used with",
    );
    refuse(
        &["--control", "nocc", "--", "touch", touch],
        2,
        "--allow-nocc",
    );
    refuse(
        &["--control", "fw_nocc", "--", "touch", touch],
        2,
        "--allow-nocc",
    );
    refuse(
        &["--control", "fw_nocc_1a2b", "--", "touch", touch],
        2,
        "--allow-nocc",
    );
    for url in ["garbage", "http://10.77.0.2:99999"] {
        let advised = format!("--advised={url}");
        refuse(
            &[&advised, "--", "touch", touch],
            2,
            &format!("{url}: an advisor's address looks like http"),
        );
    }
    refuse(
        &["--limit", "0bit/s", "--", "touch", touch],
        2,
        "8bit/s to 34Gbit/s",
    );
    refuse(
        &[
            "--limit",
            "1Mbit/s",
            "--parameter",
            "delay=1ms",
            "--",
            "touch",
            touch,
        ],
        2,
        "--parameter goes with",
    );
    refuse(
        &[
            "--background",
            "--parameter",
            "dely=1ms",
            "--",
            "touch",
            touch,
        ],
        2,
        "dely",
    );
    refuse(
        &[
            "--background",
            "--json=/nonexistent/told.json",
            "--",
            "touch",
            touch,
        ],
        1,
        "/nonexistent/told.json: No such file",
    );
    if may_run() {
        refuse(
            &["--control", "renoo", "--", "touch", touch],
            2,
            "there is no congestion control `renoo`",
        );
        let missing = folder.path().join("no-program");
        refuse(
            &["--background", "--", missing.to_str().unwrap()],
            2,
            "No such file",
        );
    }
}

/// What Cubic has of a path that it has alone, there or back, and what is left of it beside others.
pub(crate) struct Cubic {
    is_back: bool,
    /// What it has alone, bytes.
    alone: f64,
}

impl Cubic {
    pub(crate) fn alone(is_back: bool) -> Self {
        let alone = cubic_beside("true", is_back);
        Self { is_back, alone }
    }

    /// The share that is left beside this program.
    fn share_beside(&self, other: &str) -> f64 {
        cubic_beside(other, self.is_back) / self.alone
    }

    /// Checks that more than this share is left beside a program.
    #[track_caller]
    pub(crate) fn keeps(&self, least: f64, other: &str) {
        let share = self.share_beside(other);
        assert!(
            share > least,
            "{share} of what Cubic has alone, beside {other}"
        );
    }
}

/// Bytes that reach the other end in 10 s by Cubic, there or back, beside a program that runs as this line says, in which
/// PEER is the peer's address; none without it.
fn cubic_beside(other: &str, is_back: bool) -> f64 {
    let folder = TempDir::new().unwrap();
    let result = folder.path().join("cubic.json");
    let script = folder.path().join("both.sh");
    let file = folder.path().join("endless");
    fs::File::create(&file).unwrap().set_len(1 << 30).unwrap();
    // The server gives up the rights of root.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let way = if is_back { "-R" } else { "" };
    let lines = format!(
        "PEER=$1\n{other} >/dev/null 2>&1 &\nother=$!\nsleep 6\n\
         iperf3 -c $1 -p 5201 -t 10 -C cubic {way} --json >{}\nkill $other\nwait\n",
        result.display()
    );
    fs::write(&script, lines).unwrap();
    let servers = format!(
        "iperf3 -s -p 5202 >/dev/null & iperf3 -s -p 5201 >/dev/null & \
         {FAIRWIND} serve {} --listen 0.0.0.0:2121 >/dev/null 2>&1",
        folder.path().display()
    );
    let path = [
        "--bandwidth",
        "50Mbit/s",
        "--delay",
        "15ms",
        "--queue",
        "125pkt",
    ];
    let output = Command::new(FAIRWIND)
        .args(["lab", "exec"])
        .args(path)
        .args([
            "--congestion-control",
            "cubic",
            "--server",
            &servers,
            "--",
            "sh",
        ])
        .arg(&script)
        .arg("{peer}")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    sent(&result)
}

fn sent(result: &Path) -> f64 {
    let result: Value = serde_json::from_slice(&fs::read(result).unwrap()).unwrap();
    result["end"]["sum_received"]["bytes"].as_f64().unwrap()
}

#[test]
fn an_upload_in_the_background_leaves_others_what_they_would_have_without_it() {
    let Some(_turn) = in_the_lab() else { return };
    if !may_run() {
        return;
    }
    let upload =
        |how: &str| format!("{FAIRWIND} run --quiet {how} -- iperf3 -c $PEER -p 5202 -t 60");
    let cubic = Cubic::alone(false);
    cubic.keeps(0.95, &upload("--background"));
    let share = cubic.share_beside(&upload("--control cubic"));
    assert!(
        share < 0.6,
        "Cubic in the background takes its part: {share}"
    );
}

#[test]
fn a_download_in_the_background_leaves_others_what_they_would_have_without_it() {
    let Some(_turn) = in_the_lab() else { return };
    if !may_run() {
        return;
    }
    let cubic = Cubic::alone(true);
    let curl = "curl -s -o /dev/null ftp://$PEER:2121/endless";
    let run = format!("{FAIRWIND} run --quiet --background -- {curl}");
    cubic.keeps(0.9, &run);
    // Without any rights.
    let get =
        format!("{FAIRWIND} get --background --checksum off ftp://$PEER:2121/endless /dev/null");
    cubic.keeps(0.9, &get);
    let share = cubic.share_beside(curl);
    assert!(share < 0.8, "curl takes its part otherwise: {share}");
}

#[test]
fn a_command_is_not_held_up() {
    if !may_run() {
        return;
    }
    let began = Instant::now();
    let mut command = Command::new(FAIRWIND);
    let output = command
        .args(["run", "--control", "reno", "--", "true"])
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "fairwind: 0 connections\n");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}
