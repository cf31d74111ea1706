//! Errors are answered with the same object, wherever they occur.

use serde_json::{Value, json};

use crate::support::{Running, curl};

#[test]
fn what_is_not_there_or_not_by_this_method_is_answered_like_every_other_error() {
    let service = Running::start();
    for (method, at, status, named) in [
        ("GET", "/v2/advice?host=192.0.2.7", "404", "/v2/advice"),
        ("GET", "/v1/paths/none", "404", "none"),
        ("DELETE", "/v1/advice", "405", "DELETE"),
        ("BREW", "/healthz", "405", "BREW"),
        ("GET", "/RPC2", "405", "GET"),
    ] {
        let url = format!("{}{at}", service.url);
        let answer = curl(&["-w", "\n%{http_code}\n%{content_type}", "-X", method, &url]);
        let mut lines = answer.rsplitn(3, '\n');
        assert_eq!(lines.next(), Some("application/json"), "{answer}");
        assert_eq!(lines.next(), Some(status), "{answer}");
        let body: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        let error = body["error"].as_str().unwrap();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn control_characters_in_names_are_refused() {
    let service = Running::start();
    service.put_path("p", &["192.0.2.7"], json!({}));
    let client = service.client();
    let sample =
        json!([{"hop": "r\u{1b}[2J", "time": "2026-03-02T13:00:00Z", "available_mbps": 1}]);
    let refused: Result<Value, _> = client.post("/v1/paths/p/samples", &sample);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("no control characters"), "{error}");
    assert!(!error.contains('\u{1b}'), "{error}");
    for host in ["192.0.2.7\n", "fe80::1%a\u{7}", "a\u{85}b"] {
        let error = client.advice(host, None).unwrap_err().to_string();
        assert!(error.contains("neither an address nor a name"), "{error}");
    }
}
