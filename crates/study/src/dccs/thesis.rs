//! The values printed in the thesis, from the plan's `[data]`, which says what they are.

use serde::Deserialize;

use super::case::{Case, PARAMETERS};
use super::tables::{Results, Transfer};
use crate::plan::Run;

/// What is compared with the results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Thesis {
    pub constant: f64,
    pub observed: [[f64; 4]; 2],
    pub background_alone: f64,
    pub background_lost: [f64; 3],
    transfers: Vec<Said>,
    pub level: [Level; 3],
}

/// A transfer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    /// The first words of [`PARAMETERS`].
    case: Vec<String>,
    mbps: f64,
    #[serde(default)]
    others_mbps: Vec<f64>,
    #[serde(default)]
    took: String,
    #[serde(default)]
    inputs: String,
}

/// The transfers over a path of one level of congestion: slight, moderate or high.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Level {
    pub tables: String,
    pub history_tables: String,
    pub threshold_mbps: f64,
    pub used_percent: u32,
    pub less_mbps: f64,
    pub gain: [f64; 5],
    pub mean_gain: f64,
}

impl Thesis {
    /// Its transfers as if they were ours.
    pub(crate) fn results(&self) -> Results<'_> {
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
            transfers: self.transfers.iter().map(transfer).collect(),
            alone: [Some(self.background_alone), None],
            thesis: Some(self),
        }
    }
}
