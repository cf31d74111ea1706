//! `fairwind lab exec --host` and networks beyond the machine.
//!
//! The machine of these tests is a network namespace of its own; a link joins it to another, the outside,
//! where a server reports who has called. Needs root.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, TcpListener};
use std::process::{Command, Output};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fairwind_lab::privilege;
use fairwind_testing::{in_new_network_namespace, or_skip, permitted};

const MACHINE: &str = "198.51.100.1";
const OUTSIDE: &str = "198.51.100.2";
const PORT: u16 = 8080;
/// The addresses of labs.
const LABS: &str = "10.77.0.0/16";

/// Runs a command line as an operator would type it.
fn run(line: &str) -> Output {
    let words: Vec<&str> = line.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output();
    output.unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn done(line: &str) {
    let output = run(line);
    assert!(output.status.success(), "{line}: {output:?}");
}

/// The id of this thread, by which `ip` finds its network.
fn thread_number() -> String {
    let link = fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().to_owned()
}

/// A network that is joined to that of the calling thread.
struct Outside {
    /// The addresses of the callers.
    callers: mpsc::Receiver<IpAddr>,
}

impl Outside {
    /// Starts a server that greets everybody. `then` is run there.
    fn join(then: impl FnOnce() + Send + 'static) -> Outside {
        let (tell_number, number) = mpsc::channel();
        let (joined, is_joined) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let (call, callers) = mpsc::channel();
        // It ends with the test's process.
        thread::spawn(move || {
            in_new_network_namespace(move || {
                tell_number.send(thread_number()).unwrap();
                is_joined.recv().unwrap();
                done(&format!("ip address add {OUTSIDE}/24 dev up0"));
                done("ip link set up0 up");
                then();
                let listener = TcpListener::bind((OUTSIDE, PORT)).unwrap();
                ready.send(()).unwrap();
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    call.send(stream.peer_addr().unwrap().ip()).unwrap();
                    stream.write_all(b"hello\n").unwrap();
                }
            });
        });
        let number = number.recv().unwrap();
        done(&format!(
            "ip link add up0 type veth peer name up0 netns {number}"
        ));
        done(&format!("ip address add {MACHINE}/24 dev up0"));
        done("ip link set up0 up");
        joined.send(()).unwrap();
        is_ready.recv().unwrap();
        Outside { callers }
    }

    fn caller(&self) -> String {
        let caller = self.callers.recv_timeout(Duration::from_secs(30));
        caller.unwrap().to_string()
    }
}

fn set_forwarding(word: &str) {
    fs::write("/proc/sys/net/ipv4/ip_forward", word).unwrap();
}

/// Calls the outside from behind a path with this machine at its other end.
fn call(seconds: u32) -> Output {
    let client = format!("exec 3<>/dev/tcp/{OUTSIDE}/{PORT}; head -n1 <&3");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairwind"));
    command.args(["lab", "exec", "--host", "--delay", "30ms", "--"]);
    command.args(["timeout", &seconds.to_string(), "bash", "-c", &client]);
    command.output().unwrap()
}

fn is_greeted_through_the_path() {
    let begun = Instant::now();
    let output = call(30);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"hello\n");
    // The handshake goes there and back.
    assert!(begun.elapsed() >= Duration::from_millis(60));
}

/// Whether the kernel masquerades; the operator's command as docs/reference/lab.md has it.
fn masquerade() -> bool {
    let line = format!("-t nat -A POSTROUTING -s {LABS} ! -o fw+ -j MASQUERADE");
    let page = include_str!("../../../docs/reference/lab.md");
    assert!(page.contains(&format!("iptables {line}\n")), "{line}");
    let output = Command::new("iptables").args(line.split(' ')).output();
    let output = output.map_err(|error| format!("iptables: {error}"));
    let Some(output) = or_skip(output) else {
        return false;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    // Without it, routing is still tested.
    permitted(match output.status.success() {
        true => Ok(()),
        false => Err(format!("this kernel does not masquerade: {}", error.trim())),
    })
}

#[test]
fn what_is_beyond_is_reached_if_the_machine_forwards_and_masquerades() {
    if !permitted(privilege::check()) {
        return;
    }
    in_new_network_namespace(|| {
        let outside = Outside::join(|| {});
        set_forwarding("1");
        if masquerade() {
            is_greeted_through_the_path();
            assert_eq!(outside.caller(), MACHINE);
        }
    });
}

#[test]
fn what_is_beyond_is_reached_if_it_has_a_route_back() {
    if !permitted(privilege::check()) {
        return;
    }
    in_new_network_namespace(|| {
        let outside = Outside::join(|| done(&format!("ip route add {LABS} via {MACHINE}")));
        set_forwarding("1");
        is_greeted_through_the_path();
        assert_eq!(outside.caller(), "10.77.0.1");
    });
}

#[test]
fn what_is_beyond_is_not_reached_if_the_machine_does_not_forward() {
    if !permitted(privilege::check()) {
        return;
    }
    in_new_network_namespace(|| {
        let outside = Outside::join(|| done(&format!("ip route add {LABS} via {MACHINE}")));
        set_forwarding("0");
        // The exit code of `timeout`.
        assert_eq!(call(1).status.code(), Some(124));
        assert!(outside.callers.try_recv().is_err());
        let forwarding = fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap();
        assert_eq!(forwarding, "0\n");
    });
}
