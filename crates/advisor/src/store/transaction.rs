//! A transaction and its connection.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::sync::MutexGuard;

use super::PathId;
use super::error::Trouble;

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
    /// Begins on the connection in this slot, or on a new one.
    pub(super) async fn begin(
        mut place: MutexGuard<'a, Option<SqliteConnection>>,
        options: &SqliteConnectOptions,
        announces: bool,
    ) -> Result<Transaction<'a>, Trouble> {
        let mut connection = match place.take() {
            Some(connection) => connection,
            None => options.connect().await?,
        };
        run(&mut connection, "BEGIN IMMEDIATE", &[]).await?;
        Ok(Transaction {
            place,
            connection,
            announces,
        })
    }

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
