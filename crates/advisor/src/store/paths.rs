//! Paths and the names of their hops.

use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqlitePool;

use super::error::Trouble;
use super::sqlite::{Transaction, run};
use super::{Discovered, HopId, PathId, Store, StoreError, StoredHop, StoredPath, block};
use crate::path::PathConfig;

type Row = (i64, String, i64, Option<i64>, Option<i64>, Option<String>);

impl Store {
    /// All paths, in the order of their names.
    pub async fn paths(&self) -> Result<Vec<StoredPath>, StoreError> {
        // One statement, so that paths and hops are consistent.
        let rows = sqlx::query_as(
            "SELECT path.id, path.config, path.changed, path.discovered_us, hop.id, hop.name \
             FROM path LEFT JOIN hop ON hop.path = path.id ORDER BY path.name, hop.id",
        );
        Ok(from_rows(self.read(rows.fetch_all(&self.readers).await)?))
    }

    /// Creates the path or changes its declaration, keeping its history; it then counts as declared.
    pub async fn put_path(&self, config: &PathConfig) -> Result<StoredPath, StoreError> {
        let mut transaction = self.begin().await?;
        let path = put(&mut transaction, config).await;
        self.end(transaction, path).await
    }

    /// Removes the path and its history; returns whether it existed.
    pub async fn remove_path(&self, path: PathId) -> Result<bool, StoreError> {
        let mut transaction = self.begin_change(path).await?;
        let was_there = remove(&mut transaction.connection, path).await;
        self.end(transaction, was_there).await
    }

    /// Removes a hop of the path and its history; returns whether it existed.
    pub async fn remove_hop(&self, path: PathId, hop: HopId) -> Result<bool, StoreError> {
        let mut transaction = self.begin_change(path).await?;
        let was_there = remove_hop(&mut transaction.connection, hop).await;
        self.end(transaction, was_there).await
    }

    /// Applies a change of the undeclared paths in one transaction; returns the new ones.
    pub async fn discover(
        &self,
        change: &Discovered,
        now: Timestamp,
    ) -> Result<Vec<StoredPath>, StoreError> {
        let mut transaction = self.begin().await?;
        let new = discover(&mut transaction.connection, change, now).await;
        self.end(transaction, new).await
    }
}

fn from_rows(rows: Vec<Row>) -> Vec<StoredPath> {
    let mut paths: Vec<StoredPath> = Vec::new();
    for (path, config, changed, discovered_us, hop, name) in rows {
        if paths.last().is_none_or(|last| last.id != PathId(path)) {
            // One unreadable declaration must not hide the other paths.
            let Some(config) = read(PathId(path), &config) else {
                continue;
            };
            paths.push(StoredPath {
                id: PathId(path),
                config,
                hops: Vec::new(),
                changed,
                discovered: discovered_us.and_then(|us| Timestamp::from_microsecond(us).ok()),
            });
        }
        let hop = hop.zip(name).map(stored_hop);
        paths.last_mut().expect("one was pushed").hops.extend(hop);
    }
    paths
}

fn stored_hop((id, name): (i64, String)) -> StoredHop {
    let id = HopId(id);
    StoredHop { id, name }
}

fn read(path: PathId, config: &str) -> Option<PathConfig> {
    let read = serde_json::from_str(config);
    read.inspect_err(|error| {
        let number = path.0;
        tracing::error!(
            "the declaration of path number {number} cannot be read: {error}; the path is left out \
             until it is declared again by its name: {config:?}"
        );
    })
    .ok()
}

fn json(config: &PathConfig) -> Result<String, Trouble> {
    serde_json::to_string(config)
        .map_err(|error| Trouble::Damaged(format!("path {}: {error}", config.name)))
}

async fn put(
    transaction: &mut Transaction<'_>,
    config: &PathConfig,
) -> Result<StoredPath, Trouble> {
    let connection = &mut transaction.connection;
    let (path, changed): (i64, i64) = sqlx::query_as(
        "INSERT INTO path (name, config) VALUES (?, ?) \
         ON CONFLICT (name) DO UPDATE SET config = excluded.config, discovered_us = NULL RETURNING id, changed",
    )
    .bind(&config.name)
    .bind(json(config)?)
    .fetch_one(&mut *connection)
    .await?;
    for name in config.declared_hops() {
        hop(connection, PathId(path), name).await?;
    }
    let hops: Vec<(i64, String)> =
        sqlx::query_as("SELECT id, name FROM hop WHERE path = ? ORDER BY id")
            .bind(path)
            .fetch_all(&mut *connection)
            .await?;
    transaction.announce(PathId(path)).await?;
    let hops = hops.into_iter().map(stored_hop);
    Ok(StoredPath {
        id: PathId(path),
        config: config.clone(),
        hops: hops.collect(),
        changed,
        discovered: None,
    })
}

