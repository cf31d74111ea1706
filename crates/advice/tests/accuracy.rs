//! Accuracy of both models on recorded series.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use fairwind_advice::{ModelKind, Report, Sample, Samples, Settings, backtest};
use fairwind_testing::or_skip;
use flate2::read::GzDecoder;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The samples of a recorded series, or `None` if it is not installed.
fn recording(name: &str, column: &str) -> Option<Samples> {
    let file = File::open(or_skip(fairwind_testing::recording(name))?).unwrap();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut lines = text.lines();
    let column = lines
        .next()
        .unwrap()
        .split(',')
        .position(|c| c == column)
        .unwrap();
    let samples = lines.map(|line| {
        let mut fields = line.split(',');
        let time = fields.next().unwrap().parse().unwrap();
        Sample {
            time: Timestamp::from_second(time).unwrap(),
            available_mbps: fields.nth(column - 1).unwrap().parse().unwrap(),
        }
    });
    let (samples, refusals) = Samples::from_unordered(samples, Timestamp::MAX);
    assert_eq!(refusals.total(), 0);
    Some(samples)
}

fn half(samples: &Samples) -> Timestamp {
    samples.all().iter().nth(samples.len() / 2).unwrap().time
}

fn judge(samples: &Samples, settings: &Settings) -> Report {
    backtest(samples, half(samples), Duration::from_secs(3600), settings)
}

fn row(name: &str, report: &Report) {
    let following = report.following.unwrap();
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    println!(
        "| {name} | {} | {:.3} | {} | {} | {:.2} | {} | {} |",
        report.model,
        report.mean_absolute_error_mbps,
        report.interval_coverage.map_or("-".to_owned(), percent),
        report
            .interval_width_mbps
            .map_or("-".to_owned(), |w| format!("{w:.2}")),
        following.calls_per_hour(),
        percent(f64::from(following.redundant_calls) / f64::from(following.calls)),
        percent(following.wrong_share()),
    );
}

/// Evaluates both models on the second half and prints a row for each. Returns the linear model's
/// report first.
fn judge_both(name: &str, column: &str, zone: &str) -> Option<[Report; 2]> {
    let samples = recording(name, column)?;
    Some(ModelKind::ALL.map(|model| {
        let settings = Settings {
            model,
            threshold_mbps: Some(42.0),
            time_zone: TimeZone::get(zone).unwrap(),
            ..Settings::default()
        };
        let report = judge(&samples, &settings);
        row(&format!("{name} {column}"), &report);
        report
    }))
}

/// Mean absolute errors, in Mbit/s, of two forecasts that any model has to beat: the means of the first
/// half for each half hour of working days and of weekends, and the sample nearest to an hour ago.
fn baselines(samples: &Samples, zone: &str) -> (f64, f64) {
    let zone = TimeZone::get(zone).unwrap();
    let all: Vec<Sample> = samples.all().iter().collect();
    let (first, second) = all.split_at(all.len() / 2);
    let slot = |time: Timestamp| {
        let local = zone.to_datetime(time);
        let weekend = local.weekday().to_monday_zero_offset() >= 5;
        let half_hour = local.hour() * 2 + local.minute() / 30;
        usize::from(weekend) * 48 + half_hour as usize
    };
    let mut means = [(0.0, 0.0); 96];
    for sample in first {
        let (sum, count) = &mut means[slot(sample.time)];
        *sum += sample.available_mbps;
        *count += 1.0;
    }
    let nearest = |time: Timestamp| {
        let after = all.partition_point(|s| s.time < time);
        let distance = |s: &Sample| s.time.duration_since(time).abs();
        let (before, after) = (all[after - 1], all[after]);
        if distance(&before) < distance(&after) {
            before
        } else {
            after
        }
    };
    let mean_error = |forecast: &dyn Fn(Timestamp) -> f64| {
        let errors = second
            .iter()
            .map(|s| (forecast(s.time) - s.available_mbps).abs());
        errors.sum::<f64>() / second.len() as f64
    };
    (
        mean_error(&|time| means[slot(time)].0 / means[slot(time)].1),
        mean_error(&|time| nearest(time - Duration::from_secs(3600)).available_mbps),
    )
}

#[test]
fn accuracy_of_the_baselines_is_as_published_with_the_data() {
    for (name, zone, profile, hour_ago) in [
        ("thesis_like.csv.gz", "America/Chicago", 0.98, 1.05),
        ("thesis_like_a5m.csv.gz", "Europe/London", 1.21, 1.51),
    ] {
        let Some(samples) = recording(name, "available_mbps") else {
            return;
        };
        let found = baselines(&samples, zone);
        println!(
            "| {name} available_mbps | half-hour means | {:.3} | - | - | - | - | - |",
            found.0
        );
        println!(
            "| {name} available_mbps | an hour ago | {:.3} | - | - | - | - | - |",
            found.1
        );
        assert!((found.0 - profile).abs() < 0.01, "{name}: {found:?}");
        assert!((found.1 - hour_ago).abs() < 0.01, "{name}: {found:?}");
    }
}

#[test]
fn accuracy_an_hour_ahead_of_thesis_like_is_within_reach() {
    let judged = judge_both("thesis_like.csv.gz", "available_mbps", "America/Chicago");
    let Some([linear, profile]) = judged else {
        return;
    };
    assert_eq!((profile.judged, profile.not_forecast), (2016, 0));
    assert!(profile.mean_absolute_error_mbps <= 0.85, "{profile:?}");
    assert!(profile.mean_absolute_error_mbps < linear.mean_absolute_error_mbps);
    assert!(
        (0.77..=0.83).contains(&profile.interval_coverage.unwrap()),
        "{profile:?}"
    );
}

#[test]
fn accuracy_an_hour_ahead_of_the_transatlantic_link_is_within_reach() {
    let judged = judge_both("thesis_like_a5m.csv.gz", "available_mbps", "Europe/London");
    let Some([linear, profile]) = judged else {
        return;
    };
    assert_eq!((profile.judged, profile.not_forecast), (7386, 0));
    assert!(profile.mean_absolute_error_mbps <= 0.62, "{profile:?}");
    assert!(profile.mean_absolute_error_mbps < linear.mean_absolute_error_mbps);
    assert!(
        (0.77..=0.83).contains(&profile.interval_coverage.unwrap()),
        "{profile:?}"
    );
}

/// LOSA and CHIN have large spikes, HSTN has no daily cycle.
#[test]
fn accuracy_of_the_interval_holds_on_spikes_and_without_a_daily_cycle() {
    for node in ["LOSAng", "CHINng", "HSTNng"] {
        let column = format!("{node}_from_mbps");
        let judged = judge_both("abilene_nodes.csv.gz", &column, "UTC");
        let Some([linear, profile]) = judged else {
            return;
        };
        assert!(profile.mean_absolute_error_mbps < linear.mean_absolute_error_mbps);
        assert!(
            (0.77..=0.83).contains(&profile.interval_coverage.unwrap()),
            "{profile:?}"
        );
    }
}
