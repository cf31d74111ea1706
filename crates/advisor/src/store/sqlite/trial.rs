//! A write that nobody needs, to see whether writing succeeds.

use sqlx::SqliteConnection;

use super::error::Trouble;

/// More than a sample's pages: what the write that failed has left allocated must not be room enough.
const BYTES: u32 = 128 << 10;

/// Replaces what the trial before has written; bytes that stay the same would not be written at all.
pub async fn write(connection: &mut SqliteConnection) -> Result<(), Trouble> {
    let trial = sqlx::query("UPDATE trial SET bytes = randomblob(?)").bind(BYTES);
    trial.execute(connection).await?;
    Ok(())
}
