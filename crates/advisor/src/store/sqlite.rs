//! The embedded database: one file in the state directory.
//!
//! Write-ahead log, a transaction on stable storage before it is acknowledged (`synchronous = FULL`),
//! one writer and a few readers. `docs/advisor.md` has the layout.

mod block;
mod logs;
mod paths;
mod samples;
mod tests_of_path;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use fairwind_advice::Sample;
use jiff::Timestamp;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{SqlSafeStr, Sqlite, Transaction};

use super::{HopId, LogPlace, PathId, RoundTrip, Store, StoreError, StoredPath, Write, Written};
use crate::path::PathConfig;
use crate::transfer::TransferReport;

/// Connections that read.
const READERS: u32 = 4;
/// Several blocks of samples lie in one page.
const PAGE: u32 = 16 << 10;
/// How long a writer waits for a writer of another program.
const PATIENCE: Duration = Duration::from_secs(30);

/// The tables, and how they came to be.
const MIGRATIONS: [(i64, &str, &str); 3] = [
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
        6,
        "limits of transfers",
        include_str!("../../migrations/sqlite/0006_limits_of_transfers.sql"),
    ),
];

/// Paths and history in an SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    writer: SqlitePool,
    readers: SqlitePool,
}

impl SqliteStore {
    /// Opens the file, creates it if need be, and brings its tables up to date.
    pub async fn open(file: &Path) -> Result<SqliteStore, StoreError> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .page_size(PAGE)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(PATIENCE);
        let pool = |connections| SqlitePoolOptions::new().max_connections(connections);
        let writer = pool(1).connect_with(options.clone()).await?;
        migrator().run(&writer).await?;
        let readers = pool(READERS).connect_with(options).await?;
        Ok(SqliteStore { writer, readers })
    }

    /// Waits until everything is done and closes the file.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// A transaction that nobody else writes beside.
    async fn begin(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        Ok(self.writer.begin_with("BEGIN IMMEDIATE").await?)
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
        paths::all(&self.readers).await
    }

    async fn put_path(&self, config: &PathConfig) -> Result<StoredPath, StoreError> {
        let mut transaction = self.begin().await?;
        let path = paths::put(&mut transaction, config).await?;
        transaction.commit().await?;
        Ok(path)
    }

    async fn remove_path(&self, path: PathId) -> Result<bool, StoreError> {
        let mut transaction = self.begin().await?;
        let was_there = paths::remove(&mut transaction, path).await?;
        transaction.commit().await?;
        Ok(was_there)
    }

    async fn remove_hop(&self, hop: HopId) -> Result<bool, StoreError> {
        let mut transaction = self.begin().await?;
        let was_there = paths::remove_hop(&mut transaction, hop).await?;
        transaction.commit().await?;
        Ok(was_there)
    }

    async fn write(&self, writes: &[Write]) -> Result<Vec<Written>, StoreError> {
        let mut transaction = self.begin().await?;
        let mut answers = Vec::with_capacity(writes.len());
        for write in writes {
            let answer = match paths::exists(&mut transaction, write.path()).await? {
                true => one(&mut transaction, write).await?,
                false => Written::Gone,
            };
            answers.push(answer);
        }
        transaction.commit().await?;
        Ok(answers)
    }

    async fn samples(
        &self,
        hop: HopId,
        from: Timestamp,
        to: Timestamp,
        most: usize,
    ) -> Result<Vec<Sample>, StoreError> {
        samples::between(&self.readers, hop, from, to, most).await
    }

    async fn round_trips(&self, path: PathId, most: u32) -> Result<Vec<RoundTrip>, StoreError> {
        tests_of_path::round_trips(&self.readers, path, most).await
    }

    async fn transfers(
        &self,
        path: PathId,
        most: u32,
    ) -> Result<Vec<(Timestamp, TransferReport)>, StoreError> {
        tests_of_path::transfers(&self.readers, path, most).await
    }

    async fn forget_before(&self, path: PathId, oldest: Timestamp) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        tests_of_path::forget_before(&mut transaction, path, oldest).await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn log_place(&self, name: &str) -> Result<Option<LogPlace>, StoreError> {
        logs::place(&self.readers, name).await
    }

    async fn keep_log_place(&self, name: &str, place: &LogPlace) -> Result<(), StoreError> {
        logs::keep(&self.writer, name, place).await
    }

    async fn changes(&self) -> Result<i64, StoreError> {
        let number = sqlx::query_scalar("SELECT number FROM change");
        Ok(number.fetch_one(&self.readers).await?)
    }

    async fn announce_change(&self) -> Result<(), StoreError> {
        let change = sqlx::query("UPDATE change SET number = number + 1");
        change.execute(&self.writer).await?;
        Ok(())
    }
}

async fn one(
    transaction: &mut Transaction<'static, Sqlite>,
    write: &Write,
) -> Result<Written, StoreError> {
    match write {
        Write::Samples {
            path,
            hop,
            samples,
            order,
            now,
        } => samples::write(transaction, *path, hop, samples, *order, *now).await,
        Write::RoundTrip {
            path,
            time,
            rtt_ms,
            source,
        } => tests_of_path::write_round_trip(transaction, *path, *time, *rtt_ms, source).await,
        Write::Transfer { path, time, report } => {
            tests_of_path::write_transfer(transaction, *path, *time, report).await
        }
    }
}
