//! Download rates on loopback of this server, vsftpd and ProFTPD: pairs of consecutive runs, in alternating
//! order, in a network namespace (root). The client is bound to one processor, the servers to another.
//!
//! `cargo bench -p fairwind-ftp --bench download [-- PAIRS [MIB [CONTROL]]]`, CONTROL being the congestion
//! control of all of them. `scripts/setup test` unpacks what is not installed.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fairwind_ftp::assembly::bind_server;
use fairwind_ftp::protocol::host_port::parse_passive_reply;
use fairwind_ftp::server::{Config, Stop};
use fairwind_testing::{install_root, keep_to, proftpd_modules};

const PAIRS: usize = 15;
const MIB: u64 = 1024;
const CONTROL: &str = "cubic";

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|text| text != "--bench")
        .collect();
    if let [role, root, port] = &arguments[..]
        && role == "serve"
    {
        return serve(Path::new(root), port.parse().unwrap());
    }
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok());
    let pairs = number(0).unwrap_or(PAIRS as u64) as usize;
    let mib = number(1).unwrap_or(MIB);
    let control = arguments.get(2).map_or(CONTROL, String::as_str);
    // In memory, so that the disk plays no part.
    let room = if Path::new("/dev/shm").is_dir() {
        "/dev/shm"
    } else {
        "/tmp"
    };
    let dir = tempfile::Builder::new().tempdir_in(room).unwrap();
    open_to_all(dir.path());
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    open_to_all(&root);
    let mut file = fs::File::create(root.join("x")).unwrap();
    for block in 0..mib {
        file.write_all(&vec![block as u8; 1 << 20]).unwrap();
    }
    drop(file);

    own_network(control);
    // Without pinning, most of the variation between runs would come from the scheduler.
    keep_to(1);
    println!("{pairs} pairs of {mib} MiB each, congestion control {control}");
    let ours = ours(&root);
    let others = [vsftpd(dir.path(), &root), proftpd(dir.path(), &root)];
    keep_to(0);
    for other in others {
        match other {
            Ok(other) => compare(&ours, &other, pairs, mib << 20),
            Err(reason) => println!("{reason}"),
        }
    }
}

/// A private loopback with one congestion control for all connections. It is set by the route, because the
/// sysctl of a namespace accepts only the congestion controls that are open to every user.
fn own_network(control: &str) {
    // SAFETY: no other thread exists yet that could depend on the namespace that this call leaves.
    let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(moved, 0, "a network namespace needs root");
    let route = format!(
        "route replace local 127.0.0.1 dev lo table local proto kernel scope host src 127.0.0.1 congctl {control}"
    );
    for words in ["link set lo up", &route] {
        let done = Command::new("ip").args(words.split(' ')).status();
        assert!(done.unwrap().success(), "ip {words}");
    }
}

