//! `kill -9` at any moment loses no acknowledged sample.

use std::sync::mpsc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};

use crate::support::process::Process;

#[test]
fn killed_at_any_moment_it_keeps_what_it_acknowledged() {
    let state = tempfile::tempdir().unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
    let mut acknowledged: Vec<u64> = Vec::new();
    let mut next = 1;
    for round in 0..6 {
        let mut service = Process::start(state.path());
        let client = service.client();
        if round == 0 {
            let path = json!({"hosts": ["192.0.2.7"], "ping": {"interval_s": 0}});
            let _: Value = client.put("/v1/paths/p", &path).unwrap();
        }
        let lives = Duration::from_millis(random.random_range(20..400));
        let (tell, some_are_kept) = mpsc::channel();
        let killer = std::thread::spawn(move || {
            // However long it takes.
            let _ = some_are_kept.recv();
            std::thread::sleep(lives);
            service.kill();
        });
        loop {
            let time = jiff::Timestamp::from_second(1_700_000_000 + next as i64).unwrap();
            let sample = json!([{"time": time, "available_mbps": next}]);
            let answer: Result<Value, _> = client.post("/v1/paths/p/samples", &sample);
            match answer {
                Ok(answer) => {
                    assert_eq!(answer["accepted"], 1, "{answer}");
                    acknowledged.push(next);
                    if acknowledged.len() > 4 * round {
                        let _ = tell.send(());
                    }
                }
                Err(_) => break,
            }
            next += 1;
        }
        // A sample that was not acknowledged may be stored nevertheless, so it is not sent again.
        next += 1;
        drop(tell);
        killer.join().unwrap();
    }
    let service = Process::start(state.path());
    let history: Value = service.client().get("/v1/paths/p/history").unwrap();
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
