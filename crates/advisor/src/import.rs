//! Imports recordings of available bandwidth: CSV files with a header.
//!
//! | columns | meaning |
//! |---|---|
//! | `time` (also `timestamp`, `unix_time`, `unix_time_utc`) | Unix seconds or milliseconds, or RFC 3339 |
//! | `available_mbps` | available bandwidth |
//! | `used_mbps`, `capacity_mbps` | traffic and capacity; the difference is available |
//! | `octets` (also `in_octets`, `out_octets`), `capacity_mbps` | router counter (RFC 2863); its growth is traffic |
//!
//! The capacity may also be given as an option. Other columns are ignored. A file may be compressed with
//! gzip. Readings of a counter must be in order of time.

mod counter;

use std::io::{BufRead, BufReader, Read};

use fairwind_advice::Sample;
use flate2::bufread::MultiGzDecoder;
use jiff::Timestamp;
use thiserror::Error;

use counter::{Counter, Growth};

/// Information that a file may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImportOptions {
    /// Capacity if the file has no such column, Mbit/s.
    pub capacity_mbps: Option<f64>,
    /// Width of the counter in bits, 32 or 64; by default 64 if a value needs it, else 32.
    pub counter_bits: Option<u32>,
}

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// In the order of the file, not validated.
    pub samples: Vec<Sample>,
    /// Number of intervals in which a counter was reset, of which nothing is known.
    pub resets: u64,
}

/// Why a file cannot be imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A counter cannot have this width.
    #[error("{0}")]
    Counter(String),
    /// A line is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// Line number, counted from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The file cannot be read as CSV.
    #[error("{0}")]
    Csv(#[from] csv::Error),
}

/// The first bytes of a gzip file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads a recording from a file.
pub fn read(file: impl Read, options: &ImportOptions) -> Result<Recording, ImportError> {
    let mut file = BufReader::new(file);
    match file.fill_buf()?.starts_with(&GZIP) {
        true => read_text(MultiGzDecoder::new(file), options),
        false => read_text(file, options),
    }
}

fn read_text(file: impl Read, options: &ImportOptions) -> Result<Recording, ImportError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(file);
    let columns = Columns::find(reader.headers()?, options)?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = columns.row(&record, line, options);
        rows.push(row.map_err(|problem| ImportError::Line { line, problem })?);
    }
    if let What::Octets(_) = columns.what {
        return counted(&rows, options);
    }
    let samples = rows.iter().map(|row| Sample {
        time: row.time,
        available_mbps: row.available_mbps,
    });
    Ok(Recording {
        samples: samples.collect(),
        resets: 0,
    })
}

/// The positions of the columns.
struct Columns {
    time: usize,
    what: What,
    capacity: Option<usize>,
}

#[derive(Clone, Copy)]
enum What {
    Available(usize),
    Used(usize),
    Octets(usize),
}

struct Row {
    line: u64,
    time: Timestamp,
    available_mbps: f64,
    /// The counter's value; a double cannot hold 64 bits.
    octets: u64,
    capacity_mbps: f64,
}

impl Columns {
    fn find(header: &csv::StringRecord, options: &ImportOptions) -> Result<Columns, ImportError> {
        let column = |names: &[&str]| {
            let matches = |field: &str| names.iter().any(|name| field.eq_ignore_ascii_case(name));
            header.iter().position(matches)
        };
        let missing = |what: &str| {
            let there: Vec<&str> = header.iter().collect();
            ImportError::Line {
                line: 1,
                problem: format!("{what}; the columns are: {}", there.join(", ")),
            }
        };
        let time = column(&["time", "timestamp", "unix_time", "unix_time_utc"])
            .ok_or_else(|| missing("a column \"time\" is needed"))?;
        let what = column(&["available_mbps"])
            .map(What::Available)
            .or_else(|| column(&["used_mbps"]).map(What::Used))
            .or_else(|| column(&["octets", "in_octets", "out_octets"]).map(What::Octets))
            .ok_or_else(|| missing("available_mbps, used_mbps or octets is needed"))?;
        let capacity = column(&["capacity_mbps"]);
        let needs_capacity = !matches!(what, What::Available(_));
        if needs_capacity && capacity.is_none() && options.capacity_mbps.is_none() {
            return Err(missing(
                "the capacity is needed, as a column capacity_mbps or as --capacity",
            ));
        }
        Ok(Columns {
            time,
            what,
            capacity,
        })
    }

