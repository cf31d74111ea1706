//! Runs the experiments of the Web100-Dummynet thesis (Figures 4.1 to 4.24, Table 4.1) and prints
//! the tables of `docs/web100-dummynet.md`: `make experiments`.
//!
//! Arguments: the folder of the experiment files, the folder for their results.

use std::path::PathBuf;
use std::process::ExitCode;

use fairwind_experiment::engine::sim::Sim;
use fairwind_experiment::result::{FLOWS_FILE, FlowResult, RunResult, Statistic, seed_folder};
use fairwind_experiment::series::columns::FLOW;
use fairwind_experiment::series::reader::scan;
use fairwind_experiment::{ExecuteOptions, Experiment, execute};

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [files, results] = &arguments[..] else {
        eprintln!("usage: web100_dummynet EXPERIMENTS RESULTS");
        return ExitCode::from(2);
    };
    let thesis = Thesis {
        files: files.clone(),
        results: results.clone(),
    };
    match thesis.tables() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Where the experiments are and where their results go.
struct Thesis {
    files: PathBuf,
    results: PathBuf,
}

/// An experiment that was run: its folder and its runs, one a seed.
struct Done {
    folder: PathBuf,
    runs: Vec<RunResult>,
}

impl Thesis {
    fn tables(&self) -> Result<(), Error> {
        self.single_connections()?;
        self.overseas()?;
        self.table_4_1()?;
        self.average_throughput()?;
        self.weighted_queues()
    }

    /// Runs the file, changed by `set`, into a folder of the name `result`.
    fn run(&self, file: &str, result: &str, set: &[&str]) -> Result<Done, Error> {
        eprintln!("{result}");
        let path = self.files.join(format!("{file}.toml"));
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        let experiment = Experiment::load(&path, &set)?;
        let options = ExecuteOptions {
            force: true,
            ..ExecuteOptions::new(self.results.join(result))
        };
        let completed = execute(&experiment, &Sim, &options, &())?;
        Ok(Done {
            folder: completed.dir,
            runs: completed.runs,
        })
    }

    fn single_connections(&self) -> Result<(), Error> {
        println!("### Figures 4.1 to 4.8: one connection\n");
        println!(
            "| figure | the text says | mean goodput Mbit/s | SD of 1-s samples | 1-s samples, least to most | retransmits | timeouts |\n\
             |---|---|---|---|---|---|---|"
        );
        let rows: [(&str, &str, &[&str], &str); 12] = [
            ("figure-4.1", "", &[], "7 to 10"),
            ("figure-4.2", "", &[], "close to 15"),
            ("figure-4.3", "", &[], "close to 15, much smoother than 4.2"),
            ("figure-4.4", "", &[], "15, spikes at timeouts"),
            ("figure-4.5", "", &[], "60, more timeouts than 4.4"),
            ("figure-4.6", "", &[], "slightly more than 10"),
            ("figure-4.7", "", &[], "about 8"),
            ("figure-4.8", "", &[], "less than 2"),
            ("figure-4.1", ", 10 ms RTT", DELAY, "7 to 10"),
            ("figure-4.6", ", 10 ms RTT", DELAY, "slightly more than 10"),
            ("figure-4.7", ", 10 ms RTT", DELAY, "about 8"),
            ("figure-4.8", ", 10 ms RTT", DELAY, "less than 2"),
        ];
        for (file, variant, set, says) in rows {
            let result = format!("{file}{}", variant.replace(", ", "-").replace(' ', "-"));
            let done = self.run(file, &result, set)?;
            let seconds = done.per_second(0)?;
            let flow = |metric: fn(&FlowResult) -> f64| done.over(0, metric);
            println!(
                "| {}{variant} | {says} | {} | {} | {} to {} | {} | {} |",
                file.replace("figure-", ""),
                interval(&flow(|f| f.goodput_mbps), 2),
                interval(&flow(|f| f.goodput_sd_mbps.unwrap_or(f64::NAN)), 2),
                number(seconds.iter().copied().fold(f64::INFINITY, f64::min), 1),
                number(seconds.iter().copied().fold(0.0, f64::max), 1),
                interval(&flow(|f| f.retransmits as f64), 0),
                interval(&flow(|f| f.timeouts as f64), 0),
            );
        }
        println!();
        Ok(())
    }

