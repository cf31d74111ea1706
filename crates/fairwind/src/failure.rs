//! How a command fails, and with which exit code.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use fairwind_advice_client as advice_client;
use fairwind_advisor::ServiceError;
use fairwind_advisor::listener::ListenError;
use fairwind_advisor::run::RunError;
use fairwind_cc::kernel::LoadError;
use fairwind_experiment::ExecuteError;
use fairwind_ftp::client as ftp;
use fairwind_lab::LabError;
use fairwind_report::overlay::OverlayError;
use fairwind_result::ResultError;
use fairwind_scenario::Diagnostic;
use fairwind_trace::kernel::TraceError;
use fairwind_trace::plan::PlanError;

use crate::output;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The experiment file is invalid: exit code 2. The message begins with file and line.
    File(Diagnostic),
    /// Something else that the user gave is invalid: exit code 2, as for wrong usage.
    Input(String),
    /// The work failed: exit code 1.
    Work(String),
    /// SIGINT, SIGTERM or SIGHUP, and what is left: exit code 130.
    Stopped(String),
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

    /// The user's input is wrong if it is, or else the work failed.
    fn of(is_input: bool, error: impl Display) -> Self {
        match is_input {
            true => Self::input(error),
            false => Self::work(error),
        }
    }

    /// A signal came, and no result was kept.
    pub(crate) fn nothing_kept() -> Self {
        Self::Stopped("no result was kept".to_owned())
    }

    /// The work failed at this file or folder.
    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |error| Self::work(format!("{}: {error}", path.display()))
    }

    /// This file is no input.
    pub(crate) fn no_input<E: Display>(path: &Path) -> impl Fn(E) -> Self {
        move |error| Self::input(format!("{}: {error}", path.display()))
    }

    /// What failed, as a sentence of its own.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::File(diagnostic) => diagnostic.to_string(),
            Self::Input(what) | Self::Work(what) | Self::Stopped(what) => what.clone(),
            Self::BrokenPipe => "the reader of the output has gone".to_owned(),
        }
    }

    /// The same without the passwords in these words, which it may repeat.
    pub(crate) fn without_passwords_of(self, words: &[String]) -> Self {
        let without = |what: String| without_passwords_of(&what, words);
        match self {
            Self::Input(what) => Self::Input(without(what)),
            Self::Work(what) => Self::Work(without(what)),
            other => other,
        }
    }

    /// Prints the failure to standard error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let (code, line) = match self {
            Self::File(diagnostic) => (2, diagnostic.to_string()),
            Self::Input(what) => (2, format!("error: {what}")),
            Self::Work(what) => (1, format!("error: {what}")),
            Self::Stopped(what) => (130, format!("interrupted: {what}")),
            Self::BrokenPipe => return ExitCode::SUCCESS,
        };
        output::note(&line);
        ExitCode::from(code)
    }
}

/// A message without the passwords of the URLs in these words, which it may repeat.
pub(crate) fn without_passwords_of(text: &str, words: &[String]) -> String {
    let urls = words
        .iter()
        .filter_map(|word| Some(&word[word.find("://")?..]));
    urls.fold(text.to_owned(), |text, url| {
        let without = ftp::without_passwords(url);
        match without == url {
            true => text,
            false => text.replace(url, &without),
        }
    })
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
        let is_input = matches!(
            error,
            LabError::Path(_) | LabError::Control(LoadError::Unknown { .. })
        );
        Self::of(is_input, error)
    }
}

impl From<ExecuteError> for Failure {
    fn from(error: ExecuteError) -> Self {
        use ExecuteError::{Exists, InTheWay, NoSeed, SeedTwice, Stopped};
        let is_input = match error {
            Stopped => return Self::nothing_kept(),
            Exists { .. } | InTheWay { .. } | NoSeed | SeedTwice { .. } => true,
            _ => false,
        };
        Self::of(is_input, error)
    }
}

/// A malformed result is the user's input; an I/O error, such as a full disk, is not.
impl From<ResultError> for Failure {
    fn from(error: ResultError) -> Self {
        let is_io = matches!(error, ResultError::Io { .. });
        Self::of(!is_io, error)
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
        use ListenError::{File, Mode, Unguarded};
        use ServiceError::{Conflict, Invalid, NoHop, NoPath};
        let is_input = match &error {
            RunError::Service(error) => {
                matches!(error, NoPath(_) | NoHop { .. } | Invalid(_) | Conflict(_))
            }
            RunError::Listen(error) => matches!(error, Unguarded(_) | File(_) | Mode(_)),
            _ => false,
        };
        Self::of(is_input, error)
    }
}

impl From<advice_client::ClientError> for Failure {
    fn from(error: advice_client::ClientError) -> Self {
        use advice_client::ClientError::{Refused, Token, Url};
        let is_input = match error {
            Url(_) | Token(_) => true,
            Refused { status, .. } => (400..500).contains(&status),
            _ => false,
        };
        Self::of(is_input, error)
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

impl From<fairwind_agent::error::RunError> for Failure {
    fn from(error: fairwind_agent::error::RunError) -> Self {
        use fairwind_agent::error::RunError::{Command, Control};
        let is_input = match &error {
            Command { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ),
            Control(error) => matches!(error, LoadError::Unknown { .. }),
            _ => false,
        };
        Self::of(is_input, error)
    }
}

/// A mistake in the policy is the user's.
impl From<fairwind_agent::daemon::AgentError> for Failure {
    fn from(error: fairwind_agent::daemon::AgentError) -> Self {
        use fairwind_agent::daemon::AgentError::Policy;
        match error {
            Policy(diagnostic) => Self::File(diagnostic),
            error => Self::of(error.is_mistake(), error),
        }
    }
}

/// An unusable folder is the user's mistake.
impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::of(matches!(error, PlanError::File(_)), error)
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
