//! `fairwind measure` as its users meet it: its sink, and paths of the lab.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use fairwind_cc::kernel::check_requirements;
use fairwind_testing::{eventually, free_address, install_root, or_skip, permitted};
use serde_json::Value;

use crate::everybody::Everybody;
use crate::serve::{NOBODY, Service, fairwind};
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
    let closed_within = |stream: &TcpStream, patience: Duration| {
        stream.set_read_timeout(Some(patience)).unwrap();
        let mut byte = [0];
        matches!(std::io::Read::read(&mut &*stream, &mut byte), Ok(0))
    };
    let fifth = TcpStream::connect(&sink.address).unwrap();
    assert!(closed_within(&fifth, Duration::from_secs(30)));
    assert!(!closed_within(&streams[0], Duration::from_millis(200)));
    drop(streams);
    // There is room again once it has noticed that the others are gone.
    assert!(eventually(|| {
        let next = TcpStream::connect(&sink.address).unwrap();
        !closed_within(&next, Duration::from_millis(200))
    }));
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
    let address = free_address().to_string();
    let output = measure(&[&address]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.contains(&address) && error.contains("refused"),
        "{error}"
    );
}

/// What a shell does until somebody listens at this port of the peer.
fn once_listens(port: u16) -> String {
    format!(
        "until bash -c \"exec 3<>/dev/tcp/$FAIRWIND_PEER/{port}\" 2>/dev/null; do sleep 0.1; done; "
    )
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
        &format!(
            "{listening}{FAIRWIND} measure $FAIRWIND_PEER --duration 4s",
            listening = once_listens(4009)
        ),
    );
    assert!(lines.len() > 30, "{} lines", lines.len());
    let result = lines.last().unwrap();
    assert_eq!(result["result"], true);
    let mbps = |name: &str| result[name].as_f64().unwrap_or_else(|| panic!("{result}"));
    assert!((47.0..=53.0).contains(&mbps("capacity_mbps")), "{result}");
    assert!((45.0..=53.0).contains(&mbps("available_mbps")), "{result}");
    assert!((20.0..=25.0).contains(&mbps("min_rtt_ms")), "{result}");
}

#[test]
fn a_policer_s_rate_is_what_a_path_has_and_random_losses_are_none() {
    let Some(_turn) = in_the_lab() else { return };
    if !permitted(check_requirements()) {
        return;
    }
    let result = |set: &str| {
        let lines = behind(
            &["--bandwidth", "20Mbit/s", "--delay", "10ms", "--set", set],
            &format!("{FAIRWIND} measure --sink 0.0.0.0:4009"),
            &format!(
                "{listening}{FAIRWIND} measure $FAIRWIND_PEER --duration 6s",
                listening = once_listens(4009)
            ),
        );
        lines.last().unwrap().clone()
    };
    let policed = result("policer={rate=\"8Mbit/s\",burst=\"20kB\"}");
    assert_eq!(policed["policed"], true, "{policed}");
    for name in ["available_mbps", "capacity_mbps"] {
        let mbps = policed[name].as_f64().unwrap();
        assert!((7.4..=8.4).contains(&mbps), "{policed}");
    }
    let lossy = result("loss=1%");
    assert!(lossy["policed"].is_null(), "{lossy}");
    let mbps = lossy["capacity_mbps"].as_f64().unwrap();
    assert!((17.0..=22.0).contains(&mbps), "{lossy}");
}

