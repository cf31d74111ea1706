//! Reading and writing samples in blocks.

use std::collections::HashMap;

use fairwind_advice::Sample;
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqlitePool;

use super::admit::Admission;
use super::error::Trouble;
use super::sqlite::run;
use super::{HopId, Kept, Order, PathId, Store, StoreError, block, paths};

impl Store {
    /// The hop's samples with `from <= time < to`, ascending; the newest `most` of them.
    pub async fn samples(
        &self,
        hop: HopId,
        from: Timestamp,
        to: Timestamp,
        most: usize,
    ) -> Result<Vec<Sample>, StoreError> {
        match between(&self.readers, hop, from, to, most).await {
            Ok(samples) => Ok(samples),
            Err(trouble) => {
                let whose = paths::whose(&self.readers, hop).await;
                Err(trouble.of(|| whose).at(&self.file))
            }
        }
    }
}

async fn between(
    pool: &SqlitePool,
    hop: HopId,
    from: Timestamp,
    to: Timestamp,
    most: usize,
) -> Result<Vec<Sample>, Trouble> {
    if to <= from {
        return Ok(Vec::new());
    }
    let keys = block::keys(hop);
    let blocks = (most / block::FULL).saturating_add(2);
    // The first matching sample may be in the preceding block.
    let rows: Vec<Vec<u8>> = sqlx::query_scalar(
        "SELECT samples FROM block WHERE id BETWEEN \
         coalesce((SELECT max(id) FROM block WHERE id BETWEEN ? AND ?), ?) AND ? \
         ORDER BY id DESC LIMIT ?",
    )
    .bind(keys.start())
    .bind(block::key(hop, from))
    .bind(keys.start())
    .bind(block::key(hop, to))
    .bind(i64::try_from(blocks).unwrap_or(i64::MAX))
    .fetch_all(pool)
    .await?;
    let mut samples = Vec::with_capacity(rows.len() * block::FULL);
    for row in rows.iter().rev() {
        block::unpack(row, &mut samples)?;
    }
    let first = samples.partition_point(|sample| sample.time < from);
    let end = samples.partition_point(|sample| sample.time < to);
    let first = first.max(end.saturating_sub(most));
    samples.truncate(end);
    samples.drain(..first);
    Ok(samples)
}

/// Validates samples and writes those that are accepted.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    path: PathId,
    hop: &str,
    samples: &[Sample],
    order: Order,
    now: Timestamp,
) -> Result<Kept, Trouble> {
    let (hop, newest_us) = paths::hop(connection, path, hop).await?;
    let newest = newest_us.and_then(|us| Timestamp::from_microsecond(us).ok());
    let Some(oldest) = samples.iter().map(|sample| sample.time).min() else {
        return Ok(Kept {
            hop,
            samples: Vec::new(),
            refused: Default::default(),
        });
    };
    // If the clock went back, the newest sample before it is needed too.
    let existing = existing(connection, hop.id, oldest.min(now)).await?;
    let mut before = Vec::new();
    for (_, bytes) in &existing {
        block::unpack(bytes, &mut before)?;
    }
    let mut admission = Admission::new(&before, newest, order, now);
    samples.iter().for_each(|&sample| admission.ask(sample));
    let (all, samples, refused) = admission.finish();
    if let Some(last) = samples.last() {
        rewrite(connection, hop.id, existing, &all).await?;
        let newest = "UPDATE hop SET newest_us = max(coalesce(newest_us, ?1), ?1) WHERE id = ?2";
        run(connection, newest, &[last.time.as_microsecond(), hop.id.0]).await?;
    }
    Ok(Kept {
        hop,
        samples,
        refused,
    })
}

/// The blocks from the one before `oldest` to the last, by key.
async fn existing(
    connection: &mut SqliteConnection,
    hop: HopId,
    oldest: Timestamp,
) -> Result<Vec<(i64, Vec<u8>)>, Trouble> {
    let keys = block::keys(hop);
    Ok(sqlx::query_as(
        "SELECT id, samples FROM block WHERE id BETWEEN \
         coalesce((SELECT max(id) FROM block WHERE id BETWEEN ? AND ?), ?) AND ? ORDER BY id",
    )
    .bind(keys.start())
    .bind(block::key(hop, oldest))
    .bind(keys.start())
    .bind(keys.end())
    .fetch_all(&mut *connection)
    .await?)
}

/// Replaces the blocks by `samples`; unchanged blocks are not written.
async fn rewrite(
    connection: &mut SqliteConnection,
    hop: HopId,
    blocks: Vec<(i64, Vec<u8>)>,
    samples: &[Sample],
) -> Result<(), Trouble> {
    let mut old: HashMap<i64, Vec<u8>> = blocks.into_iter().collect();
    for part in block::cut(samples) {
        let (key, bytes) = (block::key(hop, part[0].time), block::pack(part));
        if old.remove(&key).is_some_and(|old| old == bytes) {
            continue;
        }
        sqlx::query("INSERT OR REPLACE INTO block (id, samples) VALUES (?, ?)")
            .bind(key)
            .bind(bytes)
            .execute(&mut *connection)
            .await?;
    }
    for key in old.into_keys() {
        run(connection, "DELETE FROM block WHERE id = ?", &[key]).await?;
    }
    Ok(())
}
