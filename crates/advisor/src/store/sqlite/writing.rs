//! A transaction, and the connection that it is on.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::sync::MutexGuard;

use super::error::Trouble;

/// A transaction that nobody else writes beside. It takes the connection from its place and puts it back
/// when it is committed. On whatever else ends it the connection is closed, which rolls it back: after a
/// full disk, say, SQLite may have rolled it back itself, and a connection of which nobody knows that for
/// certain must not be used again.
pub struct Writing<'a> {
    place: MutexGuard<'a, Option<SqliteConnection>>,
    connection: SqliteConnection,
}

impl<'a> Writing<'a> {
    /// Begins on the connection of this place, or on a new one.
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

    /// Brings everything to stable storage.
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
