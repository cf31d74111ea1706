//! The roles of this binary as a program of a command flow, instead of the tests.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use fairwind_lab::application::{Command, FlowPlan};
use fairwind_path::units;

use super::{Lab, link, plan};

const ROLE: &str = "FAIRWIND_TEST_ROLE";
const PORT: u16 = 7000;

/// The command line that starts this binary in a role.
pub(crate) fn command(role: &str) -> String {
    let me = std::env::current_exe().unwrap();
    format!(
        "{ROLE}='{role}' exec {} --exact lab::role::plays_its_role --nocapture",
        me.display()
    )
}

#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["source", to, bytes] => source(to, bytes.parse().unwrap()),
        ["watched_source", to, bytes] => watched_source(to, bytes.parse().unwrap()),
        ["sink"] => sink(),
        ["lab", mark] => lab(mark),
        _ => panic!("no such role: {role}"),
    }
}

/// Sends this number of bytes, and waits until the peer has them.
fn source(to: &str, bytes: usize) {
    let mut socket = TcpStream::connect((to, PORT)).unwrap();
    socket.write_all(&vec![0; bytes]).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    socket.read_exact(&mut [0]).unwrap();
    println!("sent {bytes} bytes");
}

/// Sends this number of bytes, and keeps printing the congestion control of its connection.
fn watched_source(to: &str, bytes: usize) {
    let mut socket = TcpStream::connect((to, PORT)).unwrap();
    let watched = socket.try_clone().unwrap();
    std::thread::spawn(move || {
        loop {
            println!("control {}", super::control_of(watched.as_raw_fd()));
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    socket.write_all(&vec![0; bytes]).unwrap();
}

/// Reads one connection to its end; listens after a while.
fn sink() {
    std::thread::sleep(Duration::from_millis(200));
    let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    let mut bytes = 0;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match socket.read(&mut buffer).unwrap() {
            0 => break,
            len => bytes += len,
        }
    }
    println!("received {bytes} bytes");
    socket.write_all(&[0]).unwrap();
}

/// A lab whose flow's programs sleep until the process is killed.
fn lab(mark: &str) {
    let lab = Lab::start(link(50, 1));
    let folder = tempfile::tempdir().unwrap();
    let sleepers = Command {
        client: format!("sleep {mark} & sleep {mark}").into(),
        server: None,
        output: folder.path().to_owned(),
    };
    let flow = FlowPlan {
        port: 0,
        ..plan(&lab, sleepers)
    };
    lab.run_one(flow, units::Duration::ZERO, units::Duration::from_secs(60));
}
