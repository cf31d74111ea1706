//! The experiment files: two sites, a path between them, and others that share it.

use std::fmt::Display;

use serde_json::Value;

use super::advised::Advised;
use super::lab::Programs;
use super::story::{OTHERS, QUEUE_PACKETS, Story, Way};

/// The bandwidth trace of the others' traffic, beside the results.
pub const TRAFFIC_FILE: &str = "others.csv";
/// The flow that moves the file.
pub const TRANSFER: &str = "transfer";

/// How the file is moved in this run.
pub enum Means<'a> {
    /// By a flow of the simulator.
    Simulated(&'a Advised),
    /// By programs.
    Programs(&'a Programs),
}

/// Names of the others' flows in results.
pub fn others() -> Vec<String> {
    (1..=OTHERS)
        .map(|number| format!("others-{number}"))
        .collect()
}

/// A template with the value of each `$name` in it.
pub fn filled(template: &str, values: &[(&str, &dyn Display)]) -> String {
    let mut parts = template.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let found = values.iter().find(|(name, _)| part.starts_with(name));
        let (name, value) = found.expect("every name has its value");
        text += &format!("{value}{}", &part[name.len()..]);
    }
    text
}

/// The experiment for a way, as TOML.
pub fn experiment(story: &Story, way: Way, means: &Means<'_>) -> String {
    let path = filled(
        include_str!("path.toml"),
        &[
            ("capacity", &story.route.capacity_mbps()),
            ("rtt", &story.route.rtt_ms()),
            ("words", &way.words()),
            ("length", &story.length_s),
            ("seed", &story.seed),
            ("traffic", &TRAFFIC_FILE),
            ("delay", &story.route.delay_ms()),
            ("loss", &story.route.loss()),
            ("queue", &QUEUE_PACKETS),
        ],
    );
    let transfer = match (way, means) {
        (Way::Nobody, _) => String::new(),
        (way, Means::Simulated(advised)) => simulated(story, way, advised),
        (way, Means::Programs(programs)) => {
            let sites = if way == Way::Curl { UPLOAD } else { SITES };
            // Advice changes it.
            let control = match way {
                Way::Nocc => "nocc",
                _ => "cubic",
            };
            sites.programs(story.route.start_s(), control, way, programs)
        }
    };
    let others = filled(include_str!("others.toml"), &[("count", &OTHERS)]);
    format!("{path}{transfer}{others}")
}

/// The congestion control that a flow of the simulator begins with.
fn control(way: Way) -> &'static str {
    match way {
        Way::Nocc => "nocc",
        Way::Background => "fairwind",
        _ => "cubic",
    }
}

fn simulated(story: &Story, way: Way, advised: &Advised) -> String {
    // Beside these, how it starts.
    let mut switches = String::new();
    let mut first = control(way);
    if way == Way::Advised {
        for change in advised.control_changes() {
            if change.at_s <= story.route.start_s() {
                first = &change.to;
            } else {
                switches.push_str(&format!(
                    "    {{ at = \"{:.6}s\", congestion_control = \"{}\" }},\n",
                    change.at_s, change.to
                ));
            }
        }
    }
    if !switches.is_empty() {
        switches = format!("switch = [\n{switches}]\n");
    }
    if let (Way::Background, Some(low_mbps)) = (way, advised.low_mbps) {
        let rtt_ms = story.route.rtt_ms();
        switches += &format!(
            "advised_start = {{ rate = \"{low_mbps:.6}Mbit/s\", rtt = \"{rtt_ms}ms\" }}\n"
        );
    }
    SITES.simulated(
        story.route.start_s(),
        story.file_bytes,
        first,
        2 * story.route.buffer_bytes(),
        &switches,
    )
}

/// The client is in the east; the file comes from the west.
const SITES: Sites = Sites {
    client: "east",
    server: "west",
};

/// curl sends: the client is where the file is.
const UPLOAD: Sites = Sites {
    client: "west",
    server: "east",
};

/// The hosts between which a file is moved.
pub struct Sites {
    /// Of the client.
    pub client: &'static str,
    /// Of the server, and of the advisor if there is one.
    pub server: &'static str,
}

impl Sites {
    /// The transfer as a flow of the simulator, which starts after `start_s` seconds, with buffers of so many
    /// bytes in the kernel and a line for the changes of its congestion control.
    pub fn simulated(
        &self,
        start_s: f64,
        bytes: u64,
        control: &str,
        buffer: u64,
        switch: &str,
    ) -> String {
        filled(
            include_str!("simulated.toml"),
            &[
                ("transfer", &TRANSFER),
                ("server", &self.server),
                ("client", &self.client),
                ("start", &format_args!("{start_s}s")),
                ("bytes", &format_args!("{bytes}B")),
                ("control", &control),
                ("buffer", &format_args!("{buffer}B")),
                ("switch", &switch),
            ],
        )
    }

    /// The flows of the programs: the transfer, which starts after `start_s` seconds, and the advisor of the way
    /// that needs one.
    pub fn programs(&self, start_s: f64, control: &str, way: Way, programs: &Programs) -> String {
        // Strings are the same in JSON and TOML.
        let [client, server, advisor] = [&programs.client, &programs.server, &programs.advisor]
            .map(|command| Value::from(command.as_str()));
        let mut template = include_str!("programs.toml").to_owned();
        if way.is_advised() {
            template += include_str!("advisor.toml");
        }
        filled(
            &template,
            &[
                ("transfer", &TRANSFER),
                ("at_server", &self.server),
                ("at_client", &self.client),
                ("start", &format_args!("{start_s}s")),
                ("control", &control),
                ("advisor", &advisor),
                ("client", &client),
                ("server", &server),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use fairwind_scenario::Experiment;

    use super::*;
    use crate::demo::day::Day;
    use crate::demo::story::Route;

    #[test]
    fn every_way_is_an_experiment_that_can_be_run() {
        for route in Route::ALL {
            let story = Story::quick(route, 1);
            let folder = tempfile::tempdir().unwrap();
            let csv = Day::of(&story).traffic_csv(&story);
            std::fs::write(folder.path().join(TRAFFIC_FILE), csv).unwrap();
            let advised = crate::demo::advised::foreseen(&story, &Day::of(&story));
            let programs = Programs {
                client: "get \"x\"".to_owned(),
                server: "serve".to_owned(),
                advisor: "advisor".to_owned(),
            };
            for way in Way::ALL {
                for means in [Means::Simulated(&advised), Means::Programs(&programs)] {
                    let text = experiment(&story, way, &means);
                    let read = Experiment::parse(&text, "demo", folder.path(), &[]);
                    let flows = read.unwrap_or_else(|error| panic!("{error}\n{text}"));
                    let names: Vec<String> =
                        flows.flows().into_iter().map(|flow| flow.name).collect();
                    assert!(names.ends_with(&others()), "{names:?}");
                    assert_eq!(names.contains(&TRANSFER.to_owned()), way != Way::Nobody);
                }
            }
        }
    }
}
