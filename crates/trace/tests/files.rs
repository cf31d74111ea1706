//! Traces into files, and their pace.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::common::{
    connection, in_new_network_namespace, netns, privileged, program, set_control,
};
use fairwind_cc::{kernel, native};
use fairwind_trace::control_state::ControlState;
use fairwind_trace::file::layout::TIME;
use fairwind_trace::file::{self, CONTROL, Columns, write_csv};
use fairwind_trace::filter::Filter;
use fairwind_trace::instrument::{INSTRUMENTS, find};
use fairwind_trace::kernel::Options;
use fairwind_trace::plan::Plan;
use fairwind_trace::record::{INDEX_FILE, Index, Limits, Recorder, WhenFull};
use fairwind_trace::session::Session;
use tempfile::TempDir;

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

fn recorder(folder: &Path) -> Recorder {
    Recorder::create(folder, Columns::default(), Limits::default()).unwrap()
}

/// Runs and records the session until `until` holds, for at most 5000 steps.
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
    in_new_network_namespace(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(folder.path());
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
        let (index, _) = recorder.finish(&counts, &manner).unwrap();

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
                // SYN and FIN count as bytes; at the receiver only the FIN does.
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
    in_new_network_namespace(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = recorder(folder.path());
        let _pair = connection("127.0.0.1:0");
        let interval = Duration::from_millis(1);
        let mut session = Session::start(&here(false), Some(interval)).unwrap();
        record_for(&mut session, &mut recorder, Duration::from_millis(500));
        let (counts, manner) = session
            .finish(|event| recorder.event(event).unwrap())
            .unwrap();
        let (index, _) = recorder.finish(&counts, &manner).unwrap();
        assert_eq!(index.connections.len(), 2);
        assert_eq!(index.interval_s, Some(0.001));
        for connection in &index.connections {
            assert!(connection.began_before && !connection.ended);
            // One sample at the start and one at the end do not belong to the interval.
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
    let error = Recorder::create(folder.path(), Columns::default(), Limits::default())
        .err()
        .unwrap()
        .to_string();
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

/// A congestion control under a name that only this test uses.
fn with_control(name: &str, control: &str) -> kernel::Loaded {
    let parameters = native::find(control).unwrap().default_parameters();
    kernel::load_as(&parameters, name).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_state_of_our_own_controls_has_columns() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let _loaded = with_control("fw_sfsack_trc", "sfsack");
        let states = ["cubic", "sfsack"].map(|control| {
            let object = kernel::object(control).unwrap();
            ControlState::of_object(control, object).unwrap()
        });
        let columns = Columns {
            instruments: vec![find("CurCwnd").unwrap()],
            states: states.into(),
        };
        let folder = tempfile::tempdir().unwrap();
        let mut options = here(true);
        options.control_state = true;
        let mut recorder = Recorder::create(folder.path(), columns, Limits::default()).unwrap();
        let mut session = Session::start(&options, None).unwrap();
        let (mut stream, mut peer) = connection("127.0.0.1:0");
        set_control(&stream, "fw_sfsack_trc");
        let writer = thread::spawn(move || {
            stream.write_all(&vec![1; 300_000]).unwrap();
            set_control(&stream, "reno");
            stream.write_all(&vec![1; 300_000]).unwrap();
        });
        peer.read_to_end(&mut Vec::new()).unwrap();
        writer.join().unwrap();
        drop(peer);
        record(&mut session, &mut recorder, |r| {
            r.seen() == 2 && r.open() == 0
        });
        let (counts, manner) = session
            .finish(|event| recorder.event(event).unwrap())
            .unwrap();
        let (index, _) = recorder.finish(&counts, &manner).unwrap();
        let sender = &index.connections[0];
        assert_eq!(sender.congestion_controls[1..], ["fw_sfsack_trc", "reno"]);
        let (names, rows) = csv(&folder.path().join(&sender.file));
        assert_eq!(names[..3], ["time_s", "CurCwnd", "cubic_cnt"]);
        let column = |name: &str| names.iter().position(|n| n == name).unwrap();
        let (control, window) = (column(CONTROL), column("sfsack_window"));
        let of = |name: &'static str| rows.iter().filter(move |row| row[control] == name).cloned();
        let own: Vec<_> = of("fw_sfsack_trc").collect();
        assert!(!own.is_empty());
        // init notes the initial window of ten packets, and no packet is lost.
        assert!(own.iter().all(|row| row[window] == "10"), "{:?}", own[0]);
        assert!(own.iter().all(|row| row[column("sfsack_dropped")] == "0"));
        assert!(rows.iter().all(|row| row[column("cubic_w_max")].is_empty()));
        assert!(of("reno").count() > 0);
        assert!(of("reno").all(|row| row[window].is_empty()));
    });
}

/// Connections that end one after the other, traced within limits.
fn traced_within(limits: Limits, connections: usize) -> (TempDir, Index) {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        options: here(false),
        interval: Some(Duration::from_millis(10)),
        folder: folder.path().join("trace"),
        columns: Columns::default(),
        limits,
    };
    let mut running = plan.start().unwrap_or_else(|error| panic!("{error}"));
    for _ in 0..connections {
        drop(connection("127.0.0.1:0"));
        running.step(|_| {}).unwrap();
    }
    let (index, failed) = running.finish(|_| {}).unwrap();
    assert!(failed.is_empty(), "{failed:?}");
    (folder, index)
}

fn files(folder: &TempDir) -> usize {
    let entries = fs::read_dir(folder.path().join("trace")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".parquet")).count()
}

#[test]
fn the_oldest_files_make_room_for_new_ones() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let limits = Limits {
            connections: 4,
            when_full: WhenFull::RemoveOldest,
            ..Limits::default()
        };
        let (folder, index) = traced_within(limits, 6);
        // Each connection has two traced ends.
        assert_eq!((index.connections.len(), files(&folder)), (4, 4));
        assert_eq!((index.removed, index.unrecorded), (8, 0));
        assert!(index.connections[0].file.starts_with("00009_"));
    });
}

#[test]
fn what_finds_no_room_is_left_out_and_counted() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let few = Limits {
            connections: 3,
            ..Limits::default()
        };
        let (folder, index) = traced_within(few, 4);
        assert_eq!((index.connections.len(), files(&folder)), (3, 3));
        assert_eq!((index.removed, index.unrecorded), (0, 5));

        // As on a disk with less free space than must stay free.
        let full = Limits {
            free_bytes: u64::MAX / 2,
            ..Limits::default()
        };
        let (folder, index) = traced_within(full, 1);
        assert_eq!(files(&folder), 2);
        assert!(index.unwritten >= 4, "{}", index.unwritten);
        for connection in &index.connections {
            assert_eq!(connection.samples, 0);
            let path = folder.path().join("trace").join(&connection.file);
            assert_eq!(csv(&path).1.len(), 0);
        }
    });
}

#[test]
fn a_trace_in_the_background_sees_what_happens_until_its_end() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            options: here(true),
            folder: folder.path().to_owned(),
            ..Plan::default()
        };
        let background = plan.clone().in_background();
        let background = background.unwrap_or_else(|error| panic!("{error}"));
        let _pair = connection("127.0.0.1:0");
        let (index, _) = background.finish().unwrap();
        assert!(index.complete && index.every_ack);
        assert_eq!(index.connections.len(), 2);
        let again = plan.in_background().err().unwrap().to_string();
        assert!(again.ends_with("the folder is not empty; name a new one"));
    });
}
