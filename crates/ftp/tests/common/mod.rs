//! This project's server, in this process or in another, and a client that sends exactly what a test says.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairwind_ftp::assembly::bind_server;
use fairwind_ftp::protocol::host_port::{parse_epsv_reply, parse_passive_reply};
use fairwind_ftp::protocol::reply::{Reply, ReplyReader};
use fairwind_ftp::server::{Config, Reload, Stop, UserConfig, hash_password};
use socket2::{Domain, Socket, Type};

/// Longer than anything in these tests takes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The hash of `secret`.
static SECRET: LazyLock<String> = LazyLock::new(|| hash_password("secret").unwrap());

/// Serves `dir` on a free loopback port to anonymous users and to `alice`, who may write.
pub(crate) fn config(dir: &Path) -> Config {
    let mut config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        users: vec![UserConfig {
            name: "alice".into(),
            password: SECRET.clone(),
            write: true,
            ..UserConfig::default()
        }],
        ..Config::new(dir)
    };
    config.limits.login_pause_ms = 0;
    config
}

/// A server in a thread, stopped when dropped.
pub(crate) struct Running {
    pub address: SocketAddr,
    /// That of implicit TLS, if it was configured.
    pub tls_address: Option<SocketAddr>,
    pub reload: Reload,
    pub dir: tempfile::TempDir,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        change(&mut config);
        let server = bind_server(config).unwrap();
        let (address, stop) = (server.address().unwrap(), Stop::default());
        let (tls_address, reload) = (server.tls_address().unwrap(), server.reload());
        let asked = stop.clone();
        let thread = std::thread::spawn(move || server.run(&asked).unwrap());
        Self {
            address,
            tls_address,
            reload,
            dir,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn stop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The control connection of a client that sends only what the test says.
pub(crate) struct Client {
    pub stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Client {
    /// Connects and reads the greeting.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let (client, greeting) = Self::greeted(address);
        assert_eq!(greeting.code, 220);
        client
    }

    pub(crate) fn greeted(address: SocketAddr) -> (Self, Reply) {
        Self::on(TcpStream::connect(address).unwrap())
    }

    /// Connects from a given loopback address.
    pub(crate) fn from(own: impl Into<IpAddr>, address: SocketAddr) -> (Self, Reply) {
        Self::on(connect_from(own, address))
    }

    fn on(stream: TcpStream) -> (Self, Reply) {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let lines = BufReader::with_capacity(512, stream.try_clone().unwrap());
        let mut client = Self { stream, lines };
        let greeting = client.reply();
        (client, greeting)
    }

    pub(crate) fn anonymous(server: &Running) -> Self {
        let mut client = Self::connect(server.address);
        client.login("anonymous", "me@example.org");
        client
    }

    pub(crate) fn alice(server: &Running) -> Self {
        let mut client = Self::connect(server.address);
        client.login("alice", "secret");
        client
    }

    pub(crate) fn login(&mut self, name: &str, password: &str) {
        self.expect(&format!("USER {name}"), 331);
        self.expect(&format!("PASS {password}"), 230);
        self.expect("TYPE I", 200);
    }

    /// Sends raw bytes.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn reply(&mut self) -> Reply {
        let mut reader = ReplyReader::default();
        loop {
            let line = self.line();
            let line = line.strip_suffix(b"\r\n").unwrap();
            if let Some(reply) = reader.take(line).unwrap() {
                return reply;
            }
        }
    }

    fn line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        let count = self.lines.read_until(b'\n', &mut line).unwrap();
        assert_ne!(count, 0, "the server has closed");
        line
    }

    /// Sends a line of any bytes; returns the reply as it comes.
    pub(crate) fn exchange(&mut self, line: &[u8]) -> Vec<u8> {
        self.raw(&[line, b"\r\n"].concat());
        let mut reply = Vec::new();
        loop {
            let line = self.line();
            reply.extend_from_slice(&line);
            if line[..3].iter().all(u8::is_ascii_digit) && line[3] == b' ' {
                return reply;
            }
        }
    }

