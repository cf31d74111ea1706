//! A server of block mode that does with each file what the test says.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use fairwind_ftp::protocol::digest::Algorithm;

use crate::blocks::in_blocks;

/// A file, and the size that its listing tells.
#[derive(Clone)]
pub(super) struct File {
    pub name: String,
    pub listed: usize,
    pub content: Vec<u8>,
}

/// A request for a file.
pub(super) struct Asked<'a> {
    pub file: &'a File,
    /// How many were asked for in the same mode before.
    pub before: usize,
    pub in_blocks: bool,
}

/// What becomes of it.
#[derive(Default)]
pub(super) struct Answer {
    /// Replies before the data; these decide whether there are any.
    pub opening: String,
    /// As it goes through the data connection.
    pub data: Vec<u8>,
    /// The data are sent again and again.
    pub is_endless: bool,
    /// The data connection is closed behind them.
    pub closes: bool,
    /// So is the control connection, before any further reply.
    pub hangs_up: bool,
    /// Replies behind the data.
    pub ending: String,
    /// The replies to HASH behind that.
    pub hash: String,
}

impl Answer {
    fn right(asked: &Asked<'_>) -> Self {
        let content = &asked.file.content;
        Self {
            opening: "150 Here it comes\r\n".into(),
            data: match asked.in_blocks {
                true => in_blocks(content, 60_000),
                false => content.clone(),
            },
            closes: !asked.in_blocks,
            ending: "250 That was it\r\n".into(),
            hash: hash(content),
            ..Self::default()
        }
    }

    pub(super) fn refused(reply: &str) -> Self {
        Self {
            opening: format!("{reply}\r\n"),
            hash: "550 No\r\n".into(),
            ..Self::default()
        }
    }
}

/// The reply to HASH for this content.
pub(super) fn hash(content: &[u8]) -> String {
    let mut hasher = Algorithm::Sha256.start();
    hasher.update(content);
    let count = content.len();
    format!("213 SHA-256 0-{count} {} x\r\n", hasher.finish())
}

type Act = dyn Fn(&Asked<'_>, Answer) -> Answer + Send + Sync;

struct Shared {
    files: Vec<File>,
    act: Box<Act>,
    /// Replies that replace the server's own, by verb or whole command.
    replies: Vec<(&'static str, &'static str)>,
    heard: Mutex<Vec<String>>,
    /// Requests for files in blocks, and others.
    asked: [AtomicUsize; 2],
    /// Data connections on which blocks were sent.
    shared: AtomicUsize,
}

/// It runs until the process ends.
pub(super) struct Fake {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Fake {
    pub(super) fn start(
        files: Vec<File>,
        act: impl Fn(&Asked<'_>, Answer) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::replying(files, Vec::new(), act)
    }

    pub(super) fn replying(
        files: Vec<File>,
        replies: Vec<(&'static str, &'static str)>,
        act: impl Fn(&Asked<'_>, Answer) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            files,
            act: Box::new(act),
            replies,
            heard: Mutex::default(),
            asked: Default::default(),
            shared: AtomicUsize::new(0),
        });
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&own);
                // The client may go at any time.
                thread::spawn(move || Session::new(stream, &shared)?.run());
            }
        });
        Self { address, shared }
    }

    /// The commands received so far.
    pub(super) fn heard(&self) -> Vec<String> {
        self.shared.heard.lock().unwrap().clone()
    }

    /// How many of them begin so.
    pub(super) fn count(&self, verb: &str) -> usize {
        let heard = self.heard();
        heard.iter().filter(|line| line.starts_with(verb)).count()
    }

    /// Files that were asked for by themselves.
    pub(super) fn alone(&self) -> usize {
        self.shared.asked[0].load(Ordering::Relaxed)
    }

    /// Data connections on which blocks were sent.
    pub(super) fn shared_connections(&self) -> usize {
        self.shared.shared.load(Ordering::Relaxed)
    }
}

struct Session<'a> {
    shared: &'a Shared,
    stream: TcpStream,
    listener: Option<TcpListener>,
    data: Option<TcpStream>,
    is_in_blocks: bool,
    hashes: HashMap<String, String>,
}

impl<'a> Session<'a> {
    fn new(stream: TcpStream, shared: &'a Shared) -> io::Result<Self> {
        Ok(Self {
            shared,
            stream,
            listener: None,
            data: None,
            is_in_blocks: false,
            hashes: HashMap::new(),
        })
    }

