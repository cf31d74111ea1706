//! Servers that often give random answers: the client must end in time, with an error or with the file, and
//! never give the file's name to an incomplete one.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Component;
use std::thread;
use std::time::Duration;

use fairwind_ftp::client::{Options, tree};

use super::{connection, get, names, options, put};

const CONTENT: &[u8] = b"the content";

/// Replies that no server should send.
const ODDITIES: [&str; 22] = [
    "",
    "150 Coming\r\n",
    "226 Done\r\n",
    "226-Done\r\n226\r\n",
    "250 Done\r\n",
    "350 More\r\n",
    "425 How\r\n",
    "450 Later\r\n",
    "500 What\r\n",
    "550 No\r\n",
    "213 99999999999999999999\r\n",
    "213 -1\r\n",
    "213 3\r\n",
    "213 20200101000000\r\n",
    "227 Here (127,0,0,1,0,0)\r\n",
    "227 Here (1,2,3)\r\n",
    "229 Here (|||70000|)\r\n",
    "257 \"\r\n",
    "257 \"\"\"\"\r\n",
    "211-Features\r\n HASH SHA-256*\r\n MLST type*;\r\n SIZE\r\n REST STREAM\r\n211 End\r\n",
    "999 x\r\n",
    "abc\r\n150 Coming\r\n226 Done\r\n",
];

/// Pseudo-random numbers, reproducible by seed (xorshift, Marsaglia 2003).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

fn capricious(seed: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // One session at a time, so that the random numbers are used in a fixed order.
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = session(stream, &mut chance);
        }
    });
    address
}

fn session(mut stream: TcpStream, chance: &mut Chance) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(b"220 Hello\r\n")?;
    let mut data: Option<TcpListener> = None;
    let mut first = 0;
    for line in BufReader::new(stream.try_clone()?).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        let verb = line.split([' ', '\r']).next().unwrap_or_default();
        // REST is always honoured: a server that acknowledges an offset and ignores it is only found out by
        // checksums.
        if verb != "REST" && chance.below(3) == 0 {
            match chance.below(ODDITIES.len() + 2) {
                0 => return Ok(()),
                1 => stream.write_all(&[b'x'; 20_000])?,
                number => stream.write_all(ODDITIES[number - 2].as_bytes())?,
            }
            continue;
        }
        match verb {
            "USER" => stream.write_all(b"331 Password\r\n")?,
            "FEAT" => stream.write_all(b"211-F\r\n SIZE\r\n REST STREAM\r\n211 End\r\n")?,
            "PWD" => stream.write_all(b"257 \"/\"\r\n")?,
            "SIZE" => stream.write_all(format!("213 {}\r\n", CONTENT.len()).as_bytes())?,
            "MDTM" => stream.write_all(b"213 20200101000000\r\n")?,
            "REST" => {
                let number = line.trim_end().split(' ').nth(1);
                first = number.and_then(|number| number.parse().ok()).unwrap_or(0);
                stream.write_all(b"350 More\r\n")?;
            }
            "RNFR" => stream.write_all(b"350 More\r\n")?,
            "PASV" => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let port = listener.local_addr()?.port();
                data = Some(listener);
                let address = format!("227 Here (127,0,0,1,{},{})\r\n", port >> 8, port & 255);
                stream.write_all(address.as_bytes())?;
            }
            "RETR" | "LIST" | "NLST" | "MLSD" => {
                let Some(listener) = data.take() else {
                    stream.write_all(b"425 How\r\n")?;
                    continue;
                };
                stream.write_all(b"150 Coming\r\n")?;
                let (mut connection, _) = listener.accept()?;
                let all = match verb {
                    "RETR" => &CONTENT[std::mem::take(&mut first).min(CONTENT.len())..],
                    _ => b"-rw-r--r-- 1 a b 11 Jan 01 2020 x\r\nd\xff\r\n\r\r\n../y\r\n",
                };
                // Part or all of it; a listing may also have more, since its size is not announced.
                let count = [chance.below(all.len() + 1), all.len(), all.len()][chance.below(3)];
                connection.write_all(&all[..count])?;
                if verb != "RETR" && chance.below(8) == 0 {
                    connection.write_all(&[b'y'; 100])?;
                }
                drop(connection);
                stream.write_all(b"226 Done\r\n")?;
            }
            "STOR" | "APPE" => {
                let Some(listener) = data.take() else {
                    stream.write_all(b"425 How\r\n")?;
                    continue;
                };
                stream.write_all(b"150 Coming\r\n")?;
                let (mut connection, _) = listener.accept()?;
                std::io::copy(&mut connection, &mut std::io::sink())?;
                stream.write_all(b"226 Done\r\n")?;
            }
            "EPSV" | "EPRT" | "MLST" => stream.write_all(b"500 What\r\n")?,
            _ => stream.write_all(b"250 Done\r\n")?,
        }
    }
    Ok(())
}

fn impatient() -> Options {
    Options {
        patience: Duration::from_millis(300),
        pause: Duration::from_millis(1),
        retries: 2,
        ..options()
    }
}

fn one(seed: u64) {
    let here = tempfile::tempdir().unwrap();
    let address = capricious(seed);
    let target = here.path().join("x");
    let got = get(address, "x", &target, impatient());
    match got {
        // Without checksums, a server that declares the file shorter is believed.
        Ok(_) => {
            let content = fs::read(&target).unwrap();
            assert!(CONTENT.starts_with(&content), "seed {seed}: {content:?}");
        }
        Err(_) => assert!(!target.exists(), "seed {seed}"),
    }
    let mut from = connection(address, "", impatient());
    if let Ok(found) = tree::remote(&mut from, b"d", here.path()) {
        for file in found.files {
            let below = file.target.strip_prefix(here.path()).unwrap();
            let plain = |part| matches!(part, Component::Normal(_));
            assert!(below.components().all(plain), "seed {seed}: {below:?}");
        }
    }
    let source = here.path().join("source");
    fs::write(&source, CONTENT).unwrap();
    let _ = put(address, &source, "y\u{ff}", impatient());
    let left = names(here.path());
    let known = |name: &String| [".x.part", "source", "x"].contains(&name.as_str());
    assert!(left.iter().all(known), "seed {seed}: {left:?}");
}

#[test]
fn a_capricious_server_makes_nothing_look_complete_and_nobody_wait_for_ever() {
    let workers: Vec<_> = (0..16)
        .map(|worker| thread::spawn(move || (0..8).for_each(|run| one(worker * 8 + run))))
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
}
