//! `fairwind run`: a congestion control for the connections of any program.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use fairwind_advice_client::{Client, ClientError, DEFAULT_URL};
use fairwind_agent::advised::Advisor;
use fairwind_agent::attended::{Ended, Wanted};
use fairwind_agent::daemon::{RunBegun, RunRequest};
use fairwind_agent::direct::left_out;
use fairwind_agent::error::RunError;
use fairwind_agent::run::{Outcome, run, run_attended_by_other, run_direct};
use fairwind_agent::summary::{Connection, Means};

use fairwind_cc::kernel;
use fairwind_kernel::Capabilities;
use fairwind_scenario::units_text;
use fairwind_trace::kernel::{TraceError, check_requirements};

use super::agent;
use super::cc::{nocc_refused, value};
use crate::failure::Failure;
use crate::output::{self, LaterFile};
use crate::table::Table;

/// The control that --background stands for.
const BACKGROUND: &str = "fairwind";
/// What is left out of --allow-nocc by an agent.
const ADVISED_NOCC: &str = "nocc, where it is advised: an agent gives it to no run";

/// The exit code of the command, and what its connections did, or why that is not known.
type Ran = (u8, Result<Ended, String>);

fn ran(Outcome { exit_code, ended }: Outcome) -> Ran {
    (exit_code, ended.map_err(|error| error.to_string()))
}

/// Run a program, and choose how its TCP connections send
///
/// All connections of the command and of its children have the congestion control from their SYN on, in either
/// direction, over IPv4 and IPv6; those of other programs are not touched. What a peer sends is held down by --background
/// alone. At the end a paragraph on standard error says what the connections did. The exit code is the
/// command's.
///
/// Needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN and the right to make a control group below one's own; or an agent
/// (`fairwind agent`) whose socket lets one in. Without either it does what needs no right, and says what it leaves out:
/// downloads are held down, limit and mark are set, the congestion control if everybody may have it, and what an advisor says
/// is followed so far.
#[derive(Args)]
#[command(
    group = ArgGroup::new("what").args(["background", "control", "advised", "limit"]).required(true).multiple(true),
    after_help = "\
Examples:
  fairwind run --background -- rsync -a /srv/data/ backup:data/
  fairwind run --advised -- rsync -a /srv/data/ mirror:data/
  fairwind run --control bbr --limit 20Mbit/s -- curl -T big.iso ftp://host/
  fairwind run --background --parameter delay=1ms --lower-effort -- rclone sync /srv/data remote:data
  fairwind run --background --json=backup.json -- ./backup.sh"
)]
pub(crate) struct Run {
    /// Take only what others leave of the path: by the congestion control fairwind for what is sent, by the windows that
    /// are offered for what is received
    #[arg(long, conflicts_with = "control")]
    background: bool,
    /// Congestion control: one of the kernel's, or one of `fairwind cc list`, loaded for this run
    #[arg(long, value_name = "NAME")]
    control: Option<String>,
    /// Let each connection follow what the advisor of this host, or at this address, says of its peer
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_URL,
        conflicts_with_all = ["background", "control"])]
    advised: Option<String>,
    /// Set a parameter of that congestion control, which is then fairwind's own; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::assignment)]
    parameter: Vec<(String, String)>,
    /// Largest rate of each connection, up to 34Gbit/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    limit: Option<u32>,
    /// Mark the packets for the Lower-Effort service (RFC 8622), which routers may treat as they like
    #[arg(long)]
    lower_effort: bool,
    /// Also connections whose program chooses a congestion control itself, which otherwise keep that
    #[arg(long)]
    force: bool,
    /// Allow nocc, which switches congestion control off
    #[arg(long)]
    allow_nocc: bool,
    /// At the end a line about each connection, too
    #[arg(long)]
    connections: bool,
    /// At the end JSON in place of the paragraph, with each connection; in this file if one is named
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,
    /// Unix socket of the agent that is asked where rights are missing
    #[arg(long, value_name = "FILE", default_value = agent::SOCKET)]
    agent: PathBuf,
    /// Say nothing at the end
    #[arg(long, conflicts_with_all = ["json", "connections"])]
    quiet: bool,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let name = match self.background {
            true => Some(BACKGROUND),
            false => self.control.as_deref(),
        };
        if !self.allow_nocc && name.is_some_and(kernel::is_nocc) {
            return Err(nocc_refused());
        }
        if name.is_none() && !self.parameter.is_empty() {
            return Err(Failure::input(
                "--parameter goes with --background or --control",
            ));
        }
        let control = name
            .map(|name| value::choice(name, &self.parameter))
            .transpose()?;
        let wanted = Wanted {
            control,
            is_forced: self.force,
            max_rate: self.limit,
            is_lower_effort: self.lower_effort,
            is_held: self.background,
            advisor: self.advisor()?,
        };
        let file = self.json.as_ref().and_then(Option::as_deref);
        let file = file.map(LaterFile::open).transpose()?;
        let (exit_code, ended) = match check_requirements() {
            Err(missing) if !has_rights() => self.ask(&wanted, &missing)?,
            _ => ran(run(&self.command, &wanted)?),
        };
        match ended {
            Ok(ended) => self.tell(&ended, file),
            Err(error) => self.note(&format!("what the connections did is not known: {error}")),
        }
        match exit_code {
            0 => Ok(()),
            code => std::process::exit(code.into()),
        }
    }

    /// Whom to ask. Without congestion control it may send anywhere, if it may at all.
    fn advisor(&self) -> Result<Option<Advisor>, Failure> {
        let Some(url) = &self.advised else {
            return Ok(None);
        };
        Client::new(url)?;
        let everywhere = || "::/0".parse().expect("a network");
        Ok(Some(Advisor {
            url: url.clone(),
            allow_nocc: self.allow_nocc.then(everywhere).into_iter().collect(),
        }))
    }

    /// Lets the agent take care of the command's connections, as the rights to do so are missing. Without an agent, what
    /// needs no right is done here.
    fn ask(&self, wanted: &Wanted, missing: &TraceError) -> Result<Ran, Failure> {
        if self.advised.as_ref().is_some_and(|url| url != DEFAULT_URL) {
            let neither = format!("{missing}; an agent asks the advisor of its policy alone");
            return self.do_without(wanted, &neither);
        }
        // It lists up to 4,096 connections.
        let client = agent::client(&self.agent)?.with_longest_answer(16 << 20);
        let begun = client.post("/v1/runs", &RunRequest::from(wanted));
        let begun: RunBegun = match begun {
            Err(ClientError::Unreachable { reason, .. }) => {
                let neither = format!(
                    "{missing}; or let an agent do it, but {}: {reason}",
                    self.agent.display()
                );
                return self.do_without(wanted, &neither);
            }
            begun => begun?,
        };
        let left_out = (self.advised.is_some() && self.allow_nocc).then_some(ADVISED_NOCC);
        if let Some(left_out) = left_out {
            self.note(&format!("left out: {left_out}"));
        }
        let exit_code = run_attended_by_other(&self.command);
        let ended = client.delete::<Ended>(&format!("/v1/runs/{}", begun.run));
        let ended = ended.map(|mut ended| {
            ended.summary.means = Means::Agent;
            let left_out = left_out.map(str::to_owned);
            ended.summary.left_out.extend(left_out);
            ended
        });
        Ok((exit_code?, ended.map_err(|error| error.to_string())))
    }

    /// Does what needs neither rights nor an agent, of which there is `neither`.
    fn do_without(&self, wanted: &Wanted, neither: &str) -> Result<Ran, Failure> {
        let refused = |error: RunError| match error {
            RunError::Direct(error) => Failure::work(format!("{neither}; without either, {error}")),
            error => error.into(),
        };
        let left_out = left_out(wanted).map_err(refused)?;
        if !left_out.is_empty() {
            self.note(&format!("{neither}\nleft out: {}", left_out.join("; ")));
        }
        let outcome = run_direct(&self.command, wanted).map_err(refused)?;
        Ok(ran(outcome))
    }

    /// Says what the connections did. The command has run: if that fails, its exit code stays.
    fn tell(&self, Ended { summary, left }: &Ended, file: Option<LaterFile>) {
        if self.json.is_some() {
            let json = serde_json::to_string_pretty(summary).expect("numbers and text");
            match file {
                Some(file) => {
                    if let Err(failure) = file.replace(&json) {
                        self.note(&failure.message());
                    }
                }
                None => output::note(&json),
            }
        } else {
            self.note(&summary.to_string());
            if self.connections {
                output::note(&table(&summary.connections).render());
            }
        }
        if !left.is_empty() {
            let processes: Vec<String> = left.iter().map(u32::to_string).collect();
            self.note(&format!(
                "the command has left processes behind ({}): their connections keep what they were given, new ones are \
                 given nothing",
                processes.join(", ")
            ));
        }
    }

    fn note(&self, text: &str) {
        if !self.quiet {
            output::note(&format!("fairwind: {text}"));
        }
    }
}

