//! Why a study failed.

use std::fmt::Display;
use std::io;
use std::path::Path;

use fairwind_experiment::{EngineError, ExecuteError};
use fairwind_report::overlay::OverlayError;
use fairwind_result::ResultError;
use fairwind_scenario::Diagnostic;

/// Why a study failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A plan, the index of the papers or an experiment file is invalid.
    #[error(transparent)]
    File(#[from] Diagnostic),
    /// Something else that the user gave is wrong.
    #[error("{0}")]
    Input(String),
    /// The work failed.
    #[error("{0}")]
    Work(String),
    /// Whoever runs the study asked it to stop.
    #[error("stopped: what has been run is kept")]
    Stopped,
}

impl Error {
    /// The user's input is wrong.
    pub fn input(what: impl Display) -> Error {
        Error::Input(what.to_string())
    }

    /// The work failed.
    pub fn work(what: impl Display) -> Error {
        Error::Work(what.to_string())
    }

    /// Names the file or folder in an error of the system.
    pub fn at(path: &Path) -> impl Fn(io::Error) -> Error {
        move |error| Error::work(format!("{}: {error}", path.display()))
    }
}

impl From<ExecuteError> for Error {
    fn from(error: ExecuteError) -> Error {
        match error {
            ExecuteError::Stopped => Error::Stopped,
            ExecuteError::Exists { .. } | ExecuteError::InTheWay { .. } => Error::input(error),
            other => Error::work(other),
        }
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Error {
        match error {
            EngineError::Stopped => Error::Stopped,
            other => Error::work(other),
        }
    }
}

macro_rules! failures_of_the_work {
    ($($error:ty),+) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::work(error)
            }
        })+
    };
}

failures_of_the_work!(
    OverlayError,
    ResultError,
    io::Error,
    jiff::Error,
    serde_json::Error
);
