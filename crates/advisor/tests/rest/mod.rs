//! The REST interface, tested with curl and with `fairwind-advice-client`.

mod limits;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::support::{Running, curl};
use fairwind_advice::Mode;
use fairwind_advice::wire::{Direction, Limited, TransferReport};
use fairwind_advice_client::ClientError;
use fairwind_testing::{permitted, wait_until};
use serde_json::{Value, json};

fn sample(time: &str, available_mbps: f64) -> Value {
    json!({"time": time, "available_mbps": available_mbps})
}

#[test]
fn a_service_without_configuration_advises_the_kernels_defaults() {
    let service = Running::start();
    let text = curl(&[&format!(
        "{}/v1/advice?host=192.0.2.7&bytes=16000000000",
        service.url
    )]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["mode"], "congestion-control");
    assert_eq!(answer["congestion_control"], Value::Null);
    assert_eq!(answer["send_buffer_bytes"], Value::Null);
    assert_eq!(answer["path"], Value::Null);
    assert_eq!(
        answer["reason"],
        "congestion control: no path leads to 192.0.2.7"
    );
    assert_eq!(curl(&[&format!("{}/healthz", service.url)]), "ok\n");
}

#[test]
fn an_answer_names_the_destinations_that_it_holds_for() {
    let service = Running::start();
    service.put_path("net", &["192.0.2.0/24", "::/0"], json!({}));
    service.put_path("part", &["192.0.2.128/25"], json!({}));
    service.put_path("named", &["here.example.org", "198.51.100.7"], json!({}));
    let client = service.client();
    let of = |host: &str| {
        let answer = client.advice(host, None).unwrap();
        let prefix = answer.prefix.map(|prefix| prefix.to_string());
        (answer.path, prefix)
    };
    let known = |path: &str, prefix: &str| (Some(path.to_owned()), Some(prefix.to_owned()));
    assert_eq!(of("192.0.2.7"), known("net", "192.0.2.0/25"));
    assert_eq!(of("::ffff:192.0.2.7"), known("net", "192.0.2.0/25"));
    assert_eq!(of("192.0.2.200"), known("part", "192.0.2.128/25"));
    assert_eq!(of("198.51.100.7"), known("named", "198.51.100.7/32"));
    assert_eq!(of("here.example.org"), (Some("named".to_owned()), None));
    assert_eq!(of("203.0.113.1"), (None, None));
    // Not the addresses of IPv4, which other paths have.
    let (path, prefix) = of("2001:db8::7");
    assert_eq!(
        (path.as_deref(), prefix.as_deref()),
        (Some("net"), Some("2000::/3"))
    );
    let _: Value = client.delete("/v1/paths/part").unwrap();
    assert_eq!(of("192.0.2.7"), known("net", "192.0.2.0/24"));
}

#[test]
fn a_new_sample_decides_the_next_answer() {
    let service = Running::start();
    let client = service.client();
    let path = json!({"hops": ["r1"], "threshold_mbps": 42.0, "own": true});
    service.put_path("argonne", &["192.0.2.0/24"], path);
    let ask = || client.advice("192.0.2.7", None).unwrap().advice;
    assert!(
        ask().reason.contains("r1 has not been tested"),
        "{}",
        ask().reason
    );
    for (time, available_mbps, mode) in [
        ("2026-03-02T13:50:00Z", 45.0, Mode::NoCongestionControl),
        ("2026-03-02T13:51:00Z", 41.0, Mode::CongestionControl),
        ("2026-03-02T13:52:00Z", 50.0, Mode::NoCongestionControl),
    ] {
        let samples = json!([sample(time, available_mbps)]);
        let answer: Value = client.post("/v1/paths/argonne/samples", &samples).unwrap();
        assert_eq!(answer["accepted"], 1);
        assert_eq!(ask().mode, mode, "{}", ask().reason);
    }
    assert_eq!(ask().congestion_control.as_deref(), Some("nocc"));
}

