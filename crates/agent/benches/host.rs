//! What the agent costs: the time in which live connections are switched, and what `connect` takes longer.
//!
//! In a network namespace and a control group of its own, over loopback. A second process accepts, as one may not have
//! enough descriptors.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fairwind_agent::host::{Host, Orders, Pin};
use fairwind_agent::policy::{self, Policy, RULES_MAX};
use fairwind_kernel::{NamespaceType, thread_cpu_ns, unshare};
use rustix::process::{Resource, getrlimit, setrlimit};

const CONNECTIONS: usize = 10_000;
const TURNS: usize = 20;
const CONNECTS: usize = 1_000;
/// Where the second process accepts, and keeps what it gets or drops it.
const KEPT: &str = "10.0.0.2:7000";
const DROPPED: &str = "10.0.0.2:7001";
const ACCEPTS: &str = "accept";

fn main() {
    if let Err(reason) = fairwind_testing::root() {
        eprintln!("skipped: {reason}");
        return;
    }
    let mut descriptors = getrlimit(Resource::Nofile);
    descriptors.current = descriptors.maximum;
    setrlimit(Resource::Nofile, descriptors).unwrap();
    if std::env::args().any(|argument| argument == ACCEPTS) {
        return accept();
    }
    unshare(NamespaceType::Network).unwrap();
    fairwind_testing::bring_loopback_up();
    let program = std::env::current_exe().unwrap();
    let mut accepting = Command::new("unshare")
        .arg("--net")
        .arg(program)
        .arg(ACCEPTS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The second process is not in it, as hosts at the other ends would not be.
    let group = Group::make();
    let process = accepting.id().to_string();
    // Once it is in its network namespace.
    accepting
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0])
        .unwrap();
    let ip = |arguments: &str| {
        let arguments = arguments.split_whitespace();
        assert!(
            Command::new("ip")
                .args(arguments)
                .status()
                .unwrap()
                .success()
        );
    };
    let there = format!("nsenter --net --target {process} ip");
    ip(&format!(
        "link add here type veth peer name there netns {process}"
    ));
    ip("address add 10.0.0.1/24 dev here");
    ip("link set here up");
    for arguments in ["address add 10.0.0.2/24 dev there", "link set there up"] {
        let whole = format!("{there} {arguments}");
        let (command, arguments) = whole.split_once(' ').unwrap();
        let status = Command::new(command)
            .args(arguments.split_whitespace())
            .status();
        assert!(status.unwrap().success());
    }
    // It says that it listens.
    accepting.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    accepting
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0])
        .unwrap();
    connects(&group);
    switches(&group);
    drop(accepting.stdin.take());
    accepting.wait().unwrap();
}

/// Accepts until its input ends.
fn accept() {
    println!();
    let _ = std::io::stdin().read(&mut [0]);
    let [kept, dropped] = [KEPT, DROPPED].map(|address| TcpListener::bind(address).unwrap());
    std::thread::spawn(move || kept.incoming().collect::<Vec<_>>());
    std::thread::spawn(move || dropped.incoming().for_each(drop));
    println!();
    let _ = std::io::stdin().read(&mut [0]);
}

/// A control group for this process; it goes back when this is dropped.
struct Group {
    folder: PathBuf,
    before: PathBuf,
}

