//! `fairwind trace`: the instruments of the kernel's own TCP connections.

mod columns;
mod config;
mod daemon;
mod plot;
mod screen;
mod show;
pub(crate) mod value;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use fairwind_trace::event::Event;
use fairwind_trace::file::FileError;
use fairwind_trace::filter::{Filter, Network};
use fairwind_trace::instrument::Instrument;
use fairwind_trace::kernel::{Counts, Options};
use fairwind_trace::plan::Plan;
use fairwind_trace::record::{Index, Limits};
use fairwind_trace::session::Session;
use serde_json::json;

use crate::failure::{Failure, all_of};
use crate::table::Table;
use crate::{interrupt, output};
pub(crate) use columns::columns;
use screen::Screen;
pub(crate) use value::{duration, interval};

/// Default time between samples.
const DEFAULT_INTERVAL: Duration = Duration::from_millis(10);

/// Trace TCP connections of this machine's kernel
///
/// Reads what TCP knows of a connection, from its first packet to its last, in all network
/// namespaces: window, threshold, round-trip times, timeouts, rates, buffers, what limits it. The
/// folder gets one Parquet file per connection, and trace.json, which lists them and says what was
/// missed. Of several values of one option, one must match; of several options, all. Connections are
/// never disturbed. Ends after --duration or with Ctrl-C; what was traced until then is kept.
///
/// Needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    // A trace goes into a folder, onto the screen, or both; or a file of one is shown.
    group = ArgGroup::new("target").args(["out", "live", "file"]).required(true).multiple(true),
    after_help = "\
Examples:
  fairwind trace --port 5201 --out iperf.trace
  fairwind trace --host 10.0.0.0/8 --every-ack --duration 60s --out ack.trace
  fairwind trace --program curl --interval 1ms --out curl.trace
  fairwind trace --live
  fairwind trace iperf.trace/00001_10.0.0.1-40112_10.0.0.2-5201.parquet --csv
  fairwind trace plot iperf.trace
  fairwind trace daemon /etc/fairwind/trace.toml"
)]
pub(crate) struct Trace {
    #[command(subcommand)]
    action: Option<Action>,
    /// Show this file of a trace, instead of tracing
    #[arg(conflicts_with_all = TRACING)]
    file: Option<PathBuf>,
    /// With FILE: print all its samples as CSV
    #[arg(long, requires = "file")]
    csv: bool,
    /// Connections with this port at either host; repeatable
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Connections with this address, or one of this network, at either host; repeatable
    #[arg(long, value_name = "ADDRESS")]
    host: Vec<Network>,
    /// Connections of programs with this name, of which the kernel keeps 15 bytes; repeatable
    #[arg(long, value_name = "NAME")]
    program: Vec<String>,
    /// Connections in this network namespace: its inode, or a file such as /proc/1/ns/net; repeatable
    #[arg(long, value_name = "INODE|FILE", value_parser = value::namespace)]
    netns: Vec<u32>,
    /// Connections of this control group (version 2), a folder, and all below it; repeatable
    #[arg(long, value_name = "FOLDER", value_parser = value::cgroup)]
    cgroup: Vec<u64>,
    /// Time between samples, at least 1ms [default: 10ms, or none with --every-ack]
    #[arg(long, value_name = "TIME", value_parser = value::interval)]
    interval: Option<Duration>,
    /// Take a sample whenever an acknowledgement arrives
    #[arg(long)]
    every_ack: bool,
    /// Write only these instruments, separated by commas; needs --out [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = columns::variable)]
    #[arg(requires = "out")]
    variables: Vec<&'static Instrument>,
    /// Also write the state of fairwind's own congestion controls; needs --out
    #[arg(long, requires = "out")]
    control_state: bool,
    /// How long to trace [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = value::duration)]
    duration: Option<Duration>,
    /// Folder for the files, new or empty
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show the connections while they are traced, the busiest first
    #[arg(long)]
    live: bool,
    /// Memory for samples that wait to be written, 4KiB to 1GiB
    #[arg(long, value_name = "BYTES", value_parser = value::buffer, default_value = "16MiB")]
    buffer: u32,
    /// Print trace.json at the end and nothing else; needs --out, not with --live
    #[arg(long, conflicts_with = "live", requires = "out")]
    json: bool,
}

/// Options that make no sense with a file.
const TRACING: [&str; 14] = [
    "port",
    "host",
    "program",
    "netns",
    "cgroup",
    "interval",
    "every_ack",
    "variables",
    "control_state",
    "duration",
    "out",
    "live",
    "buffer",
    "json",
];

#[derive(Subcommand)]
enum Action {
    Daemon(daemon::Daemon),
    Plot(plot::Plot),
    Show(show::Show),
}