    fn overseas(&self) -> Result<(), Error> {
        println!("### Figures 4.9 to 4.12: 5 Mbit/s, 384 kbit/s, 240 ms\n");
        let done = self.run("figure-4.9-4.12", "figure-4.9-4.12", &[])?;
        let run = &done.runs[0];
        let flow = &run.flows[0];
        let columns = [
            "CongSignals",
            "CurCwnd",
            "CurSsthresh",
            "SmoothedRTT",
            "CurRTO",
            "CurRwinRcvd",
        ];
        let mut signals = 0;
        let mut losses = Vec::new();
        let (mut cwnd, mut rto, mut rwin) = (Range::NONE, Range::NONE, Range::NONE);
        let (mut threshold, mut rtt) = (Range::NONE, Range::NONE);
        scan(
            &done.series(run.seed),
            FLOW,
            &[&flow.name],
            &columns,
            |row| {
                let value = |i: usize| row.values[i].map(|v| v as f64);
                if row.values[0].is_some_and(|now| now > signals) {
                    signals = row.values[0].unwrap_or_default();
                    losses.push(format!("{:.1}", row.time_s));
                }
                cwnd.see(value(1));
                threshold.see(value(2));
                if row.values[3].is_none() {
                    return;
                }
                rtt.see(value(3).map(|us| us / 1e3));
                rto.see(value(4).map(|us| us / 1e3));
                rwin.see(value(5));
            },
        )?;
        println!("| | the thesis | here |\n|---|---|---|");
        println!(
            "| average throughput, Mbit/s | very close to 5 | {:.2} |",
            flow.goodput_mbps
        );
        println!("| losses at, s | about 30 and 75 | {} |", losses.join(", "));
        println!(
            "| largest CurCwnd, bytes | axis to 350000 | {:.0} |",
            cwnd.most
        );
        println!(
            "| CurSsthresh, bytes | axis to 350000 | {:.0} to {:.0} |",
            threshold.least, threshold.most
        );
        println!(
            "| SmoothedRTT, ms | axis from 200, RTT 240 | {:.0} to {:.0} |",
            rtt.least, rtt.most
        );
        println!(
            "| CurRTO, ms | axis to 750 | {:.0} to {:.0} |",
            rto.least, rto.most
        );
        println!(
            "| largest window of the receiver, bytes | | {:.0} |\n",
            rwin.most
        );
        Ok(())
    }

    fn table_4_1(&self) -> Result<(), Error> {
        println!("### Table 4.1\n");
        println!(
            "| connections | mean Mbit/s, thesis | mean Mbit/s, here | SD Mbit/s, thesis | SD of 0.1-s samples, here | SD of 1-s samples, here |\n\
             |---|---|---|---|---|---|"
        );
        let rows = [
            (
                "figure-4.13-4.15-4.18",
                "SACK / SACK",
                "7.48 / 7.23",
                "2.14 / 2.50",
            ),
            (
                "figure-4.17-4.19",
                "SACK / SF-SACK",
                "4.56 / 9.89",
                "1.89 / 1.59",
            ),
            (
                "figure-4.14-4.16-4.20",
                "SF-SACK / SF-SACK",
                "7.72 / 6.75",
                "1.63 / 1.64",
            ),
        ];
        for (file, who, mean, deviation) in rows {
            let done = self.run(file, file, &[])?;
            let goodput = |i| interval(&done.over(i, |f| f.goodput_mbps), 2);
            let sd = |i| interval(&done.over(i, |f| f.goodput_sd_mbps.unwrap_or(f64::NAN)), 2);
            println!(
                "| {who} | {mean} | {} / {} | {deviation} | {} / {} | {} / {} |",
                goodput(0),
                goodput(1),
                done.deviation(0, 0.1)?,
                done.deviation(1, 0.1)?,
                sd(0),
                sd(1)
            );
        }
        println!();
        Ok(())
    }

    fn average_throughput(&self) -> Result<(), Error> {
        println!("### Figures 4.21 and 4.22: average throughput of two SF-SACK connections\n");
        println!(
            "| figure | queue | the text says | within 6 to 8 Mbit/s from 50 s on, runs | apart by, Mbit/s, at 50, 100, 150, 200, 300 s | mean Mbit/s | drops |\n\
             |---|---|---|---|---|---|---|"
        );
        let rows = [
            (
                "figure-4.21",
                "drop-tail",
                "6 to 8 after 50 s, converge at about 200 s",
            ),
            (
                "figure-4.22",
                "RED",
                "6 to 8 after 50 s, converge at about 150 s",
            ),
        ];
        for (file, queue, says) in rows {
            let done = self.run(file, file, &[])?;
            let mut within = 0;
            let mut apart = vec![Vec::new(); 5];
            for run in &done.runs {
                let averages: Vec<Vec<f64>> = (0..2)
                    .map(|flow| done.throughput(run, flow, 1.0).map(|s| averages(&s)))
                    .collect::<Result<_, _>>()?;
                let inside = |average: &Vec<f64>| {
                    average[49..].iter().all(|mbps| (6.0..=8.0).contains(mbps))
                };
                within += usize::from(averages.iter().all(inside));
                for (at, second) in [50, 100, 150, 200, 300].into_iter().enumerate() {
                    apart[at].push((averages[0][second - 1] - averages[1][second - 1]).abs());
                }
            }
            let apart: Vec<String> = apart
                .into_iter()
                .map(|values| number(Statistic::of(values).map_or(f64::NAN, |s| s.mean), 2))
                .collect();
            let drops = Statistic::of(done.runs.iter().map(drops));
            println!(
                "| {} | {queue} | {says} | {within} of {} | {} | {} / {} | {} |",
                file.replace("figure-", ""),
                done.runs.len(),
                apart.join(", "),
                interval(&done.over(0, |f| f.goodput_mbps), 2),
                interval(&done.over(1, |f| f.goodput_mbps), 2),
                interval(&drops, 0),
            );
        }
        println!();
        Ok(())
    }

