//! A full disk, repeated `kill -9` under eight writers, and an import every second: no acknowledged sample is
//! lost, and every path is answered from what was learned of it.
//!
//! `FAIRWIND_TEST_LONG=1` kills 50 times instead of 4, and imports for ten minutes instead of five seconds.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairwind_advice::{Curve, Sample};
use fairwind_advice_client::{Client, ClientError};
use fairwind_advisor::local::Local;
use fairwind_advisor::{Clock, PathConfig};
use jiff::{SignedDuration, Timestamp};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};

use crate::support::process::Process;

const PATHS: usize = 120;
const WRITERS: usize = 8;
/// Enough days that no answer waits until they are learned.
const DAYS: i64 = 8;

struct Scale {
    kills: u32,
    imports: u32,
}

impl Scale {
    fn of_this_run() -> Scale {
        match std::env::var_os("FAIRWIND_TEST_LONG").is_some() {
            true => Scale {
                kills: 50,
                imports: 600,
            },
            false => Scale {
                kills: 4,
                imports: 5,
            },
        }
    }
}

fn name(path: usize) -> String {
    format!("p{path}")
}

fn host(path: usize) -> String {
    format!("192.0.2.{}", path + 1)
}

/// Runs a command beside the service.
fn command<T>(state: &Path, what: impl FnOnce(&Local) -> T) -> T {
    what(&Local::open(Some(state), Clock::System).unwrap())
}

/// Imports the samples of `days` days ending `ago` days before `end`; returns their number.
fn import(local: &Local, path: usize, end: Timestamp, days: i64, ago: i64) -> usize {
    let end = end - SignedDuration::from_hours(24 * ago);
    let samples = Curve::default().samples(end - SignedDuration::from_hours(24 * days), end);
    let number = samples.len();
    let known = local.path(&name(path)).unwrap();
    let answer = local.fill(&known, None, samples).unwrap();
    assert_eq!(answer.accepted, number as u64, "{answer:?}");
    number
}

/// One of the writers; each writes to a different path.
#[derive(Default)]
struct Writer {
    path: usize,
    next: u32,
    acknowledged: Vec<Sample>,
}

impl Writer {
    /// Sends a sample. If it is not acknowledged, it may be stored nevertheless, so it is never sent again.
    fn write(&mut self, client: &Client) -> Result<(), ClientError> {
        self.next += 1;
        let time = Timestamp::from_microsecond(Timestamp::now().as_microsecond()).unwrap();
        let sample = Sample {
            time,
            available_mbps: f64::from(self.next),
        };
        let at = format!("/v1/paths/{}/samples", name(self.path));
        let answer: Value = client.post(&at, &json!([sample]))?;
        assert_eq!(answer["accepted"], 1, "{answer}");
        self.acknowledged.push(sample);
        Ok(())
    }
}

/// Runs all writers, each until `go_on` returns false for an outcome, and `meanwhile` at the same time.
fn while_all_write(
    writers: &mut [Writer],
    client: &Client,
    go_on: impl Fn(Result<(), ClientError>) -> bool + Sync,
    meanwhile: impl FnOnce(),
) {
    std::thread::scope(|scope| {
        for writer in writers {
            scope.spawn(|| while go_on(writer.write(client)) {});
        }
        meanwhile();
    });
}

fn is_healthy(service: &Process) -> bool {
    let url = format!("{}/healthz", service.url);
    crate::support::curl(&[&url]) == "ok\n"
}

fn full_disk(state: &Path, writers: &mut [Writer]) {
    let service = Process::start(state);
    let client = service.client();
    let stop = AtomicBool::new(false);
    let until_stopped = |_| !stop.load(Ordering::Relaxed);
    while_all_write(writers, &client, until_stopped, || {
        for _ in 0..3 {
            service.limit_files(Some(0));
            assert!(fairwind_testing::eventually(|| !is_healthy(&service)));
            service.limit_files(None);
            assert!(fairwind_testing::eventually(|| is_healthy(&service)));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn kill(state: &Path, writers: &mut [Writer], times: u32) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(10);
    for _ in 0..times {
        let mut service = Process::start(state);
        let client = service.client();
        let lives = Duration::from_millis(random.random_range(20..400));
        while_all_write(
            writers,
            &client,
            |written| written.is_ok(),
            || {
                std::thread::sleep(lives);
                service.kill();
            },
        );
    }
}

fn ask_all(client: &Client) -> Option<String> {
    (0..PATHS).find_map(|path| {
        let advice = client.advice(&host(path), None).unwrap().advice;
        (advice.model != "profile").then(|| format!("{}: {}", name(path), advice.reason))
    })
}

/// Imports once a second, each time a day older than all before; returns the number of imported samples by
/// path.
fn imports(state: &Path, writers: &mut [Writer], number: u32, end: Timestamp) -> Vec<usize> {
    let service = Process::start(state);
    let client = service.client();
    assert!(fairwind_testing::eventually(|| ask_all(&client).is_none()));
    let mut imported = vec![0; PATHS];
    let stop = AtomicBool::new(false);
    let go_on = |written: Result<(), ClientError>| {
        written.unwrap();
        // At intervals, like real tests.
        std::thread::sleep(Duration::from_millis(50));
        !stop.load(Ordering::Relaxed)
    };
    while_all_write(writers, &client, go_on, || {
        let asking = || {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(ask_all(&client), None);
            }
        };
        std::thread::scope(|scope| {
            let asking = scope.spawn(asking);
            let begin = Instant::now();
            for turn in 0..number {
                let path = turn as usize % PATHS;
                let ago = DAYS + i64::from(turn) / PATHS as i64;
                imported[path] += command(state, |local| import(local, path, end, 1, ago));
                let due = begin + Duration::from_secs(u64::from(turn) + 1);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if asking.is_finished() {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    imported
}

#[test]
fn nothing_that_was_acknowledged_is_lost_and_nothing_that_was_learned_is_forgotten() {
    let scale = Scale::of_this_run();
    let place = tempfile::tempdir().unwrap();
    let state = place.path();
    let end = Timestamp::now() - SignedDuration::from_mins(5);
    let filled = command(state, |local| {
        let fill = |path| {
            let mut config = PathConfig::new(name(path), vec![host(path).parse().unwrap()]);
            config.ping.interval_s = 0;
            local.put_path(config).unwrap();
            import(local, path, end, DAYS, 0)
        };
        (0..PATHS).map(fill).collect::<Vec<usize>>()
    });
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|path| Writer {
            path,
            ..Writer::default()
        })
        .collect();
    full_disk(state, &mut writers);
    kill(state, &mut writers, scale.kills);
    let imported = imports(state, &mut writers, scale.imports, end);
    command(state, |local| {
        for path in 0..PATHS {
            let known = local.path(&name(path)).unwrap();
            let hops = local.samples(&known).unwrap();
            let samples = hops[0].1.all();
            let writer = writers.get(path);
            let written = writer.map_or(&[][..], |writer| &writer.acknowledged);
            assert!(samples.len() >= filled[path] + imported[path] + written.len());
            let there: HashSet<i64> = samples.times_us.iter().copied().collect();
            let lost = written
                .iter()
                .filter(|sample| !there.contains(&sample.time.as_microsecond()));
            assert_eq!(lost.count(), 0, "of {} of path {path}", written.len());
        }
    });
    let acknowledged: usize = writers.iter().map(|w| w.acknowledged.len()).sum();
    println!("{acknowledged} samples were acknowledged");
}
