//! Three sessions of two users, interleaved at random, against a model of what each was told.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{Shutdown, TcpStream};

use proptest::prelude::*;

use super::{client, for_two};
use crate::common::{Client, Running};

const NAMES: [&str; 3] = ["x", "y", "d/x"];

/// The owners of the sessions.
const OWNERS: [&str; 3] = ["alice", "bob", "alice"];

#[derive(Debug, Clone, Copy)]
enum Begin {
    /// STOR
    Afresh,
    /// SIZE, REST and STOR
    Resumed,
    /// APPE
    AtTheEnd,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Begin(Begin, usize),
    Send(u8),
    Finish,
    BreakOff,
    Delete(usize),
    Rename(usize, usize),
    RenamePartial(usize),
    MakeDirectory,
    RemoveDirectory,
}

fn step() -> impl Strategy<Value = Step> {
    let begin = prop_oneof![
        Just(Begin::Afresh),
        Just(Begin::Resumed),
        Just(Begin::AtTheEnd)
    ];
    let name = 0..NAMES.len();
    prop_oneof![
        6 => (begin, name.clone()).prop_map(|(begin, name)| Step::Begin(begin, name)),
        4 => (1..40u8).prop_map(Step::Send),
        4 => Just(Step::Finish),
        2 => Just(Step::BreakOff),
        2 => name.clone().prop_map(Step::Delete),
        2 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => name.prop_map(Step::RenamePartial),
        1 => Just(Step::MakeDirectory),
        1 => Just(Step::RemoveDirectory),
    ]
}

/// An upload that has been answered with 150.
struct Uploading {
    name: usize,
    /// The content of the file if it ends now.
    whole: Vec<u8>,
    data: TcpStream,
}

struct Session {
    client: Client,
    owner: &'static str,
    uploading: Option<Uploading>,
}

/// The server, its clients, and what they know.
struct World {
    server: Running,
    sessions: Vec<Session>,
    /// Files acknowledged as complete.
    files: BTreeMap<usize, Vec<u8>>,
    /// Bytes sent by uploads that broke off, with their users.
    broken: BTreeMap<usize, (&'static str, Vec<u8>)>,
    sent: u64,
}

impl World {
    fn new() -> Self {
        let server = for_two();
        fs::create_dir(server.path("d")).unwrap();
        let session = |owner| Session {
            client: client(&server, owner),
            owner,
            uploading: None,
        };
        Self {
            sessions: OWNERS.into_iter().map(session).collect(),
            server,
            files: BTreeMap::new(),
            broken: BTreeMap::new(),
            sent: 0,
        }
    }

    /// The user who is uploading a file.
    fn uploader(&self, name: usize) -> Option<&'static str> {
        self.sessions.iter().find_map(|session| {
            let upload = session.uploading.as_ref()?;
            (upload.name == name).then_some(session.owner)
        })
    }

    fn partial_exists(&self, name: usize) -> bool {
        let partial = match NAMES[name].split_once('/') {
            Some((directory, name)) => format!("{directory}/.{name}.fairwind-part"),
            None => format!(".{}.fairwind-part", NAMES[name]),
        };
        self.server.path(&partial).exists()
    }

    fn take(&mut self, who: usize, step: Step) {
        match (step, self.sessions[who].uploading.is_some()) {
            (Step::Send(count), true) => self.send(who, count),
            (Step::Finish, true) => self.finish(who),
            (Step::BreakOff, true) => self.break_off(who),
            (Step::Begin(begin, name), false) => self.begin(who, begin, name),
            (Step::Delete(name), false) => self.delete(who, name),
            (Step::Rename(from, to), false) => self.rename(who, from, to),
            (Step::RenamePartial(name), false) => {
                let partial = format!("RNFR .{}.fairwind-part", NAMES[name]);
                self.sessions[who].client.expect(&partial, 550);
            }
            (Step::MakeDirectory, false) => {
                let made = self.sessions[who].client.say("MKD d").code;
                assert!(matches!(made, 257 | 550));
            }
            (Step::RemoveDirectory, false) => self.remove_directory(who),
            // A session does one thing at a time.
            _ => {}
        }
    }

