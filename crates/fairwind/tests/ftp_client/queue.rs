//! `fairwind get --queue`: unattended work.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use fairwind_testing::wait_until;
use serde_json::Value;

use super::{Bench, err, read};

impl Bench {
    fn queue(&self, lines: &[&str]) {
        let text: String = lines
            .iter()
            .map(|line| format!("{}\n", line.replace("{host}", &self.host)))
            .collect();
        let path = self.here.path().join("queue");
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// State and error of all that is noted.
    fn noted(&self) -> Vec<(String, Option<String>)> {
        let log = String::from_utf8(read(&self.here, "queue.log")).unwrap();
        let notes = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let word = |note: &Value, key: &str| note[key].as_str().map(str::to_owned);
        notes
            .map(|note| (word(&note, "state").unwrap(), word(&note, "error")))
            .collect()
    }
}

#[test]
fn jobs_are_done_once_and_those_that_fail_are_kept_with_their_reason() {
    let bench = Bench::new();
    bench.write("a", b"aaa");
    bench.write("b", b"bbb");
    bench.queue(&[
        "# two",
        "ftp://{host}/a",
        "ftp://{host}/none",
        "nonsense",
        "ftp://{host}/b data/",
    ]);
    let first = bench.run(&["get", "--queue", "queue", "--json"]);
    assert_eq!(first.status.code(), Some(1), "{}", err(&first));
    let told: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(told["files"], 2);
    assert_eq!(
        (read(&bench.here, "a"), read(&bench.here, "data/b")),
        (b"aaa".to_vec(), b"bbb".to_vec())
    );
    let states: Vec<String> = bench.noted().into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, ["done", "failed", "failed", "done"]);
    assert!(
        bench.noted()[1].1.as_ref().unwrap().contains("550"),
        "{:?}",
        bench.noted()
    );
    fs::remove_file(bench.here.path().join("a")).unwrap();
    bench.write("none", b"there now");
    let again = bench.run(&["get", "--queue", "queue"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(read(&bench.here, "none"), b"there now");
    assert!(!bench.here.path().join("a").exists());
    let missing = bench.run(&["get", "--queue", "other"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(!bench.here.path().join("other.log").exists());
}

#[test]
fn a_line_that_was_removed_and_added_again_is_a_new_job() {
    let bench = Bench::new();
    bench.write("a", b"one");
    bench.queue(&["ftp://{host}/a"]);
    bench.says(&["get", "--queue", "queue"]);
    fs::write(bench.here.path().join("queue"), "").unwrap();
    bench.says(&["get", "--queue", "queue"]);
    bench.write("a", b"another");
    bench.queue(&["ftp://{host}/a"]);
    bench.says(&["get", "--queue", "queue"]);
    assert_eq!(read(&bench.here, "a"), b"another");
    let states: Vec<String> = bench.noted().into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, ["done", "removed", "done"]);
}

#[test]
fn nothing_that_is_told_or_noted_of_jobs_has_their_passwords() {
    let bench = Bench::new();
    bench.write("a", b"aaa");
    bench.queue(&[
        "ftp://alice:secret@{host}/a",
        "ftp://alice:secret@{host}/none",
        "ftp://alice:secret@{host}:x/",
    ]);
    let at = |name: &str| bench.here.path().join(name);
    fs::set_permissions(at("queue"), fs::Permissions::from_mode(0o600)).unwrap();
    for _ in 0..2 {
        let output = bench.run(&["get", "--queue", "queue"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(!err(&output).contains("secret"), "{}", err(&output));
    }
    let states: Vec<String> = bench.noted().into_iter().map(|(state, _)| state).collect();
    assert_eq!(states, ["done", "failed", "failed", "failed", "failed"]);
    let log = fs::read_to_string(at("queue.log")).unwrap();
    assert!(!log.contains("secret"), "{log}");
    assert!(log.contains("ftp://alice@"), "{log}");
    let facts = fs::metadata(at("queue.log")).unwrap();
    assert_eq!(facts.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_killed_queue_goes_on_where_it_was_and_has_one_worker() {
    let bench = Bench::new();
    let bytes = vec![7; 3_000_000];
    for name in ["a", "b"] {
        bench.write(name, &bytes);
    }
    bench.queue(&["ftp://{host}/a", "ftp://{host}/b"]);
    // Half a minute for each file.
    let mut slow = bench.command(&["get", "--queue", "queue", "--limit", "800kbit/s"]);
    let mut first = slow.stdout(Stdio::null()).spawn().unwrap();
    let partial = bench.here.path().join(".a.part");
    wait_until("the first file has begun", || {
        fs::metadata(&partial).is_ok_and(|facts| facts.len() > 100_000)
    });
    let second = bench.run(&["get", "--queue", "queue"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        err(&second).contains("another process works on this queue"),
        "{}",
        err(&second)
    );
    first.kill().unwrap();
    first.wait().unwrap();
    let log = bench.here.path().join("queue.log");
    // As if the process had been killed while it noted something.
    fs::write(
        &log,
        [&fs::read(&log).unwrap()[..], b"{\"state\":\"do"].concat(),
    )
    .unwrap();
    let told = bench.json(&["get", "--queue", "queue", "--json"]);
    assert_eq!(told["files"], 2);
    assert!(
        told["transfers"][0]["resumed_at"].as_u64().unwrap() > 100_000,
        "{told}"
    );
    assert_eq!(
        (read(&bench.here, "a"), read(&bench.here, "b")),
        (bytes.clone(), bytes)
    );
}
