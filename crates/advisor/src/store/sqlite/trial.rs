//! A dummy write, to test whether writing works.

use sqlx::SqliteConnection;

use super::error::Trouble;

/// Larger than the pages of a sample: the space left allocated by the failed write must not suffice.
const BYTES: u32 = 128 << 10;

/// Overwrites the previous trial with random bytes; unchanged bytes would not be written.
pub async fn write(connection: &mut SqliteConnection) -> Result<(), Trouble> {
    let trial = sqlx::query("UPDATE trial SET bytes = randomblob(?)").bind(BYTES);
    trial.execute(connection).await?;
    Ok(())
}
