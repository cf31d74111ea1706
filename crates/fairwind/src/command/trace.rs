//! `fairwind trace`: the instruments of the kernel's own TCP connections.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use fairwind_experiment::units_text::{self, UnitError};
use fairwind_trace::event::Event;
use fairwind_trace::file::{self, FileError};
use fairwind_trace::filter::{Filter, Network};
use fairwind_trace::kernel::{Counts, Options, TraceError, check_requirements};
use fairwind_trace::live::Live;
use fairwind_trace::record::{Index, Recorder};
use fairwind_trace::session::{MIN_INTERVAL, Session};
use serde_json::json;
use terminal_size::{Height, Width, terminal_size};

use crate::failure::Failure;
use crate::table::Table;
use crate::{interrupt, output};

/// Time between two pictures of `--live`.
const PICTURE: Duration = Duration::from_millis(500);
/// Lines and columns of a picture where there is no terminal.
const PAGE: (usize, usize) = (50, 200);

/// Trace TCP connections of this machine's kernel
///
/// Reads what TCP knows of a connection, from its first packet to its last, in all network
/// namespaces: window, threshold, round-trip times, timeouts, rates, buffers, what limits it. The
/// folder gets a Parquet file a connection and trace.json, which lists them and says what was not
/// seen. Of several values of one option, one must match; of several options, all. Connections are
/// never disturbed. Ends after --duration or with Ctrl-C; what was traced until then is kept.
///
/// Needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  fairwind trace --port 5201 --out iperf.trace
  fairwind trace --host 10.0.0.0/8 --every-ack --duration 60s --out ack.trace
  fairwind trace --program curl --interval 1ms --out curl.trace
  fairwind trace --live
  fairwind trace show iperf.trace/00001_10.0.0.1-40112_10.0.0.2-5201.parquet --csv"
)]
pub struct Trace {
    #[command(subcommand)]
    action: Option<Action>,
    /// Connections with this port at either end; repeat it for several
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Connections with this address, or one of this network, at either end
    #[arg(long, value_name = "ADDRESS")]
    host: Vec<Network>,
    /// Connections of programs with this name
    #[arg(long, value_name = "NAME")]
    program: Vec<String>,
    /// Connections in this network namespace, an inode or a file such as /proc/1/ns/net
    #[arg(long, value_name = "INODE|FILE", value_parser = namespace)]
    netns: Vec<u32>,
    /// Connections of this control group (version 2), a folder
    #[arg(long, value_name = "FOLDER", value_parser = cgroup)]
    cgroup: Vec<u64>,
    /// Time between samples, 1ms at least [default: 10ms, or none with --every-ack]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<Duration>,
    /// Sample whenever an acknowledgement comes
    #[arg(long)]
    every_ack: bool,
    /// How long to trace [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Folder for the files, new or empty
    #[arg(long, value_name = "DIR", required_unless_present = "live")]
    out: Option<PathBuf>,
    /// Show the connections while they are traced
    #[arg(long)]
    live: bool,
    /// Memory for samples that wait to be written
    #[arg(long, value_name = "BYTES", value_parser = buffer, default_value = "16MiB")]
    buffer: u32,
    /// Print trace.json at the end and nothing else
    #[arg(long, conflicts_with = "live", requires = "out")]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    Show(Show),
}

/// Show the file of a traced connection
#[derive(Args)]
struct Show {
    /// A Parquet file of a trace
    file: PathBuf,
    /// Print all samples as CSV, not what connection it is
    #[arg(long)]
    csv: bool,
}

impl Trace {
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            Some(Action::Show(show)) => show.run(),
            None => self.trace(),
        }
    }

    fn trace(self) -> Result<(), Failure> {
        interrupt::catch()?;
        // Before a folder is made in vain.
        check_requirements().map_err(failure)?;
        let mut recorder = match &self.out {
            Some(out) => Some(Recorder::create(out).map_err(Failure::input)?),
            None => None,
        };
        let mut screen = self.live.then(Screen::new);
        let interval = match self.every_ack {
            true => self.interval,
            false => Some(self.interval.unwrap_or(Duration::from_millis(10))),
        };
        let options = Options {
            filter: Filter {
                hosts: self.host,
                ports: self.port,
                programs: self.program,
                namespaces: self.netns,
                cgroups: self.cgroup,
            },
            every_ack: self.every_ack,
            ring_bytes: self.buffer,
        };
        let mut session = Session::start(&options, interval).map_err(failure)?;
        let mut wrong: Option<FileError> = None;
        let mut each = |event: &Event, screen: &mut Option<Screen>| {
            if let Some(recorder) = &mut recorder
                && wrong.is_none()
            {
                wrong = recorder.event(event).err();
            }
            if let Some(screen) = screen {
                screen.live.event(event);
            }
            wrong.is_none()
        };
        let mut writes = true;
        let mut ended = Ok(());
        while ended.is_ok()
            && writes
            && !interrupt::asked()
            && self.duration.is_none_or(|end| session.elapsed() < end)
        {
            ended = session
                .step(|event| writes &= each(event, &mut screen))
                .map_err(failure);
            if let (Some(screen), Ok(())) = (&mut screen, &ended) {
                ended = screen.draw(&session);
            }
        }
        let (counts, manner) = session
            .finish(|event| {
                each(event, &mut screen);
            })
            .map_err(failure)?;
        drop(screen);
        if let Some(error) = wrong {
            return Err(Failure::work(error));
        }
        let Some(recorder) = recorder else {
            ended?;
            return Ok(output::line(&unseen(&counts, 0))?);
        };
        let index = recorder.finish(&counts, &manner).map_err(Failure::work)?;
        ended?;
        match self.json {
            true => output::json(&json!(index))?,
            false => output::line(&text(&index, &counts))?,
        }
        Ok(())
    }
}