    fn row(
        &self,
        record: &csv::StringRecord,
        line: u64,
        options: &ImportOptions,
    ) -> Result<Row, String> {
        let field = |at: usize| record.get(at).unwrap_or("");
        let capacity_mbps = match self.capacity {
            Some(at) => number(field(at))?,
            None => options.capacity_mbps.unwrap_or(f64::NAN),
        };
        let time = time(field(self.time))?;
        let octets = |text: &str| {
            let octets = text.parse();
            octets.map_err(|_| format!("{text:?} is not a number of octets"))
        };
        let (available_mbps, octets) = match self.what {
            What::Available(at) => (number(field(at))?, 0),
            What::Used(at) => (left(capacity_mbps, number(field(at))?), 0),
            What::Octets(at) => (f64::NAN, octets(field(at))?),
        };
        Ok(Row {
            line,
            time,
            available_mbps,
            octets,
            capacity_mbps,
        })
    }
}

/// From this number on, which as seconds is the year 5138, a Unix time is in milliseconds; as milliseconds it
/// is 1973.
const SECONDS_BELOW: f64 = 1e11;

/// Unix seconds or milliseconds, whole or not, or RFC 3339.
fn time(text: &str) -> Result<Timestamp, String> {
    let wrong = || {
        format!(
            "{text:?} is neither Unix seconds nor milliseconds nor a time such as \
             2026-03-02T14:00:00Z"
        )
    };
    let microseconds = |number: f64| {
        let time = Timestamp::from_microsecond(number.round() as i64);
        time.map_err(|_| wrong())
    };
    match text.parse::<f64>() {
        Ok(seconds) if seconds.abs() < SECONDS_BELOW => microseconds(seconds * 1e6),
        Ok(milliseconds) if milliseconds.abs() < SECONDS_BELOW * 1e3 => {
            microseconds(milliseconds * 1e3)
        }
        Ok(_) => Err(wrong()),
        Err(_) => text.parse().map_err(|_| wrong()),
    }
}

/// An empty field is a failed test: it becomes NaN, which is refused and counted later.
fn number(text: &str) -> Result<f64, String> {
    match text {
        "" => Ok(f64::NAN),
        _ => text
            .parse()
            .map_err(|_| format!("{text:?} is not a number")),
    }
}

/// What traffic leaves. Traffic above capacity is measurement noise. NaN and negative traffic are passed on to
/// be refused; `f64::max` would turn NaN into 0.
fn left(capacity_mbps: f64, used_mbps: f64) -> f64 {
    if used_mbps >= 0.0 {
        (capacity_mbps - used_mbps).clamp(0.0, f64::INFINITY)
    } else {
        used_mbps
    }
}

fn counted(rows: &[Row], options: &ImportOptions) -> Result<Recording, ImportError> {
    let wide = rows.iter().any(|row| row.octets > u64::from(u32::MAX));
    let bits = options.counter_bits.unwrap_or(if wide { 64 } else { 32 });
    let counter = Counter::new(bits).map_err(ImportError::Counter)?;
    let mut recording = Recording::default();
    for pair in rows.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        if after.time < before.time {
            return Err(out_of_order(rows, after));
        }
        let seconds = after.time.duration_since(before.time).as_secs_f64();
        let capacity = after.capacity_mbps;
        match counter.growth(before.octets, after.octets, seconds, capacity) {
            Growth::Mbps(used) => recording.samples.push(Sample {
                time: after.time,
                available_mbps: (capacity - used).max(0.0),
            }),
            Growth::Reset => recording.resets += 1,
            Growth::Ambiguous => {
                let longest = counter.longest_interval_s(capacity);
                let problem = format!(
                    "a {bits}-bit counter of {capacity} Mbit/s turns over every {longest:.0} s, and \
                     the reading before is {seconds:.0} s older: read ifHCInOctets (64 bits) instead"
                );
                return Err(ImportError::Line {
                    line: after.line,
                    problem,
                });
            }
        }
    }
    Ok(recording)
}

