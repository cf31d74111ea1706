//! Names that are difficult to send to a server: each file gets its own name or is reported as failed.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fairwind_ftp::client::batch::Job;
use fairwind_ftp::client::{Outcome, third_party, tree};

use super::every_server::{Peer, every, own, proftpd, pyftpdlib, vsftpd};
use super::{connection, names as listed, options};

/// Names that differ only in bytes that are not UTF-8.
const ODD: [&[u8]; 5] = [b"a\xffb", b"a\xffc", b"a\xff", b"a\xe9", b"a\xff\xf4"];

fn path(directory: &Path, name: &[u8]) -> std::path::PathBuf {
    directory.join(OsStr::from_bytes(name))
}

fn errors(outcome: &Outcome) -> Vec<&str> {
    let failures = outcome.failures.iter();
    failures.map(|failed| failed.error.as_str()).collect()
}

/// Uploads all odd names into a directory with an odd name.
fn store_odd_names(peer: &Peer, here: &Path) -> Outcome {
    let mut connection = peer.connection();
    let directory = peer.path(b"d\xff");
    let made = connection.with(|session| session.make_directories(&directory));
    connection.close();
    let jobs = ODD.iter().map(|name| {
        let source = path(here, name);
        fs::write(&source, name).unwrap();
        let there = match made {
            Ok(()) => [b"d\xff/", *name].concat(),
            Err(_) => name.to_vec(),
        };
        peer.storing(&source, &there)
    });
    peer.run(jobs.collect())
}

#[test]
fn names_that_are_not_utf8_come_to_their_places_and_back() {
    for peer in [Some(own()), vsftpd(), proftpd()].into_iter().flatten() {
        let (here, back) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let stored = store_odd_names(&peer, here.path());
        assert_eq!(errors(&stored), <[&str; 0]>::default(), "{}", peer.name);
        assert_eq!(
            fs::read_dir(&peer.there).unwrap().count(),
            1,
            "{}",
            peer.name
        );
        let directory = path(&peer.there, b"d\xff");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), ODD.len());
        for name in ODD {
            let content = fs::read(path(&directory, name)).unwrap();
            assert_eq!(content, name, "{}", peer.name);
        }

        // A new session has to find out how names are sent by reading alone.
        let mut connection = peer.connection();
        let found = tree::remote(&mut connection, &peer.path(b"d\xff"), back.path()).unwrap();
        connection.close();
        assert_eq!(found.refused, <[String; 0]>::default(), "{}", peer.name);
        let fetched = peer.run(found.files.into_iter().map(Job::Get).collect());
        assert_eq!(errors(&fetched), <[&str; 0]>::default(), "{}", peer.name);
        for name in ODD {
            let content = fs::read(path(back.path(), name)).unwrap();
            assert_eq!(content, name, "{}", peer.name);
        }
    }
}

#[test]
fn names_that_are_not_utf8_go_from_server_to_server() {
    let (Some(one), Some(other)) = (vsftpd(), proftpd()) else {
        return;
    };
    for (from, to) in [(&one, &other), (&other, &one)] {
        fs::write(path(&from.there, b"x\xff"), from.name).unwrap();
        let mut source = from.connection_to(b"x\xff");
        let mut destination = to.connection_to(b"y\xffz");
        third_party(&mut source, &mut destination, 0).unwrap();
        let content = fs::read(path(&to.there, b"y\xffz")).unwrap();
        assert_eq!(content, from.name.as_bytes());
    }
}

#[test]
fn a_server_that_turns_names_into_others_gets_none_of_them() {
    let Some(peer) = pyftpdlib() else { return };
    let here = tempfile::tempdir().unwrap();
    fs::write(peer.there.join("a\u{fffd}b"), "precious").unwrap();
    let stored = store_odd_names(&peer, here.path());
    assert_eq!((stored.files, stored.failures.len()), (0, ODD.len()));
    for error in errors(&stored) {
        assert!(
            error.ends_with("turns names that are not UTF-8 into others"),
            "{error}"
        );
    }
    assert_eq!(listed(&peer.there), ["a\u{fffd}b"]);
    assert_eq!(peer.read("a\u{fffd}b"), b"precious");
}

#[test]
fn a_name_with_255_that_is_not_there_fetches_no_other() {
    for peer in every() {
        for other in [&b"a"[..], b"ab", b"a\xff\xffb"] {
            fs::write(path(&peer.there, other), "other").unwrap();
        }
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("x");
        let outcome = peer.run(vec![peer.fetching(b"a\xffb", &target)]);
        assert_eq!(errors(&outcome).len(), 1, "{}", peer.name);
        assert!(
            errors(&outcome)[0].contains("the server lists no such name"),
            "{}: {:?}",
            peer.name,
            outcome.failures
        );
        assert_eq!(listed(here.path()), <[&str; 0]>::default());
    }
}

