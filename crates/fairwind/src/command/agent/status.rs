//! `fairwind agent status`.

use clap::Args;
use fairwind_agent::daemon::{LiveConnection, Status};
use fairwind_agent::host::{Before, Connection, Why};
use serde_json::json;

use super::Running;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Show the rules, what became of their connections, and the connections themselves
#[derive(Args)]
pub(super) struct ShowStatus {
    #[command(flatten)]
    running: Running,
    /// Each connection, too: its rule, what was changed and why, and what it had before
    #[arg(long)]
    live: bool,
    /// JSON in place of tables
    #[arg(long)]
    json: bool,
}

impl ShowStatus {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let client = self.running.client()?;
        let status = client.get::<Status>(&format!("/v1/status?live={}", self.live));
        let status = status.map_err(Running::failed)?;
        if self.json {
            return Ok(output::json(&json!(status))?);
        }
        output::line(&head(&status))?;
        output::line(&rules(&status).render())?;
        if !status.advised_starts.is_empty() {
            output::line("")?;
            output::line(&starts(&status).render())?;
        }
        if let Some(connections) = &status.connections {
            output::line("")?;
            output::line(&table(connections).render())?;
        }
        Ok(())
    }
}

fn head(status: &Status) -> String {
    let rules = super::rules(status.rules.len());
    let mut head = format!("{}: {rules}", status.policy.display());
    if status.dry_run {
        head.push_str("; a dry run: nothing is changed");
    }
    if status.undone {
        head.push_str("; everything has been given back: `fairwind agent reload` takes care again");
    }
    if !status.survives {
        head.push_str("; what connections had before does not outlive the agent");
        let why = status.not_kept.iter().map(|why| format!(": {why}"));
        head.extend(why);
    }
    head
}

fn rules(status: &Status) -> Table {
    let mut table = Table::new(
        "rule | congestion control | >limit, Mbit/s | >connections | >given | >own choice | >refused | >left alone | >calls ignored",
    );
    for rule in &status.rules {
        let counts = &rule.counts;
        table.row([
            rule.name.clone(),
            rule.congestion_control.clone().unwrap_or_else(dash),
            rule.limit_mbps
                .map_or_else(dash, |limit| format!("{limit}")),
            counts.connections.to_string(),
            counts.given.to_string(),
            counts.own.to_string(),
            counts.refused.to_string(),
            counts.left_alone.to_string(),
            counts.ignored.to_string(),
        ]);
    }
    table
}

fn starts(status: &Status) -> Table {
    let mut table = Table::new(
        "advised start to | >namespace | congestion control | >Mbit/s | >rtt, ms | >holds for, s",
    );
    for one in &status.advised_starts {
        table.row([
            one.destination.to_string(),
            one.namespace.to_string(),
            one.congestion_control.clone(),
            format!("{:.1}", one.rate_mbps),
            format!("{:.1}", one.rtt_ms),
            match one.holds_for_s {
                Some(seconds) => format!("{seconds:.0}"),
                None => "found wrong".to_owned(),
            },
        ]);
    }
    table
}

fn dash() -> String {
    "-".to_owned()
}

fn table(connections: &[LiveConnection]) -> Table {
    let mut table = Table::new(
        "program | connection | rule | control | what was changed | before | >s | >sent, MB | >received, MB",
    );
    for live in connections {
        let one = &live.connection;
        let arrow = if one.incoming { "<-" } else { "->" };
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        table.row([
            one.program.clone(),
            format!("{} {arrow} {}", one.local, one.remote),
            live.rule.clone().unwrap_or_else(dash),
            one.congestion_control.clone(),
            changed(one),
            before(&one.why, &one.before),
            format!("{:.0}", one.seconds),
            megabytes(one.bytes_sent),
            megabytes(one.bytes_received),
        ]);
    }
    table
}

fn changed(connection: &Connection) -> String {
    let why = &connection.why;
    if why.only_told {
        return "nothing: a dry run".to_owned();
    }
    if why.left_alone {
        let upper = connection.upper_protocol.as_deref();
        let upper = upper.unwrap_or("another protocol");
        return format!("nothing: {upper} is on top");
    }
    let mut parts = Vec::new();
    for (is_so, part) in [
        (why.gave_control, "control"),
        (why.gave_limit, "limit"),
        (why.gave_mark, "mark"),
        (why.gave_buffers, "buffers"),
        (connection.held, "held down"),
        (connection.advised, "as advised"),
        (why.kept_own, "kept its program's control"),
        (why.refused, "not the control: the kernel refuses it"),
    ] {
        if is_so {
            parts.push(part);
        }
    }
    match parts.is_empty() {
        true => dash(),
        false => parts.join(", "),
    }
}

fn before(why: &Why, before: &Before) -> String {
    let mut parts: Vec<String> = before.congestion_control.iter().cloned().collect();
    if why.gave_limit {
        parts.push(match before.limit_mbps {
            Some(limit) => format!("{limit} Mbit/s"),
            None => "no limit".to_owned(),
        });
    }
    parts.extend(before.traffic_class.map(|class| format!("class {class}")));
    match parts.is_empty() {
        true => dash(),
        false => parts.join(", "),
    }
}
