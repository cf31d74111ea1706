//! The ports of passive data connections, shared between origins: if none is free for one of them, the
//! one that has the most gives one up.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};

use fairwind_origin::Origin;
use fairwind_transfer::SocketPlan;
use parking_lot::Mutex;

/// The ports that are listened on, and for whom.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// The oldest first. Once nobody listens any more, the socket has been dropped.
    held: Mutex<Vec<Held>>,
}

#[derive(Debug)]
struct Held {
    origin: Origin,
    at: SocketAddr,
    socket: Weak<TcpListener>,
}

impl Ports {
    /// A listening socket on a port of `range`, or on any port. If all are taken, the origin that has the
    /// most, and at least two more than this one, gives up its oldest: nobody can connect there any more,
    /// and waiting on it ends with `EINVAL`.
    ///
    /// # Errors
    /// `EADDRINUSE` if no port is free; or if the socket cannot be opened as planned.
    pub(super) fn listen(
        &self,
        range: Option<&RangeInclusive<u16>>,
        address: IpAddr,
        origin: Origin,
        plan: &SocketPlan,
    ) -> io::Result<Arc<TcpListener>> {
        let Some(range) = range else {
            return Ok(Arc::new(plan.listen(SocketAddr::new(address, 0))?.into()));
        };
        let mut held = self.held.lock();
        held.retain(|held| held.socket.strong_count() > 0);
        let taken: HashSet<SocketAddr> = held.iter().map(|held| held.at).collect();
        let (at, socket) = match find(range, address, &taken, plan)? {
            Some(found) => found,
            None => {
                let at = give_up(&mut held, address, origin).ok_or(io::ErrorKind::AddrInUse)?;
                (at, plan.listen(at)?)
            }
        };
        let socket = Arc::new(TcpListener::from(socket));
        held.push(Held {
            origin,
            at,
            socket: Arc::downgrade(&socket),
        });
        Ok(socket)
    }
}

/// A free port, from a random place in the range so that it cannot be guessed from the last one.
fn find(
    range: &RangeInclusive<u16>,
    address: IpAddr,
    taken: &HashSet<SocketAddr>,
    plan: &SocketPlan,
) -> io::Result<Option<(SocketAddr, socket2::Socket)>> {
    let width = u32::from(range.end() - range.start()) + 1;
    let begin = random(width)?;
    for step in 0..width {
        let port = *range.start() + ((begin + step) % width) as u16;
        let at = SocketAddr::new(address, port);
        if taken.contains(&at) {
            continue;
        }
        match plan.listen(at) {
            // In use elsewhere.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            socket => return Ok(Some((at, socket?))),
        }
    }
    Ok(None)
}

/// Has the origin with the most sockets stop listening on its oldest, which is removed from `held`;
/// returns its address.
fn give_up(held: &mut Vec<Held>, address: IpAddr, origin: Origin) -> Option<SocketAddr> {
    let mut counts: HashMap<Origin, usize> = HashMap::new();
    for held in held.iter().filter(|held| held.at.ip() == address) {
        *counts.entry(held.origin).or_default() += 1;
    }
    let own = counts.get(&origin).copied().unwrap_or(0);
    let (most, _) = counts
        .into_iter()
        .filter(|(_, count)| *count >= own + 2)
        .max_by_key(|(_, count)| *count)?;
    let oldest = held
        .iter()
        .position(|held| held.origin == most && held.at.ip() == address)?;
    let given_up = held.remove(oldest);
    if let Some(socket) = given_up.socket.upgrade() {
        // It stays bound, but as it no longer listens it is in nobody's way (SO_REUSEADDR). If this
        // fails, nobody else can listen there, which is reported then.
        let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
    }
    Some(given_up.at)
}

/// An unpredictable number below `width`.
fn random(width: u32) -> io::Result<u32> {
    let mut bytes = [0; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u32::from_ne_bytes(bytes) % width)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn who_has_given_a_port_up_is_not_asked_for_it_again() {
        // A separate address, so that other tests' ports are not in the way.
        let address = IpAddr::from([127, 250, 0, 1]);
        let (ports, plan) = (Ports::default(), SocketPlan::default());
        let listen = |from: u32| {
            let origin = Origin::from(IpAddr::from(Ipv4Addr::from_bits(from)));
            ports.listen(Some(&(50_000..=50_003)), address, origin, &plan)
        };
        // All are kept: a session takes a while to release one.
        let _hoarder: Vec<_> = (0..4).map(|_| listen(1).unwrap()).collect();
        let _others: Vec<_> = (2..5).map(|from| listen(from).unwrap()).collect();
        let none = listen(5).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::AddrInUse);
    }
}
