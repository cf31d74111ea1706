//! The experiments of the scaled-down tests: Figures 5, 16 and 18 with a path 2.5 times shorter.

use std::path::Path;

use super::{BUFFER_OF_OTHERS, FILE_BYTES, START_S, buffer_bytes};
use crate::demo::lab::Programs;
use crate::demo::network::{Sites, TRANSFER};
use crate::demo::story::Way;

/// How the file is moved.
pub enum Means<'a> {
    /// By a flow of the simulator, with the changes of congestion control as the value of its `switch`.
    Simulated { first: &'a str, switch: &'a str },
    /// By programs.
    Programs(&'a Programs),
}

/// The path of a test, and how long a run lasts at most.
pub struct Network<'a> {
    /// Other connections.
    pub others: usize,
    /// The losses of the path.
    pub losses: &'a Path,
    /// Longest duration of a run, seconds.
    pub longest_s: f64,
    pub seed: u64,
}

impl Network<'_> {
    /// The experiment, as TOML.
    pub fn experiment(&self, way: Way, means: &Means<'_>) -> String {
        let transfer = match (way, means) {
            (Way::Nobody, _) => String::new(),
            (_, Means::Simulated { first, switch }) => self.simulated(first, switch),
            (way, Means::Programs(programs)) => with_programs(way, programs),
        };
        let others = (1..=self.others).map(other);
        format!("{}{transfer}{}", self.path(way), others.collect::<String>())
    }

    fn path(&self, way: Way) -> String {
        format!(
            "\
title    = \"A file over 20 ms: {words}\"
duration = \"{length}s\"
seeds    = [{seed}]
record   = {{ interval = \"50ms\" }}

# What the server cannot send waits in the host.
[[link]]
name      = \"server\"
between   = [\"ftp-server\", \"nistnet\"]
bandwidth = \"{server}Mbit/s\"
delay     = \"10ms\"
queue     = \"4000pkt\"
loss      = {{ trace = {losses:?} }}
reverse   = {{ loss = 0 }}

[[link]]
name      = \"bottleneck\"
between   = [\"nistnet\", \"router\"]
bandwidth = \"100Mbit/s\"
queue     = \"40pkt\"
",
            words = way.words(),
            length = self.longest_s,
            seed = self.seed,
            server = match self.others {
                0 => 100.0,
                _ => 72.6,
            },
            losses = self.losses.display().to_string(),
        )
    }

    fn simulated(&self, first: &str, switch: &str) -> String {
        format!(
            "
[[flow]]
name  = \"{TRANSFER}\"
from  = \"ftp-server\"
to    = \"router\"
start = \"{START_S}s\"
bytes = \"{FILE_BYTES}B\"
congestion_control = \"{first}\"
receive_buffer = \"{buffer}B\"
send_buffer    = \"{buffer}B\"
switch = {switch}
",
            buffer = 2 * buffer_bytes(self.others),
        )
    }
}

/// Another connection, over its own path to the same router.
fn other(number: usize) -> String {
    format!(
        "
[[link]]
name      = \"others-{number}\"
between   = [\"others-{number}\", \"nistnet\"]
bandwidth = \"100Mbit/s\"
delay     = \"2ms\"
queue     = \"4000pkt\"

[[flow]]
name = \"others-{number}\"
from = \"others-{number}\"
to   = \"router\"
congestion_control = \"reno\"
receive_buffer = \"{BUFFER_OF_OTHERS}B\"
"
    )
}

/// The client is at the router's end of the path; the file comes from the server's end.
fn with_programs(way: Way, programs: &Programs) -> String {
    let control = match way {
        Way::Nocc => "nocc",
        _ => "reno",
    };
    let sites = Sites {
        client: "router",
        server: "ftp-server",
    };
    sites.flows(START_S, control, way, programs)
}

#[cfg(test)]
mod tests {
    use fairwind_scenario::Experiment;

    use super::*;

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
        for means in [&simulated, &Means::Programs(&programs)] {
            for others in 0..=2 {
                let network = Network {
                    others,
                    losses: &losses,
                    longest_s: 20.0,
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
