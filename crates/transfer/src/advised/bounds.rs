//! Bounds on advice: an advisor may be wrong, and what a transfer observes of its path outweighs what
//! anyone says about it.
//!
//! * Pacing is at least a tenth of what the path has been seen to carry, and of what the advice itself
//!   says is available; in any case it is at least a packet a round trip, the least that TCP ever sends
//!   (RFC 5681 section 3.1: the loss window).
//! * A buffer is at most four times the product of what the path has been seen to carry and its
//!   round-trip time; in any case twice what the kernel's autotuning could give is granted, because a
//!   transfer that has observed nothing yet has to begin with that.

use std::time::Duration;

/// The divisor of a rate, observed or claimed, that gives the slowest pacing.
const PACING_DIVISOR: u64 = 10;
/// The largest packet considered, bytes: Ethernet's, without headers.
const PACKET: u64 = 1460;
/// The shortest round-trip time considered: within one host there is no path to speak of.
const SHORTEST: Duration = Duration::from_millis(10);
/// The largest buffer, in products of rate and round-trip time: the rate may double, and so may the
/// round-trip time, while queues build up.
const PRODUCTS: u64 = 4;
/// The buffer that is granted in any case, as a multiple of what autotuning could give.
const ADAPTED: u64 = 2;

/// What a transfer has observed of its path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Observed {
    /// The highest rate at which bytes have arrived, bytes a second; none before the first measurement.
    pub rate: Option<u64>,
    /// The shortest round-trip time; none before the first sample.
    pub round_trip: Option<Duration>,
}

/// The value that replaces the advised one, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bounded<T> {
    pub to: T,
    pub reason: String,
}

/// The pacing that replaces `advised`, bytes a second, if that is too slow. `claimed` is what the advice
/// says is available, bytes a second.
pub(super) fn pacing(
    advised: u64,
    claimed: Option<u64>,
    observed: Observed,
) -> Option<Bounded<u64>> {
    let round_trip = observed.round_trip.unwrap_or(SHORTEST).max(SHORTEST);
    let packet = (PACKET as f64 / round_trip.as_secs_f64()) as u64;
    let least = [
        (
            observed.rate.unwrap_or(0) / PACING_DIVISOR,
            "a tenth of what the path has carried",
        ),
        (
            claimed.unwrap_or(0) / PACING_DIVISOR,
            "a tenth of what the advice says is available",
        ),
        (packet, "a packet a round trip"),
    ];
    let (to, what) = least.into_iter().max_by_key(|(rate, _)| *rate)?;
    (to > advised).then(|| Bounded {
        to,
        reason: format!("it is less than {what}, {} Mbit/s", mbps(to)),
    })
}

/// The buffer that replaces `advised`, bytes, if that is too large. `adapted` is what the kernel's
/// autotuning could give.
pub(super) fn buffer(advised: u32, adapted: u64, observed: Observed) -> Option<Bounded<u32>> {
    let product = match (observed.rate, observed.round_trip) {
        (Some(rate), Some(round_trip)) => (rate as f64 * round_trip.as_secs_f64()) as u64,
        _ => 0,
    };
    let most = product.saturating_mul(PRODUCTS).max(adapted * ADAPTED);
    let to = u32::try_from(most).unwrap_or(u32::MAX);
    (to < advised).then(|| Bounded {
        to,
        reason: format!(
            "the path has shown a product of rate and round trip of {product} bytes, and autotuning \
             reaches {adapted}"
        ),
    })
}

