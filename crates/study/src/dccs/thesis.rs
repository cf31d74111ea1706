//! The values printed in the thesis, from the plan's `[data]`, which says what they are.

use serde::Deserialize;

/// What is compared with the results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Thesis {
    pub constant: f64,
    pub observed: [[f64; 4]; 2],
    pub background_alone: f64,
    pub background_lost: [f64; 3],
    pub transfers: Vec<Said>,
    pub level: [Level; 3],
}

/// A transfer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Said {
    /// The first words of the plan's parameters.
    pub case: Vec<String>,
    pub mbps: f64,
    #[serde(default)]
    pub others_mbps: Vec<f64>,
    #[serde(default)]
    pub took: String,
    #[serde(default)]
    pub inputs: String,
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