struct Peer {
    name: &'static str,
    child: Child,
    address: SocketAddr,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(root: &Path, port: u16) {
    let config = Config {
        listen: SocketAddr::from(([127, 0, 0, 1], port)),
        ..Config::new(root)
    };
    bind_server(config).unwrap().run(&Stop::default()).unwrap();
}

fn ours(root: &Path) -> Peer {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let port = free_port();
    command.arg("serve").arg(root).arg(port.to_string());
    started("fairwind", command, port).expect("our own server starts")
}

fn vsftpd(dir: &Path, root: &Path) -> Result<Peer, String> {
    let program = install_root("vsftpd")?.join("usr/sbin/vsftpd");
    let port = free_port();
    let empty = dir.join("empty");
    fs::create_dir(&empty).unwrap();
    let file = dir.join("vsftpd.conf");
    let text = format!(
        "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\nanonymous_enable=YES\n\
         anon_root={}\nsecure_chroot_dir={}\nno_anon_password=YES\nseccomp_sandbox=NO\nuse_sendfile=YES\n\
         xferlog_enable=NO\nftp_username=daemon\n",
        root.display(),
        empty.display()
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new(program);
    command.arg(&file);
    started("vsftpd", command, port)
}

fn proftpd(dir: &Path, root: &Path) -> Result<Peer, String> {
    let room = install_root("proftpd")?;
    let port = free_port();
    let file = dir.join("proftpd.conf");
    let text = format!(
        "ServerType standalone\nDefaultAddress 127.0.0.1\nSocketBindTight on\nPort {port}\nUseIPv6 off\n\
         {2}UseSendfile on\nWtmpLog off\nTransferLog none\nSystemLog none\nUser nobody\nGroup nogroup\nRequireValidShell off\n\
         PidFile {0}/proftpd.pid\nScoreboardFile {0}/proftpd.scores\n\
         <Anonymous {1}>\n  User nobody\n  Group nogroup\n  UserAlias anonymous nobody\n</Anonymous>\n",
        dir.display(),
        root.display(),
        proftpd_modules(&room, &[]),
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new(room.join("usr/sbin/proftpd"));
    command
        .args(["--nodaemon", "--quiet", "--config"])
        .arg(&file);
    started("ProFTPD", command, port)
}

/// The server once it answers; an error if it is not installed or does not answer.
fn started(name: &'static str, mut command: Command, port: u16) -> Result<Peer, String> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command
        .spawn()
        .map_err(|error| format!("{name} cannot be started: {error}"))?;
    let peer = Peer {
        name,
        child,
        address: SocketAddr::from(([127, 0, 0, 1], port)),
    };
    for _ in 0..500 {
        if TcpStream::connect(peer.address).is_ok() {
            return Ok(peer);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!("{name} does not answer"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn compare(ours: &Peer, other: &Peer, pairs: usize, bytes: u64) {
    // Warms up pages, caches and the first fork of each server.
    download(ours, bytes);
    download(other, bytes);
    let mut rates: Vec<(f64, f64)> = Vec::new();
    for pair in 0..pairs {
        rates.push(match pair % 2 {
            0 => {
                let own = download(ours, bytes);
                (own, download(other, bytes))
            }
            _ => {
                let theirs = download(other, bytes);
                (download(ours, bytes), theirs)
            }
        });
    }
    for (own, theirs) in &rates {
        println!("    {own:.2} {theirs:.2}  {:.3}", own / theirs);
    }
    let ratios = quartiles(rates.iter().map(|(own, theirs)| own / theirs).collect());
    println!(
        "{:8} {:6.2} GB/s   {:8} {:6.2} GB/s   ratio {:.3} (quartiles {:.3} to {:.3}, {pairs} pairs)",
        ours.name,
        quartiles(rates.iter().map(|(own, _)| *own).collect())[1],
        other.name,
        quartiles(rates.iter().map(|(_, theirs)| *theirs).collect())[1],
        ratios[1],
        ratios[0],
        ratios[2],
    );
}

/// First quartile, median, third quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

/// GB/s of one download, from the command to the reply.
fn download(peer: &Peer, bytes: u64) -> f64 {
    let stream = TcpStream::connect(peer.address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut control = Control {
        lines: BufReader::new(stream.try_clone().unwrap()),
        stream,
    };
    control.reply();
    for command in ["USER ftp", "PASS x@example.org", "TYPE I"] {
        control.say(command);
    }
    let address = parse_passive_reply(&control.say("PASV")).unwrap();
    let mut data = TcpStream::connect(address).unwrap();
    let mut buffer = vec![0; 256 << 10];
    let begin = Instant::now();
    let opening = control.say("RETR x");
    assert!(opening.starts_with('1'), "{}: {opening}", peer.name);
    let mut got = 0;
    loop {
        match data.read(&mut buffer).unwrap() {
            0 => break,
            count => got += count as u64,
        }
    }
    // ProFTPD replies only after both sides have closed the data connection.
    drop(data);
    assert!(control.reply().starts_with("226"));
    let rate = bytes as f64 / begin.elapsed().as_secs_f64() / 1e9;
    assert_eq!(got, bytes, "{}", peer.name);
    rate
}

struct Control {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Control {
    fn say(&mut self, command: &str) -> String {
        self.stream
            .write_all(format!("{command}\r\n").as_bytes())
            .unwrap();
        self.reply()
    }

    fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.lines.read_line(&mut line).unwrap(),
                0,
                "the server has closed"
            );
            if line.as_bytes().get(3) == Some(&b' ') && line.as_bytes()[0].is_ascii_digit() {
                return line.trim_end().to_owned();
            }
        }
    }
}
