//! Servers that announce block mode and do not keep to it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::{ChecksumPolicy, Entry, Kind, Options, Outcome, Retrieval};

use super::super::wrong::Notes;
use super::super::{connection, names, options};
use super::fake::{Answer, Asked, Fake, File, hash};
use super::{fetch, workers};
use crate::blocks::{END_OF_FILE, END_OF_RECORD, block, in_blocks};

const RESTART_MARKER: u8 = 16;

const NAMES: [&str; 12] = [
    "f00", "f01", "f02", "f03", "f04", "f05", "f06", "f07", "f08", "f09", "f10", "f11",
];

/// Twelve files of a thousand bytes, each of which says whose it is.
fn files() -> Vec<File> {
    let file = |name: &&str| File {
        name: (*name).to_owned(),
        listed: 999,
        content: name.repeat(333).into_bytes(),
    };
    NAMES.iter().map(file).collect()
}

fn soon() -> Options {
    Options {
        pause: Duration::from_millis(10),
        retries: 2,
        ..options()
    }
}

/// For servers that are waited for in vain.
fn impatient() -> Options {
    Options {
        patience: Duration::from_secs(1),
        ..soon()
    }
}

/// What is wrong is not there under its name; returns what comes.
#[track_caller]
fn of_fake(server: &Fake, count: usize, options: Options) -> (Outcome, Vec<String>) {
    let here = tempfile::tempdir().unwrap();
    let outcome = fetch(server.address, here.path(), count, options);
    let named = right(here.path());
    let told: HashSet<&str> = outcome
        .transfers
        .iter()
        .map(|file| name(&file.source))
        .collect();
    assert_eq!(told.len(), outcome.transfers.len(), "each is told of once");
    assert_eq!(told, named.iter().map(String::as_str).collect());
    assert_eq!(outcome.files + outcome.failures.len(), NAMES.len());
    (outcome, named)
}