#[test]
fn samples_that_make_no_sense_are_refused_and_counted() {
    let service = Running::start();
    service.put_path("p", &["192.0.2.7"], json!({}));
    let samples = json!([
        sample("2026-03-02T13:00:00Z", 10.0),
        sample("2026-03-02T13:00:00Z", 10.0),
        sample("2026-03-02T12:00:00Z", 10.0),
        sample("2026-03-02T13:05:00Z", -1.0),
        sample("2026-03-03T00:00:00Z", 10.0),
        {"time": "2026-03-02T13:06:00Z", "available_mbps": null},
        {"time": "2026-03-02T13:07:00Z", "available_mbps": "NaN"},
    ]);
    let answer: Value = service
        .client()
        .post("/v1/paths/p/samples", &samples)
        .unwrap();
    let expected = json!({"accepted": 1, "refused": {
        "duplicate": 1, "out_of_order": 1, "negative": 1, "future": 1, "not_a_number": 2}});
    assert_eq!(answer, expected);
    let metrics = service.metrics();
    for line in [
        "fairwind_advisor_samples_accepted_total 1",
        "fairwind_advisor_samples_refused_total{reason=\"duplicate\"} 1",
        "fairwind_advisor_samples_refused_total{reason=\"out_of_order\"} 1",
        "fairwind_advisor_samples_refused_total{reason=\"negative\"} 1",
        "fairwind_advisor_samples_refused_total{reason=\"future\"} 1",
        "fairwind_advisor_samples_refused_total{reason=\"not_a_number\"} 2",
    ] {
        assert!(
            metrics.lines().any(|there| there == line),
            "{line}: {metrics}"
        );
    }
}

#[test]
fn a_clock_that_is_set_back_keeps_no_new_sample_out() {
    let state = tempfile::tempdir().unwrap();
    let at = |start: &str| {
        Running::with(|options| {
            options.state = Some(state.path().to_owned());
            options.clock = fairwind_advisor::Clock::new(Some(start.parse().unwrap()), 1.0);
        })
    };
    let record = |service: &Running, time: &str, available_mbps: f64| {
        let samples = json!([sample(time, available_mbps)]);
        let answer: Value = service
            .client()
            .post("/v1/paths/p/samples", &samples)
            .unwrap();
        assert_eq!(answer["accepted"], 1, "{answer}");
        let advice = service.client().advice("192.0.2.7", None).unwrap().advice;
        let expected = format!("has {available_mbps:.1} Mbit/s available");
        assert!(advice.reason.contains(&expected), "{}", advice.reason);
    };
    let ahead = at("2027-03-02T14:00:00Z");
    ahead.put_path("p", &["192.0.2.7"], json!({"threshold_mbps": 42.0}));
    record(&ahead, "2027-03-02T14:00:00Z", 10.0);
    drop(ahead);
    let right = at("2026-03-02T14:00:00Z");
    record(&right, "2026-03-02T13:50:00Z", 20.0);
    record(&right, "2026-03-02T13:55:00Z", 30.0);
    drop(right);
    // An hour later, the newest test is too old.
    let later = at("2026-03-02T15:00:00Z");
    let advice = later.client().advice("192.0.2.7", None).unwrap().advice;
    assert!(
        advice.reason.contains("the newest test of path is 39"),
        "{}",
        advice.reason
    );
}

/// Whether an ICMP socket can be opened in either way.
fn may_ping() -> Result<(), &'static str> {
    use socket2::{Domain, Protocol, Socket, Type};
    let mut kinds = [Type::DGRAM, Type::RAW].into_iter();
    match kinds.any(|kind| Socket::new(Domain::IPV4, kind, Some(Protocol::ICMPV4)).is_ok()) {
        true => Ok(()),
        false => Err("ICMP echo is needed: ping_group_range or CAP_NET_RAW"),
    }
}

#[test]
fn paths_are_asked_for_echoes_at_their_interval() {
    if !permitted(may_ping()) {
        return;
    }
    let service = Running::with(|options| {
        let path = json!({"name": "here", "hosts": ["127.0.0.1"], "ping": {"interval_s": 1}});
        options.config.paths = vec![serde_json::from_value(path).unwrap()];
    });
    let advised = || service.client().advice("127.0.0.1", None).unwrap().advice;
    let mut rtt_ms = None;
    wait_until("this machine answers", || {
        rtt_ms = advised().rtt_ms;
        rtt_ms.is_some()
    });
    let rtt_ms = rtt_ms.unwrap();
    assert!((0.0..3_000.0).contains(&rtt_ms), "{rtt_ms}");
    let metrics = service.metrics();
    assert!(metrics.contains("outcome=\"answered\""), "{metrics}");
}

