//! A disk that is temporarily full.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use fairwind_advice_client::{Client, ClientError};
use serde_json::{Value, json};

use crate::support::process::Process;

const FIRST: i64 = 1_700_000_000;

/// Sends a sample of `number` Mbit/s, `number` seconds after the first.
fn send(client: &Client, number: i64) -> Result<(), ClientError> {
    let time = jiff::Timestamp::from_second(FIRST + number).unwrap();
    let sample = json!([{"time": time, "available_mbps": number}]);
    let answer: Value = client.post("/v1/paths/p/samples", &sample)?;
    assert_eq!(answer["accepted"], 1, "{answer}");
    Ok(())
}

fn declare(client: &Client) {
    let path = json!({"hosts": ["192.0.2.7"], "ping": {"interval_s": 0}});
    let _: Value = client.put("/v1/paths/p", &path).unwrap();
}

/// Status and body of `/healthz`.
fn health(service: &Process) -> (String, String) {
    let url = format!("{}/healthz", service.url);
    let answer = crate::support::curl(&["-w", "\n%{http_code}", &url]);
    let (text, status) = answer.rsplit_once('\n').unwrap();
    (status.to_owned(), text.to_owned())
}

fn values(client: &Client) -> Vec<i64> {
    let history: Value = client.get("/v1/paths/p/history").unwrap();
    let samples = history["hops"][0]["samples"].as_array().unwrap();
    let value = |sample: &Value| sample["available_mbps"].as_f64().unwrap() as i64;
    samples.iter().map(value).collect()
}

/// `stop` makes writes fail and `go` lets them succeed again; `why` is what `/healthz` reports meanwhile.
fn a_full_disk_costs_nothing(
    service: &Process,
    database: &Path,
    why: &str,
    stop: impl FnOnce(),
    go: impl FnOnce(),
) {
    let client = service.client();
    declare(&client);
    send(&client, 0).unwrap();
    assert_eq!(health(service), ("200".to_owned(), "ok\n".to_owned()));
    stop();
    // Space that is already allocated may hold some more samples.
    let first_refused = (1..5_000).find(|&number| send(&client, number).is_err());
    let first_refused = first_refused.expect("the disk is full");
    let error = send(&client, first_refused + 1).unwrap_err().to_string();
    let (status, reason) = health(service);
    assert_eq!(status, "503", "{reason}");
    assert!(reason.contains("writes have failed since "), "{reason}");
    for text in [error, reason] {
        assert!(text.contains(why), "{text}");
        assert!(text.contains(&database.display().to_string()), "{text}");
    }
    go();
    // Neither a restart nor another sample is needed first.
    assert_eq!(health(service), ("200".to_owned(), "ok\n".to_owned()));
    let next = first_refused + 2;
    send(&client, next).unwrap();
    let expected: Vec<i64> = (0..first_refused).chain([next]).collect();
    assert_eq!(values(&client), expected);
}

#[test]
fn writes_succeed_again_once_a_full_disk_has_room() {
    if !fairwind_testing::permitted(fairwind_testing::root()) {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let service = Process::start_in_small_room(state.path(), "2m");
    let inside = format!("/proc/{}/root{}", service.id(), state.path().display());
    let filler = Path::new(&inside).join("filler");
    let fill = || {
        let mut file = File::create(&filler).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    };
    let database = state.path().join("advisor.db");
    let free = || fs::remove_file(&filler).unwrap();
    a_full_disk_costs_nothing(
        &service,
        &database,
        "free space on its file system",
        fill,
        free,
    );
}

/// A limit on the size of the process's files makes the kernel refuse writes much like a full disk, without
/// root.
#[test]
fn writes_succeed_again_once_files_may_grow() {
    let state = tempfile::tempdir().unwrap();
    let service = Process::start(state.path());
    let database = state.path().join("advisor.db");
    let stop = || service.limit_files(Some(0));
    let go = || service.limit_files(None);
    a_full_disk_costs_nothing(&service, &database, "disk I/O error", stop, go);
}
