//! How many round trips a transfer over a long path takes. They are counted in the packets that the path
//! carried, as the longest chain in which each packet was sent after the one before had arrived: delays on a
//! busy machine make no chain longer.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{err, read};
use crate::turn::in_the_lab;

/// Three flights of a sender that begins with ten segments of 1448 bytes: 10, 20 and 12 of them.
const LENGTH: u32 = 60_000;

/// Delay of the path, in each direction. No chain is longer than it should be as long as everything that one
/// flight causes is less than a round trip late.
const DELAY_US: u64 = 250_000;

/// Two folders, one for the far end and one for this end, and a file at the far end.
fn two_ends() -> (TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["served", "received"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let bytes: Vec<u8> = (0..LENGTH).map(|n| (n % 251) as u8).collect();
    fs::write(folder.path().join("served/x"), &bytes).unwrap();
    (folder, bytes)
}

/// The round trips of a transfer by `command`, until the server is asked for something else.
fn round_trips(folder: &TempDir, command: &str) -> usize {
    count(carried(folder, command, ""), &["SIZE", "MFMT", "QUIT"])
}

/// The packets of a transfer by `command`, which a shell runs with the program as `$0` and the folder as
/// `$1`, from a server with these flags. Reno's slow start, unlike CUBIC's, does not end when packets are late.
fn carried(folder: &TempDir, command: &str, flags: &str) -> Vec<Packet> {
    let fairwind = env!("CARGO_BIN_EXE_fairwind");
    let served = folder.path().join("served");
    let server = format!(
        "{fairwind} serve {} --user alice --listen 0.0.0.0:21 --no-drs --run-as root {flags}",
        served.display()
    );
    let there = folder.path().join("path.pcapng");
    let back = folder.path().join("path.reverse.pcapng");
    let output = Command::new(fairwind)
        .args(["lab", "exec", "--delay", &format!("{DELAY_US}us")])
        .args(["--congestion-control", "reno", "--server", &server])
        .arg("--capture")
        .arg(&there)
        .args(["--", "sh", "-c", command, fairwind])
        .arg(folder.path())
        .env("FAIRWIND_FTP_PASSWORD", "secret")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let mut carried = packets(&there, End::Far);
    carried.extend(packets(&back, End::Near));
    carried
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Near,
    Far,
}

struct Packet {
    arrives_us: u64,
    at: End,
    /// What tcpdump prints about it.
    text: String,
}

impl Packet {
    fn says(&self, verbs: &[&str]) -> bool {
        let said = self.text.split_once("FTP: ").map(|(_, said)| said);
        said.is_some_and(|said| verbs.iter().any(|verb| said.starts_with(verb)))
    }

    fn is_empty(&self) -> bool {
        self.text.ends_with("length 0")
    }
}

fn packets(capture: &Path, at: End) -> Vec<Packet> {
    let read = Command::new("tcpdump")
        .args(["-n", "-tt", "-r"])
        .arg(capture)
        .args(["tcp"])
        .output()
        .unwrap();
    assert!(read.status.success(), "{}", err(&read));
    let lines = String::from_utf8_lossy(&read.stdout).into_owned();
    lines
        .lines()
        .map(|line| {
            let (time, text) = line.split_once(' ').unwrap();
            Packet {
                arrives_us: time.replace('.', "").parse().unwrap(),
                at,
                text: text.to_owned(),
            }
        })
        .collect()
}

/// Counts from the first command of the transfer to the last packet with payload before the next command, one of `ends`.
fn count(packets: Vec<Packet>, ends: &[&str]) -> usize {
    let sent = |packet: &Packet| packet.arrives_us - DELAY_US;
    let of = |verbs: &[&str], from: u64| {
        let found = packets
            .iter()
            .filter(|packet| packet.at == End::Far && sent(packet) >= from && packet.says(verbs));
        found.map(sent).min().unwrap()
    };
    let begin = of(&["EPSV", "EPRT"], 0);
    // STOR may stand behind ALLO, and RETR behind MODE.
    let asked = of(&["ALLO", "STOR", "RETR", "MODE"], begin);
    let end = of(ends, asked);
    let mut events: Vec<_> = (0..packets.len())
        .filter(|&number| sent(&packets[number]) >= begin)
        .flat_map(|number| {
            let packet = &packets[number];
            [(packet.arrives_us, 0, number), (sent(packet), 1, number)]
        })
        .collect();
    events.sort_unstable();
    // The longest chains known to each end, that of each packet, and that of the last packet with payload.
    let (mut behind, mut trips, mut last) = ([0; 2], vec![0; packets.len()], 0);
    for (_, leaves, number) in events.into_iter().take_while(|event| event.0 < end) {
        let packet = &packets[number];
        let (near, far) = match packet.at {
            End::Near => (0, 1),
            End::Far => (1, 0),
        };
        if leaves == 1 {
            trips[number] = behind[far] + 1;
            continue;
        }
        behind[near] = behind[near].max(trips[number]);
        if packet.at == End::Near && !packet.is_empty() {
            last = trips[number];
        }
    }
    last / 2
}

/// EPSV; SYN and RETR; and three flights.
#[test]
fn a_download_takes_five_round_trips() {
    let Some(_turn) = in_the_lab() else { return };
    let (folder, bytes) = two_ends();
    let get = r#""$0" get ftp://$FAIRWIND_PEER/x "$1/x" --json --checksum off --no-drs"#;
    assert_eq!(round_trips(&folder, get), 5);
    assert!(read(&folder, "x") == bytes);
}

/// The round trips of a download of so many small files from a server with these flags.
fn round_trips_of_files(number: usize, flags: &str) -> usize {
    let (folder, _) = two_ends();
    let served = folder.path().join("served/d");
    fs::create_dir(&served).unwrap();
    for number in 0..number {
        fs::write(served.join(format!("f{number}")), [7; 400]).unwrap();
    }
    let get = r#""$0" get -r ftp://$FAIRWIND_PEER/d/ "$1/received" --json"#;
    let carried = carried(&folder, get, flags);
    let received = fs::read_dir(folder.path().join("received")).unwrap();
    assert_eq!(received.count(), number);
    count(carried, &["QUIT"])
}

/// Three flights of ten, twenty and forty segments have all of them, a block each, and the replies as well.
#[test]
fn thirty_small_files_take_at_most_two_round_trips_more_than_one() {
    let Some(_turn) = in_the_lab() else { return };
    let (many, one) = (round_trips_of_files(30, ""), round_trips_of_files(1, ""));
    assert!((one..=one + 2).contains(&many), "{many} and {one}");
}

/// Those of its data connection: SYN, and RETR with which the checksum and the next file are asked for. A server that asks an
/// advisor, here one that is not there, has each file on a data connection of its own.
#[test]
fn a_further_file_takes_two_round_trips() {
    let Some(_turn) = in_the_lab() else { return };
    let trips = |number| round_trips_of_files(number, "--advisor http://127.0.0.1:1");
    assert_eq!(trips(4) - trips(1), 6);
}

/// That of the handshake of its data connection; that of STOR; that of the bytes, with which size and checksum of what came
/// are asked for; and that in which it gets its name, with which the next file is asked for.
#[test]
fn a_further_upload_takes_four_round_trips() {
    let Some(_turn) = in_the_lab() else { return };
    let all = |count: usize| {
        let (folder, _) = two_ends();
        let sent = folder.path().join("sent");
        fs::create_dir(&sent).unwrap();
        for number in 0..count {
            fs::write(sent.join(format!("f{number}")), [7; 4_096]).unwrap();
        }
        let put = r#""$0" put -r "$1/sent" ftp://alice@$FAIRWIND_PEER/ --json"#;
        let carried = carried(&folder, put, "");
        let stored = fs::read_dir(folder.path().join("served/sent")).unwrap();
        assert_eq!(stored.count(), count);
        self::count(carried, &["QUIT"])
    };
    assert_eq!(all(4) - all(1), 12);
}

/// As many as a download: any more would be spent waiting for nothing.
#[test]
fn a_copy_between_servers_takes_as_many() {
    let Some(_turn) = in_the_lab() else { return };
    let (folder, bytes) = two_ends();
    let copy = r#""$0" serve "$1/received" --listen "$FAIRWIND_HOST:2121" --no-drs \
               --run-as root --user alice --foreign-peer "$FAIRWIND_PEER/32" &
           until "$0" ls "ftp://$FAIRWIND_HOST:2121/" >/dev/null 2>&1; do sleep 0.1; done
           "$0" copy ftp://$FAIRWIND_PEER/x "ftp://alice@$FAIRWIND_HOST:2121/x" --checksum off
           status=$?; kill $!; exit $status"#;
    assert_eq!(round_trips(&folder, copy), 5);
    assert!(read(&folder, "received/x") == bytes);
}

/// The first byte follows the server's permission, and the server's final reply comes back.
#[test]
fn an_upload_takes_one_more() {
    let Some(_turn) = in_the_lab() else { return };
    let (folder, bytes) = two_ends();
    let put = r#""$0" put "$1/served/x" ftp://alice@$FAIRWIND_PEER/y --checksum off"#;
    assert_eq!(round_trips(&folder, put), 6);
    assert!(read(&folder, "served/y") == bytes);
}
