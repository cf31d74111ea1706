//! Wrong passwords, missing files, full disks, and limited or broken servers.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::{
    ChecksumPolicy, ClientError, Connection, Credentials, Kind, Options, Outcome, Progress,
    Retrieval, Storage, Verification, tree,
};
use fairwind_testing::root;

use super::broken::pyftpd;
use super::scripted::{Script, Scripted};
use super::{connection, get, names, options, place, put};
use crate::common::{Process, Running, noise};

/// What is said beside errors.
#[derive(Default)]
pub(super) struct Notes(pub Mutex<Vec<String>>);

impl Progress for Notes {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

fn scripted(script: Script) -> Scripted {
    Scripted::start(script)
}

#[test]
fn a_wrong_password_is_told_and_not_tried_again() {
    let server = Running::start();
    let credentials = Credentials {
        user: "alice".into(),
        password: "guess".into(),
    };
    let begin = Instant::now();
    let mut connection = Connection::new(place(server.address, "x"), credentials, options());
    let error = connection.session().err().unwrap().to_string();
    assert!(error.contains("refused PASS: 530"), "{error}");
    assert!(!error.contains("guess"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(5));
}

/// What a server that takes commands in advance hears of a download.
fn heard_in_advance(script: Script) -> Vec<String> {
    let server = scripted(Script {
        features: vec!["EPSV", "PIPELINING", "SIZE"],
        ..script
    });
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("x");
    get(server.address, "x", &target, options()).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"content");
    let heard = server.heard().into_iter();
    let heard = heard.skip_while(|line| !line.starts_with("SIZE"));
    heard.take_while(|line| !line.starts_with("RETR")).collect()
}

#[test]
fn a_port_that_was_asked_for_in_advance_is_asked_for_again_if_nobody_listens() {
    let heard = heard_in_advance(Script {
        extended: true,
        ..Script::default()
    });
    assert_eq!(heard, ["SIZE x", "MDTM x", "EPSV"]);
    let heard = heard_in_advance(Script {
        extended: true,
        dead_ports: 1,
        ..Script::default()
    });
    assert_eq!(heard, ["SIZE x", "MDTM x", "EPSV", "EPSV"]);
    let heard = heard_in_advance(Script::default());
    assert_eq!(heard, ["SIZE x", "MDTM x", "EPSV", "EPSV", "PASV"]);
}

/// What becomes of three files of a server that takes commands in advance.
fn three_in_advance(script: Script) -> (Outcome, Vec<String>) {
    let server = scripted(Script {
        features: vec!["EPSV", "HASH MD5*", "PIPELINING", "SIZE"],
        extended: true,
        ..script
    });
    let here = tempfile::tempdir().unwrap();
    let job = |name: &str| {
        Job::Get(Retrieval {
            remote: name.into(),
            target: here.path().join(name),
            listed: None,
        })
    };
    let from = connection(server.address, "", options());
    let jobs = ["a", "b", "c"].map(job).into();
    let outcome = batch::run(from, jobs, NonZeroUsize::MIN).unwrap();
    for file in &outcome.transfers {
        assert_eq!(fs::read(&file.destination).unwrap(), b"content");
    }
    (outcome, server.heard())
}

#[test]
fn what_was_sent_in_advance_is_answered_whatever_becomes_of_the_file() {
    // MD5 of `content`.
    let right = "213 MD5 0-7 9a0364b9e99bb480dd25e1f0284c8555 x\r\n";
    let (outcome, heard) = three_in_advance(Script {
        replies: vec![("HASH", right)],
        ..Script::default()
    });
    assert_eq!((outcome.files, outcome.verified), (3, 3), "{outcome:?}");
    let logins = |heard: &[String]| heard.iter().filter(|line| line.starts_with("USER")).count();
    assert_eq!(logins(&heard), 1);
    let (outcome, heard) = three_in_advance(Script {
        replies: vec![("HASH", "550 No\r\n"), ("MDTM", "500 No\r\n")],
        ..Script::default()
    });
    assert_eq!((outcome.files, outcome.verified), (3, 0), "{outcome:?}");
    assert_eq!(logins(&heard), 1);
    let (outcome, heard) = three_in_advance(Script {
        replies: vec![("RETR", "550 No\r\n"), ("HASH", right)],
        ..Script::default()
    });
    assert_eq!((outcome.files, outcome.failures.len()), (0, 3));
    assert!(
        outcome
            .failures
            .iter()
            .all(|failed| failed.error.contains("RETR"))
    );
    assert_eq!(logins(&heard), 1);
    let wrong = "213 MD5 0-7 00000000000000000000000000000000 x\r\n";
    let (outcome, _) = three_in_advance(Script {
        replies: vec![("HASH", wrong)],
        ..Script::default()
    });
    assert_eq!((outcome.files, outcome.failures.len()), (0, 3));
    assert!(
        outcome.failures[2].error.contains("is not what"),
        "{outcome:?}"
    );
}

/// What becomes of three files for a server that takes commands in advance.
fn three_stored_in_advance(replies: &[(&'static str, &'static str)]) -> (Outcome, Vec<String>) {
    let usual = [
        ("SIZE", "550 None\r\n"),
        ("RNFR", "350 Ready\r\n"),
        ("RNTO", "250 Done\r\n"),
        ("MFMT", "213 Done\r\n"),
        ("DELE", "250 Gone\r\n"),
    ];
    let server = scripted(Script {
        features: vec!["EPSV", "HASH MD5*", "MFMT", "PIPELINING", "SIZE"],
        extended: true,
        replies: [replies, &usual].concat(),
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let job = |name: &str| {
        let source = here.path().join(name);
        fs::write(&source, "content").unwrap();
        Job::Put(storage(&source, name.as_bytes()))
    };
    let to = connection(server.address, "", options());
    let jobs = ["a", "b", "c"].map(job).into();
    let outcome = batch::run(to, jobs, NonZeroUsize::MIN).unwrap();
    let heard = server.heard();
    let logins = heard.iter().filter(|line| line.starts_with("USER")).count();
    assert_eq!(logins, 1, "{heard:?}");
    (outcome, heard)
}

#[test]
fn what_is_not_known_to_be_whole_gets_no_name_whatever_was_sent_in_advance() {
    // MD5 of `content`.
    let right = ("HASH", "213 MD5 0-7 9a0364b9e99bb480dd25e1f0284c8555 x\r\n");
    let wrong = ("HASH", "213 MD5 0-7 00000000000000000000000000000000 x\r\n");
    let (outcome, heard) = three_stored_in_advance(&[right]);
    assert_eq!((outcome.files, outcome.verified), (3, 3), "{outcome:?}");
    let named = |heard: &[String]| heard.iter().any(|line| line.starts_with("RN"));
    assert!(named(&heard));
    for (replies, why) in [
        (&[wrong][..], "is not what"),
        (
            &[
                right,
                ("SIZE", "213 6\r\n"),
                ("REST", "502 No\r\n"),
                ("APPE", "550 No\r\n"),
            ],
            "APPE",
        ),
        (&[right, ("STOR", "550 No\r\n")], "STOR"),
        (&[right, ("ALLO", "552 No room\r\n")], "ALLO"),
    ] {
        let (outcome, heard) = three_stored_in_advance(replies);
        assert_eq!((outcome.files, outcome.failures.len()), (0, 3), "{why}");
        assert!(!named(&heard), "{why}: {heard:?}");
        for failure in &outcome.failures {
            assert!(failure.error.contains(why), "{why}: {}", failure.error);
        }
    }
}

#[test]
fn a_name_that_cannot_be_had_is_told_and_its_old_file_keeps_its_time() {
    let right = ("HASH", "213 MD5 0-7 9a0364b9e99bb480dd25e1f0284c8555 x\r\n");
    for refusal in [
        &[("RNTO", "550 No\r\n"), right][..],
        &[("RNFR", "550 No\r\n"), ("RNTO", "503 No\r\n"), right],
    ] {
        let (outcome, heard) = three_stored_in_advance(refusal);
        assert_eq!((outcome.files, outcome.failures.len()), (0, 3));
        let mut failures = outcome.failures.iter();
        assert!(failures.all(|failure| failure.error.contains("to rename")));
        let mut times = heard.iter().filter(|line| line.starts_with("MFMT"));
        assert!(times.all(|line| line.ends_with(".part")), "{heard:?}");
    }
}

#[test]
fn an_upload_for_which_there_is_no_room_leaves_nothing() {
    let server = Running::with(|config| config.users[0].quota_bytes = 1_000);
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("x");
    fs::write(&source, noise(2_000)).unwrap();
    let error = put(server.address, &source, "x", options()).unwrap_err();
    assert!(error.to_string().contains("552"), "{error}");
    assert_eq!(names(server.dir.path()), [""; 0]);
    fs::write(&source, noise(500)).unwrap();
    put(server.address, &source, "x", options()).unwrap();
    assert_eq!(server.read("x"), noise(500));
    // Nor does it cost an older file that it was to replace.
    fs::write(&source, noise(2_000)).unwrap();
    for in_place in [false, true] {
        let options = Options {
            in_place,
            ..options()
        };
        put(server.address, &source, "x", options).unwrap_err();
        assert_eq!(server.read("x"), noise(500));
        assert_eq!(names(server.dir.path()), ["x"]);
    }
}

#[test]
fn a_file_that_is_not_there_begins_nothing_here() {
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let error = get(server.address, "none", &here.path().join("x"), options()).unwrap_err();
    assert!(error.to_string().contains(": 550"), "{error}");
    assert_eq!(names(here.path()), Vec::<String>::new());
    let error = put(server.address, &here.path().join("none"), "x", options()).unwrap_err();
    assert!(matches!(error, ClientError::Local { .. }), "{error}");
}

#[test]
fn a_server_that_is_not_there_is_told_at_once() {
    let here = tempfile::tempdir().unwrap();
    let free = fairwind_testing::free_address();
    let begin = Instant::now();
    let error = get(free, "x", &here.path().join("x"), options())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(&format!("no connection to {free}: 127.0.0.1: ")),
        "{error}"
    );
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_server_that_says_nothing_is_named_with_what_was_asked() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let here = tempfile::tempdir().unwrap();
    let impatient = Options {
        patience: Duration::from_millis(300),
        ..options()
    };
    let error = get(address, "x", &here.path().join("x"), impatient).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{address} did not answer the connection within 300ms")
    );
    let server = scripted(Script {
        replies: vec![("PASV", "")],
        ..Script::default()
    });
    // Long enough for the answers that come before.
    let once = Options {
        patience: Duration::from_secs(2),
        retries: 0,
        ..options()
    };
    let error = get(server.address, "x", &here.path().join("x"), once).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{} did not answer PASV within 2s", server.address)
    );
}