    pub(crate) fn say(&mut self, line: &str) -> Reply {
        self.raw(format!("{line}\r\n").as_bytes());
        self.reply()
    }

    pub(crate) fn expect(&mut self, line: &str, code: u16) -> Reply {
        let reply = self.say(line);
        assert_eq!(reply.code, code, "{line}: {reply}");
        reply
    }

    /// Whether the server has closed the control connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.lines.read(&mut [0]), Ok(0) | Err(_))
    }

    /// The address in the server's reply to PASV.
    pub(crate) fn passive_address(&mut self) -> SocketAddr {
        parse_passive_reply(&self.expect("PASV", 227).text()).unwrap()
    }

    /// A data connection from the address of this client.
    pub(crate) fn passive(&mut self) -> TcpStream {
        let own = self.stream.local_addr().unwrap().ip();
        connect_from(own, self.passive_address())
    }

    pub(crate) fn extended_passive(&mut self) -> TcpStream {
        let port = parse_epsv_reply(&self.expect("EPSV", 229).text()).unwrap();
        let mut address = self.stream.peer_addr().unwrap();
        address.set_port(port);
        data(address)
    }

    /// The data that `command` sends over a passive data connection.
    pub(crate) fn fetch(&mut self, command: &str) -> Vec<u8> {
        let mut data = self.passive();
        self.expect(command, 150);
        let mut content = Vec::new();
        data.read_to_end(&mut content).unwrap();
        assert_eq!(self.reply().code, 226);
        content
    }

    /// Sends bytes for `command` over a passive data connection; returns the final reply.
    pub(crate) fn give(&mut self, command: &str, content: &[u8]) -> Reply {
        let mut data = self.passive();
        self.expect(command, 150);
        data.write_all(content).unwrap();
        drop(data);
        self.reply()
    }
}

/// The loopback address with this number.
pub(crate) fn loopback(number: usize) -> IpAddr {
    IpAddr::from(Ipv4Addr::from_bits(0x7f01_0000 + number as u32))
}

/// A loopback address that no other test uses.
pub(crate) fn own_address() -> IpAddr {
    static SERVERS: AtomicUsize = AtomicUsize::new(0);
    let number = 16 * std::process::id() as usize + SERVERS.fetch_add(1, Ordering::Relaxed);
    loopback(0x10_0000 + number % 0x10_0000)
}

/// A connection from a given loopback address.
pub(crate) fn connect_from(own: impl Into<IpAddr>, to: SocketAddr) -> TcpStream {
    try_connect_from(own, to).unwrap()
}

/// The same, where nobody may be listening.
pub(crate) fn try_connect_from(
    own: impl Into<IpAddr>,
    to: SocketAddr,
) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(own.into(), 0).into())?;
    socket.connect_timeout(&to.into(), TIMEOUT)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    Ok(socket.into())
}

pub(crate) fn data(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// A listening socket of a client, and its address in the format of PORT.
pub(crate) fn listening(address: &str) -> (TcpListener, String) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let SocketAddr::V4(at) = listener.local_addr().unwrap() else {
        panic!("IPv4 only");
    };
    (listener, fairwind_ftp::protocol::host_port::format_port(at))
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < TIMEOUT, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `count` pseudo-random bytes.
pub(crate) fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

/// A server in a separate process, which can be killed and measured.
pub(crate) struct Process {
    pub child: Child,
    pub address: SocketAddr,
    /// Kept open: after a minute the test program reports that its test is still running, and would be ended
    /// if nobody read that.
    _said: Option<BufReader<ChildStdout>>,
}

const ROOT: &str = "FAIRWIND_FTP_TEST_ROOT";

/// The text of the server's configuration file.
const SETTINGS: &str = "FAIRWIND_FTP_TEST_SETTINGS";

/// Serves until killed.
#[test]
#[ignore = "a role of this program, not a test"]
fn a_server() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    fairwind_kernel::raise_descriptor_limit();
    let mut config = config(Path::new(&root));
    config.limits.sessions_per_address = 2_000;
    config
        .read(&std::env::var(SETTINGS).unwrap_or_default())
        .unwrap();
    let server = bind_server(config).unwrap();
    println!("\nserving {}", server.address().unwrap());
    server.run(&Stop::default()).unwrap();
}

