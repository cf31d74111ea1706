//! `fairwind lab exec --trace`: the instruments of the connections behind the path.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fairwind_cc::kernel::Choice;
use fairwind_cc::native;
use fairwind_lab::exec::{self, ExecConfig, ExecOutcome};
use fairwind_lab::host::Host;
use fairwind_trace::filter::Filter;
use fairwind_trace::kernel::Options;
use fairwind_trace::plan::{Background, Plan};
use fairwind_trace::record::Limits;

use crate::command::trace;
use crate::failure::Failure;
use crate::output;

/// What of the connections is kept.
#[derive(Args)]
pub(crate) struct Traced {
    /// Write the instruments of all connections behind the path into this folder, new or empty
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Time between samples, at least 1ms; needs --trace [default: a sample on every acknowledgement]
    #[arg(long, value_name = "TIME", value_parser = trace::interval, requires = "trace")]
    trace_interval: Option<Duration>,
}

impl Traced {
    /// Runs the command, traced on request. If what was traced cannot be kept, that is told, and the outcome stays.
    pub(crate) fn run(&self, config: &ExecConfig) -> Result<ExecOutcome, Failure> {
        let Some(folder) = &self.trace else {
            return Ok(exec::run(config)?);
        };
        let begin = |hosts: &[Host]| self.begin(config, hosts, folder.clone());
        let (outcome, background) = exec::run_with(config, begin)?;
        let (index, failed) = match background.finish() {
            Ok(finished) => finished,
            Err(error) => {
                output::note(&format!("error: {error}"));
                return Ok(outcome);
            }
        };
        for error in failed {
            output::note(&format!("error: {error}"));
        }
        let (connections, lost) = (index.connections.len(), index.lost + index.unwritten);
        let skipped = match index.skipped {
            0 => String::new(),
            segments => format!(", {segments} segments skipped by the kernel"),
        };
        let unrecorded = match index.unrecorded {
            0 => String::new(),
            connections => format!(", {connections} connections left out for want of files"),
        };
        output::note(&format!(
            "trace: {connections} connections in {}, {lost} samples lost{skipped}{unrecorded}",
            folder.display()
        ));
        Ok(outcome)
    }

    fn begin(
        &self,
        config: &ExecConfig,
        hosts: &[Host],
        folder: PathBuf,
    ) -> Result<Background, Failure> {
        let control_state = match &config.congestion_control {
            Some(Choice::Own(_)) => true,
            Some(Choice::Named(name)) => native::find(name).is_some(),
            None => false,
        };
        let plan = Plan {
            options: Options {
                filter: Filter {
                    namespaces: hosts.iter().map(Host::namespace_inode).collect(),
                    ..Filter::default()
                },
                every_ack: self.trace_interval.is_none(),
                control_state,
                ..Options::default()
            },
            interval: self.trace_interval,
            folder,
            columns: trace::columns(&[], control_state)?,
            limits: Limits::default(),
        };
        Ok(plan.in_background()?)
    }
}
