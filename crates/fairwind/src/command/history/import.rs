//! `fairwind history import`: recordings from elsewhere.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use fairwind_advisor::Clock;
use fairwind_advisor::host::HostPattern;
use fairwind_advisor::import::{ImportOptions, read};
use fairwind_advisor::service::{KnownPath, SamplesAnswer};

use crate::command::advisor::State;
use crate::failure::Failure;
use crate::{output, shell};

/// Add a recording to the history of a path
///
/// A CSV file with a header, plain or compressed by gzip. A column time (Unix seconds or milliseconds,
/// or RFC 3339), and available_mbps; or used_mbps and the capacity; or octets, a router's counter in
/// order of time, and the capacity. It may be older than the history; samples at times that the history
/// already has are refused and counted.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind history import available.csv --path b --host b.example.org
  fairwind history import ifHCInOctets.csv --path argonne --hop gateway --capacity 155")]
pub(crate) struct Import {
    /// Recording; - for standard input
    file: PathBuf,
    /// Path, which is declared if it is new
    #[arg(long, value_name = "NAME")]
    path: String,
    /// Host to add to the path; repeatable
    #[arg(long, value_name = "HOST")]
    host: Vec<HostPattern>,
    /// Hop [default: the path's first declared hop, or path]
    #[arg(long, value_name = "NAME")]
    hop: Option<String>,
    /// Capacity, Mbit/s, if the file has no column capacity_mbps
    #[arg(long, value_name = "MBPS")]
    capacity: Option<f64>,
    /// Width of a counter, 32 or 64 [default: 64 if a value needs it, otherwise 32]
    #[arg(long, value_name = "BITS")]
    counter_bits: Option<u32>,
    #[command(flatten)]
    state: State,
}

impl Import {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let file: Box<dyn Read> = if self.file.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(&self.file).map_err(Failure::no_input(&self.file))?)
        };
        let options = ImportOptions {
            capacity_mbps: self.capacity,
            counter_bits: self.counter_bits,
        };
        let recording = read(file, &options).map_err(Failure::no_input(&self.file))?;
        let local = self.state.open(Clock::System)?;
        let path = local.path_to(&self.path, &self.host)?;
        let answer = local.fill(&path, self.hop.as_deref(), recording.samples)?;
        let mut text = summary(&answer);
        if recording.resets > 0 {
            let resets = recording.resets;
            text += &format!("\n{resets} intervals in which the counter was reset");
        }
        output::line(&text)?;
        tell_if_no_host_leads_to(&path, self.state.folder());
        Ok(())
    }
}

/// Warns that nobody is advised from a path without hosts, and prints the command that adds some, in the same
/// state directory.
pub(crate) fn tell_if_no_host_leads_to(path: &KnownPath, state: Option<&Path>) {
    let config = path.config();
    if config.hosts.is_empty() {
        let name = &config.name;
        let state =
            state.map(|state| format!(" --state {}", shell::word(&state.to_string_lossy())));
        eprintln!(
            "no host leads to path {name}, so nobody is advised from its history yet:\n  \
             fairwind advisor paths add-hosts {name} HOST{}",
            state.unwrap_or_default()
        );
    }
}

/// How many samples were accepted, and how many refused for which reason.
pub(crate) fn summary(answer: &SamplesAnswer) -> String {
    let refused = &answer.refused;
    let mut text = format!("{} samples imported", answer.accepted);
    for (number, why) in [
        (refused.duplicate, "at times that the history already has"),
        (refused.out_of_order, "before 1970"),
        (refused.future, "of the future"),
        (refused.negative, "below 0"),
        (refused.not_a_number, "that are not numbers"),
    ] {
        if number > 0 {
            text += &format!("\n{number} refused: {why}");
        }
    }
    text
}