impl Process {
    /// Serves `root`.
    pub(crate) fn start(root: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(ROLE);
        Self::spawn(command, root)
    }

    /// Serves `root` with this configuration.
    pub(crate) fn with_settings(root: &Path, settings: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(ROLE).env(SETTINGS, settings);
        Self::spawn(command, root)
    }

    /// A value from `/proc/PID/status`, such as VmRSS and VmHWM, KiB.
    pub(crate) fn kib(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Bytes that its system calls have read so far, from files and from anywhere else.
    pub(crate) fn bytes_read(&self) -> u64 {
        let path = format!("/proc/{}/io", self.child.id());
        let counters = std::fs::read_to_string(path).unwrap();
        let line = counters
            .lines()
            .find_map(|line| line.strip_prefix("rchar: "));
        line.unwrap().parse().unwrap()
    }

    /// Number of open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        self.open_files().count()
    }

    /// Number of its descriptors while nobody is there. Somebody was: it may have said where it is before it had them all.
    pub(crate) fn own_descriptors(&self) -> usize {
        drop(Client::connect(self.address));
        eventually("nobody is there", || self.sockets() == 1);
        self.descriptors()
    }

    /// Number of open TCP sockets, connected or listening.
    pub(crate) fn sockets(&self) -> usize {
        let tables = ["tcp", "tcp6"].map(|table| {
            let path = format!("/proc/{}/net/{table}", self.child.id());
            std::fs::read_to_string(path).unwrap_or_default()
        });
        let lines = tables.iter().flat_map(|table| table.lines().skip(1));
        let inodes = lines.filter_map(|line| line.split_whitespace().nth(9));
        let links: HashSet<String> = inodes.map(|inode| format!("socket:[{inode}]")).collect();
        self.open_files()
            .filter(|link| links.contains(&*link.to_string_lossy()))
            .count()
    }

    /// The targets of the links in `/proc/PID/fd`.
    pub(crate) fn open_files(&self) -> impl Iterator<Item = PathBuf> {
        let path = format!("/proc/{}/fd", self.child.id());
        let entries = std::fs::read_dir(path).unwrap();
        entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
    }

    /// Serves `root` from a private file system of `size` (as in tmpfs(5)). Needs root.
    pub(crate) fn start_in_small_room(root: &Path, size: &str) -> Self {
        let mut command = Command::new("unshare");
        let script =
            format!("mount -t tmpfs -o size={size} none \"${ROOT}\" && exec \"$0\" \"$@\"");
        command.args(["--mount", "sh", "-c", &script]);
        command.arg(std::env::current_exe().unwrap()).args(ROLE);
        Self::spawn(command, root)
    }

    fn spawn(mut command: Command, root: &Path) -> Self {
        Self::telling(command.env(ROOT, root))
    }

    /// A server that prints `serving ADDRESS` when it listens.
    pub(crate) fn telling(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let address = (&mut said)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("serving ")?.parse().ok())
            .expect("the server says where it is");
        Self {
            child,
            address,
            _said: Some(said),
        }
    }

    /// A server that is configured to listen at this address.
    pub(crate) fn at(address: SocketAddr, command: &mut Command) -> Self {
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        let process = Self {
            child,
            address,
            _said: None,
        };
        eventually("the server listens", || TcpStream::connect(address).is_ok());
        process
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const ROLE: [&str; 4] = ["--exact", "common::a_server", "--ignored", "--nocapture"];

/// Whether a test that needs `what` can run.
#[track_caller]
pub(crate) fn permitted(what: &str, there: bool) -> bool {
    fairwind_testing::permitted(
        there
            .then_some(())
            .ok_or_else(|| format!("{what} is missing")),
    )
}
