//! Names changed on servers that refuse or break off: no file may be lost, and what is done is told as done.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use fairwind_ftp::client::{ClientError, Options, Progress};

use super::wrong::Notes;
use super::{connection, options};

/// Paths, and what is there: the bytes of a file, or `None` for a directory.
type Tree = BTreeMap<String, Option<&'static str>>;

/// What a server makes of RNTO.
#[derive(PartialEq, Eq)]
enum Answer {
    Done,
    Refused,
    /// It closes the connection, and renames nothing.
    Gone,
    /// It closes the connection instead of a reply.
    Lost,
}

type Rule = fn(&Tree, from: &str, to: &str) -> Answer;

/// It does not rename over what is there.
fn keeps(tree: &Tree, _: &str, to: &str) -> Answer {
    match tree.contains_key(to) {
        true => Answer::Refused,
        false => Answer::Done,
    }
}

/// As servers whose directories are on several file systems: rename(2) fails with EXDEV.
fn stays_in_a_directory(_: &Tree, from: &str, to: &str) -> Answer {
    let directory = |path: &str| path.rsplit_once('/').map(|(above, _)| above.to_owned());
    match directory(from) == directory(to) {
        true => Answer::Done,
        false => Answer::Refused,
    }
}

/// Whoever may add files, and not change those that are there.
fn lets_only_add(tree: &Tree, from: &str, to: &str) -> Answer {
    match from == "old" {
        true => Answer::Refused,
        false => keeps(tree, from, to),
    }
}

/// It goes when the name has become free.
fn goes(tree: &Tree, from: &str, to: &str) -> Answer {
    match keeps(tree, from, to) {
        Answer::Done if from == "new" => Answer::Gone,
        answer => answer,
    }
}

/// What has been given another name cannot get its own back.
fn has_no_way_back(_: &Tree, from: &str, _: &str) -> Answer {
    match from == "old" {
        true => Answer::Done,
        false => Answer::Refused,
    }
}

fn server(tree: &Arc<Mutex<Tree>>, rule: Rule) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let tree = Arc::clone(tree);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // The client may disconnect at any time.
            let _ = session(stream, &tree, rule);
        }
    });
    address
}

fn session(mut stream: TcpStream, tree: &Mutex<Tree>, rule: Rule) -> std::io::Result<()> {
    stream.write_all(b"220 Hello\r\n")?;
    let mut from = String::new();
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?;
        let (verb, path) = line.split_once(' ').unwrap_or((&line, ""));
        let mut tree = tree.lock().unwrap();
        let there = tree.get(path).copied();
        let reply = match (verb, there) {
            ("USER", _) => "230 Come in".to_owned(),
            ("TYPE", _) => "200 Done".to_owned(),
            ("PWD", _) => "257 \"/\"".to_owned(),
            ("CWD", Some(None)) => "250 Done".to_owned(),
            ("CWD", _) if path == "/" => "250 Done".to_owned(),
            ("SIZE", Some(Some(bytes))) => format!("213 {}", bytes.len()),
            ("DELE", Some(Some(_))) | ("RMD", Some(None)) => {
                tree.remove(path);
                if path.starts_with("lost") {
                    return Ok(());
                }
                "250 Done".to_owned()
            }
            ("MKD", None) => {
                tree.insert(path.to_owned(), None);
                if path.starts_with("lost") {
                    return Ok(());
                }
                "250 Done".to_owned()
            }
            ("RNFR", Some(_)) => {
                path.clone_into(&mut from);
                "350 Go on".to_owned()
            }
            ("RNTO", _) => match rule(&tree, &from, path) {
                answer @ (Answer::Done | Answer::Lost) => {
                    let moved = tree.remove(&from).unwrap();
                    tree.insert(path.to_owned(), moved);
                    if answer == Answer::Lost {
                        return Ok(());
                    }
                    "250 Done".to_owned()
                }
                Answer::Refused => "550 No".to_owned(),
                Answer::Gone => return Ok(()),
            },
            ("CWD" | "SIZE" | "DELE" | "RMD" | "MKD" | "RNFR", _) => "550 No".to_owned(),
            _ => "502 What?".to_owned(),
        };
        drop(tree);
        stream.write_all(format!("{reply}\r\n").as_bytes())?;
    }
    Ok(())
}

