//! The sink: takes what is sent and forgets it, as the discard protocol does (RFC 863).

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_origin::{Origin, Tally};

use crate::failure::Failure;
use crate::{interrupt, output};

/// Connections of one client (an IPv4 address, or an IPv6 network of 64 bits) at the same time.
const OF_A_CLIENT: u64 = 4;
/// Connections of all clients.
const IN_ALL: u64 = 64;
/// A connection on which nothing arrives is closed after this time.
const SILENCE: Duration = Duration::from_secs(10);
/// And any after this.
const LONGEST: Duration = Duration::from_secs(600);
/// Time between two looks for connections and signals.
const LOOK: Duration = Duration::from_millis(20);
/// Memory of a connection beside the kernel's.
const BUFFER_BYTES: usize = 1 << 16;

/// Takes connections until a signal comes.
pub(super) fn run(address: SocketAddr) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::work(format!("{address}: {error}"));
    let listener = TcpListener::bind(address).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    output::line(&format!("sink at {bound}"))?;
    let open = Arc::new(Mutex::new(Tally::default()));
    while !interrupt::asked() {
        match listener.accept() {
            Ok((stream, peer)) => take(stream, Origin::from(peer.ip()), &open),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(LOOK),
            // The connection is gone already, or there are too many open files: others may work.
            Err(_) => thread::sleep(LOOK),
        }
    }
    Ok(())
}

/// Drains the connection in a thread of its own, unless there are too many.
fn take(stream: TcpStream, client: Origin, open: &Arc<Mutex<Tally>>) {
    let Some(entry) = Entry::new(client, open) else {
        return;
    };
    let drain = move || {
        // Whatever ends the connection, there is nobody to tell.
        let _ = drain(stream);
        drop(entry);
    };
    // Without a thread, the connection is closed.
    let _ = thread::Builder::new().name("sink".into()).spawn(drain);
}

fn drain(mut stream: TcpStream) -> io::Result<()> {
    let end = Instant::now() + LONGEST;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SILENCE))?;
    let mut buffer = vec![0; BUFFER_BYTES];
    while Instant::now() < end && !interrupt::asked() {
        if stream.read(&mut buffer)? == 0 {
            break;
        }
    }
    Ok(())
}

/// A connection in the tally of its client.
struct Entry {
    client: Origin,
    open: Arc<Mutex<Tally>>,
}

impl Entry {
    fn new(client: Origin, open: &Arc<Mutex<Tally>>) -> Option<Entry> {
        let mut tally = open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = tally.of(client);
        if of_client == OF_A_CLIENT || tally.total() == IN_ALL {
            return None;
        }
        tally.set(client, of_client + 1);
        Some(Entry {
            client,
            open: Arc::clone(open),
        })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut tally = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = tally.of(self.client);
        tally.set(self.client, of_client.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn a_client_has_four_connections_and_all_have_64() {
        let open = Arc::new(Mutex::new(Tally::default()));
        let client = |n: u8| Origin::from(IpAddr::from([192, 0, 2, n]));
        let mut entries: Vec<Option<Entry>> =
            (0..5).map(|_| Entry::new(client(0), &open)).collect();
        assert_eq!(entries.iter().flatten().count(), 4);
        entries.truncate(3);
        assert!(Entry::new(client(0), &open).is_some());
        for n in 1..=16 {
            entries.extend((0..4).map(|_| Entry::new(client(n), &open)));
        }
        assert_eq!(entries.iter().flatten().count(), 64);
        assert!(Entry::new(client(99), &open).is_none());
    }
}