/// Whether this process may load eBPF, so far as it can tell.
fn has_rights() -> bool {
    Capabilities::of_this_process().map_or(true, |own| own.missing_for_bpf().is_empty())
}

fn rate(text: &str) -> Result<u32, String> {
    let rate = units_text::bandwidth(text)
        .map_err(|error| format!("{}; {}", error.message, error.help))?;
    match u32::try_from(rate.as_bps() / 8) {
        Ok(bytes @ 1..) => Ok(bytes),
        _ => Err("a rate from 8bit/s to 34Gbit/s is needed".to_owned()),
    }
}

fn table(connections: &[Connection]) -> Table {
    let mut table = Table::new(
        "program | connection | control | >s | >sent, MB | >received, MB | >sent again, % | >least RTT, ms | >yielded, s",
    );
    for one in connections {
        let number =
            |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.1}"));
        let megabytes = |bytes: u64| number(Some(bytes as f64 / 1e6));
        let arrow = if one.incoming { "<-" } else { "->" };
        table.row([
            one.program.clone(),
            format!("{} {arrow} {}", one.local, one.remote),
            one.congestion_control.clone(),
            number(one.seconds),
            megabytes(one.bytes_sent),
            megabytes(one.bytes_received),
            number(Some(100.0 * one.retransmitted)),
            number(one.min_rtt_ms),
            number(one.yielded_seconds),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_in_the_range_of_the_kernels_option() {
        assert_eq!(rate("20Mbit/s"), Ok(2_500_000));
        assert_eq!(rate("8bit/s"), Ok(1));
        for text in ["0bit/s", "100Gbit/s", "fast"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
