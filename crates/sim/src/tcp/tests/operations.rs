//! Whatever the network, the clock and the application do to a connection: never more in flight than the
//! windows allow, every byte delivered once and in order, acknowledgements and time that do not go back.

use std::rc::Rc;

use fairwind_cc::native::all;
use fairwind_path::ecn::Ecn;
use fairwind_path::units::{Bytes, Duration, Time};
use fairwind_testing::fuzz::cases;
use proptest::prelude::*;
use proptest::sample::Index;

use super::script::{blank, tcp};
use crate::agenda::NEVER;
use crate::packet::{Kind, Packet, SackBlocks};
use crate::scenario::{Stack, TcpConfig};
use crate::tcp::{Receiver, Reply, Sender};

#[derive(Clone, Debug)]
enum Operation {
    /// Time passes; timers that are due by then expire.
    Pass {
        us: u64,
    },
    /// The application writes.
    Write {
        bytes: u64,
    },
    /// A packet under way arrives, whichever it is.
    Arrive {
        which: Index,
    },
    /// The same, and a copy of it stays under way.
    ArriveTwice {
        which: Index,
    },
    /// The packets under way arrive in order.
    ArriveAll,
    Lose {
        which: Index,
    },
    /// A queue marks the packet, if that is ECN-capable.
    Mark {
        which: Index,
    },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let which = any::<Index>;
    let operation = prop_oneof![
        4 => prop_oneof![0..2_000_u64, 0..1_000_000_u64].prop_map(|us| Operation::Pass { us }),
        2 => prop_oneof![1..3_000_u64, 1..30_000_u64].prop_map(|bytes| Operation::Write { bytes }),
        8 => which().prop_map(|which| Operation::Arrive { which }),
        1 => which().prop_map(|which| Operation::ArriveTwice { which }),
        2 => Just(Operation::ArriveAll),
        2 => which().prop_map(|which| Operation::Lose { which }),
        1 => which().prop_map(|which| Operation::Mark { which }),
    ];
    prop::collection::vec(operation, 1..120)
}

fn config() -> impl Strategy<Value = TcpConfig> {
    (
        0..all().len(),
        prop_oneof![Just(Stack::Linux), Just(Stack::Classic2005)],
        prop::sample::select(vec![None, Some(100_u32), Some(250), Some(1000)]),
        prop::option::of(600..100_000_u64),
        prop::option::of(3_000..50_000_u64),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(control, stack, hz, receive_buffer, send_buffer, pacing, ecn)| TcpConfig {
                hz,
                receive_buffer: receive_buffer.map(Bytes),
                send_buffer: send_buffer.map(Bytes),
                pacing,
                ecn,
                ..tcp(all()[control].name(), stack)
            },
        )
}

/// Both ends, what is under way between them, and what must be true of it.
struct Connection {
    sender: Sender,
    receiver: Receiver,
    now: Time,
    under_way: Vec<(Packet, SackBlocks)>,
    written: u64,
    /// One past the last byte sent.
    sent: u64,
    /// The furthest byte that an acknowledgement has allowed.
    allowed: u64,
    /// Which bytes have arrived, and how many of the first ones all have.
    arrived: Vec<bool>,
    in_order: u64,
    acknowledged: u64,
}

impl Connection {
    fn open(config: &TcpConfig) -> Result<Connection, TestCaseError> {
        let mut connection = Connection {
            sender: Sender::new(Time::ZERO, config, &Rc::default(), 0, 0),
            receiver: Receiver::new(config),
            now: Time::ZERO,
            under_way: Vec::new(),
            written: 0,
            sent: 0,
            allowed: 0,
            arrived: Vec::new(),
            in_order: 0,
            acknowledged: 0,
        };
        connection.write(10_000)?;
        connection.act(0, |sender, now, out| sender.open(now, out))?;
        prop_assert_eq!(connection.sent, 0, "before the window is known");
        Ok(connection)
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), TestCaseError> {
        match *operation {
            Operation::Pass { us } => self.pass(self.now + Duration::from_micros(us)),
            Operation::Write { bytes } => self.write(bytes),
            Operation::ArriveAll => self.arrive_all(),
            Operation::Arrive { .. }
            | Operation::ArriveTwice { .. }
            | Operation::Lose { .. }
            | Operation::Mark { .. }
                if self.under_way.is_empty() =>
            {
                Ok(())
            }
            Operation::Arrive { which } => {
                let at = which.index(self.under_way.len());
                let (packet, sack) = self.under_way.remove(at);
                self.arrive(packet, sack)
            }
            Operation::ArriveTwice { which } => {
                let (packet, sack) = *which.get(&self.under_way);
                self.arrive(packet, sack)
            }
            Operation::Mark { which } => {
                let at = which.index(self.under_way.len());
                let (packet, _) = &mut self.under_way[at];
                if packet.ecn.is_capable() {
                    packet.ecn = Ecn::Ce;
                }
                Ok(())
            }
            Operation::Lose { which } => {
                let at = which.index(self.under_way.len());
                self.under_way.remove(at);
                Ok(())
            }
        }
    }