impl Trace {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match (&self.action, &self.file) {
            (Some(Action::Daemon(daemon)), _) => daemon.run(),
            (Some(Action::Plot(plot)), _) => plot.run(),
            (Some(Action::Show(show)), _) => show.run(),
            (None, Some(file)) => show::show(file, self.csv),
            (None, None) => self.trace(),
        }
    }

    fn trace(self) -> Result<(), Failure> {
        interrupt::catch()?;
        let screen = self.live.then(Screen::new);
        match self.out.clone() {
            Some(folder) => self.into_folder(folder, screen),
            None => self.onto_screen(screen.expect("one of both is asked for")),
        }
    }

    fn should_continue(&self, session: &Session) -> bool {
        !interrupt::asked() && self.duration.is_none_or(|end| session.elapsed() < end)
    }

    fn interval(&self) -> Option<Duration> {
        self.interval
            .or((!self.every_ack).then_some(DEFAULT_INTERVAL))
    }

    fn options(&self) -> Options {
        Options {
            filter: Filter {
                hosts: self.host.clone(),
                ports: self.port.clone(),
                programs: self.program.clone(),
                namespaces: self.netns.clone(),
                cgroups: self.cgroup.clone(),
            },
            every_ack: self.every_ack,
            control_state: self.control_state,
            ring_bytes: self.buffer,
        }
    }

    fn onto_screen(self, mut screen: Screen) -> Result<(), Failure> {
        let session = Session::start(&self.options(), self.interval());
        let mut session = session?;
        while self.should_continue(&session) {
            session.step(|event| screen.event(event))?;
            screen.draw(&session)?;
        }
        let counts = session.counts()?;
        drop(screen);
        Ok(output::line(&not_seen(&counts))?)
    }

    fn into_folder(self, folder: PathBuf, mut screen: Option<Screen>) -> Result<(), Failure> {
        let plan = Plan {
            options: self.options(),
            interval: self.interval(),
            folder,
            columns: columns(&self.variables, self.control_state)?,
            limits: Limits::default(),
        };
        let mut running = plan.start()?;
        let mut failed = Vec::new();
        let mut ended = Ok(());
        while ended.is_ok() && failed.is_empty() && self.should_continue(running.session()) {
            let each = |event: &Event<'_>| screen.iter_mut().for_each(|s| s.event(event));
            ended = running.step(each).map_err(Failure::from);
            failed = running.failures();
            if let (Some(screen), Ok(())) = (&mut screen, &ended) {
                ended = screen.draw(running.session());
            }
        }
        let counts = running.session().counts();
        let (index, more) = running.finish(|_| {}).map_err(Failure::work)?;
        drop(screen);
        failed.extend(more);
        let printed = match self.json {
            true => output::json(&json!(index)),
            false => output::line(&text(&index, &counts?)),
        };
        match ended {
            Ok(()) | Err(Failure::BrokenPipe) => whole(&index, failed)?,
            Err(failure) => return Err(failure),
        }
        Ok(printed?)
    }
}

/// Fails if something could not be written.
fn whole(index: &Index, failed: Vec<FileError>) -> Result<(), Failure> {
    all_of(failed.iter().map(FileError::to_string).collect())?;
    match index.unwritten {
        0 => Ok(()),
        unwritten => Err(Failure::work(format!(
            "the disk is full: {unwritten} samples were not written"
        ))),
    }
}

fn text(index: &Index, counts: &Counts) -> String {
    let mut table = Table::new(
        "local | remote | program | control | >from s | >to s | >samples | >lost | \
             file",
    );
    for connection in &index.connections {
        table.row([
            connection.local.clone(),
            connection.remote.clone(),
            connection.program.clone().unwrap_or_default(),
            connection.congestion_controls.join(" "),
            format!("{:.3}", connection.first_s),
            format!("{:.3}", connection.last_s),
            connection.samples.to_string(),
            connection.lost.to_string(),
            connection.file.clone(),
        ]);
    }
    format!("{}{}", table.render(), unseen(counts, index))
}

/// Describes what the trace lacks.
fn unseen(counts: &Counts, index: &Index) -> String {
    let left_out = [
        ("late:", index.late_intervals, "intervals without a sample"),
        ("unwritten:", index.unwritten, "samples (disk full)"),
        (
            "unrecorded:",
            index.unrecorded,
            "connections, for want of files",
        ),
        ("removed:", index.removed, "of the oldest files"),
    ];
    not_seen(counts) + &lines(&left_out)
}

/// Describes what the kernel's part of the tracer missed.
fn not_seen(counts: &Counts) -> String {
    let lost: u64 = counts.lost.iter().sum();
    let mut text = format!("lost: {lost} samples\n");
    if lost > 0 {
        text += "  the buffer was full: --buffer makes it larger, or `buffer` in a daemon's file\n";
    }
    let missed = [
        (
            "missed: the kernel left out",
            counts.missed_runs,
            "runs of the tracer",
        ),
        (
            "skipped: the kernel did not tell of",
            counts.skipped,
            "segments received",
        ),
        (
            "unwatched:",
            counts.unwatched,
            "connections, for want of memory in the kernel",
        ),
    ];
    text + &lines(&missed)
}

/// A line for each number that is not 0, with the words before and behind it.
fn lines(all: &[(&str, u64, &str)]) -> String {
    let some = all.iter().filter(|(_, number, _)| *number > 0);
    let lines = some.map(|(before, number, behind)| format!("{before} {number} {behind}\n"));
    lines.collect()
}
