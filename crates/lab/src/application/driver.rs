//! What applications do with a connection, and when: the simulator's draws and times.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp, Pareto};
use rand_xoshiro::Xoshiro256PlusPlus;

use fairwind_path::units::{Duration, Time};

use super::plan::Application;

/// What an application on TCP does when its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Opens a connection and writes so many bytes to it, or without end.
    Open(Option<u64>),
    /// Writes without end to the connection it has.
    Resume,
    /// Stops writing.
    Pause,
}

/// An application at work on one connection.
#[derive(Debug)]
pub struct Driver {
    application: Application,
    random: Xoshiro256PlusPlus,
    opened: bool,
    on: bool,
}

impl Driver {
    /// An application that has not begun: number `index` among the connections of the run.
    pub fn new(application: &Application, seed: u64, index: usize) -> Self {
        Driver {
            application: application.clone(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed_for(seed, "application", index)),
            opened: false,
            on: false,
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
    /// the connection does. Nothing if it does not use TCP.
    pub fn step(&mut self, now: Time) -> Option<(Step, Option<Time>)> {
        match self.application {
            Application::Bulk { bytes } => Some((Step::Open(bytes.map(|b| b.0)), None)),
            Application::Web {
                object_mean,
                object_shape,
                ..
            } => {
                let size = self.pareto(object_mean.0 as f64, object_shape);
                Some((Step::Open(Some(size)), None))
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
                Some((step, Some(now + length)))
            }
            Application::ConstantRate { .. } | Application::Command { .. } => None,
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

/// The seed of part `index` of a `kind` in a run with `seed` (SplitMix64 over an FNV-1a hash), as in
/// the simulator.
fn seed_for(seed: u64, kind: &str, index: usize) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let bytes = kind
        .bytes()
        .chain(seed.to_le_bytes())
        .chain((index as u64).to_le_bytes());
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairwind_path::units::Bytes;

    #[test]
    fn fixed_on_off_alternates() {
        let application = Application::OnOff {
            on: Duration::from_secs(1),
            off: Duration::from_secs(2),
            random: false,
        };
        let mut driver = Driver::new(&application, 1, 0);
        let at = Time::from_secs;
        let mut step = |secs| driver.step(at(secs)).unwrap();
        assert_eq!(step(0), (Step::Open(None), Some(at(1))));
        assert_eq!(step(1), (Step::Pause, Some(at(3))));
        assert_eq!(step(3), (Step::Resume, Some(at(4))));
    }

    #[test]
    fn web_objects_have_the_mean_size() {
        let application = Application::Web {
            sessions: 1,
            object_mean: Bytes(10_000),
            object_shape: 2.5,
            think_mean: Duration::from_secs(1),
        };
        let mut driver = Driver::new(&application, 3, 0);
        let mut sum = 0;
        for _ in 0..20_000 {
            let Some((Step::Open(Some(size)), None)) = driver.step(Time::ZERO) else {
                panic!("a web session opens connections")
            };
            sum += size;
        }
        let mean = sum as f64 / 20_000.0;
        assert!((9_500.0..10_500.0).contains(&mean), "mean {mean}");
    }
}
