//! The numbers of the demonstration.
//!
//! After Akarapu 2002, chapter 5: a path of 100 Mbit/s with a round-trip time of 50 ms (his 50 ms are
//! all in one direction, and he calls them an RTT), buffers of 1 MB, a threshold of 42 Mbit/s.

use std::time::Duration;

use fairwind_advice::{Controls, ModelKind, Settings};
use jiff::{SignedDuration, Timestamp};

/// Bandwidth of the path, Mbit/s.
pub const CAPACITY_MBPS: f64 = 100.0;
/// Delay of the path in one direction, milliseconds.
pub const DELAY_MS: u32 = 25;
/// Available bandwidth below which the path is congested, Mbit/s.
pub const THRESHOLD_MBPS: f64 = 42.0;
/// Queue of the path, packets: bandwidth times round-trip time.
pub const QUEUE_PACKETS: u32 = 430;
/// Buffer size that programs request for the transfer, bytes; the kernel doubles it for bookkeeping. The
/// resulting window is 1,310,720 bytes, twice the bandwidth times the round-trip time.
pub const BUFFER_BYTES: u64 = 1 << 20;
/// When the transfer starts in a run, seconds: by then the others are in equilibrium.
pub const START_S: f64 = 2.0;
/// Connections of the others.
pub const OTHERS: usize = 4;
/// Weeks of history.
pub const WEEKS: i64 = 9;
/// Time between two tests of the available bandwidth.
pub const TEST_INTERVAL: SignedDuration = SignedDuration::from_mins(5);
/// Name of the path in the advisor.
pub const PATH: &str = "demo";
/// Name of its only hop, which the others share.
pub const HOP: &str = "bottleneck";

/// What happens in a demonstration, and how fast.
#[derive(Clone, Debug)]
pub struct Story {
    /// Seed of the curve, the file and all random choices.
    pub seed: u64,
    /// Length of each run, seconds.
    pub length_s: f64,
    /// Time of day at the start of a run.
    pub begins: Timestamp,
    /// Seconds of the day that pass in a second of the run.
    pub rate: f64,
    /// Size of the file, bytes.
    pub file_bytes: u64,
}

/// How the file is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Not at all: the others are alone.
    Nobody,
    /// By standard TCP.
    Standard,
    /// With congestion control switched off throughout.
    Nocc,
    /// With congestion control switched off and on by advice.
    Advised,
}

impl Way {
    /// All, in the order in which they run.
    pub const ALL: [Way; 4] = [Way::Nobody, Way::Standard, Way::Nocc, Way::Advised];
    /// Those that move the file.
    pub const TRANSFERS: [Way; 3] = [Way::Standard, Way::Nocc, Way::Advised];

    /// Name of its result folder.
    pub fn folder(self) -> &'static str {
        self.names()[0]
    }

    /// Its name in tables and reports.
    pub fn words(self) -> &'static str {
        self.names()[1]
    }

    fn names(self) -> [&'static str; 2] {
        match self {
            Way::Nobody => ["others-alone", "the others alone"],
            Way::Standard => ["standard", "standard TCP"],
            Way::Nocc => ["nocc", "NOCC throughout"],
            Way::Advised => ["advised", "advised"],
        }
    }
}

impl Story {
    /// From half past eight in the morning to half past two at night, half an hour a second.
    pub fn full(seed: u64) -> Story {
        Story {
            seed,
            length_s: 36.0,
            begins: timestamp("2026-03-03T08:30:00Z"),
            rate: 1800.0,
            file_bytes: 150_000_000,
        }
    }

    /// Five and a half hours around noon, before which the path becomes congested.
    pub fn quick(seed: u64) -> Story {
        Story {
            seed,
            length_s: 10.0,
            begins: timestamp("2026-03-03T08:30:00Z"),
            rate: 2000.0,
            file_bytes: 26_000_000,
        }
    }

    /// The time of day `seconds` seconds after the start of a run.
    pub fn time_at(&self, seconds: f64) -> Timestamp {
        let passed = SignedDuration::from_secs_f64(seconds * self.rate);
        self.begins.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// Seconds from the start of a run to a time of day.
    pub fn seconds_until(&self, time: Timestamp) -> f64 {
        time.duration_since(self.begins).as_secs_f64() / self.rate
    }

    /// The advisor's settings for the path: the thesis' model; the path is declared as our own, which it is.
    pub fn settings(&self) -> Settings {
        Settings {
            model: ModelKind::Linear,
            // No test of the demonstration gets this old, so the thesis' model alone decides when to ask
            // again.
            stale_after: Duration::from_secs(7200),
            threshold_mbps: Some(THRESHOLD_MBPS),
            capacity_mbps: Some(CAPACITY_MBPS),
            own_path: true,
            controls: Controls {
                on: Some("cubic".to_owned()),
                ..Controls::default()
            },
            ..Settings::default()
        }
    }
}

fn timestamp(text: &str) -> Timestamp {
    text.parse().expect("a literal in the form of RFC 3339")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_hour_passes_in_a_second() {
        let story = Story::full(1);
        assert_eq!(story.time_at(2.0), timestamp("2026-03-03T09:30:00Z"));
        assert_eq!(story.seconds_until(story.time_at(7.5)), 7.5);
    }
}
