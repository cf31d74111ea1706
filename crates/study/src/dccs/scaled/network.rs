//! The experiments of the scaled-down tests: Figures 5, 16 and 18 with a path 2.5 times shorter.

use std::fmt::Display;
use std::path::Path;

use serde_json::Value;

use super::{BUFFER_OF_OTHERS, START_S, buffer_bytes};
use crate::demo::lab::Programs;
use crate::demo::network::{Sites, filled};
use crate::demo::story::Way;

/// How the file is moved.
pub(crate) enum Means<'a> {
    /// By a flow of the simulator, with the changes of congestion control as the value of its `switch`.
    Simulated { first: &'a str, switch: &'a str },
    /// By programs, in hosts with this congestion control.
    Programs { first: &'a str, programs: Programs },
}

/// The path of a test, and how long a run lasts at most.
pub(crate) struct Network<'a> {
    /// Other connections.
    pub others: usize,
    /// The losses of the path.
    pub losses: &'a Path,
    /// Longest duration of a run, seconds.
    pub longest_s: f64,
    /// Size of the file.
    pub file_bytes: u64,
    pub seed: u64,
}

/// The client is at the router's end of the path; the file comes from the server's end.
const SITES: Sites = Sites {
    client: "router",
    server: "ftp-server",
};

impl Network<'_> {
    /// The experiment, as TOML.
    pub(crate) fn experiment(&self, way: Way, means: &Means<'_>) -> String {
        let path = filled(
            include_str!("path.toml"),
            &[
                ("words", &way.words()),
                ("length", &self.longest_s),
                ("seed", &self.seed),
                ("bandwidth", if self.others == 0 { &100.0 } else { &72.6 }),
                // Strings are the same in JSON and TOML.
                ("losses", &Value::from(self.losses.display().to_string())),
            ],
        );
        let transfer = match (way, means) {
            (Way::Nobody, _) => String::new(),
            (_, Means::Simulated { first, switch }) => {
                let (buffer, switch) = (buffer_bytes(self.others), format!("switch = {switch}\n"));
                SITES.simulated(START_S, self.file_bytes, first, 2 * buffer, &switch)
            }
            (way, Means::Programs { first, programs }) => {
                SITES.programs(START_S, first, way, programs)
            }
        };
        let other = |number| {
            let buffer = format!("{BUFFER_OF_OTHERS}B");
            let values: [(&str, &dyn Display); 2] = [("number", &number), ("buffer", &buffer)];
            filled(include_str!("other.toml"), &values)
        };
        let others: String = (1..=self.others).map(other).collect();
        format!("{path}{transfer}{others}")
    }
}

#[cfg(test)]
mod tests {
    use fairwind_scenario::Experiment;

    use super::*;
    use crate::demo::network::TRANSFER;

    #[test]
    fn every_way_is_an_experiment_that_can_be_run() {
        let folder = tempfile::tempdir().unwrap();
        let losses = folder.path().join("losses.csv");
        std::fs::write(&losses, "time_s,loss_probability\n0,0.0001\n").unwrap();
        let programs = Programs {
            client: "get \"x\"".to_owned(),
            server: "serve".to_owned(),
            advisor: "advisor".to_owned(),
        };
        let simulated = Means::Simulated {
            first: "nocc",
            switch: "[{ at = \"2s\", congestion_control = \"reno\" }]",
        };
        let programs = Means::Programs {
            first: "reno",
            programs,
        };
        for means in [&simulated, &programs] {
            for others in 0..=2 {
                let network = Network {
                    others,
                    losses: &losses,
                    longest_s: 20.0,
                    file_bytes: 1_000_000,
                    seed: 1,
                };
                let text = network.experiment(Way::Advised, means);
                let read = Experiment::parse(&text, "scaled", folder.path(), &[]);
                let read = read.unwrap_or_else(|error| panic!("{error}\n{text}"));
                let names: Vec<String> = read.flows().into_iter().map(|flow| flow.name).collect();
                assert_eq!(names[0], TRANSFER);
                let found = names.iter().filter(|name| name.starts_with("others-"));
                assert_eq!(found.count(), others);
            }
        }
    }
}