async fn discover(
    connection: &mut SqliteConnection,
    change: &Discovered,
    now: Timestamp,
) -> Result<Vec<StoredPath>, Trouble> {
    for path in &change.gone {
        if is_discovered(connection, *path).await? {
            remove(connection, *path).await?;
        }
    }
    let mut new = Vec::with_capacity(change.new.len());
    for config in &change.new {
        new.extend(add_discovered(connection, config, now).await?);
    }
    for path in &change.seen {
        let see = "UPDATE path SET discovered_us = ? WHERE id = ? AND discovered_us IS NOT NULL";
        run(connection, see, &[now.as_microsecond(), path.0]).await?;
    }
    Ok(new)
}

/// Creates the path unless its name is taken, even by a declaration that cannot be read.
async fn add_discovered(
    connection: &mut SqliteConnection,
    config: &PathConfig,
    now: Timestamp,
) -> Result<Option<StoredPath>, Trouble> {
    let added: Option<(i64, i64)> = sqlx::query_as(
        "INSERT INTO path (name, config, discovered_us) VALUES (?, ?, ?) \
         ON CONFLICT (name) DO NOTHING RETURNING id, changed",
    )
    .bind(&config.name)
    .bind(json(config)?)
    .bind(now.as_microsecond())
    .fetch_optional(connection)
    .await?;
    Ok(added.map(|(path, changed)| StoredPath {
        id: PathId(path),
        config: config.clone(),
        hops: Vec::new(),
        changed,
        discovered: Some(now),
    }))
}

async fn is_discovered(connection: &mut SqliteConnection, path: PathId) -> Result<bool, Trouble> {
    let found: Option<i64> =
        sqlx::query_scalar("SELECT id FROM path WHERE id = ? AND discovered_us IS NOT NULL")
            .bind(path.0)
            .fetch_optional(connection)
            .await?;
    Ok(found.is_some())
}

async fn remove(connection: &mut SqliteConnection, path: PathId) -> Result<bool, Trouble> {
    let hops: Vec<i64> = sqlx::query_scalar("SELECT id FROM hop WHERE path = ?")
        .bind(path.0)
        .fetch_all(&mut *connection)
        .await?;
    for hop in hops {
        remove_hop(&mut *connection, HopId(hop)).await?;
    }
    Ok(run(connection, "DELETE FROM path WHERE id = ?", &[path.0]).await? == 1)
}

async fn remove_hop(connection: &mut SqliteConnection, hop: HopId) -> Result<bool, Trouble> {
    let (first, last) = block::keys(hop).into_inner();
    let blocks = "DELETE FROM block WHERE id BETWEEN ? AND ?";
    run(connection, blocks, &[first, last]).await?;
    Ok(run(connection, "DELETE FROM hop WHERE id = ?", &[hop.0]).await? == 1)
}

/// The name of the path, if it exists.
pub(super) async fn name(
    connection: &mut SqliteConnection,
    path: PathId,
) -> Result<Option<String>, Trouble> {
    let name = sqlx::query_scalar("SELECT name FROM path WHERE id = ?").bind(path.0);
    Ok(name.fetch_optional(connection).await?)
}

/// The names of the path's hops.
pub(super) async fn hop_names(
    connection: &mut SqliteConnection,
    path: PathId,
) -> Result<Vec<String>, Trouble> {
    let names = sqlx::query_scalar("SELECT name FROM hop WHERE path = ?").bind(path.0);
    Ok(names.fetch_all(connection).await?)
}

/// The names of a hop and its path for an error, as far as they can be read.
pub(super) async fn whose(pool: &SqlitePool, hop: HopId) -> String {
    let names: Result<Option<(String, String)>, _> = sqlx::query_as(
        "SELECT path.name, hop.name FROM hop JOIN path ON path.id = hop.path WHERE hop.id = ?",
    )
    .bind(hop.0)
    .fetch_optional(pool)
    .await;
    match names {
        Ok(Some((path, hop))) => hop_of(&path, &hop),
        _ => format!("hop number {}", hop.0),
    }
}

/// Path and hop, as named in errors.
pub(super) fn hop_of(path: &str, hop: &str) -> String {
    format!("path {path}, hop {hop}")
}

/// The hop of this name, created if necessary, and the time of its newest sample in microseconds.
pub(super) async fn hop(
    connection: &mut SqliteConnection,
    path: PathId,
    name: &str,
) -> Result<(StoredHop, Option<i64>), Trouble> {
    let (id, newest_us): (i64, Option<i64>) = sqlx::query_as(
        "INSERT INTO hop (path, name) VALUES (?, ?) \
         ON CONFLICT (path, name) DO UPDATE SET name = excluded.name RETURNING id, newest_us",
    )
    .bind(path.0)
    .bind(name)
    .fetch_one(&mut *connection)
    .await?;
    Ok((stored_hop((id, name.to_owned())), newest_us))
}
