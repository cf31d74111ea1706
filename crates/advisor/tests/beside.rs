//! Changes made by other programs while the service runs.

use fairwind_advice::{Curve, Sample};
use fairwind_advice_client::Client;
use fairwind_advisor::local::Local;
use fairwind_advisor::{Clock, PathConfig};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::{Running, START};

const PATHS: usize = 120;
/// Enough days that no answer waits until they are learned.
const DAYS: i64 = 8;

fn now() -> Timestamp {
    START.parse().unwrap()
}

/// The samples of `number` days, ending `ago` days ago.
fn days(number: i64, ago: i64) -> Vec<Sample> {
    let end = now() - SignedDuration::from_hours(24 * ago);
    Curve::default().samples(end - SignedDuration::from_hours(24 * number), end)
}

fn name(number: usize) -> String {
    format!("p{number}")
}

fn host(number: usize) -> String {
    format!("192.0.2.{}", number + 1)
}

fn path(number: usize) -> PathConfig {
    let mut path = PathConfig::new(name(number), vec![host(number).parse().unwrap()]);
    path.ping.interval_s = 0;
    path.threshold_mbps = Some(42.0);
    path
}

struct Beside {
    state: tempfile::TempDir,
}

impl Beside {
    /// Runs a command in the state directory.
    fn command(&self, what: impl FnOnce(&Local)) {
        let clock = Clock::new(Some(now()), 1.0);
        what(&Local::open(Some(self.state.path()), clock).unwrap());
    }

    fn import(&self, number: usize, samples: Vec<Sample>) {
        self.command(|local| {
            let path = local.path(&name(number)).unwrap();
            let expected = samples.len() as u64;
            let answer = local.fill(&path, None, samples).unwrap();
            assert_eq!(answer.accepted, expected);
        });
    }

    fn service(&self) -> Running {
        Running::with(|options| options.state = Some(self.state.path().to_owned()))
    }
}

/// The model that answers for a path, and the number of days it uses.
fn model(client: &Client, number: usize) -> (String, u32) {
    let advice = client.advice(&host(number), None).unwrap().advice;
    (advice.model, advice.days_used)
}

fn all_are_learned(client: &Client, paths: usize) -> bool {
    (0..paths).all(|number| model(client, number).0 == "profile")
}

fn filled(paths: usize) -> Beside {
    let beside = Beside {
        state: tempfile::tempdir().unwrap(),
    };
    beside.command(|local| {
        for number in 0..paths {
            local.put_path(path(number)).unwrap();
            let path = local.path(&name(number)).unwrap();
            local.fill(&path, None, days(DAYS, 0)).unwrap();
        }
    });
    beside
}

#[test]
fn an_import_makes_no_path_forget_what_it_has_learned() {
    let beside = filled(PATHS);
    let service = beside.service();
    let client = service.client();
    assert!(fairwind_testing::eventually(|| all_are_learned(
        &client, PATHS
    )));
    for number in 0..4 {
        // Older than the stored samples: the path has to be learned from scratch.
        beside.import(number, days(DAYS, DAYS));
        let mut known = 0;
        let is_known = fairwind_testing::eventually(|| {
            for other in 0..PATHS {
                let (model, days) = model(&client, other);
                assert_eq!(model, "profile", "path {other} after import {number}");
                if other == number {
                    known = days;
                }
            }
            known == 2 * DAYS as u32
        });
        assert!(is_known, "{known} days");
    }
    beside.command(|local| assert!(local.put_path(path(PATHS)).unwrap()));
    let is_there = || client.advice(&host(PATHS), None).unwrap().path.is_some();
    assert!(fairwind_testing::eventually(|| {
        assert!(all_are_learned(&client, PATHS));
        is_there()
    }));
    beside.command(|local| local.remove_path(&name(PATHS)).unwrap());
    assert!(fairwind_testing::eventually(|| {
        assert!(all_are_learned(&client, PATHS));
        !is_there()
    }));
}

#[test]
fn a_sample_that_comes_while_an_import_is_read_is_in_every_answer() {
    let beside = filled(1);
    let service = beside.service();
    let client = service.client();
    assert!(fairwind_testing::eventually(|| all_are_learned(&client, 1)));
    let mut imported = DAYS;
    for second in 1..200 {
        if second % 40 == 0 {
            beside.import(0, days(DAYS, imported));
            imported += DAYS;
        }
        let time = now() + SignedDuration::from_millis(second);
        let sample = json!([{"time": time, "available_mbps": second}]);
        let accepted = || -> Value { client.post("/v1/paths/p0/samples", &sample).unwrap() };
        // A sample is refused until the service's clock has reached its time.
        assert!(fairwind_testing::eventually(|| accepted()["accepted"] == 1));
        let advice = client.advice(&host(0), None).unwrap().advice;
        let newest = format!("{second}.0 Mbit/s");
        let told = advice.reason.contains(&format!("has {newest}"))
            || (second >= 42 && !advice.reason.contains("has "));
        assert!(told, "{newest}: {}", advice.reason);
        assert_eq!(advice.model, "profile", "{}", advice.reason);
    }
    let days = imported as u32;
    assert!(fairwind_testing::eventually(
        || model(&client, 0) == ("profile".to_owned(), days)
    ));
}

#[test]
fn a_path_that_is_declared_anew_is_answered_by_what_it_has_learned() {
    let beside = filled(1);
    let service = beside.service();
    let client = service.client();
    assert!(fairwind_testing::eventually(|| all_are_learned(&client, 1)));
    let put = |more: Value| service.put_path(&name(0), &[&host(0)], more);
    put(json!({"threshold_mbps": 13.0}));
    let advice = client.advice(&host(0), None).unwrap().advice;
    assert_eq!(
        (advice.model.as_str(), advice.threshold_mbps),
        ("profile", Some(13.0))
    );
    let zone = json!({"threshold_mbps": 13.0, "time_zone": "America/Chicago"});
    put(zone);
    assert_eq!(model(&client, 0).0, "profile");
    // The other program does not wait until the service has learned it.
    beside.command(|local| assert!(!local.put_path(path(0)).unwrap()));
    let threshold = || {
        let advice = client.advice(&host(0), None).unwrap().advice;
        assert_eq!(advice.model, "profile");
        advice.threshold_mbps
    };
    assert!(fairwind_testing::eventually(|| threshold() == Some(42.0)));
}
