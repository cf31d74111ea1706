//! Traces as text: any input yields either a trace or an error with its line and reason.

use fairwind_path::trace::{Steps, parse_opportunities, parse_steps};
use fairwind_path::units::{Bandwidth, Duration, Time};
use fairwind_testing::fuzz::{cases, damaged_text};
use proptest::collection::vec;
use proptest::prelude::*;

/// Of mahimahi, and of the kinds of CSV that the reference describes.
const TEXTS: [&str; 7] = [
    "1\n1\n4\n9\n",
    "time_ms,packets_1500B\n0,4\n3,0\n5,2\n",
    "# measured\n\nunix_time_ms,capacity_bps\n1078099200000,45521000\n1078099500000,45420000\n",
    "note,rate_kbps,time_s\r\n7,384,0\r\n8,512,1\r\n",
    "time_s,delay_ms\n0,12.5\n0.5,13\n0.5,14\n",
    "timestamp,loss_percent\n0,2\n1e3,0.5\n",
    "\u{feff}0,1\n2,3\n",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[0-9eE.,+\\-# a-z_\n\r]{0,200}", damaged_text(&TEXTS),]
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn no_text_makes_the_parsers_panic(text in text()) {
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
    fn what_is_read_keeps_to_its_range(text in text(), at_ns: u64) {
        let at = Time::from_nanos(at_ns);
        if let Ok(steps) = parse_steps::<Bandwidth>(&text, "mbps") {
            let most = 1_000_000_000_000_000_000;
            prop_assert!(steps.values().iter().all(|rate| rate.as_bps() <= most));
            prop_assert!(steps.values().contains(&steps.at(at)));
            let repeated = steps.repeated();
            prop_assert!(repeated.values().contains(&repeated.at(at)));
        }
        if let Ok(steps) = parse_steps::<f64>(&text, "loss") {
            prop_assert!(steps.values().iter().all(|loss| (0.0..=1.0).contains(loss)));
        }
        if let Ok(trace) = parse_opportunities(&text) {
            prop_assert!(trace.period() > Duration::ZERO && trace.mean_bps() > 0.0);
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
