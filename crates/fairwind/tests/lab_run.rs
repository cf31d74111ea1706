//! `fairwind lab run` on the running kernel, as its users meet it.
//!
//! Needs root. The bounds also hold on a busy machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::MutexGuard;
use std::thread::sleep;
use std::time::Duration;

use fairwind_testing::{eventually, wait_until, with_stalls};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use tempfile::TempDir;

use crate::everybody::Everybody;
use crate::mounted::Mounted;
use crate::turn::in_the_lab;

const LINK: &str = r#"
[[link]]
name      = "bottleneck"
between   = ["a", "b"]
bandwidth = "20Mbit/s"
delay     = "10ms"
queue     = "50pkt"
"#;

/// A flow of this name from a to b, with further fields.
fn flow(name: &str, more: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\n{more}\n")
}

/// A folder with an experiment in it, and the lab to itself.
struct Bench {
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    /// None if the privileges are missing.
    fn new(experiment: &str) -> Option<Bench> {
        let turn = in_the_lab()?;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.toml"), experiment).unwrap();
        Some(Bench {
            folder,
            _turn: turn,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, more: &[&str]) -> Command {
        self.engine("lab", more)
    }

    fn engine(&self, engine: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairwind"));
        command.current_dir(self.folder.path());
        command.args([engine, "run", "x.toml"]).args(more);
        command
    }

    fn run(&self, more: &[&str]) -> Output {
        self.command(more).output().unwrap()
    }

    /// Runs it, requires success and returns the result.
    fn result(&self, more: &[&str]) -> Value {
        let output = self.run(more);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        self.read("x.result/result.json")
    }

    fn read(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

/// The congestion controls that the kernel has.
fn controls() -> BTreeSet<String> {
    let names = fairwind_cc::kernel::available().unwrap();
    names.into_iter().collect()
}

#[test]
fn a_flow_of_the_kernel_fills_its_link() {
    let text = format!("duration = \"4s\"\nwarmup = \"1s\"\n{LINK}");
    let reno = flow("one", "congestion_control = \"reno\"");
    let Some(bench) = Bench::new(&format!("{text}{reno}")) else {
        return;
    };
    let (result, stalls) = with_stalls(|| bench.result(&[]));
    // The share of the time after the warm-up in which the machine was busy with other things.
    let stood = stalls.as_secs_f64() / 3.0;
    assert_eq!(result["engine"], "lab");
    assert!(result["stack"].as_str().unwrap().starts_with("Linux "));
    assert_eq!(result["incomplete"], Value::Null);
    let one = &result["flows"][0];
    assert_eq!(one["kernel_controls"], serde_json::json!(["reno"]));
    // 1448 of 1500 bytes are payload: 19.31 Mbit/s at most.
    let goodput = number(&one["goodput_mbps"]);
    assert!((17.0 * (1.0 - stood)..19.4).contains(&goodput), "{goodput}");
    // No packet is early: 20 ms of delay, and 0.6 ms for 1500 bytes at 20 Mbit/s but for the
    // handshake's small packets.
    assert!(number(&one["rtt_min_ms"]) >= 20.0);
    assert!(number(&one["rtt_mean_ms"]) > number(&one["rtt_min_ms"]));
    let link = &result["links"][0];
    assert!(number(&link["utilization"]) > 0.85 * (1.0 - stood));
    assert!(number(&link["queue_mean_pkts"]) > 2.0);
    assert!(number(&link["queue_p99_pkts"]) <= 50.0);
    assert!(number(&result["emulator"]["packets"]) > 5_000.0);
    for file in [
        "flows.parquet",
        "links.parquet",
        "report.html",
        "plots/cwnd.svg",
    ] {
        assert!(bench.path("x.result").join(file).is_file(), "{file}");
    }
}

#[test]
fn a_host_between_links_forwards_in_both_engines() {
    let link = |name: &str, ends: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = {ends}\nbandwidth = \"20Mbit/s\"\ndelay = \"5ms\"\n"
        )
    };
    let links = link("first", "[\"a\", \"b\"]") + &link("second", "[\"b\", \"c\"]");
    let reno = "congestion_control = \"reno\"\nbytes = \"500kB\"";
    let through = flow("through", reno).replace("to = \"b\"", "to = \"c\"");
    let text = format!("duration = \"5s\"\n{links}{}{through}", flow("short", reno));
    let Some(bench) = Bench::new(&text) else {
        return;
    };
    for engine in ["sim", "lab"] {
        let output = bench.engine(engine, &["--out", engine]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let result = bench.read(&format!("{engine}/result.json"));
        let field = |part: &str, at: usize, field: &str| number(&result[part][at][field]);
        for flow in 0..2 {
            assert_eq!(field("flows", flow, "bytes"), 500_000.0, "{engine}");
        }
        // Each link delays a packet by 5 ms.
        assert!(field("flows", 0, "rtt_min_ms") >= 10.0, "{engine}");
        assert!(field("flows", 1, "rtt_min_ms") >= 20.0, "{engine}");
        // 500 kB are 346 packets, of 1500 bytes but for the last, and 52 to 60 bytes of SYN and FIN each.
        let (first, second) = (field("links", 0, "bytes"), field("links", 1, "bytes"));
        assert!(
            (518_000.0..600_000.0).contains(&second),
            "{engine}: {second}"
        );
        assert!(first >= second + 518_000.0, "{engine}: {first}");
    }
}

#[test]
fn connections_of_every_host_are_sampled_to_the_end() {
    let link = |host| {
        format!(
            "[[link]]\nbetween = [\"{host}\", \"r\"]\nbandwidth = \"20Mbit/s\"\ndelay = \"5ms\"\n"
        )
    };
    let links = ["a", "b", "c", "d"].map(link).concat();
    let of = |host: &str, start| {
        let more = format!("congestion_control = \"reno\"\nstart = \"{start}\"");
        flow(host, &more).replace("from = \"a\"", &format!("from = \"{host}\""))
    };
    let flows = of("a", "0s") + &of("c", "500ms") + &of("d", "1s");
    let head = "duration = \"3s\"\n[record]\ninterval = \"20ms\"\n";
    let Some(bench) = Bench::new(&format!("{head}{links}{flows}")) else {
        return;
    };
    let (_, stalls) = with_stalls(|| bench.result(&[]));
    let file = fs::File::open(bench.path("x.result/flows.parquet")).unwrap();
    let rows = SerializedFileReader::new(file).unwrap();
    let mut late = BTreeMap::<String, u32>::new();
    for row in rows.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let field = |name: &str| {
            let mut fields = row.get_column_iter();
            fields.find(|(field, _)| *field == name).unwrap().1.clone()
        };
        let (Field::Double(time_s), Field::Str(flow)) = (field("time_s"), field("flow")) else {
            panic!("{row}");
        };
        if time_s >= 2.0 {
            *late.entry(flow).or_default() += 1;
        }
    }
    // One in 20 ms of the last second, unless the machine did other things.
    let least = (40.0 * (1.0 - stalls.as_secs_f64())).max(1.0) as u32;
    for flow in ["a", "c", "d"] {
        let samples = late.get(flow).copied().unwrap_or_default();
        assert!(samples >= least, "{flow}: {late:?}");
    }
}

#[test]
fn marks_take_the_place_of_losses_in_both_engines() {
    let link = "[[link]]\nname = \"bottleneck\"\nbetween = [\"a\", \"b\"]\n\
                bandwidth = \"10Mbit/s\"\ndelay = \"10ms\"\nqueue = \"1000pkt\"\n\
                aqm = { kind = \"red\", min_th = 5, max_th = 200, w_q = 0.02, ecn = true }\n";
    let reno = flow("one", "congestion_control = \"reno\"\necn = true");
    let Some(bench) = Bench::new(&format!("duration = \"3s\"\n{link}{reno}")) else {
        return;
    };
    for engine in ["sim", "lab"] {
        let run = |out: &str, more: &[&str]| {
            let output = bench.engine(engine, &["--out", out]).args(more).output();
            let output = output.unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
            bench.read(&format!("{out}/result.json"))
        };
        let with = run(&format!("{engine}-with"), &[]);
        let (link, flow) = (&with["links"][0], &with["flows"][0]);
        assert_eq!(number(&link["drops"]), 0.0, "{engine}");
        assert_eq!(number(&flow["retransmits"]), 0.0, "{engine}");
        let marks = number(&link["marks"]);
        assert!(marks > 0.0, "{engine}");
        // Marks are echoed for a round trip; the last ones may have been under way.
        let signals = number(&flow["ecn_signals"]);
        assert!(signals >= marks / 2.0, "{engine}: {signals} of {marks}");
        let without = run(
            &format!("{engine}-without"),
            &["--set", "flow.one.ecn=false"],
        );
        let (link, flow) = (&without["links"][0], &without["flows"][0]);
        assert!(number(&link["drops"]) > 0.0, "{engine}");
        assert_eq!(number(&link["marks"]), 0.0, "{engine}");
        assert!(number(&flow["retransmits"]) > 0.0, "{engine}");
        assert_eq!(flow["ecn_signals"], Value::Null, "{engine}");
    }
}

#[test]
fn weights_divide_the_link() {
    let text = "duration = \"4s\"\nwarmup = \"1s\"\n\
                [[link]]\nname = \"bottleneck\"\nbetween = [\"a\", \"b\"]\n\
                bandwidth = \"12Mbit/s\"\ndelay = \"5ms\"\nqueue = \"100pkt\"\n\
                scheduler = { kind = \"wf2q+\", weights = { one = 2, two = 1 } }\n";
    let reno = "congestion_control = \"reno\"";
    let flows = flow("one", reno) + &flow("two", reno);
    let Some(bench) = Bench::new(&format!("{text}{flows}")) else {
        return;
    };
    let result = bench.result(&["--no-series"]);
    let goodput = |flow: usize| number(&result["flows"][flow]["goodput_mbps"]);
    let ratio = goodput(0) / goodput(1);
    assert!((1.8..2.2).contains(&ratio), "{ratio}");
}

#[test]
fn a_recorded_bandwidth_is_followed_faster_than_it_was_recorded() {
    let text = "duration = \"4s\"\ntime_scale = 50\n\
                [[link]]\nname = \"bottleneck\"\nbetween = [\"a\", \"b\"]\n\
                bandwidth = { trace = \"recorded.csv\" }\ndelay = \"1ms\"\nqueue = \"1000pkt\"\n";
    let source = "application = { kind = \"constant\", rate = \"20Mbit/s\" }";
    let Some(bench) = Bench::new(&format!("{text}{}", flow("datagrams", source))) else {
        return;
    };
    let recorded = "time_s,bandwidth_mbps\n0,4\n100,16\n";
    fs::write(bench.path("recorded.csv"), recorded).unwrap();
    let result = bench.result(&[]);
    // 2 s at 4 and 2 s at 16 Mbit/s: 5 MB of packets. The queue bridges the times in which a busy machine
    // sends nothing.
    let bytes = number(&result["links"][0]["bytes"]);
    assert!((4.9e6..5.1e6).contains(&bytes), "{bytes}");
}

#[test]
fn a_flow_changes_its_control_and_ours_are_gone_afterwards() {
    let text = format!("duration = \"2s\"\n{LINK}");
    let switched = "congestion_control = \"reno\"\n\
                    switch = [{ at = \"1s\", congestion_control = \"sfsack\" }]";
    let tuned = "congestion_control = \"sfsack\"\nparameters = { tau = \"50ms\" }";
    let flows = flow("switched", switched) + &flow("tuned", tuned);
    let Some(bench) = Bench::new(&format!("{text}{flows}")) else {
        return;
    };
    let result = bench.result(&[]);
    let names = |flow: usize| {
        let names = result["flows"][flow]["kernel_controls"].as_array().unwrap();
        let names = names.iter().map(|name| name.as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(0)[0], "reno");
    assert!(names(0)[1].starts_with("fw_sfsack_"), "{:?}", names(0));
    assert!(names(1)[0].starts_with("fw_sfsack_"), "{:?}", names(1));
    assert_ne!(names(0)[1], names(1)[0], "other parameters, another copy");
    // Others on this machine may load controls meanwhile.
    let ours = [&names(0)[1], &names(1)[0]];
    let are_gone = || ours.iter().all(|name| !controls().contains(*name));
    assert!(eventually(are_gone), "{ours:?} of {:?}", controls());
}

#[test]
fn own_controls_take_the_place_of_the_kernels() {
    let text = format!("duration = \"1s\"\n{LINK}");
    let Some(bench) = Bench::new(&(text + &flow("one", "congestion_control = \"reno\""))) else {
        return;
    };
    let result = bench.result(&["--own-controls"]);
    let name = result["flows"][0]["kernel_controls"][0].as_str().unwrap();
    assert!(name.starts_with("fw_reno_"), "{name}");
}

#[test]
fn programs_run_in_the_hosts_and_leave_what_they_wrote() {
    let text = format!("duration = \"2s\"\n{LINK}");
    let command = "application = { kind = \"command\", client = \"echo from {from} to {to}\" }";
    let Some(bench) = Bench::new(&(text + &flow("program", command))) else {
        return;
    };
    let result = bench.result(&[]);
    assert_eq!(result["flows"][0]["application"], "command");
    let output = bench.path("x.result/programs/program/client.out");
    assert_eq!(
        fs::read_to_string(output).unwrap(),
        "from 10.77.0.1 to 10.77.0.2\n"
    );
}

/// Accepts all data sent to port 5201 of its own address.
const SINK: &str = r#"python3 -c 'import socket, threading
def drain(connection):
    while connection.recv(65536): pass
listener = socket.create_server(("{to}", 5201))
while True: threading.Thread(target=drain, args=(listener.accept()[0],)).start()'"#;

/// Sends a million bytes there once the sink listens, and waits until they are received.
const SOURCE: &str = r#"python3 -c 'import socket, time
while True:
    try: connection = socket.create_connection(("{to}", 5201)); break
    except OSError: time.sleep(0.05)
connection.sendall(bytes(1000000)); connection.shutdown(socket.SHUT_WR); connection.recv(1)'"#;

/// Sends 100 datagrams of 1000 bytes to a port on which nobody listens.
const DATAGRAMS: &str = r#"python3 -c 'import socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(100): sender.sendto(bytes(1000), ("{to}", 9)); time.sleep(0.003)'"#;

#[test]
fn programs_of_two_flows_in_the_same_hosts_have_each_their_control_and_their_bytes() {
    let program = |lines: &str, control: &str| {
        format!(
            "start = \"1s\"\ncongestion_control = \"{control}\"\n\
             [flow.application]\nkind = \"command\"\n{lines}"
        )
    };
    let client = |line: &str| format!("client = \"\"\"{line}\"\"\"\n");
    let transfer = client(SOURCE) + &format!("server = \"\"\"{SINK}\"\"\"\n");
    let text = format!("duration = \"10s\"\n{LINK}")
        + &flow("one", &program(&transfer, "reno"))
        + &flow("two", &program(&transfer, "sfsack"))
        + &flow("three", &program(&client(DATAGRAMS), "cubic"));
    let Some(bench) = Bench::new(&text) else {
        return;
    };
    let result = bench.result(&[]);
    let [one, two, three] = [0, 1, 2].map(|flow| &result["flows"][flow]);
    // Until its SYN has a route, a socket has the machine's default congestion control.
    let control = |flow: &Value| flow["kernel_controls"].as_array().unwrap().last().cloned();
    assert_eq!(control(one).unwrap(), "reno");
    let own = control(two).unwrap();
    assert!(own.as_str().unwrap().starts_with("fw_sfsack_"), "{own}");
    for flow in [one, two] {
        // The kernel counts a byte for the end of each direction.
        let bytes = number(&flow["bytes"]);
        assert!((1_000_000.0..=1_000_002.0).contains(&bytes), "{bytes}");
        // 691 segments of 1448 bytes at least.
        let sent = number(&flow["packets_sent"]);
        assert!((691.0..1400.0).contains(&sent), "{sent}");
    }
    assert_eq!(three["packets_sent"], 100);
    // The connections beside them fill the queue.
    let arrived = 100 - three["packets_lost"].as_u64().unwrap();
    assert!(arrived > 0);
    assert_eq!(three["bytes"], 1000 * arrived);
    assert_eq!(three["goodput_sd_mbps"], Value::Null);
}

#[test]
fn a_program_that_fails_is_named_and_what_was_measured_is_kept() {
    let text = format!("duration = \"20s\"\n{LINK}");
    let bulk = flow("bulk", "congestion_control = \"reno\"");
    let failing = "start = \"1s\"\n\
                   application = { kind = \"command\", client = \"exit 3\" }";
    let Some(bench) = Bench::new(&(text + &bulk + &flow("failing", failing))) else {
        return;
    };
    let output = bench.run(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("flow failing: "), "{}", err(&output));
    assert!(err(&output).contains('3'), "{}", err(&output));
    let result = bench.read("x.result/result.json");
    let reason = result["incomplete"].as_str().unwrap();
    assert!(reason.contains("flow failing: "), "{reason}");
    assert!(number(&result["duration_s"]) < 10.0);
    assert!(number(&result["flows"][0]["bytes"]) > 100_000.0);
    assert!(bench.path("x.result/flows.parquet").is_file());
}

#[test]
fn a_port_in_use_is_told() {
    let text = format!("duration = \"20s\"\n{LINK}");
    // The first flow has the port 10001 at its receiver.
    let bulk = flow("bulk", "congestion_control = \"reno\"");
    let server = "application = { kind = \"command\", client = \"sleep 9\", \
                  server = \"python3 -m http.server 10001\" }";
    let Some(bench) = Bench::new(&(text + &bulk + &flow("web", server))) else {
        return;
    };
    let output = bench.run(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let said = err(&output);
    assert!(said.contains("flow web: the server"), "{said}");
    assert!(said.contains("Address already in use"), "{said}");
    let kept = bench.path("x.result/programs/web/server.err");
    assert!(fs::read_to_string(kept).unwrap().contains("Errno 98"));
}

#[test]
fn a_missing_program_is_named() {
    let text = format!("duration = \"20s\"\n{LINK}");
    let missing = "application = { kind = \"command\", client = \"fairwind-no-such-program\" }";
    let Some(bench) = Bench::new(&(text + &flow("missing", missing))) else {
        return;
    };
    let output = bench.run(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let said = err(&output);
    assert!(said.contains("fairwind-no-such-program"), "{said}");
}

#[test]
fn an_interrupted_run_keeps_what_it_measured() {
    let text = format!("duration = \"30s\"\nseeds = [1, 2]\n{LINK}");
    let Some(bench) = Bench::new(&(text + &flow("one", "congestion_control = \"reno\""))) else {
        return;
    };
    let mut lab = bench.command(&[]);
    lab.stdout(Stdio::null()).stderr(Stdio::piped());
    let lab = lab.spawn().unwrap();
    let has_begun = || {
        let names = names(bench.folder.path());
        names.iter().any(|name| name.contains(".unfinished-"))
    };
    wait_until("the run has begun", has_begun);
    sleep(Duration::from_secs(3));
    interrupt(&lab);
    let output = lab.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", err(&output));
    let run = bench.read("x.result/seed-1/result.json");
    assert!(run["incomplete"].as_str().unwrap().ends_with("stopped"));
    assert!(number(&run["flows"][0]["bytes"]) > 100_000.0);
    let summary = bench.read("x.result/summary.json");
    assert!(
        summary["incomplete"]
            .as_str()
            .unwrap()
            .starts_with("seed 1")
    );
    assert!(bench.path("x.result/report.html").is_file());
}

fn interrupt(lab: &Child) {
    // SAFETY: the call takes numbers only, and the child has not been waited for.
    let sent = unsafe { libc::kill(lab.id() as i32, libc::SIGINT) };
    assert_eq!(sent, 0);
}

#[test]
fn hosts_have_one_stack_each() {
    let text = format!("duration = \"1s\"\n{LINK}");
    let flows = flow("new", "") + &flow("old", "stack = \"2005\"\ncongestion_control = \"reno\"");
    let Some(bench) = Bench::new(&(text + &flows)) else {
        return;
    };
    let output = bench.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    let expected = "host `a` has flows of both stacks, `new` and `old`";
    assert!(said.contains(expected), "{said}");
    assert!(!bench.path("x.result").exists());
}

#[test]
fn a_control_that_the_kernel_has_not_is_named() {
    let text = format!("duration = \"1s\"\n{LINK}");
    let nowhere = flow("one", "congestion_control = \"kernel:nowhere\"");
    let Some(bench) = Bench::new(&(text + &nowhere)) else {
        return;
    };
    let said = err(&bench.run(&[]));
    let expected = "the kernel has no congestion control `nowhere`";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn without_privileges_they_are_named_and_the_way_without() {
    let text = format!("duration = \"1s\"\n{LINK}");
    let Some(bench) = Bench::new(&(text + &flow("one", ""))) else {
        return;
    };
    fs::set_permissions(bench.folder.path(), Permissions::from_mode(0o777)).unwrap();
    let everybody = Everybody::new();
    let mut command = everybody.command();
    command.current_dir(bench.folder.path());
    let output = command.args(["lab", "run", "x.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    assert!(said.contains("CAP_NET_ADMIN and CAP_SYS_ADMIN"), "{said}");
    assert!(said.contains("`fairwind sim run` needs no"), "{said}");
}

#[test]
fn a_kernel_without_btf_is_told() {
    let text = format!("duration = \"1s\"\n{LINK}");
    let Some(bench) = Bench::new(&(text + &flow("one", ""))) else {
        return;
    };
    // In a mount namespace in which the kernel appears to have no BTF.
    let hidden = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" lab run x.toml";
    let output = Command::new("unshare")
        .args(["--mount", "/bin/sh", "-c", hidden])
        .arg(env!("CARGO_BIN_EXE_fairwind"))
        .current_dir(bench.folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let said = err(&output);
    assert!(said.contains("the kernel has no BTF"), "{said}");
    assert!(said.contains("`fairwind sim run`"), "{said}");
}

/// What is in there that a lab could leave behind: devices, pins and names of network namespaces.
fn left(apart: &Mounted) -> [BTreeSet<String>; 3] {
    let root = apart.root();
    ["sys/class/net", "sys/fs/bpf", "run/netns"].map(|folder| names(&root.join(folder)))
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    entries.map(name).collect()
}

/// Processes that have the mark in their command line.
fn marked(mark: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
        line.is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    })
    .collect()
}

#[test]
fn nothing_outlives_a_run_that_is_killed_at_any_moment() {
    let mark = format!("85{}.5", std::process::id());
    let text = format!("duration = \"60s\"\n{LINK}");
    let bulk = flow("bulk", "congestion_control = \"sfsack\"");
    let program = flow(
        "program",
        &format!("application = {{ kind = \"command\", client = \"sleep {mark}\" }}"),
    );
    let Some(bench) = Bench::new(&(text + &bulk + &program)) else {
        return;
    };
    // Nobody else makes or removes anything there.
    let apart = Mounted::by(
        &["--net", "--mount"],
        "mount -t sysfs sysfs /sys && mount -t bpf bpf /sys/fs/bpf && mount -t tmpfs tmpfs /run",
    );
    let before = left(&apart);
    for round in 0..10u64 {
        let out = format!("result-{round}");
        let quiet = || Stdio::null();
        let mut lab = apart.inside(&bench.command(&["--out", &out]));
        let mut lab = lab.stdout(quiet()).stderr(quiet()).spawn().unwrap();
        // Private copies are named by the process that loads them.
        let control = format!("fw_sfsack_{:04x}", lab.id() & 0xffff);
        if round == 9 {
            // At least once with everything running.
            assert!(eventually(|| !marked(&mark).is_empty()));
            assert!(controls().contains(&control));
        } else {
            sleep(Duration::from_millis(round * round * 12));
        }
        lab.kill().unwrap();
        lab.wait().unwrap();
        let is_left = || controls().contains(&control);
        let clean = || marked(&mark).is_empty() && !is_left() && left(&apart) == before;
        assert!(
            eventually(clean),
            "left after round {round}: {:?}, {before:?} before, {control}: {}, {:?}",
            left(&apart),
            is_left(),
            marked(&mark)
        );
        assert!(!bench.path(&out).exists(), "half a result has the name");
    }
}

#[test]
fn a_transfer_begins_with_the_run_and_takes_as_long_as_in_the_simulator() {
    let text = format!("duration = \"2s\"\n{}", LINK.replace("50pkt", "1000pkt"));
    let reno = flow("one", "congestion_control = \"reno\"\nbytes = \"1MB\"");
    let Some(bench) = Bench::new(&format!("{text}{reno}")) else {
        return;
    };
    let completion = |result: Value| number(&result["flows"][0]["completion_s"]);
    let simulated = Command::new(env!("CARGO_BIN_EXE_fairwind"))
        .current_dir(bench.folder.path())
        .args(["sim", "run", "x.toml", "--no-series", "--out", "sim"])
        .output()
        .unwrap();
    assert_eq!(simulated.status.code(), Some(0), "{}", err(&simulated));
    let simulated = completion(bench.read("sim/result.json"));
    let (result, stalls) = with_stalls(|| bench.result(&["--no-series"]));
    let real = completion(result);
    // A busy machine delivers late, never early, and by no more than the time for which it stood still.
    let late = real - simulated;
    let latest = 0.002 + stalls.as_secs_f64();
    assert!((-0.002..latest).contains(&late), "{real} {simulated}");
}