/// Mbit/s, rounded to three decimals.
fn mbps(bytes_per_second: u64) -> f64 {
    (bytes_per_second as f64 * 8.0 / 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 100 Mbit/s and 40 ms: a product of 500,000 bytes.
    const PATH: Observed = Observed {
        rate: Some(12_500_000),
        round_trip: Some(Duration::from_millis(40)),
    };

    #[test]
    fn sound_advice_is_followed_to_the_letter() {
        assert_eq!(pacing(5_000_000, Some(5_000_000), PATH), None);
        assert_eq!(pacing(1_250_000, None, PATH), None, "a tenth");
        assert_eq!(buffer(2_000_000, 100_000, PATH), None, "four products");
        assert_eq!(buffer(625_000, 2 << 20, Observed::default()), None);
        assert_eq!(
            pacing(2_000_000, Some(5_000_000), Observed::default()),
            None
        );
    }

    #[test]
    fn pacing_leaves_a_tenth_of_what_the_path_has_carried() {
        // 0.1 Mbit/s.
        let bounded = pacing(12_500, None, PATH).unwrap();
        assert_eq!(bounded.to, 1_250_000);
        assert_eq!(
            bounded.reason,
            "it is less than a tenth of what the path has carried, 10 Mbit/s"
        );
    }

    #[test]
    fn pacing_is_not_far_below_what_the_advice_itself_says_is_available() {
        let bounded = pacing(12_500, Some(5_000_000), Observed::default()).unwrap();
        assert_eq!(bounded.to, 500_000);
    }

    #[test]
    fn on_a_path_that_nobody_knows_a_packet_goes_each_round_trip() {
        let observed = Observed {
            rate: None,
            round_trip: Some(Duration::from_millis(50)),
        };
        // 1460 bytes in 50 ms.
        assert_eq!(pacing(12_500, None, observed).unwrap().to, 29_200);
        // Where the round-trip time is unknown, 10 ms are assumed.
        assert_eq!(
            pacing(12_500, None, Observed::default()).unwrap().to,
            146_000
        );
    }

    #[test]
    fn a_buffer_is_four_products_or_twice_what_autotuning_gives() {
        let gib = 1 << 30;
        assert_eq!(buffer(gib, 100_000, PATH).unwrap().to, 2_000_000);
        assert_eq!(buffer(gib, 3 << 20, PATH).unwrap().to, 6 << 20);
        assert_eq!(
            buffer(gib, 3 << 20, Observed::default()).unwrap().to,
            6 << 20
        );
        assert_eq!(
            buffer(gib, 100_000, PATH).unwrap().reason,
            "the path has shown a product of rate and round trip of 500000 bytes, and autotuning reaches \
             100000"
        );
    }

    fn observed() -> impl Strategy<Value = Observed> {
        let rate = proptest::option::of(0..100_000_000_000u64);
        let microseconds = proptest::option::of(1..10_000_000u64);
        (rate, microseconds).prop_map(|(rate, microseconds)| Observed {
            rate,
            round_trip: microseconds.map(Duration::from_micros),
        })
    }

    proptest! {
        #[test]
        fn whatever_is_advised_the_path_is_not_starved(
            advised in any::<u64>(), claimed in proptest::option::of(any::<u64>()), observed in observed(),
        ) {
            let rate = pacing(advised, claimed, observed).map_or(advised, |bounded| bounded.to);
            prop_assert!(rate >= advised);
            prop_assert!(rate >= observed.rate.unwrap_or(0) / 10);
            prop_assert!(rate > 0);
            // A bounded value is itself within bounds.
            prop_assert_eq!(pacing(rate, claimed, observed), None);
        }

        #[test]
        fn whatever_is_advised_a_buffer_has_no_more_than_the_path_needs(
            advised in any::<u32>(), adapted in 0..1u64 << 31, observed in observed(),
        ) {
            let bytes = buffer(advised, adapted, observed).map_or(advised, |bounded| bounded.to);
            prop_assert!(bytes <= advised);
            let seconds = observed.round_trip.unwrap_or_default().as_secs_f64();
            let product = observed.rate.unwrap_or(0) as f64 * seconds;
            prop_assert!(f64::from(bytes) <= (4.0 * product).max(2.0 * adapted as f64));
            prop_assert_eq!(buffer(bytes, adapted, observed), None);
        }

        #[test]
        fn a_path_that_shows_more_is_granted_more(
            advised in any::<u32>(), adapted in 0..1u64 << 31, rate in 0..1_000_000_000u64,
        ) {
            let granted = |rate| {
                let observed = Observed { rate: Some(rate), ..PATH };
                buffer(advised, adapted, observed).map_or(advised, |bounded| bounded.to)
            };
            prop_assert!(granted(rate) <= granted(2 * rate));
        }
    }
}