/// A file system of this size for this test; `None` without root.
pub(super) fn small_room(size: &str) -> Option<tempfile::TempDir> {
    if !fairwind_testing::permitted(root()) {
        return None;
    }
    let room = tempfile::tempdir().unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"])
        .arg(room.path())
        .status()
        .unwrap();
    assert!(mount.success());
    Some(room)
}

pub(super) fn leave(room: tempfile::TempDir) {
    assert!(
        Command::new("umount")
            .arg(room.path())
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_disk_that_is_full_here_keeps_what_has_come() {
    let Some(room) = small_room("1m") else {
        return;
    };
    let server = Running::start();
    let bytes = noise(3_000_000);
    server.write("x", &bytes);
    let target = room.path().join("x");
    let error = get(server.address, "x", &target, options()).unwrap_err();
    let (names, error) = (names(room.path()), error.to_string());
    let kept = fs::metadata(room.path().join(".x.part")).unwrap().size();
    assert!(
        Command::new("mount")
            .args(["-o", "remount,size=8m"])
            .arg(room.path())
            .status()
            .unwrap()
            .success()
    );
    let got = get(server.address, "x", &target, options());
    let whole = fs::read(&target);
    leave(room);
    assert!(
        error.contains(".x.part: No space left on device"),
        "{error}"
    );
    assert_eq!(names, [".x.part"]);
    assert!((500_000..=1_048_576).contains(&kept), "{kept}");
    assert_eq!(got.unwrap().resumed_at, kept);
    assert!(whole.unwrap() == bytes);
}

#[test]
fn a_disk_that_is_full_there_is_told_and_not_tried_again() {
    if !fairwind_testing::permitted(root()) {
        return;
    }
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = here.path().join("x");
    fs::write(&source, noise(5_000_000)).unwrap();
    let server = Process::start_in_small_room(there.path(), "1m");
    let error = put(server.address, &source, "x", options())
        .unwrap_err()
        .to_string();
    assert!(error.contains("452"), "{error}");
}

#[test]
fn a_server_without_rest_mlsd_epsv_and_checksums_will_do() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(2_000_000);
    fs::create_dir(there.path().join("d")).unwrap();
    fs::write(there.path().join("d/x"), &bytes).unwrap();
    let without = ["REST", "MLSD", "MLST", "EPSV", "EPRT", "FEAT", "MDTM"];
    let faults: Vec<String> = without
        .iter()
        .map(|verb| format!("without={verb}"))
        .collect();
    let mut faults: Vec<&str> = faults.iter().map(String::as_str).collect();
    faults.push("cut=700000");
    let Some(server) = pyftpd(there.path(), &faults) else {
        return;
    };
    let mut from = connection(server.address, "", options());
    let found = tree::remote(&mut from, b"d", here.path()).unwrap();
    assert_eq!(found.files.len(), 1);
    let report = found.files[0].run(&mut from, 0).unwrap();
    assert_eq!(fs::read(here.path().join("x")).unwrap(), bytes);
    assert_eq!(report.checksum, Verification::NotOffered);
    assert_eq!(report.interruptions.len(), 1);
    assert!(report.bytes > 2_000_000, "it began anew: {}", report.bytes);
    let sent = put(server.address, &here.path().join("x"), "d/y", options()).unwrap();
    assert_eq!(fs::read(there.path().join("d/y")).unwrap(), bytes);
    assert_eq!(sent.checksum, Verification::NotOffered);
}

#[test]
fn a_server_without_checksums_fails_where_they_are_required() {
    let server = scripted(Script::default());
    let here = tempfile::tempdir().unwrap();
    let strict = Options {
        checksum: ChecksumPolicy::Required,
        ..options()
    };
    let error = get(server.address, "x", &here.path().join("x"), strict).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{} computes no checksums", server.address)
    );
    assert_eq!(names(here.path()), Vec::<String>::new());
}

