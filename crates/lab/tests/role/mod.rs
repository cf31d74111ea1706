//! The roles of this binary in a host: source or sink of packets, instead of the tests.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use fairwind_kernel::monotonic_ns;
use fairwind_lab::exec::{self, ExecConfig, Peer};
use fairwind_path::pipe::PipeConfig;

const PORT: u16 = 5001;
const ROLE: &str = "FAIRWIND_TEST_ROLE";
/// Separates the words of a role; none contains it.
const SEPARATOR: char = '|';

/// A datagram that arrived.
pub(crate) struct Arrival {
    pub number: u64,
    pub sent_ns: u64,
    pub received_ns: u64,
}

/// The command line that starts this binary in a role.
pub(crate) fn command(role: &str, words: &[&str]) -> String {
    let me = std::env::current_exe().unwrap();
    let words: String = words
        .iter()
        .map(|word| format!("{SEPARATOR}{word}"))
        .collect();
    format!(
        "{ROLE}='{role}{words}' exec {} --exact role::plays_its_role --nocapture",
        me.display()
    )
}

#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let words: Vec<&str> = role.split(SEPARATOR).collect();
    match words[..] {
        ["datagram_source", peer, count, size, gap_us] => datagram_source(
            peer,
            count.parse().unwrap(),
            size.parse().unwrap(),
            Duration::from_micros(gap_us.parse().unwrap()),
        ),
        ["datagram_sink", file] => datagram_sink(Path::new(file)),
        ["stream_source", peer, bytes] => stream_source(peer, bytes.parse().unwrap()),
        ["stream_sink", file] => stream_sink(Path::new(file)),
        ["control_of_connection", peer, control] => control_of_connection(peer, control),
        ["lab", command] => lab(command),
        ["machine_receives", file] => machine_receives(Path::new(file)),
        ["lab_of_machine", command] => lab_of_machine(command),
        ["lab_of_one_thread", pid_file, command] => lab_of_one_thread(Path::new(pid_file), command),
        _ => panic!("no such role: {role}"),
    }
}

/// Sends numbered datagrams that carry the time of sending, and waits until the last must have
/// arrived.
fn datagram_source(peer: &str, count: u64, size: usize, gap: Duration) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((peer, PORT)).unwrap();
    let mut datagram = vec![0; size];
    for number in 0..count {
        datagram[..8].copy_from_slice(&number.to_ne_bytes());
        datagram[8..16].copy_from_slice(&monotonic_ns().to_ne_bytes());
        // Without a server, the peer's refusal fails the next call, which does not send.
        if socket.send(&datagram).is_err() {
            let _ = socket.send(&datagram);
        }
        std::thread::sleep(gap);
    }
    // Time for the slowest path of the tests.
    std::thread::sleep(Duration::from_millis(500));
}

/// Records each datagram until the lab ends the process.
fn datagram_sink(file: &Path) {
    let mut file = fs::File::create(file).unwrap();
    let socket = UdpSocket::bind(("0.0.0.0", PORT)).unwrap();
    // Room for all datagrams of a test while this process is not scheduled.
    let room: i32 = 64 << 20;
    // SAFETY: the socket is open; the option is an integer that outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const room).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    assert_eq!(done, 0);
    let mut datagram = [0; 2048];
    loop {
        let len = socket.recv(&mut datagram).unwrap();
        assert!(len >= 16);
        let mut line = datagram[..16].to_vec();
        line.extend(monotonic_ns().to_ne_bytes());
        file.write_all(&line).unwrap();
    }
}

/// What a sink has recorded.
pub(crate) fn arrivals(file: &Path) -> Vec<Arrival> {
    let bytes = fs::read(file).unwrap();
    let words = bytes.as_chunks().0.iter();
    let words: Vec<u64> = words.map(|&word| u64::from_ne_bytes(word)).collect();
    let lines = words.as_chunks().0.iter();
    lines
        .map(|&[number, sent_ns, received_ns]| Arrival {
            number,
            sent_ns,
            received_ns,
        })
        .collect()
}

/// Bytes with a long period, so that a lost or displaced one shows.
struct Stream(u64);

impl Stream {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1);
            *byte = (self.0 >> 56) as u8;
        }
    }
}

/// FNV-1a and the number of bytes.
struct Digest(u64, usize);

impl Digest {
    fn new() -> Digest {
        Digest(0xcbf29ce484222325, 0)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100000001b3);
        }
        self.1 += bytes.len();
    }

    fn text(&self) -> String {
        format!("{:016x} {}", self.0, self.1)
    }
}

