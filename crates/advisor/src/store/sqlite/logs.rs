//! How far transfer logs have been read.

use sqlx::SqliteConnection;
use sqlx::sqlite::SqlitePool;

use super::error::Trouble;
use crate::store::LogPlace;

/// The place in the log of this name, if it has been read.
pub async fn place(pool: &SqlitePool, name: &str) -> Result<Option<LogPlace>, Trouble> {
    let row: Option<(i64, Vec<u8>)> =
        sqlx::query_as("SELECT position, bytes_before FROM log WHERE name = ?")
            .bind(name)
            .fetch_optional(pool)
            .await?;
    Ok(row.map(|(position, before)| LogPlace {
        position: position.cast_unsigned(),
        before,
    }))
}

/// Stores the place in the log of this name.
pub async fn keep(
    connection: &mut SqliteConnection,
    name: &str,
    place: &LogPlace,
) -> Result<(), Trouble> {
    sqlx::query("INSERT OR REPLACE INTO log (name, position, bytes_before) VALUES (?, ?, ?)")
        .bind(name)
        .bind(place.position.cast_signed())
        .bind(&place.before)
        .execute(connection)
        .await?;
    Ok(())
}
