//! The thesis' calls, made with Python's xmlrpc.client, and malicious XML.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{Running, python};
use serde_json::{Value, json};

fn service() -> Running {
    let service = Running::start();
    let path = json!({"hops": ["r1"], "threshold_mbps": 42.0, "own": true, "capacity_mbps": 100.0});
    service.put_path("argonne", &["192.0.2.0/24"], path);
    let samples = json!([{"time": "2026-03-02T13:59:00Z", "available_mbps": 50.0, "rtt_ms": 50.0, "source": "test"}]);
    let _: Value = service
        .client()
        .post("/v1/paths/argonne/samples", &samples)
        .unwrap();
    service
}

#[test]
fn python_gets_advice_as_in_the_thesis() {
    let service = service();
    let program = r#"
import sys, xmlrpc.client
for at in ("/RPC2", "/"):
    server = xmlrpc.client.ServerProxy(sys.argv[1] + at)
    print(server.EnableGetBufferSize("192.0.2.7"))
    info = server.EnableGetNetInfo("192.0.2.7")
    print(info["path"], info["rtt_ms"], info["rtt_source"], info["hops"][0]["name"],
          info["hops"][0]["available_mbps"], info["hops"][0]["time"])
    for size in (1000000, 16e9, "16000000000"):
        advice = server.EnableGetAdvice("192.0.2.7", size)
        print(advice["congestion_control"], advice["control"], advice["rtt_ms"],
              type(advice["next_advice"]).__name__, advice["ask_again_after_s"] > 0)
"#;
    let printed = python(program, &service.url);
    let once = "625000\nargonne 50.0 test r1 50.0 20260302T13:59:00\n\
                False nocc 50.0 DateTime True\nFalse nocc 50.0 DateTime True\nFalse nocc 50.0 DateTime True\n";
    assert_eq!(printed, format!("{once}{once}"));
}

/// The thesis' input is whether there is congestion control; the name of the control says the rest.
#[test]
fn python_follows_a_path_in_the_background_without_knowing_the_mode() {
    let service = service();
    service.put_path("far", &["198.51.100.0/24"], json!({"mode": "background"}));
    let program = r#"
import sys, xmlrpc.client
server = xmlrpc.client.ServerProxy(sys.argv[1] + "/RPC2")
advice = server.EnableGetAdvice("198.51.100.7", 1000000)
print(advice["congestion_control"], advice["control"], "pacing_mbps" in advice)
"#;
    assert_eq!(python(program, &service.url), "True fairwind False\n");
}

#[test]
fn python_sees_faults() {
    let service = service();
    let program = r#"
import sys, xmlrpc.client
server = xmlrpc.client.ServerProxy(sys.argv[1] + "/RPC2")
for call in (lambda: server.NoSuchMethod(), lambda: server.EnableGetBufferSize(),
             lambda: server.EnableGetAdvice("192.0.2.7", -1),
             lambda: server.EnableGetAdvice("192.0.2.7", float("nan")),
             lambda: server.EnableGetAdvice("192.0.2.7", float("inf")),
             lambda: server.EnableGetAdvice("192.0.2.7", "-5"), lambda: server.EnableGetBufferSize(7),
             lambda: server.EnableGetNetInfo("198.51.100.1"), lambda: server.EnableGetAdvice("a b", 1)):
    try:
        print(call())
    except xmlrpc.client.Fault as fault:
        print(fault.faultCode, fault.faultString)
print(server.EnableGetAdvice("198.51.100.1", 1)["congestion_control"])
"#;
    let expected = "404 Unknown method.\n-32602 the host is needed\n\
        -32602 the remaining bytes are a number that is not negative\n\
        -32602 the remaining bytes are a number that is not negative\n\
        -32602 the remaining bytes are a number that is not negative\n\
        -32602 the remaining bytes are a number that is not negative\n\
        -32602 the host is an address or a name, as text\n\
        -32602 no path leads to 198.51.100.1\n\
        -32602 host: \"a b\" is neither an address nor a name\nTrue\n";
    assert_eq!(python(program, &service.url), expected);
}

/// Posts bytes and returns the answer's body.
fn post(service: &Running, body: &[u8]) -> String {
    let address = service.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let length = body.len();
    let head = format!(
        "POST /RPC2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The service may answer and close before it has read everything.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn xml_that_means_harm_is_answered_by_a_fault() {
    let service = service();
    let mut bomb = String::from("<?xml version=\"1.0\"?><!DOCTYPE lolz [<!ENTITY a0 \"ha\">");
    for n in 1..20 {
        bomb += &format!("<!ENTITY a{n} \"{}\">", format!("&a{};", n - 1).repeat(10));
    }
    bomb += "]><methodCall><methodName>&a19;</methodName></methodCall>";
    let value = "<value><array><data>".repeat(3_000);
    let deep =
        format!("<methodCall><methodName>EnableGetBufferSize</methodName><params><param>{value}");
    for body in [
        bomb.as_bytes(),
        deep.as_bytes(),
        b"",
        b"no xml at all",
        b"<methodCall><methodName>EnableGetBufferSize</methodName>",
        b"<methodCall></methodCall>",
        b"<methodCall><methodName>f</methodName><params><param><value><int>x</int></value></param></params></methodCall>",
        b"\xff\xfe\x00<",
        &[b' '; 65_537],
    ] {
        let answer = post(&service, body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert!(answer.contains("<fault>"), "{shown}: {answer}");
    }
    let metrics = service.metrics();
    assert!(
        metrics.contains("fairwind_advisor_xml_rpc_faults_total 9"),
        "{metrics}"
    );
}

#[test]
fn a_huge_body_costs_no_memory() {
    let service = service();
    let before = resident_kib();
    for _ in 0..4 {
        // 64 MiB each.
        post(&service, &vec![b'<'; 64 << 20]);
    }
    let grown = resident_kib().saturating_sub(before);
    // The body itself is in this process, and one of them may not have been freed yet.
    assert!(grown < 100 << 10, "{grown} KiB");
    assert_eq!(
        crate::support::curl(&[&format!("{}/healthz", service.url)]),
        "ok\n"
    );
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}
