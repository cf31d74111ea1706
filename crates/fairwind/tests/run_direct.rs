//! `fairwind run` without rights and without an agent: as another user, by the options of the command's sockets.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_testing::advisor::{Reply, TestAdvisor, advice};
use fairwind_testing::{in_new_network_namespace, or_skip, permitted, root, wait_until};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::everybody::Everybody;
use crate::run::{Cubic, OF_ITSELF_AND_A_CHILD, PROBE, text, words};
use crate::turn::in_the_lab;

/// What the probes need beside.
const WINDOW: &str =
    "\nlibc = ctypes.CDLL(None, use_errno=True)\nwindow = lambda s: s.getsockopt(6, 10)\n";

/// The command, as another user, with these options, where nobody answers for an agent.
fn run(everybody: &Everybody, options: &[&str], command: &[&str]) -> Command {
    let mut run = everybody.command();
    run.args(["run", "--agent", "/nonexistent/agent.sock"]);
    run.args(options).arg("--").args(command);
    run
}

/// Runs a program of Python's by it, in a network namespace of its own.
fn probe(options: &'static [&'static str], program: &'static str) -> Output {
    in_new_network_namespace(move || {
        let everybody = Everybody::new();
        let program = format!("{PROBE}{WINDOW}{program}");
        // Without buffers, of which a child would have what was not yet written.
        let command = ["/usr/bin/python3", "-u", "-c", &program];
        let mut run = run(&everybody, options, &command);
        // SAFETY: between fork and exec it makes system calls only.
        unsafe { run.pre_exec(few_descriptors) };
        run.output().unwrap()
    })
}

