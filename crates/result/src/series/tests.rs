use std::fs;
use std::path::Path;

use fairwind_instruments::layout::TIME;
use fairwind_instruments::{CongestionState, INSTRUMENTS, Instrument, Instruments};

use super::columns::{FLOW, FLOW_COLUMNS, LINK, LINK_COLUMNS};
use super::reader::scan;
use super::*;
use crate::record::{FlowSample, LinkSample, Recorder};
use crate::{FLOWS_FILE, LINKS_FILE};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn sample() -> FlowSample {
    FlowSample {
        time_ns: 1_500_000_000,
        connection: 1,
        instruments: Instruments {
            cur_cwnd: 2,
            cur_ssthresh: None,
            smoothed_rtt_us: Some(4),
            cur_rto_us: 5,
            sample_rtt_us: Some(6),
            min_rtt_us: Some(7),
            rtt_var_us: 8,
            pipe_size: 9,
            cur_rwin_rcvd: 10,
            hc_thru_octets_acked: 11,
            segs_retrans: 12,
            timeouts: 13,
            cong_signals: 14,
            cur_receive_buffer: 15,
            snd_lim_time_rwin_us: 16,
            snd_lim_time_cwnd_us: 17,
            snd_lim_time_snd_us: 18,
            pacing_rate: Some(u64::MAX),
            delivery_rate: 20,
            congestion_state: CongestionState::Recovery,
            ecn_signals: 21,
            bytes_received: 22,
        },
    }
}

type Rows = Vec<(f64, usize, Vec<Option<i64>>)>;

fn rows(path: &Path, name_column: &str, names: &[&str], columns: &[&str]) -> Rows {
    let mut rows = Vec::new();
    scan(path, name_column, names, columns, |row| {
        rows.push((row.time_s, row.name, row.values.to_vec()));
    })
    .unwrap();
    rows
}

#[test]
fn every_column_of_a_flow_sample_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = ParquetRecorder::create(folder.path(), &names(&["one"]), &[]).unwrap();
    recorder.flow(0, &sample());
    recorder.finish().unwrap();
    let columns = FLOW_COLUMNS.map(|column| column.name);
    let expected = [
        Some(1),
        Some(2),
        None,
        Some(4),
        Some(5),
        Some(6),
        Some(7),
        Some(8),
        Some(9),
        Some(10),
        Some(11),
        Some(12),
        Some(13),
        Some(14),
        Some(15),
        Some(16),
        Some(17),
        Some(18),
        Some(i64::MAX),
        Some(20),
        Some(3),
        Some(21),
        Some(22),
    ];
    assert_eq!(
        rows(&folder.path().join(FLOWS_FILE), FLOW, &["one"], &columns),
        [(1.5, 0, expected.to_vec())]
    );
}

#[test]
fn every_column_of_a_link_sample_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder =
        ParquetRecorder::create(folder.path(), &[], &names(&["up", "down"])).unwrap();
    let sample = LinkSample {
        time_ns: 250_000_000,
        queue_packets: 3,
        queue_bytes: 4_500,
        drops: 1,
        bytes: 1_000_000,
    };
    recorder.link(1, &sample);
    recorder.finish().unwrap();
    let columns = LINK_COLUMNS.map(|column| column.name);
    assert_eq!(
        rows(
            &folder.path().join(LINKS_FILE),
            LINK,
            &["up", "down"],
            &columns
        ),
        [(
            0.25,
            1,
            vec![Some(3), Some(4_500), Some(1), Some(1_000_000)]
        )]
    );
}

#[test]
fn rows_beyond_a_row_group_keep_their_order_and_their_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = ParquetRecorder::create(folder.path(), &names(&["a", "b"]), &[]).unwrap();
    for n in 0..150_000_u64 {
        let mut sample = sample();
        sample.time_ns = n * 1_000_000;
        sample.instruments.cur_cwnd = n;
        sample.instruments.cur_ssthresh = (n % 3 == 0).then_some(n);
        recorder.flow((n % 2) as usize, &sample);
    }
    recorder.finish().unwrap();
    let read = rows(
        &folder.path().join(FLOWS_FILE),
        FLOW,
        &["b", "a"],
        &["CurSsthresh", "CurCwnd"],
    );
    assert_eq!(read.len(), 150_000);
    for (n, (time_s, name, values)) in read.into_iter().enumerate() {
        let number = n as i64;
        assert_eq!(time_s, n as f64 / 1e3);
        assert_eq!(name, 1 - n % 2);
        assert_eq!(values, [(n % 3 == 0).then_some(number), Some(number)]);
    }
}

