//! `fairwind doctor`: what this host can do, and the command that fixes each shortcoming.

mod buffers;
mod check;
mod facts;
mod purpose;

use clap::{Args, ValueEnum};
use fairwind_path::units::{Bandwidth, Duration};
use fairwind_scenario::units_text;
use serde_json::{Value, json};

pub(crate) use purpose::Purpose;

use crate::failure::Failure;
use crate::output;
use check::{Finding, State};
use facts::Facts;

/// Say what this host can do, and which command fixes what it cannot
///
/// The exit code is 0 if all that was asked for can work, 1 if not. Nothing is changed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind doctor                              Everything
  fairwind doctor --for lab,nocc               Only these; exit code 0 if both can work
  fairwind doctor --for drs --bandwidth 10Gbit/s --rtt 100ms
  fairwind doctor --json | jq -r '.purposes[].checks[].fix | select(.)'")]
pub(crate) struct Doctor {
    /// What has to work, separated by commas; repeatable [default: all]
    #[arg(
        long = "for",
        value_name = "PURPOSE",
        value_enum,
        value_delimiter = ','
    )]
    purposes: Vec<Purpose>,
    /// Bandwidth that transfers should reach
    #[arg(long, value_name = "RATE", default_value = "1Gbit/s", value_parser = bandwidth)]
    bandwidth: Bandwidth,
    /// Round-trip time of their path
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration)]
    rtt: Duration,
    /// Print JSON and nothing else
    #[arg(long)]
    json: bool,
}

/// What a host was checked for, and the findings.
struct Examination {
    goal: Goal,
    purposes: Vec<(Purpose, Vec<Finding>)>,
}

/// The path that transfers are to fill.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goal {
    bandwidth: Bandwidth,
    rtt: Duration,
}

impl Goal {
    /// Bytes in flight that fill the path: the bandwidth-delay product.
    fn product(&self) -> u64 {
        let bits = u128::from(self.bandwidth.as_bps()) * u128::from(self.rtt.as_nanos());
        u64::try_from(bits / 8_000_000_000).unwrap_or(u64::MAX)
    }
}

impl Doctor {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let goal = Goal {
            bandwidth: self.bandwidth,
            rtt: self.rtt,
        };
        let mut purposes = self.purposes;
        if purposes.is_empty() {
            purposes.extend(Purpose::value_variants());
        }
        let examination = Examination::of(&Facts::gather(), goal, &purposes);
        let printed = match self.json {
            true => output::json(&examination.json()),
            false => output::line(&examination.text()),
        };
        let missing = examination.missing();
        if missing.is_empty() {
            return Ok(printed?);
        }
        Err(Failure::work(format!(
            "cannot work here: {}",
            missing.join(", ")
        )))
    }
}

impl Examination {
    fn of(facts: &Facts, goal: Goal, purposes: &[Purpose]) -> Self {
        let purposes = purposes.iter().map(|&p| (p, p.findings(facts, goal)));
        Self {
            goal,
            purposes: purposes.collect(),
        }
    }

    /// Names of the purposes that cannot work.
    fn missing(&self) -> Vec<String> {
        let missing = self
            .purposes
            .iter()
            .filter(|(_, f)| worst(f) == State::Missing);
        missing.map(|(purpose, _)| purpose.name()).collect()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (purpose, findings) in &self.purposes {
            let verdict = match worst(findings) {
                State::Fine => "can work",
                State::Limited => "can work, with limits",
                State::Missing => "cannot work",
            };
            text.push_str(&format!("{}: {verdict}\n", purpose.name()));
            for finding in findings {
                text.push_str(&finding.text());
            }
        }
        text
    }

    fn json(&self) -> Value {
        let purposes = self.purposes.iter().map(|(purpose, findings)| {
            let checks: Vec<Value> = findings.iter().map(Finding::json).collect();
            json!({ "purpose": purpose.name(), "state": worst(findings).name(), "checks": checks })
        });
        json!({
            "works": self.missing().is_empty(),
            "bandwidth_bps": self.goal.bandwidth.as_bps(),
            "rtt_ms": self.goal.rtt.as_nanos() as f64 / 1e6,
            "product_bytes": self.goal.product(),
            "purposes": purposes.collect::<Vec<_>>(),
        })
    }
}

