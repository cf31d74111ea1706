//! What an application does with its connection: when it writes, how much, and what follows.

use fairwind_path::units::{Bandwidth, Duration, Time};

use crate::application::Application;
use crate::random::{Random, seed_for};

/// An action of an application when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Opens a connection and writes this many bytes to it; `None` means without end.
    Open(Option<u64>),
    /// Resumes writing without end to its connection.
    Resume,
    /// Stops writing.
    Pause,
    /// Sends a datagram of this many IP bytes.
    Datagram(u32),
}

/// The state of an application on one connection or one stream of datagrams.
#[derive(Debug)]
pub struct Driver {
    application: Application,
    start: Time,
    random: Random,
    opened: bool,
    on: bool,
    datagrams: u64,
}

impl Driver {
    /// The drivers of a flow that starts at `start`, one for each of its connections. The connections have
    /// the numbers `first`, `first + 1`, … among all in the run with `seed`.
    pub fn of_flow(
        application: &Application,
        start: Time,
        seed: u64,
        first: usize,
    ) -> impl Iterator<Item = Driver> + '_ {
        (0..application.connections()).map(move |connection| Driver {
            application: application.clone(),
            start,
            random: Random::new(seed_for(seed, "application", first + connection)),
            opened: false,
            on: false,
            datagrams: 0,
        })
    }

    /// When the application is first due: at the start of the flow, or, for web sessions, after a think
    /// time. To be called once, as it may draw from the random numbers.
    pub fn first(&mut self) -> Time {
        match self.application {
            Application::Web { think_mean, .. } => self.start + self.random.exponential(think_mean),
            _ => self.start,
        }
    }

    /// Runs the application, which is due at `now`: returns its action, and when it is due again, if that
    /// does not depend on the progress of the connection.
    pub fn step(&mut self, now: Time) -> (Step, Option<Time>) {
        match self.application {
            Application::Bulk { bytes } => (Step::Open(bytes.map(|b| b.0)), None),
            Application::Web {
                object_mean,
                object_shape,
                ..
            } => {
                let size = self.random.pareto(object_mean, object_shape);
                (Step::Open(Some(size)), None)
            }
            Application::ConstantRate { rate, packet } => {
                self.datagrams += 1;
                let next = self.start + sending_time(self.datagrams, packet, rate);
                (Step::Datagram(packet), Some(next))
            }
            Application::OnOff { on, off, random } => {
                self.on = !self.on;
                let mean = if self.on { on } else { off };
                let length = match random {
                    true => self.random.exponential(mean),
                    false => mean,
                };
                (self.turn(), Some(now + length))
            }
        }
    }

    /// The action at the start of an on or off period.
    fn turn(&mut self) -> Step {
        if !self.on {
            return Step::Pause;
        }
        match std::mem::replace(&mut self.opened, true) {
            true => Step::Resume,
            false => Step::Open(None),
        }
    }

    /// Reports that everything written has arrived, at `now`. Returns when the application is due again,
    /// if ever.
    pub fn on_complete(&mut self, now: Time) -> Option<Time> {
        match self.application {
            Application::Web { think_mean, .. } => Some(now + self.random.exponential(think_mean)),
            _ => None,
        }
    }
}

/// The time that `datagrams` take. Counted from the first one, so that rounding does not accumulate.
fn sending_time(datagrams: u64, packet: u32, rate: Bandwidth) -> Duration {
    let bits = u128::from(datagrams) * u128::from(packet) * 8;
    let nanos = bits * 1_000_000_000 / u128::from(rate.as_bps()).max(1);
    Duration::from_nanos(nanos.try_into().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairwind_path::units::Bytes;

    fn driver(application: &Application, start: Time) -> Driver {
        Driver::of_flow(application, start, 1, 0).next().unwrap()
    }

    #[test]
    fn datagrams_keep_their_rate_in_the_long_run() {
        let application = Application::ConstantRate {
            rate: Bandwidth::from_bps(7_000_000),
            packet: 1000,
        };
        let mut driver = driver(&application, Time::from_secs(1));
        let mut now = driver.first();
        assert_eq!(now, Time::from_secs(1));
        for _ in 0..7000 {
            let (step, next) = driver.step(now);
            assert_eq!(step, Step::Datagram(1000));
            now = next.unwrap();
        }
        // 7000 datagrams of 8000 bits at 7 Mbit/s last 8 s.
        assert_eq!(now, Time::from_secs(9));
    }

    #[test]
    fn datagrams_come_at_their_time_after_one_that_was_late() {
        let application = Application::ConstantRate {
            rate: Bandwidth::from_bps(8_000_000),
            packet: 1000,
        };
        let mut driver = driver(&application, Time::ZERO);
        let at = Time::from_micros;
        assert_eq!(driver.step(at(0)).1, Some(at(1000)));
        assert_eq!(driver.step(at(1700)).1, Some(at(2000)));
    }

    #[test]
    fn fixed_on_off_alternates() {
        let application = Application::OnOff {
            on: Duration::from_secs(1),
            off: Duration::from_secs(2),
            random: false,
        };
        let mut driver = driver(&application, Time::ZERO);
        let at = Time::from_secs;
        assert_eq!(driver.step(at(0)), (Step::Open(None), Some(at(1))));
        assert_eq!(driver.step(at(1)), (Step::Pause, Some(at(3))));
        assert_eq!(driver.step(at(3)), (Step::Resume, Some(at(4))));
    }

    #[test]
    fn a_transfer_is_written_once() {
        let application = Application::Bulk {
            bytes: Some(Bytes(5000)),
        };
        let mut driver = driver(&application, Time::from_secs(2));
        assert_eq!(driver.first(), Time::from_secs(2));
        assert_eq!(
            driver.step(Time::from_secs(2)),
            (Step::Open(Some(5000)), None)
        );
        assert_eq!(driver.on_complete(Time::from_secs(3)), None);
    }

    #[test]
    fn the_objects_and_think_times_of_a_connection_follow_from_the_seed_and_its_number() {
        let application = Application::Web {
            sessions: 2,
            object_mean: Bytes(12_000),
            object_shape: 1.2,
            think_mean: Duration::from_secs(1),
        };
        let start = Time::from_secs(1);
        let drawn: Vec<_> = Driver::of_flow(&application, start, 1, 3)
            .map(|mut driver| {
                let first = driver.first();
                let sizes = [(); 2].map(|()| {
                    let (step, _) = driver.step(first);
                    let again = driver.on_complete(start).unwrap();
                    (step, again.as_micros())
                });
                (first.as_micros(), sizes)
            })
            .collect();
        let open = |bytes| Step::Open(Some(bytes));
        assert_eq!(
            drawn,
            [
                (
                    2_236_233,
                    [(open(5190), 1_916_199), (open(9618), 3_786_146)]
                ),
                (
                    2_254_116,
                    [(open(2852), 1_838_061), (open(7681), 1_107_024)]
                ),
            ]
        );
        let mut fifth = Driver::of_flow(&application, start, 1, 4).next().unwrap();
        assert_eq!(fifth.first().as_micros(), drawn[1].0);
    }
}