    fn run(mut self) -> io::Result<()> {
        self.say("220 Hello\r\n")?;
        for line in BufReader::new(self.stream.try_clone()?).split(b'\n') {
            let line = String::from_utf8_lossy(line?.trim_ascii_end()).into_owned();
            self.shared.heard.lock().unwrap().push(line.clone());
            let (verb, argument) = line.split_once(' ').unwrap_or((&line, ""));
            let mut replies = self.shared.replies.iter();
            if let Some((_, reply)) = replies.find(|(known, _)| *known == verb || *known == line) {
                self.say(reply)?;
                continue;
            }
            match verb {
                "RETR" => self.retrieve(argument)?,
                "HASH" => {
                    let reply = self.hashes.remove(argument);
                    let reply = reply.unwrap_or_else(|| match self.file(argument) {
                        Some(file) => hash(&file.content),
                        None => "550 None\r\n".into(),
                    });
                    self.say(&reply)?;
                }
                "MLSD" => self.list()?,
                "EPSV" => {
                    let listener = TcpListener::bind("127.0.0.1:0")?;
                    let port = listener.local_addr()?.port();
                    (self.listener, self.data) = (Some(listener), None);
                    self.say(&format!("229 Here (|||{port}|)\r\n"))?;
                }
                "MODE" => {
                    (self.is_in_blocks, self.data) = (argument == "B", None);
                    self.say("200 Done\r\n")?;
                }
                "SIZE" => {
                    let size = self.file(argument).map(|file| file.content.len());
                    self.say(&match size {
                        Some(size) => format!("213 {size}\r\n"),
                        None => "550 None\r\n".into(),
                    })?;
                }
                "MDTM" => self.say("213 20200101000000\r\n")?,
                "USER" => self.say("331 Password\r\n")?,
                "PASS" | "TYPE" | "OPTS" | "CWD" => self.say("250 Done\r\n")?,
                "PWD" => self.say("257 \"/\"\r\n")?,
                "FEAT" => self.say(
                    "211-Features\r\n EPSV\r\n HASH SHA-256*\r\n MLST size*;modify*;type*;\r\n MODE B\r\n \
                     PIPELINING\r\n SIZE\r\n211 End\r\n",
                )?,
                "QUIT" => self.say("221 Bye\r\n")?,
                _ => self.say("502 What?\r\n")?,
            }
        }
        Ok(())
    }

    fn say(&mut self, replies: &str) -> io::Result<()> {
        self.stream.write_all(replies.as_bytes())
    }

    fn file(&self, name: &str) -> Option<&'a File> {
        self.shared.files.iter().find(|file| file.name == name)
    }

    fn list(&mut self) -> io::Result<()> {
        let (Some(listener), false) = (self.listener.take(), self.is_in_blocks) else {
            return self.say("425 How?\r\n");
        };
        let lines = self.shared.files.iter().map(|file| {
            let (size, name) = (file.listed, &file.name);
            format!("type=file;size={size};modify=20200101000000; {name}\r\n")
        });
        let (mut data, _) = listener.accept()?;
        self.say("150 Here it comes\r\n")?;
        data.write_all(lines.collect::<String>().as_bytes())?;
        drop(data);
        self.say("226 That was it\r\n")
    }

    fn retrieve(&mut self, name: &str) -> io::Result<()> {
        let Some(file) = self.file(name) else {
            return self.say("550 None\r\n");
        };
        let counter = &self.shared.asked[usize::from(self.is_in_blocks)];
        let asked = Asked {
            file,
            before: counter.fetch_add(1, Ordering::Relaxed),
            in_blocks: self.is_in_blocks,
        };
        let answer = (self.shared.act)(&asked, Answer::right(&asked));
        self.hashes.insert(name.to_owned(), answer.hash);
        if !answer.opening.starts_with('1') {
            return self.say(&answer.opening);
        }
        if self.data.is_none() {
            let Some(listener) = self.listener.take() else {
                self.hashes.insert(name.to_owned(), "550 No\r\n".into());
                return self.say("425 How?\r\n");
            };
            self.data = Some(listener.accept()?.0);
            if self.is_in_blocks {
                self.shared.shared.fetch_add(1, Ordering::Relaxed);
            }
        }
        let mut data = self.data.as_ref().expect("it has been opened");
        self.stream.write_all(answer.opening.as_bytes())?;
        let sent = match answer.is_endless {
            true => loop {
                if let Err(error) = data.write_all(&answer.data) {
                    break Err(error);
                }
            },
            false => data.write_all(&answer.data),
        };
        if answer.hangs_up {
            self.stream.shutdown(Shutdown::Both)?;
        }
        if answer.closes || sent.is_err() {
            self.data = None;
        }
        match sent {
            Ok(()) => self.say(&answer.ending),
            Err(_) => self.say("426 Broken\r\n"),
        }
    }
}
