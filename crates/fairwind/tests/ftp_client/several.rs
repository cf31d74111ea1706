//! Files in ranges, and directories from server to server.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::process::Stdio;

use fairwind_ftp::assembly::bind_server;
use fairwind_testing::wait_until;
use serde_json::json;

use super::names::below;
use super::{Bench, read};

#[test]
fn a_file_comes_in_ranges_which_go_on_after_a_kill() {
    let bench = Bench::new();
    let bytes: Vec<u8> = (0..64_000_000_u32).map(|at| (at % 251) as u8).collect();
    bench.write("x", &bytes);
    let arguments = ["get", "ftp://{host}/x", "--ranges", "4", "--json"];
    // Thirteen seconds for all of it.
    let mut slow = bench.command(&[&arguments[..], &["--limit", "40Mbit/s"]].concat());
    let mut client = slow.stdout(Stdio::null()).spawn().unwrap();
    let partial = bench.here.path().join(".x.ranges");
    wait_until("a record of what has come", || {
        let mut record = String::new();
        let Ok(mut file) = File::open(&partial) else {
            return false;
        };
        file.seek(SeekFrom::Start(64_000_000)).unwrap();
        file.read_to_string(&mut record).unwrap();
        let ranges = record.lines().skip(2).filter(|line| line.len() > 20);
        ranges
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .any(|range| range[0] != range[1])
    });
    client.kill().unwrap();
    client.wait().unwrap();
    let told = bench.json(&arguments);
    let file = &told["transfers"][0];
    assert_eq!(
        (&told["verified"], &file["ranges"]),
        (&json!(1), &json!(4.0))
    );
    assert!(file["resumed_at"].as_u64().unwrap() > 0, "{file}");
    assert!(read(&bench.here, "x") == bytes);
    assert!(!partial.exists());
}

#[test]
fn a_directory_goes_from_server_to_server() {
    let open = |mut config: fairwind_ftp::server::Config| {
        config.foreign_peers.push("127.0.0.0/8".parse().unwrap());
        bind_server(config)
    };
    let (a, b) = (Bench::with_server(open), Bench::with_server(open));
    for name in ["run7/a", "run7/d/b", "run7/d/e/c"] {
        let path = a.there.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let to = format!("ftp://alice:secret@{}/runs/", b.host);
    let arguments = ["copy", "-r", "ftp://{host}/run7", &to, "--json"];
    let told = a.json(&arguments);
    assert_eq!((&told["files"], &told["verified"]), (&json!(3), &json!(3)));
    let there = [
        "runs/",
        "runs/run7/",
        "runs/run7/a",
        "runs/run7/d/",
        "runs/run7/d/b",
        "runs/run7/d/e/",
        "runs/run7/d/e/c",
    ];
    assert_eq!(below(b.there.path()), there);
    assert_eq!(a.json(&arguments)["skipped"], 3);
    let again = format!("ftp://alice:secret@{}/again/", b.host);
    let several = [
        "copy",
        "-r",
        "ftp://{host}/run7",
        &again,
        "--parallel",
        "3",
        "--json",
    ];
    let told = a.json(&several);
    assert_eq!((&told["files"], &told["verified"]), (&json!(3), &json!(3)));
    for name in ["a", "d/b", "d/e/c"] {
        let copy = b.there.path().join("again/run7").join(name);
        assert_eq!(fs::read_to_string(copy).unwrap(), format!("run7/{name}"));
    }
    let refused = a.run(&["copy", "ftp://{host}/run7/", &to]);
    assert_eq!(refused.status.code(), Some(2));
    let told = a.json(&["copy", "ftp://{host}/run7/?", &to, "--json"]);
    assert_eq!(told["files"], 1);
}