fn out_of_order(rows: &[Row], row: &Row) -> ImportError {
    let newest_first = rows.windows(2).all(|pair| pair[1].time <= pair[0].time);
    let problem = if newest_first {
        "the newest reading comes first: a counter is read from the oldest on, turn the lines below the \
         header round (tac)"
    } else {
        "the reading is older than the one before: a counter is read in order of time, sort the lines \
         below the header"
    };
    ImportError::Line {
        line: row.line,
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read_text(text: &str, capacity_mbps: Option<f64>) -> Result<Vec<(i64, f64)>, String> {
        let options = ImportOptions {
            capacity_mbps,
            counter_bits: None,
        };
        let recording = read(text.as_bytes(), &options).map_err(|error| error.to_string())?;
        let pairs = recording.samples.iter();
        Ok(pairs
            .map(|s| (s.time.as_second(), s.available_mbps))
            .collect())
    }

    #[test]
    fn available_bandwidth_is_read_as_it_stands() {
        let text = "unix_time_utc,available_mbps\n1078099200,45.521\n1078099500.0,45.42\n";
        let expected = vec![(1_078_099_200, 45.521), (1_078_099_500, 45.42)];
        assert_eq!(read_text(text, None).unwrap(), expected);
        let text = "x, Time, Available_Mbps\n1,2004-03-01T00:00:00Z,45.521\n2,2004-03-01T01:05:00+01:00,45.42\n";
        assert_eq!(read_text(text, None).unwrap(), expected);
    }

    #[test]
    fn traffic_leaves_the_rest_of_the_capacity() {
        let text = "time,used_mbps\n0,30\n300,110\n";
        assert_eq!(
            read_text(text, Some(100.0)).unwrap(),
            [(0, 70.0), (300, 0.0)]
        );
        let text = "time,used_mbps,capacity_mbps\n0,30,45\n";
        assert_eq!(read_text(text, None).unwrap(), [(0, 15.0)]);
    }

    #[test]
    fn traffic_that_is_none_leaves_nothing_that_could_be_taken_for_a_test() {
        let text = "time,used_mbps\n0,nan\n300,-5\n";
        let samples = read_text(text, Some(100.0)).unwrap();
        assert!(samples[0].1.is_nan());
        assert_eq!(samples[1], (300, -5.0));
    }

    #[test]
    fn a_counter_grows_by_the_traffic_and_turns_over() {
        // 37.5 MB in 300 s are 1 Mbit/s; the second step goes over 2^32.
        let text = "time,octets\n0,4257467296\n300,4294967295\n600,37499999\n";
        assert_eq!(read_text(text, Some(10.0)).unwrap().len(), 2);
        for (_, available) in read_text(text, Some(10.0)).unwrap() {
            assert!((available - 9.0).abs() < 1e-6, "{available}");
        }
    }

    #[test]
    fn a_counter_that_began_anew_leaves_a_gap() {
        let text = "time,octets\n0,5000000000000\n300,7\n600,37500007\n";
        assert_eq!(read_text(text, Some(10.0)).unwrap(), [(600, 9.0)]);
    }

    #[test]
    fn a_counter_that_may_have_turned_over_twice_is_refused() {
        let error = read_text("time,octets\n0,1\n300,2\n", Some(1_000.0)).unwrap_err();
        assert!(error.contains("ifHCInOctets"), "{error}");
    }

    #[test]
    fn a_time_may_be_in_milliseconds() {
        let text = "time,available_mbps\n1078099200000,45.5\n1078099500500.5,45.4\n";
        assert_eq!(
            read_text(text, None).unwrap(),
            [(1_078_099_200, 45.5), (1_078_099_500, 45.4)]
        );
    }

    #[test]
    fn a_file_may_be_packed_also_in_parts() {
        let packed = |text: &str| {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(text.as_bytes()).unwrap();
            packer.finish().unwrap()
        };
        let mut file = packed("time,available_mbps\n1,2\n");
        file.extend(packed("2,3\n"));
        let recording = read(&file[..], &ImportOptions::default()).unwrap();
        assert_eq!(recording.samples.len(), 2);
        file.truncate(file.len() - 4);
        assert!(
            read(&file[..], &ImportOptions::default()).is_err(),
            "its end is missing"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, expected) in [
            (
                "time,octets,capacity_mbps\n900,3,9\n600,2,9\n300,1,9\n",
                "line 3: the newest reading",
            ),
            (
                "time,octets,capacity_mbps\n0,1,9\n600,2,9\n300,3,9\n",
                "line 4: the reading is older",
            ),
            (
                "time,octets,capacity_mbps\n0,1,1000\n30,2,1000\n930,3,1000\n",
                "line 4: a 32-bit counter of 1000 Mbit/s turns over every 34 s",
            ),
            ("a,b\n1,2\n", "line 1: a column \"time\""),
            ("time,b\n1,2\n", "line 1: available_mbps"),
            ("time,used_mbps\n1,2\n", "--capacity"),
            ("time,available_mbps\n1,2\nx,3\n", "line 3: \"x\""),
            ("time,available_mbps\n1,2\n2,many\n", "line 3: \"many\""),
            ("time,octets,capacity_mbps\n1,-2,5\n", "line 2: \"-2\""),
        ] {
            let error = read_text(text, None).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_test_that_failed_is_no_number() {
        let recording = read(
            "time,available_mbps\n1,\n".as_bytes(),
            &ImportOptions::default(),
        );
        assert!(recording.unwrap().samples[0].available_mbps.is_nan());
    }
}

#[cfg(test)]
mod fuzz {
    use std::io::Write;

    use fairwind_testing::fuzz::{cases, damaged};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const FILES: [&[u8]; 5] = [
        b"unix_time_utc,available_mbps\n1078099200,45.521\n1078099500.0,45.42\n",
        b"x, Time, Available_Mbps\r\n1,2004-03-01T00:00:00Z,45.5\r\n2,2004-03-01T01:05:00+01:00,4\r\n",
        b"# router\ntime,used_mbps,capacity_mbps\n0,30,45\n300,nan,45\n600,,45\n900,50,45\n",
        b"time,octets,capacity_mbps\n0,4257467296,10\n300,4294967295,10\n600,37499999,10\n",
        b"timestamp,\"in_octets\",capacity_mbps\n1078099200000,5000000000000,10\n1078099500000,7,10\n",
    ];

    /// They, and one of them packed, but not compressed: damage then is damage to the text.
    fn examples() -> Vec<Vec<u8>> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::none());
        packer.write_all(FILES[2]).unwrap();
        let mut examples: Vec<Vec<u8>> = FILES.iter().map(|file| file.to_vec()).collect();
        examples.push(packer.finish().unwrap());
        examples
    }

    fn options() -> impl Strategy<Value = ImportOptions> {
        let capacity = prop::option::of(prop_oneof![0.0..1e4_f64, any::<f64>()]);
        let bits = prop::sample::select(vec![None, Some(32), Some(64), Some(16)]);
        (capacity, bits).prop_map(|(capacity_mbps, counter_bits)| ImportOptions {
            capacity_mbps,
            counter_bits,
        })
    }

    /// A file of two columns.
    fn file(names: &str, rows: impl Iterator<Item = (String, String)>) -> String {
        let rows = rows.map(|(time, value)| format!("{time},{value}\n"));
        format!("{names}\n{}", rows.collect::<String>())
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_file_has_at_most_a_sample_a_line_or_the_line_that_is_wrong(
            file in damaged(&examples()), options in options()
        ) {
            let lines = 1 + file.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() as u64;
            let is_packed = file.starts_with(&GZIP);
            match read(&file[..], &options) {
                Ok(recording) => {
                    let rows = recording.samples.len() as u64 + recording.resets;
                    prop_assert!(is_packed || rows <= lines);
                }
                Err(ImportError::Line { line, problem }) => {
                    prop_assert!(is_packed || (1..=lines).contains(&line));
                    prop_assert!(!problem.is_empty());
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }

        /// From 1973 on, from which milliseconds are told from seconds, to 2286.
        #[test]
        fn a_time_means_the_same_in_each_of_its_forms(
            rows in vec((100_000_000..10_000_000_000_i64, 0.0..1e6_f64), 0..20)
        ) {
            let samples = rows.iter().map(|&(second, available_mbps)| Sample {
                time: Timestamp::from_second(second).unwrap(),
                available_mbps,
            });
            let samples: Vec<Sample> = samples.collect();
            let forms: [fn(&Sample) -> String; 3] = [
                |sample| sample.time.as_second().to_string(),
                |sample| sample.time.as_millisecond().to_string(),
                |sample| sample.time.to_string(),
            ];
            for form in forms {
                let rows = samples.iter().map(|s| (form(s), s.available_mbps.to_string()));
                let text = file("time,available_mbps", rows);
                let recording = read(text.as_bytes(), &ImportOptions::default()).unwrap();
                prop_assert_eq!(&recording.samples, &samples);
            }
        }

        #[test]
        fn a_counter_of_either_width_tells_the_traffic(
            start: u64,
            growths in vec(0..=3_750_000_000_u64, 1..20),
            bits in prop::sample::select(vec![32_u32, 64]),
        ) {
            // As many octets as 100 Mbit/s carry in 300 s, at most.
            let (capacity_mbps, seconds) = (100.0, 300);
            let mask = u64::MAX >> (64 - bits);
            let mut octets = start & mask;
            let mut readings = vec![octets];
            for growth in &growths {
                octets = octets.wrapping_add(*growth) & mask;
                readings.push(octets);
            }
            let times = (0..).map(|n| n * seconds);
            let texts = |(time, octets): (i64, u64)| (time.to_string(), octets.to_string());
            let text = file("time,octets", times.zip(readings).map(texts));
            let options = ImportOptions {
                capacity_mbps: Some(capacity_mbps),
                counter_bits: Some(bits),
            };
            let recording = read(text.as_bytes(), &options).unwrap();
            prop_assert_eq!((recording.samples.len(), recording.resets), (growths.len(), 0));
            for (sample, growth) in recording.samples.iter().zip(growths) {
                let used = growth as f64 * 8e-6 / seconds as f64;
                prop_assert!((sample.available_mbps - (capacity_mbps - used)).abs() < 1e-9);
            }
        }
    }
}
