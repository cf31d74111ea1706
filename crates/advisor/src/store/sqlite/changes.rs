//! Counts the changes made by programs other than the service.

use sqlx::SqliteConnection;
use sqlx::sqlite::SqlitePool;

use super::error::Trouble;
use super::writing::run;
use crate::store::PathId;

/// The number of changes so far.
pub async fn number(pool: &SqlitePool) -> Result<i64, Trouble> {
    let number = sqlx::query_scalar("SELECT number FROM change");
    Ok(number.fetch_one(pool).await?)
}

/// Counts a change, of this path.
pub async fn announce(connection: &mut SqliteConnection, path: PathId) -> Result<(), Trouble> {
    run(connection, "UPDATE change SET number = number + 1").await?;
    sqlx::query("UPDATE path SET changed = (SELECT number FROM change) WHERE id = ?")
        .bind(path.0)
        .execute(connection)
        .await?;
    Ok(())
}
