//! What applications do with a connection: when they write, how much, and what comes next.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp, Pareto};
use rand_xoshiro::Xoshiro256PlusPlus;

use fairwind_path::units::{Duration, Time};

use crate::scenario::Application;

/// What the application does when its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Opens a connection and writes so many bytes to it, or without end.
    Open(Option<u64>),
    /// Writes without end to the connection it has.
    Resume,
    /// Stops writing.
    Pause,
    /// Sends a datagram of so many IP bytes.
    Datagram(u32),
}

/// An application at work on one connection.
#[derive(Debug)]
pub struct Driver {
    application: Application,
    random: Xoshiro256PlusPlus,
    opened: bool,
    on: bool,
    datagrams: u64,
}

impl Driver {
    /// An application that has not begun. `seed` is its own.
    pub fn new(application: &Application, seed: u64) -> Self {
        Driver {
            application: application.clone(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            opened: false,
            on: false,
            datagrams: 0,
        }
    }

    /// When it begins, for a flow that starts at `start`: web sessions think first.
    pub fn first(&mut self, start: Time) -> Time {
        match self.application {
            Application::Web { think_mean, .. } => start + self.exponential(think_mean),
            _ => start,
        }
    }

    /// Its time has come: what it does, and when it comes again, if that does not depend on what
    /// the connection does.
    pub fn step(&mut self, now: Time, start: Time) -> (Step, Option<Time>) {
        match self.application {
            Application::Bulk { bytes } => (Step::Open(bytes.map(|b| b.0)), None),
            Application::Web {
                object_mean,
                object_shape,
                ..
            } => {
                let size = self.pareto(object_mean.0 as f64, object_shape);
                (Step::Open(Some(size)), None)
            }
            Application::ConstantRate { rate, packet } => {
                self.datagrams += 1;
                // From the start, so that rounding does not add up.
                let bits = u128::from(self.datagrams) * u128::from(packet) * 8;
                let nanos = bits * 1_000_000_000 / u128::from(rate.as_bps());
                let next = start + Duration::from_nanos(nanos as u64);
                (Step::Datagram(packet), Some(next))
            }
            Application::OnOff { on, off, random } => {
                self.on = !self.on;
                let mean = if self.on { on } else { off };
                let length = if random { self.exponential(mean) } else { mean };
                let step = if !self.on {
                    Step::Pause
                } else if self.opened {
                    Step::Resume
                } else {
                    self.opened = true;
                    Step::Open(None)
                };
                (step, Some(now + length))
            }
        }
    }

    /// Everything it wrote has arrived: when it comes again, if it does.
    pub fn on_complete(&mut self, now: Time) -> Option<Time> {
        match self.application {
            Application::Web { think_mean, .. } => Some(now + self.exponential(think_mean)),
            _ => None,
        }
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        if mean == Duration::ZERO {
            return mean;
        }
        let draw = Exp::new(1.0).expect("1 is a rate").sample(&mut self.random);
        Duration::from_secs_f64(mean.as_secs_f64() * draw)
    }

    /// A size of at least one byte with this mean; the tail is cut at ten thousand means.
    fn pareto(&mut self, mean: f64, shape: f64) -> u64 {
        let scale = mean * (shape - 1.0) / shape;
        match Pareto::new(scale, shape) {
            Ok(sizes) => sizes.sample(&mut self.random).min(1e4 * mean).max(1.0) as u64,
            Err(_) => mean.max(1.0) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairwind_path::units::{Bandwidth, Bytes};

    #[test]
    fn datagrams_keep_their_rate_in_the_long_run() {
        let application = Application::ConstantRate {
            rate: Bandwidth::from_bps(7_000_000),
            packet: 1000,
        };
        let mut driver = Driver::new(&application, 1);
        let mut now = driver.first(Time::ZERO);
        for _ in 0..7000 {
            now = driver.step(now, Time::ZERO).1.unwrap();
        }
        // 7000 datagrams of 8000 bits at 7 Mbit/s last 8 s.
        assert_eq!(now, Time::from_secs(8));
    }

    #[test]
    fn fixed_on_off_alternates() {
        let application = Application::OnOff {
            on: Duration::from_secs(1),
            off: Duration::from_secs(2),
            random: false,
        };
        let mut driver = Driver::new(&application, 1);
        let at = |secs| Time::from_secs(secs);
        assert_eq!(driver.step(at(0), at(0)), (Step::Open(None), Some(at(1))));
        assert_eq!(driver.step(at(1), at(0)), (Step::Pause, Some(at(3))));
        assert_eq!(driver.step(at(3), at(0)), (Step::Resume, Some(at(4))));
    }

    #[test]
    fn web_objects_have_the_mean_size() {
        let application = Application::Web {
            sessions: 1,
            object_mean: Bytes(10_000),
            object_shape: 2.5,
            think_mean: Duration::from_secs(1),
        };
        let mut driver = Driver::new(&application, 3);
        let mut sum = 0;
        for _ in 0..20_000 {
            let (Step::Open(Some(size)), None) = driver.step(Time::ZERO, Time::ZERO) else {
                panic!("a web session opens connections")
            };
            sum += size;
        }
        let mean = sum as f64 / 20_000.0;
        assert!((9_500.0..10_500.0).contains(&mean), "mean {mean}");
    }
}
