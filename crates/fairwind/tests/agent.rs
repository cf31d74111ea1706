//! `fairwind agent` as an operator meets it: on control groups and network namespaces of the tests' own.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_cc::kernel::{check_requirements, load_as};
use fairwind_cc::native;
use fairwind_testing::advisor::{Reply, TestAdvisor, advice};
use fairwind_testing::{in_new_network_namespace, permitted, root, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::everybody::Everybody;
use crate::mounted::Mounted;
use crate::serve_operator::Manager;
use crate::turn::in_the_lab;

const FAIRWIND: &str = env!("CARGO_BIN_EXE_fairwind");

/// Reads expressions line by line, and answers each with a line.
const PROGRAM: &str = r#"
import os, socket, sys
def control(s): return s.getsockopt(6, 13, 16).split(b'\0')[0].decode()
def choose(s, name): s.setsockopt(6, 13, name)
def attempt(s, name):
    try: choose(s, name)
    except OSError: pass
def listen(address='127.0.0.1', port=7000, family=socket.AF_INET):
    return socket.create_server((address, port), family=family, dualstack_ipv6=address == '::')
def pair(server, address=None, prepare=lambda s: None):
    client = socket.socket(server.family)
    prepare(client)
    client.connect(address or server.getsockname()[:2])
    return client, server.accept()[0]
def move(pair, bytes):
    while bytes > 0:
        pair[0].sendall(b'x' * 50000)
        left = 50000
        while left > 0: left -= len(pair[1].recv(left))
        bytes -= 50000
kept = {}
for line in sys.stdin:
    try: print(eval(line), flush=True)
    except Exception as error: print('error:', error, flush=True)
"#;

fn may_run() -> bool {
    permitted(check_requirements()) && permitted(root())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A control group, and a folder for the files of an agent that takes care of it.
struct Host {
    group: PathBuf,
    folder: TempDir,
}

impl Host {
    fn new() -> Host {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let root = fairwind_kernel::mounted("cgroup2").unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let group = root.join(format!("fairwind-test-{}-{number}", std::process::id()));
        fs::create_dir(&group).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        Host { group, folder }
    }

    fn policy(&self, text: &str) {
        fs::write(self.folder.path().join("agent.toml"), text).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// The command that starts the agent with more options.
    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(FAIRWIND);
        let policy = self.folder.path().join("agent.toml");
        command.arg("agent").arg("--policy").arg(policy);
        command.arg("--control-group").arg(&self.group);
        command.arg("--socket").arg(self.socket()).args(options);
        command
    }

    /// Starts an agent, and waits until it can be asked.
    fn agent(&self, options: &[&str]) -> Agent {
        Agent::start(self.command(options))
    }

    fn ask(&self, what: &[&str]) -> Output {
        let mut command = Command::new(FAIRWIND);
        command
            .arg("agent")
            .args(what)
            .arg("--socket")
            .arg(self.socket());
        command.output().unwrap()
    }

    fn status(&self) -> Value {
        let output = self.ask(&["status", "--live", "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A program in the control group, or in one below it, in a network namespace of its own.
    fn program_in(&self, below: &str) -> Program {
        let group = self.group.join(below);
        fs::create_dir_all(&group).unwrap();
        let procs = group.join("cgroup.procs");
        in_new_network_namespace(move || {
            let enter = format!(
                "echo 0 > {}; exec /usr/bin/python3 -c \"$1\"",
                procs.display()
            );
            let mut child = Command::new("/bin/sh")
                .args(["-c", &enter, "sh", PROGRAM])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            Program {
                input: child.stdin.take().unwrap(),
                output: BufReader::new(child.stdout.take().unwrap()),
                child,
            }
        })
    }

    fn program(&self) -> Program {
        self.program_in("")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let below = fs::read_dir(&self.group).into_iter().flatten().flatten();
        for entry in below.filter(|entry| entry.path().is_dir()) {
            let _ = fs::remove_dir(entry.path());
        }
        // Its last process may not have been buried yet.
        let gone = || fs::remove_dir(&self.group).is_ok() || !self.group.exists();
        fairwind_testing::eventually(gone);
    }
}

struct Agent {
    child: Child,
}

impl Agent {
    fn start(mut command: Command) -> Agent {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        assert!(said.starts_with("asked by "), "{said}");
        Agent { child }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.signal(libc::SIGTERM);
        let _ = self.child.wait();
    }
}

struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// What an expression is.
    #[track_caller]
    fn eval(&mut self, expression: &str) -> String {
        writeln!(self.input, "{expression}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let line = line.trim_end().to_owned();
        assert!(!line.starts_with("error:"), "{expression}: {line}");
        line
    }

    /// Calls it what the expression is.
    #[track_caller]
    fn keep(&mut self, name: &str, expression: &str) {
        self.eval(&format!("kept.update({name}=({expression}))"));
    }

    /// The controls of both ends of a pair.
    #[track_caller]
    fn controls(&mut self, pair: &str) -> [String; 2] {
        let said = self.eval(&format!("' '.join(control(s) for s in kept['{pair}'])"));
        let (client, server) = said.split_once(' ').unwrap();
        [client.to_owned(), server.to_owned()]
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const RENO_OUT: &str = "
[[rule]]
name = \"out\"
congestion_control = \"reno\"
limit = \"80Mbit/s\"
lower_effort = true
match = { direction = \"out\", remote_ports = [7000] }
";

#[test]
fn connections_get_what_the_first_rule_says_from_their_beginning_and_get_it_back() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    let mut program = host.program();
    program.keep("server", "listen()");
    program.keep("before", "pair(kept['server'])");
    let [standard, _] = program.controls("before");
    assert_ne!(standard, "reno");
    host.policy(RENO_OUT);
    let _agent = host.agent(&[]);
    // Both what was there and what comes.
    program.keep("after", "pair(kept['server'])");
    for pair in ["before", "after"] {
        assert_eq!(
            program.controls(pair),
            ["reno", standard.as_str()],
            "{pair}"
        );
        let class = format!("kept['{pair}'][0].getsockopt(socket.IPPROTO_IP, socket.IP_TOS)");
        assert_eq!(program.eval(&class), "4");
        let limit = format!("kept['{pair}'][0].getsockopt(socket.SOL_SOCKET, 47)");
        assert_eq!(program.eval(&limit), "10000000");
    }
    let status = host.status();
    assert_eq!(status["rules"][0]["connections"], 2);
    assert_eq!(status["rules"][0]["given"], 2);
    let connections = status["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 4);
    let out = |one: &&Value| one["incoming"] == false;
    for one in connections.iter().filter(out) {
        assert_eq!(one["rule"], "out");
        assert_eq!(one["program"], "python3");
        assert_eq!(one["before"]["congestion_control"], standard.as_str());
        assert_eq!(one["why"]["gave_limit"], true);
    }

    let undone = host.ask(&["undo"]);
    assert!(undone.status.success(), "{}", text(&undone.stderr));
    for pair in ["before", "after"] {
        assert_eq!(program.controls(pair), [standard.as_str(); 2], "{pair}");
        let class = format!("kept['{pair}'][0].getsockopt(socket.IPPROTO_IP, socket.IP_TOS)");
        assert_eq!(program.eval(&class), "0");
    }
    program.keep("undone", "pair(kept['server'])");
    assert_eq!(program.controls("undone"), [standard.as_str(); 2]);
    assert!(host.ask(&["reload"]).status.success());
    assert_eq!(program.controls("undone"), ["reno", standard.as_str()]);
}

#[test]
fn the_service_manager_is_told_when_the_agent_can_be_asked_and_when_it_ends() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(RENO_OUT);
    let notify = host.folder.path().join("notify");
    let mut manager = Manager::at(&notify);
    let mut command = host.command(&[]);
    command.env("NOTIFY_SOCKET", &notify);
    let agent = Agent::start(command);
    manager.hears("READY=1");
    agent.signal(libc::SIGTERM);
    manager.hears("STOPPING=1");
}

#[test]
fn addresses_of_either_family_units_users_and_listeners_are_told_apart() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(&format!(
        "
        [[rule]]
        name = \"mapped\"
        congestion_control = \"cubic\"
        match = {{ remote = [\"127.0.0.0/8\"], remote_ports = [7001] }}
        [[rule]]
        name = \"six\"
        congestion_control = \"reno\"
        match = {{ remote = [\"::1\"], direction = \"out\" }}
        [[rule]]
        name = \"unit\"
        congestion_control = \"reno\"
        match = {{ units = [\"backup.service\"], users = [0], programs = [\"python3\"], remote_ports = [7000] }}
        [[rule]]
        name = \"group\"
        congestion_control = \"cubic\"
        match = {{ control_groups = [\"/{}/other.service\"], local_ports = [\"6999-7000\"], direction = \"in\" }}
        ",
        host.group.file_name().unwrap().to_str().unwrap()
    ));
    let _agent = host.agent(&[]);
    let standard = {
        let mut program = host.program();
        program.keep("server", "listen()");
        program.keep("pair", "pair(kept['server'])");
        program.controls("pair")[0].clone()
    };
    for (below, expected) in [
        ("backup.service", ["reno", &standard]),
        ("other.service", [&standard, "cubic"]),
    ] {
        let mut program = host.program_in(below);
        program.keep("server", "listen()");
        program.keep("pair", "pair(kept['server'])");
        assert_eq!(program.controls("pair"), expected, "{below}");
    }
    let mut program = host.program_in("backup.service");
    program.keep("six", "listen('::1', 7000, socket.AF_INET6)");
    program.keep("pair", "pair(kept['six'])");
    assert_eq!(program.controls("pair")[0], "reno");
    program.keep("any", "listen('::', 7001, socket.AF_INET6)");
    program.keep("mapped", "pair(kept['any'], ('::ffff:127.0.0.1', 7001))");
    assert_eq!(program.controls("mapped")[0], "cubic");
}

#[test]
fn a_mark_that_packets_do_not_have_is_not_told() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(
        "[[rule]]\nname = \"marked\"\nlower_effort = true\nmatch = { direction = \"out\" }\n",
    );
    let _agent = host.agent(&[]);
    let mut program = host.program();
    program.keep("server", "listen('::', 7001, socket.AF_INET6)");
    program.keep("mapped", "pair(kept['server'], ('::ffff:127.0.0.1', 7001))");
    let status = host.status();
    let connections = status["connections"].as_array().unwrap();
    let out = connections.iter().find(|one| one["rule"] == "marked");
    let out = out.unwrap();
    assert_eq!(out["why"]["gave_mark"], false, "{status}");
    assert_eq!(out["before"]["traffic_class"], Value::Null);

    program.keep("six", "pair(kept['server'], ('::1', 7001))");
    let status = host.status();
    let connections = status["connections"].as_array().unwrap().iter();
    let marked = connections.filter(|one| one["why"]["gave_mark"] == true);
    let remote: Vec<&Value> = marked.map(|one| &one["remote"]).collect();
    assert_eq!(remote, ["[::1]:7001"]);
}

#[test]
fn mptcp_is_left_alone_with_a_word() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy("[[rule]]\nname = \"all\"\ncongestion_control = \"reno\"\n");
    let _agent = host.agent(&[]);
    let mut program = host.program();
    let mptcp = "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)";
    if program.eval("os.path.exists('/proc/sys/net/mptcp')") != "True" {
        // A kernel without it has nothing to leave alone.
        return;
    }
    program.keep("server", mptcp);
    program.eval("kept['server'].bind(('127.0.0.1', 7000))");
    program.eval("kept['server'].listen()");
    program.keep("client", mptcp);
    program.eval("kept['client'].connect(('127.0.0.1', 7000))");
    program.keep("peer", "kept['server'].accept()[0]");
    program.eval("kept['client'].send(b'x')");
    program.eval("kept['peer'].recv(1)");
    let said = text(&host.ask(&["status", "--live"]).stdout);
    assert!(said.contains("nothing: mptcp is on top"), "{said}");
    let status = host.status();
    assert_eq!(status["rules"][0]["left_alone"], 2, "{status}");
    assert_eq!(status["rules"][0]["given"], 0);
}

#[test]
fn a_connection_meets_a_rule_when_it_has_moved_enough_or_is_old_enough() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(
        "
        [[rule]]
        name = \"large\"
        congestion_control = \"reno\"
        match = { direction = \"in\", bytes = \"1MB\" }
        [[rule]]
        name = \"old\"
        congestion_control = \"cubic\"
        match = { direction = \"out\", age = \"5s\" }
        ",
    );
    let _agent = host.agent(&[]);
    let mut program = host.program();
    program.keep("server", "listen()");
    program.keep("pair", "pair(kept['server'])");
    let began = Instant::now();
    let before = program.controls("pair");
    program.eval("move(kept['pair'], 1100000)");
    wait_until("the large one is switched", || {
        program.controls("pair")[1] == "reno"
    });
    wait_until("the old one is switched", || {
        program.controls("pair")[0] == "cubic"
    });
    assert!(began.elapsed() > Duration::from_secs(5));
    assert!(!before.contains(&"reno".to_owned()) && !before.contains(&"cubic".to_owned()));
}

#[test]
fn a_program_keeps_what_it_chooses_unless_the_rule_says_otherwise() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    let rule = |force: bool| {
        format!(
            "[[rule]]\nname = \"out\"\ncongestion_control = \"reno\"\nforce = {force}\nmatch = {{ direction = \"out\" }}"
        )
    };
    host.policy(&rule(false));
    let _agent = host.agent(&[]);
    let mut program = host.program();
    program.keep("server", "listen()");
    program.keep(
        "chosen",
        "pair(kept['server'], None, lambda s: choose(s, b'cubic'))",
    );
    assert_eq!(program.controls("chosen")[0], "cubic");
    program.keep("later", "pair(kept['server'])");
    assert_eq!(program.controls("later")[0], "reno");
    program.eval("choose(kept['later'][0], b'cubic')");
    assert_eq!(program.controls("later")[0], "cubic");
    let status = host.status();
    assert_eq!(status["rules"][0]["own"], 1);
    let kept = status["connections"].as_array().unwrap().iter();
    assert_eq!(kept.filter(|one| one["why"]["kept_own"] == true).count(), 2);
    // What the kernel refuses is no choice, neither before nor later.
    program.keep(
        "refused",
        "pair(kept['server'], None, lambda s: attempt(s, b'no-such'))",
    );
    assert_eq!(program.controls("refused")[0], "reno");
    program.eval("attempt(kept['refused'][0], b'no-such')");
    let status = host.status();
    assert_eq!(status["rules"][0]["own"], 1);
    let kept = status["connections"].as_array().unwrap().iter();
    assert_eq!(kept.filter(|one| one["why"]["kept_own"] == true).count(), 2);

    host.policy(&rule(true));
    assert!(host.ask(&["reload"]).status.success());
    assert_eq!(program.controls("chosen")[0], "reno");
    assert_eq!(program.controls("later")[0], "reno");
    program.eval("choose(kept['later'][0], b'cubic')");
    assert_eq!(program.controls("later")[0], "reno");
    assert_eq!(host.status()["rules"][0]["ignored"], 1);
}

#[test]
fn a_dry_run_changes_nothing_and_tells() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(RENO_OUT);
    let _agent = host.agent(&["--dry-run"]);
    let mut program = host.program();
    program.keep("server", "listen()");
    program.keep("pair", "pair(kept['server'])");
    assert_ne!(program.controls("pair")[0], "reno");
    let status = host.status();
    assert_eq!(status["dry_run"], true);
    assert_eq!(status["rules"][0]["connections"], 1);
    assert_eq!(status["rules"][0]["given"], 0);
    let connections = status["connections"].as_array().unwrap();
    let met = connections.iter().find(|one| one["rule"] == "out").unwrap();
    assert_eq!(met["why"]["only_told"], true);
    let said = text(&host.ask(&["status", "--live"]).stdout);
    assert!(said.contains("a dry run"), "{said}");
}

#[test]
fn a_policy_with_a_mistake_changes_nothing_and_names_line_and_key() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy("[[rule]]\nname = \"a\"\nlimt = \"1Mbit/s\"\n");
    let output = host.command(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("agent.toml:3:") && said.contains("limit"),
        "{said}"
    );

    host.policy(RENO_OUT);
    let agent = host.agent(&[]);
    host.policy("[[rule]]\nname = \"a\"\ncongestion_control = \"cubik\"\n");
    let output = host.ask(&["reload"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("agent.toml:3:") && said.contains("cubic"),
        "{said}"
    );
    agent.signal(libc::SIGHUP);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(host.status()["rules"][0]["name"], "out");
    host.policy("");
    agent.signal(libc::SIGHUP);
    wait_until("the policy is read anew", || {
        host.status()["rules"].as_array().unwrap().is_empty()
    });
}

#[test]
fn a_folder_that_is_no_control_group_is_refused() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(RENO_OUT);
    let mut command = Command::new(FAIRWIND);
    command
        .args(["agent", "--policy"])
        .arg(host.folder.path().join("agent.toml"));
    command.arg("--control-group").arg(host.folder.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("no control group of version 2"), "{said}");
}

#[test]
fn there_is_one_agent_for_a_control_group() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(RENO_OUT);
    let _agent = host.agent(&[]);
    let output = host.command(&[]).output();
    let said = text(&output.unwrap().stderr);
    assert!(said.contains("already"), "{said}");
}

#[test]
fn what_a_killed_agent_has_left_is_taken_over_or_given_back() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(RENO_OUT);
    let mounted = Mounted::new();
    let there = |command: Command| mounted.inside(&command);
    let killed = |agent: &mut Agent| {
        agent.signal(libc::SIGKILL);
        agent.child.wait().unwrap();
    };
    let mut program = host.program();
    program.keep("server", "listen()");
    let mut agent = Agent::start(there(host.command(&[])));
    program.keep("pair", "pair(kept['server'])");
    killed(&mut agent);
    assert_eq!(program.controls("pair")[0], "reno");
    program.keep("meanwhile", "pair(kept['server'])");
    let [standard, _] = program.controls("meanwhile");
    assert_ne!(standard, "reno");

    let mut agent = Agent::start(there(host.command(&[])));
    assert_eq!(program.controls("meanwhile")[0], "reno");
    let status = host.status();
    let connections = status["connections"].as_array().unwrap().iter();
    let given: Vec<_> = connections.filter(|one| one["rule"] == "out").collect();
    assert_eq!(given.len(), 2);
    for one in given {
        assert_eq!(one["before"]["congestion_control"], standard.as_str());
    }
    killed(&mut agent);
    let mut undo = Command::new(FAIRWIND);
    undo.args(["agent", "undo", "--socket"]).arg(host.socket());
    undo.arg("--control-group").arg(&host.group);
    let said = text(&there(undo).output().unwrap().stdout);
    assert!(said.contains("has been given back"), "{said}");
    assert_eq!(program.controls("pair")[0], standard);
    assert_eq!(program.controls("meanwhile")[0], standard);
}

#[test]
fn where_nothing_can_be_kept_for_the_next_agent_the_status_says_why() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(RENO_OUT);
    let read_only = "umount -a -t bpf; mount -t bpf -o ro bpf /sys/fs/bpf";
    let mounted = Mounted::by(&["--mount"], read_only);
    let _agent = Agent::start(mounted.inside(&host.command(&[])));
    let status = host.status();
    assert_eq!(status["survives"], false);
    let said = text(&host.ask(&["status"]).stdout);
    let why = "no BPF file system can be written to: /sys/fs/bpf: Read-only file system";
    assert!(said.contains(why), "{said}");
    assert!(status["not_kept"].as_str().unwrap().starts_with(why));
}

#[test]
fn a_control_may_be_unloaded_beneath_the_agent_and_loaded_again() {
    if !may_run() {
        return;
    }
    let name = format!("fw_beneath_{:04x}", std::process::id() & 0xffff);
    let parameters = native::find("sfsack").unwrap().default_parameters();
    let loaded = load_as(&parameters, &name).unwrap();
    let host = Host::new();
    host.policy(&format!(
        "[[rule]]\nname = \"a\"\ncongestion_control = \"kernel:{name}\"\n"
    ));
    let _agent = host.agent(&[]);
    let mut program = host.program();
    program.keep("server", "listen()");
    program.keep("pair", "pair(kept['server'])");
    assert_eq!(program.controls("pair")[0], name);

    drop(loaded);
    program.keep("without", "pair(kept['server'])");
    assert_ne!(program.controls("without")[0], name);
    assert_eq!(program.controls("pair")[0], name);
    program.eval("move(kept['pair'], 100000)");
    assert_eq!(host.status()["rules"][0]["refused"], 2);

    let _loaded = load_as(&parameters, &name).unwrap();
    program.keep("after", "pair(kept['server'])");
    assert_eq!(program.controls("after")[0], name);
    wait_until("the others follow", || {
        program.controls("without")[0] == name
    });
}

#[test]
fn who_may_ask_and_who_may_change() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(RENO_OUT);
    let everybody = Everybody::new();
    let ask = |what: &str| {
        let mut command = everybody.command();
        command.args(["agent", what, "--socket"]).arg(host.socket());
        command.output().unwrap()
    };
    {
        let _agent = host.agent(&[]);
        let said = text(&ask("status").stderr);
        assert!(said.contains("Permission denied"), "{said}");
    }
    let _agent = host.agent(&["--socket-group", "nogroup"]);
    let status = ask("status");
    assert!(status.status.success(), "{}", text(&status.stderr));
    for change in ["undo", "reload"] {
        let refused = ask(change);
        assert_eq!(refused.status.code(), Some(1));
        let said = text(&refused.stderr);
        assert!(said.contains("only root"), "{said}");
    }
    assert_eq!(host.status()["undone"], false);

    let none = host.command(&["--socket-group", "no-such-group"]).output();
    let said = text(&none.unwrap().stderr);
    assert!(
        said.contains("no-such-group") || said.contains("already"),
        "{said}"
    );
}

#[test]
fn without_rights_the_message_names_them() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(RENO_OUT);
    let everybody = Everybody::new();
    let mut command = everybody.command();
    command.args(["agent", "--policy"]);
    command.arg(host.folder.path().join("agent.toml"));
    let mut undo = everybody.command();
    undo.args(["agent", "undo", "--socket"]).arg(host.socket());
    for mut command in [command, undo] {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains("CAP_BPF") && said.contains("root"), "{said}");
    }
}

#[test]
fn no_member_of_the_group_keeps_root_out() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(RENO_OUT);
    let _agent = host.agent(&["--socket-group", "nogroup"]);
    let flood = "
import socket, sys, time
kept = []
for _ in range(200):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    kept.append(s)
    try: s.sendall(b'GET ')
    except OSError: pass
print(kept[-1].recv(4096).split(b'\\r')[0].decode(), flush=True)
time.sleep(100)
";
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", flood]).arg(host.socket());
    command.uid(65_534).gid(65_534).stdout(Stdio::piped());
    let mut flood = command.spawn().unwrap();
    let mut said = String::new();
    let mut output = BufReader::new(flood.stdout.take().unwrap());
    output.read_line(&mut said).unwrap();
    assert_eq!(said, "HTTP/1.1 503 Service Unavailable\n");
    let began = Instant::now();
    for what in ["status", "undo", "reload"] {
        let output = host.ask(&[what]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    // A place of the others' becomes free every five seconds.
    assert!(began.elapsed() < Duration::from_secs(4));
    flood.kill().unwrap();
    flood.wait().unwrap();
}

/// Lets a process have so many descriptors. The hard limit stays.
fn let_have_descriptors(process: u32, descriptors: u64) {
    let mut command = Command::new("prlimit");
    command.args(["--pid", &process.to_string()]);
    command.arg(format!("--nofile={descriptors}:"));
    assert!(command.status().unwrap().success());
}

#[test]
fn an_agent_without_free_descriptors_goes_on_when_there_are_some() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy("[[rule]]\nname = \"later\"\nlimit = \"1Gbit/s\"\nmatch = { age = \"1h\" }\n");
    let mut agent = host.agent(&[]);
    let_have_descriptors(agent.child.id(), 10);
    // There is a pass each second.
    thread::sleep(Duration::from_millis(2500));
    assert!(agent.child.try_wait().unwrap().is_none());
    let_have_descriptors(agent.child.id(), 1024);
    assert_eq!(host.status()["rules"][0]["name"], "later");
    let said = text(&host.ask(&["reload"]).stdout);
    assert!(said.ends_with("agent.toml: 1 rule\n"), "{said}");
}

#[test]
fn a_run_for_which_too_few_descriptors_are_left_is_refused() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy("");
    let agent = host.agent(&["--socket-group", "nogroup"]);
    let everybody = Everybody::new();
    let run = || {
        let mut command = everybody.command();
        command.args(["run", "--agent"]).arg(host.socket());
        command.args(["--limit", "1Gbit/s", "--", "true"]);
        command.output().unwrap()
    };
    // For the agent itself more than 350 are left.
    let_have_descriptors(agent.child.id(), 350);
    let refused = run();
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("too few descriptors are left"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let_have_descriptors(agent.child.id(), 1024);
    assert!(run().status.success());
}

/// Receives what the peer sends, and prints what comes, Mbit/s: alone, then twice beside a download of iperf3's, between
/// which there is time to kill the agent.
const DOWNLOAD: &str = "
import socket, subprocess, sys, time
while True:
    try: stream = socket.create_connection((sys.argv[1], 9000)); break
    except OSError: time.sleep(0.1)
stream.settimeout(20)
def receive(seconds):
    began, came = time.monotonic(), 0
    while time.monotonic() < began + seconds: came += len(stream.recv(1 << 16))
    return came * 8e-6 / (time.monotonic() - began)
receive(2)
print(receive(2), flush=True)
subprocess.Popen([\"iperf3\", \"-c\", sys.argv[1], \"-R\", \"-t\", \"20\"], stdout=subprocess.DEVNULL)
receive(3)
print(receive(3), flush=True)
receive(3)
print(receive(4), flush=True)
";

const UPLOAD: &str = "
import socket
server = socket.create_server((\"0.0.0.0\", 9000))
stream, _ = server.accept()
try:
    while True: stream.sendall(bytes(1 << 16))
except OSError: pass
";

#[test]
fn downloads_are_held_down_and_let_go_when_the_agent_is_killed() {
    let Some(_turn) = in_the_lab() else { return };
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(
        "[[rule]]\nname = \"a\"\nbackground = true\nmatch = { programs = [\"python3\"] }\n",
    );
    let mounted = Mounted::new();
    let mut agent = Agent::start(mounted.inside(&host.command(&[])));
    let procs = host.group.join("cgroup.procs");
    let download = format!(
        "echo 0 > {}; exec /usr/bin/python3 -c '{DOWNLOAD}' $1",
        procs.display()
    );
    let mut lab = Command::new(FAIRWIND)
        .args([
            "lab",
            "exec",
            "--bandwidth",
            "50Mbit/s",
            "--delay",
            "10ms",
            "--queue",
            "83pkt",
        ])
        .args(["--congestion-control", "cubic", "--server"])
        .arg(format!(
            "iperf3 -s > /dev/null & /usr/bin/python3 -c '{UPLOAD}'"
        ))
        .args(["--", "sh", "-c", &download, "sh", "{peer}"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the download has begun", || {
        host.status()["connections"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["held"] == true)
    });
    let mut lines = BufReader::new(lab.stdout.take().unwrap()).lines();
    let mut rate = || -> f64 { lines.next().unwrap().unwrap().parse().unwrap() };
    let [alone, held] = [rate(), rate()];
    agent.signal(libc::SIGKILL);
    agent.child.wait().unwrap();
    let after = rate();
    assert!(lab.wait().unwrap().success());
    assert!(alone > 30.0, "{alone} Mbit/s alone");
    assert!(held < 12.0, "{held} Mbit/s beside Cubic");
    assert!(
        after > 2.0 * held,
        "{after} Mbit/s after the agent was killed, {held} before"
    );
}

/// An advisor whose path to a loopback address has its transfers in the background.
struct Advising {
    child: Child,
    url: String,
    _folder: TempDir,
}

impl Advising {
    fn new() -> Advising {
        Advising::with(&[])
    }

    fn with(options: &[&str]) -> Advising {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("advisor.toml");
        let path = "[[path]]\nname = \"a\"\nhosts = [\"127.0.0.1\"]\nmode = \"background\"\n";
        fs::write(&config, path).unwrap();
        let mut child = Command::new(FAIRWIND)
            .args(["advisor", "--listen", "127.0.0.1:0", "--config"])
            .arg(&config)
            .arg("--state")
            .arg(folder.path().join("state"))
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(child.stderr.take().unwrap());
        output.read_line(&mut said).unwrap();
        let url = said.split_whitespace().last().unwrap().to_owned();
        assert!(url.starts_with("http://"), "{said}");
        Advising {
            child,
            url,
            _folder: folder,
        }
    }
}

impl Drop for Advising {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn rules_follow_the_advisor() {
    if !may_run() {
        return;
    }
    let advising = Advising::new();
    let host = Host::new();
    host.policy(&format!(
        "advisor = \"{}\"\n[[rule]]\nname = \"all\"\nadvised = true\ncongestion_control = \"reno\"\n\
         match = {{ direction = \"out\" }}\n",
        advising.url
    ));
    let _agent = host.agent(&[]);
    let mut program = host.program();
    program.keep("server", "listen()");
    let elsewhere = "lambda s: s.bind(('127.0.0.2', 0))";
    // The host with itself, and a peer.
    program.keep("own", "pair(kept['server'])");
    program.keep("first", &format!("pair(kept['server'], None, {elsewhere})"));
    wait_until("the advice is followed", || {
        program.controls("first")[0].starts_with("fw_fairwin")
    });
    // Known from the beginning.
    program.keep(
        "second",
        &format!("pair(kept['server'], None, {elsewhere})"),
    );
    assert!(program.controls("second")[0].starts_with("fw_fairwin"));
    assert_eq!(program.controls("own")[0], "reno");
    let status = host.status();
    let connections = status["connections"].as_array().unwrap().iter();
    assert_eq!(connections.filter(|one| one["advised"] == true).count(), 2);
    assert!(host.ask(&["undo"]).status.success());
    assert!(!program.controls("first")[0].starts_with("fw_"));
}

#[test]
fn the_advisor_is_asked_with_the_token_of_the_environment() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    let tokens = host.folder.path().join("tokens");
    fs::write(&tokens, "read 0123456789abcdef\n").unwrap();
    fs::set_permissions(&tokens, Permissions::from_mode(0o600)).unwrap();
    let advising = Advising::with(&["--tokens", tokens.to_str().unwrap()]);
    host.policy(&format!(
        "advisor = \"{}\"\n[[rule]]\nname = \"all\"\nadvised = true\nmatch = {{ direction = \"out\" }}\n",
        advising.url
    ));
    let mut command = host.command(&[]);
    command.env("FAIRWIND_ADVISOR_TOKEN", "0123456789abcdef");
    let _agent = Agent::start(command);
    let mut program = host.program();
    program.keep("server", "listen()");
    let elsewhere = "lambda s: s.bind(('127.0.0.2', 0))";
    program.keep("first", &format!("pair(kept['server'], None, {elsewhere})"));
    wait_until("the advice is followed", || {
        program.controls("first")[0].starts_with("fw_fairwin")
    });
}

#[test]
fn one_answer_is_for_all_peers_of_its_prefix() {
    if !may_run() {
        return;
    }
    let answer = |prefix: &str| {
        let cubic = json!({"congestion_control": "fw_cubic", "prefix": prefix});
        Reply::Advice(advice(600.0, cubic))
    };
    // Another path's, which does not have the peer.
    let replies = vec![answer("192.0.2.0/24"), answer("127.0.0.0/16")];
    let advisor = TestAdvisor::answering(replies);
    let host = Host::new();
    host.policy(&format!(
        "advisor = \"{}\"\n[[rule]]\nname = \"all\"\nadvised = true\ncongestion_control = \"reno\"\n\
         match = {{ direction = \"out\" }}\n",
        advisor.url()
    ));
    let _agent = host.agent(&[]);
    let mut program = host.program();
    let listen = |address: &str| format!("listen('{address}')");
    let pair =
        |server: &str| format!("pair(kept['{server}'], None, lambda s: s.bind(('127.9.0.1', 0)))");
    program.keep("one", &listen("127.0.0.1"));
    program.keep("two", &listen("127.0.7.2"));
    program.keep("far", &listen("127.1.0.1"));
    program.keep("first", &pair("one"));
    wait_until("the advisor is asked", || advisor.asked().len() == 1);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(program.controls("first")[0], "reno", "that is no answer");
    wait_until("the advice is followed", || {
        program.controls("first")[0].starts_with("fw_cubic")
    });
    // Known before their SYN, without a question.
    program.keep("second", &pair("two"));
    assert!(program.controls("second")[0].starts_with("fw_cubic"));
    assert_eq!(advisor.asked().len(), 2);
    program.keep("third", &pair("far"));
    assert_eq!(program.controls("third")[0], "reno");
    wait_until("that peer is asked about", || {
        let asked = advisor.asked();
        asked.last().unwrap().ends_with("host=127.1.0.1")
    });
}

/// The answer that a path carries 100 Mbit/s at least, in 100 ms.
pub(crate) fn forecast(control: &str) -> Reply {
    let forecast = json!({
        "congestion_control": control, "interval_mbps": [100.0, 120.0], "rtt_ms": 100.0,
    });
    Reply::Advice(advice(20.0, forecast))
}

/// Opens connections, one after the other, and prints of each the largest congestion window of its first 350 ms.
const STARTS: &str = "
import socket, struct, sys, time
def window(stream): return struct.unpack_from(\"I\", stream.getsockopt(6, 11, 104), 80)[0]
def begin():
    while True:
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8000000)
        try: stream.connect((sys.argv[1], 9000)); return stream
        except OSError: time.sleep(0.1)
for _ in range(8):
    stream, most = begin(), 0
    stream.setblocking(False)
    end = time.monotonic() + 0.35
    while time.monotonic() < end:
        try: stream.send(bytes(1 << 16))
        except BlockingIOError: time.sleep(0.005)
        most = max(most, window(stream))
    print(most, flush=True)
    stream.close()
    time.sleep(0.5)
";

const SINK: &str = "
import socket, threading
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8000000)
server.bind((\"0.0.0.0\", 9000))
server.listen()
def sink(stream):
    while stream.recv(1 << 16): pass
while True: threading.Thread(target=sink, args=(server.accept()[0],)).start()
";

#[test]
fn new_connections_start_as_the_advisor_forecasts() {
    let Some(_turn) = in_the_lab() else { return };
    if !may_run() {
        return;
    }
    let unknown = json!({"congestion_control": "fw_cubic", "interval_mbps": null});
    let unknown = Reply::Advice(advice(0.6, unknown));
    let advisor = TestAdvisor::answering(vec![unknown, forecast("fw_cubic")]);
    let host = Host::new();
    host.policy(&format!(
        "advisor = \"{}\"\n[[rule]]\nname = \"all\"\nadvised = true\n",
        advisor.url()
    ));
    let _agent = host.agent(&[]);
    let procs = host.group.join("cgroup.procs");
    let client = format!(
        "echo 0 > {}; exec /usr/bin/python3 -c '{STARTS}' $1",
        procs.display()
    );
    let output = Command::new(FAIRWIND)
        .args(["lab", "exec", "--bandwidth", "100Mbit/s"])
        .args(["--delay", "50ms", "--queue", "820pkt", "--server"])
        .arg(format!("/usr/bin/python3 -c '{SINK}'"))
        .args(["--", "sh", "-c", &client, "sh", "{peer}"])
        .output()
        .unwrap();
    let said = text(&output.stdout);
    let windows: Vec<u32> = said.lines().map(|line| line.parse().unwrap()).collect();
    let [plain, advised @ ..] = &windows[..] else {
        panic!("{said}{}", text(&output.stderr))
    };
    assert!(*plain < 200, "{plain} packets without a forecast");
    // The product is 822 packets. A busy machine may look like a queue.
    let has_jumped = advised.iter().any(|window| *window >= 380);
    assert!(has_jumped, "{advised:?} packets with one");
    let status = host.status();
    let start = &status["advised_starts"][0];
    assert_eq!(start["rate_mbps"], 100.0, "{status}");
    assert_eq!(start["rtt_ms"], 100.0);
    let control = start["congestion_control"].as_str().unwrap();
    assert!(control.starts_with("fw_cubic"), "{control}");
    let holds_for_s = start["holds_for_s"].as_f64().unwrap();
    assert!((1.0..=50.0).contains(&holds_for_s), "{holds_for_s} s");
    let shown = text(&host.ask(&["status"]).stdout);
    assert!(shown.contains("advised start to"), "{shown}");
    assert!(host.ask(&["undo"]).status.success());
    assert_eq!(host.status()["advised_starts"], json!([]));
}

#[test]
fn an_advised_start_ends_with_the_agent_or_by_its_time() {
    if !may_run() {
        return;
    }
    let mounted = Mounted::new();
    let fairwind = |arguments: &[&str]| {
        let mut command = Command::new(FAIRWIND);
        command.args(arguments);
        let output = mounted.inside(&command).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    fairwind(&["cc", "load", "cubic", "--prefix", "fwagent_"]);
    let advised = || serde_json::from_str::<Value>(&fairwind(&["cc", "advise", "--json"])).unwrap();
    let advisor = TestAdvisor::answering(vec![forecast("fwagent_cubic")]);
    let host = Host::new();
    host.policy(&format!(
        "advisor = \"{}\"\n[[rule]]\nname = \"all\"\nadvised = true\nmatch = {{ direction = \"out\" }}\n",
        advisor.url()
    ));
    let mut program = host.program();
    program.keep("server", "listen()");
    let peer = "pair(kept['server'], None, lambda s: s.bind(('127.0.0.2', 0)))";

    let dry = Agent::start(mounted.inside(&host.command(&["--dry-run"])));
    program.keep("told", peer);
    wait_until("the advisor is asked", || !advisor.asked().is_empty());
    thread::sleep(Duration::from_millis(300));
    assert_eq!(advised(), json!([]));
    drop(dry);

    let mut agent = Agent::start(mounted.inside(&host.command(&[])));
    program.keep("first", peer);
    wait_until("the start is advised", || advised() != json!([]));
    let start = &advised()[0];
    assert_eq!(start["destination"], "127.0.0.1/32");
    assert_eq!(start["rate_mbps"], 100.0);
    assert_eq!(start["rtt_ms"], 100.0);
    agent.signal(libc::SIGTERM);
    agent.child.wait().unwrap();
    assert_eq!(advised(), json!([]));

    let mut agent = Agent::start(mounted.inside(&host.command(&[])));
    program.keep("second", peer);
    wait_until("the start is advised", || advised() != json!([]));
    agent.signal(libc::SIGKILL);
    agent.child.wait().unwrap();
    let holds_for_s = advised()[0]["holds_for_s"].as_u64().unwrap();
    assert!(holds_for_s <= 50, "{holds_for_s} s after the agent");

    let mut prefixed = json!({"prefix": "127.0.0.0/16", "rtt_ms": 100.0});
    prefixed["interval_mbps"] = json!([80.0, 90.0]);
    prefixed["congestion_control"] = json!("fwagent_cubic");
    let stale = json!({"prefix": "127.0.0.0/16", "congestion_control": "fwagent_cubic", "interval_mbps": null});
    let replies = [advice(3.0, prefixed), advice(600.0, stale)].map(Reply::Advice);
    let advisor = TestAdvisor::answering(replies.into());
    host.policy(&format!(
        "advisor = \"{}\"\n[[rule]]\nname = \"all\"\nadvised = true\nmatch = {{ direction = \"out\" }}\n",
        advisor.url()
    ));
    let mut agent = Agent::start(mounted.inside(&host.command(&[])));
    program.keep("third", peer);
    let destinations = || {
        let advised = advised();
        let all = advised.as_array().unwrap().iter();
        let all = all.map(|one| one["destination"].as_str().unwrap().to_owned());
        all.collect::<BTreeSet<String>>()
    };
    // The earlier agent's ends by its time.
    wait_until("the prefix is advised", || {
        destinations() == ["127.0.0.0/16", "127.0.0.1/32"].map(str::to_owned).into()
    });
    let told = host.status()["advised_starts"][0]["destination"].clone();
    assert_eq!(told, "127.0.0.0/16");
    wait_until("there is no forecast any more", || {
        program.eval("kept['third'][0].sendall(b'x') or kept['third'][1].recv(1)");
        destinations() == ["127.0.0.1/32".to_owned()].into()
    });
    agent.signal(libc::SIGTERM);
    agent.child.wait().unwrap();
    program.keep("third", "None");
    program.keep("first", "None");
    program.keep("second", "None");
    fairwind(&["cc", "unload", "cubic", "--prefix", "fwagent_"]);
}

/// Sends until the congestion control is another, and prints it.
const FOLLOWS: &str = "
import socket, time
control = lambda s: s.getsockopt(6, 13, 16).split(b'\\0')[0].decode()
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname(), source_address=('127.0.0.2', 0))
peer = server.accept()[0]
before, end = control(client), time.monotonic() + 20
while control(client) == before and time.monotonic() < end:
    client.sendall(b'x')
    peer.recv(1)
    time.sleep(0.01)
print(control(client))
";

#[test]
fn a_run_follows_the_advisor() {
    if !may_run() {
        return;
    }
    let [ran, refused] = in_new_network_namespace(|| {
        let advising = Advising::new();
        [&advising.url, "ftp://advisor"].map(|url| {
            let mut command = Command::new(FAIRWIND);
            command.args(["run", "--quiet", &format!("--advised={url}"), "--"]);
            command.args(["/usr/bin/python3", "-c", FOLLOWS]);
            command.output().unwrap()
        })
    });
    let said = text(&ran.stdout);
    assert!(
        said.starts_with("fw_fairwin"),
        "{said}{}",
        text(&ran.stderr)
    );
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}

/// A run of everybody's: both ends' controls, and what is said at the end.
const RUN: &str = "
import socket
control = lambda s: s.getsockopt(6, 13, 16).split(b'\\0')[0].decode()
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
print(control(client), control(server.accept()[0]))
";

#[test]
fn who_has_no_rights_runs_programs_by_the_agent() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy("[[rule]]\nname = \"all\"\ncongestion_control = \"cubic\"\n");
    let _agent = host.agent(&["--socket-group", "nogroup"]);
    let socket = host.socket();
    let [ran, refused] = in_new_network_namespace(move || {
        let everybody = Everybody::new();
        let run = |options: &[&str]| {
            let mut command = everybody.command();
            command.args(["run", "--agent"]).arg(&socket).args(options);
            command.args(["--", "/usr/bin/python3", "-c", RUN]);
            command.output().unwrap()
        };
        [
            run(&["--control", "reno", "--limit", "1Gbit/s"]),
            run(&["--control", "nocc", "--allow-nocc"]),
        ]
    });
    let said = text(&ran.stderr);
    assert_eq!(text(&ran.stdout), "reno reno\n", "{said}");
    assert!(said.starts_with("fairwind: 2 connections: "), "{said}");
    assert!(said.contains("\ntaken care of by the agent"), "{said}");
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(said.contains("nocc is for root alone"), "{said}");
}

#[test]
fn a_command_keeps_its_exit_code_when_the_agent_is_killed_and_ends_nobody_elses_run() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy("");
    let everybody = Everybody::new();
    let begin = || {
        let mut command = everybody.command();
        command.args(["run", "--agent"]).arg(host.socket());
        command.args(["--limit", "1Gbit/s", "--", "sh", "-c"]);
        command.arg("echo begun; read line; exit 3");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(run.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        assert_eq!(said, "begun\n");
        run
    };
    // Its input ends, and so does the command.
    let end = |run: Child| {
        let output = run.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        said
    };
    let mut agent = host.agent(&["--socket-group", "nogroup"]);
    let first = begin();
    agent.signal(libc::SIGKILL);
    agent.child.wait().unwrap();
    // Its first run has the number that the other agent's had.
    let _agent = host.agent(&["--socket-group", "nogroup"]);
    let second = begin();
    let said = end(first);
    assert!(said.contains("connections did is not known"), "{said}");
    let said = end(second);
    assert!(said.contains("\ntaken care of by the agent"), "{said}");
}

#[test]
fn a_run_by_the_agent_follows_the_advisor_of_its_policy_and_says_that_nocc_is_left_out() {
    if !may_run() {
        return;
    }
    let reno = json!({"congestion_control": "reno"});
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(600.0, reno))]);
    let host = Host::new();
    host.policy(&format!("advisor = \"{}\"\n", advisor.url()));
    let _agent = host.agent(&["--socket-group", "nogroup"]);
    let socket = host.socket();
    let ran = in_new_network_namespace(move || {
        let everybody = Everybody::new();
        let mut command = everybody.command();
        command.args(["run", "--agent"]).arg(&socket);
        command.args(["--advised", "--allow-nocc", "--"]);
        command.args(["/usr/bin/python3", "-c", FOLLOWS]);
        command.output().unwrap()
    });
    let said = text(&ran.stderr);
    assert_eq!(text(&ran.stdout), "reno\n", "{said}");
    assert!(said.starts_with("fairwind: left out: nocc"), "{said}");
    assert_eq!(said.matches("left out: nocc").count(), 2, "{said}");
}

#[test]
fn a_killed_run_by_the_agent_leaves_nothing_behind() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy("");
    let _agent = host.agent(&["--socket-group", "nogroup"]);
    let everybody = Everybody::new();
    let mut command = everybody.command();
    command.args(["run", "--agent"]).arg(host.socket());
    command.args(["--limit", "1Gbit/s", "--", "sleep", "100"]);
    let mut run = command.spawn().unwrap();
    let group = |process: u32| {
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
        let group = groups.lines().find_map(|line| line.strip_prefix("0::"));
        group.unwrap().trim_start_matches('/').to_owned()
    };
    wait_until("the run is in its group", || {
        group(run.id()).contains("fairwind-run-")
    });
    let group = fairwind_kernel::mounted("cgroup2")
        .unwrap()
        .join(group(run.id()));
    let children = format!("/proc/{0}/task/{0}/children", run.id());
    wait_until("the command runs", || {
        fs::read_to_string(&children).is_ok_and(|text| !text.is_empty())
    });
    let command: i32 = fs::read_to_string(&children)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    // SAFETY: a child of our child, which nobody has waited for.
    unsafe { libc::kill(command, libc::SIGKILL) };
    wait_until("the group is empty", || {
        fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|processes| processes.is_empty())
    });
    // The next run removes what was left in use.
    let mut next = everybody.command();
    next.args(["run", "--quiet", "--agent"]).arg(host.socket());
    next.args(["--limit", "1Gbit/s", "--", "true"]);
    assert!(next.status().unwrap().success());
    wait_until("the group is gone", || !group.exists());
}

#[test]
fn what_fairwind_run_has_given_is_not_changed_by_rules() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy("[[rule]]\nname = \"all\"\ncongestion_control = \"cubic\"\nforce = true\n");
    let _agent = host.agent(&[]);
    let enter = format!(
        "echo 0 > {}/cgroup.procs; exec {FAIRWIND} run --control reno -- /usr/bin/python3 -c \"$1\"",
        host.group.display()
    );
    let ran = in_new_network_namespace(move || {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &enter, "sh", RUN]).output().unwrap()
    });
    assert_eq!(text(&ran.stdout), "reno reno\n", "{}", text(&ran.stderr));
}

#[test]
fn a_group_that_is_only_called_as_that_of_a_run_is_no_exception() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy("[[rule]]\nname = \"all\"\nlimit = \"8Mbit/s\"\n");
    let _agent = host.agent(&[]);
    let limit = |name: &str, user: u32| {
        let group = host.group.join(name);
        fs::create_dir(&group).unwrap();
        chown(&group, Some(user), None).unwrap();
        let mut program = host.program_in(name);
        program.keep("server", "listen()");
        program.keep("pair", "pair(kept['server'])");
        program.eval("kept['pair'][0].getsockopt(socket.SOL_SOCKET, 47)")
    };
    assert_eq!(limit("fairwind-run-users", 65534), "1000000");
    assert_ne!(limit("fairwind-run-roots", 0), "1000000");
}

/// Ten thousand connections open, move something and close, while the policy is read anew and the agent is killed a hundred
/// times.
#[test]
fn no_connection_fails_while_the_policy_changes_and_the_agent_is_killed() {
    if !may_run() {
        return;
    }
    const CONNECTIONS: u32 = 10_000;
    const KILLS: u32 = 100;
    let host = Host::new();
    let rules = ["reno", "cubic"].map(|control| {
        format!(
            "[[rule]]\nname = \"all\"\ncongestion_control = \"{control}\"\nlimit = \"1Gbit/s\"\n"
        )
    });
    host.policy(&rules[0]);
    let mut program = host.program();
    program.keep("server", "listen()");
    let moves = format!(
        "sum(move((p := pair(kept['server'])), 50000) is None and [s.close() for s in p] == [None, None] \
         for _ in range({CONNECTIONS}))"
    );
    writeln!(program.input, "{moves}").unwrap();
    for kill in 0..KILLS {
        let mut agent = host.agent(&[]);
        host.policy(&rules[kill as usize % 2]);
        agent.signal(libc::SIGHUP);
        thread::sleep(Duration::from_millis(50));
        agent.signal(libc::SIGKILL);
        agent.child.wait().unwrap();
    }
    let mut said = String::new();
    program.output.read_line(&mut said).unwrap();
    assert_eq!(said.trim(), CONNECTIONS.to_string());
}

#[test]
fn an_idle_agent_needs_hardly_anything() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(&format!(
        "{RENO_OUT}\n[[rule]]\nname = \"old\"\nlimit = \"1Gbit/s\"\nmatch = {{ age = \"1h\" }}\n"
    ));
    let agent = host.agent(&[]);
    let process = PathBuf::from(format!("/proc/{}", agent.child.id()));
    let before = processor_seconds(&process);
    let began = Instant::now();
    thread::sleep(Duration::from_secs(10));
    let share = (processor_seconds(&process) - before) / began.elapsed().as_secs_f64();
    assert!(share < 0.005, "{share} of a core");
    let resident = field(&process, "VmRSS:");
    assert!(resident < 30 << 10, "{resident} KiB");
}

/// Processor time of a process so far, from ticks of 10 ms.
fn processor_seconds(process: &Path) -> f64 {
    let stat = fs::read_to_string(process.join("stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

fn field(process: &Path, name: &str) -> u64 {
    let status = fs::read_to_string(process.join("status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Receives a little for a second, and prints the largest window that may be offered then, and the priority.
const RECEIVES: &str = "
import socket, time
server = socket.create_server(('127.0.0.2', 0))
client = socket.create_connection(server.getsockname(), source_address=('127.0.0.3', 0))
accepted = server.accept()[0]
for _ in range(50):
    client.sendall(bytes(500))
    accepted.recv(500)
    time.sleep(0.02)
print(accepted.getsockopt(6, 10), accepted.getsockopt(1, 12))
";

/// Runs a command of the shell in the host's control group, in a network namespace of its own, and has it receive.
fn receive_in(host: &Host, run: &str) -> (u64, u64) {
    let procs = host.group.join("cgroup.procs");
    let line = format!(
        "echo 0 > {}; exec {run} -- /usr/bin/python3 -c \"$1\"",
        procs.display()
    );
    let ran = in_new_network_namespace(move || {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &line, "sh", RECEIVES])
            .output()
            .unwrap()
    });
    let said = text(&ran.stdout);
    let mut words = said.split_whitespace().map(|word| word.parse().unwrap());
    let (Some(window), Some(priority)) = (words.next(), words.next()) else {
        panic!("{}", text(&ran.stderr));
    };
    (window, priority)
}

/// As of a download that is held down; twenty segments of loopback's are offered at first.
fn assert_held((window, priority): (u64, u64)) {
    assert!(window < 20 << 16, "{window}");
    assert_eq!(priority, 1);
}

#[test]
fn an_agent_lets_runs_hold_their_downloads_down() {
    if !may_run() {
        return;
    }
    let everybody = Everybody::new();
    let everybody = everybody.program();
    let host = Host::new();
    let by_rights = format!("{FAIRWIND} run --background");
    let by_the_agent = format!(
        "setpriv --reuid 65534 --regid 65534 --clear-groups {} run --agent {} --background",
        everybody.display(),
        host.socket().display()
    );
    let background = "[[rule]]\nname = \"all\"\nbackground = true\n";
    let limit = "[[rule]]\nname = \"all\"\nlimit = \"1Gbit/s\"\n";
    for policy in [background, limit] {
        host.policy(policy);
        let agent = host.agent(&["--socket-group", "nogroup"]);
        assert_held(receive_in(&host, &by_rights));
        assert_held(receive_in(&host, &by_the_agent));
        assert!(host.ask(&["undo"]).status.success());
        assert_held(receive_in(&host, &by_rights));
        drop(agent);
        let _agent = host.agent(&["--dry-run"]);
        assert_held(receive_in(&host, &by_rights));
    }
}

#[test]
fn a_run_in_a_run_holds_its_downloads_down() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    let background = format!("{FAIRWIND} run --background");
    let limit = format!("{FAIRWIND} run --limit 1Gbit/s");
    assert_held(receive_in(&host, &format!("{limit} -- {background}")));
    assert_held(receive_in(&host, &format!("{background} -- {limit}")));
    assert_held(receive_in(&host, &format!("{background} -- {background}")));
    let (_, priority) = receive_in(&host, &limit);
    assert_eq!(priority, 0);
}

#[test]
fn an_agent_whose_group_is_gone_ends_and_says_so_and_nothing_of_it_stays() {
    if !may_run() {
        return;
    }
    let host = Host::new();
    host.policy(RENO_OUT);
    let mounted = Mounted::new();
    let pins = || {
        let mut list = Command::new("sh");
        list.args(["-c", "ls /sys/fs/bpf | grep fairwind"]);
        text(&mounted.inside(&list).output().unwrap().stdout)
    };
    let start = || {
        fs::create_dir_all(&host.group).unwrap();
        let mut command = mounted.inside(&host.command(&[]));
        command.stderr(Stdio::piped());
        let agent = Agent::start(command);
        assert!(pins().contains("fairwind-agent-"), "{}", pins());
        agent
    };
    let mut agent = start();
    fs::remove_dir(&host.group).unwrap();
    let mut said = String::new();
    let mut error = agent.child.stderr.take().unwrap();
    error.read_to_string(&mut said).unwrap();
    let gone = format!("{}: the control group is gone", host.group.display());
    assert!(said.contains(&gone), "{said}");
    assert_eq!(agent.child.wait().unwrap().code(), Some(1));
    assert_eq!(pins(), "");

    // What a killed one has left, the next agent removes.
    let mut agent = start();
    agent.signal(libc::SIGKILL);
    agent.child.wait().unwrap();
    fs::remove_dir(&host.group).unwrap();
    let left = pins();
    let _agent = start();
    assert!(!pins().contains(left.trim()), "{left} {}", pins());
}
