//! `fairwind trace daemon`: traces as a file describes, until it is stopped.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use fairwind_trace::file::FileError;
use fairwind_trace::kernel::TraceError;
use fairwind_trace::plan::Running;
use jiff::Timestamp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::config::{self, Config};
use super::unseen;
use crate::failure::Failure;
use crate::output;

/// Trace the connections that a file describes, until SIGTERM
///
/// Follows every connection that matches from its first packet to its last and writes one file per
/// connection. Each run has a folder of its own, named after its time. SIGTERM or Ctrl-C ends it;
/// all files are then complete. SIGHUP reads the file again and continues in a new folder; if the file
/// is wrong, the daemon says so and changes nothing.
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
pub(crate) struct Daemon {
    /// File that says what to trace (TOML)
    file: PathBuf,
    /// Only check the file
    #[arg(long)]
    check: bool,
}

/// A flag that these signals set.
fn set_by(signals: &[i32]) -> Result<Arc<AtomicBool>, Failure> {
    let is_set = Arc::default();
    for signal in signals {
        flag::register(*signal, Arc::clone(&is_set)).map_err(Failure::work)?;
    }
    Ok(is_set)
}

impl Daemon {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let config = config::load(&self.file)?;
        if self.check {
            return Ok(output::line(&format!("{}: valid", self.file.display()))?);
        }
        let (stop, reload) = (set_by(&[SIGTERM, SIGINT])?, set_by(&[SIGHUP])?);
        let mut run = Run::begin(&config)?;
        run.announce();
        while !stop.load(Ordering::Relaxed) {
            if let Err(error) = run.step() {
                return run.end(Some(error));
            }
            if reload.swap(false, Ordering::Relaxed) {
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
        let running = plan.start()?;
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
        let counts = counts?;
        Ok(output::line(&unseen(&counts, &index))?)
    }
}

/// The warnings about lack of room that were already given, so that each is given once.
#[derive(Default)]
struct WarnedOnce([bool; 3]);

impl WarnedOnce {
    fn tell(&mut self, running: &mut Running) {
        self.failures(&running.failures());
        let (unwritten, unrecorded) = running.recorder().left_out();
        let now = [
            (
                unwritten > 0,
                "warning: no room for more samples: they are counted and left out",
            ),
            (
                unrecorded > 0,
                "warning: no more files: new connections are counted and left out",
            ),
            (
                running.recorder().removed() > 0,
                "the oldest files are removed to make room",
            ),
        ];
        for (is_told, (is_so, text)) in self.0.iter_mut().zip(now) {
            if is_so && !mem::replace(is_told, true) {
                eprintln!("{text}");
            }
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
    let name = time_name(Timestamp::now());
    let further = (2..).map(|number| format!("{name}-{number}"));
    let names = std::iter::once(name.clone()).chain(further);
    let mut folders = names.map(|name| out.join(name));
    let free = folders.find(|folder| !folder.exists());
    free.expect("there is no end of them")
}

/// A time in UTC as a name: 2005-08-31T09-30-00Z.
fn time_name(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H-%M-%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_by_its_beginning() {
        let name = |unix_s| time_name(Timestamp::from_second(unix_s).unwrap());
        assert_eq!(name(0), "1970-01-01T00-00-00Z");
        // The last second of the leap day of 2000.
        assert_eq!(name(951_868_799), "2000-02-29T23-59-59Z");
        assert_eq!(name(1_125_480_600), "2005-08-31T09-30-00Z");
    }
}
