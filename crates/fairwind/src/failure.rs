//! How a command fails, and with which exit code.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fairwind_advice_client as advice_client;
use fairwind_advisor::ServiceError;
use fairwind_advisor::listener::ListenError;
use fairwind_advisor::run::RunError;
use fairwind_experiment::ExecuteError;
use fairwind_ftp::client as ftp;
use fairwind_lab::LabError;
use fairwind_report::overlay::OverlayError;
use fairwind_result::ResultError;
use fairwind_scenario::Diagnostic;
use fairwind_trace::kernel::TraceError;
use fairwind_trace::plan::PlanError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
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
    pub(crate) fn input(what: impl Display) -> Self {
        Self::Input(what.to_string())
    }

    /// The work failed.
    pub(crate) fn work(what: impl Display) -> Self {
        Self::Work(what.to_string())
    }

    /// The work failed at this file or folder.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |error| Self::work(format!("{}: {error}", path.display()))
    }

    /// This file is no input.
    pub(crate) fn no_input<E: Display>(path: &Path) -> impl Fn(E) -> Self {
        move |error| Self::input(format!("{}: {error}", path.display()))
    }

    /// Prints the failure to standard error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let (code, line) = match self {
            Self::File(diagnostic) => (2, diagnostic.to_string()),
            Self::Input(what) => (2, format!("error: {what}")),
            Self::Work(what) => (1, format!("error: {what}")),
            Self::Interrupted => (130, "interrupted: no result was kept".to_owned()),
            Self::Stopped(what) => (130, format!("interrupted: {what}")),
            Self::Incomplete {
                reason,
                dir,
                interrupted,
            } => {
                let kept = format!(
                    "what was measured is in {}, marked incomplete",
                    dir.display()
                );
                if *interrupted {
                    (130, format!("interrupted: {kept}"))
                } else {
                    (1, format!("error: {reason}\n  {kept}"))
                }
            }
            Self::BrokenPipe => return ExitCode::SUCCESS,
        };
        eprintln!("{line}");
        ExitCode::from(code)
    }
}

/// Fails if there are any of these failures.
pub(crate) fn all_of(failures: Vec<String>) -> Result<(), Failure> {
    if failures.is_empty() {
        return Ok(());
    }
    Err(Failure::Work(failures.join("\nerror: ")))
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::File(diagnostic)
    }
}

// Who has to mend it: the user who gave something wrong (input), or somebody else (work).

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Path(_) | LabError::UnknownControl { .. } => Self::input(error),
            _ => Self::work(error),
        }
    }
}

impl From<ExecuteError> for Failure {
    fn from(error: ExecuteError) -> Self {
        match error {
            ExecuteError::Stopped => Self::Interrupted,
            ExecuteError::Exists { .. }
            | ExecuteError::InTheWay { .. }
            | ExecuteError::NoSeed
            | ExecuteError::SeedTwice { .. } => Self::input(error),
            other => Self::work(other),
        }
    }
}

/// A malformed result is the user's input; an I/O error, such as a full disk, is not.
impl From<ResultError> for Failure {
    fn from(error: ResultError) -> Self {
        match error {
            ResultError::Io { .. } => Self::work(error),
            ResultError::Unusable { .. } => Self::input(error),
        }
    }
}

/// Something else in the output folder is the user's input.
impl From<OverlayError> for Failure {
    fn from(error: OverlayError) -> Self {
        match error {
            OverlayError::Result(error) => error.into(),
            error @ OverlayError::InTheWay { .. } => Self::input(error),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match &error {
            RunError::Service(
                ServiceError::NoPath(_)
                | ServiceError::NoHop { .. }
                | ServiceError::Invalid(_)
                | ServiceError::Conflict(_),
            )
            | RunError::Listen(
                ListenError::Unguarded(_) | ListenError::File(_) | ListenError::Mode(_),
            ) => Self::input(error),
            _ => Self::work(error),
        }
    }
}

impl From<advice_client::ClientError> for Failure {
    fn from(error: advice_client::ClientError) -> Self {
        use advice_client::ClientError::{Refused, Token, Url};
        match error {
            Url(_) | Token(_) => Self::input(error),
            Refused {
                status: 400..500, ..
            } => Self::input(error),
            _ => Self::work(error),
        }
    }
}

impl From<ftp::ClientError> for Failure {
    fn from(error: ftp::ClientError) -> Self {
        match error {
            ftp::ClientError::Usage(_) => Self::input(error),
            ftp::ClientError::Stopped => Self::Stopped("run the same command to resume".into()),
            _ => Self::work(error),
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Self::work(error)
    }
}

/// An unusable folder is the user's mistake.
impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Trace(error) => error.into(),
            PlanError::File(error) => Self::input(error),
        }
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
