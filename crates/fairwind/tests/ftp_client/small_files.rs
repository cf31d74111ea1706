//! Many small files, which share a data connection, as the commands bring them.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use fairwind_ftp::assembly::bind_server;
use fairwind_ftp::server::{Config, LogTarget, TlsConfig};
use fairwind_ftp::tls::Fingerprint;
use fairwind_testing::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::names::below;
use super::{Bench, err, read};

/// The largest that share a data connection.
const LARGEST: usize = 256 << 10;

/// A server that logs its commands.
struct Logged {
    bench: Bench,
    log: NamedTempFile,
}

impl Logged {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let log = NamedTempFile::new().unwrap();
        let bench = Bench::with_server(|mut config| {
            config.command_log = Some(LogTarget::File(log.path().to_owned()));
            change(&mut config);
            bind_server(config)
        });
        Self { bench, log }
    }

    /// How often this is in the log, when all sessions have ended.
    fn count(&self, what: &str) -> usize {
        let mut log = String::new();
        wait_until("the end of the last session", || {
            log = fs::read_to_string(self.log.path()).unwrap();
            let count = |what: &str| log.matches(what).count();
            count("\"event\":\"close\"") == count("\"event\":\"open\"")
        });
        log.matches(what).count()
    }
}

/// Some hundred files of all sizes; returns how many.
fn fill(there: &Path) -> usize {
    let bytes: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    fs::create_dir_all(there.join("tree/d")).unwrap();
    for number in 0..200 {
        let size = [0, 1, 700, 9_000][number % 4];
        let path = there.join(["tree", "tree/d"][number / 4 % 2]);
        fs::write(
            path.join(format!("f{number}")),
            &bytes[number..number + size],
        )
        .unwrap();
    }
    for (name, size) in [("g", LARGEST), ("h", LARGEST + 1), ("i", 900_000)] {
        fs::write(there.join("tree").join(name), &bytes[..size]).unwrap();
    }
    203
}

#[track_caller]
fn assert_equal(there: &Path, here: &Path) {
    let names = below(there);
    assert_eq!(below(here), names);
    for name in names.iter().filter(|name| !name.ends_with('/')) {
        let same = fs::read(here.join(name)).unwrap() == fs::read(there.join(name)).unwrap();
        assert!(same, "{name}");
    }
}

const ALICE: &str = "ftp://alice:secret@{host}";

#[test]
fn the_report_has_each_file() {
    let logged = Logged::new();
    let bench = &logged.bench;
    let all = fill(bench.there.path());
    let told = bench.json(&["get", "-r", "ftp://{host}/tree", "--json"]);
    assert_equal(
        &bench.there.path().join("tree"),
        &bench.here.path().join("tree"),
    );
    assert_eq!(
        (&told["files"], &told["verified"]),
        (&all.into(), &all.into())
    );
    assert_eq!((&told["skipped"], &told["retries"]), (&0.into(), &0.into()));
    let transfers = told["transfers"].as_array().unwrap();
    assert_eq!(transfers.len(), all);
    let mut bytes = 0;
    for file in transfers {
        let here = bench
            .here
            .path()
            .join(file["destination"].as_str().unwrap());
        let size = fs::metadata(here).unwrap().len();
        assert_eq!(
            (&file["size"], &file["bytes"]),
            (&size.into(), &size.into())
        );
        assert_eq!(file["checksum"]["state"], "verified");
        assert_eq!(file["checksum"]["value"].as_str().unwrap().len(), 64);
        let seconds = file["seconds"].as_f64().unwrap();
        assert!(seconds > 0.0 && seconds <= told["seconds"].as_f64().unwrap());
        bytes += size;
    }
    assert_eq!(told["bytes"], bytes);
    assert_eq!(logged.count("\"MODE B\""), 1);
    let again = bench.json(&["get", "-r", "ftp://{host}/tree", "--json"]);
    assert_eq!(again["skipped"], all);
    assert_eq!(logged.count("\"MODE B\""), 1);
}

#[test]
fn what_concerns_each_data_connection_has_them_alone() {
    let logged = Logged::new();
    let bench = &logged.bench;
    let all = fill(bench.there.path());
    for (number, options) in [
        &["--background"][..],
        &["--advisor", "http://127.0.0.1:1"],
        &["--active"],
    ]
    .iter()
    .enumerate()
    {
        let to = format!("to{number}/");
        let get = ["get", "-r", "ftp://{host}/tree", &to, "--json"];
        let told = bench.json(&[&get[..], options].concat());
        assert_eq!(told["verified"], all);
    }
    assert_eq!(logged.count("\"MODE B\""), 0);
}

