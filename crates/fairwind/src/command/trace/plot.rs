//! `fairwind trace plot`: the curves of traced connections.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use fairwind_report::plot::traced::{self, TracedCurves};
use fairwind_result::series::decimate::{Decimator, Point};
use fairwind_trace::file::{self, FileError, Series};
use fairwind_trace::record::{Connection, INDEX_FILE, Index};

use crate::failure::Failure;
use crate::output;

/// Most connections of a folder in one plot.
const TOGETHER: usize = 8;
/// Columns of a plot.
const COLUMNS: usize = 800;
/// In longer traces throughput is that of whole seconds, in others of tenths.
const LONG_S: f64 = 60.0;

/// Draw a connection, or the busiest connections of a trace
///
/// Throughput, its average, congestion window and slow-start threshold, round-trip time and timeout,
/// and what is in flight, as self-contained SVG files.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind trace plot iperf.trace
  fairwind trace plot iperf.trace/00001_10.0.0.1-40112_10.0.0.2-5201.parquet --out plots")]
pub(crate) struct Plot {
    /// File of a trace, or its folder
    path: PathBuf,
    /// Folder for the plots [default: plots in the folder, or the file's name with .plots]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Plot {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let is_folder = self.path.is_dir();
        let files = if is_folder {
            busiest(&self.path)?
        } else {
            vec![self.path.clone()]
        };
        let mut read = Vec::new();
        for path in &files {
            let connection = file::connection(path).map_err(Failure::input)?;
            read.push((connection, Numbers::read(path)?));
        }
        let beside = self.path.with_extension("plots");
        let default = if is_folder {
            self.path.join("plots")
        } else {
            beside
        };
        let out = self.out.clone().unwrap_or(default);
        let title = self.path.file_name().unwrap_or(self.path.as_os_str());
        let plots = plots(&title.to_string_lossy(), &read);
        fs::create_dir_all(&out).map_err(Failure::at(&out))?;
        for (name, svg) in plots {
            let path = out.join(name);
            fs::write(&path, svg).map_err(Failure::at(&path))?;
            output::line(&path.display().to_string())?;
        }
        Ok(())
    }
}

