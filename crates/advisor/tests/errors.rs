//! What is wrong is answered by the same object, wherever it is noticed.

use serde_json::Value;

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
