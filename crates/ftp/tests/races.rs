//! Symbolic links that come and go while commands are on their way: directories of the server and links to a place outside
//! of it exchange their names again and again (renameat2(2), `RENAME_EXCHANGE`).

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_ftp::protocol::reply::Reply;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::common::{Client, Running, TIMEOUT};

/// What the file `f` of each directory within has, and what all files outside have.
const INSIDE: &str = "within";
const OUTSIDE: &str = "this is outside";

/// How long the names are exchanged at least, and how often each command has to meet the one and the other.
const AT_LEAST: Duration = Duration::from_secs(3);
const OFTEN: usize = 10;

/// Clients at a time, each with names of its own.
const CLIENTS: usize = 3;

/// How often each command succeeded and was refused.
#[derive(Default)]
struct Tally(Mutex<BTreeMap<String, [usize; 2]>>);

impl Tally {
    fn count(&self, command: &str, succeeded: bool) {
        let mut counts = self.0.lock().unwrap();
        counts.entry(command.to_owned()).or_default()[usize::from(!succeeded)] += 1;
    }

    fn is_enough(&self) -> bool {
        let counts = self.0.lock().unwrap();
        !counts.is_empty() && counts.values().flatten().all(|count| *count >= OFTEN)
    }
}

/// Everything about a tree that any change would alter; reading it changes nothing of that.
fn state(at: &Path) -> Vec<(PathBuf, i64, i64, u32, Vec<u8>)> {
    let facts = fs::symlink_metadata(at).unwrap();
    let content = match facts.is_file() {
        true => fs::read(at).unwrap(),
        false => Vec::new(),
    };
    let (s, ns) = (facts.ctime(), facts.ctime_nsec());
    let mut all = vec![(at.to_owned(), s, ns, facts.mode(), content)];
    if facts.is_dir() {
        let mut names: Vec<_> = fs::read_dir(at)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        names.sort();
        all.extend(names.iter().flat_map(|path| state(path)));
    }
    all
}

/// A client at work below a directory that may be a link.
struct Worker<'a> {
    client: Client,
    tally: &'a Tally,
    /// The directory.
    way: &'static str,
    /// The number of this client.
    own: usize,
    /// What a command says of the file `f` within, whenever it says anything.
    true_of: &'a BTreeMap<String, String>,
}

impl Worker<'_> {
    fn tell(&self, command: &str, reply: &Reply) -> bool {
        let verb: Vec<&str> = command.split(' ').collect();
        let name = match verb[0] {
            "SITE" => verb[..2].join(" "),
            verb => verb.to_owned(),
        };
        self.tally.count(&name, reply.code < 400);
        reply.code < 400
    }

    fn try_to(&mut self, command: &str) -> Option<Reply> {
        let reply = self.client.say(command);
        self.tell(command, &reply).then_some(reply)
    }

    /// What a command brings over a data connection.
    fn fetch(&mut self, command: &str) -> Option<Vec<u8>> {
        let mut data = self.client.passive();
        let reply = self.client.say(command);
        if !self.tell(command, &reply) {
            return None;
        }
        let mut content = Vec::new();
        data.read_to_end(&mut content).unwrap();
        self.client.reply();
        Some(content)
    }

    fn give(&mut self, command: &str) {
        let mut data = self.client.passive();
        let reply = self.client.say(command);
        if self.tell(command, &reply) {
            data.write_all(b"new").unwrap();
            drop(data);
            self.client.reply();
        }
    }

    /// Commands on names that are outside only: none of them is ever there.
    fn asks_for_what_is_outside(&mut self) {
        let only = format!("{}/only", self.way);
        for command in [
            "SIZE",
            "MDTM",
            "HASH",
            "XCRC",
            "MLST",
            "RNFR",
            "DELE",
            "MFMT 20200101000000",
            "SITE CHMOD 600",
            "SITE UTIME 202001010000",
        ] {
            let reply = self.client.say(&format!("{command} {only}"));
            assert!(reply.code >= 400, "{command}: {reply}");
        }
        for command in ["RETR", "RMD"] {
            let _data = self.client.passive();
            let name = match command {
                "RMD" => format!("{}/empty", self.way),
                _ => only.clone(),
            };
            let reply = self.client.say(&format!("{command} {name}"));
            assert!(reply.code >= 400, "{command}: {reply}");
        }
    }

    fn reads(&mut self) {
        for (command, told) in self.true_of {
            if let Some(reply) = self.try_to(command) {
                assert_eq!(&reply.to_string(), told, "{command}");
            }
        }
        if let Some(content) = self.fetch(&format!("RETR {}/f", self.way)) {
            assert_eq!(String::from_utf8_lossy(&content), INSIDE);
        }
        for command in ["MLSD", "LIST", "NLST"] {
            // LIST and NLST may also send an empty list.
            let listed = self.fetch(&format!("{command} {}", self.way));
            let listed = String::from_utf8(listed.unwrap_or_default()).unwrap();
            assert!(!listed.contains("only"), "{command}: {listed}");
        }
        let listed = self.fetch(&format!("NLST {}/*", self.way));
        assert!(
            !String::from_utf8(listed.unwrap_or_default())
                .unwrap()
                .contains("only")
        );
        if let Some(reply) = self.try_to(&format!("STAT {}", self.way)) {
            assert!(!reply.to_string().contains("only"), "{reply}");
        }
    }

    fn writes(&mut self) {
        let (way, own) = (self.way, self.own);
        self.give(&format!("STOR {way}/n{own}"));
        self.give(&format!("APPE {way}/n{own}"));
        self.client.expect("REST 1", 350);
        self.give(&format!("STOR {way}/n{own}"));
        for command in [
            "SITE CHMOD 640",
            "SITE UTIME 202001010000",
            "MFMT 20200101000000",
        ] {
            self.try_to(&format!("{command} {way}/n{own}"));
        }
        // Within the directory, out of it, and into it again.
        for (from, to) in [
            (format!("{way}/n{own}"), format!("{way}/r{own}")),
            (format!("{way}/r{own}"), format!("taken{own}")),
            (format!("taken{own}"), format!("{way}/n{own}")),
        ] {
            if self.try_to(&format!("RNFR {from}")).is_some() {
                self.try_to(&format!("RNTO {to}"));
            }
        }
        self.try_to(&format!("MKD {way}/m{own}"));
        self.try_to(&format!("RMD {way}/m{own}"));
        self.try_to(&format!("DELE {way}/n{own}"));
    }

    /// The same with names that begin in the directory itself.
    fn within(&mut self) {
        if self.try_to(&format!("CWD {}", self.way)).is_none() {
            return;
        }
        self.client.expect("TYPE I", 200);
        if let Some(content) = self.fetch("RETR f") {
            assert_eq!(String::from_utf8_lossy(&content), INSIDE);
        }
        let listed = String::from_utf8(self.fetch("MLSD").unwrap_or_default()).unwrap();
        assert!(!listed.contains("only"), "{listed}");
        self.give("STOU");
        self.give(&format!("STOR n{}", self.own));
        self.try_to(&format!("DELE n{}", self.own));
        self.client.expect("CWD /", 250);
    }
}

