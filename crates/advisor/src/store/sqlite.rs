//! The database: one SQLite file in the state directory.
//!
//! Write-ahead log, transactions on stable storage before they are acknowledged (`synchronous = FULL`), one
//! writer and a few readers. `docs/reference/advisor.md` describes the layout.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, SqlSafeStr, SqliteConnection};
use tokio::sync::{Mutex, MutexGuard};

use super::error::Trouble;
use super::{LogPlace, PathId, StoreError};

/// Number of connections for reading.
const READERS: u32 = 4;
/// Page size, bytes: several blocks of samples fit into a page.
const PAGE: u32 = 16 << 10;
/// How long a write waits for that of another program.
const WRITE_LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the write that tests whether writing works. Larger than the pages of a sample: the space left
/// allocated by the failed write must not suffice.
const TRIAL_BYTES: i64 = 128 << 10;

/// The migrations that create and update the tables, from version 1 on.
const MIGRATIONS: [(&str, &str); 7] = [
    ("paths and history", include_str!("migrations/0001.sql")),
    ("logs", include_str!("migrations/0002.sql")),
    ("trial", include_str!("migrations/0003.sql")),
    ("changes of paths", include_str!("migrations/0004.sql")),
    ("discovered paths", include_str!("migrations/0005.sql")),
    ("limits of transfers", include_str!("migrations/0006.sql")),
    ("no number of samples", include_str!("migrations/0007.sql")),
];

/// Paths and history in a file. When a call returns, what it wrote is on stable storage.
#[derive(Debug)]
pub struct Store {
    pub(super) file: PathBuf,
    options: SqliteConnectOptions,
    writer: Mutex<Option<SqliteConnection>>,
    pub(super) readers: SqlitePool,
    /// The time of the first failure since the last successful write, if the last one failed; on the system's
    /// clock.
    failing_since: parking_lot::Mutex<Option<Timestamp>>,
    /// Whether to announce changes to a service that may be using the file.
    announces: bool,
}

impl Store {
    /// Opens the file for a service; creates it if necessary and updates its tables.
    pub async fn open(file: &Path) -> Result<Store, StoreError> {
        let opened = Store::opened(file, false).await;
        opened.map_err(|trouble| trouble.at(file))
    }

    /// Opens the file for another program, whose changes are announced to the service.
    pub async fn open_beside(file: &Path) -> Result<Store, StoreError> {
        let opened = Store::opened(file, true).await;
        opened.map_err(|trouble| trouble.at(file))
    }

    async fn opened(file: &Path, announces: bool) -> Result<Store, Trouble> {
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
        Ok(Store {
            file: file.to_owned(),
            options,
            writer: Mutex::new(Some(writer)),
            readers,
            failing_since: parking_lot::Mutex::default(),
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

    /// Begins a transaction, excluding all other writers: on the connection in its slot, or on a new one.
    pub(super) async fn begin(&self) -> Result<Transaction<'_>, StoreError> {
        let mut place = self.writer.lock().await;
        let begun = async {
            let mut connection = match place.take() {
                Some(connection) => connection,
                None => self.options.connect().await?,
            };
            run(&mut connection, "BEGIN IMMEDIATE", &[]).await?;
            Ok(connection)
        };
        Ok(Transaction {
            connection: begun.await.map_err(|trouble| self.failed(trouble))?,
            place,
            announces: self.announces,
        })
    }

    /// Begins a transaction that changes this path.
    pub(super) async fn begin_change(&self, path: PathId) -> Result<Transaction<'_>, StoreError> {
        let mut transaction = self.begin().await?;
        let announced = transaction.announce(path).await;
        announced.map_err(|trouble| self.failed(trouble))?;
        Ok(transaction)
    }

    /// Commits the transaction if its writes succeeded; otherwise it is rolled back.
    pub(super) async fn end<T>(
        &self,
        transaction: Transaction<'_>,
        outcome: Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        let done = outcome.map_err(|trouble| self.failed(trouble))?;
        let committed = transaction.commit().await;
        committed.map_err(|trouble| self.failed(trouble))?;
        *self.failing_since.lock() = None;
        Ok(done)
    }

    fn failed(&self, trouble: Trouble) -> StoreError {
        self.failing_since.lock().get_or_insert_with(Timestamp::now);
        trouble.at(&self.file)
    }

    /// Adds the file to the error of a read.
    pub(super) fn read<T>(&self, outcome: Result<T, impl Into<Trouble>>) -> Result<T, StoreError> {
        outcome.map_err(|trouble| trouble.into().at(&self.file))
    }

    /// A number that changes when another program changes something.
    pub async fn changes(&self) -> Result<i64, StoreError> {
        let number = sqlx::query_scalar("SELECT number FROM change");
        self.read(number.fetch_one(&self.readers).await)
    }

    /// Checks that it can be read and written; if the last write failed, another is tried.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.changes().await?;
        let Some(since) = *self.failing_since.lock() else {
            return Ok(());
        };
        self.try_to_write().await.map_err(|error| StoreError {
            problem: format!("writes have failed since {since}: {}", error.problem),
            ..error
        })
    }

