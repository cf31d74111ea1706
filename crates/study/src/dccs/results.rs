//! The transfers over a series, in an engine, or of the thesis, and what follows from them.

use super::case::{Case, Losses, PARAMETERS, TIMES};
use super::thesis::{Said, Thesis};
use crate::demo::story::Way;
use crate::plan::Run;
use crate::statistics::mean;

/// The ways of most tables, in the order of [`Results::ways`].
const WAYS: [Way; 3] = [Way::Standard, Way::Nocc, Way::Advised];

/// The result of a transfer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transfer {
    pub case: Case,
    /// Mean throughput, Mbit/s.
    pub mbps: f64,
    /// The transfer time for the thesis' file of 16 GB, seconds.
    pub seconds: f64,
    /// Mean throughput of the others while it ran, Mbit/s.
    pub others_mbps: Vec<f64>,
    /// The inputs it received, in the thesis' notation.
    pub inputs: String,
}

/// The transfers over one series, in one engine, or in the thesis.
pub(crate) struct Results<'a> {
    /// Their name in tables.
    pub name: String,
    pub transfers: Vec<Transfer>,
    /// Throughput of one other connection alone, and of two together, Mbit/s.
    pub alone: [Option<f64>; 2],
    /// The thesis, if they are its own: its gains and means are as it prints them.
    pub thesis: Option<&'a Thesis>,
}

impl<'a> Results<'a> {
    /// The thesis' transfers as if they were ours.
    pub(crate) fn of_thesis(thesis: &'a Thesis) -> Results<'a> {
        let in_seconds = |sum, part: &str| 60.0 * sum + part.parse().unwrap_or(f64::NAN);
        let transfer = |said: &Said| {
            let names = PARAMETERS.iter().map(|parameter| parameter.name.to_owned());
            let parameters = names.zip(said.case.clone()).collect();
            Transfer {
                case: Case::of(&Run {
                    parameters,
                    ..Run::default()
                }),
                mbps: said.mbps,
                seconds: said.took.split(':').fold(0.0, in_seconds),
                others_mbps: said.others_mbps.clone(),
                inputs: said.inputs.clone(),
            }
        };
        Results {
            name: "thesis".to_owned(),
            transfers: thesis.transfers.iter().map(transfer).collect(),
            alone: [Some(thesis.background_alone), None],
            thesis: Some(thesis),
        }
    }

    pub(crate) fn find(&self, case: Case) -> Option<&Transfer> {
        self.transfers.iter().find(|transfer| transfer.case == case)
    }

    /// The transfers like this one by standard TCP, without congestion control and advised.
    pub(crate) fn ways(&self, case: Case) -> Option<[&Transfer; 3]> {
        let [standard, nocc, advised] = WAYS.map(|way| self.find(case.by(way)));
        Some([standard?, nocc?, advised?])
    }

    /// The gain of advised over standard FTP, percent.
    pub(crate) fn gain(&self, losses: Losses, level: usize, time: usize) -> Option<f64> {
        if let Some(thesis) = self.thesis {
            return Some(thesis.level[level].gain[time]);
        }
        self.gain_by(Way::Advised, losses, level, time)
    }

    /// The gain over standard FTP, percent, of a way that the thesis does not have the gain of.
    pub(crate) fn gain_by(
        &self,
        way: Way,
        losses: Losses,
        level: usize,
        time: usize,
    ) -> Option<f64> {
        let case = Case::at(0, level, time, losses);
        let standard = self.find(case)?;
        Some(100.0 * (self.find(case.by(way))?.mbps / standard.mbps - 1.0))
    }

    /// The mean gain over the times of day at each level, percent.
    pub(crate) fn mean_gains(&self, losses: Losses) -> [f64; 3] {
        match self.thesis {
            Some(thesis) => [0, 1, 2].map(|level| thesis.level[level].mean_gain),
            None => self.mean_gains_by(Way::Advised, losses),
        }
    }

    /// The same of [`gain_by`](Results::gain_by).
    pub(crate) fn mean_gains_by(&self, way: Way, losses: Losses) -> [f64; 3] {
        [0, 1, 2].map(|level| {
            let gains = (0..TIMES.len()).filter_map(|time| self.gain_by(way, losses, level, time));
            mean(gains)
        })
    }

    /// How much of their throughput the others lose beside FTP of each way, on average over the times of day,
    /// percent.
    pub(crate) fn mean_lost(&self, losses: Losses, others: usize) -> [f64; 3] {
        match (self.thesis, others) {
            (Some(thesis), 1) => thesis.background_lost,
            _ => WAYS.map(|way| self.mean_lost_by(|case| case.by(way), losses, others)),
        }
    }

    /// The same beside one way, as far as it has been tried.
    pub(crate) fn mean_lost_by(
        &self,
        way: impl Fn(Case) -> Case,
        losses: Losses,
        others: usize,
    ) -> f64 {
        let lost = |time| {
            let beside = self.find(way(Case::at(others, 0, time, losses)))?;
            Some(lost(
                self.alone[others - 1]?,
                beside.others_mbps.iter().sum(),
            ))
        };
        mean((0..TIMES.len()).filter_map(lost))
    }
}

/// What others lose of what they have alone, percent.
pub(crate) fn lost(alone: f64, beside: f64) -> f64 {
    100.0 * (1.0 - beside / alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_and_losses_are_means_over_the_times_of_day() {
        let moved = |others, time, way, mbps, others_mbps| Transfer {
            case: Case {
                way,
                ..Case::at(others, 0, time, Losses::Rounded)
            },
            mbps,
            seconds: 0.0,
            others_mbps: vec![others_mbps],
            inputs: String::new(),
        };
        let mut transfers = Vec::new();
        for (time, advised, beside) in [(0, 50.0, 40.0), (1, 70.0, 20.0)] {
            for others in 0..=1 {
                transfers.push(moved(others, time, WAYS[0], 50.0, 60.0));
                transfers.push(moved(others, time, WAYS[1], 70.0, 20.0));
                transfers.push(moved(others, time, WAYS[2], advised, beside));
            }
        }
        let results = Results {
            name: "lab".to_owned(),
            transfers,
            alone: [Some(80.0), None],
            thesis: None,
        };
        // 0 % and 40 %; a quarter, three quarters, and between.
        assert!((results.mean_gains(Losses::Rounded)[0] - 20.0).abs() < 1e-9);
        let lost = results.mean_lost(Losses::Rounded, 1);
        assert_eq!(lost, [25.0, 75.0, 62.5]);
        assert!(results.mean_gains(Losses::Exact)[0].is_nan());
    }
}
