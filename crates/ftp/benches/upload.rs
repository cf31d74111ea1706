//! The cost of having uploads on disk before the client gets the reply (`sync = "uploads"`): pairs of runs
//! with and without it in alternating order; one large file, then many small ones.
//!
//! `cargo bench -p fairwind-ftp --bench upload [-- DIRECTORY [PAIRS]]`; the disk is that of DIRECTORY, by
//! default that of the system's temporary directory.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fairwind_ftp::assembly::bind_server;
use fairwind_ftp::protocol::host_port::parse_passive_reply;
use fairwind_ftp::server::{Config, Stop, SyncPolicy, UserConfig, hash_password};

const PAIRS: usize = 5;
/// Number of files and bytes of each.
const LOADS: [(usize, usize); 2] = [(1, 256 << 20), (100, 64 << 10)];

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|text| text != "--bench")
        .collect();
    let place = arguments
        .first()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let pairs = arguments.get(1).and_then(|text| text.parse().ok());
    let dir = tempfile::tempdir_in(&place).unwrap();
    let [never, uploads] =
        [SyncPolicy::Never, SyncPolicy::Uploads].map(|policy| serve(dir.path(), policy));
    for (count, bytes) in LOADS {
        let mut times = [Vec::new(), Vec::new()];
        for pair in 0..pairs.unwrap_or(PAIRS) {
            for turn in [pair % 2, 1 - pair % 2] {
                // Dirty pages of the previous run must not be written during this one.
                rustix::fs::sync();
                times[turn].push(upload([never, uploads][turn], count, bytes));
            }
        }
        let [without, with] = times.map(median);
        println!(
            "{count} x {} KiB: {without:.3?} without, {with:.3?} with, {:.2?} more for each file",
            bytes >> 10,
            with.saturating_sub(without) / count as u32
        );
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn serve(dir: &Path, sync: SyncPolicy) -> SocketAddr {
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        users: vec![UserConfig {
            name: "alice".into(),
            password: hash_password("secret").unwrap(),
            write: true,
            ..UserConfig::default()
        }],
        sync,
        ..Config::new(dir)
    };
    let server = bind_server(config).unwrap();
    let address = server.address().unwrap();
    std::thread::spawn(move || server.run(&Stop::default()));
    address
}

/// Time for `count` files of `bytes` bytes each, from the first command to the last reply.
fn upload(server: SocketAddr, count: usize, bytes: usize) -> Duration {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut control = Control(BufReader::new(stream));
    control.reply();
    for command in ["USER alice", "PASS secret", "TYPE I"] {
        control.say(command);
    }
    let content = vec![7; bytes];
    let begin = Instant::now();
    for number in 0..count {
        let mut data =
            TcpStream::connect(parse_passive_reply(&control.say("PASV")).unwrap()).unwrap();
        control.say(&format!("STOR {bytes}-{number}"));
        data.write_all(&content).unwrap();
        drop(data);
        let reply = control.reply();
        assert!(reply.starts_with("226"), "{reply}");
    }
    let taken = begin.elapsed();
    for number in 0..count {
        control.say(&format!("DELE {bytes}-{number}"));
    }
    taken
}

struct Control(BufReader<TcpStream>);

impl Control {
    fn say(&mut self, command: &str) -> String {
        write!(self.0.get_mut(), "{command}\r\n").unwrap();
        self.reply()
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
