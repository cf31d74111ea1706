//! The law at work on a connection of this process.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwind_kernel::{TcpInfo, sockopt};

use super::law::{Law, Seen};
use super::neighbours::{Neighbours, mark};
use crate::TransferWatcher;

/// How often the connection is looked at.
const INTERVAL: Duration = Duration::from_millis(10);

/// What was held down.
#[derive(Debug, Default)]
pub struct Held {
    yielded_ns: AtomicU64,
}

impl Held {
    /// How long transfers have yielded to others.
    pub fn yielded(&self) -> Duration {
        Duration::from_nanos(self.yielded_ns.load(Ordering::Relaxed))
    }
}

/// Holds one transfer in the background that this host receives.
#[derive(Debug)]
pub struct Holding {
    held: Arc<Held>,
    /// Dropping the sender ends the thread.
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Holding {
    /// For one transfer; what was held is added to `held`.
    pub fn new(held: Arc<Held>) -> Holding {
        Holding {
            held,
            running: None,
        }
    }

    fn start(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = TcpStream::from(socket.try_clone_to_owned()?);
        let mut law = Law::new(TcpInfo::of(&socket)?.tcpi_advmss);
        offer(&socket, &law)?;
        let cookie = sockopt::cookie(&socket)?;
        // Without it, others in the background take it for one that is not.
        let _ = mark(&socket);
        let mut neighbours = Neighbours::default();
        let (sender, ended) = mpsc::channel();
        let held = Arc::clone(&self.held);
        let thread = thread::Builder::new()
            .name("background".into())
            .stack_size(256 << 10);
        let thread = thread.spawn(move || {
            let began = Instant::now();
            // Without its information the connection is closed, and so is the transfer soon.
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let Ok(info) = TcpInfo::of(&socket) else {
                    break;
                };
                let seen = Seen::of(&info, began.elapsed());
                // Where they cannot be seen, their queue still can.
                let _ = neighbours.look(seen.at);
                let rtt = seen.rtt.unwrap_or_default();
                law.see(&seen, &neighbours.beside(cookie, rtt));
                if offer(&socket, &law).is_err() {
                    break;
                }
            }
            let yielded = law.yielded().as_nanos() as u64;
            held.yielded_ns.fetch_add(yielded, Ordering::Relaxed);
        })?;
        self.running = Some((sender, thread));
        Ok(())
    }
}

fn offer(socket: impl AsFd, law: &Law) -> io::Result<()> {
    sockopt::set_window_clamp(socket, law.window())
}

impl TransferWatcher for Holding {
    fn started(&mut self, socket: BorrowedFd<'_>, _: Option<u64>) {
        // A transfer that cannot be held goes on: it is the user's.
        let _ = self.start(socket);
    }

    fn progressed(&mut self, _: u64) {}

    fn ended(&mut self, _: u64) {
        if let Some((sender, thread)) = self.running.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}
