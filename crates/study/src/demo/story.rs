//! The numbers of the demonstration.
//!
//! [`Route::Day`] is after Akarapu 2002, chapter 5: a path of 100 Mbit/s with a round-trip time of 50 ms (his
//! 50 ms are all in one direction, and he calls them an RTT), buffers of 1 MB, a threshold of 42 Mbit/s.
//! [`Route::Long`] is a path on which standard TCP cannot take what is spare: each loss costs it many long round
//! trips.

use std::time::Duration;

use fairwind_advice::{Controls, ModelKind, Settings};
use jiff::{SignedDuration, Timestamp};

/// What of the path's bandwidth can be payload: 1448 of 1500 bytes of a packet.
pub const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;
/// Available bandwidth below which the path is congested, Mbit/s.
pub const THRESHOLD_MBPS: f64 = 42.0;
/// Queue of the path, packets: the bandwidth-delay product of [`Route::Day`].
pub const QUEUE_PACKETS: u32 = 430;
/// Connections of the others.
pub const OTHERS: usize = 4;
/// Weeks of history.
pub const WEEKS: i64 = 9;
/// Time between two tests of the available bandwidth.
pub const TEST_INTERVAL: SignedDuration = SignedDuration::from_mins(5);
/// Forecasts for transfers in the background: the thesis' model has no interval, by whose low edge they could start.
pub const BACKGROUND_MODEL: ModelKind = ModelKind::Profile;
/// Name of the path in the advisor.
pub const PATH: &str = "demo";
/// Name of its only hop, which the others share.
pub const HOP: &str = "bottleneck";

/// A path of the demonstration, and what others want of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// 100 Mbit/s and 50 ms; others want what the day's curve leaves to them.
    Day,
    /// 200 Mbit/s and 100 ms, with losses by chance; others want the same all day.
    Long,
}

impl Route {
    /// Both, in their order on the page.
    pub const ALL: [Route; 2] = [Route::Day, Route::Long];

    /// Its name on the command line and in plans.
    pub fn name(self) -> &'static str {
        match self {
            Route::Day => "day",
            Route::Long => "long",
        }
    }

    /// Bandwidth, Mbit/s.
    pub fn capacity_mbps(self) -> f64 {
        match self {
            Route::Day => 100.0,
            Route::Long => 200.0,
        }
    }

    /// Delay in one direction, milliseconds.
    pub fn delay_ms(self) -> u32 {
        match self {
            Route::Day => 25,
            Route::Long => 50,
        }
    }

    /// Round-trip time without queues, milliseconds.
    pub fn rtt_ms(self) -> u32 {
        2 * self.delay_ms()
    }

    /// Share of the packets that are lost by chance.
    pub fn loss(self) -> f64 {
        match self {
            Route::Day => 0.0,
            Route::Long => 0.0001,
        }
    }

    /// Buffer size that programs request for the transfer, bytes; the kernel doubles it for bookkeeping. The
    /// resulting window, five eighths of that, is twice the bandwidth times the round-trip time.
    pub fn buffer_bytes(self) -> u64 {
        match self {
            Route::Day => 1 << 20,
            Route::Long => 4 << 20,
        }
    }

    /// When the transfer starts in a run, seconds: by then the others are in equilibrium.
    pub fn start_s(self) -> f64 {
        match self {
            Route::Day => 2.0,
            Route::Long => 10.0,
        }
    }
}

/// What happens in a demonstration, and how fast.
#[derive(Clone, Debug)]
pub struct Story {
    /// The path.
    pub route: Route,
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
    /// The round-trip time that the advisor learns with each test, milliseconds; none: it knows of none.
    pub rtt_ms: Option<u32>,
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
    /// In the background, as advice of that mode has it: what others leave.
    Background,
    /// By curl, an unmodified program, behind `fairwind run --background`; only where there is curl.
    Curl,
}

impl Way {
    /// All, in the order in which they run.
    pub const ALL: [Way; 6] = [
        Way::Nobody,
        Way::Standard,
        Way::Nocc,
        Way::Advised,
        Way::Background,
        Way::Curl,
    ];

    /// Name of its result folder.
    pub fn folder(self) -> &'static str {
        self.names()[0]
    }

    /// Its name in tables and reports.
    pub fn words(self) -> &'static str {
        self.names()[1]
    }

    /// Whether its server follows an advisor.
    pub fn is_advised(self) -> bool {
        matches!(self, Way::Advised | Way::Background)
    }

    fn names(self) -> [&'static str; 2] {
        match self {
            Way::Nobody => ["others-alone", "the others alone"],
            Way::Standard => ["standard", "standard TCP"],
            Way::Nocc => ["nocc", "NOCC throughout"],
            Way::Advised => ["advised", "advised"],
            Way::Background => ["background", "background"],
            Way::Curl => ["curl", "curl in background"],
        }
    }
}

impl Story {
    /// From half past eight in the morning on, half an hour a second; over [`Route::Day`] to half past two at
    /// night.
    pub fn full(route: Route, seed: u64) -> Story {
        let (length_s, file_bytes) = match route {
            Route::Day => (36.0, 150_000_000),
            Route::Long => (75.0, 200_000_000),
        };
        Story {
            route,
            seed,
            length_s,
            begins: timestamp("2026-03-03T08:30:00Z"),
            rate: 1800.0,
            file_bytes,
            rtt_ms: Some(route.rtt_ms()),
        }
    }

    /// Six and a half hours around noon, before which the path becomes congested; or a shorter file over the long
    /// path.
    pub fn quick(route: Route, seed: u64) -> Story {
        let (length_s, file_bytes) = match route {
            Route::Day => (12.0, 26_000_000),
            Route::Long => (35.0, 40_000_000),
        };
        Story {
            length_s,
            rate: 2000.0,
            file_bytes,
            ..Story::full(route, seed)
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
            capacity_mbps: Some(self.route.capacity_mbps()),
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
        let story = Story::full(Route::Day, 1);
        assert_eq!(story.time_at(2.0), timestamp("2026-03-03T09:30:00Z"));
        assert_eq!(story.seconds_until(story.time_at(7.5)), 7.5);
    }
}
