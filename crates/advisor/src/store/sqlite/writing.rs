//! A transaction and its connection.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::sync::MutexGuard;

use super::error::Trouble;

/// A transaction that excludes all other writers. It takes the connection out of its slot and returns it on
/// commit. However else it ends, the connection is closed, which rolls it back: SQLite may already have done
/// so itself, for instance on a full disk, and a connection whose state is uncertain must not be reused.
pub struct Writing<'a> {
    place: MutexGuard<'a, Option<SqliteConnection>>,
    connection: SqliteConnection,
}

impl<'a> Writing<'a> {
    /// Begins on the connection in this slot, or on a new one.
    pub async fn begin(
        mut place: MutexGuard<'a, Option<SqliteConnection>>,
        options: &SqliteConnectOptions,
    ) -> Result<Writing<'a>, Trouble> {
        let mut connection = match place.take() {
            Some(connection) => connection,
            None => options.connect().await?,
        };
        run(&mut connection, "BEGIN IMMEDIATE").await?;
        Ok(Writing { place, connection })
    }

    /// The connection, within the transaction.
    pub fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Commits to stable storage.
    pub async fn commit(mut self) -> Result<(), Trouble> {
        run(&mut self.connection, "COMMIT").await?;
        *self.place = Some(self.connection);
        Ok(())
    }
}

/// Runs a statement that has no result.
pub async fn run(
    connection: &mut SqliteConnection,
    statement: &'static str,
) -> Result<(), Trouble> {
    sqlx::query(statement).execute(connection).await?;
    Ok(())
}