    fn write(&mut self, bytes: u64) -> Result<(), TestCaseError> {
        self.written += bytes;
        self.arrived.resize(self.written as usize, false);
        self.act(0, |sender, now, out| {
            sender.write(now, Some(bytes), out);
        })
    }

    fn arrive_all(&mut self) -> Result<(), TestCaseError> {
        for (packet, sack) in std::mem::take(&mut self.under_way) {
            self.arrive(packet, sack)?;
        }
        Ok(())
    }

    fn arrive(&mut self, packet: Packet, sack: SackBlocks) -> Result<(), TestCaseError> {
        match packet.kind {
            Kind::Syn => {
                let reply = self.receiver.on_syn(self.now, &packet);
                self.under_way.push((reply.packet, reply.sack));
            }
            Kind::Data => {
                self.arrived[packet.seq as usize..packet.end() as usize].fill(true);
                let behind = &self.arrived[self.in_order as usize..];
                let more = behind.iter().take_while(|arrived| **arrived).count();
                self.in_order += more as u64;
                let reply = self.receiver.receive(self.now, &packet);
                prop_assert_eq!(self.receiver.delivered(), self.in_order);
                self.answer(reply)?;
            }
            Kind::SynAck | Kind::Ack => {
                self.allowed = self.allowed.max(packet.seq + u64::from(packet.window));
                self.act(0, |sender, now, out| {
                    sender.receive(now, &packet, &sack, out);
                })?;
                prop_assert!(self.sender.bytes_acked() <= self.in_order);
            }
            Kind::Datagram => unreachable!("a connection sends none"),
        }
        Ok(())
    }

    /// Checks what the receiver sends.
    fn answer(&mut self, reply: Option<Reply>) -> Result<(), TestCaseError> {
        let Some(Reply { packet, sack }) = reply else {
            return Ok(());
        };
        prop_assert_eq!(packet.seq, self.in_order);
        prop_assert!(
            packet.seq >= self.acknowledged,
            "acknowledged less than before"
        );
        self.acknowledged = packet.seq;
        for block in sack.iter() {
            prop_assert!(block.start < block.end && block.end <= self.sent);
            let bytes = &self.arrived[block.start as usize..block.end as usize];
            prop_assert!(
                bytes.iter().all(|arrived| *arrived),
                "nothing of it is missing"
            );
        }
        self.under_way.push((packet, sack));
        Ok(())
    }

    /// Lets the sender act, and checks what it sends. Of tail loss probes, which heed only the receiver's
    /// window, there may be this many.
    fn act(
        &mut self,
        probes: u32,
        act: impl FnOnce(&mut Sender, Time, &mut Vec<Packet>),
    ) -> Result<(), TestCaseError> {
        let cwnd_before = self.sender.tp().snd_cwnd;
        let mut out = Vec::new();
        act(&mut self.sender, self.now, &mut out);
        self.sender.check_counters();
        let mut new = 0;
        for packet in out {
            if packet.kind == Kind::Data {
                prop_assert!(packet.len > 0 && packet.end() <= self.written);
                prop_assert!(packet.end() <= self.allowed, "beyond the receiver's window");
                if packet.end() > self.sent {
                    prop_assert_eq!(packet.seq, self.sent);
                    self.sent = packet.end();
                    new += 1;
                }
            }
            self.under_way.push((packet, SackBlocks::default()));
        }
        let cwnd = cwnd_before.max(self.sender.tp().snd_cwnd);
        let in_flight = self.sender.in_flight();
        if new > probes {
            prop_assert!(in_flight <= cwnd + probes);
        }
        Ok(())
    }

    fn next_due(&self) -> Time {
        self.sender.due().min(self.receiver.due())
    }

    fn pass(&mut self, until: Time) -> Result<(), TestCaseError> {
        let mut at_once = 0;
        while self.next_due() <= until {
            let before = self.now;
            self.now = self.now.max(self.next_due());
            at_once = if self.now > before { 0 } else { at_once + 1 };
            prop_assert!(
                at_once < 1_000,
                "timers expire without end at {:?}",
                self.now
            );
            if self.sender.due() <= self.now {
                self.act(1, |sender, now, out| sender.on_timer(now, out))?;
            }
            if self.receiver.due() <= self.now {
                let reply = self.receiver.on_timer(self.now, &blank(Kind::Data));
                self.answer(reply)?;
            }
        }
        self.now = until;
        Ok(())
    }

    /// Nothing is lost any more: everything written is delivered and acknowledged.
    fn end(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..10_000 {
            self.arrive_all()?;
            if self.sender.bytes_acked() == self.written {
                return Ok(());
            }
            let due = self.next_due();
            let arrives = !self.under_way.is_empty();
            prop_assert!(arrives || due != NEVER, "it waits for nothing");
            let soon = self.now + Duration::from_millis(10);
            self.pass(if arrives { soon } else { due.max(soon) })?;
        }
        let acked = self.sender.bytes_acked();
        prop_assert_eq!(acked, self.written, "at {:?}", self.now);
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_byte_is_delivered_once_in_order_and_within_the_windows(
        config in config(), operations in operations(),
    ) {
        let mut connection = Connection::open(&config)?;
        for operation in &operations {
            connection.apply(operation)?;
        }
        connection.end()?;
    }
}
