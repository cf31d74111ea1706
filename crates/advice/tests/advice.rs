//! The advice and its reasons.

use std::time::Duration;

use crate::common::{five_minutes, samples, time};
use fairwind_advice::{
    Advice, Controls, History, Hop, Mode, ModeRule, ModelKind, Request, Sample, Samples, Settings,
    advise,
};

/// A hop with `yesterday` Mbit/s in the hour from 14:00 on the day before, and `now` Mbit/s at 13:58.
fn hop(name: &str, yesterday: f64, now: f64) -> Hop {
    let samples = samples(&[
        ("2026-03-03T14:00:00Z", yesterday),
        ("2026-03-03T15:00:00Z", yesterday),
        ("2026-03-04T13:58:00Z", now),
    ]);
    Hop::new(name, samples)
}

fn history(hops: Vec<Hop>) -> History {
    History {
        hops,
        rtt: Some(Duration::from_millis(100)),
    }
}

fn settings() -> Settings {
    Settings {
        model: ModelKind::Linear,
        threshold_mbps: Some(42.0),
        own_path: true,
        ..Settings::default()
    }
}

fn ask(history: &History, settings: &Settings) -> Advice {
    advise(
        history,
        &Request::default(),
        time("2026-03-04T14:00:00Z"),
        settings,
    )
}

#[test]
fn no_congestion_control_where_no_hop_is_congested() {
    let advice = ask(&history(vec![hop("kscy", 50.0, 45.0)]), &settings());
    assert_eq!(advice.mode, Mode::NoCongestionControl);
    assert_eq!(advice.congestion_control.as_deref(), Some("nocc"));
    assert_eq!(advice.available_mbps, Some(50.0));
    assert_eq!(
        advice.reason,
        "no congestion control: every hop has at least the threshold of 42.0 Mbit/s available; \
         forecast 50.0 Mbit/s by linear from 1 earlier days at kscy"
    );
}

#[test]
fn congestion_control_where_any_hop_is_congested() {
    let hops = vec![hop("a", 50.0, 45.0), hop("b", 60.0, 41.9)];
    let advice = ask(&history(hops), &settings());
    assert_eq!(advice.mode, Mode::CongestionControl);
    assert_eq!(advice.congestion_control, None);
    assert!(advice.reason.starts_with(
        "congestion control: b has 41.9 Mbit/s available, below the threshold of 42.0;"
    ));
}

#[test]
fn the_hop_with_the_least_forecast_decides() {
    let hops = vec![
        hop("a", 50.0, 45.0),
        hop("b", 43.0, 60.0),
        hop("c", 47.0, 44.0),
    ];
    let advice = ask(&history(hops), &settings());
    assert_eq!(advice.available_mbps, Some(43.0));
    assert!(advice.reason.ends_with("at b"));
}

#[test]
fn congestion_control_where_the_newest_test_is_too_old() {
    let stale = Settings {
        stale_after: Duration::from_secs(119),
        ..settings()
    };
    let path = history(vec![hop("kscy", 50.0, 45.0)]);
    let advice = ask(&path, &stale);
    assert_eq!(advice.mode, Mode::CongestionControl);
    assert!(advice.reason.starts_with(
        "congestion control: the newest test of kscy is 120 s old, the limit is 119 s;"
    ));
    let fresh = Settings {
        stale_after: Duration::from_secs(120),
        ..settings()
    };
    assert_eq!(ask(&path, &fresh).mode, Mode::NoCongestionControl);
}

#[test]
fn congestion_control_on_a_path_that_is_not_declared_as_own() {
    let foreign = Settings {
        own_path: false,
        ..settings()
    };
    let advice = ask(&history(vec![hop("kscy", 50.0, 45.0)]), &foreign);
    assert_eq!(advice.mode, Mode::CongestionControl);
}

#[test]
fn without_history_everything_is_left_to_the_kernel() {
    let asked = "2026-03-04T14:00:00Z";
    for path in [
        History::default(),
        History {
            hops: vec![Hop::new("kscy", Samples::new())],
            rtt: None,
        },
    ] {
        let advice = ask(&path, &settings());
        assert_eq!(advice.mode, Mode::CongestionControl);
        assert_eq!(advice.congestion_control, None);
        assert_eq!(advice.available_mbps, None);
        assert_eq!(advice.send_buffer_bytes, None);
        assert_eq!(advice.pacing_mbps, None);
        assert_eq!(advice.next_advice, time(asked) + Duration::from_secs(3600));
        assert!(
            advice
                .reason
                .ends_with("no forecast: no test has been made")
        );
    }
}