#[test]
fn history_is_what_was_accepted() {
    let service = Running::start();
    let client = service.client();
    service.put_path("p", &["192.0.2.7"], json!({"hops": ["a", "b"]}));
    let samples: Vec<Value> = (0..1_000)
        .map(|n| {
            let second: jiff::Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
            let time = second + jiff::SignedDuration::from_secs(60 * n);
            json!({"hop": if n % 2 == 0 { "a" } else { "b" }, "time": time, "available_mbps": n})
        })
        .collect();
    let answer: Value = client.post("/v1/paths/p/samples", &samples).unwrap();
    assert_eq!(answer["accepted"], 1_000);
    let span = "?from=2026-03-01T10:00:00Z&to=2026-03-01T10:04:00Z";
    let history: Value = client.get(&format!("/v1/paths/p/history{span}")).unwrap();
    let expected = json!({"path": "p", "hops": [
        {"name": "a", "samples": [sample("2026-03-01T10:00:00Z", 600.0), sample("2026-03-01T10:02:00Z", 602.0)]},
        {"name": "b", "samples": [sample("2026-03-01T10:01:00Z", 601.0), sample("2026-03-01T10:03:00Z", 603.0)]},
    ]});
    assert_eq!(history, expected);
    let all: Value = client.get("/v1/paths/p/history").unwrap();
    assert_eq!(all["hops"][1]["samples"].as_array().unwrap().len(), 500);
}

