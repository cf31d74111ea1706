//! What passes between client and server, seen, and cut off where the test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A line of a control connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Command(String),
    Reply(String),
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Passes,
    /// It does not, and the session ends.
    Cut,
}

type Judge = dyn Fn(&Line) -> Verdict + Send + Sync;

/// A way to a server's control connection; it is there until the process ends.
pub(super) struct Between {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Line>>>,
}

impl Between {
    /// A way to the server on which all passes.
    pub(super) fn to(server: SocketAddr) -> Self {
        Self::judging(server, |_| Verdict::Passes)
    }

    /// A way on which each line passes once it has been judged.
    pub(super) fn judging(
        server: SocketAddr,
        judge: impl Fn(&Line) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((server.ip(), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (shared, judge): (_, Arc<Judge>) = (Arc::clone(&seen), Arc::new(judge));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(server).unwrap();
                let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
                for (from, to, line) in [
                    (client, server, Line::Command as fn(String) -> Line),
                    (ends.1, ends.0, Line::Reply),
                ] {
                    let (seen, judge) = (Arc::clone(&shared), Arc::clone(&judge));
                    thread::spawn(move || carry(from, to, line, &seen, &*judge));
                }
            }
        });
        Self { address, seen }
    }

    /// How many commands were of this kind.
    pub(super) fn commands(&self, verb: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        let of_kind = |line: &&Line| matches!(line, Line::Command(line) if line.starts_with(verb));
        seen.iter().filter(of_kind).count()
    }

    /// How many lines of replies began so.
    pub(super) fn replies(&self, begin: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        let of_kind = |line: &&Line| matches!(line, Line::Reply(line) if line.starts_with(begin));
        seen.iter().filter(of_kind).count()
    }
}

fn carry(
    from: TcpStream,
    mut to: TcpStream,
    line: fn(String) -> Line,
    seen: &Mutex<Vec<Line>>,
    judge: &Judge,
) {
    let other = from.try_clone().unwrap();
    for bytes in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let text = String::from_utf8_lossy(bytes.trim_ascii_end()).into_owned();
        let one = line(text);
        seen.lock().unwrap().push(one.clone());
        let cuts = judge(&one) == Verdict::Cut;
        if cuts || to.write_all(&[bytes, b"\n".to_vec()].concat()).is_err() {
            break;
        }
    }
    for end in [&other, &to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}
