//! Counting what programs beside the service change.

use sqlx::SqliteConnection;
use sqlx::sqlite::SqlitePool;

use super::error::Trouble;
use super::writing::run;
use crate::store::PathId;

/// How many changes there were.
pub async fn number(pool: &SqlitePool) -> Result<i64, Trouble> {
    let number = sqlx::query_scalar("SELECT number FROM change");
    Ok(number.fetch_one(pool).await?)
}

/// There is one more, of this path.
pub async fn announce(connection: &mut SqliteConnection, path: PathId) -> Result<(), Trouble> {
    run(connection, "UPDATE change SET number = number + 1").await?;
    sqlx::query("UPDATE path SET changed = (SELECT number FROM change) WHERE id = ?")
        .bind(path.0)
        .execute(connection)
        .await?;
    Ok(())
}
