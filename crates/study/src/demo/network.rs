//! The experiment files: two sites, a path between them, and others that share it.

use super::advised::Advised;
use super::lab::Programs;
use super::story::{
    BUFFER_BYTES, CAPACITY_MBPS, DELAY_MS, OTHERS, QUEUE_PACKETS, START_S, Story, Way,
};

/// The bandwidth trace of the others' traffic, beside the results.
pub const TRAFFIC_FILE: &str = "others.csv";
/// The flow that moves the file.
pub const TRANSFER: &str = "transfer";
/// The flow of the advisor, which sends nothing.
const ADVISOR: &str = "advisor";

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

/// The experiment for a way, as TOML.
pub fn experiment(story: &Story, way: Way, means: &Means<'_>) -> String {
    let transfer = match (way, means) {
        (Way::Nobody, _) => String::new(),
        (way, Means::Simulated(advised)) => simulated(story, way, advised),
        (way, Means::Programs(programs)) => with_programs(way, programs),
    };
    format!(
        "{}{transfer}{OTHERS_FLOW}count = {OTHERS}\n",
        head(story, way)
    )
}

const OTHERS_FLOW: &str = "
[[flow]]
name = \"others\"
from = \"others-west\"
to   = \"others-east\"
congestion_control = \"cubic\"
";

fn head(story: &Story, way: Way) -> String {
    format!(
        "\
title    = \"Two sites, {CAPACITY_MBPS} Mbit/s and {rtt} ms apart, and others: {words}\"
duration = \"{length}s\"
seeds    = [{seed}]
record   = {{ interval = \"100ms\" }}

# What the others want, as it goes up and down with the day.
[[link]]
name      = \"others-access\"
between   = [\"others-west\", \"router-west\"]
bandwidth = {{ trace = \"{TRAFFIC_FILE}\" }}
queue     = \"200pkt\"
reverse   = {{ bandwidth = \"{CAPACITY_MBPS}Mbit/s\" }}

[[link]]
name      = \"bottleneck\"
between   = [\"router-west\", \"router-east\"]
bandwidth = \"{CAPACITY_MBPS}Mbit/s\"
delay     = \"{DELAY_MS}ms\"
queue     = \"{QUEUE_PACKETS}pkt\"

[[link]]
between   = [\"west\", \"router-west\"]
bandwidth = \"1Gbit/s\"
queue     = \"2000pkt\"

[[link]]
between   = [\"router-east\", \"east\"]
bandwidth = \"1Gbit/s\"
queue     = \"2000pkt\"

[[link]]
between   = [\"router-east\", \"others-east\"]
bandwidth = \"1Gbit/s\"
queue     = \"2000pkt\"
",
        rtt = 2 * DELAY_MS,
        words = way.words(),
        length = story.length_s,
        seed = story.seed,
    )
}

/// The congestion control that a way begins with.
fn control(way: Way) -> &'static str {
    match way {
        Way::Nocc => "nocc",
        _ => "cubic",
    }
}

fn simulated(story: &Story, way: Way, advised: &Advised) -> String {
    let mut switches = String::new();
    let mut first = control(way).to_owned();
    if way == Way::Advised {
        for change in advised.control_changes() {
            match change.at_s <= START_S {
                true => first.clone_from(&change.to),
                false => switches.push_str(&format!(
                    "    {{ at = \"{:.6}s\", congestion_control = \"{}\" }},\n",
                    change.at_s, change.to
                )),
            }
        }
    }
    let switch = match switches.is_empty() {
        true => String::new(),
        false => format!("switch = [\n{switches}]\n"),
    };
    format!(
        "
[[flow]]
name  = \"{TRANSFER}\"
from  = \"west\"
to    = \"east\"
start = \"{START_S}s\"
bytes = \"{bytes}B\"
congestion_control = \"{first}\"
receive_buffer = \"{buffer}B\"
send_buffer    = \"{buffer}B\"
{switch}",
        bytes = story.file_bytes,
        buffer = 2 * BUFFER_BYTES,
    )
}

/// The client is in the east; the file comes from the west.
fn with_programs(way: Way, programs: &Programs) -> String {
    let sites = Sites {
        client: "east",
        server: "west",
    };
    sites.flows(START_S, control(way), way, programs)
}

/// The hosts of the programs that move a file.
pub struct Sites<'a> {
    /// Of the client.
    pub client: &'a str,
    /// Of the server, and of the advisor if there is one.
    pub server: &'a str,
}

impl Sites<'_> {
    /// The flows of the programs, as TOML: the transfer, which starts after `start_s` seconds, and the advisor of
    /// the way that needs one.
    pub fn flows(&self, start_s: f64, control: &str, way: Way, programs: &Programs) -> String {
        let Sites { client, server } = self;
        let mut flows = format!(
            "
[[flow]]
name  = \"{TRANSFER}\"
from  = \"{client}\"
to    = \"{server}\"
start = \"{start_s}s\"
congestion_control = \"{control}\"
application = {{ kind = \"command\", client = {}, server = {} }}
",
            quoted(&programs.client),
            quoted(&programs.server),
        );
        if way == Way::Advised {
            flows.push_str(&format!(
                "
[[flow]]
name = \"{ADVISOR}\"
from = \"{server}\"
to   = \"{client}\"
application = {{ kind = \"command\", client = {} }}
",
                quoted(&programs.advisor)
            ));
        }
        flows
    }
}

/// Quotes a string for TOML.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use fairwind_scenario::Experiment;

    use super::*;
    use crate::demo::day::Day;

    #[test]
    fn every_way_is_an_experiment_that_can_be_run() {
        let story = Story::quick(1);
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
                let names: Vec<String> = flows.flows().into_iter().map(|flow| flow.name).collect();
                assert!(names.ends_with(&others()), "{names:?}");
                assert_eq!(names.contains(&TRANSFER.to_owned()), way != Way::Nobody);
            }
        }
    }
}
