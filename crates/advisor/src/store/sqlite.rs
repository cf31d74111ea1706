//! The embedded database: one file in the state directory.
//!
//! Write-ahead log, transactions on stable storage before they are acknowledged (`synchronous = FULL`), one
//! writer and a few readers. `docs/reference/advisor.md` describes the layout.

mod block;
mod changes;
mod error;
mod failing;
mod group;
mod logs;
mod path_measurements;
mod paths;
mod samples;
mod trial;
mod writing;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use fairwind_advice::Sample;
use fairwind_advice::wire::TransferReport;
use jiff::Timestamp;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, SqlSafeStr, SqliteConnection};
use tokio::sync::Mutex;

use self::error::Trouble;
use self::failing::Failing;
use self::writing::Writing;
use super::{
    Discovered, GroupWritten, HopId, LogPlace, PathId, RoundTrip, Store, StoreError, StoredPath,
    Write,
};
use crate::path::PathConfig;

/// Number of connections for reading.
const READERS: u32 = 4;
/// Page size, bytes: several blocks of samples fit into a page.
const PAGE: u32 = 16 << 10;
/// How long a write waits for that of another program.
const WRITE_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The migrations that create and update the tables.
const MIGRATIONS: [(i64, &str, &str); 7] = [
    (
        1,
        "paths and history",
        include_str!("../../migrations/sqlite/0001_paths_and_history.sql"),
    ),
    (
        2,
        "logs",
        include_str!("../../migrations/sqlite/0002_logs.sql"),
    ),
    (
        3,
        "trial",
        include_str!("../../migrations/sqlite/0003_trial.sql"),
    ),
    (
        4,
        "changes of paths",
        include_str!("../../migrations/sqlite/0004_changes_of_paths.sql"),
    ),
    (
        5,
        "discovered paths",
        include_str!("../../migrations/sqlite/0005_discovered_paths.sql"),
    ),
    (
        6,
        "limits of transfers",
        include_str!("../../migrations/sqlite/0006_limits_of_transfers.sql"),
    ),
    (
        7,
        "no number of samples",
        include_str!("../../migrations/sqlite/0007_no_number_of_samples.sql"),
    ),
];

/// Paths and history in an SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    file: PathBuf,
    options: SqliteConnectOptions,
    writer: Mutex<Option<SqliteConnection>>,
    readers: SqlitePool,
    failing: Failing,
    /// Whether to announce changes to a service that may be using the file.
    announces: bool,
}

impl SqliteStore {
    /// Opens the file for a service; creates it if necessary and updates its tables.
    pub async fn open(file: &Path) -> Result<SqliteStore, StoreError> {
        let opened = SqliteStore::opened(file, false).await;
        opened.map_err(|trouble| trouble.at(file))
    }

    /// Opens the file for another program, whose changes are announced to the service.
    pub async fn open_beside(file: &Path) -> Result<SqliteStore, StoreError> {
        let opened = SqliteStore::opened(file, true).await;
        opened.map_err(|trouble| trouble.at(file))
    }

    async fn opened(file: &Path, announces: bool) -> Result<SqliteStore, Trouble> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .page_size(PAGE)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(WRITE_LOCK_TIMEOUT);
        let mut writer = options.connect().await?;
        migrator().run(&mut writer).await?;
        let readers = SqlitePoolOptions::new().max_connections(READERS);
        let readers = readers.connect_with(options.clone()).await?;
        Ok(SqliteStore {
            file: file.to_owned(),
            options,
            writer: Mutex::new(Some(writer)),
            readers,
            failing: Failing::default(),
            announces,
        })
    }

    /// Waits for what is in progress and closes the file.
    pub async fn close(&self) {
        self.readers.close().await;
        if let Some(writer) = self.writer.lock().await.take() {
            // Whatever was acknowledged is already on stable storage.
            let _ = writer.close().await;
        }
    }

    /// Begins a transaction, excluding all other writers.
    async fn begin(&self) -> Result<Writing<'_>, Trouble> {
        Writing::begin(self.writer.lock().await, &self.options).await
    }

    /// Announces a change of a path within the transaction, so that none is missed.
    async fn announce(
        &self,
        connection: &mut SqliteConnection,
        path: PathId,
    ) -> Result<(), Trouble> {
        match self.announces {
            true => changes::announce(connection, path).await,
            false => Ok(()),
        }
    }

    /// Adds the file to the error of a read.
    fn read<T>(&self, outcome: Result<T, Trouble>) -> Result<T, StoreError> {
        outcome.map_err(|trouble| trouble.at(&self.file))
    }

    /// Adds the file to the error of a transaction, and keeps track of failing writes.
    fn written<T>(&self, outcome: Result<T, Trouble>) -> Result<T, StoreError> {
        let outcome = self.read(outcome);
        self.failing.see(outcome.as_ref().err());
        outcome
    }
}

fn migrator() -> Migrator {
    let migration = |&(version, name, sql): &(i64, &'static str, &'static str)| {
        let sql = sql.into_sql_str();
        Migration::new(version, name.into(), MigrationType::Simple, sql, false)
    };
    Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect())
}

