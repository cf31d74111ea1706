//! A trace into files, and its pace.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::common::{connection, in_own_network, netns, privileged, program};
use fairwind_trace::file::{self, CONTROL, TIME, write_csv};
use fairwind_trace::filter::Filter;
use fairwind_trace::instrument::INSTRUMENTS;
use fairwind_trace::kernel::Options;
use fairwind_trace::record::{INDEX_FILE, Index, Recorder};
use fairwind_trace::session::Session;

fn here(every_ack: bool) -> Options {
    Options {
        filter: Filter {
            namespaces: vec![netns()],
            ..Filter::default()
        },
        every_ack,
        ..Options::default()
    }
}

/// Runs the session for some steps and records what comes.
fn record(session: &mut Session, recorder: &mut Recorder, until: impl Fn(&Recorder) -> bool) {
    for _ in 0..5000 {
        session
            .step(|event| recorder.event(event).unwrap())
            .unwrap_or_else(|error| panic!("{error}"));
        if until(recorder) {
            return;
        }
    }
    panic!("did not come to its end");
}

fn csv(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let mut bytes = Vec::new();
    write_csv(path, &mut bytes).unwrap().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = text
        .lines()
        .map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    (lines.next().unwrap(), lines.collect())
}

#[test]
fn each_connection_has_its_file_from_beginning_to_end() {
    if !privileged() {
        return;
    }
    in_own_network(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::create(folder.path()).unwrap();
        let mut session = Session::start(&here(true), None).unwrap();
        for bytes in [1000, 3_000_000] {
            let (mut stream, mut peer) = connection("127.0.0.1:0");
            let writer = thread::spawn(move || {
                stream.write_all(&vec![1; bytes]).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                stream
            });
            peer.read_to_end(&mut Vec::new()).unwrap();
            drop((writer.join().unwrap(), peer));
        }
        record(&mut session, &mut recorder, |r| {
            r.seen() == 4 && r.open() == 0
        });
        let (counts, manner) = session
            .finish(|event| recorder.event(event).unwrap())
            .unwrap();
        let index = recorder.finish(&counts, &manner).unwrap();

        let text = fs::read_to_string(folder.path().join(INDEX_FILE)).unwrap();
        assert_eq!(serde_json::from_str::<Index>(&text).unwrap(), index);
        assert_eq!(index.connections.len(), 4);
        assert_eq!(index.lost, 0);
        // Four files and the index, none half written.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
        for (connection, bytes) in index
            .connections
            .iter()
            .zip([1000, 1000, 3_000_000, 3_000_000])
        {
            assert!(connection.ended && !connection.began_before);
            assert_eq!(connection.netns, netns());
            assert_eq!(connection.program, Some(program()));
            assert_eq!(connection.congestion_controls.len(), 1);
            let path = folder.path().join(&connection.file);
            assert_eq!(&file::connection(&path).unwrap(), connection);
            let (names, rows) = csv(&path);
            let mut expected = vec![TIME];
            expected.extend(INSTRUMENTS.iter().map(|instrument| instrument.name));
            expected.push(CONTROL);
            assert_eq!(names, expected);
            assert_eq!(rows.len() as u64, connection.samples);
            let value = |row: &Vec<String>, name: &str| {
                row[names.iter().position(|n| n == name).unwrap()].clone()
            };
            let last = rows.last().unwrap();
            assert_eq!(value(last, "State"), "7");
            assert_eq!(value(last, CONTROL), connection.congestion_controls[0]);
            match connection.incoming {
                // SYN and FIN count, and at the other end the FIN.
                Some(false) => {
                    assert_eq!(value(last, "HCThruOctetsAcked"), (bytes + 2).to_string())
                }
                _ => assert_eq!(value(last, "HCThruOctetsReceived"), (bytes + 1).to_string()),
            }
            let times: Vec<f64> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
            assert!(times.is_sorted(), "{times:?}");
        }
    });
}

#[test]
fn an_interval_gives_a_sample_each_time_or_is_counted_as_late() {
    if !privileged() {
        return;
    }
    in_own_network(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::create(folder.path()).unwrap();
        let _pair = connection("127.0.0.1:0");
        let interval = Duration::from_millis(1);
        let mut session = Session::start(&here(false), Some(interval)).unwrap();
        record_for(&mut session, &mut recorder, Duration::from_millis(500));
        let (counts, manner) = session
            .finish(|event| recorder.event(event).unwrap())
            .unwrap();
        let index = recorder.finish(&counts, &manner).unwrap();
        assert_eq!(index.connections.len(), 2);
        assert_eq!(index.interval_s, Some(0.001));
        for connection in &index.connections {
            assert!(connection.began_before && !connection.ended);
            // One at the beginning and one at the end are not of the interval.
            let intervals = connection.samples - 2 + index.late_intervals;
            let expected = index.duration_s / 0.001;
            assert!(
                (intervals as f64 - expected).abs() < 20.0,
                "{intervals} of {expected}"
            );
            assert!(connection.samples > 50, "{}", connection.samples);
        }
    });
}

fn record_for(session: &mut Session, recorder: &mut Recorder, time: Duration) {
    while session.elapsed() < time {
        session
            .step(|event| recorder.event(event).unwrap())
            .unwrap();
    }
}

#[test]
fn a_folder_that_holds_something_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine"), "").unwrap();
    let error = Recorder::create(folder.path()).err().unwrap().to_string();
    assert!(
        error.ends_with("the folder is not empty; name a new one"),
        "{error}"
    );
}

#[test]
fn another_file_is_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    fs::write(&path, "no trace").unwrap();
    let error = write_csv(&path, &mut Vec::new()).err().unwrap().to_string();
    assert!(error.contains("text: not a trace: "), "{error}");
}