fn worst(findings: &[Finding]) -> State {
    let states = findings.iter().map(|finding| finding.state);
    states.max().unwrap_or(State::Fine)
}

fn bandwidth(text: &str) -> Result<Bandwidth, String> {
    match units_text::bandwidth(text).map_err(|error| format!("{}: {}", error.message, error.help))
    {
        Ok(bandwidth) if bandwidth.as_bps() == 0 => Err("a bandwidth above 0 is needed".into()),
        bandwidth => bandwidth,
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    units_text::duration(text).map_err(|error| format!("{}: {}", error.message, error.help))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: Goal = Goal {
        bandwidth: Bandwidth::from_mbps(1_000),
        rtt: Duration::from_millis(100),
    };

    #[test]
    fn the_product_is_bytes() {
        assert_eq!(GOAL.product(), 12_500_000);
    }

    #[test]
    fn a_fit_host_can_do_everything() {
        let examination = Examination::of(&Facts::fit(), GOAL, Purpose::value_variants());
        assert_eq!(
            examination.missing(),
            Vec::<String>::new(),
            "{}",
            examination.text()
        );
        assert!(
            !examination.text().contains("limits"),
            "{}",
            examination.text()
        );
        assert_eq!(examination.json()["works"], true);
    }

    #[test]
    fn an_unfit_host_can_simulate_and_every_shortcoming_has_its_command() {
        let examination = Examination::of(&Facts::unfit(), GOAL, Purpose::value_variants());
        assert_eq!(
            examination.missing(),
            [
                "lab", "trace", "run", "agent", "controls", "nocc", "serve", "drs", "demo"
            ]
        );
        for (_, findings) in &examination.purposes {
            for finding in findings {
                assert_eq!(
                    finding.state == State::Fine,
                    finding.fix.is_none(),
                    "{finding:?}"
                );
            }
        }
        let json = examination.json();
        assert_eq!(json["works"], false);
        assert_eq!(json["purposes"][0]["state"], "fine");
    }

    #[test]
    fn without_rights_programs_run_with_limits_if_their_sockets_are_in_reach() {
        let facts = Facts {
            lacking: vec!["CAP_SYS_ADMIN", "CAP_BPF"],
            ..Facts::fit()
        };
        let text = Examination::of(&facts, GOAL, &[Purpose::Run]).text();
        assert!(text.starts_with("run: can work, with limits\n"), "{text}");
        assert!(text.contains("  ok    sockets "), "{text}");
        let facts = Facts {
            unreachable: Some("kernel.yama.ptrace_scope is 2".into()),
            ..facts
        };
        let text = Examination::of(&facts, GOAL, &[Purpose::Run]).text();
        assert!(text.starts_with("run: cannot work\n"), "{text}");
        assert!(text.contains("ptrace_scope is 2"), "{text}");
    }

    #[test]
    fn what_is_missing_stands_above_its_command() {
        let facts = Facts {
            available: vec!["cubic".into()],
            lacking: vec!["CAP_SYS_ADMIN", "CAP_BPF"],
            ..Facts::fit()
        };
        let text = Examination::of(&facts, GOAL, &[Purpose::Nocc]).text();
        assert!(text.starts_with("nocc: cannot work\n"), "{text}");
        assert!(
            text.contains(
                "  no    fw_nocc         not loaded\n          fairwind cc load nocc --allow-nocc\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_is_only_not_loaded_yet_is_no_failure() {
        let facts = Facts {
            available: vec!["cubic".into()],
            ..Facts::fit()
        };
        let examination = Examination::of(&facts, GOAL, Purpose::value_variants());
        assert_eq!(examination.missing(), Vec::<String>::new());
        let text = examination.text();
        assert!(
            text.contains("nocc: can work, with limits\n  less  fw_nocc"),
            "{text}"
        );
    }

    #[test]
    fn a_lab_that_the_kernel_refuses_is_missing_with_the_reason() {
        let refused = "mounting /proc for the programs: Invalid argument (os error 22)";
        let facts = Facts {
            lab_refused: Some(refused.to_owned()),
            ..Facts::fit()
        };
        let examination = Examination::of(&facts, GOAL, Purpose::value_variants());
        assert_eq!(examination.missing(), ["lab", "demo"]);
        assert!(examination.text().contains(refused));
    }
}