/// The digest of the first bytes of the stream.
pub(crate) fn stream_digest(len: usize) -> String {
    let mut bytes = vec![0; len];
    Stream(1).fill(&mut bytes);
    let mut digest = Digest::new();
    digest.add(&bytes);
    digest.text()
}

/// Sends the stream and waits until the peer has it all.
fn stream_source(peer: &str, len: usize) {
    let mut bytes = vec![0; len];
    Stream(1).fill(&mut bytes);
    let mut socket = TcpStream::connect((peer, PORT)).unwrap();
    socket.write_all(&bytes).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    socket.read_exact(&mut [0]).unwrap();
}

fn stream_sink(file: &Path) {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    let mut digest = Digest::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match socket.read(&mut buffer).unwrap() {
            0 => break,
            len => digest.add(&buffer[..len]),
        }
    }
    fs::write(file, digest.text()).unwrap();
    socket.write_all(&[0]).unwrap();
}

fn control_of_connection(peer: &str, wanted: &str) {
    let socket = TcpStream::connect((peer, PORT)).unwrap();
    let mut name = [0u8; 16];
    let mut len = name.len() as libc::socklen_t;
    // SAFETY: the socket is open; name and length are written within their bounds.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &mut len,
        )
    };
    assert_eq!(done, 0);
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(16);
    let name = std::str::from_utf8(&name[..end]).unwrap();
    match wanted.strip_suffix('*') {
        Some(beginning) => assert!(name.starts_with(beginning), "{name}"),
        None => assert_eq!(name, wanted),
    }
}

/// Runs a command in a lab, and ends with its exit code.
fn lab(command: &str) {
    let command = ["/bin/sh", "-c", command].map(Into::into).into();
    let outcome = exec::run(&ExecConfig::new(PipeConfig::default(), command));
    std::process::exit(outcome.unwrap().exit_code.into());
}

/// Runs a command in a lab with this machine as the peer, and ends with its exit code.
fn lab_of_machine(command: &str) {
    std::process::exit(run_with_machine(command).into());
}

fn run_with_machine(command: &str) -> u8 {
    let command = ["/bin/sh", "-c", command].map(Into::into).into();
    let outcome = exec::run(&ExecConfig {
        peer: Peer::Machine,
        ..ExecConfig::new(PipeConfig::default(), command)
    });
    outcome.unwrap().exit_code
}

/// In a new network namespace, receives the stream that a command sends from behind a path.
fn machine_receives(file: &Path) {
    // SAFETY: the call takes a number only, and moves this thread alone.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
    let before = network_of_thread();
    let sink = {
        let file = file.to_owned();
        std::thread::spawn(move || stream_sink(&file))
    };
    let listening = format!(":{PORT:04X} 00000000:0000 0A");
    let listens = || {
        let sockets = fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
        sockets.contains(&listening)
    };
    while !listens() && !sink.is_finished() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let own_address = "test $FAIRWIND_PEER = {peer} && ";
    let source = command("stream_source", &["{peer}", "300000"]);
    let code = run_with_machine(&format!("{own_address}{source}"));
    assert_eq!(code, 0);
    sink.join().unwrap();
    // The kernel releases what an io_uring had open a moment after its end.
    let ended = Instant::now();
    while network_of_thread() != before && ended.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(network_of_thread(), before);
}

/// The interfaces, routes and addresses of the calling thread's network.
pub(crate) fn network_of_thread() -> String {
    let table = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap();
    let devices = table("dev");
    let names = devices.lines().filter_map(|line| line.split(':').next());
    let names: Vec<&str> = names.collect();
    let routes = table("route");
    // A namespace that has never had a route has no heading either.
    let routes: Vec<&str> = routes.lines().skip(1).collect();
    format!("{names:?}\n{routes:?}\n{}", table("fib_trie"))
}

/// Runs a lab in a process without the threads of the test harness, which would take its signals.
/// This process ends with the same exit code.
fn lab_of_one_thread(pid_file: &Path, command: &str) {
    // SAFETY: the child does not return into code that relies on other threads.
    match unsafe { libc::fork() } {
        0 => {
            fs::write(pid_file, std::process::id().to_string()).unwrap();
            lab(command);
        }
        child => {
            let mut status = 0;
            // SAFETY: the pointer is to a local integer, which the call writes.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            std::process::exit(libc::WEXITSTATUS(status));
        }
    }
}
