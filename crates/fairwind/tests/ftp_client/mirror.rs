//! `fairwind mirror`, both ways.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::names::{below, url};
use super::{Bench, err};
use crate::serve::mkfifo;

fn fill(folder: &Path, names: &[&str]) {
    for name in names {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
}

/// What is to be done, without the paths' order.
fn actions(told: &Value) -> Vec<String> {
    let actions = told["actions"].as_array().unwrap().iter();
    let mut actions: Vec<String> = actions
        .map(|one| {
            let word = |key: &str| one[key].as_str().unwrap().to_owned();
            format!("{} {}", word("action"), word("path"))
        })
        .collect();
    actions.sort();
    actions
}

#[test]
fn a_directory_here_becomes_equal_to_one_of_the_server() {
    let bench = Bench::new();
    fill(bench.there.path(), &["pub/a", "pub/d/b", "pub/d/e/c"]);
    fs::create_dir(bench.there.path().join("pub/empty")).unwrap();
    let here = bench.here.path().join("here");
    let mirror = |more: &[&str]| {
        let mut arguments = vec!["mirror", "ftp://{host}/pub", "here", "--json"];
        arguments.extend(more);
        bench.json(&arguments)
    };
    let plan = mirror(&["--dry-run"]);
    let expected = [
        "get a",
        "get d/b",
        "get d/e/c",
        "make ./",
        "make d/",
        "make d/e/",
        "make empty/",
    ];
    assert_eq!(actions(&plan), expected);
    assert!(!here.exists());
    let told = mirror(&["--parallel", "2"]);
    assert_eq!((&told["files"], &told["unchanged"]), (&json!(3), &json!(0)));
    assert_eq!(below(&here), ["a", "d/", "d/b", "d/e/", "d/e/c", "empty/"]);
    let again = mirror(&[]);
    assert_eq!(
        (&again["files"], &again["unchanged"]),
        (&json!(0), &json!(3))
    );

    fs::write(bench.there.path().join("pub/a"), "changed").unwrap();
    fs::remove_dir_all(bench.there.path().join("pub/d")).unwrap();
    fill(&here, &["extra", "kept/x", "kept/y.keep"]);
    let told = mirror(&[]);
    assert_eq!((&told["files"], &told["deleted"]), (&json!(1), &json!([])));
    assert!(here.join("d/b").exists());
    let plan = mirror(&["--delete", "--exclude", "*.keep", "--dry-run"]);
    assert_eq!(
        actions(&plan),
        ["delete d/", "delete extra", "delete kept/"]
    );
    assert!(here.join("d/b").exists());
    let told = mirror(&["--delete", "--exclude", "*.keep"]);
    assert_eq!(told["deleted"].as_array().unwrap().len(), 6, "{told}");
    assert_eq!(below(&here), ["a", "empty/", "kept/", "kept/y.keep"]);
    assert_eq!(fs::read(here.join("a")).unwrap(), b"changed");
}

#[test]
fn what_is_left_out_is_named_by_a_dry_run_too() {
    let bench = Bench::new();
    let here = bench.here.path().join("tree");
    fill(&here, &["a"]);
    mkfifo(&here.join("pipe"));
    for more in [&["--dry-run"][..], &[]] {
        let to = url("in/tree");
        let output = bench.run(&[&["mirror", "tree", &to], more].concat());
        assert!(output.status.success(), "{}", err(&output));
        let named = err(&output).contains("left out: pipe: neither file nor directory");
        assert!(named, "{more:?}: {}", err(&output));
    }
}

#[test]
fn a_directory_of_the_server_becomes_equal_to_one_here() {
    let bench = Bench::new();
    let here = bench.here.path().join("tree");
    fill(&here, &["a", "d/b", "d/e/c", "d/e/c.tmp"]);
    let to = url("in/tree");
    let mirror = |more: &[&str]| {
        let mut arguments = vec!["mirror", "tree", &to, "--json", "--exclude", "*.tmp"];
        arguments.extend(more);
        bench.json(&arguments)
    };
    let told = mirror(&["--parallel", "2"]);
    assert_eq!(told["files"], 3);
    let there = bench.there.path().join("in/tree");
    assert_eq!(below(&there), ["a", "d/", "d/b", "d/e/", "d/e/c"]);
    assert_eq!(mirror(&[])["unchanged"], 3);
    fill(&there, &["extra/x", "other", "d/e/server.tmp"]);
    fs::remove_file(here.join("d/b")).unwrap();
    let told = mirror(&["--delete"]);
    let deleted = told["deleted"].as_array().unwrap();
    assert_eq!(deleted.len(), 4, "{told}");
    assert_eq!(
        below(&there),
        ["a", "d/", "d/e/", "d/e/c", "d/e/server.tmp"]
    );
}

#[test]
fn nothing_is_deleted_where_something_could_not_be_mirrored() {
    let bench = Bench::new();
    fill(bench.there.path(), &["a", "b"]);
    // A directory has the name of a file.
    fill(bench.here.path(), &["here/a/x", "here/extra"]);
    let output = bench.run(&["mirror", "ftp://{host}/", "here", "--delete"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("in the way"), "{}", err(&output));
    assert_eq!(
        below(&bench.here.path().join("here")),
        ["a/", "a/x", "b", "extra"]
    );
}

#[test]
fn an_empty_or_missing_source_deletes_nothing() {
    let bench = Bench::new();
    fs::create_dir(bench.there.path().join("empty")).unwrap();
    fill(bench.here.path(), &["here/a"]);
    for (from, code) in [("empty", 2), ("none", 1)] {
        let url = format!("ftp://{{host}}/{from}");
        let output = bench.run(&["mirror", &url, "here", "--delete"]);
        assert_eq!(output.status.code(), Some(code), "{}", err(&output));
    }
    let output = bench.run(&["mirror", "none", &url(""), "--delete"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert_eq!(below(&bench.here.path().join("here")), ["a"]);
    let two = bench.run(&["mirror", "ftp://{host}/", "ftp://{host}/x"]);
    assert_eq!(two.status.code(), Some(2));
}

#[test]
fn the_order_of_include_and_exclude_decides() {
    let bench = Bench::new();
    fill(bench.there.path(), &["a.h5", "a.txt", "d/b.h5", "d/b.txt"]);
    let order = ["--include", "*/", "--include", "*.h5", "--exclude", "*"];
    bench.says(&[&["mirror", "ftp://{host}/", "one"][..], &order].concat());
    assert_eq!(
        below(&bench.here.path().join("one")),
        ["a.h5", "d/", "d/b.h5"]
    );
    let order = ["--exclude", "*", "--include", "*.h5"];
    bench.says(&[&["mirror", "ftp://{host}/", "two"][..], &order].concat());
    assert_eq!(below(&bench.here.path().join("two")), Vec::<String>::new());
    let wrong = bench.run(&["mirror", "ftp://{host}/", "x", "--exclude", "[a"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("--exclude"), "{}", err(&wrong));
}