/// Sets the limit of descriptors that logins often have.
fn few_descriptors() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(1024);
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// The JSON at the end of what was said.
fn told(output: &Output) -> Value {
    let said = text(&output.stderr);
    let json = said.find("{\n").map_or("", |at| &said[at..]);
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn every_connection_of_the_command_and_its_children_has_the_control() {
    if !permitted(root()) {
        return;
    }
    let output = probe(&["--control", "reno"], OF_ITSELF_AND_A_CHILD);
    assert_eq!(words(&output), ["reno"; 6]);
    let said = text(&output.stderr);
    assert!(said.starts_with("fairwind: 6 connections: "), "{said}");
    assert!(said.contains("\ntaken care of without rights"), "{said}");
    assert!(!said.contains("left out"), "{said}");
}

#[test]
fn who_connects_by_sending_is_seen() {
    if !permitted(root()) {
        return;
    }
    // MSG_FASTOPEN
    let output = probe(
        &["--control", "reno"],
        "
server = socket.create_server(('127.0.0.1', 0))
first, second = socket.socket(), socket.socket()
first.sendto(b'x', 0x20000000, server.getsockname())
second.sendmsg([b'x'], [], 0x20000000, server.getsockname())
print(control(first), control(second))
",
    );
    assert_eq!(words(&output), ["reno"; 2]);
}

#[test]
fn what_a_program_chooses_itself_is_kept_unless_forced() {
    if !permitted(root()) {
        return;
    }
    // Also if it chooses what it has.
    const CHOOSES: &str = "
usual = open('/proc/sys/net/ipv4/tcp_congestion_control').read().strip()
choose = lambda s: s.setsockopt(6, 13, usual.encode())
chosen, accepted = pair(socket.AF_INET, '127.0.0.1', choose)
late, _ = pair(socket.AF_INET, '127.0.0.1')
choose(late)
print(control(chosen) == usual, control(accepted), control(late) == usual, control(chosen))
";
    let kept = probe(&["--control", "reno"], CHOOSES);
    assert_eq!(words(&kept)[..3], ["True", "reno", "True"]);
    let said = text(&kept.stderr);
    assert!(
        said.contains("\n1 connection keeps the congestion control that the program has chosen"),
        "{said}"
    );
    let forced = probe(&["--control", "reno", "--force"], CHOOSES);
    assert_eq!(words(&forced)[3], "reno");
    let said = text(&forced.stderr);
    assert!(
        said.contains("\n2 attempts of the program to choose another"),
        "{said}"
    );
}

#[test]
fn what_the_kernel_refuses_a_program_is_no_choice() {
    if !permitted(root()) {
        return;
    }
    let output = probe(
        &["--control", "reno"],
        "
usual = open('/proc/sys/net/ipv4/tcp_congestion_control').read().strip()
def attempt(s):
    try: s.setsockopt(6, 13, b'no-such')
    except OSError: pass
def choose_and_attempt(s):
    s.setsockopt(6, 13, usual.encode())
    attempt(s)
refused, chosen = (pair(socket.AF_INET, '127.0.0.1', do)[0] for do in (attempt, choose_and_attempt))
print(control(refused), control(chosen) == usual)
",
    );
    assert_eq!(words(&output), ["reno", "True"]);
    let said = text(&output.stderr);
    assert!(
        said.contains("\n1 connection keeps the congestion control that the program has chosen"),
        "{said}"
    );
}

#[test]
fn rate_and_mark_are_those_of_the_options() {
    if !permitted(root()) {
        return;
    }
    let output = probe(
        &["--limit", "8Mbit/s", "--lower-effort"],
        "
for family, address, level, option in (2, '127.0.0.1', 0, 1), (10, '::1', 41, 67):
    client, accepted = pair(family, address)
    for s in client, accepted:
        print(s.getsockopt(1, 47), s.getsockopt(level, option))
server = socket.create_server(('127.0.0.1', 0))
mapped = socket.socket(socket.AF_INET6)
mapped.connect(('::ffff:127.0.0.1', server.getsockname()[1]))
print(mapped.getsockopt(1, 47), mapped.getsockopt(0, 1))
",
    );
    assert_eq!(words(&output), ["1000000", "4"].repeat(5));
}

#[test]
fn what_the_connections_did_is_told_as_with_rights() {
    if !permitted(root()) {
        return;
    }
    let output = probe(
        &["--limit", "800Mbit/s", "--json"],
        "
client, accepted = pair(socket.AF_INET, '127.0.0.1')
reader = threading.Thread(target=lambda: [None for _ in iter(lambda: accepted.recv(1 << 16), b'')])
reader.start()
client.sendall(bytes(3_000_000))
time.sleep(3)
client.close()
reader.join()
# Nobody listens there.
refused = socket.socket().connect_ex(('127.0.0.1', 1))
print(refused)
",
    );
    assert_eq!(words(&output), [libc::ECONNREFUSED.to_string()]);
    let told = told(&output);
    assert_eq!(told["means"], "sockets");
    assert_eq!(told["congestion_control"], Value::Null);
    let connections = told["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 2, "{told:#}");
    let of = |incoming: bool| {
        let mut both = connections.iter();
        both.find(|one| one["incoming"] == incoming).unwrap()
    };
    let (client, accepted) = (of(false), of(true));
    assert_eq!(client["remote"], accepted["local"]);
    assert_eq!(client["local"], accepted["remote"]);
    // An accepted one is seen within a second.
    for (one, least) in [(client, 3.0), (accepted, 1.5)] {
        let seconds = one["seconds"].as_f64().unwrap();
        assert!((least..30.0).contains(&seconds), "{told:#}");
    }
    assert_eq!(client["program"], "python3");
    assert_eq!(accepted["program"], "python3");
    assert!(client["min_rtt_ms"].as_f64().unwrap() < 100.0);
    // The kernel counts SYN and FIN.
    for bytes in [&client["bytes_sent"], &accepted["bytes_received"]] {
        let bytes = bytes.as_u64().unwrap();
        assert!((3_000_000..=3_000_002).contains(&bytes), "{bytes}");
    }
    assert_eq!(client["closed"], true);
}

#[test]
fn what_needs_rights_is_left_out_and_told() {
    if !permitted(root()) {
        return;
    }
    // Nobody may take that one, and the probe is one's own.
    let output = probe(
        &["--control", "sfsack", "--limit", "8Mbit/s", "--json"],
        "
client, _ = pair(socket.AF_INET, '127.0.0.1')
print(client.getsockopt(1, 47), control(client))
",
    );
    assert_eq!(words(&output)[0], "1000000");
    let said = text(&output.stderr);
    assert!(
        said.starts_with("fairwind: not permitted to load eBPF"),
        "{said}"
    );
    assert!(said.contains("agent.sock: "), "{said}");
    let told = told(&output);
    let left_out = told["left_out"][0].as_str().unwrap();
    assert!(
        left_out.starts_with("the congestion control sfsack: "),
        "{left_out}"
    );
    assert!(
        left_out.contains("tcp_allowed_congestion_control"),
        "{left_out}"
    );
    assert_eq!(told["congestion_control"], Value::Null);
    assert_eq!(told["given"], 0);
}

#[test]
fn if_nothing_can_be_done_the_command_does_not_run() {
    if !permitted(root()) {
        return;
    }
    let everybody = Everybody::new();
    let refused = |options: &[&str], command: &str, code: i32| {
        let output = run(&everybody, options, &[command]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(text(&output.stdout), "");
        said
    };
    let said = refused(&["--control", "sfsack"], "id", 1);
    assert!(
        said.contains("run as root, or with CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF"),
        "{said}"
    );
    assert!(said.contains("nothing of it can be done"), "{said}");
    let said = refused(&["--control", "renoo"], "id", 2);
    assert!(
        said.contains("there is no congestion control `renoo`"),
        "{said}"
    );
    let said = refused(&["--limit", "1Mbit/s"], "/nonexistent/program", 2);
    assert!(said.contains("No such file"), "{said}");
}

/// Runs a program of Python's beside an advisor with these replies, where the kernel tunes buffers up to 64 KiB. Returns what
/// the advisor was asked, too.
fn advised(
    options: &'static [&'static str],
    replies: Vec<Reply>,
    program: &'static str,
) -> (Output, Vec<String>) {
    in_new_network_namespace(move || {
        for tuned in ["tcp_rmem", "tcp_wmem"] {
            fs::write(format!("/proc/sys/net/ipv4/{tuned}"), "4096 16384 131072").unwrap();
        }
        let advisor = TestAdvisor::answering(replies);
        let everybody = Everybody::new();
        let program = format!("{PROBE}{WINDOW}{ADVISED}{program}");
        let url = format!("--advised={}", advisor.url());
        let options = [&[url.as_str()], options].concat();
        let command = ["/usr/bin/python3", "-c", &program];
        let output = run(&everybody, &options, &command).output().unwrap();
        (output, advisor.asked())
    })
}

/// Connections to peers, and what they have been given.
const ADVISED: &str = "
def peer(address): return pair(socket.AF_INET, address, here='127.0.0.3')
given = lambda s: (control(s), s.getsockopt(1, 47))
buffers = lambda s: (s.getsockopt(1, 7), s.getsockopt(1, 8))
usual = open('/proc/sys/net/ipv4/tcp_congestion_control').read().strip()
def until(is_there):
    end = time.monotonic() + 20
    while not is_there() and time.monotonic() < end: time.sleep(0.01)
    return is_there()
";

#[test]
fn advice_is_followed_and_known_before_the_syn_in_all_of_its_prefix() {
    if !permitted(root()) {
        return;
    }
    let slow = json!({
        "congestion_control": "reno", "pacing_mbps": 8.0, "available_mbps": 10.0,
        "send_buffer_bytes": 100_000, "receive_buffer_bytes": 90_000, "prefix": "127.0.0.0/16",
    });
    let (output, asked) = advised(
        &["--json"],
        vec![Reply::Advice(advice(600.0, slow))],
        "
client, accepted = peer('127.0.0.2')
print(until(lambda: given(client) == given(accepted) == ('reno', 1000000)))
print(until(lambda: buffers(client) == buffers(accepted) == (200000, 180000)))
server = socket.create_server(('127.0.5.5', 0))
other = socket.socket()
other.bind(('127.0.0.3', 0))
other.connect(server.getsockname())
print(given(other) == ('reno', 1000000), buffers(other) == (200000, 180000))
own, _ = pair(socket.AF_INET, '127.0.0.1')
time.sleep(0.3)
print(control(own) == usual)
",
    );
    assert_eq!(words(&output), ["True"; 5], "{}", text(&output.stderr));
    // Both peers have come at once.
    assert!(asked.len() <= 2, "{asked:?}");
    let told = told(&output);
    assert_eq!(told["left_out"], json!([]));
    assert_eq!((&told["advised"], &told["given"]), (&json!(3), &json!(3)));
}

#[test]
fn the_advisor_is_asked_again_and_the_limit_stays() {
    if !permitted(root()) {
        return;
    }
    let slow = json!({"congestion_control": "reno", "pacing_mbps": 8.0, "available_mbps": 10.0});
    let fast = json!({"congestion_control": null, "pacing_mbps": 80.0});
    let (output, asked) = advised(
        &["--limit", "16Mbit/s"],
        vec![
            Reply::Failure,
            Reply::Advice(advice(0.5, slow)),
            Reply::Advice(advice(600.0, fast)),
        ],
        "
server = socket.create_server(('127.0.0.2', 0))
client = socket.socket()
client.connect(server.getsockname())
print(client.getsockopt(1, 47))
print(until(lambda: given(client) == ('reno', 1000000)))
print(until(lambda: given(client) == (usual, 2000000)))
",
    );
    assert_eq!(words(&output), ["2000000", "True", "True"]);
    assert!(asked.len() >= 3, "{asked:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("1 connection has followed the advisor"),
        "{said}"
    );
    assert!(said.contains("left out: advice: http://"), "{said}");
}

#[test]
fn what_of_advice_needs_rights_is_told_with_what_would_help() {
    if !permitted(root()) {
        return;
    }
    let off = json!({
        "mode": "no-congestion-control", "congestion_control": "nocc", "pacing_mbps": 8.0,
    });
    let (output, _) = advised(
        &[],
        vec![Reply::Advice(advice(600.0, off))],
        "
client, _ = peer('127.0.0.2')
time.sleep(0.5)
print(control(client) == usual, client.getsockopt(1, 47) != 1000000)
",
    );
    let said = text(&output.stderr);
    let not_own = "is not declared as own here: --allow-nocc";
    assert!(said.contains(not_own), "{said}");
    assert_eq!(words(&output), ["True"; 2]);
    // Nobody may take that one. What else is advised is followed.
    let forbidden =
        json!({"congestion_control": "sfsack", "pacing_mbps": 8.0, "available_mbps": 9.0});
    let (output, _) = advised(
        &[],
        vec![Reply::Advice(advice(600.0, forbidden))],
        "
client, accepted = peer('127.0.0.2')
print(until(lambda: given(client) == given(accepted) == (usual, 1000000)))
",
    );
    assert_eq!(words(&output), ["True"]);
    let said = text(&output.stderr);
    assert!(
        said.contains("left out: congestion control fw_sfsack is advised, but "),
        "{said}"
    );
    let helps = said.contains("fairwind cc load sfsack") || said.contains("tcp_allowed");
    assert!(helps, "{said}");
    assert!(
        said.contains("2 connections have followed the advisor"),
        "{said}"
    );
}

#[test]
fn a_choice_of_the_programs_own_is_kept_from_the_advisor_unless_forced() {
    if !permitted(root()) {
        return;
    }
    let reno = json!({"congestion_control": "reno", "pacing_mbps": 8.0, "available_mbps": 9.0});
    const CHOOSES: &str = "
client, accepted = peer('127.0.0.2')
client.setsockopt(6, 13, usual.encode())
print(until(lambda: given(accepted) == ('reno', 1000000)))
print(until(lambda: client.getsockopt(1, 47) == 1000000))
time.sleep(0.1)
print(control(client) == usual)
";
    let replies = vec![Reply::Advice(advice(600.0, reno))];
    let (kept, _) = advised(&[], replies.clone(), CHOOSES);
    assert_eq!(words(&kept), ["True"; 3]);
    let said = text(&kept.stderr);
    let own = "1 connection keeps the congestion control that the program has chosen, and not the advised one";
    assert!(said.contains(own), "{said}");
    let (forced, _) = advised(&["--force"], replies, CHOOSES);
    assert_eq!(words(&forced), ["True", "True", "False"]);
}

#[test]
fn without_an_advisor_the_command_runs_and_that_is_told() {
    if !permitted(root()) {
        return;
    }
    let options = &["--advised=http://127.0.0.1:1", "--json"];
    let output = probe(
        options,
        "
client, accepted = pair(socket.AF_INET, '127.0.0.2', here='127.0.0.3')
time.sleep(0.5)
client.sendall(b'x')
print(accepted.recv(1))
",
    );
    assert_eq!(words(&output), ["b'x'"]);
    let told = told(&output);
    let left_out = told["left_out"][0].as_str().unwrap();
    assert!(
        left_out.starts_with("advice: http://127.0.0.1:1"),
        "{left_out}"
    );
    assert_eq!((&told["advised"], &told["given"]), (&json!(0), &json!(0)));
}

#[test]
fn the_exit_code_and_signals_are_the_commands() {
    if !permitted(root()) {
        return;
    }
    let everybody = Everybody::new();
    let shell = |line: &str| {
        let options = ["--quiet", "--background"];
        run(&everybody, &options, &["sh", "-c", line])
    };
    let code = |line: &str| shell(line).status().unwrap().code();
    assert_eq!(code("exit 3"), Some(3));
    assert_eq!(code("kill -9 $$"), Some(137));
    let trapping = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut waiting = Waiting::start(shell(trapping));
    waiting.line();
    waiting.signal(libc::SIGTERM);
    assert_eq!(waiting.child.wait().unwrap().code(), Some(5));
    // One whose parent has ended is not taken for the command.
    assert_eq!(code("(sh -c 'exit 7' &); sleep 0.3; exit 4"), Some(4));
}

/// A run that prints lines.
struct Waiting {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Waiting {
    fn start(mut command: Command) -> Waiting {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Waiting { child, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_connection_that_is_held_down_ends_when_its_program_closes_it() {
    if !permitted(root()) {
        return;
    }
    let output = probe(
        &["--background"],
        "
slowest = 0
held = 0
for turn in range(60):
    client, accepted = pair(socket.AF_INET, '127.0.0.2', here='127.0.0.3')
    accepted.sendall(bytes(3000))
    client.recv(3000)
    # Some in the middle of a look.
    time.sleep(turn * 0.0007)
    held += window(client) < 20 << 16
    began = time.monotonic()
    client.close()
    end = accepted.recv(1)
    slowest = max(slowest, time.monotonic() - began)
    accepted.close()
print(end, held > 10, slowest)
",
    );
    let words = words(&output);
    assert_eq!(words[..2], ["b''", "True"], "{words:?}");
    let slowest: f64 = words[2].parse().unwrap();
    assert!(slowest < 0.1, "the peer has learnt of it after {slowest} s");
}

#[test]
fn a_download_stays_held_down_whoever_has_its_descriptor() {
    if !permitted(root()) {
        return;
    }
    let output = probe(
        &["--background", "--json"],
        "
client, accepted = pair(socket.AF_INET, '127.0.0.2', here='127.0.0.3')
def receive(s, seconds):
    until = time.monotonic() + seconds
    # Less than would let the window grow.
    while time.monotonic() < until:
        accepted.sendall(bytes(500))
        s.recv(500)
        time.sleep(0.01)
receive(client, 0.5)
print(window(client))
moved = socket.socket(fileno=os.dup(client.fileno()))
client.close()
moved.setsockopt(6, 10, 1 << 29)
receive(moved, 0.5)
print(window(moved))
child = os.fork()
if child == 0:
    moved.setsockopt(6, 10, 1 << 29)
    receive(moved, 0.5)
    print(window(moved), flush=True)
    os._exit(0)
moved.close()
os.wait()
",
    );
    let words = words(&output);
    assert_eq!(words.len(), 3);
    for window in words {
        let window: u64 = window.parse().unwrap();
        // Twenty segments of loopback's, the first window of the law.
        assert!(window < 20 << 16, "{window}");
    }
    let told = told(&output);
    assert_eq!(told["connections"].as_array().unwrap().len(), 2);
    assert_eq!(told["yielded_seconds"], 0.0);
}

#[test]
fn what_is_accepted_is_held_down_too() {
    if !permitted(root()) {
        return;
    }
    let output = probe(
        &["--background"],
        "
server = socket.create_server(('127.0.0.2', 0))
client = socket.socket()
client.bind(('127.0.0.3', 0))
client.connect(server.getsockname())
accepted = server.accept()[0]
for _ in range(60):
    client.sendall(bytes(500))
    accepted.recv(500)
    time.sleep(0.01)
print(window(accepted))
",
    );
    let window: u64 = words(&output)[0].parse().unwrap();
    assert!(window < 20 << 16, "{window}");
}

#[test]
fn a_socket_that_is_held_down_keeps_a_priority_of_its_own() {
    if !permitted(root()) {
        return;
    }
    let output = probe(
        &["--background"],
        "
own, first = pair(socket.AF_INET, '127.0.0.2', lambda s: s.setsockopt(1, 12, 4), here='127.0.0.3')
other, second = pair(socket.AF_INET, '127.0.0.2', here='127.0.0.3')
priority = lambda s: s.getsockopt(1, 12)
end = time.monotonic() + 15
while priority(other) == 0 and time.monotonic() < end: time.sleep(0.01)
time.sleep(0.1)
print(priority(own), priority(other))
",
    );
    assert_eq!(words(&output), ["4", "1"]);
}

#[test]
fn a_connection_takes_a_descriptor_of_the_run_only_while_it_is_looked_at() {
    if !permitted(root()) {
        return;
    }
    // Held down until they are closed.
    let closed = probe(
        &["--background"],
        "
descriptors = lambda: len(os.listdir(f'/proc/{os.getppid()}/fd'))
before = descriptors()
for _ in range(50):
    both = pair(socket.AF_INET, '127.0.0.2', here='127.0.0.3')
    time.sleep(0.005)
    for s in both: s.close()
end = time.monotonic() + 15
while descriptors() > before + 20 and time.monotonic() < end: time.sleep(0.05)
print(descriptors() - before < 21)
",
    );
    assert_eq!(words(&closed), ["True"]);
    let open = probe(
        &["--limit", "8Mbit/s"],
        "
descriptors = lambda: len(os.listdir(f'/proc/{os.getppid()}/fd'))
before = descriptors()
pairs = [pair(socket.AF_INET, '127.0.0.1') for _ in range(50)]
end = time.monotonic() + 15
while descriptors() > before + 20 and time.monotonic() < end: time.sleep(0.05)
print(descriptors() - before < 21)
",
    );
    assert_eq!(words(&open), ["True"]);
}

/// A program that connects when it is told to by a line, and says what has come of it.
const CONNECTS: &str = "
server = socket.create_server(('127.0.0.1', 0))
print('ready', flush=True)
client, accepted = pair(socket.AF_INET, '127.0.0.1')
for line in sys.stdin:
    try:
        new, other = pair(socket.AF_INET, '127.0.0.1')
        client.sendall(b'x')
        print(accepted.recv(1), flush=True)
    except OSError as error: print(error, flush=True)
";

#[test]
fn the_command_goes_on_when_the_run_is_killed() {
    if !permitted(root()) {
        return;
    }
    in_new_network_namespace(|| {
        use std::io::Write;
        let everybody = Everybody::new();
        let program = format!("{PROBE}{WINDOW}{CONNECTS}");
        let command = ["/usr/bin/python3", "-c", &program];
        let mut command = run(&everybody, &["--background"], &command);
        let mut waiting = Waiting::start({
            command.stdin(Stdio::piped());
            command
        });
        let mut input = waiting.child.stdin.take().unwrap();
        assert_eq!(waiting.line(), "ready");
        let mut turn = |waiting: &mut Waiting| {
            input.write_all(b"\n").unwrap();
            waiting.line()
        };
        assert_eq!(turn(&mut waiting), "b'x'");
        waiting.signal(libc::SIGKILL);
        waiting.child.wait().unwrap();
        for _ in 0..3 {
            assert_eq!(turn(&mut waiting), "b'x'");
        }
        drop(input);
    });
}

#[test]
fn no_call_waits_forever_whenever_the_run_is_killed() {
    if !permitted(root()) {
        return;
    }
    in_new_network_namespace(|| {
        let everybody = Everybody::new();
        let program = format!(
            "{PROBE}{WINDOW}
print('ready', flush=True)
until = time.monotonic() + 0.6
turns = 0
while time.monotonic() < until:
    socket.socket().connect_ex(('127.0.0.1', 1))
    turns += 1
print('done', turns, flush=True)
"
        );
        let command = ["/usr/bin/python3", "-c", &program];
        for turn in 0..8 {
            let mut waiting = Waiting::start(run(&everybody, &["--background"], &command));
            assert_eq!(waiting.line(), "ready");
            thread::sleep(Duration::from_micros(100_000 + 1_300 * turn));
            waiting.signal(libc::SIGKILL);
            let line = waiting.line();
            assert!(line.starts_with("done"), "{line}");
        }
    });
}

#[test]
fn what_a_command_leaves_behind_still_connects_and_is_named() {
    if !permitted(root()) {
        return;
    }
    let (said, file) = in_new_network_namespace(|| {
        let everybody = Everybody::new();
        let folder = PathBuf::from(format!("/tmp/fairwind-left-{}", std::process::id()));
        let program = format!(
            "{PROBE}{WINDOW}
if os.fork() == 0:
    os.setsid()
    sys.stdin.close()
    for output in 1, 2: os.close(output)
    time.sleep(1)
    client, accepted = pair(socket.AF_INET, '127.0.0.1')
    open('{}', 'w').write('connected')
",
            folder.display()
        );
        let command = ["/usr/bin/python3", "-c", &program];
        let output = run(&everybody, &["--limit", "1Mbit/s"], &command).output();
        (text(&output.unwrap().stderr), folder)
    });
    assert!(said.contains("has left processes behind ("), "{said}");
    wait_until("it has connected", || {
        fs::read_to_string(&file).is_ok_and(|text| text == "connected")
    });
    fs::remove_file(file).unwrap();
}

#[test]
fn what_a_command_leaves_behind_is_no_longer_held_down() {
    if !permitted(root()) {
        return;
    }
    let text = in_new_network_namespace(|| {
        let everybody = Everybody::new();
        let file = PathBuf::from(format!("/tmp/fairwind-released-{}", std::process::id()));
        let program = format!(
            "{PROBE}{WINDOW}
client, accepted = pair(socket.AF_INET, '127.0.0.2', here='127.0.0.3')
def receive(seconds, enough=float('inf')):
    largest = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until and largest <= enough:
        accepted.sendall(bytes(500))
        client.recv(500)
        time.sleep(0.01)
        largest = max(largest, window(client))
    return largest
measured, measures = os.pipe()
child = os.fork()
if child > 0:
    os.read(measured, 1)
    os._exit(0)
os.setsid()
for output in 0, 1, 2: os.close(output)
receive(0.2)
held = receive(0.2)
os.write(measures, b'x')
open('{}', 'w').write(f'{{held}} {{receive(15, 20 << 16)}}.')
",
            file.display()
        );
        let command = ["/usr/bin/python3", "-c", &program];
        let status = run(&everybody, &["--quiet", "--background"], &command).status();
        assert!(status.unwrap().success());
        wait_until("the windows are written", || {
            fs::read_to_string(&file).is_ok_and(|text| text.ends_with('.'))
        });
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(file).unwrap();
        text
    });
    let windows = text.trim_end_matches('.').split(' ');
    let windows: Vec<u64> = windows.map(|word| word.parse().unwrap()).collect();
    assert!(
        windows[0] < 20 << 16 && windows[1] > 20 << 16,
        "{windows:?}"
    );
}

#[test]
fn many_threads_connect_at_once() {
    if !permitted(root()) {
        return;
    }
    let began = Instant::now();
    let output = probe(
        &["--control", "reno", "--json"],
        "
server = socket.create_server(('127.0.0.1', 0), backlog=4096)
def serve():
    while True: server.accept()[0].close()
threading.Thread(target=serve, daemon=True).start()
others = []
def connect():
    for _ in range(250):
        client = socket.create_connection(server.getsockname())
        if control(client) != 'reno': others.append(control(client))
        client.close()
threads = [threading.Thread(target=connect) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(others))
os._exit(0) if sys.stdout.flush() is None else 0
",
    );
    assert_eq!(words(&output), ["0"]);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    let told = told(&output);
    let connections = told["connections"].as_array().unwrap();
    let opened = connections.iter().filter(|one| one["incoming"] == false);
    assert_eq!(opened.count(), 2000);
}

#[test]
fn system_calls_of_32_bit_programs_are_seen() {
    if !permitted(root()) || !cfg!(target_arch = "x86_64") {
        return;
    }
    // `int $0x80` is i386's way, also for a program of x86-64. Without it in the kernel the child dies.
    let output = probe(
        &["--control", "reno"],
        r#"
low = mmap.mmap(-1, 8192, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
low[:20] = bytes.fromhex('5389f889f389cf89d189facd805bc3') + bytes(5)
at = ctypes.addressof(ctypes.c_char.from_buffer(low))
call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint32] * 4)(at)
child = os.fork()
if child == 0: os._exit(0 if call(20, 0, 0, 0) == os.getpid() else 1)
if os.wait()[1] != 0:
    print('none')
    sys.exit()
server = socket.create_server(('127.0.0.1', 0))
address = struct.pack('<H', 2) + struct.pack('>H', server.getsockname()[1]) + bytes([127, 0, 0, 1]) + bytes(8)
low[4096:4112] = address
first, second, third = [socket.socket() for _ in range(3)]
print(call(362, first.fileno(), at + 4096, 16), control(first))
low[4200:4212] = struct.pack('<III', second.fileno(), at + 4096, 16)
print(call(102, 3, at + 4200, 0), control(second))
low[4300:4308] = struct.pack('<II', third.fileno(), 5)
print(call(102, 4, at + 4300, 0), control(third))
"#,
    );
    let words = words(&output);
    if words == ["none"] {
        or_skip::<()>(Err("the kernel runs no 32-bit programs"));
        return;
    }
    assert_eq!(words, ["0", "reno"].repeat(3));
}

#[test]
fn a_programs_own_filter_works_beside_ours() {
    if !permitted(root()) {
        return;
    }
    let output = probe(
        &["--control", "reno"],
        "
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('at', ctypes.c_void_p)]
def filtered(instructions):
    code = b''.join(struct.pack('<HBBI', *one) for one in instructions)
    code = ctypes.create_string_buffer(code)
    program = Program(len(instructions), ctypes.addressof(code))
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, ctypes.get_errno()
# Allows all.
filtered([(6, 0, 0, 0x7fff0000)])
print(control(pair(socket.AF_INET, '127.0.0.1')[0]))
# Refuses to listen.
listen = 50 if os.uname().machine == 'x86_64' else 201
filtered([(0x20, 0, 0, 0), (0x15, 0, 1, listen), (6, 0, 0, 0x00050000 | 13), (6, 0, 0, 0x7fff0000)])
s = socket.socket()
try: s.listen()
except OSError as error: print(error.errno)
",
    );
    assert_eq!(words(&output), ["reno", "13"]);
}

#[test]
fn a_run_within_a_run_says_why_it_does_nothing() {
    if !permitted(root()) {
        return;
    }
    let everybody = Everybody::new();
    let inner = everybody.program();
    let inner = inner.to_str().unwrap();
    let command = [
        inner,
        "run",
        "--agent",
        "/nonexistent",
        "--limit",
        "1Mbit/s",
        "--",
        "true",
    ];
    let output = run(&everybody, &["--limit", "1Mbit/s"], &command)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("in the care of another one already"),
        "{said}"
    );
}

#[test]
fn who_cannot_be_given_anything_goes_on_and_is_told() {
    if !permitted(root()) {
        return;
    }
    let output = probe(
        &["--limit", "1Mbit/s", "--json"],
        "
server = socket.create_server(('127.0.0.1', 0))
try:
    multipath = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    multipath.connect(server.getsockname())
    print('multipath')
except OSError: print('none')
# io_uring_setup, with wrong arguments.
libc.syscall(425, 0, 0)
child = os.fork()
if child == 0:
    libc.prctl(4, 0)
    client = socket.create_connection(server.getsockname())
    os._exit(0 if client.getsockopt(1, 47) != 125000 else 1)
print(os.wait()[1])
",
    );
    let words = words(&output);
    assert_eq!(words[1], "0");
    let left_out = told(&output)["left_out"].to_string();
    assert!(
        left_out.contains("let nobody take their sockets: python3"),
        "{left_out}"
    );
    assert!(left_out.contains("io_uring"), "{left_out}");
    assert_eq!(
        left_out.contains("Multipath TCP: 1"),
        words[0] == "multipath"
    );
}

#[test]
fn datagrams_and_local_sockets_work_as_without() {
    if !permitted(root()) {
        return;
    }
    let output = probe(
        &["--background"],
        "
one, two = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind(('127.0.0.1', 0))
two.connect(one.getsockname())
two.send(b'datagram')
print(one.recv(100).decode())
server = socket.socket(socket.AF_UNIX)
server.bind('\\0fairwind-test')
server.listen()
client = socket.socket(socket.AF_UNIX)
client.connect('\\0fairwind-test')
client.send(b'stream')
print(server.accept()[0].recv(100).decode())
try: os.fdopen(os.dup(0)); libc.connect(999, 0, 0); print(ctypes.get_errno())
except OSError as error: print(error)
",
    );
    let bad = libc::EBADF.to_string();
    assert_eq!(words(&output), ["datagram", "stream", bad.as_str()]);
    assert!(text(&output.stderr).contains("fairwind: 0 connections"));
}

#[test]
fn curl_and_iperf3_work_both_ways() {
    if !permitted(root()) {
        return;
    }
    in_new_network_namespace(|| {
        let everybody = Everybody::new();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), vec![7; 5_000_000]).unwrap();
        let python = "import http.server as h; s = h.ThreadingHTTPServer(('127.0.0.1', 8080), \
                      h.SimpleHTTPRequestHandler); print('ready', flush=True); s.serve_forever()";
        let mut server = Command::new("/usr/bin/python3");
        server
            .args(["-c", python])
            .current_dir(folder.path())
            .stderr(Stdio::null());
        let mut server = Waiting::start(server);
        assert_eq!(server.line(), "ready");
        let curl = ["curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}"];
        let curl = [&curl[..], &["http://127.0.0.1:8080/file"]].concat();
        let output = run(&everybody, &["--background", "--json"], &curl)
            .output()
            .unwrap();
        assert_eq!(words(&output), ["5000000"]);
        let told_of = told(&output);
        let one = &told_of["connections"][0];
        assert!(
            one["bytes_received"].as_u64().unwrap() > 5_000_000,
            "{told_of:#}"
        );
        assert_eq!(one["program"], "curl");

        // The server in the run, and the client; one at a time.
        for is_server in [true, false] {
            let port = if is_server { "5301" } else { "5302" };
            let serve = ["iperf3", "-s", "-1", "-p", port];
            let options = ["--limit", "80Mbit/s", "--json"];
            let mut serve = if is_server {
                run(&everybody, &options, &serve)
            } else {
                let mut plain = Command::new(serve[0]);
                plain.args(&serve[1..]);
                plain
            };
            let serving = serve
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let listens = || {
                let table = fs::read_to_string("/proc/thread-self/net/tcp6").unwrap();
                let port = format!(":{:04X} ", port.parse::<u16>().unwrap());
                table.contains(&port)
            };
            wait_until("iperf3 listens", listens);
            let mut ask = vec!["iperf3", "-c", "127.0.0.1", "-p", port, "-t", "1"];
            // The one in the run sends.
            ask.extend(is_server.then_some("-R"));
            let asked = if is_server {
                Command::new(ask[0]).args(&ask[1..]).output().unwrap()
            } else {
                run(&everybody, &options, &ask).output().unwrap()
            };
            assert!(asked.status.success(), "{}", text(&asked.stderr));
            let served = serving.wait_with_output().unwrap();
            let told = told(if is_server { &served } else { &asked });
            let connections = told["connections"].as_array().unwrap();
            assert_eq!(connections.len(), 2, "{told:#}");
            let sent = connections
                .iter()
                .map(|one| one["bytes_sent"].as_u64().unwrap());
            let sent = sent.max().unwrap();
            // 10 MB and what is beyond the second; without the limit it would be gigabytes.
            assert!((5_000_000..30_000_000).contains(&sent), "{told:#}");
        }
    });
}

#[test]
fn a_download_in_the_background_leaves_others_what_they_would_have_without_it() {
    let Some(_turn) = in_the_lab() else { return };
    let everybody = Everybody::new();
    let program = everybody.program();
    let curl = "curl -s -o /dev/null ftp://$PEER:2121/endless";
    let other = format!(
        "exec setpriv --reuid 65534 --regid 65534 --clear-groups {} run --agent /nonexistent --quiet --background -- {curl}",
        program.display()
    );
    Cubic::alone(true).keeps(0.9, &other);
}
