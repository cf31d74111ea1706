//! What protected sessions leave in the server's memory once they are over.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Barrier;
use std::thread;

use super::authority::Authority;
use super::flood::process;
use super::{Secure, Tls};
use crate::common::{Client, Process, eventually};

/// Sessions at a time.
const TOGETHER: usize = 200;

/// Threads of this test that drive them.
const DRIVERS: usize = 4;

/// An upload that has begun and waits for its end.
struct Waiting {
    session: Secure,
    data: Tls,
}

impl Waiting {
    fn begin(authority: &Authority, server: &Process, name: &str) -> Self {
        let mut plain = Client::connect(server.address);
        plain.expect("AUTH TLS", 234);
        let config = authority.client(&[&rustls::version::TLS13]);
        let mut session = Secure::over(plain.stream, config);
        session.expect("USER anonymous", 331);
        session.expect("PASS me@example.org", 230);
        session.expect("PBSZ 0", 200);
        session.expect("PROT P", 200);
        let mut data = session.protected();
        session.expect(&format!("STOR {name}"), 150);
        data.write_all(b"begin").unwrap();
        data.flush().unwrap();
        Self { session, data }
    }

    fn end(mut self) {
        self.data.conn.send_close_notify();
        self.data.flush().unwrap();
        self.data.sock.shutdown(Shutdown::Write).unwrap();
        let _ = self.data.read_to_end(&mut Vec::new());
        assert_eq!(self.session.reply().code, 226);
        self.session.expect("QUIT", 221);
    }
}

/// As many uploads at a time as there are sessions, each of which begins and ends with its own.
fn round(authority: &Authority, server: &Process) {
    let barrier = Barrier::new(DRIVERS);
    thread::scope(|scope| {
        for driver in 0..DRIVERS {
            let barrier = &barrier;
            scope.spawn(move || {
                let names = (driver..TOGETHER).step_by(DRIVERS);
                let uploads =
                    names.map(|name| Waiting::begin(authority, server, &name.to_string()));
                let uploads: Vec<_> = uploads.collect();
                barrier.wait();
                uploads.into_iter().for_each(Waiting::end);
            });
        }
    });
    eventually("all sessions have ended", || server.descriptors() < 40);
}

#[test]
fn sessions_that_come_and_go_leave_the_memory_as_it_was() {
    /// What may be left of what is no file's, KiB: what 200 sessions leave is 4 to 5 MiB, and 10 MiB at least if
    /// the end of an arena is kept.
    const LEFT: u64 = 8 << 10;
    let authority = Authority::new();
    let (_dir, server) = process(
        &authority,
        "handshakes_per_minute = 0\n\
         [[access]]\npath = \"/\"\nusers = [\"anonymous\"]\nrights = [\"create\", \"write\"]\n",
    );
    let idle = server.kib("RssAnon");
    let mut memory = Vec::new();
    for _ in 0..10 {
        round(&authority, &server);
        memory.push(server.kib("RssAnon"));
    }
    println!("{idle} KiB, after each {TOGETHER} sessions {memory:?} KiB");
    eventually("the memory is returned", || {
        server.kib("RssAnon") < idle + LEFT
    });
}
