//! Commands on names: `rm`, `mkdir`, `rmdir`, `mv`, `chmod`, `du`, and patterns in URLs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::json;

use super::{Bench, err, read};

const ALICE: &str = "ftp://alice:secret@{host}";

pub(super) fn url(path: &str) -> String {
    format!("{ALICE}/{path}")
}

/// All that is below a folder, sorted; directories with a slash.
pub(super) fn below(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut open = vec![(folder.to_owned(), String::new())];
    while let Some((directory, prefix)) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                open.push((entry.path(), format!("{name}/")));
                names.push(format!("{name}/"));
            } else {
                names.push(name);
            }
        }
    }
    names.sort();
    names
}

fn fill(bench: &Bench, names: &[&str]) {
    for name in names {
        let path = bench.there.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
}

#[test]
fn patterns_select_files_to_fetch() {
    let bench = Bench::new();
    fill(
        &bench,
        &[
            "run1/a.h5",
            "run1/b.txt",
            "run2/c.h5",
            "run2/.d.h5",
            "run2/d*.h5",
        ],
    );
    let told = bench.json(&["get", "ftp://{host}/run?/*.h5", "data/", "--json"]);
    assert_eq!(told["files"], 3);
    assert_eq!(
        below(bench.here.path()),
        ["data/", "data/a.h5", "data/c.h5", "data/d*.h5"]
    );
    let again = bench.json(&["get", "ftp://{host}/run?/*.h5", "data/", "--json"]);
    assert_eq!((&again["skipped"], &again["bytes"]), (&3.into(), &0.into()));
    bench.says(&["get", "ftp://{host}/run2/d%2A.h5", "literal"]);
    assert_eq!(read(&bench.here, "literal"), b"run2/d*.h5");
    bench.says(&["get", "--recursive", "ftp://{host}/run[!2]", "all"]);
    assert!(below(bench.here.path()).contains(&"all/run1/b.txt".to_owned()));
    let none = bench.run(&["get", "ftp://{host}/run1/*.iso"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(err(&none).contains("matches"), "{}", err(&none));
    let wrong = bench.run(&["get", "ftp://{host}/run1/[a"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("%5B"), "{}", err(&wrong));
}

#[test]
fn patterns_select_entries_to_list() {
    let bench = Bench::new();
    fill(&bench, &["x/a.iso", "x/y/b.iso", "c.iso", ".hidden/d.iso"]);
    let told = bench.json(&["ls", "ftp://{host}/**/*.iso", "--json"]);
    let names: Vec<_> = told
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["name"].clone())
        .collect();
    assert_eq!(
        names,
        [json!("c.iso"), json!("x/a.iso"), json!("x/y/b.iso")]
    );
    let told = bench.json(&["ls", "ftp://{host}/*/", "--json"]);
    assert_eq!(
        (told.as_array().unwrap().len(), &told[0]["kind"]),
        (1, &json!("directory"))
    );
}

#[test]
fn files_are_deleted_and_directories_only_as_a_whole_when_that_is_wanted() {
    let bench = Bench::new();
    fill(&bench, &["a.tmp", "b.tmp", "c", "d/e/f", "d/g", "kept/x"]);
    symlink("../kept", bench.there.path().join("d/link")).unwrap();
    bench.says(&["rm", &url("*.tmp")]);
    let refused = bench.run(&["rm", &url("d"), &url("c")]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("/d: "), "{}", err(&refused));
    let there = |bench: &Bench| below(bench.there.path());
    assert_eq!(
        there(&bench),
        ["d/", "d/e/", "d/e/f", "d/g", "d/link", "kept/", "kept/x"]
    );
    bench.says(&["rm", "-r", &url("d")]);
    assert_eq!(there(&bench), ["kept/", "kept/x"]);
    let missing = bench.run(&["rm", &url("none")]);
    assert_eq!(missing.status.code(), Some(1));
    let all = bench.run(&["rm", "-r", &url("")]);
    assert_eq!(all.status.code(), Some(2));
    assert_eq!(there(&bench), ["kept/", "kept/x"]);
}

#[test]
fn directories_are_made_and_removed() {
    let bench = Bench::new();
    bench.says(&["mkdir", &url("a")]);
    let again = bench.run(&["mkdir", &url("a")]);
    assert_eq!(again.status.code(), Some(1));
    bench.says(&["mkdir", "-p", &url("a"), &url("b/c/d")]);
    assert_eq!(below(bench.there.path()), ["a/", "b/", "b/c/", "b/c/d/"]);
    let full = bench.run(&["rmdir", &url("b")]);
    assert_eq!(full.status.code(), Some(1));
    bench.says(&["rmdir", &url("b/c/d"), &url("a")]);
    assert_eq!(below(bench.there.path()), ["b/", "b/c/"]);
}

#[test]
fn files_are_renamed_and_moved_into_directories() {
    let bench = Bench::new();
    fill(&bench, &["a", "b", "d/x"]);
    bench.says(&["mv", &url("a"), &url("c")]);
    bench.says(&["mv", &url("[bc]"), &url("d")]);
    assert_eq!(below(bench.there.path()), ["d/", "d/b", "d/c", "d/x"]);
    let two = bench.run(&["mv", &url("d/?"), &url("e")]);
    assert_eq!(two.status.code(), Some(2), "{}", err(&two));
    bench.says(&["mv", &url("d"), &url("e")]);
    assert_eq!(below(bench.there.path()), ["e/", "e/b", "e/c", "e/x"]);
}

#[test]
fn of_files_that_would_get_one_name_none_is_moved() {
    let bench = Bench::new();
    fill(&bench, &["run1/log", "run2/log", "run2/x", "all/y"]);
    let clash = bench.run(&["mv", &url("run*/log"), &url("run2/x"), &url("all/")]);
    assert_eq!(clash.status.code(), Some(1));
    let why = "/run1/log: another file of the same command would get the same name";
    assert!(err(&clash).contains(why), "{}", err(&clash));
    let there = below(bench.there.path());
    let left = ["run1/", "run1/log", "run2/", "run2/log"];
    assert_eq!(there, [&["all/", "all/x", "all/y"][..], &left].concat());
    let same = bench.run(&["mv", &url("all/x"), &url("all/")]);
    assert_eq!(same.status.code(), Some(1));
    assert!(err(&same).contains("this name already"), "{}", err(&same));
}

#[test]
fn a_name_is_the_one_that_is_written_in_the_url() {
    let bench = Bench::new();
    fill(&bench, &["a/b", "a\\b", "a\tb", "ab", "x", "x "]);
    for path in ["a/../x", "../x", "./x", "a/%2E%2e/x"] {
        let refused = bench.run(&["rm", &url(path)]);
        assert_eq!(refused.status.code(), Some(2), "{path}: {}", err(&refused));
    }
    bench.says(&["rm", &url("x "), &url("a\tb"), &url("a\\b")]);
    assert_eq!(below(bench.there.path()), ["a/", "a/b", "ab", "x"]);
}

#[test]
fn one_of_several_urls_may_have_the_password_and_none_another_one() {
    let bench = Bench::new();
    fill(&bench, &["a", "b", "c"]);
    let without = "ftp://alice@{host}/a";
    bench.says(&["rm", without, &url("b")]);
    assert_eq!(below(bench.there.path()), ["c"]);
    let other = bench.run(&["rm", &url("c"), "ftp://alice:other@{host}/c"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(!err(&other).contains("secret"), "{}", err(&other));
    assert_eq!(below(bench.there.path()), ["c"]);
}

#[test]
fn permissions_are_set() {
    let bench = Bench::new();
    fill(&bench, &["a.sh", "b.sh"]);
    bench.says(&["chmod", "750", &url("*.sh")]);
    for name in ["a.sh", "b.sh"] {
        let facts = fs::metadata(bench.there.path().join(name)).unwrap();
        assert_eq!(facts.permissions().mode() & 0o777, 0o750);
    }
    let wrong = bench.run(&["chmod", "888", &url("a.sh")]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn sizes_are_summed_up() {
    let bench = Bench::new();
    for (name, size) in [("d/a", 10), ("d/e/b", 200), ("d/e/c", 3_000), ("f", 5)] {
        let path = bench.there.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; size]).unwrap();
    }
    let told = bench.json(&["du", "ftp://{host}/d", "--depth", "1", "--json"]);
    let sum = |path, bytes, files, directories| json!({"path": path, "bytes": bytes, "files": files, "directories": directories, "unknown": 0});
    assert_eq!(
        told,
        json!([sum("d", 3_210, 3, 1), sum("d/e", 3_200, 2, 0)])
    );
    let said = bench.says(&["du", "ftp://{host}/*"]);
    let rows: Vec<&str> = said.lines().skip(1).map(str::trim).collect();
    assert!(
        rows.iter()
            .any(|row| row.starts_with("3210") && row.ends_with(" d")),
        "{said}"
    );
    assert!(
        rows.iter()
            .any(|row| row.starts_with("5 ") && row.ends_with(" f")),
        "{said}"
    );
}
