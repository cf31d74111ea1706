//! What an agent tells of itself.

use std::fmt::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::host::{Connection, Counts};
use crate::starts::AdvisedDestination;

/// The state of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The policy file.
    pub policy: PathBuf,
    /// Whether it changes nothing and only tells.
    pub dry_run: bool,
    /// Whether everything has been given back, until the policy is read anew.
    pub undone: bool,
    /// Since when it has run, seconds.
    pub seconds: f64,
    /// How often the policy has been read anew.
    pub reloads: u64,
    /// Whether what connections had before outlives the agent.
    pub survives: bool,
    /// Why not.
    #[serde(default)]
    pub not_kept: Option<String>,
    /// In the order in which they are tried.
    pub rules: Vec<RuleStatus>,
    /// Destinations whose new connections start as the advisor forecasts.
    #[serde(default)]
    pub advised_starts: Vec<AdvisedDestination>,
    /// How often connections have found a forecast of the policy's advisor wrong.
    #[serde(default)]
    pub starts_found_wrong: u64,
    /// The connections that are there, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<Vec<LiveConnection>>,
}

/// A rule, and what became of its connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuleStatus {
    /// Its name.
    pub name: String,
    /// The kernel's name of its congestion control.
    pub congestion_control: Option<String>,
    /// Largest rate of each connection, Mbit/s.
    pub limit_mbps: Option<f64>,
    /// Whether packets have the mark of the Lower-Effort service.
    pub lower_effort: bool,
    /// What became of its connections, since the agent has begun.
    #[serde(flatten)]
    pub counts: Counts,
}

/// A connection and its rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LiveConnection {
    /// The rule that it meets; `None` if none, or one of an earlier policy.
    pub rule: Option<String>,
    /// Path of its control group from the root; empty if that is gone.
    pub control_group: String,
    /// The connection.
    #[serde(flatten)]
    pub connection: Connection,
}

impl Status {
    /// The metrics, in the text format of Prometheus (version 0.0.4).
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "# HELP fairwind_agent_{name} {help}\n# TYPE fairwind_agent_{name} {kind}"
            );
            for (labels, value) in values {
                let _ = writeln!(text, "fairwind_agent_{name}{labels} {value}");
            }
        };
        let one = |value: f64| vec![(String::new(), value)];
        let by_rule = |of: fn(&Counts) -> u64| -> Vec<(String, f64)> {
            let rules = self.rules.iter();
            rules
                .map(|rule| {
                    (
                        format!("{{rule=\"{}\"}}", escaped(&rule.name)),
                        of(&rule.counts) as f64,
                    )
                })
                .collect()
        };
        family(
            "rules",
            "gauge",
            "Rules of the policy.",
            &one(self.rules.len() as f64),
        );
        family(
            "dry_run",
            "gauge",
            "1 if the agent changes nothing and only tells.",
            &one(f64::from(u8::from(self.dry_run))),
        );
        family(
            "undone",
            "gauge",
            "1 if everything has been given back until the policy is read anew.",
            &one(f64::from(u8::from(self.undone))),
        );
        family(
            "reloads_total",
            "counter",
            "How often the policy has been read anew.",
            &one(self.reloads as f64),
        );
        family(
            "advised_starts",
            "gauge",
            "Destinations whose new connections start as the advisor forecasts.",
            &one(self.advised_starts.len() as f64),
        );
        family(
            "starts_found_wrong_total",
            "counter",
            "How often connections have found a forecast wrong.",
            &one(self.starts_found_wrong as f64),
        );
        family(
            "connections_total",
            "counter",
            "Connections that met the rule.",
            &by_rule(|counts| counts.connections),
        );
        family(
            "controls_given_total",
            "counter",
            "Connections that were given the congestion control of the rule.",
            &by_rule(|counts| counts.given),
        );
        family(
            "controls_own_total",
            "counter",
            "Connections that keep the congestion control that their program has chosen.",
            &by_rule(|counts| counts.own),
        );
        family(
            "controls_refused_total",
            "counter",
            "Connections to which the kernel refused the congestion control.",
            &by_rule(|counts| counts.refused),
        );
        family(
            "left_alone_total",
            "counter",
            "Connections left alone, as another protocol is on top of them.",
            &by_rule(|counts| counts.left_alone),
        );
        family(
            "calls_ignored_total",
            "counter",
            "Calls by which a program would have chosen another congestion control.",
            &by_rule(|counts| counts.ignored),
        );
        text
    }
}

/// A label's value: backslashes, quotes and line feeds have a backslash before them.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_in_the_text_format() {
        let status = Status {
            policy: "agent.toml".into(),
            dry_run: false,
            undone: false,
            seconds: 1.0,
            reloads: 2,
            survives: true,
            not_kept: None,
            rules: vec![RuleStatus {
                name: "a \"b\"".to_owned(),
                congestion_control: None,
                limit_mbps: None,
                lower_effort: false,
                counts: Counts {
                    connections: 3,
                    ..Counts::default()
                },
            }],
            advised_starts: Vec::new(),
            starts_found_wrong: 4,
            connections: None,
        };
        let text = status.metrics();
        for line in [
            "# TYPE fairwind_agent_reloads_total counter",
            "fairwind_agent_reloads_total 2",
            "fairwind_agent_advised_starts 0",
            "fairwind_agent_starts_found_wrong_total 4",
            "fairwind_agent_connections_total{rule=\"a \\\"b\\\"\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
