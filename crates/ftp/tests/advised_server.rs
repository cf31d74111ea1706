//! A server that follows an advisor, as seen by its clients and in its log.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex};
use std::time::Instant;

use crate::common::{Client, Running, noise};
use fairwind_testing::advisor::{Reply, TestAdvisor, advice};
use fairwind_testing::{permitted, root, wait_until};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Log lines of level warning and above.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Captures the log of this process.
static LOG: LazyLock<()> =
    LazyLock::new(|| tracing::subscriber::set_global_default(Log).expect("nobody else does"));

struct Log;

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        WARNINGS.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{value:?}").unwrap();
    }
}

fn warnings(about: &str) -> Vec<String> {
    let warnings = WARNINGS.lock().unwrap();
    let about = warnings.iter().filter(|line| line.contains(about));
    about.cloned().collect()
}

fn events(server: &Running, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(server.path("advice.log")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
    events
        .filter(|event: &Value| event["event"] == kind)
        .collect()
}

/// A server that follows the advisor at this URL; its journal of advice lies outside the served directory.
fn following(url: &str) -> Running {
    Running::with(|config| {
        let outside = config.root.clone();
        let inside = outside.join("served");
        std::fs::create_dir(&inside).unwrap();
        config.root = inside;
        config.advisor = Some(url.to_owned());
        config.advice_log = Some(outside.join("advice.log"));
    })
}

fn served(server: &Running, name: &str, bytes: &[u8]) {
    std::fs::write(server.path("served").join(name), bytes).unwrap();
}

#[test]
fn a_wrong_advisor_neither_starves_a_download_nor_takes_all_memory() {
    LazyLock::force(&LOG);
    let wrong = json!({
        "pacing_mbps": 0.1, "available_mbps": null, "send_buffer_bytes": 1 << 30,
        "reason": "because the test is wrong",
    });
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(3600.0, wrong))]);
    let server = following(&advisor.url());
    // More than the buffers hold: the transfer lasts until its client reads or leaves.
    served(&server, "x", &noise(32_000_000));
    let mut client = Client::anonymous(&server);
    let data = client.passive();
    client.expect("RETR x", 150);
    wait_until("told", || events(&server, "bounded").len() >= 2);
    drop(data);
    let bounded = events(&server, "bounded");
    let told: Vec<_> = bounded[..2]
        .iter()
        .map(|event| (&event["what"], &event["advised"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("pacing"), &json!("0.1")),
            (&json!("send_buffer"), &json!("1073741824"))
        ]
    );
    for event in &bounded {
        assert!(event["reason"].is_string() && event["to"].is_string());
    }
    let peer = bounded[0]["peer"].as_str().unwrap();
    assert!(!warnings(&format!("{peer}: pacing 0.1 is advised and bounded to ")).is_empty());
}

#[test]
fn the_control_of_a_download_changes_while_it_runs() {
    if !permitted(root()) {
        return;
    }
    let control =
        |name: &str, again| Reply::Advice(advice(again, json!({ "congestion_control": name })));
    let advisor = TestAdvisor::answering(vec![
        control("reno", 0.1),
        control("cubic", 0.1),
        control("cubic", 3600.0),
    ]);
    let server = following(&advisor.url());
    // More than the buffers hold: the transfer lasts until its client reads.
    let content = noise(32_000_000);
    served(&server, "big", &content);
    let mut client = Client::anonymous(&server);
    let mut data = client.passive();
    client.expect("RETR big", 150);
    // The third question is sent after the second advice has been applied.
    wait_until("followed", || advisor.asked().len() == 3);
    let mut received = Vec::new();
    data.read_to_end(&mut received).unwrap();
    assert!(received == content);
    client.reply();

    wait_until("the result is told", || advisor.results().len() == 1);
    let result = &advisor.results()[0];
    assert_eq!(result["direction"], "sent");
    assert_eq!(result["host"], "127.0.0.1");
    let asked = advisor.asked();
    // The bytes left when it asks: all of them, unless the question is late.
    let left = asked[0].strip_prefix("/v1/advice?host=127.0.0.1&bytes=");
    let left: u64 = left.unwrap_or_else(|| panic!("{asked:?}")).parse().unwrap();
    assert!((1..=32_000_000).contains(&left), "{left}");
    let changes = events(&server, "change");
    let last = changes.last().unwrap();
    assert_eq!(
        (&last["what"], &last["to"], &last["reason"]),
        (
            &json!("congestion_control"),
            &json!("cubic"),
            &json!("because the test says so")
        )
    );
    let bytes = last["bytes"].as_u64().unwrap();
    assert!((1..32_000_000).contains(&bytes), "in its midst: {bytes}");
    assert_eq!(events(&server, "advice").len(), 3);
}

#[test]
fn an_advisor_that_is_gone_is_one_line_of_log_for_all_transfers() {
    LazyLock::force(&LOG);
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let server = following(&format!("http://{nobody}"));
    let content = noise(300_000);
    served(&server, "file", &content);
    let mut client = Client::anonymous(&server);
    for _ in 0..5 {
        assert!(client.fetch("RETR file") == content);
    }
    wait_until("told", || !warnings(&nobody).is_empty());
    let lines = warnings(&nobody);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("no advice, transfers continue with the kernel's defaults: http://"),
        "{lines:?}"
    );
}

#[test]
fn nocc_without_leave_is_a_line_of_log_that_names_the_option() {
    LazyLock::force(&LOG);
    let off = json!({ "mode": "no-congestion-control", "congestion_control": "nocc" });
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(3600.0, off))]);
    let server = following(&advisor.url());
    // More than the buffers hold: the transfer lasts until its client reads.
    served(&server, "file", &vec![0; 64 << 20]);
    let mut client = Client::anonymous(&server);
    let unread = client.passive();
    client.expect("RETR file", 150);
    wait_until("told", || !events(&server, "refused").is_empty());
    drop(unread);
    let refused = &events(&server, "refused")[0];
    assert_eq!(refused["fix"], "--allow-nocc 127.0.0.1/32");
    let lines = warnings("nocc is advised");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].ends_with(
        "congestion control nocc is advised, but the path to 127.0.0.1 is not declared as own \
         here: --allow-nocc 127.0.0.1/32"
    ));
}

#[test]
fn what_every_download_provokes_is_in_the_journal_and_a_few_lines_of_log() {
    LazyLock::force(&LOG);
    // Values that no other test has, because the log is that of all tests.
    let wrong = json!({
        "mode": "no-congestion-control", "congestion_control": "nocc_flooding",
        "pacing_mbps": 0.2, "available_mbps": null,
    });
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(3600.0, wrong))]);
    let server = following(&advisor.url());
    let huge = File::create(server.path("served/huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let mut client = Client::anonymous(&server);
    let begin = Instant::now();
    for download in 1..=100 {
        let unread = client.passive();
        client.expect("RETR huge", 150);
        wait_until("told", || events(&server, "refused").len() == download);
        drop(unread);
        assert_eq!(client.reply().code, 426);
    }
    assert!(events(&server, "bounded").len() >= 100);
    let most = 10 + begin.elapsed().as_secs() as usize / 10;
    for what in ["nocc_flooding is advised", "pacing 0.2 is advised"] {
        let lines = warnings(what).len();
        assert!((1..=most).contains(&lines), "{what}: {lines} lines");
    }
}