#[test]
fn they_come_under_tls() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert"), folder.path().join("key"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let fingerprint = Fingerprint::of(made.cert.der()).to_string();
    for resumption in [true, false] {
        let mut implicit = None;
        let log = NamedTempFile::new().unwrap();
        let bench = Bench::with_server(|mut config| {
            config.command_log = Some(LogTarget::File(log.path().to_owned()));
            config.tls = Some(TlsConfig {
                listen: Some("127.0.0.1:0".parse().unwrap()),
                required: true,
                resumption,
                ..TlsConfig::new(&certificate, &key)
            });
            let server = bind_server(config)?;
            implicit = server.tls_address()?;
            Ok(server)
        });
        let all = fill(bench.there.path());
        let port = |address: &str| address.rsplit(':').next().unwrap().to_owned();
        for (scheme, port) in [
            ("ftpes", port(&bench.host)),
            ("ftps", port(&implicit.unwrap().to_string())),
        ] {
            for parallel in ["1", "8"] {
                let to = format!("{scheme}{parallel}/");
                let from = format!("{scheme}://alice:secret@localhost:{port}/tree");
                let told = bench.json(&[
                    "get",
                    "-r",
                    &from,
                    &to,
                    "--json",
                    "--parallel",
                    parallel,
                    "--tls-fingerprint",
                    &fingerprint,
                ]);
                assert_eq!(
                    (&told["verified"], &told["retries"]),
                    (&all.into(), &0.into())
                );
                let here = bench.here.path().join(to).join("tree");
                assert_equal(&bench.there.path().join("tree"), &here);
            }
        }
        let logged = Logged { bench, log };
        let shared = logged.count("\"MODE B\"");
        assert!((4..=18).contains(&shared), "{shared}");
    }
}

#[test]
fn a_shell_goes_on_with_the_session() {
    let logged = Logged::new();
    let bench = &logged.bench;
    fill(bench.there.path());
    let lines = "get -r tree\nls tree/d\nget tree/i\nput i -o j\nget -r tree -o again\nmirror tree back\nls\n";
    let output = bench.shell(ALICE, lines);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let there = bench.there.path().join("tree");
    for copy in ["tree", "again", "back"] {
        assert_equal(&there, &bench.here.path().join(copy));
    }
    assert!(read(&bench.there, "j") == read(&bench.there, "tree/i"));
    assert_eq!(logged.count("\"PASS"), 1);
    assert_eq!(
        (logged.count("\"MODE B\""), logged.count("\"MODE S\"")),
        (3, 3)
    );
}

#[test]
fn what_is_interrupted_has_whole_files_only() {
    let bench = Bench::new();
    fill(bench.there.path());
    let from = "ftp://{host}/tree";
    for parallel in ["1", "4"] {
        let to = format!("to{parallel}");
        let here = bench.here.path().join(&to);
        let mut command = bench.command(&[
            "get",
            "-r",
            from,
            &to,
            "--limit",
            "1.6Mbit/s",
            "--parallel",
            parallel,
        ]);
        let client = command.stderr(Stdio::piped()).spawn().unwrap();
        wait_until("some files have come", || {
            here.is_dir() && below(&here).len() > 30
        });
        kill_process(Pid::from_child(&client), Signal::INT).unwrap();
        let output = client.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", err(&output));
        let there = bench.there.path().join("tree");
        for name in below(&here) {
            let path = here.join(&name);
            match name.rsplit('/').next().unwrap() {
                "" => {}
                part if part.starts_with('.') => assert_ne!(fs::metadata(path).unwrap().len(), 0),
                _ => assert!(fs::read(path).unwrap() == fs::read(there.join(&name)).unwrap()),
            }
        }
        bench.says(&["get", "-r", from, &to]);
        assert_equal(&there, &here);
    }
}

#[test]
fn nothing_is_deleted_if_one_could_not_come() {
    let logged = Logged::new();
    let bench = &logged.bench;
    let all = fill(bench.there.path());
    let here = bench.here.path().join("here");
    // Something else is in the place of the unfinished file.
    fs::create_dir_all(here.join(".f3.part/x")).unwrap();
    fs::write(here.join("extra"), "x").unwrap();
    let mirror = ["mirror", "ftp://{host}/tree", "here", "--delete", "--json"];
    let plan = bench.json(&[&mirror[..], &["--dry-run"]].concat());
    let got = |action: &&Value| action["action"] == "get";
    assert_eq!(
        plan["actions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(got)
            .count(),
        all
    );
    assert_eq!(logged.count("\"MODE B\""), 0);
    let output = bench.run(&mirror);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["files"], all - 1);
    let failures = told["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 1);
    assert!(
        failures[0]["source"]
            .as_str()
            .unwrap()
            .ends_with("/tree/f3"),
        "{told}"
    );
    assert!(here.join("extra").exists() && !here.join("f3").exists());
    fs::remove_dir_all(here.join(".f3.part")).unwrap();
    let told = bench.json(&mirror);
    assert_eq!(
        (&told["files"], &told["unchanged"]),
        (&1.into(), &(all - 1).into())
    );
    assert_equal(&bench.there.path().join("tree"), &here);
}

#[test]
fn patterns_choose_among_them() {
    let logged = Logged::new();
    let bench = &logged.bench;
    fill(bench.there.path());
    let told = bench.json(&["get", "ftp://{host}/tree/**/f1*", "to/", "--json"]);
    assert_eq!(told["files"], below(&bench.here.path().join("to")).len());
    assert_eq!(
        (&told["files"], &told["failures"]),
        (&111.into(), &Value::Array(vec![]))
    );
    assert_eq!(logged.count("\"MODE B\""), 1);
}
