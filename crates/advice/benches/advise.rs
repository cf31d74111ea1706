//! Cost of advice with nine weeks of five-minute samples: `cargo bench -p fairwind-advice`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fairwind_advice::{History, Hop, ModelKind, Request, Sample, Samples, Settings, advise};
use jiff::{SignedDuration, Timestamp};

const ROUNDS: usize = 21;

fn main() {
    let start: Timestamp = "2026-01-05T00:00:00Z".parse().expect("it is a time");
    let sample = |i: i64| Sample {
        time: start + SignedDuration::from_secs(300 * i),
        available_mbps: 40.0 + 8.0 * (i as f64 / 46.0).sin() + (i * 37 % 50) as f64 / 25.0,
    };
    let samples = Samples::from_unordered((0..18_144).map(sample), Timestamp::MAX).0;
    for model in ModelKind::ALL {
        measure(model, &samples, sample);
    }
}

fn measure(model: ModelKind, samples: &Samples, sample: impl Fn(i64) -> Sample) {
    let settings = Settings {
        model,
        threshold_mbps: Some(42.0),
        ..Settings::default()
    };
    let mut history = History {
        hops: vec![Hop::new("hop", samples.clone())],
        rtt: None,
    };
    let newest = samples.all().last().expect("there are samples").time;
    let learning = median(|_| {
        let mut hop = Hop::new("hop", samples.clone());
        hop.learn(newest, &settings);
        black_box(&hop);
    });
    history.hops[0].learn(newest, &settings);
    let request = Request::default();
    let advising = median(|_| {
        for _ in 0..100 {
            black_box(advise(&history, &request, newest, &settings));
        }
    }) / 100;
    let inserting = median(|round| {
        for i in 0..100 {
            let sample = sample((18_144 + 100 * round + i) as i64);
            history.hops[0]
                .insert(sample, sample.time)
                .expect("samples are in order");
        }
    }) / 100;
    println!(
        "{:8} learn {learning:?}, a new sample {inserting:?}, advise {advising:?}",
        model.name()
    );
}

/// The median time of the rounds.
fn median(mut round: impl FnMut(usize)) -> Duration {
    let mut took: Vec<Duration> = (0..ROUNDS)
        .map(|number| {
            let begin = Instant::now();
            round(number);
            begin.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[ROUNDS / 2]
}
