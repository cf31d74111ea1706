//! Counting what programs beside the service change.

use sqlx::SqliteConnection;
use sqlx::sqlite::SqlitePool;

use super::error::Trouble;
use super::writing::run;

/// How many changes there were.
pub async fn number(pool: &SqlitePool) -> Result<i64, Trouble> {
    let number = sqlx::query_scalar("SELECT number FROM change");
    Ok(number.fetch_one(pool).await?)
}

/// There is one more.
pub async fn announce(connection: &mut SqliteConnection) -> Result<(), Trouble> {
    run(connection, "UPDATE change SET number = number + 1").await
}