#[async_trait]
impl Store for SqliteStore {
    async fn paths(&self) -> Result<Vec<StoredPath>, StoreError> {
        self.read(paths::all(&self.readers).await)
    }

    async fn put_path(&self, config: &PathConfig) -> Result<StoredPath, StoreError> {
        let putting = async {
            let mut writing = self.begin().await?;
            let path = paths::put(writing.connection(), config).await?;
            self.announce(writing.connection(), path.id).await?;
            writing.commit().await?;
            Ok(path)
        };
        self.written(putting.await)
    }

    async fn remove_path(&self, path: PathId) -> Result<bool, StoreError> {
        let removing = async {
            let mut writing = self.begin().await?;
            let was_there = paths::remove(writing.connection(), path).await?;
            self.announce(writing.connection(), path).await?;
            writing.commit().await?;
            Ok(was_there)
        };
        self.written(removing.await)
    }

    async fn remove_hop(&self, path: PathId, hop: HopId) -> Result<bool, StoreError> {
        let removing = async {
            let mut writing = self.begin().await?;
            let was_there = paths::remove_hop(writing.connection(), hop).await?;
            self.announce(writing.connection(), path).await?;
            writing.commit().await?;
            Ok(was_there)
        };
        self.written(removing.await)
    }

    async fn discover(
        &self,
        change: &Discovered,
        now: Timestamp,
    ) -> Result<Vec<StoredPath>, StoreError> {
        let discovering = async {
            let mut writing = self.begin().await?;
            let new = paths::discover(writing.connection(), change, now).await?;
            writing.commit().await?;
            Ok(new)
        };
        self.written(discovering.await)
    }

    async fn write(&self, groups: &[Vec<Write>]) -> Result<Vec<GroupWritten>, StoreError> {
        self.written(group::write_sound(self, groups).await)
    }

    async fn samples(
        &self,
        hop: HopId,
        from: Timestamp,
        to: Timestamp,
        most: usize,
    ) -> Result<Vec<Sample>, StoreError> {
        let read = samples::between(&self.readers, hop, from, to, most).await;
        if read.is_ok() {
            return self.read(read);
        }
        let whose = paths::whose(&self.readers, hop).await;
        self.read(read.map_err(|trouble| trouble.of(|| whose)))
    }

    async fn round_trips(&self, path: PathId, most: u32) -> Result<Vec<RoundTrip>, StoreError> {
        self.read(path_measurements::round_trips(&self.readers, path, most).await)
    }

    async fn transfers(
        &self,
        path: PathId,
        most: u32,
    ) -> Result<Vec<(Timestamp, TransferReport)>, StoreError> {
        self.read(path_measurements::transfers(&self.readers, path, most).await)
    }

    async fn forget_before(&self, path: PathId, oldest: Timestamp) -> Result<(), StoreError> {
        let forgetting = async {
            let mut writing = self.begin().await?;
            path_measurements::forget_before(writing.connection(), path, oldest).await?;
            writing.commit().await
        };
        self.written(forgetting.await)
    }

    async fn log_place(&self, name: &str) -> Result<Option<LogPlace>, StoreError> {
        self.read(logs::place(&self.readers, name).await)
    }

    async fn keep_log_place(&self, name: &str, place: &LogPlace) -> Result<(), StoreError> {
        let keeping = async {
            let mut writing = self.begin().await?;
            logs::keep(writing.connection(), name, place).await?;
            writing.commit().await
        };
        self.written(keeping.await)
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.changes().await?;
        let Some(since) = self.failing.since() else {
            return Ok(());
        };
        let trying = async {
            let mut writing = self.begin().await?;
            trial::write(writing.connection()).await?;
            writing.commit().await
        };
        self.written(trying.await).map_err(|error| StoreError {
            problem: format!("writes have failed since {since}: {}", error.problem),
            ..error
        })
    }

    async fn changes(&self) -> Result<i64, StoreError> {
        self.read(changes::number(&self.readers).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error on opening a file that these statements have changed.
    async fn refused(statements: &'static str) -> StoreError {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("db");
        SqliteStore::open(&file).await.unwrap().close().await;
        let options = SqliteConnectOptions::new().filename(&file);
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(statements)
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
        SqliteStore::open(&file).await.unwrap_err()
    }

    #[tokio::test]
    async fn only_what_a_newer_version_has_written_is_told_to_be_so() {
        let newer = "INSERT INTO _sqlx_migrations SELECT 99, description, installed_on, success, \
                     checksum, execution_time FROM _sqlx_migrations WHERE version = 1";
        let error = refused(newer).await;
        assert!(error.cure.contains("a newer fairwind"), "{error}");
        // Its last migration fails because the table exists already, as after a full disk.
        let failing = "DELETE FROM _sqlx_migrations WHERE version = 3";
        let error = refused(failing).await;
        assert!(error.problem.contains("already exists"), "{error}");
        assert!(!error.cure.contains("newer"), "{error}");
        let another = "UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 3";
        let error = refused(another).await;
        assert!(error.cure.contains("another version"), "{error}");
    }
}