impl Group {
    fn make() -> Group {
        let root = fairwind_kernel::mounted("cgroup2").unwrap();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own
            .lines()
            .find_map(|line| line.strip_prefix("0::/"))
            .unwrap();
        let folder = root.join(format!("fairwind-bench-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("cgroup.procs"), "0").unwrap();
        Group {
            folder,
            before: root.join(own),
        }
    }

    fn host(&self, policy: &Policy, controls: &[Option<String>]) -> Host {
        let opened = File::open(&self.folder).unwrap();
        let group = opened.metadata().unwrap().ino();
        Host::attach(
            &opened,
            &orders(policy, controls, group),
            &Pin::of_group(group),
        )
        .unwrap()
    }

    fn inode(&self) -> u64 {
        fs::metadata(&self.folder).unwrap().ino()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What fails here has failed before, and been said.
        let _ = fs::write(self.before.join("cgroup.procs"), "0");
        Pin::of_group(self.inode()).remove();
        let _ = fs::remove_dir(&self.folder);
    }
}

fn orders<'a>(policy: &'a Policy, controls: &'a [Option<String>], group: u64) -> Orders<'a> {
    Orders {
        policy,
        controls,
        group,
        is_whole: false,
        is_dry: false,
    }
}

fn read(text: &str) -> Policy {
    policy::read("bench", text).unwrap()
}

/// A policy of as many rules as there may be, of all kinds of conditions, of which the last is met.
fn long() -> Policy {
    let mut text = String::new();
    for number in 1..RULES_MAX {
        text.push_str(&format!(
            "[[rule]]\nname = \"{number}\"\ncongestion_control = \"cubic\"\n[rule.match]\nprograms = [\"p{number}\"]\n\
             users = [0]\ncontrol_groups = [\"/a/b/{number}\", \"/\"]\nunits = [\"{number}.service\"]\n\
             local = [\"10.0.0.0/8\"]\nremote = [\"10.0.0.0/{}\"]\nremote_ports = [7001, {number}]\n\
             direction = \"out\"\n",
            1 + number % 32
        ));
    }
    text.push_str("[[rule]]\nname = \"last\"\ncongestion_control = \"reno\"\n");
    read(&text)
}

/// What `connect` takes longer with the agent, in turns with and without it.
fn connects(group: &Group) {
    let policy = long();
    let controls: Vec<_> = policy
        .rules
        .iter()
        .map(|_| Some("reno".to_owned()))
        .collect();
    let mut without = Vec::new();
    let mut more = Vec::new();
    connect();
    for turn in 0..TURNS {
        let bare = (turn % 2 == 0).then(connect);
        let host = group.host(&policy, &controls);
        let with = connect();
        drop(host);
        let bare = bare.unwrap_or_else(connect);
        without.push(bare);
        more.push(with - bare);
    }
    println!("connect, without the agent: {} us", spread(&mut without));
    println!("more with {RULES_MAX} rules: {} us", spread(&mut more));
}

/// Processor time of a call of `connect`, microseconds; over loopback the peer answers within it.
fn connect() -> f64 {
    let mut taken = 0;
    for _ in 0..CONNECTS {
        let began = thread_cpu_ns();
        let stream = TcpStream::connect(DROPPED).unwrap();
        taken += thread_cpu_ns() - began;
        // Nothing stays behind in the way of the next.
        let linger = socket2::SockRef::from(&stream);
        linger.set_linger(Some(Duration::ZERO)).unwrap();
    }
    taken as f64 / 1e3 / CONNECTS as f64
}

/// The time in which live connections are switched.
fn switches(group: &Group) {
    let connections: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| TcpStream::connect(KEPT).unwrap())
        .collect();
    let policy = read("[[rule]]\nname = \"all\"\ncongestion_control = \"reno\"\n");
    let controls = ["reno", "cubic"].map(|name| vec![Some(name.to_owned())]);
    let mut host = group.host(&policy, &controls[0]);
    host.pass().unwrap();
    let [mut switching, mut quiet] = [Spent::default(), Spent::default()];
    for turn in 1..=TURNS {
        let orders = orders(&policy, &controls[turn % 2], group.inode());
        host.replace(&orders).unwrap();
        switching.spend(|| host.pass().unwrap());
        quiet.spend(|| host.pass().unwrap());
    }
    let now = host.connections().unwrap();
    let expected = ["reno", "cubic"][TURNS % 2];
    assert!(now.iter().all(|one| one.congestion_control == expected));
    println!("{} connections switched: {}", now.len(), switching.told());
    println!("a pass over them that changes nothing: {}", quiet.told());
    drop(connections);
}

/// Times of turns, ms: by the clock, and of the processor.
#[derive(Default)]
struct Spent {
    clock: Vec<f64>,
    processor: Vec<f64>,
}

impl Spent {
    fn spend(&mut self, turn: impl FnOnce()) {
        let (began, before) = (Instant::now(), thread_cpu_ns());
        turn();
        self.clock.push(began.elapsed().as_secs_f64() * 1e3);
        self.processor.push((thread_cpu_ns() - before) as f64 / 1e6);
    }

    fn told(&mut self) -> String {
        format!(
            "{} ms, {} ms of processor time",
            spread(&mut self.clock),
            spread(&mut self.processor)
        )
    }
}

/// Median, least and greatest.
fn spread(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    format!(
        "{median:.2} ({:.2} to {:.2})",
        values[0],
        values[values.len() - 1]
    )
}