    /// Overwrites the previous trial with random bytes; unchanged bytes would not be written.
    async fn try_to_write(&self) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        let trial = "UPDATE trial SET bytes = randomblob(?)";
        let written = run(&mut transaction.connection, trial, &[TRIAL_BYTES]).await;
        self.end(transaction, written.map(drop)).await
    }

    /// How far the log of this name has been read; `None` if it never has.
    pub async fn log_place(&self, name: &str) -> Result<Option<LogPlace>, StoreError> {
        let place = sqlx::query_as("SELECT position, bytes_before FROM log WHERE name = ?");
        let place = place.bind(name).fetch_optional(&self.readers).await;
        let place: Option<(i64, Vec<u8>)> = self.read(place)?;
        Ok(place.map(|(position, before)| LogPlace {
            position: position.cast_unsigned(),
            before,
        }))
    }

    /// Stores how far the log of this name has been read.
    pub async fn keep_log_place(&self, name: &str, place: &LogPlace) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        let kept = sqlx::query(
            "INSERT OR REPLACE INTO log (name, position, bytes_before) VALUES (?, ?, ?)",
        )
        .bind(name)
        .bind(place.position.cast_signed())
        .bind(&place.before)
        .execute(&mut transaction.connection)
        .await;
        let kept = kept.map(drop).map_err(Trouble::from);
        self.end(transaction, kept).await
    }
}

/// A transaction that excludes all other writers. It takes the connection out of its slot and returns it on
/// commit. However else it ends, the connection is closed, which rolls it back: SQLite may already have done
/// so itself, for instance on a full disk, and a connection whose state is uncertain must not be reused.
pub(super) struct Transaction<'a> {
    place: MutexGuard<'a, Option<SqliteConnection>>,
    /// The connection, within the transaction.
    pub(super) connection: SqliteConnection,
    /// Whether to announce changes to a service that may be using the file.
    announces: bool,
}

impl<'a> Transaction<'a> {
    /// Announces a change of a path within the transaction, so that none is missed.
    pub(super) async fn announce(&mut self, path: PathId) -> Result<(), Trouble> {
        if self.announces {
            let count = "UPDATE change SET number = number + 1";
            run(&mut self.connection, count, &[]).await?;
            let number = "UPDATE path SET changed = (SELECT number FROM change) WHERE id = ?";
            run(&mut self.connection, number, &[path.0]).await?;
        }
        Ok(())
    }

    /// Commits to stable storage.
    pub(super) async fn commit(mut self) -> Result<(), Trouble> {
        run(&mut self.connection, "COMMIT", &[]).await?;
        *self.place = Some(self.connection);
        Ok(())
    }
}

/// Runs a statement with these numbers as its arguments; returns how many rows it has changed.
pub(super) async fn run(
    connection: &mut SqliteConnection,
    statement: &'static str,
    numbers: &[i64],
) -> Result<u64, Trouble> {
    let query = sqlx::query(statement);
    let query = numbers
        .iter()
        .fold(query, |query, number| query.bind(number));
    Ok(query.execute(connection).await?.rows_affected())
}

fn migrator() -> Migrator {
    let migrations = (1..).zip(MIGRATIONS).map(|(version, (name, sql))| {
        let sql = sql.into_sql_str();
        Migration::new(version, name.into(), MigrationType::Simple, sql, false)
    });
    Migrator::with_migrations(migrations.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error on opening a file that these statements have changed.
    async fn refused(statements: &'static str) -> StoreError {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("db");
        Store::open(&file).await.unwrap().close().await;
        let options = SqliteConnectOptions::new().filename(&file);
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(statements)
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
        Store::open(&file).await.unwrap_err()
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
