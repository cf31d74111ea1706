//! What the tables need from time series.

use fairwind_result::series::columns::FLOW;
use fairwind_result::series::reader::scan;
use fairwind_result::{FlowResult, RunResult, Statistic};

use super::bench::Done;
use crate::Error;
use crate::statistics::standard_deviation;

impl Done {
    /// A metric of a flow over the runs.
    pub(crate) fn over(&self, flow: usize, metric: fn(&FlowResult) -> f64) -> Option<Statistic> {
        Statistic::of(self.runs.iter().map(|run| metric(&run.flows[flow])))
    }

    /// Throughput in each second of all runs, one after the other, Mbit/s.
    pub(crate) fn per_second(&self, flow: usize) -> Result<Vec<f64>, Error> {
        let mut all = Vec::new();
        for run in &self.runs {
            all.extend(self.throughput(run, flow, 1.0)?);
        }
        Ok(all)
    }

    /// Standard deviation of the throughput in each `interval_s` over the runs, Mbit/s.
    pub(crate) fn deviation(
        &self,
        flow: usize,
        interval_s: f64,
    ) -> Result<Option<Statistic>, Error> {
        let mut deviations = Vec::new();
        for run in &self.runs {
            deviations.push(standard_deviation(&self.throughput(run, flow, interval_s)?));
        }
        Ok(Statistic::of(deviations))
    }

    /// Throughput in each `interval_s` of a run as Web100 saw it, at the sender, Mbit/s.
    pub(crate) fn throughput(
        &self,
        run: &RunResult,
        flow: usize,
        interval_s: f64,
    ) -> Result<Vec<f64>, Error> {
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

/// The average from the start to each second.
pub(crate) fn averages(seconds: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let average = |(i, mbps): (usize, &f64)| {
        sum += mbps;
        sum / (i + 1) as f64
    };
    seconds.iter().enumerate().map(average).collect()
}