/// What becomes of a rename, what is there then, and what has been said.
fn renamed(
    tree: &[(&str, Option<&'static str>)],
    rule: Rule,
    from: &str,
    to: &str,
) -> (Result<(), ClientError>, Tree, Vec<String>) {
    let tree = tree.iter().map(|(path, what)| ((*path).to_owned(), *what));
    let tree = Arc::new(Mutex::new(tree.collect::<Tree>()));
    let notes = Arc::new(Notes::default());
    let once = Options {
        retries: 0,
        progress: Arc::clone(&notes) as Arc<dyn Progress>,
        ..options()
    };
    let mut connection = connection(server(&tree, rule), "", once);
    let done = connection.move_to(from.as_bytes(), to.as_bytes());
    let (tree, notes) = (
        tree.lock().unwrap().clone(),
        notes.0.lock().unwrap().clone(),
    );
    (done, tree, notes)
}

fn tree<const N: usize>(all: [(&str, Option<&'static str>); N]) -> Tree {
    all.map(|(path, what)| (path.to_owned(), what)).into()
}

const TWO: [(&str, Option<&str>); 2] = [("new", Some("n")), ("old", Some("o"))];

#[test]
fn a_file_is_replaced_on_a_server_that_does_not_rename_over_files() {
    let (done, left, notes) = renamed(&TWO, keeps, "new", "old");
    done.unwrap();
    assert_eq!((left, notes), (tree([("old", Some("n"))]), vec![]));
}

#[test]
fn a_file_is_not_renamed_to_itself() {
    let (done, left, _) = renamed(&TWO, keeps, "old", "old/");
    let error = done.unwrap_err().to_string();
    assert_eq!(error, "old has this name already");
    assert_eq!(left, tree(TWO));
    // By another name, which only the server knows to be the same.
    fn is_one(tree: &Tree, from: &str, to: &str) -> Answer {
        match (from, to) {
            ("old", "OLD") => Answer::Refused,
            _ => keeps(tree, from, to),
        }
    }
    let both = [("OLD", Some("o")), ("old", Some("o"))];
    let (done, left, _) = renamed(&both, is_one, "old", "OLD");
    assert!(done.is_err());
    assert_eq!(left, tree(both));
}

#[test]
fn a_file_is_kept_if_no_other_can_have_its_name() {
    let there = [("a/new", Some("n")), ("b/old", Some("o"))];
    let (done, left, _) = renamed(&there, stays_in_a_directory, "a/new", "b/old");
    let error = done.unwrap_err().to_string();
    assert!(
        error.ends_with("to rename a/new to b/old: 550 No"),
        "{error}"
    );
    assert_eq!(left, tree(there));
    let (done, left, _) = renamed(&TWO, lets_only_add, "new", "old");
    let error = done.unwrap_err().to_string();
    assert!(error.ends_with("to rename new to old: 550 No"), "{error}");
    assert_eq!(left, tree(TWO));
}

#[test]
fn neither_is_a_file_replaced_by_a_directory_nor_a_directory_by_a_file() {
    for there in [
        [("new", None), ("old", Some("o"))],
        [("new", Some("n")), ("old", None)],
    ] {
        let (done, left, _) = renamed(&there, keeps, "new", "old");
        assert!(matches!(done, Err(ClientError::Refused { .. })));
        assert_eq!(left, tree(there));
    }
}

/// The name that the old file has, if both are there.
fn kept(left: &Tree) -> &str {
    let (name, _) = left.iter().find(|(_, what)| **what == Some("o")).unwrap();
    assert_eq!((left.len(), left["new"]), (2, Some("n")));
    assert!(name.starts_with(".old."), "{name}");
    name
}

#[test]
fn where_an_old_file_is_that_has_not_got_its_name_back_is_told() {
    let (done, left, _) = renamed(&TWO, has_no_way_back, "new", "old");
    let error = done.unwrap_err().to_string();
    let told = format!("the old old has the name {}: 550 No", kept(&left));
    assert!(error.ends_with(&told), "{error}");
    let (done, left, notes) = renamed(&TWO, goes, "new", "old");
    assert!(done.unwrap_err().is_transient());
    let told = format!("the old old has the name {}", kept(&left));
    assert_eq!(notes, [told]);
}

#[test]
fn what_was_done_before_its_reply_was_lost_is_done() {
    fn loses(tree: &Tree, _: &str, to: &str) -> Answer {
        match tree.contains_key(to) {
            true => Answer::Refused,
            false => Answer::Lost,
        }
    }
    let there = [("a", Some("a")), ("lost", Some("l")), ("lost_too", None)];
    let there = Arc::new(Mutex::new(tree(there)));
    let again = Options {
        retries: 1,
        ..options()
    };
    let mut connection = connection(server(&there, loses), "", again);
    connection.remove_file(b"lost").unwrap();
    connection.remove_directory(b"lost_too").unwrap();
    connection.make_directory(b"lost_and_made").unwrap();
    connection.move_to(b"a", b"b").unwrap();
    let left = [("b", Some("a")), ("lost_and_made", None)];
    assert_eq!(*there.lock().unwrap(), tree(left));
    // What was never there, or always, is told.
    assert!(connection.remove_file(b"a").is_err());
    assert!(connection.make_directory(b"lost_and_made").is_err());
    assert!(connection.move_to(b"a", b"b").is_err());
}
