//! Undeclared hops: which of them decide, how they are listed, how one is removed.

use std::ops::Range;
use std::sync::Arc;

use fairwind_advice::Mode;
use fairwind_advice_client::{ClientError, path_segment};
use fairwind_advisor::service::NewSample;
use fairwind_advisor::store::Store;
use fairwind_advisor::{Clock, PathConfig, Service};
use serde_json::{Value, json};

use crate::support::{Running, START};

/// Tests of a hop every five minutes until the clock's start, each with 60 Mbit/s.
fn tests(hop: &str) -> Value {
    let times = ["13:40", "13:45", "13:50", "13:55", "14:00"];
    let tests = times.map(|time| {
        json!({"hop": hop, "time": format!("2026-03-02T{time}:00Z"), "available_mbps": 60.0})
    });
    json!(tests)
}

/// A path marked as own without declared hops, whose router has bandwidth available.
fn service() -> Running {
    let service = Running::start();
    let own = json!({"threshold_mbps": 42.0, "own": true});
    service.put_path("p", &["192.0.2.7"], own);
    record(&service, &tests("router"));
    service
}

fn record(service: &Running, tests: &Value) {
    let answer: Value = service.client().post("/v1/paths/p/samples", tests).unwrap();
    assert_eq!(answer["accepted"], tests.as_array().unwrap().len());
}

fn mode(service: &Running) -> (Mode, String) {
    let advice = service.client().advice("192.0.2.7", None).unwrap().advice;
    (advice.mode, advice.reason)
}

#[test]
fn a_misspelt_hop_and_a_slow_transfer_do_not_force_congestion_control_on_a_path_that_is_tested() {
    let service = service();
    let misspelt =
        json!([{"hop": "ruoter", "time": "2026-03-02T13:40:00Z", "available_mbps": 60.0}]);
    record(&service, &misspelt);
    let transfer =
        json!({"hop": "transfers", "time": "2026-03-02T13:59:00Z", "available_mbps": 1.0});
    record(&service, &json!([transfer]));
    let (mode, reason) = mode(&service);
    assert_eq!(mode, Mode::NoCongestionControl, "{reason}");
    assert!(
        reason.contains("ruoter does not count any more"),
        "{reason}"
    );
}

#[test]
fn hops_are_listed_with_what_they_are() {
    let service = service();
    let old = json!([{"hop": "a / b", "time": "2026-03-02T10:00:00Z", "available_mbps": 50.0}]);
    record(&service, &old);
    let hops: Value = service.client().get("/v1/paths/p/hops").unwrap();
    let expected = json!([
        {"name": "router", "role": "found", "decides": true,
         "newest": "2026-03-02T14:00:00Z", "available_mbps": 60.0},
        {"name": "a / b", "role": "found", "decides": false,
         "newest": "2026-03-02T10:00:00Z", "available_mbps": 50.0},
    ]);
    assert_eq!(hops, expected);
    let hops = json!({"hops": ["r1"], "threshold_mbps": 42.0, "own": true});
    service.put_path("p", &["192.0.2.7"], hops);
    let hops: Value = service.client().get("/v1/paths/p/hops").unwrap();
    let roles: Vec<(&str, &str)> = hops
        .as_array()
        .unwrap()
        .iter()
        .map(|hop| (hop["name"].as_str().unwrap(), hop["role"].as_str().unwrap()))
        .collect();
    let expected = [
        ("router", "unused"),
        ("a / b", "unused"),
        ("r1", "declared"),
    ];
    assert_eq!(roles, expected);
}

#[test]
fn a_hop_that_is_not_declared_can_be_removed_with_its_history() {
    let service = service();
    let congested =
        json!([{"hop": "a / b", "time": "2026-03-02T14:00:00Z", "available_mbps": 1.0}]);
    record(&service, &congested);
    assert_eq!(mode(&service).0, Mode::CongestionControl);
    let client = service.client();
    let at = format!("/v1/paths/p/hops/{}", path_segment("a / b"));
    let status = |at: &str| match client.delete::<Value>(at) {
        Ok(_) => 204,
        Err(ClientError::Refused { status, .. }) => status,
        Err(error) => panic!("{error}"),
    };
    assert_eq!(status(&at), 204);
    assert_eq!(mode(&service).0, Mode::NoCongestionControl);
    assert_eq!(status(&at), 404);
    assert_eq!(status("/v1/paths/q/hops/router"), 404);
    // Its history has been removed with it.
    record(&service, &congested);
    let history: Value = client.get("/v1/paths/p/history").unwrap();
    let again = &history["hops"].as_array().unwrap().last().unwrap()["samples"];
    assert_eq!(again.as_array().unwrap().len(), 1);
}

#[test]
fn a_declared_hop_cannot_be_removed() {
    let service = Running::start();
    service.put_path("p", &["192.0.2.7"], json!({"hops": ["r1"]}));
    let removed = service.client().delete::<Value>("/v1/paths/p/hops/r1");
    let error = removed.unwrap_err();
    assert!(
        matches!(error, ClientError::Refused { status: 409, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("without it first"), "{error}");
}

/// One test of each of these hops.
fn of_hops(numbers: Range<usize>) -> Value {
    let test = |number| json!({"hop": format!("h{number}"), "time": "2026-03-02T14:00:00Z", "available_mbps": 60.0});
    numbers.map(test).collect()
}

#[test]
fn one_request_brings_no_more_hops_than_a_path_may_have() {
    let service = Running::start();
    service.put_path("p", &["192.0.2.7"], json!({}));
    let client = service.client();
    let refused = |tests: &Value| {
        let answer = client.post::<Value>("/v1/paths/p/samples", tests);
        let error = answer.unwrap_err();
        assert!(
            matches!(error, ClientError::Refused { status: 400, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("64 hops at most"), "{error}");
    };
    let hops = || -> Value { client.get("/v1/paths/p/hops").unwrap() };
    refused(&of_hops(0..65));
    assert_eq!(hops(), json!([]));
    record(&service, &of_hops(0..64));
    refused(&of_hops(63..65));
    assert_eq!(hops().as_array().unwrap().len(), 64);
    // Known hops are still accepted, and so are reported transfers.
    let again: Value = client
        .post("/v1/paths/p/samples", &of_hops(63..64))
        .unwrap();
    assert_eq!(again["refused"]["duplicate"], 1);
    let transfer = json!({"hop": "transfers", "time": "2026-03-02T14:00:00Z", "available_mbps": 1});
    record(&service, &json!([transfer]));
}

#[tokio::test]
async fn requests_that_come_together_bring_no_more_hops_than_a_path_may_have() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::open(&place.path().join("db")).await.unwrap();
    let store: Arc<Store> = Arc::new(store);
    let clock = Clock::new(Some(START.parse().unwrap()), 1.0);
    let service = Service::start(Arc::clone(&store), clock, 1 << 20)
        .await
        .unwrap();
    let config = PathConfig::new("p", vec!["192.0.2.7".parse().unwrap()]);
    service.put_path(config).await.unwrap();
    let path = service.path("p").unwrap();
    let tests = |numbers| -> Vec<NewSample> { serde_json::from_value(of_hops(numbers)).unwrap() };
    let (one, other) = (tests(0..40), tests(40..80));
    let (one, other) = tokio::join!(service.record(&path, &one), service.record(&path, &other));
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    assert_eq!(store.paths().await.unwrap()[0].hops.len(), 40);
}
