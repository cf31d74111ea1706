//! `fairwind trace daemon`: traces as a file describes, until it is stopped.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use fairwind_trace::file::FileError;
use fairwind_trace::kernel::TraceError;
use fairwind_trace::plan::Running;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::config::{self, Config};
use super::{plan_failure, trace_failure, unseen};
use crate::failure::Failure;
use crate::output;

/// Trace as a file says, until SIGTERM
///
/// Follows every connection that matches from its first packet to its last and writes one file a
/// connection, each run into a folder of its own with its time as name. SIGTERM or Ctrl-C end it:
/// all files are whole then. SIGHUP reads the file again and goes on with what it says, in a new
/// folder; if that cannot be, it is said and all stays as it was.
#[derive(Args)]
#[command(after_help = "\
Example of a file:
  out = \"/var/lib/fairwind\"
  interval = \"10ms\"
  variables = [\"CurCwnd\", \"CurSsthresh\", \"SmoothedRTT\", \"CurRTO\", \"HCThruOctetsAcked\"]
  [match]
  hosts = [\"192.168.1.0/24\"]
  ports = [20, 21]

`fairwind schema trace-daemon` describes every field for editors.")]
pub struct Daemon {
    /// File that says what to trace (TOML)
    file: PathBuf,
    /// Only say whether the file is right
    #[arg(long)]
    check: bool,
}

/// What signals have requested.
struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    fn catch() -> Result<Signals, Failure> {
        let signals = Signals {
            stop: Arc::default(),
            reload: Arc::default(),
        };
        for signal in [SIGTERM, SIGINT] {
            flag::register(signal, Arc::clone(&signals.stop)).map_err(Failure::work)?;
        }
        flag::register(SIGHUP, Arc::clone(&signals.reload)).map_err(Failure::work)?;
        Ok(signals)
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }
}

impl Daemon {
    pub fn run(&self) -> Result<(), Failure> {
        let config = config::load(&self.file)?;
        if self.check {
            return Ok(output::line(&format!("{}: right", self.file.display()))?);
        }
        let signals = Signals::catch()?;
        let mut run = Run::begin(&config)?;
        run.announce();
        while !signals.stop() {
            if let Err(error) = run.step() {
                return run.end(Some(error));
            }
            if signals.reload() {
                // The next run begins before the previous one ends: if it fails to begin, nothing changes; if
                // it begins, no connection is missed in between.
                match config::load(&self.file).and_then(|config| Run::begin(&config)) {
                    Ok(next) => {
                        told(mem::replace(&mut run, next).end(None));
                        run.announce();
                    }
                    Err(error) => {
                        told(Err(error));
                        eprintln!("{} stays as it was", self.file.display());
                    }
                }
            }
        }
        run.end(None)
    }
}

/// Reports a failure without ending the daemon.
fn told(outcome: Result<(), Failure>) {
    if let Err(error) = outcome {
        let _ = error.report();
    }
}

/// One run, into its own folder.
struct Run {
    folder: PathBuf,
    running: Running,
    told: WarnedOnce,
}

impl Run {
    fn begin(config: &Config) -> Result<Run, Failure> {
        let mut plan = config.plan()?;
        plan.folder = free_name(&config.out);
        let running = plan.start().map_err(plan_failure)?;
        Ok(Run {
            folder: plan.folder,
            running,
            told: WarnedOnce::default(),
        })
    }

    /// A line for programs that wait for the trace to begin; the trace goes on even if it cannot be printed.
    fn announce(&self) {
        let _ = output::line(&format!("tracing into {}", self.folder.display()));
    }

    fn step(&mut self) -> Result<(), TraceError> {
        let outcome = self.running.step(|_| {});
        self.told.tell(&mut self.running);
        outcome
    }

    /// Finishes all files and reports what they hold, or fails with the error that ended the run.
    fn end(self, error: Option<TraceError>) -> Result<(), Failure> {
        let counts = self.running.session().counts();
        let outcome = match error {
            None => self.running.finish(|_| {}),
            Some(error) => self.running.abandon(error.into()),
        };
        let (index, failed) = outcome.map_err(Failure::work)?;
        self.told.failures(&failed);
        let (folder, connections) = (self.folder.display(), index.connections.len());
        output::line(&format!("{folder}: {connections} connections"))?;
        let counts = counts.map_err(trace_failure)?;
        Ok(output::line(&unseen(&counts, &index))?)
    }
}

/// The warnings about lack of room that were already given, so that each is given once.
#[derive(Default)]
struct WarnedOnce {
    unwritten: bool,
    unrecorded: bool,
    removed: bool,
}

impl WarnedOnce {
    fn tell(&mut self, running: &mut Running) {
        self.failures(&running.failures());
        let (unwritten, unrecorded) = running.recorder().left_out();
        if unwritten > 0 && !self.unwritten {
            self.unwritten = true;
            eprintln!("warning: no room for more samples: they are counted and left out");
        }
        if unrecorded > 0 && !self.unrecorded {
            self.unrecorded = true;
            eprintln!("warning: no more files: new connections are counted and left out");
        }
        if running.recorder().removed() > 0 && !self.removed {
            self.removed = true;
            eprintln!("the oldest files are removed to make room");
        }
    }

    fn failures(&self, failed: &[FileError]) {
        for error in failed {
            eprintln!("error: {error}; the other connections go on");
        }
    }
}

/// An unused folder for a run that begins now.
fn free_name(out: &Path) -> PathBuf {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let name = time_name(since.unwrap_or_default().as_secs());
    let mut folder = out.join(&name);
    let mut number = 1;
    while folder.exists() {
        number += 1;
        folder = out.join(format!("{name}-{number}"));
    }
    folder
}

/// A time in UTC as a name: 2005-08-31T09-30-00Z.
fn time_name(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}Z")
}

/// Year, month and day in the proleptic Gregorian calendar, `days` days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Years run from March to February, so that the leap day is the last one.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = match month < 10 {
        true => (month + 3, 0),
        false => (month - 9, 1),
    };
    (era * 400 + year + later, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_by_its_beginning() {
        assert_eq!(time_name(0), "1970-01-01T00-00-00Z");
        // The last second of the leap day of 2000.
        assert_eq!(time_name(951_868_799), "2000-02-29T23-59-59Z");
        assert_eq!(time_name(1_125_480_600), "2005-08-31T09-30-00Z");
    }
}