impl Show {
    fn run(self) -> Result<(), Failure> {
        if !self.csv {
            let connection = file::connection(&self.file).map_err(Failure::input)?;
            return Ok(output::json(&json!(connection))?);
        }
        let mut out = BufWriter::new(io::stdout().lock());
        file::write_csv(&self.file, &mut out).map_err(Failure::input)??;
        Ok(out.flush()?)
    }
}

fn text(index: &Index, counts: &Counts) -> String {
    let mut table = Table::new()
        .words("local")
        .words("remote")
        .words("program")
        .words("control")
        .numbers("from s")
        .numbers("to s")
        .numbers("samples")
        .numbers("lost")
        .words("file");
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
    format!("{}{}", table.render(), unseen(counts, index.late_intervals))
}

/// What the trace did not see, in words.
fn unseen(counts: &Counts, late_intervals: u64) -> String {
    let lost: u64 = counts.lost.iter().sum();
    let mut text = format!("lost: {lost} samples\n");
    if lost > 0 {
        text += "  the buffer was full; --buffer makes it larger\n";
    }
    if late_intervals > 0 {
        text += &format!("late: {late_intervals} intervals without a sample\n");
    }
    if counts.missed_runs > 0 {
        text += &format!(
            "missed: the kernel left out {} runs of the tracer\n",
            counts.missed_runs
        );
    }
    if counts.unwatched > 0 {
        text += &format!(
            "unwatched: {} connections, for want of memory in the kernel\n",
            counts.unwatched
        );
    }
    text
}

/// The terminal while it shows connections; dropped, it is as before.
struct Screen {
    live: Live,
    is_terminal: bool,
    drawn: Duration,
}

impl Screen {
    fn new() -> Screen {
        let is_terminal = io::stdout().is_terminal();
        if is_terminal {
            // Another screen, no cursor. A terminal that has gone is noticed at the next picture.
            let _ = io::stdout().write_all(b"\x1b[?1049h\x1b[?25l");
        }
        Screen {
            live: Live::new(),
            is_terminal,
            drawn: Duration::ZERO,
        }
    }

    fn draw(&mut self, session: &Session) -> Result<(), Failure> {
        let since = session.elapsed().saturating_sub(self.drawn);
        if since < PICTURE {
            return Ok(());
        }
        self.drawn = session.elapsed();
        let lost = session.counts().map_err(failure)?.lost.iter().sum();
        let (lines, columns) = match terminal_size() {
            Some((Width(columns), Height(lines))) if self.is_terminal => {
                (usize::from(lines).saturating_sub(1), usize::from(columns))
            }
            _ => PAGE,
        };
        let picture = self.live.picture(since.as_secs_f64(), lost, lines, columns);
        if self.is_terminal {
            // Home; each line to its end and the rest of the screen are cleared as it is drawn.
            let picture = picture.replace('\n', "\x1b[K\r\n");
            output::line(&format!("\x1b[H{picture}\x1b[J"))?;
        } else {
            output::line(&format!("{picture}\n"))?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_terminal {
            let _ = io::stdout().write_all(b"\x1b[?25h\x1b[?1049l");
            let _ = io::stdout().flush();
        }
    }
}

fn failure(error: TraceError) -> Failure {
    match error {
        TraceError::Filter(error) => Failure::input(error),
        other => Failure::work(other),
    }
}

fn words(error: UnitError) -> String {
    format!("{}; {}", error.message, error.help)
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = units_text::duration(text).map_err(words)?;
    Ok(Duration::from_nanos(duration.as_nanos()))
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < MIN_INTERVAL {
        return Err("the shortest interval is 1ms; --every-ack gives more".to_owned());
    }
    Ok(interval)
}

fn buffer(text: &str) -> Result<u32, String> {
    let bytes = units_text::bytes(text).map_err(words)?;
    match u32::try_from(bytes.0) {
        Ok(bytes) if (4096..=1 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("from 4KiB to 1GiB are possible".to_owned()),
    }
}

fn namespace(text: &str) -> Result<u32, String> {
    if let Ok(inode) = text.parse() {
        return Ok(inode);
    }
    let inode = inode(Path::new(text), File::open(text).and_then(|f| f.metadata()))?;
    u32::try_from(inode).map_err(|_| format!("{text} is no network namespace"))
}

fn cgroup(text: &str) -> Result<u64, String> {
    inode(Path::new(text), fs::metadata(text))
}

fn inode(path: &Path, metadata: io::Result<fs::Metadata>) -> Result<u64, String> {
    match metadata {
        Ok(metadata) => Ok(metadata.ino()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