#[test]
fn names_not_asked_for_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = ParquetRecorder::create(folder.path(), &names(&["a", "b"]), &[]).unwrap();
    recorder.flow(0, &sample());
    recorder.flow(1, &sample());
    recorder.finish().unwrap();
    let path = folder.path().join(FLOWS_FILE);
    assert_eq!(rows(&path, FLOW, &["b"], &[]), [(1.5, 0, vec![])]);
}

#[test]
fn the_same_samples_give_the_same_bytes() {
    let write = || {
        let folder = tempfile::tempdir().unwrap();
        let mut recorder = ParquetRecorder::create(folder.path(), &names(&["a"]), &[]).unwrap();
        for n in 0..1_000 {
            let mut sample = sample();
            sample.time_ns = n * 10_000_000;
            recorder.flow(0, &sample);
        }
        recorder.finish().unwrap();
        fs::read(folder.path().join(FLOWS_FILE)).unwrap()
    };
    assert_eq!(write(), write());
}

#[test]
fn a_run_without_samples_leaves_readable_empty_series() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = ParquetRecorder::create(folder.path(), &names(&["a"]), &[]).unwrap();
    recorder.finish().unwrap();
    let path = folder.path().join(FLOWS_FILE);
    assert_eq!(rows(&path, FLOW, &["a"], &["CurCwnd"]), []);
}

#[test]
fn a_file_without_its_end_is_not_a_series() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FLOWS_FILE);
    fs::write(&path, b"PAR1 and then nothing").unwrap();
    let error = scan(&path, FLOW, &[], &[], |_| {}).unwrap_err().to_string();
    assert!(error.contains("flows.parquet: not a series"), "{error}");
}

#[test]
fn a_sample_of_an_unknown_flow_is_an_error_of_the_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = ParquetRecorder::create(folder.path(), &names(&["a"]), &[]).unwrap();
    recorder.flow(1, &sample());
    assert!(recorder.failed());
    let error = recorder.finish().unwrap_err().to_string();
    assert!(
        error.ends_with("flows.parquet: sample of number 1, but there are 1"),
        "{error}"
    );
}

#[test]
fn every_column_is_documented() {
    let names = FLOW_COLUMNS.iter().chain(&LINK_COLUMNS).map(|c| c.name);
    for name in names.chain([TIME, FLOW, LINK]) {
        assert!(DOCUMENT.contains(&format!("\n| `{name}` |")), "{name}");
    }
}

#[test]
fn the_document_holds_the_table_of_the_instruments() {
    let (_, document) = DOCUMENT.split_once("\n| `connection` |").unwrap();
    let rows = document.lines().skip(1);
    let rows = rows.take_while(|line| line.starts_with("| `"));
    let expected: Vec<String> = INSTRUMENTS.iter().map(documented).collect();
    assert!(
        rows.eq(expected.iter().map(String::as_str)),
        "docs/reference/result-files.md should have:\n{}",
        expected.join("\n")
    );
}

const DOCUMENT: &str = include_str!("../../../../docs/reference/result-files.md");

/// An instrument's row in the document.
fn documented(instrument: &Instrument) -> String {
    let unit = match instrument.unit {
        "" => String::new(),
        "us" => "µs ".to_owned(),
        unit => format!("{unit} "),
    };
    let object = match instrument.rfc4898 {
        Some(name) => format!("`{name}`"),
        None => "none".to_owned(),
    };
    let Instrument { name, meaning, .. } = instrument;
    format!("| `{name}` | {unit}| {object} | {meaning} |")
}

mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use fairwind_trace::file;
    use proptest::prelude::*;

    use super::*;

    /// A file of two flows with a gap in one column.
    fn example() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let flows = names(&["one", "two"]);
        let mut recorder = ParquetRecorder::create(folder.path(), &flows, &[]).unwrap();
        for n in 0..50 {
            let mut sample = sample();
            sample.time_ns = n * 1_000_000;
            sample.instruments.cur_ssthresh = (n > 20).then_some(n);
            recorder.flow(n as usize % 2, &sample);
        }
        recorder.finish().unwrap();
        fs::read(folder.path().join(FLOWS_FILE)).unwrap()
    }

    proptest! {
        #![proptest_config(cases(64))]

        #[test]
        fn a_damaged_file_is_read_or_refused(bytes in damaged(&[example()])) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(FLOWS_FILE);
            fs::write(&path, bytes).unwrap();
            let _ = scan(&path, FLOW, &["one"], &["CurCwnd", "CurSsthresh"], |_| {});
            let _ = file::connection(&path);
            let _ = file::times(&path);
            let _ = file::series(&path, "CurSsthresh");
            let _ = file::write_csv(&path, &mut std::io::sink());
        }
    }
}
