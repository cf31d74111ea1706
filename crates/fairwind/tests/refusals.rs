//! Every way in which an experiment file is refused: text and exit code, as in `refusals/refusals.txt`. With
//! `FAIRWIND_UPDATE_PAGES=1` the test writes them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/refusals");
/// How a case begins, which ends with an empty line.
const CASE: &str = "\n== ";
/// What stands before the exit code.
const ANSWER: &str = "=> ";

#[test]
fn every_refusal_is_as_it_was() {
    let list = Path::new(FOLDER).join("refusals.txt");
    let told = fs::read_to_string(&list).unwrap();
    let mut cases = told.split(CASE);
    let mut now = cases.next().unwrap().to_owned();
    for case in cases {
        let (given, _) = case.split_once(ANSWER).unwrap();
        now += &format!("{CASE}{given}{ANSWER}{}", answer(given));
    }
    if std::env::var_os(fairwind_testing::page::UPDATE_PAGES).is_some() {
        fs::write(&list, &now).unwrap();
        return;
    }
    for (then, now) in told.split(CASE).zip(now.split(CASE)) {
        assert_eq!(now, then);
    }
}

/// The exit code, and what is written, for a case without its answer.
fn answer(given: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let lines = |mark| {
        given
            .lines()
            .filter_map(move |line| line.strip_prefix(mark))
    };
    fs::write(folder.path().join("x.toml"), changed(given)).unwrap();
    let trace: String = lines("trace")
        .map(|line| format!("{}\n", line.trim_start()))
        .collect();
    fs::write(folder.path().join("rate.csv"), trace.trim_start()).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_fairwind"));
    check.current_dir(folder.path()).args(["check", "x.toml"]);
    let overrides = lines("--set ").map(|argument| format!("--set={argument}"));
    let output = check.args(overrides).output().unwrap();
    let code = output.status.code().unwrap();
    assert!(output.stdout.is_empty(), "{given}");
    format!("{code}\n{}", String::from_utf8(output.stderr).unwrap())
}

/// The text of the file that the second line names, with its lines exchanged.
fn changed(given: &str) -> String {
    let place = given.lines().nth(1).unwrap();
    let (file, line) = place.split_once(", line ").unwrap();
    let text = fs::read_to_string(PathBuf::from(FOLDER).join(file)).unwrap();
    let marked = |mark| {
        given
            .lines()
            .filter_map(move |line| line.strip_prefix(mark))
    };
    let first = line.parse::<usize>().unwrap() - 1;
    let mut file: Vec<&str> = text.split('\n').collect();
    let taken = file.splice(first..first + marked("- ").count(), marked("+ "));
    assert_eq!(taken.collect::<Vec<_>>(), marked("- ").collect::<Vec<_>>());
    file.join("\n")
}