fn name(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

/// The files under final names, which have the right bytes.
#[track_caller]
fn right(here: &Path) -> Vec<String> {
    let names = names(here).into_iter();
    let names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    for name in &names {
        let bytes = fs::read(here.join(name)).unwrap();
        assert!(bytes == name.repeat(333).as_bytes(), "{name}");
    }
    names
}

/// A server that does this with the file of this number in block mode.
fn with_one(number: usize, act: impl Fn(Answer) -> Answer + Send + Sync + 'static) -> Fake {
    Fake::start(files(), move |asked, answer| {
        match asked.in_blocks && asked.before == number {
            true => act(answer),
            false => answer,
        }
    })
}

/// All files come, whatever happens to one, with checksums and without.
#[track_caller]
fn all_come(act: impl Fn(Answer) -> Answer + Clone + Send + Sync + 'static) -> Vec<Fake> {
    all_come_to(&soon(), act)
}

#[track_caller]
fn all_come_to(
    options: &Options,
    act: impl Fn(Answer) -> Answer + Clone + Send + Sync + 'static,
) -> Vec<Fake> {
    let mut servers = Vec::new();
    let (offered, off) = (ChecksumPolicy::Offered, ChecksumPolicy::Off);
    for (number, checksum) in [(0, offered), (5, offered), (11, offered), (5, off)] {
        let server = with_one(number, act.clone());
        let options = Options {
            checksum,
            ..options.clone()
        };
        let (outcome, named) = of_fake(&server, 1, options);
        assert_eq!(outcome.failures, [], "{number} {checksum:?}");
        assert_eq!(named, NAMES, "{number} {checksum:?}");
        servers.push(server);
    }
    servers
}

#[test]
fn a_server_that_keeps_to_the_mode_needs_one_data_connection() {
    for server in all_come(|answer| answer) {
        assert_eq!(server.shared_connections(), 1);
        assert_eq!(server.count("RETR"), 12);
    }
}

#[test]
fn blocks_of_any_form_are_read() {
    let server = Fake::start(files(), |asked, answer| {
        let content = &asked.file.content;
        let data = match (asked.in_blocks, asked.before % 4) {
            (false, _) => content.clone(),
            (_, 0) => in_blocks(content, 1),
            (_, 1) => [
                block(RESTART_MARKER, b"0"),
                block(0, &[]),
                block(END_OF_RECORD, &content[..500]),
                block(RESTART_MARKER, b"500"),
                block(0, &content[500..]),
                block(END_OF_FILE, &[]),
            ]
            .concat(),
            (_, 2) => block(END_OF_FILE | END_OF_RECORD, content),
            _ => [block(0, content), block(END_OF_FILE | RESTART_MARKER, b"x")].concat(),
        };
        Answer { data, ..answer }
    });
    let (outcome, _) = of_fake(&server, 1, soon());
    assert_eq!(outcome.verified, 12);
    assert_eq!(server.count("RETR"), 12);
}

/// What comes of all files, whose listing is known already.
fn of_known(server: &Fake, here: &Path, count: usize) -> Outcome {
    let mut from = connection(server.address, "", soon());
    from.session().unwrap();
    let job = |name: &&str| {
        Job::Get(Retrieval {
            remote: name.as_bytes().to_vec(),
            target: here.join(name),
            listed: Some(Entry {
                size: Some(999),
                modified: Some("2020-01-01T00:00:00Z".parse().unwrap()),
                ..Entry::new(name.as_bytes().to_vec(), Kind::File)
            }),
        })
    };
    batch::run(from, NAMES.iter().map(job).collect(), workers(count)).unwrap()
}

#[test]
fn a_server_that_refuses_the_mode_moves_each_file_by_itself() {
    for reply in [
        ("MODE", "504 No\r\n"),
        ("MODE B", "504 No\r\n"),
        ("MODE B", "421 No\r\n"),
        ("MODE B", "nonsense\r\n"),
        ("MODE S", "504 No\r\n"),
        ("OPTS", "501 No\r\n"),
    ] {
        for count in [1, 3] {
            let server = Fake::replying(files(), vec![reply], |_, answer| answer);
            let here = tempfile::tempdir().unwrap();
            let outcome = of_known(&server, here.path(), count);
            assert_eq!((outcome.files, outcome.failures), (12, vec![]), "{reply:?}");
            assert_eq!(right(here.path()), NAMES);
        }
    }
}

#[test]
fn a_server_without_a_port_is_told_of_each_file() {
    for reply in [
        "502 No\r\n",
        "229 Here\r\n",
        "229 Here (|||0|)\r\n",
        "229 Here (|||1|)\r\n",
    ] {
        let server = Fake::replying(files(), vec![("EPSV", reply)], |_, answer| answer);
        let here = tempfile::tempdir().unwrap();
        let outcome = of_known(&server, here.path(), 1);
        assert_eq!((outcome.files, outcome.failures.len()), (0, 12), "{reply}");
        assert_eq!(server.count("MODE B"), 1, "{reply}");
        assert_eq!(names(here.path()), [""; 0]);
    }
}

#[test]
fn a_refused_file_fails_by_itself_and_the_others_come() {
    for reply in ["550 No", "450 Busy", "451 Broken", "530 No", "553 No"] {
        let server = Fake::start(files(), move |asked, answer| {
            match asked.file.name.as_str() {
                "f00" | "f07" | "f11" => Answer::refused(reply),
                _ => answer,
            }
        });
        let (outcome, named) = of_fake(&server, 1, soon());
        assert_eq!((outcome.files, outcome.failures.len()), (9, 3), "{reply}");
        assert_eq!(named.len(), 9);
        for failure in &outcome.failures {
            assert!(failure.error.contains(reply), "{}", failure.error);
        }
        assert_eq!(server.shared_connections(), 1, "{reply}");
    }
}

#[test]
fn a_server_that_refuses_everything_is_told_of_each_file_once() {
    for count in [1, 4] {
        let server = Fake::start(files(), |_, _| Answer::refused("550 No"));
        let (outcome, _) = of_fake(&server, count, soon());
        assert_eq!((outcome.files, outcome.failures.len()), (0, 12));
        // Once with the others and once by itself.
        assert_eq!(server.count("RETR"), 24);
    }
}

#[test]
fn a_server_that_refuses_checksums_is_told_so() {
    let refusing = |asked: &Asked<'_>, answer| Answer {
        hash: match asked.file.name.as_str() {
            "f03" => "450 Not now\r\n".into(),
            _ => "550 Not for you\r\n".into(),
        },
        ..answer
    };
    let (outcome, named) = of_fake(&Fake::start(files(), refusing), 1, soon());
    assert_eq!((outcome.files, outcome.verified), (12, 0));
    assert_eq!(named, NAMES);
    let required = Options {
        checksum: ChecksumPolicy::Required,
        ..soon()
    };
    let (outcome, named) = of_fake(&Fake::start(files(), refusing), 1, required);
    assert_eq!((outcome.files, outcome.failures.len()), (0, 12));
    assert_eq!(named, [""; 0]);
    for failure in &outcome.failures {
        assert!(
            failure.error.contains("there is no SHA-256"),
            "{}",
            failure.error
        );
    }
}

#[test]
fn a_file_with_another_checksum_gets_no_name() {
    let lying = |asked: &Asked<'_>, answer| match asked.file.name.as_str() {
        "f00" | "f05" | "f11" => Answer {
            hash: hash(b"other"),
            ..answer
        },
        _ => answer,
    };
    let (outcome, named) = of_fake(&Fake::start(files(), lying), 1, soon());
    assert_eq!((outcome.files, outcome.failures.len()), (9, 3));
    assert_eq!(named.len(), 9);
    for failure in &outcome.failures {
        assert!(failure.error.contains("is not what"), "{}", failure.error);
    }
    // And where what is wrong is what came.
    let damaging = |asked: &Asked<'_>, answer: Answer| match asked.file.name.as_str() {
        "f00" | "f05" | "f11" => Answer {
            data: match asked.in_blocks {
                true => in_blocks(&[b'x'; 999], 500),
                false => vec![b'x'; 999],
            },
            ..answer
        },
        _ => answer,
    };
    let (outcome, named) = of_fake(&Fake::start(files(), damaging), 1, soon());
    assert_eq!((outcome.files, outcome.failures.len()), (9, 3));
    assert_eq!(named.len(), 9);
}

