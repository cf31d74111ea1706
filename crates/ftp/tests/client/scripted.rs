//! A server whose answers, right or wrong, are set by the test.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// How it answers. By default it is a plain RFC 959 server with one file.
#[derive(Clone)]
pub(super) struct Script {
    /// Sent before the greeting.
    pub before_greeting: Vec<u8>,
    /// Lines of the reply to FEAT; if empty, the command is unknown.
    pub features: Vec<&'static str>,
    /// Whether it supports EPSV and EPRT.
    pub extended: bool,
    /// How many of a session's first replies to EPSV name a port where nobody listens.
    pub dead_ports: usize,
    /// An address for the reply to PASV in place of the real one.
    pub passive_address: Option<&'static str>,
    /// The data sent for MLSD, LIST and NLST.
    pub listing: &'static str,
    /// The data sent for NLST, if different.
    pub names: Option<&'static [u8]>,
    /// The reply when a listing has been sent.
    pub listed: &'static str,
    /// The only file.
    pub content: Vec<u8>,
    /// Replies that replace the server's own, by verb or whole command; an empty one means no reply.
    pub replies: Vec<(&'static str, &'static str)>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            before_greeting: Vec::new(),
            features: Vec::new(),
            extended: false,
            dead_ports: 0,
            passive_address: None,
            listing: "",
            names: None,
            listed: "226 That was it\r\n",
            content: b"content".to_vec(),
            replies: Vec::new(),
        }
    }
}

/// A running server and the commands it has received.
pub(super) struct Scripted {
    pub address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    pub(super) fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, heard) = (script.clone(), Arc::clone(&shared));
                // The client may disconnect at any time.
                thread::spawn(move || session(stream, &script, &heard).ok());
            }
        });
        Self { address, heard }
    }

    /// The commands received so far.
    pub(super) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    pub(super) fn has_heard(&self, verb: &str) -> bool {
        self.heard().iter().any(|line| line.starts_with(verb))
    }
}

fn session(stream: TcpStream, script: &Script, heard: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    out.write_all(&script.before_greeting)?;
    out.write_all(b"220 Hello\r\n")?;
    let mut listener = None;
    let mut dead_ports = script.dead_ports;
    for line in BufReader::new(stream).split(b'\n') {
        let line = String::from_utf8_lossy(line?.trim_ascii_end()).into_owned();
        heard.lock().unwrap().push(line.clone());
        let verb = line.split(' ').next().unwrap_or_default().to_owned();
        let mut replies = script.replies.iter();
        if let Some((_, reply)) = replies.find(|(known, _)| *known == verb || *known == line) {
            out.write_all(reply.as_bytes())?;
            continue;
        }
        let reply = match verb.as_str() {
            "USER" => "331 Password".into(),
            "PASS" | "TYPE" | "CWD" | "OPTS" | "MKD" => "250 Done".into(),
            "PWD" => "257 \"/\"".into(),
            "FEAT" if !script.features.is_empty() => {
                format!(
                    "211-Features\r\n {}\r\n211 End",
                    script.features.join("\r\n ")
                )
            }
            "SIZE" => format!("213 {}", script.content.len()),
            "EPSV" if script.extended && dead_ports > 0 => {
                dead_ports -= 1;
                // It is closed at once.
                let port = listen(&mut None)?;
                format!("229 Here (|||{port}|)")
            }
            "EPSV" if script.extended => {
                format!("229 Here (|||{}|)", listen(&mut listener)?)
            }
            "PASV" => {
                let port = listen(&mut listener)?;
                let address = script.passive_address.unwrap_or("127,0,0,1");
                format!("227 Here ({address},{},{})", port >> 8, port & 255)
            }
            "RETR" => {
                send(
                    &mut out,
                    listener.take(),
                    &script.content,
                    "226 That was it\r\n",
                )?;
                continue;
            }
            "STOR" => {
                take(&mut out, listener.take())?;
                continue;
            }
            "MLSD" | "LIST" => {
                let listing = script.listing.as_bytes();
                send(&mut out, listener.take(), listing, script.listed)?;
                continue;
            }
            "NLST" => {
                let names = script.names.unwrap_or(script.listing.as_bytes());
                send(&mut out, listener.take(), names, script.listed)?;
                continue;
            }
            "QUIT" => "221 Bye".into(),
            _ => "502 What?".into(),
        };
        out.write_all(format!("{reply}\r\n").as_bytes())?;
    }
    Ok(())
}

fn listen(listener: &mut Option<TcpListener>) -> std::io::Result<u16> {
    let new = TcpListener::bind("127.0.0.1:0")?;
    let port = new.local_addr()?.port();
    *listener = Some(new);
    Ok(port)
}

fn send(
    out: &mut TcpStream,
    listener: Option<TcpListener>,
    bytes: &[u8],
    end: &str,
) -> std::io::Result<()> {
    let Some(listener) = listener else {
        return out.write_all(b"425 How?\r\n");
    };
    let (mut data, _) = listener.accept()?;
    out.write_all(b"150 Here it comes\r\n")?;
    data.write_all(bytes)?;
    drop(data);
    out.write_all(end.as_bytes())
}

fn take(out: &mut TcpStream, listener: Option<TcpListener>) -> std::io::Result<()> {
    let Some(listener) = listener else {
        return out.write_all(b"425 How?\r\n");
    };
    let (mut data, _) = listener.accept()?;
    out.write_all(b"150 Go on\r\n")?;
    std::io::copy(&mut data, &mut std::io::sink())?;
    out.write_all(b"226 That was it\r\n")
}