#[test]
fn bytes_that_are_not_the_servers_never_look_complete() {
    let server = scripted(Script {
        features: vec!["SIZE", "HASH SHA-256*"],
        replies: vec![(
            "HASH",
            "213 SHA-256 0-6 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad x\r\n",
        )],
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let error = get(server.address, "x", &here.path().join("x"), options()).unwrap_err();
    assert!(matches!(error, ClientError::Differs(_)), "{error}");
    assert!(error.to_string().contains("its SHA-256 is "), "{error}");
    assert_eq!(names(here.path()), Vec::<String>::new());
}

#[test]
fn a_foreign_address_in_the_reply_to_pasv_is_not_connected_to() {
    let server = scripted(Script {
        // A network reserved for documentation: no host has this address.
        passive_address: Some("192,0,2,1"),
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let notes = Arc::new(Notes::default());
    let hearing = Options {
        progress: notes.clone(),
        ..options()
    };
    get(server.address, "x", &here.path().join("x"), hearing).unwrap();
    assert_eq!(fs::read(here.path().join("x")).unwrap(), b"content");
    let notes = notes.0.lock().unwrap();
    assert!(
        notes[0].contains("names 192.0.2.1 for the data connection"),
        "{notes:?}"
    );
}

#[test]
fn names_that_lead_out_of_the_directory_are_refused_in_all_listings() {
    let mlsd = "type=file;size=7;modify=20200101000000; ../../evil\r\n\
                type=dir; ..\r\ntype=dir; /etc\r\ntype=file;size=7; good\r\n";
    let list = "-rw-r--r-- 1 a b 7 Jan 01 2020 ../../evil\r\n\
                drwxr-xr-x 2 a b 7 Jan 01 2020 a/b\r\n-rw-r--r-- 1 a b 7 Jan 01 2020 good\r\n";
    let scripts = [
        Script {
            features: vec!["MLST type*;size*;", "SIZE"],
            listing: mlsd,
            ..Script::default()
        },
        Script {
            listing: list,
            ..Script::default()
        },
        Script {
            listing: "no format that anybody knows\r\n",
            names: Some(b"../../evil\r\n/etc/passwd\r\ngood\r\n"),
            replies: vec![("CWD", "550 No\r\n")],
            ..Script::default()
        },
    ];
    for script in scripts {
        let server = scripted(script);
        let mut connection = connection(server.address, "", options());
        let found = tree::remote(&mut connection, b"", Path::new("here")).unwrap();
        let files: Vec<_> = found
            .files
            .iter()
            .map(|file| file.target.as_path())
            .collect();
        assert_eq!(files, [Path::new("here/good")]);
        assert_eq!(found.directories, [Path::new("here")]);
        assert_eq!(found.refused.len(), 2, "{:?}", found.refused);
        assert!(!server.heard().iter().any(|line| line.contains("evil")));
    }
}

#[test]
fn replies_without_end_are_broken_off() {
    let lines: Vec<u8> = b"220-more\r\n".repeat(1_000_000);
    let one_line = vec![b'x'; 10_000_000];
    for flood in [lines, one_line] {
        let server = scripted(Script {
            before_greeting: flood,
            ..Script::default()
        });
        let mut connection = connection(server.address, "", options());
        let error = connection.session().err().unwrap();
        assert!(!error.is_transient(), "{error}");
        let error = error.to_string();
        assert!(error.ends_with("in answer to the connection"), "{error}");
    }
}

#[test]
fn preliminary_replies_without_end_are_broken_off() {
    let server = scripted(Script {
        replies: vec![("USER", "120 Wait\r\n".repeat(1_000).leak())],
        ..Script::default()
    });
    let error = connection(server.address, "", options()).session().err();
    let error = error.unwrap().to_string();
    assert!(
        error.ends_with("preliminary replies without end, in answer to USER alice"),
        "{error}"
    );
    // One that comes in time each time.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            while stream.write_all(b"120 Wait\r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    });
    let impatient = Options {
        patience: Duration::from_millis(500),
        ..options()
    };
    let begin = Instant::now();
    let error = connection(address, "", impatient).session().err().unwrap();
    assert!(
        error
            .to_string()
            .ends_with("did not answer the connection within 500ms"),
        "{error}"
    );
    assert!(begin.elapsed() < Duration::from_secs(5));
}

/// Runs a transfer with two retries; returns its error and how often `verb` came.
fn given_up(
    script: Script,
    verb: &str,
    transfer: impl FnOnce(std::net::SocketAddr, Options) -> Result<(), ClientError>,
) -> (String, usize) {
    let server = scripted(script);
    let few = Options {
        retries: 2,
        ..options()
    };
    let error = transfer(server.address, few).unwrap_err().to_string();
    let heard = server.heard();
    let attempts = heard.iter().filter(|line| line.starts_with(verb)).count();
    (error, attempts)
}

#[test]
fn bytes_that_move_again_and_again_are_no_progress() {
    let here = tempfile::tempdir().unwrap();
    let half = || Script {
        content: noise(50_000),
        replies: vec![("SIZE", "213 100000\r\n"), ("REST", "502 No\r\n")],
        ..Script::default()
    };
    let (error, attempts) = given_up(half(), "RETR", |address, few| {
        get(address, "x", &here.path().join("x"), few).map(drop)
    });
    assert!(error.contains("ended after 50000 of 100000"), "{error}");
    assert_eq!(attempts, 3);
    let source = here.path().join("y");
    fs::write(&source, noise(100_000)).unwrap();
    // It keeps half of what is sent, whatever is added to that.
    let keeping = Script {
        replies: vec![("SIZE", "213 50000\r\n"), ("REST", "350 Yes\r\n")],
        ..Script::default()
    };
    let (error, attempts) = given_up(keeping, "STOR", |address, few| {
        let few = Options {
            resume: false,
            ..few
        };
        put(address, &source, "y", few).map(drop)
    });
    assert!(error.contains("50000 of 100000 bytes have"), "{error}");
    // The first, the one that found that half had been kept, and two retries.
    assert_eq!(attempts, 4);
}

#[test]
fn a_listing_without_format_is_asked_for_by_names() {
    let server = scripted(Script {
        listing: "GOOD.TXT;1   2/4   1-JAN-2020\r\n",
        names: Some(b"dir/good\r\n"),
        replies: vec![("CWD", "550 No\r\n")],
        ..Script::default()
    });
    let mut connection = connection(server.address, "", options());
    let entries = connection.with(|session| session.list(b"dir")).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (entries[0].name.as_slice(), entries[0].kind),
        (&b"good"[..], Kind::File)
    );
    assert_eq!(entries[0].size, Some(7));
    assert!(server.has_heard("SIZE dir/good"));
}

#[test]
fn a_server_that_sends_more_than_it_announced_is_left_at_once() {
    let server = scripted(Script {
        replies: vec![("SIZE", "213 3\r\n")],
        content: vec![7; 100_000_000],
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let error = get(server.address, "x", &here.path().join("x"), options()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("sends more than the 3 bytes that it announced of x"),
        "{error}"
    );
    assert_eq!(names(here.path()), Vec::<String>::new());
    assert!(!server.has_heard("QUIT"), "{:?}", server.heard());
}

#[test]
fn a_name_that_is_listed_twice_is_fetched_once_and_told() {
    let server = scripted(Script {
        features: vec!["MLST type*;size*;", "SIZE"],
        listing: "type=file;size=7; x\r\ntype=file;size=9; x\r\nno fact\r\n",
        ..Script::default()
    });
    let mut connection = connection(server.address, "", options());
    let found = tree::remote(&mut connection, b"", Path::new("here")).unwrap();
    assert_eq!(found.files.len(), 1);
    assert_eq!(
        found.refused,
        [
            "no fact: the server lists it and does not know it",
            "x: the server lists this name twice"
        ]
    );
}

#[test]
fn a_listing_of_very_many_lines_is_refused_before_it_takes_much_room() {
    let server = scripted(Script {
        features: vec!["MLST type*;size*;", "SIZE"],
        listing: Box::leak("x\n".repeat(1_000_001).into_boxed_str()),
        ..Script::default()
    });
    let mut connection = connection(server.address, "", options());
    let error = connection.with(|session| session.list(b"")).unwrap_err();
    assert!(error.to_string().contains("a million lines"), "{error}");
}

#[test]
fn what_a_server_lists_and_does_not_know_is_told() {
    let server = scripted(Script {
        listing: "no format that anybody knows\r\n",
        names: Some(b"ghost\r\n"),
        replies: vec![("CWD", "550 No\r\n"), ("SIZE", "550 No\r\n")],
        ..Script::default()
    });
    let mut connection = connection(server.address, "", options());
    let found = tree::remote(&mut connection, b"", Path::new("here")).unwrap();
    assert_eq!(
        found.refused,
        ["ghost: the server lists it and does not know it"]
    );
}

#[test]
fn a_directory_that_there_is_no_way_back_from_is_listed_by_its_path() {
    // In Latin-1, which cannot be recovered from a reply.
    let server = scripted(Script {
        listing: "-rw-r--r-- 1 a b 7 Jan 01 2020 x\r\n",
        replies: vec![("PWD", "257 \"/home/Ren\u{fffd}\"\r\n")],
        ..Script::default()
    });
    let mut connection = connection(server.address, "", options());
    let entries = connection.with(|session| session.list(b"pub")).unwrap();
    assert_eq!(entries.len(), 1);
    assert!(server.has_heard("LIST pub"), "{:?}", server.heard());
}

#[test]
fn names_alone_of_which_one_has_the_byte_255_are_listed() {
    let server = scripted(Script {
        listing: "no format that anybody knows\r\n",
        names: Some(b"a\xffb\r\nplain\r\n"),
        ..Script::default()
    });
    let mut connection = connection(server.address, "", options());
    let entries = connection.with(|session| session.list(b"")).unwrap();
    let found: Vec<_> = entries
        .iter()
        .map(|entry| (entry.name.as_slice(), entry.kind))
        .collect();
    let kind = Kind::Directory;
    assert_eq!(found, [(&b"a\xffb"[..], kind), (b"plain", kind)]);
}

#[test]
fn a_file_is_not_deleted_for_one_that_is_not_there() {
    let server = scripted(Script {
        replies: vec![("RNFR", "550 No such file\r\n"), ("DELE", "250 Gone\r\n")],
        ..Script::default()
    });
    let mut connection = connection(server.address, "", options());
    let renamed = connection.with(|session| session.rename(b"missing", b"precious"));
    assert!(
        renamed
            .unwrap_err()
            .to_string()
            .contains("550 No such file")
    );
    assert!(!server.has_heard("DELE"), "{:?}", server.heard());
}

fn storage(source: &Path, remote: &[u8]) -> Storage {
    Storage {
        source: source.to_owned(),
        remote: remote.to_vec(),
        present: None,
    }
}

#[test]
fn a_directory_that_may_not_be_listed_gets_one_probe_and_keeps_none() {
    let server = scripted(Script {
        replies: vec![
            ("LIST", "550 No\r\n"),
            ("NLST", "550 No\r\n"),
            ("DELE", "250 Gone\r\n"),
        ],
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("x");
    fs::write(&source, "x").unwrap();
    let mut connection = connection(server.address, "", options());
    for name in [&b"in/a\xe9"[..], b"in/b\xe9"] {
        let error = storage(&source, name).run(&mut connection, 0).unwrap_err();
        assert!(matches!(error, ClientError::Name(_)), "{error}");
    }
    let said = |verb: &str| {
        let heard = server.heard();
        heard.iter().filter(|line| line.starts_with(verb)).count()
    };
    assert_eq!((said("STOR"), said("DELE")), (1, 1));
}

#[test]
fn a_probe_that_is_refused_for_now_is_tried_again() {
    let server = scripted(Script {
        replies: vec![("STOR", "450 Later\r\n")],
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("x");
    fs::write(&source, "x").unwrap();
    let few = Options {
        retries: 1,
        ..options()
    };
    let mut connection = connection(server.address, "", few);
    let stored = storage(&source, b"a\xe9").run(&mut connection, 0);
    let error = stored.unwrap_err();
    assert!(error.is_transient(), "{error}");
    let heard = server.heard();
    let probes = heard.iter().filter(|line| line.starts_with("STOR"));
    assert_eq!(probes.count(), 2, "{heard:?}");
}