#[test]
fn no_link_that_comes_in_the_place_of_a_directory_leads_any_command_out() {
    let outside = tempfile::tempdir().unwrap();
    let server = Running::start();
    let relative = Path::new("..").join(outside.path().file_name().unwrap());
    assert_eq!(server.dir.path().parent(), outside.path().parent());
    // A directory, and what it exchanges its name with: a link that names the place from the root, or from here.
    let pairs = [
        ("a", "a-link", outside.path().to_owned()),
        ("b", "b-link", relative),
    ];
    for (way, link, to) in &pairs {
        fs::create_dir(server.path(way)).unwrap();
        fs::write(server.path(way).join("f"), INSIDE).unwrap();
        symlink(to, server.path(link)).unwrap();
        // It leads there.
        assert!(fs::exists(server.path(link)).unwrap());
    }
    // What the commands would find there: names that they use, and some that are nowhere else.
    for name in ["f", "only"] {
        fs::write(outside.path().join(name), OUTSIDE).unwrap();
    }
    for client in 0..CLIENTS {
        for name in ["n", "r"] {
            fs::write(outside.path().join(format!("{name}{client}")), OUTSIDE).unwrap();
        }
    }
    fs::create_dir(outside.path().join("empty")).unwrap();
    let before = state(outside.path());

    let true_of = pairs.clone().map(|(way, ..)| {
        let mut client = Client::alice(&server);
        let commands = ["SIZE", "MDTM", "HASH", "XCRC", "XSHA256", "MLST"];
        let asked = commands.map(|command| format!("{command} {way}/f"));
        let told = asked.map(|command| {
            let reply = client.say(&command);
            assert!(reply.code < 400, "{command}: {reply}");
            (command, reply.to_string())
        });
        BTreeMap::from(told)
    });
    let (tally, done) = (Tally::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for (way, link, _) in &pairs {
                    let (one, other) = (server.path(way), server.path(link));
                    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|own| {
                let (tally, true_of, server, pairs) = (&tally, &true_of, &server, &pairs);
                let done = &done;
                scope.spawn(move || {
                    let begin = Instant::now();
                    let mut round = own;
                    while begin.elapsed() < AT_LEAST || !tally.is_enough() {
                        assert!(begin.elapsed() < 2 * TIMEOUT, "{:?}", tally.0);
                        if done.load(Ordering::Relaxed) {
                            return;
                        }
                        let which = round % pairs.len();
                        let mut worker = Worker {
                            client: Client::alice(server),
                            tally,
                            way: pairs[which].0,
                            own,
                            true_of: &true_of[which],
                        };
                        for _ in 0..10 {
                            worker.reads();
                            worker.writes();
                            worker.within();
                            worker.asks_for_what_is_outside();
                        }
                        round += 1;
                    }
                })
            })
            .collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        done.store(true, Ordering::Relaxed);
        for client in ended {
            client.unwrap();
        }
    });
    assert!(
        state(outside.path()) == before,
        "something outside has changed"
    );
    let within = state(server.dir.path());
    assert!(
        within
            .iter()
            .all(|(.., content)| content != OUTSIDE.as_bytes())
    );
}
