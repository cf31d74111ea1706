//! How a command fails, and with which exit code.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use fairwind_scenario::Diagnostic;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The experiment file is invalid: exit code 2. The message begins with file and line.
    File(Diagnostic),
    /// Something else that the user gave is invalid: exit code 2, as for wrong usage.
    Input(String),
    /// The work failed: exit code 1.
    Work(String),
    /// SIGINT, SIGTERM or SIGHUP: exit code 130.
    Interrupted,
    /// SIGINT, SIGTERM or SIGHUP, and the work can be resumed: exit code 130.
    Stopped(String),
    /// A real-time run ended early; what was measured is kept: exit code 1, or 130 after a signal.
    Incomplete {
        /// Why.
        reason: String,
        /// Where the result is.
        dir: PathBuf,
        /// Whether a signal asked for it.
        interrupted: bool,
    },
    /// Standard output was closed by its reader: exit code 0, since nobody is left to be told.
    BrokenPipe,
}

impl Failure {
    /// The user's input is wrong.
    pub fn input(what: impl Display) -> Self {
        Self::Input(what.to_string())
    }

    /// The work failed.
    pub fn work(what: impl Display) -> Self {
        Self::Work(what.to_string())
    }

    /// Prints the failure to standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Self::File(diagnostic) => {
                eprintln!("{diagnostic}");
                ExitCode::from(2)
            }
            Self::Input(what) => {
                eprintln!("error: {what}");
                ExitCode::from(2)
            }
            Self::Work(what) => {
                eprintln!("error: {what}");
                ExitCode::FAILURE
            }
            Self::Interrupted => {
                eprintln!("interrupted: no result was kept");
                ExitCode::from(130)
            }
            Self::Stopped(what) => {
                eprintln!("interrupted: {what}");
                ExitCode::from(130)
            }
            Self::Incomplete {
                reason,
                dir,
                interrupted,
            } => {
                let kept = format!("what was measured is in {}", dir.display());
                match interrupted {
                    true => eprintln!("interrupted: {kept}, marked incomplete"),
                    false => eprintln!("error: {reason}\n  {kept}, marked incomplete"),
                }
                ExitCode::from(if *interrupted { 130 } else { 1 })
            }
            Self::BrokenPipe => ExitCode::SUCCESS,
        }
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::File(diagnostic)
    }
}

impl From<fairwind_study::Error> for Failure {
    fn from(error: fairwind_study::Error) -> Self {
        use fairwind_study::Error;
        match error {
            Error::File(diagnostic) => Self::File(diagnostic),
            Error::Input(what) => Self::Input(what),
            Error::Work(what) => Self::Work(what),
            Error::Stopped => Self::Stopped("what has been run is kept".to_owned()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Work(error.to_string()),
        }
    }
}
