//! The monitor of the demonstration: reports each test of the path to the advisor when its time has come, as
//! a router's monitor would.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fairwind_advice::Sample;
use fairwind_advice_client::Client;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::story::{HOP, PATH};
use crate::Error;

/// How long the advisor may take to accept a test.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(20);

/// Reports the tests in `file`, one per line: its time, Mbit/s, and the round-trip time in milliseconds or nothing. The clock starts now, at `start`, and runs
/// `rate` times as fast as real time.
pub fn run(file: &Path, advisor: &str, start: Timestamp, rate: f64) -> Result<(), Error> {
    let begun = Instant::now();
    let tests = read(file)?;
    let client = Client::new(advisor).map_err(Error::input)?;
    for (test, rtt_ms) in tests {
        let due = test.time.duration_since(start).as_secs_f64() / rate;
        let due = Duration::try_from_secs_f64(due).unwrap_or_default();
        thread::sleep(due.saturating_sub(begun.elapsed()));
        tell(&client, &test, rtt_ms)?;
    }
    Ok(())
}

/// Reports a test until it is accepted: the advisor may not be up yet, or its clock may be a little behind.
fn tell(client: &Client, test: &Sample, rtt_ms: Option<f64>) -> Result<(), Error> {
    let at = format!("/v1/paths/{PATH}/samples");
    let body = json!([{
        "hop": HOP, "time": test.time.to_string(), "available_mbps": test.available_mbps,
        "rtt_ms": rtt_ms, "source": "demo",
    }]);
    let begun = Instant::now();
    loop {
        let why = match client.post::<Value>(&at, &body) {
            Ok(answer) if answer["refused"]["future"].as_u64() == Some(1) => {
                "its clock is behind".to_owned()
            }
            Ok(_) => return Ok(()),
            Err(error) => error.to_string(),
        };
        if begun.elapsed() > ACCEPT_TIMEOUT {
            return Err(Error::work(format!("the advisor takes no test: {why}")));
        }
        thread::sleep(PAUSE);
    }
}

fn read(file: &Path) -> Result<Vec<(Sample, Option<f64>)>, Error> {
    let wrong = |why: String| Error::input(format!("{}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let parse = |line: &str| {
        let mut columns = line.split(',');
        let test = Sample {
            time: columns.next()?.parse().ok()?,
            available_mbps: columns.next()?.parse().ok()?,
        };
        match columns.next()? {
            "" => Some((test, None)),
            rtt_ms => Some((test, Some(rtt_ms.parse().ok()?))),
        }
    };
    text.lines()
        .map(|line| {
            parse(line)
                .ok_or_else(|| wrong(format!("{line:?} is not a time, Mbit/s and milliseconds")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_time_a_bandwidth_and_a_round_trip_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tests.csv");
        fs::write(
            &file,
            "2026-03-03T07:05:00Z,71.250,50\n2026-03-03T07:10:00Z,71.250,\n",
        )
        .unwrap();
        let tests = read(&file).unwrap();
        assert_eq!((tests[0].0.available_mbps, tests[0].1), (71.25, Some(50.0)));
        assert_eq!(tests[1].1, None);
        fs::write(&file, "2026-03-03T07:05:00Z,71\n").unwrap();
        assert!(read(&file).is_err());
    }
}
