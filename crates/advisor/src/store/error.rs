//! Errors of the database, and their remedies.

use std::path::Path;

use sqlx::migrate::MigrateError;
use thiserror::Error;

use super::StoreError;

/// An error before the name of the file is added.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    /// An error of SQLite.
    #[error("{0}")]
    Database(#[from] sqlx::Error),
    /// The tables could not be created or updated.
    #[error("its tables cannot be brought up to date: {0}")]
    Migration(#[from] MigrateError),
    /// The stored data is invalid.
    #[error("{0}")]
    Damaged(String),
    /// The stored data of one path is damaged.
    #[error("{whose}: {what}")]
    OfPath {
        /// Path and hop.
        whose: String,
        /// What is wrong.
        what: String,
        /// The remedy.
        cure: &'static str,
    },
}

/// SQLITE_CORRUPT, with any extension.
const CORRUPT: i32 = 11;
/// SQLITE_IOERR_READ and SQLITE_IOERR_SHORT_READ.
const UNREADABLE: [i32; 2] = [266, 522];

const DAMAGED: &str = "the file is damaged: end the service and bring back a backup, or save what can \
                       be read by `sqlite3 advisor.db .recover | sqlite3 recovered.db`";
const OF_PATH: &str = "bring back a backup, or remove the path and its history by `fairwind advisor \
                       paths remove`; other paths are not concerned";
const NEWER: &str =
    "a newer fairwind has written it: use that one, or another state directory by --state";
const OTHER: &str = "another version of fairwind has made its tables: use that one, or name another state \
                     directory by --state";
impl Trouble {
    /// Assigns the error to the history of one path if it means that stored data cannot be read.
    pub(super) fn of(self, whose: impl FnOnce() -> String) -> Trouble {
        let (what, cure) = match &self {
            Self::Damaged(what) => (what.clone(), OF_PATH),
            Self::Database(error) if tells_of_pages(error) => (error.to_string(), cure(error)),
            _ => return self,
        };
        Self::OfPath {
            whose: whose(),
            what,
            cure,
        }
    }

    /// Whether it only concerns the history of one path.
    pub(super) fn is_of_path(&self) -> bool {
        matches!(self, Self::OfPath { .. })
    }

    /// The error in words, with the file and the remedy.
    pub(super) fn at(self, file: &Path) -> StoreError {
        let cure = match &self {
            Self::Database(error) => cure(error),
            Self::Migration(
                MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _),
            ) => cure(error),
            Self::Migration(MigrateError::VersionMissing(_)) => NEWER,
            Self::Migration(_) => OTHER,
            Self::Damaged(_) => DAMAGED,
            Self::OfPath { cure, .. } => cure,
        };
        StoreError {
            file: file.to_owned(),
            problem: self.to_string(),
            cure,
        }
    }
}

/// The remedy for an error of SQLite, by its primary result code (sqlite.org/rescode.html).
fn cure(error: &sqlx::Error) -> &'static str {
    match primary(error) {
        3 => "the user of the service is not allowed to do this with the file",
        5 => "another program holds it: end that program, or wait until it is done",
        8 => {
            "the file, its -wal and -shm and their directory must be writable for the user of the \
             service"
        }
        10 => "the file system or the disk fails: the kernel's log says more",
        CORRUPT => DAMAGED,
        13 => "free space on its file system; no restart is needed",
        14 => {
            "the file and its directory must be there, readable and writable for the user of the \
             service"
        }
        26 => "it is no SQLite database: move it away, or name another state directory by --state",
        _ => "whether the file can be read and written is the first thing to look at",
    }
}

/// Whether some pages cannot be read, while others may be intact.
fn tells_of_pages(error: &sqlx::Error) -> bool {
    primary(error) == CORRUPT || UNREADABLE.contains(&code(error))
}

/// The primary result code: the low byte of the extended one.
fn primary(error: &sqlx::Error) -> i32 {
    code(error) & 0xff
}

/// The extended result code; 0 for an error that does not come from SQLite.
fn code(error: &sqlx::Error) -> i32 {
    let code = error.as_database_error().and_then(|error| error.code());
    code.and_then(|code| code.parse().ok()).unwrap_or(0)
}
