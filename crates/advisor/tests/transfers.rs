//! What reported transfers say about their path, and what they do not.

use fairwind_advisor::Clock;
use serde_json::{Value, json};

use crate::support::{Running, START, python};

/// A sender's report of a transfer of 8 s, with these fields changed; null removes a field.
fn report(changes: Value) -> Value {
    let mut report = json!({
        "host": "192.0.2.7", "bytes": 100_000_000, "seconds": 8.0, "direction": "sent",
        "limited": {"network_s": 7.0, "receiver_s": 0.5, "sender_s": 0.5},
    });
    for (name, value) in changes.as_object().unwrap() {
        report[name] = value.clone();
    }
    let fields = report.as_object_mut().unwrap();
    fields.retain(|_, value| !value.is_null());
    report
}

fn limited(network_s: f64, receiver_s: f64, sender_s: f64) -> Value {
    json!({"limited": {"network_s": network_s, "receiver_s": receiver_s, "sender_s": sender_s}})
}

/// The samples of the hop `transfers`.
fn tests(service: &Running) -> Vec<f64> {
    let history: Value = service.client().get("/v1/paths/p/history").unwrap();
    let hops = history["hops"].as_array().unwrap();
    let transfers = hops.iter().find(|hop| hop["name"] == "transfers");
    let samples = transfers.map_or(&[][..], |hop| hop["samples"].as_array().unwrap());
    let available = samples.iter().map(|sample| &sample["available_mbps"]);
    available.map(|mbps| mbps.as_f64().unwrap()).collect()
}

#[test]
fn a_transfer_that_the_network_did_not_limit_is_no_test_of_the_path() {
    let service = Running::start();
    service.put_path("p", &["192.0.2.7"], json!({}));
    for (changes, why) in [
        (json!({"bytes": 9, "seconds": 5.0}), "it moved 9 bytes"),
        (json!({"seconds": 1.0}), "it took 1.000 s"),
        (json!({"rtt_ms": 500.0}), "20 round trips"),
        (json!({"limited": null}), "not reported"),
        (
            limited(1.0, 0.0, 7.0),
            "limited it for 12.5 % of its time: 80 % are needed",
        ),
        // 79.975 %.
        (limited(6.398, 1.602, 0.0), "for 79.9 % of its time"),
    ] {
        let answer: Value = service
            .client()
            .post("/v1/transfers", &report(changes))
            .unwrap();
        assert_eq!(answer["path"], "p");
        let said = answer["no_test"].as_str().unwrap();
        assert!(said.contains(why), "{said}");
        assert_eq!(tests(&service), [0.0; 0], "{why}");
    }
    let answer: Value = service
        .client()
        .post("/v1/transfers", &report(json!({})))
        .unwrap();
    assert_eq!(answer, json!({"path": "p", "test_mbps": 100.0}));
    assert_eq!(tests(&service), [100.0]);
}

#[test]
fn what_limited_the_newest_transfer_is_told_over_xmlrpc() {
    let service = Running::start();
    service.put_path("p", &["192.0.2.7"], json!({}));
    let program = "import sys, xmlrpc.client\n\
                   server = xmlrpc.client.ServerProxy(sys.argv[1])\n\
                   info = server.EnableGetNetInfo('192.0.2.7')\n\
                   names = ('mbps', 'network_s', 'receiver_s', 'sender_s')\n\
                   print(*(info.get('transfer_' + name) for name in names))\n";
    for (changes, printed) in [
        (json!({"limited": null}), "100.0 None None None\n"),
        (json!({}), "100.0 7.0 0.5 0.5\n"),
    ] {
        let _: Value = service
            .client()
            .post("/v1/transfers", &report(changes))
            .unwrap();
        assert_eq!(python(program, &service.url), printed);
    }
}

#[test]
fn a_report_that_makes_no_sense_is_refused() {
    let service = Running::start();
    service.put_path("p", &["192.0.2.7"], json!({}));
    for (changes, named) in [
        (limited(-1.0, 0.0, 0.0), "limited"),
        (json!({"limited": {"network_s": 1.0}}), "receiver_s"),
        (json!({"limited": 7}), "limited"),
    ] {
        let error = service
            .client()
            .post::<Value>("/v1/transfers", &report(changes));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn what_was_refused_is_not_told_as_a_test() {
    // On a clock that practically stands still, the second transfer ends at the same time as the first.
    let service = Running::with(|options| {
        options.clock = Clock::new(Some(START.parse().unwrap()), 1e-12);
    });
    service.put_path("p", &["192.0.2.7"], json!({}));
    let answer = || -> Value {
        let answer = service.client().post("/v1/transfers", &report(json!({})));
        answer.unwrap()
    };
    assert_eq!(answer(), json!({"path": "p", "test_mbps": 100.0}));
    let second = answer();
    assert_eq!(second["test_mbps"], Value::Null);
    let why = second["no_test"].as_str().unwrap();
    assert!(
        why.contains("a test of this time is there already"),
        "{why}"
    );
    assert_eq!(tests(&service), [100.0]);
}