    fn begin(&mut self, who: usize, begin: Begin, name: usize) {
        let owner = self.sessions[who].owner;
        if self.uploader(name) == Some(owner) {
            // A user may take over an own upload; other tests cover that.
            return;
        }
        let busy = self.uploader(name).is_some();
        let there = name != 2 || self.server.path("d").exists();
        let session = &mut self.sessions[who];
        let size = session.client.say(&format!("SIZE {}", NAMES[name]));
        let size: Option<usize> = (size.code == 213).then(|| size.text().parse().unwrap());
        // What the client is entitled to believe it continues.
        let known = match (self.files.get(&name), self.broken.get(&name)) {
            (Some(file), _) => {
                assert_eq!(size, Some(file.len()));
                file.clone()
            }
            (None, _) if busy => Vec::new(),
            (None, Some((owner, sent))) if *owner == session.owner => {
                sent[..size.unwrap_or(0)].to_vec()
            }
            (None, _) => {
                assert_eq!(size, None, "of what {} never sent", session.owner);
                Vec::new()
            }
        };
        let data = session.client.passive();
        let (verb, base) = match begin {
            Begin::Afresh => ("STOR", Vec::new()),
            Begin::AtTheEnd => ("APPE", known),
            Begin::Resumed => {
                session.client.expect(&format!("REST {}", known.len()), 350);
                ("STOR", known)
            }
        };
        let code = match (there, busy) {
            (false, _) => 550,
            (true, true) => 450,
            (true, false) => 150,
        };
        session
            .client
            .expect(&format!("{verb} {}", NAMES[name]), code);
        if code == 150 {
            self.broken.remove(&name);
            session.uploading = Some(Uploading {
                name,
                whole: base,
                data,
            });
        }
    }

    fn send(&mut self, who: usize, count: u8) {
        self.sent += 1;
        let piece = format!("[{} {} {}]", OWNERS[who], who, self.sent).repeat(usize::from(count));
        let upload = self.sessions[who].uploading.as_mut().unwrap();
        upload.data.write_all(piece.as_bytes()).unwrap();
        upload.whole.extend_from_slice(piece.as_bytes());
    }

    fn finish(&mut self, who: usize) {
        let session = &mut self.sessions[who];
        let upload = session.uploading.take().unwrap();
        upload.data.shutdown(Shutdown::Write).unwrap();
        let reply = session.client.reply();
        assert_eq!(reply.code, 226, "{reply}");
        self.files.insert(upload.name, upload.whole);
    }

    fn break_off(&mut self, who: usize) {
        let session = &mut self.sessions[who];
        let upload = session.uploading.take().unwrap();
        session.client.raw(b"ABOR\r\n");
        let codes = [session.client.reply().code, session.client.reply().code];
        assert_eq!(codes, [426, 226]);
        self.broken
            .insert(upload.name, (session.owner, upload.whole));
    }

    fn delete(&mut self, who: usize, name: usize) {
        let code = if self.uploader(name).is_some() {
            450
        } else if self.files.remove(&name).is_some() {
            250
        } else if self.partial_exists(name) {
            self.broken.remove(&name);
            250
        } else {
            550
        };
        let command = format!("DELE {}", NAMES[name]);
        self.sessions[who].client.expect(&command, code);
    }

    fn rename(&mut self, who: usize, from: usize, to: usize) {
        let client = &mut self.sessions[who].client;
        let Some(file) = self.files.get(&from) else {
            client.expect(&format!("RNFR {}", NAMES[from]), 550);
            return;
        };
        client.expect(&format!("RNFR {}", NAMES[from]), 350);
        if client.say(&format!("RNTO {}", NAMES[to])).code == 250 {
            let file = file.clone();
            self.files.remove(&from);
            self.files.insert(to, file);
        }
    }

    fn remove_directory(&mut self, who: usize) {
        let empty = !self.files.contains_key(&2) && !self.partial_exists(2);
        let code = if empty && self.server.path("d").exists() {
            250
        } else {
            550
        };
        self.sessions[who].client.expect("RMD d", code);
    }

    /// Checks that each name has the acknowledged content and that no other name exists.
    fn look(&self) {
        for (name, text) in NAMES.iter().enumerate() {
            let found = fs::read(self.server.path(text)).ok();
            assert_eq!(
                found.as_deref().map(String::from_utf8_lossy),
                self.files
                    .get(&name)
                    .map(|file| String::from_utf8_lossy(file)),
                "{text}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_name_bears_only_what_was_acknowledged_as_whole(
        steps in prop::collection::vec((0..OWNERS.len(), step()), 1..60)
    ) {
        let mut world = World::new();
        for (who, step) in steps {
            world.take(who, step);
            world.look();
        }
    }
}
