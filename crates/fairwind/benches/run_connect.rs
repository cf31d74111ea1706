//! How much longer `connect` takes in a `fairwind run` without rights and without an agent.
//!
//! In a network namespace of its own, over loopback. This program is run again as another user, which connects, alone and in
//! a run, by turns; the first process accepts.
//!
//! `cargo bench -p fairwind --bench run_connect`. Needs root. `TURNS` is the number of turns, 20 by default.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_kernel::{NamespaceType, unshare};
use fairwind_testing::copy_program;

const ADDRESS: &str = "127.0.0.1:7000";
const CONNECTS: &str = "connects";
/// Calls of a turn, of which the first ones do not count.
const CALLS: usize = 2_200;
const WARM_UP: usize = 200;
/// `nobody`.
const OTHER: u32 = 65_534;

fn main() {
    if std::env::args().any(|argument| argument == CONNECTS) {
        return connect();
    }
    if let Err(reason) = fairwind_testing::root() {
        eprintln!("skipped: {reason}");
        return;
    }
    let turns = std::env::var("TURNS").map_or(20, |turns| turns.parse().expect("a number"));
    unshare(NamespaceType::Network).unwrap();
    fairwind_testing::bring_loopback_up();
    let listener = TcpListener::bind(ADDRESS).unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let _ = connection.unwrap().read(&mut [0]);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let [fairwind, own] = ["fairwind", "own"].map(|name| folder.path().join(name));
    copy_program(Path::new(env!("CARGO_BIN_EXE_fairwind")), &fairwind);
    copy_program(&std::env::current_exe().unwrap(), &own);
    let own = own.to_str().unwrap();
    let run = |options: &[&str]| {
        let run = ["run", "--quiet", "--agent", "/nonexistent"];
        let mut command = Command::new(&fairwind);
        command.args(run).args(options).args(["--", own, CONNECTS]);
        turn(command)
    };
    let alone = || {
        let mut command = Command::new(own);
        command.arg(CONNECTS);
        turn(command)
    };
    let mut series: [Vec<f64>; 3] = Default::default();
    for number in 0..turns {
        let kinds: [&dyn Fn() -> f64; 3] = [
            &alone,
            &|| run(&["--control", "reno", "--limit", "10Gbit/s"]),
            &|| run(&["--background"]),
        ];
        for at in 0..3 {
            // Each goes first at times.
            let at = (at + number) % 3;
            series[at].push(kinds[at]());
        }
    }
    let names = [
        "`connect` alone",
        "with `--control reno --limit 10Gbit/s`",
        "with `--background`",
    ];
    println!("| | median, µs | least and greatest of {turns} turns, µs |");
    println!("|---|---:|---:|");
    for (name, mut series) in names.into_iter().zip(series) {
        series.sort_by(f64::total_cmp);
        let (least, median, greatest) = (series[0], series[turns / 2], series[turns - 1]);
        println!("| {name} | {median:.1} | {least:.1} to {greatest:.1} |");
    }
}

/// What the command prints.
fn turn(mut command: Command) -> f64 {
    command
        .uid(OTHER)
        .gid(OTHER)
        .current_dir("/")
        .stderr(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// Prints the median of the calls' times, microseconds.
fn connect() {
    let mut times: Vec<Duration> = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        let mut stream = TcpStream::connect(ADDRESS).unwrap();
        times.push(began.elapsed());
        // The next one finds room in the listening socket's queue.
        stream.write_all(&[0]).unwrap();
        let _ = stream.read(&mut [0]);
    }
    let mut times = times.split_off(WARM_UP);
    times.sort_unstable();
    println!("{:.1}", times[times.len() / 2].as_secs_f64() * 1e6);
}