#[test]
fn a_checksum_that_is_wrong_once_is_asked_for_again() {
    for server in all_come(|answer| Answer {
        hash: hash(b"other"),
        ..answer
    }) {
        assert_eq!(server.shared_connections(), 1);
    }
    all_come(|answer| Answer {
        hash: "213 What?\r\n".into(),
        ..answer
    });
}

#[test]
fn what_is_not_in_blocks_is_asked_for_anew() {
    for garbage in [
        &b"HTTP/1.1 200 OK\r\n\r\nHello"[..],
        &[0x20; 1_000],
        &[0x0f; 1_000],
        &[255; 7],
    ] {
        all_come(|answer| Answer {
            data: garbage.to_vec(),
            ..answer
        });
    }
}

#[test]
fn data_without_end_are_left() {
    let large = block(0, &[b'x'; 65_535]);
    let nothing = [block(0, &[]), block(RESTART_MARKER, b"1")].concat();
    for data in [large, nothing.repeat(5_000)] {
        all_come_to(&impatient(), move |answer| Answer {
            data: data.clone(),
            is_endless: true,
            ..answer
        });
    }
}

#[test]
fn a_file_of_another_length_is_asked_for_anew() {
    for length in [0, 1, 998, 1_000, 3_000, 200_000] {
        let content: Vec<u8> = b"f00".iter().copied().cycle().take(length).collect();
        all_come(move |answer| Answer {
            data: in_blocks(&content, 700),
            ..answer
        });
    }
}

#[test]
fn a_data_connection_that_is_closed_early_is_replaced() {
    for length in [0, 2, 500, 1_001] {
        for ending in ["250 That was it\r\n", "426 Broken\r\n"] {
            let servers = all_come(move |answer| Answer {
                data: answer.data[..length].to_vec(),
                closes: true,
                ending: ending.into(),
                ..answer
            });
            for server in servers {
                // Two more at the most, each with all that are left.
                assert!(server.shared_connections() <= 3);
            }
        }
    }
}

#[test]
fn a_data_connection_that_is_closed_between_two_files_is_replaced() {
    for server in all_come(|answer| Answer {
        closes: true,
        ..answer
    }) {
        assert!(server.alone() <= 1, "{}", server.alone());
        assert!(server.shared_connections() <= 2);
    }
}

#[test]
fn a_server_that_hangs_up_is_gone_on_with() {
    for length in [0, 500, 1_002] {
        all_come(move |answer| Answer {
            data: answer.data[..length].to_vec(),
            hangs_up: true,
            ..answer
        });
    }
    all_come(|answer| Answer {
        ending: "421 Good night\r\n".into(),
        ..answer
    });
    all_come(|_| Answer {
        opening: "421 Good night\r\n".into(),
        ..Answer::default()
    });
}

#[test]
fn replies_that_are_missing_are_waited_for_no_longer_than_others() {
    let begin = Instant::now();
    all_come_to(&impatient(), |answer| Answer {
        ending: String::new(),
        ..answer
    });
    all_come_to(&impatient(), |answer| Answer {
        hash: String::new(),
        ..answer
    });
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn replies_too_many_give_no_file_the_name_of_another() {
    let twice = "250 That was it\r\n250 That was it\r\n";
    for ending in [
        twice,
        "150 More\r\n250 That was it\r\n",
        "250 That was it\r\n226 Closing\r\n150 Here\r\n",
        "nonsense\r\n",
    ] {
        all_come(move |answer| Answer {
            ending: ending.into(),
            ..answer
        });
    }
    all_come(|answer| Answer {
        opening: "150 Here\r\n150 it comes\r\n".into(),
        ..answer
    });
    all_come(|answer| Answer {
        hash: answer.hash.repeat(2),
        ..answer
    });
}

#[test]
fn a_server_that_breaks_off_always_is_tried_no_more_often_than_for_a_file_alone() {
    for is_alone_too in [false, true] {
        let server = Fake::start(files(), move |asked, answer| {
            match asked.in_blocks || is_alone_too {
                true => Answer {
                    data: answer.data[..500].to_vec(),
                    hangs_up: true,
                    ..answer
                },
                false => answer,
            }
        });
        let notes = Arc::new(Notes::default());
        let options = Options {
            progress: notes.clone(),
            ..soon()
        };
        let (outcome, _) = of_fake(&server, 1, options);
        let failed = if is_alone_too { 12 } else { 0 };
        assert_eq!(outcome.failures.len(), failed);
        assert_eq!(server.shared_connections(), 1, "no file came");
        let notes = notes.0.lock().unwrap();
        let shared = notes
            .iter()
            .filter(|note| note.contains("another connection"));
        assert_eq!(shared.count(), 1, "{notes:?}");
    }
}