/// The files of the connections with the most payload.
fn busiest(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let path = folder.join(INDEX_FILE);
    let text = fs::read_to_string(&path).map_err(Failure::no_input(&path))?;
    let index: Index = serde_json::from_str(&text).map_err(Failure::no_input(&path))?;
    let mut found = Vec::new();
    for connection in index.connections.iter().filter(|c| c.error.is_none()) {
        let path = folder.join(&connection.file);
        let payload = Numbers::payload(&path).map_err(Failure::input)?;
        found.push((payload, path));
    }
    if found.is_empty() {
        let message = format!("{}: no connection to draw", folder.display());
        return Err(Failure::input(message));
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    found.truncate(TOGETHER);
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The series of a file that are drawn; a column that the file lacks is empty.
struct Numbers {
    times_s: Vec<f64>,
    /// Payload so far, bytes.
    payload: Series,
    cwnd: Series,
    ssthresh: Series,
    in_flight: Series,
    srtt: Series,
    rto: Series,
}

/// Payload so far, of a sender and of a receiver.
const PAYLOAD: [&str; 2] = ["HCThruOctetsAcked", "HCThruOctetsReceived"];

impl Numbers {
    fn read(path: &Path) -> Result<Numbers, Failure> {
        let series = |name| file::series(path, name).map_err(Failure::input);
        let [acked, received] = PAYLOAD;
        let (acked, received) = (series(acked)?, series(received)?);
        Ok(Numbers {
            times_s: file::times(path).map_err(Failure::input)?,
            payload: std::cmp::max_by_key(received, acked, greatest),
            cwnd: series("CurCwnd")?,
            ssthresh: series("CurSsthresh")?,
            in_flight: series("PipeSize")?,
            srtt: series("SmoothedRTT")?,
            rto: series("CurRTO")?,
        })
    }

    fn payload(path: &Path) -> Result<i64, FileError> {
        let [acked, received] = PAYLOAD;
        let (acked, received) = (file::series(path, acked)?, file::series(path, received)?);
        Ok(greatest(&acked).max(greatest(&received)))
    }
}

fn greatest(series: &Series) -> i64 {
    series.iter().flatten().copied().max().unwrap_or(0)
}

fn plots(title: &str, read: &[(Connection, Numbers)]) -> Vec<(&'static str, String)> {
    let first = |n: &Numbers| n.times_s.first().copied().unwrap_or(f64::INFINITY);
    let last = |n: &Numbers| n.times_s.last().copied().unwrap_or(0.0);
    let start = read
        .iter()
        .map(|(_, n)| first(n))
        .fold(f64::INFINITY, f64::min);
    let end = read.iter().map(|(_, n)| last(n)).fold(0.0, f64::max);
    let duration_s = (end - start).max(0.0);
    let interval_s = if duration_s > LONG_S { 1.0 } else { 0.1 };
    let curves: Vec<TracedCurves> = read
        .iter()
        .map(|(connection, numbers)| curves(connection, numbers, start, duration_s, interval_s))
        .collect();
    traced::svgs(title, duration_s, interval_s, &curves)
}

fn curves(
    connection: &Connection,
    numbers: &Numbers,
    start: f64,
    duration_s: f64,
    interval_s: f64,
) -> TracedCurves {
    let curve = |series: &Series, unit: f64| {
        let mut decimator = Decimator::new(duration_s, COLUMNS);
        for (time_s, value) in numbers.times_s.iter().zip(series) {
            if let Some(value) = value {
                decimator.push(time_s - start, *value as f64 / unit);
            }
        }
        decimator.finish()
    };
    let (throughput, average) = rates(numbers, start, interval_s);
    TracedCurves {
        name: format!("{} → {}", connection.local, connection.remote),
        throughput,
        average,
        cwnd: curve(&numbers.cwnd, 1e3),
        ssthresh: curve(&numbers.ssthresh, 1e3),
        in_flight: curve(&numbers.in_flight, 1e3),
        srtt: curve(&numbers.srtt, 1e3),
        rto: curve(&numbers.rto, 1e3),
    }
}

/// Mbit/s in each interval, and since the first sample.
fn rates(numbers: &Numbers, start: f64, interval_s: f64) -> (Vec<Point>, Vec<Point>) {
    let (mut throughput, mut average) = (Vec::new(), Vec::new());
    let mut samples = numbers.times_s.iter().zip(&numbers.payload);
    let Some((first_s, first)) = samples.find_map(|(time, bytes)| bytes.map(|b| (*time, b))) else {
        return (throughput, average);
    };
    let mbit = |bytes: i64, seconds: f64| 8e-6 * bytes as f64 / seconds;
    let (mut from_s, mut from) = (first_s, first);
    for (time_s, bytes) in samples {
        let Some(bytes) = bytes else { continue };
        let (now, seconds) = (time_s - start, time_s - from_s);
        if seconds < interval_s {
            continue;
        }
        let point = |value| Point { time_s: now, value };
        throughput.push(point(mbit(bytes - from, seconds)));
        average.push(point(mbit(bytes - first, time_s - first_s)));
        (from_s, from) = (*time_s, *bytes);
    }
    (throughput, average)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_intervals_and_of_all_the_time() {
        let numbers = Numbers {
            times_s: vec![5.0, 5.05, 5.1, 5.2],
            // 12.5 kB in 100 ms are 1 Mbit/s.
            payload: vec![Some(1), Some(100), Some(12_501), Some(37_501)],
            cwnd: Vec::new(),
            ssthresh: Vec::new(),
            in_flight: Vec::new(),
            srtt: Vec::new(),
            rto: Vec::new(),
        };
        let (throughput, average) = rates(&numbers, 5.0, 0.0999);
        let values = |points: &[Point]| -> Vec<f64> {
            points
                .iter()
                .map(|p| (p.value * 1e3).round() / 1e3)
                .collect()
        };
        assert_eq!(values(&throughput), [1.0, 2.0]);
        assert_eq!(values(&average), [1.0, 1.5]);
        assert!((throughput[1].time_s - 0.2).abs() < 1e-9);
    }
}