#[test]
fn an_ftp_server_with_write_rights_is_a_sink_and_keeps_nothing() {
    let Some(_turn) = in_the_lab() else { return };
    if !permitted(check_requirements()) {
        return;
    }
    let there = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(there.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let folder = there.path().to_str().unwrap();
    let lines = behind(
        &["--bandwidth", "20Mbit/s", "--delay", "5ms"],
        &format!(
            "FAIRWIND_FTP_PASSWORD=secret {FAIRWIND} serve {folder} --listen 0.0.0.0:2121 --user alice"
        ),
        &format!(
            "{}{FAIRWIND} measure ftp://alice:secret@$FAIRWIND_PEER:2121 --duration 3s",
            once_listens(2121)
        ),
    );
    let result = lines.last().unwrap();
    let mbps = result["available_mbps"].as_f64();
    let mbps = mbps.unwrap_or_else(|| panic!("{result}"));
    assert!((18.0..=21.0).contains(&mbps), "{result}");
    let left: Vec<_> = std::fs::read_dir(there.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn vsftpd_is_a_sink_and_keeps_nothing() {
    if !permitted(check_requirements()) {
        return;
    }
    let Some(root) = or_skip(install_root("vsftpd")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let pub_folder = folder.path().join("pub");
    std::fs::create_dir(&pub_folder).unwrap();
    let port = free_address().port();
    let settings = format!(
        "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\n\
         run_as_launching_user=YES\nftp_username=nobody\nanonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\n\
         anon_root={root}\nanon_upload_enable=YES\nanon_other_write_enable=YES\n\
         anon_world_readable_only=NO\nsecure_chroot_dir={root}\nseccomp_sandbox=NO\n",
        root = folder.path().display(),
    );
    let configuration = folder.path().join("vsftpd.conf");
    std::fs::write(&configuration, settings).unwrap();
    let mut server = Command::new(root.join("usr/sbin/vsftpd"))
        .arg(&configuration)
        .spawn()
        .unwrap();
    let there = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
    assert!(eventually(there));
    let url = format!("ftp://127.0.0.1:{port}/pub");
    let output = measure(&[&url, "--duration", "1s", "--bytes", "20MB"]);
    server.kill().unwrap();
    server.wait().unwrap();
    // Loopback may be too fast to tell its rate, but what was sent has arrived.
    let lines = text(&output.stdout);
    let error = text(&output.stderr);
    let result: Value = serde_json::from_str(lines.lines().last().expect(&error)).unwrap();
    assert!(result["bytes"].as_u64().unwrap() > 100_000, "{result}");
    assert!(!error.contains("is left"), "{error}");
    let left: Vec<_> = std::fs::read_dir(&pub_folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_ftp_server_that_refuses_the_file_is_told() {
    if !permitted(check_requirements()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let service = Service::by(&mut fairwind(&[
        folder.path().to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
    ]));
    let output = measure(&[&service.url]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.contains("refused STOR fairwind-measure-") && error.contains("550"),
        "{error}"
    );
}

/// What `measure` says of a service that does this with its one connection.
fn measured_at(serve: impl FnOnce(TcpStream) + Send + 'static) -> Output {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("discard://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || serve(listener.accept().unwrap().0));
    let output = measure(&[&url, "--duration", "2s"]);
    server.join().unwrap();
    output
}

#[test]
fn a_service_that_closes_at_once_or_never_reads_is_told() {
    if !permitted(check_requirements()) {
        return;
    }
    let closed = measured_at(drop);
    assert_eq!(closed.status.code(), Some(1));
    let error = text(&closed.stderr);
    assert!(
        error.contains("reset by peer") || error.contains("Broken pipe"),
        "{error}"
    );
    let never_read = measured_at(|stream| {
        std::thread::sleep(Duration::from_secs(3));
        drop(stream);
    });
    assert_eq!(never_read.status.code(), Some(1));
    let error = text(&never_read.stderr);
    assert!(error.contains("the receiver's window is full"), "{error}");
}

/// The last line of a measurement behind a link of 20 Mbit/s, of a service that does this with each connection, in Python;
/// and what the client says after it.
fn measured_behind_a_link(does: &str, then: &str) -> Vec<Value> {
    let server = format!(
        "/usr/bin/python3 -c \"
import socket
server = socket.create_server(('0.0.0.0', 4009))
kept = []
while True:
    c = server.accept()[0]
    kept.append(c)
{does}\""
    );
    let client = format!(
        "{}{FAIRWIND} measure $FAIRWIND_PEER --duration 3s; {then}",
        once_listens(4009)
    );
    behind(
        &["--bandwidth", "20Mbit/s", "--delay", "10ms"],
        &server,
        &client,
    )
}

#[test]
fn a_service_that_has_ended_its_own_direction_is_measured_and_nothing_is_sent_afterwards() {
    let Some(_turn) = in_the_lab() else { return };
    if !permitted(check_requirements()) {
        return;
    }
    let lines = measured_behind_a_link(
        "    c.shutdown(socket.SHUT_WR)\n    while c.recv(1 << 16): pass",
        "echo \"{\\\"left\\\": \\\"$(ss -tnH state fin-wait-1 dst $FAIRWIND_PEER | tr -d '\\n')\\\"}\"",
    );
    let [.., result, left] = &lines[..] else {
        panic!("{lines:?}");
    };
    let mbps = result["available_mbps"].as_f64().unwrap_or_default();
    assert!((18.0..22.0).contains(&mbps), "{result}");
    assert_eq!(left["left"], "");
}

#[test]
fn a_service_that_does_not_read_is_told_from_a_path_that_is_slow() {
    let Some(_turn) = in_the_lab() else { return };
    if !permitted(check_requirements()) {
        return;
    }
    let lines = measured_behind_a_link("    pass", "true");
    let said = lines.last().unwrap()["unknown"].as_str().unwrap();
    assert!(said.contains("the receiver's window is full"), "{said}");
}

#[test]
fn the_advisor_takes_a_result() {
    let Some(_turn) = in_the_lab() else { return };
    if !permitted(check_requirements()) {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let client = format!(
        "export STATE_DIRECTORY={}
         {FAIRWIND} advisor paths add lab $FAIRWIND_PEER >/dev/null
         timeout 30 {FAIRWIND} advisor 2>/dev/null &
         until curl -sf -o /dev/null http://127.0.0.1:8649/healthz; do sleep 0.1; done
         {}{FAIRWIND} measure $FAIRWIND_PEER --duration 2s --report || exit
         {FAIRWIND} history $FAIRWIND_PEER --json | tr -d '\\n'
         kill %1",
        state.path().display(),
        once_listens(4009)
    );
    let lines = behind(
        &["--bandwidth", "20Mbit/s", "--delay", "10ms"],
        &format!("{FAIRWIND} measure --sink 0.0.0.0:4009"),
        &client,
    );
    let [.., result, history] = &lines[..] else {
        panic!("{lines:?}");
    };
    let sample = &history["hops"][0]["samples"][0];
    assert_eq!(result["result"], true);
    let mbps = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{history}"));
    let (told, kept) = (&result["available_mbps"], &sample["available_mbps"]);
    assert!((mbps(told) - mbps(kept)).abs() < 0.1, "{result}, {history}");
}