#[test]
fn names_with_line_ends_are_told_of_and_the_others_stored() {
    let here = tempfile::tempdir().unwrap();
    for name in ["good", "a\nb", "c\rd", "e\n"] {
        fs::write(here.path().join(name), name).unwrap();
    }
    fs::create_dir(here.path().join("d\n")).unwrap();
    let found = tree::local(here.path(), b"tree").unwrap();
    assert_eq!((found.files.len(), found.directories.len()), (1, 1));
    assert_eq!(found.refused.len(), 4, "{:?}", found.refused);
    assert!(found.refused[0].contains("a?b"), "{:?}", found.refused);
}

#[test]
fn names_with_line_ends_on_a_server_are_told_of_and_the_others_fetched() {
    for peer in [vsftpd(), proftpd(), pyftpdlib()].into_iter().flatten() {
        for name in ["good", "a\nb", "c\rd"] {
            fs::write(peer.there.join(name), name).unwrap();
        }
        let back = tempfile::tempdir().unwrap();
        let mut connection = peer.connection();
        let root = peer.prefix.trim_end_matches('/').as_bytes();
        let found = tree::remote(&mut connection, root, back.path()).unwrap();
        connection.close();
        let refused = found.refused.len();
        let fetched = peer.run(found.files.into_iter().map(Job::Get).collect());
        assert!(
            refused + fetched.failures.len() >= 2,
            "{}: {:?} {:?}",
            peer.name,
            found.refused,
            fetched.failures
        );
        assert_eq!(listed(back.path()), ["good"], "{}", peer.name);
    }
}

#[test]
fn two_files_for_one_place_are_both_refused() {
    let (peer, here) = (own(), tempfile::tempdir().unwrap());
    for name in ["a", "b", "c"] {
        fs::write(peer.there.join(name), name).unwrap();
    }
    let at = |name: &str| here.path().join(name);
    let outcome = peer.run(vec![
        peer.fetching(b"a", &at("x")),
        peer.fetching(b"b", &here.path().join("./x")),
        peer.fetching(b"c", &at("c")),
    ]);
    assert_eq!((outcome.verified, outcome.failures.len()), (1, 2));
    assert_eq!(listed(here.path()), ["c"]);

    let outcome = peer.run(vec![
        peer.storing(&at("c"), b"y"),
        peer.storing(&at("c"), b"y"),
        peer.storing(&at("c"), b"z"),
        peer.storing(&at("c"), b".z.part"),
    ]);
    assert_eq!((outcome.verified, outcome.failures.len()), (1, 3));
    assert_eq!(listed(&peer.there), [".z.part", "a", "b", "c"]);
}

#[test]
fn two_names_that_are_one_file_here_are_not_both_fetched() {
    let (peer, here) = (own(), tempfile::tempdir().unwrap());
    for name in ["a", "b"] {
        fs::write(peer.there.join(name), name).unwrap();
    }
    let at = |name: &str| here.path().join(name);
    // As for `a` and `A` on a file system that ignores case.
    std::os::unix::fs::symlink("d", at("e")).unwrap();
    fs::create_dir(at("d")).unwrap();
    let outcome = peer.run(vec![
        peer.fetching(b"a", &at("d/x")),
        peer.fetching(b"b", &at("e/x")),
    ]);
    assert_eq!((outcome.verified, outcome.failures.len()), (1, 1));
    assert!(
        errors(&outcome)[0].contains("would be the same file"),
        "{:?}",
        outcome.failures
    );
    assert_eq!(fs::read(at("d/x")).unwrap(), b"a");
}

/// A server that answers by the verb; and what it hears.
fn answering(answers: &'static [(&str, &[u8])]) -> (SocketAddr, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        stream.write_all(b"220 Hello\r\n")?;
        for line in BufReader::new(stream.try_clone()?).split(b'\n') {
            let line = line?.trim_ascii_end().to_vec();
            let known = |(verb, _): &&(&str, _)| line.starts_with(verb.as_bytes());
            let answer = answers.iter().find(known);
            // Before the client goes on.
            hears.lock().unwrap().push(line);
            stream.write_all(answer.map_or(b"200 Well\r\n", |(_, answer)| answer))?;
        }
        std::io::Result::Ok(())
    });
    (address, heard)
}

#[test]
fn names_in_replies_keep_their_bytes() {
    let (address, heard) = answering(&[
        ("FEAT", b"211-These:\r\n MLST type*;\r\n211 End\r\n"),
        ("PWD", b"257 \"/home/Ren\xe9 \"\"\xc3\xa9\"\"\" is it\r\n"),
        (
            "MLST",
            b"250-This:\r\n type=file; /home/Ren\xe9/a\xe9\tb\r\n250 End\r\n",
        ),
    ]);
    let mut connection = connection(address, "", options());
    connection
        .with(|session| {
            let home = session.login_directory()?;
            assert_eq!(home.unwrap(), b"/home/Ren\xe9 \"\xc3\xa9\"");
            let found = session.look(b"a\xe9\tb")?;
            assert_eq!(found.unwrap().name, b"/home/Ren\xe9/a\xe9\tb");
            session.enter(b"pub")
        })
        .unwrap();
    let heard = heard.lock().unwrap();
    assert_eq!(heard.last().unwrap(), b"CWD /home/Ren\xe9 \"\xc3\xa9\"");
}
