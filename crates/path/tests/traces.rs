//! Traces as text: any input yields either a trace or an error with its line and reason.

use fairwind_path::trace::{Steps, parse_opportunities, parse_steps};
use fairwind_path::units::{Bandwidth, Duration, Time};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn no_text_makes_the_parsers_panic(text in "[0-9eE.,+\\-# a-z_\n\r]{0,200}") {
        let lines = text.lines().count().max(1);
        let steps = parse_steps::<Bandwidth>(&text, "mbps").map(|steps| steps.repeated());
        let delays = parse_steps::<Duration>(&text, "ms").map(|_| ());
        let opportunities = parse_opportunities(&text).map(|_| ());
        for result in [steps.map(|_| ()), delays, opportunities] {
            if let Err(error) = result {
                prop_assert!((1..=lines).contains(&error.line), "{error}");
            }
        }
    }

    #[test]
    fn what_is_written_is_read_again(
        rows in vec((1u64..10_000, 0u64..1_000_000_000), 1..50), start in 0u64..2_000_000_000,
    ) {
        let mut text = String::from("unix_time_ms,capacity_bps\n");
        let mut at = 0;
        let mut expected = Vec::new();
        for (gap, bps) in rows {
            text += &format!("{},{bps}\n", start + at);
            expected.push((at, bps));
            at += gap;
        }
        let steps: Steps<Bandwidth> = parse_steps(&text, "bps").unwrap();
        for (millis, bps) in expected {
            let value = steps.at(Time::from_millis(millis));
            prop_assert_eq!(value, Bandwidth::from_bps(bps));
        }
    }
}