#[test]
fn a_buffer_is_the_product_of_bandwidth_and_rtt() {
    let buffer = |settings: &Settings, remaining_bytes| {
        let path = history(vec![hop("kscy", 50.0, 45.0)]);
        let now = time("2026-03-04T14:00:00Z");
        let advice = advise(&path, &Request { remaining_bytes }, now, settings);
        assert_eq!(advice.send_buffer_bytes, advice.receive_buffer_bytes);
        advice.send_buffer_bytes.unwrap()
    };
    // 2 * 50 Mbit/s * 100 ms
    assert_eq!(buffer(&settings(), None), 1_250_000);
    // The narrowest link is known: 55 Mbit/s * 100 ms
    let with_capacity = Settings {
        capacity_mbps: Some(55.0),
        ..settings()
    };
    assert_eq!(buffer(&with_capacity, None), 687_500);
    assert_eq!(buffer(&with_capacity, Some(500_000)), 500_000);
    assert_eq!(buffer(&with_capacity, Some(100)), 65_536);
    let too_fast = Settings {
        capacity_mbps: Some(100_000.0),
        ..settings()
    };
    assert_eq!(buffer(&too_fast, None), 67_108_864);
}

#[test]
fn pacing_is_a_multiple_of_the_available_bandwidth_where_asked_for() {
    let paced = Settings {
        pace_at: Some(0.9),
        ..settings()
    };
    let free = ask(&history(vec![hop("kscy", 50.0, 45.0)]), &paced);
    assert_eq!(free.pacing_mbps, Some(45.0));
    let congested = ask(&history(vec![hop("kscy", 50.0, 20.0)]), &paced);
    assert_eq!(congested.pacing_mbps, None);
}

/// Yesterday's lines are level, so by the linear model alone nothing changes for an hour.
#[test]
fn without_congestion_control_the_next_advice_is_due_when_the_first_newest_test_goes_stale() {
    let next = |hops: Vec<Hop>, settings: &Settings| ask(&history(hops), settings).next_advice;
    // 15 minutes after 13:58, and a second.
    let one = next(vec![hop("a", 50.0, 45.0)], &settings());
    assert_eq!(one, time("2026-03-04T14:13:01Z"));
    let mut later = hop("b", 60.0, 45.0);
    let sample = Sample {
        time: time("2026-03-04T13:59:00Z"),
        available_mbps: 45.0,
    };
    later.insert(sample, sample.time).unwrap();
    let both = next(vec![later.clone(), hop("a", 70.0, 45.0)], &settings());
    assert_eq!(both, time("2026-03-04T14:13:01Z"));
    assert_eq!(next(vec![later], &settings()), time("2026-03-04T14:14:01Z"));
    // Never earlier than the shortest interval.
    let nearly_stale = Settings {
        stale_after: Duration::from_secs(121),
        ..settings()
    };
    let soon = next(vec![hop("a", 50.0, 45.0)], &nearly_stale);
    assert_eq!(soon, time("2026-03-04T14:01:00Z"));
    // With congestion control, stale tests do no harm.
    let congested = next(vec![hop("a", 50.0, 40.0)], &settings());
    assert_eq!(congested, time("2026-03-04T15:00:00Z"));
}

#[test]
fn one_sample_without_history_switches_control_off_until_the_shortest_interval_has_passed() {
    let single = samples(&[("2026-03-04T13:58:00Z", 45.0)]);
    for model in ModelKind::ALL {
        let settings = Settings {
            model,
            ..settings()
        };
        let mut hops = vec![Hop::new("new", single.clone())];
        let advice = ask(&history(hops.clone()), &settings);
        assert_eq!(advice.mode, Mode::NoCongestionControl);
        assert_eq!(
            advice.next_advice,
            time("2026-03-04T14:01:00Z"),
            "{model:?}"
        );
        // The hop with the least bandwidth has a history, another one has not.
        hops.insert(0, hop("known", 43.0, 43.0));
        let advice = ask(&history(hops), &settings);
        assert_eq!(advice.mode, Mode::NoCongestionControl);
        assert_eq!(
            advice.next_advice,
            time("2026-03-04T14:01:00Z"),
            "{model:?}"
        );
    }
}

