//! Recorded cellular links.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use fairwind_path::pipe::{Arrival, Offer, Pipe, PipeConfig};
use fairwind_path::rate::Rate;
use fairwind_path::trace::{Steps, parse_opportunities, parse_steps};
use fairwind_path::units::{Bandwidth, Time};
use flate2::read::GzDecoder;

/// The text of a recording, or `None` if there are no recordings here.
fn recording(name: &str) -> Option<String> {
    let file = fairwind_testing::recording(&format!("cellular/{name}"));
    let file = File::open(fairwind_testing::or_skip(file)?).unwrap();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    Some(text)
}

/// Bytes that a continuously backlogged pipe sends in `seconds`, in packets of 1500 bytes.
fn bytes_in(bandwidth: Rate, seconds: u64) -> u64 {
    let mut pipe = Pipe::new(
        &PipeConfig {
            bandwidth,
            ..PipeConfig::default()
        },
        1,
    );
    let end = Time::from_secs(seconds);
    while let Arrival::Leaves(time, _) = pipe.arrive(Time::ZERO, Offer::of(1500), ())
        && time <= end
    {}
    pipe.bytes_out(end)
}

/// Sum of the second column.
fn sum(text: &str) -> f64 {
    let fields = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(1).unwrap());
    fields.map(|field| field.parse::<f64>().unwrap()).sum()
}

#[test]
fn a_backlogged_pipe_uses_every_recorded_opportunity() {
    for link in ["Verizon-LTE-short", "TMobile-LTE-driving"] {
        let Some(text) = recording(&format!("{link}_down_opportunities.csv.gz")) else {
            return;
        };
        let trace = parse_opportunities(&text).unwrap();
        let opportunities = sum(&text) as u64;
        let rate = Rate::Opportunities(Arc::new(trace.clone()));
        let end = Time::ZERO + trace.period();
        let mut pipe = Pipe::new(
            &PipeConfig {
                bandwidth: rate,
                ..PipeConfig::default()
            },
            1,
        );
        for _ in 0..opportunities {
            pipe.arrive(Time::ZERO, Offer::of(1500), ());
        }
        // The opportunities at time 0 are missed by packets that arrive at 0; the trace repeats at its
        // end, which makes up for them.
        assert_eq!(pipe.bytes_out(end), opportunities * 1500, "{link}");
    }
}

#[test]
fn a_backlogged_pipe_sends_the_recorded_capacity() {
    for (link, seconds) in [("Verizon-LTE-short", 140), ("TMobile-LTE-driving", 474)] {
        let Some(text) = recording(&format!("{link}_down_100ms.csv.gz")) else {
            return;
        };
        let steps: Steps<Bandwidth> = parse_steps(&text, "mbps").unwrap();
        let rows: String = text
            .lines()
            .take(1 + 10 * seconds as usize)
            .collect::<Vec<_>>()
            .join("\n");
        // 100 ms at 1 Mbit/s are 12,500 bytes.
        let recorded = sum(&rows) * 12_500.0;
        let sent = bytes_in(Rate::Steps(Arc::new(steps)), seconds);
        assert!(
            sent as f64 <= recorded + 0.5,
            "{link}: {sent} of {recorded}"
        );
        assert!(
            sent as f64 > recorded - 1500.0,
            "{link}: {sent} of {recorded}"
        );
    }
}
