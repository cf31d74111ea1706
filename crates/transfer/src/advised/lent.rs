//! A live connection of another program that follows orders: its socket is there for moments only.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use fairwind_kernel::TcpInfo;

use super::connection::{Permit, Settings};
use super::observer::PathObserver;
use super::orders::Orders;
use super::record::{Event, EventLog};
use super::starts::Starts;
use crate::Direction;

/// The connection, as advice has left it.
#[derive(Debug)]
pub struct Lent {
    settings: Settings,
    sent: PathObserver,
    received: PathObserver,
    /// The number of the orders that it follows.
    followed: Option<u64>,
}

impl Lent {
    /// That of a socket, whose rate is at most `limit`, bytes a second, whatever is advised.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell its congestion control.
    pub fn of(socket: BorrowedFd<'_>, limit: Option<u64>) -> io::Result<Lent> {
        Ok(Lent {
            settings: Settings::of(socket, limit, Arc::new(Starts::none()))?,
            sent: PathObserver::beginning_with(None),
            received: PathObserver::beginning_with(None),
            followed: None,
        })
    }

    /// Its program has chosen its congestion control, which it keeps.
    pub fn leave_control(&mut self, socket: BorrowedFd<'_>) {
        self.settings.leave_control(socket);
    }

    /// Its congestion control, by the kernel's name.
    pub fn control(&self) -> &str {
        self.settings.control()
    }

    /// Whether it follows any orders.
    pub fn has_followed(&self) -> bool {
        self.followed.is_some()
    }

    /// Carries out orders, by their number, in both directions, if they are others than before or its path has shown more;
    /// returns what was done. `off` says whether congestion control may be off to this peer.
    pub fn follow(
        &mut self,
        socket: BorrowedFd<'_>,
        info: &TcpInfo,
        (number, orders): (u64, &Orders),
        (peer, off): (IpAddr, bool),
    ) -> Vec<Event> {
        let (now, round_trip) = (Instant::now(), info.min_rtt());
        let shows = [
            self.sent.measure(now, info.tcpi_bytes_acked, round_trip),
            self.received
                .measure(now, info.tcpi_bytes_received, round_trip),
        ];
        let is_new = self.followed.replace(number) != Some(number);
        if !is_new && shows == [false; 2] {
            return Vec::new();
        }
        let (orders, mut events) = orders.within(self.sent.observed, Direction::Send);
        let (orders, more) = orders.within(self.received.observed, Direction::Receive);
        events.extend(more);
        let permit = Permit {
            peer,
            granted: off,
            option: "--allow-nocc".to_owned(),
        };
        let mut log = EventLog::because(&orders.reason);
        self.settings.send(socket, &orders, &permit, &mut log);
        self.settings.receive(socket, &orders, &mut log);
        events.extend(log.events);
        events
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use fairwind_advice::wire::Answer;
    use fairwind_kernel::sockopt;
    use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};

    use super::*;
    use crate::advised::Setting;

    fn orders(changes: &str) -> Orders {
        let text = format!(
            "{{\"mode\": \"congestion-control\", {changes} \"next_advice\": \"2026-01-01T00:00:00Z\", \
             \"model\": \"linear\", \"days_used\": 0, \"reason\": \"\", \"ask_again_after_s\": 2.0}}"
        );
        let answer: Answer = serde_json::from_str(&text).unwrap();
        Orders::of_answer(&answer, 9).unwrap()
    }

    /// What it does, one word each.
    fn followed(lent: &mut Lent, socket: &TcpStream, number: u64, orders: &Orders) -> Vec<String> {
        let info = TcpInfo::of(socket).unwrap();
        let peer = socket.peer_addr().unwrap().ip();
        let events = lent.follow(socket.as_fd(), &info, (number, orders), (peer, false));
        let word = |event: &Event| match event {
            Event::Change { what, to, .. } => format!("{what} {to}"),
            Event::Refused { what, .. } => format!("no {what}"),
            other => panic!("{other}"),
        };
        events.iter().map(word).collect()
    }

    #[test]
    fn both_directions_follow_within_the_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        sockopt::set_max_pacing_rate(&socket, Some(2_000_000)).unwrap();
        let mut lent = Lent::of(socket.as_fd(), Some(2_000_000)).unwrap();
        let initial = lent.control().to_owned();
        let slow = orders("\"congestion_control\": \"reno\", \"pacing_mbps\": 8.0,");
        let mut said = vec![format!("{} 8", Setting::Pacing)];
        if initial != "reno" {
            said.push(format!("{} reno", Setting::CongestionControl));
        }
        assert_eq!(followed(&mut lent, &socket, 1, &slow), said);
        assert_eq!(tcp_congestion(&socket).unwrap(), "reno");
        assert!(lent.has_followed());
        // Faster than the limit.
        let fast = orders("\"congestion_control\": \"reno\", \"pacing_mbps\": 80.0,");
        let said = format!("{} 16", Setting::Pacing);
        assert_eq!(followed(&mut lent, &socket, 2, &fast), [said]);
        // Not in the network of an operator who allows it.
        let off = orders("\"congestion_control\": \"fw_nocc\", \"pacing_mbps\": 4.0,");
        let said = followed(&mut lent, &socket, 3, &off);
        assert_eq!(said[0], format!("no {}", Setting::CongestionControl));
        assert_eq!(tcp_congestion(&socket).unwrap(), initial);
    }

    #[test]
    fn what_its_program_has_chosen_is_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut lent = Lent::of(socket.as_fd(), None).unwrap();
        set_tcp_congestion(&socket, "reno").unwrap();
        lent.leave_control(socket.as_fd());
        let orders = orders("\"congestion_control\": \"cubic\", \"pacing_mbps\": 8.0,");
        let said = format!("{} 8", Setting::Pacing);
        assert_eq!(followed(&mut lent, &socket, 1, &orders), [said]);
        assert_eq!(tcp_congestion(&socket).unwrap(), "reno");
        assert_eq!(lent.control(), "reno");
    }
}
