//! `kill -9` at any moment loses no sample that was acknowledged.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fairwind_advice_client::Client;
use fairwind_advisor::run::run;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};

/// The state directory of the service that this very program is, when a test has started it so.
const CHILD: &str = "FAIRWIND_TEST_ADVISOR_STATE";

/// Not a test: the service that is killed.
#[test]
fn service_that_is_killed() {
    let Some(state) = std::env::var_os(CHILD) else {
        return;
    };
    let mut options = crate::support::options(Path::new(&state));
    options.clock = fairwind_advisor::Clock::System;
    // Through the test harness's capture: the parent reads it.
    run(options, |urls| eprintln!("listens on {}", urls[0])).unwrap();
}

fn start(state: &Path) -> (Child, Client) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::service_that_is_killed", "--nocapture"])
        .env(CHILD, state)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("listens on ")?.1.to_owned()));
    let client = Client::new(&address.expect("the service has started")).unwrap();
    (child, client.with_deadline(Duration::from_secs(30)))
}

#[test]
fn killed_at_any_moment_it_keeps_what_it_acknowledged() {
    let state = tempfile::tempdir().unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
    let mut acknowledged: Vec<u64> = Vec::new();
    let mut next = 1;
    for round in 0..6 {
        let (mut child, client) = start(state.path());
        if round == 0 {
            let path = json!({"hosts": ["192.0.2.7"], "ping": {"interval_s": 0}});
            let _: Value = client.put("/v1/paths/p", &path).unwrap();
        }
        let lives = Duration::from_millis(random.random_range(20..400));
        let begin = Instant::now();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(lives.saturating_sub(begin.elapsed()));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        loop {
            let time = jiff::Timestamp::from_second(1_700_000_000 + next as i64).unwrap();
            let sample = json!([{"time": time, "available_mbps": next}]);
            let answer: Result<Value, _> = client.post("/v1/paths/p/samples", &sample);
            match answer {
                Ok(answer) => {
                    assert_eq!(answer["accepted"], 1, "{answer}");
                    acknowledged.push(next);
                }
                Err(_) => break,
            }
            next += 1;
        }
        // One that was not acknowledged may be there all the same: do not send it again.
        next += 1;
        killer.join().unwrap();
    }
    let (mut child, client) = start(state.path());
    let history: Value = client.get("/v1/paths/p/history").unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let samples = history["hops"][0]["samples"].as_array().unwrap();
    let kept: Vec<u64> = samples
        .iter()
        .map(|sample| sample["available_mbps"].as_f64().unwrap() as u64)
        .collect();
    assert!(acknowledged.len() > 20, "{acknowledged:?}");
    let lost: Vec<&u64> = acknowledged
        .iter()
        .filter(|value| !kept.contains(value))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}
