//! `fairwind get --queue`: unattended work.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use fairwind_testing::{free_address, permitted, wait_until};
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
fn a_server_that_is_not_there_yet_is_waited_for() {
    let bench = Bench::new();
    let address = free_address();
    let queue = format!("ftp://{address}/a\n");
    fs::write(bench.here.path().join("queue"), queue).unwrap();
    let output = bench.run(&["get", "--queue", "queue", "--retries", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    assert!(said.contains("trying again in 1s (1 of 1)"), "{said}");
    assert!(said.contains("error: ftp://"), "{said}");
    // Outside a queue the name may be wrong.
    let output = bench.run(&["get", &format!("ftp://{address}/a"), "--retries", "1"]);
    assert!(!err(&output).contains("trying again"), "{}", err(&output));
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

/// What it is, what is left of the log, and the jobs that are carried out again.
type Damage<'a> = (&'a str, Option<Vec<u8>>, &'a [&'a str]);

/// What a file system may leave of a file's end after a loss of power: records cut or made zeros, or the file without
/// any, or without its name.
#[test]
fn a_log_that_a_loss_of_power_damaged_costs_only_the_jobs_whose_end_it_lost() {
    let bench = Bench::new();
    let jobs = ["first", "\u{e4}"];
    for job in jobs {
        bench.write(job, job.as_bytes());
    }
    bench.queue(&["ftp://{host}/first", "ftp://{host}/\u{e4}"]);
    bench.says(&["get", "--queue", "queue"]);
    let log = read(&bench.here, "queue.log");
    let first = log.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let character = log.iter().position(|byte| *byte == 0xc3).unwrap() + 1;
    let (kept, zeros) = (&log[..first], |count: usize| vec![0; count]);
    let cases: [Damage<'_>; 10] = [
        ("whole", Some(log.clone()), &[]),
        ("without its end", Some(log[..log.len() - 1].to_vec()), &[]),
        ("cut", Some(log[..log.len() - 5].to_vec()), &jobs[1..]),
        (
            "cut within a character",
            Some(log[..character].to_vec()),
            &jobs[1..],
        ),
        (
            "zeros",
            Some([kept, &zeros(log.len() - first)].concat()),
            &jobs[1..],
        ),
        (
            "zeros behind it",
            Some([&log[..], &zeros(4_096)].concat()),
            &[],
        ),
        (
            "half of it zeros",
            Some([&log[..character], &zeros(100)].concat()),
            &jobs[1..],
        ),
        (
            "another file's bytes",
            Some([kept, &[0xff; 300]].concat()),
            &jobs[1..],
        ),
        ("empty", Some(Vec::new()), &jobs),
        ("not there", None, &jobs),
    ];
    let at = |name: &str| bench.here.path().join(name);
    for (damage, left, again) in cases {
        match left {
            Some(left) => fs::write(at("queue.log"), left).unwrap(),
            None => fs::remove_file(at("queue.log")).unwrap(),
        }
        for job in jobs {
            let _ = fs::remove_file(at(job));
        }
        let told = bench.json(&["get", "--queue", "queue", "--json"]);
        assert_eq!(told["files"], again.len(), "{damage}: {told}");
        for job in jobs {
            assert_eq!(at(job).exists(), again.contains(&job), "{damage}: {job}");
        }
        for job in again {
            assert_eq!(read(&bench.here, job), job.as_bytes(), "{damage}");
        }
        let told = bench.json(&["get", "--queue", "queue", "--json"]);
        assert_eq!(told["files"], 0, "{damage}: {told}");
    }
}

#[test]
fn a_queue_whose_end_a_loss_of_power_damaged_loses_no_other_job() {
    let bench = Bench::new();
    let jobs = ["a", "b", "c"];
    for job in jobs {
        bench.write(job, job.as_bytes());
    }
    let at = |name: &str| bench.here.path().join(name);
    let line = |job: &str| format!("ftp://{}/{job}\n", bench.host).into_bytes();
    let cut = line("\u{e4}");
    let within = cut.iter().position(|byte| *byte == 0xc3).unwrap() + 1;
    for end in [&cut[..within], &cut[..10], &[0; 4_096]] {
        for name in ["a", "b", "c", "queue.log"] {
            let _ = fs::remove_file(at(name));
        }
        fs::write(at("queue"), [&line("a")[..], &line("b"), end].concat()).unwrap();
        let told = bench.json(&["get", "--queue", "queue", "--json"]);
        assert_eq!(told["files"], 2, "{end:?}: {told}");
        // Whoever appends goes on behind the damage.
        let damaged = fs::read(at("queue")).unwrap();
        fs::write(at("queue"), [&damaged[..], b"\n", &line("c")].concat()).unwrap();
        let output = bench.run(&["get", "--queue", "queue"]);
        let is_named = end.iter().any(|byte| *byte != 0);
        assert_eq!(
            output.status.code(),
            Some(i32::from(is_named)),
            "{}",
            err(&output)
        );
        for job in jobs {
            assert_eq!(read(&bench.here, job), job.as_bytes());
        }
        let failed = bench
            .noted()
            .into_iter()
            .filter(|(state, _)| state == "failed");
        assert_eq!(failed.count(), usize::from(is_named), "{end:?}");
    }
    // Nothing but its name, or zeros: no job, and those that come are done.
    for left in [&b""[..], &[0; 100]] {
        fs::remove_file(at("c")).unwrap();
        fs::write(at("queue"), left).unwrap();
        assert_eq!(
            bench.json(&["get", "--queue", "queue", "--json"])["files"],
            0
        );
        fs::write(at("queue"), [left, &line("c")].concat()).unwrap();
        assert_eq!(
            bench.json(&["get", "--queue", "queue", "--json"])["files"],
            1
        );
        assert_eq!(read(&bench.here, "c"), b"c");
    }
}

/// A partial file may be as long as it was, or longer, with bytes that never reached the disk.
#[test]
fn partial_files_that_a_loss_of_power_damaged_become_no_wrong_files() {
    let bench = Bench::new();
    let bytes: Vec<u8> = (0..3_000_000u32)
        .map(|number| (number % 251) as u8)
        .collect();
    bench.write("a", &bytes);
    bench.queue(&["ftp://{host}/a"]);
    let at = |name: &str| bench.here.path().join(name);
    let (half, mut lost) = (bytes.len() / 2, bytes.clone());
    lost[half - 100_000..].fill(0);
    let longer = [&bytes[..], &[0; 70_000]].concat();
    for (ranges, name) in [("1", ".a.part"), ("2", ".a.ranges")] {
        // Half a minute; what is noted beside the bytes is that of a download that was killed.
        let begin = || {
            let _ = fs::remove_file(at("queue.log"));
            let mut slow = bench.command(&["get", "--queue", "queue", "--limit", "800kbit/s"]);
            let slow = slow.args(["--ranges", ranges]).stdout(Stdio::null());
            let mut child = slow.spawn().unwrap();
            let record = bytes.len() as u64;
            wait_until("the file has begun", || {
                fs::metadata(at(name)).is_ok_and(|facts| match ranges {
                    "1" => facts.len() > 100_000,
                    _ => facts.len() > record && fs::read(at(name)).unwrap()[60_000] != 0,
                })
            });
            child.kill().unwrap();
            child.wait().unwrap();
            fs::read(at(name)).unwrap()
        };
        let mut left = begin();
        let cases: Vec<Vec<u8>> = match ranges {
            "1" => vec![
                lost[..half].to_vec(),
                vec![0; bytes.len()],
                lost.clone(),
                longer.clone(),
                [&bytes[..half], &[0xff; 512]].concat(),
                Vec::new(),
            ],
            _ => {
                let record = left.split_off(bytes.len());
                vec![
                    // Records of bytes that are not there, and bytes without a whole record.
                    [&vec![0; bytes.len()][..], &record].concat(),
                    [&left[..], &record[..record.len() - 3]].concat(),
                    [&left[..], &vec![0; record.len()]].concat(),
                    [&left[..], &record, &[0; 512]].concat(),
                    left[..half].to_vec(),
                    Vec::new(),
                ]
            }
        };
        for (case, left) in cases.iter().enumerate() {
            if case > 0 {
                begin();
            }
            // In place: the note of the origin stays.
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(at(name))
                .unwrap();
            file.write_all(left).unwrap();
            let told = bench.json(&["get", "--queue", "queue", "--json", "--ranges", ranges]);
            assert_eq!(told["verified"], 1, "{name} {case}: {told}");
            assert!(read(&bench.here, "a") == bytes, "{name} {case}");
            assert!(!at(name).exists(), "{name} {case}");
            fs::remove_file(at("a")).unwrap();
        }
        let _ = fs::remove_file(at("queue.log"));
    }
}

/// By the system calls of the command: each step is on the disk before the next one counts on it.
#[test]
fn a_file_is_on_the_disk_before_its_name_and_both_before_it_is_noted_as_done() {
    let tracer = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status();
    let there = tracer.is_ok_and(|status| status.success());
    if !permitted(
        there
            .then_some(())
            .ok_or("strace is missing, or must not trace"),
    ) {
        return;
    }
    let bench = Bench::new();
    bench.write("a", b"aaa");
    bench.queue(&["ftp://{host}/a data/"]);
    let get = bench.command(&["get", "--queue", "queue"]);
    let mut command = Command::new("strace");
    command
        .current_dir(bench.here.path())
        .args(["-f", "-y", "-o", "trace"]);
    command.args([
        "-e",
        "trace=fsync,fdatasync,rename,renameat,renameat2,mkdir,mkdirat,write",
    ]);
    command.arg(get.get_program()).args(get.get_args());
    assert!(command.output().unwrap().status.success());
    let trace = String::from_utf8(read(&bench.here, "trace")).unwrap();
    let here = bench.here.path().canonicalize().unwrap();
    let here = here.to_str().unwrap();
    let mut rest = trace.lines();
    for (call, what) in [
        // The name of the log, once it is there.
        ("sync(", format!("<{here}>")),
        ("mkdir", "data\"".into()),
        ("sync(", format!("<{here}>")),
        ("sync(", "/data/.a.part>".into()),
        ("rename", "data/a\"".into()),
        ("sync(", format!("<{here}/data>")),
        ("write(", "queue.log>, \"{\\\"".into()),
        ("sync(", "/queue.log>".into()),
    ] {
        let found = rest.any(|line| line.contains(call) && line.contains(&what));
        assert!(found, "{call} {what} in its place:\n{trace}");
    }
}