    fn weighted_queues(&self) -> Result<(), Error> {
        println!("### Figures 4.23 and 4.24: queues weighted 40 to 20\n");
        println!(
            "| connection | the text says, Mbit/s | mean Mbit/s | SD Mbit/s |\n|---|---|---|---|"
        );
        let done = self.run("figure-4.23-4.24", "figure-4.23-4.24", &[])?;
        for (flow, says) in ["very close to 40", "about 20"].into_iter().enumerate() {
            println!(
                "| {} | {says} | {} | {} |",
                done.runs[0].flows[flow].name,
                interval(&done.over(flow, |f| f.goodput_mbps), 2),
                interval(
                    &done.over(flow, |f| f.goodput_sd_mbps.unwrap_or(f64::NAN)),
                    2
                ),
            );
        }
        Ok(())
    }
}

/// The delay that makes the round-trip time 10 ms, with which Figures 4.6 to 4.8 come out as printed.
const DELAY: &[&str] = &[
    "link.bottleneck.delay=5ms",
    "link.bottleneck.reverse.delay=5ms",
];

impl Done {
    /// The series of the run with this seed.
    fn series(&self, seed: u64) -> PathBuf {
        let below = match self.runs.len() {
            1 => self.folder.clone(),
            _ => self.folder.join(seed_folder(seed)),
        };
        below.join(FLOWS_FILE)
    }

    /// A metric of a flow over the runs.
    fn over(&self, flow: usize, metric: fn(&FlowResult) -> f64) -> Option<Statistic> {
        Statistic::of(self.runs.iter().map(|run| metric(&run.flows[flow])))
    }

    /// Throughput in each second of all runs, one after the other, Mbit/s.
    fn per_second(&self, flow: usize) -> Result<Vec<f64>, Error> {
        let mut all = Vec::new();
        for run in &self.runs {
            all.extend(self.throughput(run, flow, 1.0)?);
        }
        Ok(all)
    }

    /// Standard deviation of the throughput in each `interval_s`, mean over the runs, Mbit/s.
    fn deviation(&self, flow: usize, interval_s: f64) -> Result<String, Error> {
        let mut deviations = Vec::new();
        for run in &self.runs {
            deviations.push(standard_deviation(&self.throughput(run, flow, interval_s)?));
        }
        Ok(interval(&Statistic::of(deviations), 2))
    }

    /// Throughput in each `interval_s` of a run as Web100 saw it, at the sender, Mbit/s.
    fn throughput(&self, run: &RunResult, flow: usize, interval_s: f64) -> Result<Vec<f64>, Error> {
        let name = run.flows[flow].name.as_str();
        let mut totals = vec![0.0; (run.duration_s / interval_s).round() as usize];
        let path = self.series(run.seed);
        scan(&path, FLOW, &[name], &["HCThruOctetsAcked"], |row| {
            // A sample at the end of an interval belongs to it.
            let at = ((row.time_s / interval_s - 1e-6).ceil() as usize).saturating_sub(1);
            if let (Some(total), Some(bytes)) = (totals.get_mut(at), row.values[0]) {
                *total = bytes as f64;
            }
        })?;
        let mut before = 0.0;
        Ok(totals
            .into_iter()
            .map(|total| {
                let mbps = (total - before).max(0.0) * 8.0 / 1e6 / interval_s;
                before = before.max(total);
                mbps
            })
            .collect())
    }
}

/// Least and most of what was seen.
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    const NONE: Range = Range {
        least: f64::INFINITY,
        most: f64::NEG_INFINITY,
    };

    fn see(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.least = self.least.min(value);
            self.most = self.most.max(value);
        }
    }
}

/// The average from the start to each second.
fn averages(seconds: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let average = |(i, mbps): (usize, &f64)| {
        sum += mbps;
        sum / (i + 1) as f64
    };
    seconds.iter().enumerate().map(average).collect()
}

/// With n - 1 in the denominator.
fn standard_deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (squares / (n - 1.0)).sqrt()
}

fn drops(run: &RunResult) -> f64 {
    run.links.iter().map(|link| link.drops as f64).sum()
}

fn number(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

fn interval(statistic: &Option<Statistic>, digits: usize) -> String {
    match statistic {
        None => "-".to_owned(),
        Some(s) => match s.interval95 {
            Some(half) => format!("{:.digits$} ± {half:.digits$}", s.mean),
            None => number(s.mean, digits),
        },
    }
}