#[test]
fn advice_reads_as_json() {
    let advice = ask(&history(vec![hop("kscy", 50.0, 45.0)]), &settings());
    let json = serde_json::to_value(&advice).unwrap();
    assert_eq!(json["mode"], "no-congestion-control");
    assert_eq!(json["next_advice"], "2026-03-04T14:13:01Z");
    assert_eq!(json["rtt_ms"], 100.0);
    assert_eq!(serde_json::from_value::<Advice>(json).unwrap(), advice);
}

#[test]
fn in_the_background_whatever_the_path_carries_and_whoever_owns_it() {
    let background = Settings {
        mode_rule: ModeRule::Background,
        own_path: false,
        pace_at: Some(0.9),
        ..settings()
    };
    for path in [
        History::default(),
        history(vec![hop("kscy", 50.0, 45.0)]),
        history(vec![hop("kscy", 50.0, 20.0)]),
    ] {
        let advice = ask(&path, &background);
        assert_eq!(advice.mode, Mode::Background);
        assert_eq!(advice.congestion_control.as_deref(), Some("fairwind"));
        assert_eq!(advice.pacing_mbps, None);
        assert!(
            advice
                .reason
                .starts_with("background: the path's transfers take only what others leave;"),
            "{}",
            advice.reason
        );
    }
}

/// Four weeks in which every day is the same, with a little noise, until 13:55.
fn known_hop(name: &str, mbps: f64) -> Hop {
    let start = time("2026-02-04T00:00:00Z");
    let noise = |time: jiff::Timestamp| (time.as_second() / 300 % 7) as f64 / 7.0 - 0.5;
    let samples = five_minutes(start, 28 * 288 + 14 * 12, |time| mbps + noise(time));
    Hop::new(name, samples)
}

fn at_a_rate() -> Settings {
    Settings {
        mode_rule: ModeRule::Rate,
        model: ModelKind::Profile,
        own_path: false,
        controls: Controls {
            on: Some("cubic".to_owned()),
            ..Controls::default()
        },
        ..settings()
    }
}

#[test]
fn a_rate_is_the_lowest_low_edge_of_the_hops_intervals() {
    let learned = |mut hop: Hop| {
        hop.learn(time("2026-03-04T14:00:00Z"), &at_a_rate());
        hop
    };
    let hops = vec![learned(known_hop("a", 50.0)), learned(known_hop("b", 60.0))];
    let advice = ask(&history(hops), &at_a_rate());
    assert_eq!(advice.mode, Mode::Rate);
    assert_eq!(advice.congestion_control.as_deref(), Some("cubic"));
    let [low, high] = advice.interval_mbps.unwrap();
    assert!(low > 49.0 && low < 50.0 && high > 50.0, "{low} {high}");
    assert_eq!(advice.pacing_mbps, Some(low));
    let expected = format!("rate: in nine of ten cases a has at least {low:.1} Mbit/s available;");
    assert!(advice.reason.starts_with(&expected), "{}", advice.reason);
    // The newest tests are five minutes old: no later than when they are stale.
    assert!(advice.next_advice <= time("2026-03-04T14:10:01Z"));
}

#[test]
fn without_a_rate_that_the_forecast_vouches_for_the_transfer_is_in_the_background() {
    let why = |hops: Vec<Hop>, settings: &Settings| {
        let advice = ask(&history(hops), settings);
        assert_eq!(advice.mode, Mode::Background);
        assert_eq!(advice.pacing_mbps, None);
        advice.reason.split(';').next().unwrap().to_owned()
    };
    let (one, rate) = (|| vec![hop("kscy", 50.0, 45.0)], at_a_rate());
    let linear = Settings {
        model: ModelKind::Linear,
        ..rate.clone()
    };
    assert_eq!(
        why(one(), &linear),
        "background: the forecast of kscy has no interval"
    );
    let stale = Settings {
        stale_after: Duration::from_secs(119),
        ..rate.clone()
    };
    assert_eq!(
        why(one(), &stale),
        "background: the newest test of kscy is 120 s old, the limit is 119 s"
    );
    assert_eq!(why(Vec::new(), &rate), "background: no hop is watched");
    let mut full = known_hop("kscy", 0.5);
    full.learn(time("2026-03-04T14:00:00Z"), &rate);
    assert_eq!(
        why(vec![full], &rate),
        "background: kscy may have less than 0.1 Mbit/s available, too little to pace at"
    );
}
