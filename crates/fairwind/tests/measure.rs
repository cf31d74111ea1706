//! `fairwind measure` as its users meet it: its sink, and paths of the lab.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use fairwind_cc::kernel::check_requirements;
use fairwind_testing::{eventually, permitted};
use serde_json::Value;

use crate::everybody::Everybody;
use crate::turn::in_the_lab;

const FAIRWIND: &str = env!("CARGO_BIN_EXE_fairwind");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn measure(arguments: &[&str]) -> Output {
    let mut command = Command::new(FAIRWIND);
    command.arg("measure").args(arguments).output().unwrap()
}

/// A sink of this test.
struct Sink {
    child: Child,
    address: String,
}

impl Sink {
    fn start() -> Sink {
        let mut child = Command::new(FAIRWIND)
            .args(["measure", "--sink", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("sink at ").unwrap().to_owned();
        Sink { child, address }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_sink_takes_what_comes_from_four_connections_of_a_client() {
    let sink = Sink::start();
    let mut streams: Vec<TcpStream> = (0..4)
        .map(|_| TcpStream::connect(&sink.address).unwrap())
        .collect();
    for stream in &mut streams {
        stream.write_all(&vec![7; 10 << 20]).unwrap();
    }
    let closed = |stream: &TcpStream| {
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let mut byte = [0];
        matches!(std::io::Read::read(&mut &*stream, &mut byte), Ok(0))
    };
    assert!(!closed(&streams[0]));
    let fifth = TcpStream::connect(&sink.address).unwrap();
    assert!(closed(&fifth));
    drop(streams);
    // There is room again once it has noticed that the others are gone.
    assert!(eventually(|| !closed(
        &TcpStream::connect(&sink.address).unwrap()
    )));
}

#[test]
fn what_contradicts_itself_is_refused() {
    for arguments in [
        &["--sink", "127.0.0.1:0", "--json"][..],
        &[],
        &["127.0.0.1:0"],
    ] {
        let output = measure(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
}

#[test]
fn without_privileges_it_says_which_it_needs() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let everybody = Everybody::new();
    let output = everybody
        .command()
        .args(["measure", &address])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.contains("not permitted to load eBPF: run as root, or with"),
        "{error}"
    );
    assert!(
        error.contains("CAP_NET_ADMIN") && error.contains("CAP_BPF"),
        "{error}"
    );
}

#[test]
fn nobody_at_the_other_end_is_told() {
    if !permitted(check_requirements()) {
        return;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let output = measure(&[&address]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.contains(&address) && error.contains("refused"),
        "{error}"
    );
}

/// The lines of a measurement behind a path of the lab, as JSON.
fn behind(path: &[&str], server: &str, client: &str) -> Vec<Value> {
    let output = Command::new(FAIRWIND)
        .args(["lab", "exec"])
        .args(path)
        .args(["--server", server, "--", "sh", "-c", client])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    // The sink prints its address.
    lines
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

#[test]
fn an_idle_link_is_measured_on_the_running_kernel() {
    let Some(_turn) = in_the_lab() else { return };
    if !permitted(check_requirements()) {
        return;
    }
    let lines = behind(
        &[
            "--bandwidth",
            "50Mbit/s",
            "--delay",
            "10ms",
            "--queue",
            "200pkt",
        ],
        &format!("{FAIRWIND} measure --sink 0.0.0.0:4009"),
        &format!("sleep 0.5; {FAIRWIND} measure $FAIRWIND_PEER --duration 4s"),
    );
    assert!(lines.len() > 30, "{} lines", lines.len());
    let result = lines.last().unwrap();
    assert_eq!(result["result"], true);
    let mbps = |name: &str| result[name].as_f64().unwrap_or_else(|| panic!("{result}"));
    assert!((47.0..=53.0).contains(&mbps("capacity_mbps")), "{result}");
    assert!((45.0..=53.0).contains(&mbps("available_mbps")), "{result}");
    assert!((20.0..=25.0).contains(&mbps("min_rtt_ms")), "{result}");
}