#[test]
fn paths_are_declared_listed_changed_and_removed() {
    let service = Running::start();
    let at = |name: &str| format!("{}/v1/paths/{name}", service.url);
    let status = |arguments: &[&str]| {
        let mut all = vec!["-o", "/dev/null", "-w", "%{http_code}"];
        all.extend(arguments);
        curl(&all)
    };
    let json = "content-type: application/json";
    let put = |name: &str, body: &str| status(&["-X", "PUT", "-H", json, "-d", body, &at(name)]);
    assert_eq!(
        put("a", r#"{"hosts": ["192.0.2.0/24"], "threshold_mbps": 42}"#),
        "201"
    );
    assert_eq!(
        put("a", r#"{"hosts": ["192.0.2.0/24"], "threshold_mbps": 27}"#),
        "200"
    );
    assert_eq!(put("b", r#"{"hosts": ["192.0.2.0/24"]}"#), "409");
    assert_eq!(put("b", r#"{"hosts": ["192.0.2.0/33"]}"#), "422");
    assert_eq!(put("b", r#"{"hosts": [], "window_s": 0}"#), "400");
    assert_eq!(put("b", "{"), "400");
    let listed: Value =
        serde_json::from_str(&curl(&[&format!("{}/v1/paths", service.url)])).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["threshold_mbps"], 27.0);
    assert_eq!(status(&["-X", "DELETE", &at("a")]), "204");
    assert_eq!(status(&["-X", "DELETE", &at("a")]), "404");
    assert_eq!(status(&[&at("a")]), "404");
}

#[test]
fn a_removed_path_leaves_no_history() {
    let service = Running::start();
    let client = service.client();
    for accepted in [1, 1] {
        service.put_path("p", &["192.0.2.7"], json!({}));
        let samples = json!([sample("2026-03-02T13:00:00Z", 10.0)]);
        let answer: Value = client.post("/v1/paths/p/samples", &samples).unwrap();
        assert_eq!(answer["accepted"], accepted);
        let _: Value = client.delete("/v1/paths/p").unwrap();
    }
}

#[test]
fn our_own_transfers_tell_of_their_path() {
    let service = Running::start();
    let client = service.client();
    service.put_path("p", &["192.0.2.7"], json!({}));
    let transfer = |host: &str| TransferReport {
        host: host.to_owned(),
        bytes: 100_000_000,
        seconds: 10.0,
        retransmits: Some(3),
        rtt_ms: Some(50.0),
        limited: Some(Limited {
            network_s: 9.0,
            receiver_s: 0.5,
            sender_s: 0.5,
        }),
        direction: Direction::Sent,
    };
    client.report(&transfer("192.0.2.7")).unwrap();
    let error = client.report(&transfer("192.0.2.8")).unwrap_err();
    assert!(
        matches!(error, ClientError::Refused { status: 404, .. }),
        "{error}"
    );
    let advice = client.advice("192.0.2.7", None).unwrap().advice;
    assert_eq!(advice.rtt_ms, Some(50.0));
    let history: Value = client.get("/v1/paths/p/history").unwrap();
    assert_eq!(history["hops"][0]["name"], "transfers");
    assert_eq!(history["hops"][0]["samples"][0]["available_mbps"], 80.0);
}

#[test]
fn the_waiting_time_is_that_of_the_asker() {
    let service = Running::with(|options| {
        options.clock =
            fairwind_advisor::Clock::new(Some(crate::support::START.parse().unwrap()), 60.0);
    });
    service.put_path("p", &["192.0.2.7"], json!({"longest_interval_s": 1800}));
    let answer = service.client().advice("192.0.2.7", None).unwrap();
    let wait = answer.ask_again_after();
    assert!(
        (Duration::from_secs(29)..=Duration::from_secs(30)).contains(&wait),
        "{wait:?}"
    );
}

#[test]
fn a_log_of_transfers_makes_paths() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("xferlog");
    std::fs::write(&log, "").unwrap();
    let service = Running::with(|options| options.config.xferlog = Some(log.clone()));
    becomes_a_path(&service, &log, "192.0.2.77");
}

/// Logs a transfer of this host until it is a path: the log is read from the end that it has when the service first
/// opens it.
fn becomes_a_path(service: &Running, log: &Path, host: &str) {
    wait_until("the host is a path", || {
        let mut file = std::fs::File::options().append(true).open(log).unwrap();
        file.write_all(logged(host).as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let path = service.client().advice(host, None).unwrap().path;
        path.as_deref() == Some(host)
    });
}

/// A transfer's line of a log.
fn logged(host: &str) -> String {
    format!("Mon Mar  2 14:00:00 2026 12 {host} 16000000 /pub/f b _ o a ftp ftp 0 * c\n")
}

#[test]
fn the_document_in_docs_is_that_of_the_code() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/openapi.json"
    );
    let written: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let service = Running::start();
    let served: Value = service.client().get("/openapi.json").unwrap();
    assert_eq!(
        served, written,
        "write it anew: fairwind advisor openapi > docs/reference/openapi.json"
    );
    assert_eq!(served, json!(fairwind_advisor::http::document()));
}

#[test]
fn operations_in_the_document_have_ids_of_their_own_and_say_that_a_token_may_be_needed() {
    let document = json!(fairwind_advisor::http::document());
    let paths = document["paths"].as_object().unwrap().values();
    let operations: Vec<&Value> = paths
        .flat_map(|path| path.as_object().unwrap().values())
        .collect();
    let ids: BTreeSet<&str> = operations
        .iter()
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), operations.len(), "{ids:?}");
    let scheme = &document["components"]["securitySchemes"]["token"];
    assert_eq!(scheme["type"], "http");
    assert_eq!(scheme["scheme"], "bearer");
    // A token is optional in the document, since a service without tokens needs none.
    assert_eq!(document["security"], json!([{}, {"token": []}]));
    let health = &document["paths"]["/healthz"]["get"];
    assert_eq!(health["security"], json!([{}]));
}

#[test]
fn huge_and_broken_bodies_are_refused_and_the_service_stays_up() {
    let service = Running::start();
    service.put_path("p", &["192.0.2.7"], json!({}));
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("huge");
    std::fs::write(&file, vec![b'['; 20 << 20]).unwrap();
    let body = format!("@{}", file.display());
    let url = format!("{}/v1/paths/p/samples", service.url);
    for (body, expected) in [
        (body.as_str(), "413"),
        ("[[[[", "422"),
        ("[", "400"),
        ("{}", "422"),
    ] {
        let status = curl(&[
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-H",
            "content-type: application/json",
            "-H",
            "expect:",
            "--data-binary",
            body,
            &url,
        ]);
        assert_eq!(status, expected, "{}", &body[..body.len().min(40)]);
    }
    for (method, at, expected) in [
        ("PATCH", "/v1/paths/p/samples", "405"),
        ("BREW", "/v1/advice?host=192.0.2.7", "405"),
        ("GET", "/v2/advice?host=192.0.2.7", "404"),
        ("GET", "/v1/advice", "400"),
        ("GET", "/v1/advice?host=192.0.2.7&bytes=-1", "400"),
        ("GET", "/v1/advice?host=192.0.2.7&bytes=NaN", "400"),
    ] {
        let url = format!("{}{at}", service.url);
        let asked = ["-o", "/dev/null", "-w", "%{http_code}", "-X", method, &url];
        assert_eq!(curl(&asked), expected, "{method} {at}");
    }
    assert_eq!(curl(&[&format!("{}/healthz", service.url)]), "ok\n");
}

#[test]
fn what_was_written_to_the_log_while_nobody_looked_makes_paths_too() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("xferlog");
    std::fs::write(&log, logged("192.0.2.77")).unwrap();
    let start = || {
        Running::with(|options| {
            options.state = Some(place.path().join("state"));
            options.config.xferlog = Some(log.clone());
        })
    };
    let service = start();
    // Once a second host is a path, the place behind the first one is kept.
    for host in ["192.0.2.81", "192.0.2.82"] {
        becomes_a_path(&service, &log, host);
    }
    drop(service);
    let mut file = std::fs::File::options().append(true).open(&log).unwrap();
    file.write_all(logged("192.0.2.78").as_bytes()).unwrap();
    let service = start();
    let found = |host: &str| service.client().advice(host, None).unwrap().path;
    wait_until("the host is a path", || found("192.0.2.78").is_some());
    assert_eq!(found("192.0.2.78").as_deref(), Some("192.0.2.78"));
    assert_eq!(found("192.0.2.77"), None);
}
