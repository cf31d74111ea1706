//! What reported transfers tell about their paths.

use thiserror::Error;

use crate::wire::{Limited, TransferReport};

/// Minimum duration of a test, seconds: shorter transfers say more about slow start than about the path.
const TELLING_SECONDS: f64 = 2.0;
/// The same, in round trips.
const TELLING_ROUND_TRIPS: f64 = 20.0;
/// Minimum size of a test, bytes: in smaller transfers, of about a hundred packets, the loss of one packet
/// weighs more than the path.
const TELLING_BYTES: u64 = 150_000;
/// The network must have limited a transfer for at least this share of its time; otherwise it measures the
/// sender or the receiver, not the path.
const TELLING_SHARE: f64 = 0.8;

/// Why a reported transfer is no test of the available bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum NoTest {
    /// Slow start took most of the time.
    #[error(
        "it took {0:.3} s: {TELLING_SECONDS} s and {TELLING_ROUND_TRIPS} round trips are needed"
    )]
    Short(f64),
    /// Too little was sent.
    #[error("it moved {0} bytes: {TELLING_BYTES} are needed")]
    Small(u64),
    /// What limited it is unknown.
    #[error("what limited it was not reported")]
    Unknown,
    /// The path could have carried more: the network limited it only for this percentage of its time.
    // Rounded down, so that a value below the limit is never shown as reaching it.
    #[error(
        "the network limited it for {:.1} % of its time: {:.0} % are needed",
        (.0 * 10.0).floor() / 10.0,
        TELLING_SHARE * 100.0
    )]
    LimitedElsewhere(f64),
}

impl Limited {
    fn is_sound(&self) -> bool {
        let times = [self.network_s, self.receiver_s, self.sender_s];
        times.iter().all(|time| time.is_finite() && *time >= 0.0)
    }
}

impl TransferReport {
    /// Validates the report; the error is a message for the sender.
    pub fn check(&self) -> Result<(), String> {
        if !(self.seconds.is_finite() && self.seconds > 0.0) {
            return Err("seconds must be a number above 0".to_owned());
        }
        if self
            .rtt_ms
            .is_some_and(|rtt| !(rtt.is_finite() && rtt > 0.0))
        {
            return Err("rtt_ms must be a number above 0".to_owned());
        }
        if self.limited.is_some_and(|limited| !limited.is_sound()) {
            return Err("the times in limited must be numbers that are not negative".to_owned());
        }
        let control = self.host.chars().any(char::is_control);
        if self.host.is_empty() || self.host.len() > 255 || control {
            return Err("host must be an address or a name".to_owned());
        }
        Ok(())
    }

    /// Average throughput, Mbit/s.
    pub fn throughput_mbps(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.seconds
    }

    /// The available bandwidth of the path, Mbit/s.
    ///
    /// # Errors
    /// If the transfer does not show it, with the reason.
    pub fn available_mbps(&self) -> Result<f64, NoTest> {
        let round_trips = TELLING_ROUND_TRIPS * 1e-3 * self.rtt_ms.unwrap_or(0.0);
        if self.seconds < TELLING_SECONDS.max(round_trips) {
            return Err(NoTest::Short(self.seconds));
        }
        if self.bytes < TELLING_BYTES {
            return Err(NoTest::Small(self.bytes));
        }
        let limited = self.limited.ok_or(NoTest::Unknown)?;
        let share = limited.network_s / self.seconds;
        if share < TELLING_SHARE {
            return Err(NoTest::LimitedElsewhere(share * 100.0));
        }
        Ok(self.throughput_mbps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Direction;

    fn report(bytes: u64, seconds: f64) -> TransferReport {
        TransferReport {
            host: "192.0.2.7".to_owned(),
            bytes,
            seconds,
            retransmits: None,
            rtt_ms: None,
            limited: Some(Limited {
                network_s: seconds,
                receiver_s: 0.0,
                sender_s: 0.0,
            }),
            direction: Direction::Sent,
        }
    }

    #[test]
    fn a_transfer_tells_of_the_path_if_the_network_limited_it() {
        let whole = report(100_000_000, 8.0);
        assert_eq!(whole.available_mbps(), Ok(100.0));
        let limited = |network_s: f64| TransferReport {
            limited: Some(Limited {
                network_s,
                receiver_s: 0.0,
                sender_s: 8.0 - network_s,
            }),
            ..whole.clone()
        };
        assert_eq!(limited(6.5).available_mbps(), Ok(100.0));
        let by_others = limited(2.0).available_mbps();
        assert_eq!(by_others, Err(NoTest::LimitedElsewhere(25.0)));
        let unknown = TransferReport {
            limited: None,
            ..whole.clone()
        };
        assert_eq!(unknown.available_mbps(), Err(NoTest::Unknown));
    }

    #[test]
    fn small_and_short_transfers_tell_nothing() {
        assert_eq!(report(9, 5.0).available_mbps(), Err(NoTest::Small(9)));
        assert_eq!(
            report(1_000_000, 1.9).available_mbps(),
            Err(NoTest::Short(1.9))
        );
        let far = TransferReport {
            rtt_ms: Some(600.0),
            ..report(1_000_000, 8.0)
        };
        assert_eq!(far.available_mbps(), Err(NoTest::Short(8.0)));
    }

    #[test]
    fn times_that_make_no_sense_are_refused() {
        for network_s in [-1.0, f64::NAN, f64::INFINITY] {
            let limited = Limited {
                network_s,
                receiver_s: 0.0,
                sender_s: 0.0,
            };
            let report = TransferReport {
                limited: Some(limited),
                ..report(1, 1.0)
            };
            assert!(report.check().is_err(), "{network_s}");
        }
    }

    #[test]
    fn a_report_without_a_time_is_refused() {
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(report(1, seconds).check().is_err(), "{seconds}");
        }
        assert!(report(0, 1.0).check().is_ok());
    }
}
