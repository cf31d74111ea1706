//! Paths and the names of their hops.

use sqlx::sqlite::SqlitePool;
use sqlx::{Sqlite, Transaction};

use super::block;
use crate::path::PathConfig;
use crate::store::{HopId, PathId, StoreError, StoredHop, StoredPath};

/// All paths, by name.
pub async fn all(pool: &SqlitePool) -> Result<Vec<StoredPath>, StoreError> {
    // One statement, so that paths and hops are of one moment.
    let rows: Vec<(i64, String, Option<i64>, Option<String>)> = sqlx::query_as(
        "SELECT path.id, path.config, hop.id, hop.name \
         FROM path LEFT JOIN hop ON hop.path = path.id ORDER BY path.name, hop.id",
    )
    .fetch_all(pool)
    .await?;
    let mut paths: Vec<StoredPath> = Vec::new();
    for (path, config, hop, name) in rows {
        if paths.last().is_none_or(|last| last.id != PathId(path)) {
            paths.push(StoredPath {
                id: PathId(path),
                config: read(&config)?,
                hops: Vec::new(),
            });
        }
        let hop = hop.zip(name).map(|(id, name)| StoredHop {
            id: HopId(id),
            name,
        });
        paths.last_mut().expect("one was pushed").hops.extend(hop);
    }
    Ok(paths)
}

fn read(config: &str) -> Result<PathConfig, StoreError> {
    serde_json::from_str(config)
        .map_err(|error| StoreError::Corrupt(format!("the declaration of a path: {error}")))
}

/// Creates the path or changes its declaration.
pub async fn put(
    transaction: &mut Transaction<'static, Sqlite>,
    config: &PathConfig,
) -> Result<StoredPath, StoreError> {
    let json = serde_json::to_string(config)
        .map_err(|error| StoreError::Corrupt(format!("path {}: {error}", config.name)))?;
    let path: i64 = sqlx::query_scalar(
        "INSERT INTO path (name, config) VALUES (?, ?) \
         ON CONFLICT (name) DO UPDATE SET config = excluded.config RETURNING id",
    )
    .bind(&config.name)
    .bind(json)
    .fetch_one(&mut **transaction)
    .await?;
    for name in config.declared_hops() {
        hop(transaction, PathId(path), name).await?;
    }
    let hops: Vec<(i64, String)> =
        sqlx::query_as("SELECT id, name FROM hop WHERE path = ? ORDER BY id")
            .bind(path)
            .fetch_all(&mut **transaction)
            .await?;
    let hops = hops.into_iter().map(|(id, name)| StoredHop {
        id: HopId(id),
        name,
    });
    Ok(StoredPath {
        id: PathId(path),
        config: config.clone(),
        hops: hops.collect(),
    })
}

/// Removes the path with everything that is known of it.
pub async fn remove(
    transaction: &mut Transaction<'static, Sqlite>,
    path: PathId,
) -> Result<bool, StoreError> {
    let hops: Vec<i64> = sqlx::query_scalar("SELECT id FROM hop WHERE path = ?")
        .bind(path.0)
        .fetch_all(&mut **transaction)
        .await?;
    for hop in hops {
        remove_hop(transaction, HopId(hop)).await?;
    }
    let deleted = sqlx::query("DELETE FROM path WHERE id = ?")
        .bind(path.0)
        .execute(&mut **transaction)
        .await?;
    Ok(deleted.rows_affected() == 1)
}

/// Removes the hop with its history.
pub async fn remove_hop(
    transaction: &mut Transaction<'static, Sqlite>,
    hop: HopId,
) -> Result<bool, StoreError> {
    let keys = block::keys(hop);
    sqlx::query("DELETE FROM block WHERE id BETWEEN ? AND ?")
        .bind(keys.start())
        .bind(keys.end())
        .execute(&mut **transaction)
        .await?;
    let deleted = sqlx::query("DELETE FROM hop WHERE id = ?")
        .bind(hop.0)
        .execute(&mut **transaction)
        .await?;
    Ok(deleted.rows_affected() == 1)
}

/// Whether the path is there.
pub async fn exists(
    transaction: &mut Transaction<'static, Sqlite>,
    path: PathId,
) -> Result<bool, StoreError> {
    let found: Option<i64> = sqlx::query_scalar("SELECT id FROM path WHERE id = ?")
        .bind(path.0)
        .fetch_optional(&mut **transaction)
        .await?;
    Ok(found.is_some())
}

/// The hop of this name, new or not, and the time of its newest sample in microseconds.
pub async fn hop(
    transaction: &mut Transaction<'static, Sqlite>,
    path: PathId,
    name: &str,
) -> Result<(StoredHop, Option<i64>), StoreError> {
    let (id, newest_us): (i64, Option<i64>) = sqlx::query_as(
        "INSERT INTO hop (path, name) VALUES (?, ?) \
         ON CONFLICT (path, name) DO UPDATE SET name = excluded.name RETURNING id, newest_us",
    )
    .bind(path.0)
    .bind(name)
    .fetch_one(&mut **transaction)
    .await?;
    let hop = StoredHop {
        id: HopId(id),
        name: name.to_owned(),
    };
    Ok((hop, newest_us))
}
