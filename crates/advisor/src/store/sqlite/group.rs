//! Groups of writes, each whole or not at all.

use std::collections::{BTreeSet, HashMap};

use sqlx::SqliteConnection;

use super::error::Trouble;
use super::{SqliteStore, paths, samples, tests_of_path};
use crate::store::{GroupWritten, PathId, StoreError, Write, Written};

/// Writes the groups in one transaction, but for those of paths whose history is damaged. SQLite commits
/// no transaction that came upon a damaged page: it is begun anew without the path.
pub async fn write_sound(
    store: &SqliteStore,
    groups: &[Vec<Write>],
) -> Result<Vec<GroupWritten>, Trouble> {
    let mut damaged = HashMap::new();
    loop {
        if let Some(answers) = try_without(store, groups, &mut damaged).await? {
            return Ok(answers);
        }
    }
}

/// Writes what is not of a damaged path; nothing is written if that finds another one.
async fn try_without(
    store: &SqliteStore,
    groups: &[Vec<Write>],
    damaged: &mut HashMap<PathId, StoreError>,
) -> Result<Option<Vec<GroupWritten>>, Trouble> {
    let mut writing = store.begin().await?;
    let mut answers = Vec::with_capacity(groups.len());
    for writes in groups {
        let mut paths = writes.iter().map(Write::path);
        if let Some(error) = paths.find_map(|path| damaged.get(&path)) {
            answers.push(Err(error.clone()));
            continue;
        }
        match write(writing.connection(), writes).await {
            Ok(written) => answers.push(Ok(written)),
            Err((path, trouble)) if trouble.is_of_path() => {
                damaged.insert(path, trouble.at(&store.file));
                return Ok(None);
            }
            Err((_, trouble)) => return Err(trouble),
        }
    }
    let paths: BTreeSet<PathId> = groups.iter().flatten().map(Write::path).collect();
    for path in paths {
        store.announce(writing.connection(), path).await?;
    }
    writing.commit().await?;
    Ok(Some(answers))
}

async fn write(
    connection: &mut SqliteConnection,
    writes: &[Write],
) -> Result<Vec<Written>, (PathId, Trouble)> {
    let mut answers = Vec::with_capacity(writes.len());
    for write in writes {
        let written = if_there(connection, write).await;
        answers.push(written.map_err(|trouble| (write.path(), trouble))?);
    }
    Ok(answers)
}

async fn if_there(connection: &mut SqliteConnection, write: &Write) -> Result<Written, Trouble> {
    let Some(path) = paths::name(connection, write.path()).await? else {
        return Ok(Written::Gone);
    };
    let written = one(connection, write).await;
    written.map_err(|trouble| trouble.of(|| whose(&path, write)))
}

fn whose(path: &str, write: &Write) -> String {
    match write {
        Write::Samples { hop, .. } => paths::hop_of(path, hop),
        Write::RoundTrip { .. } | Write::Transfer { .. } => format!("path {path}"),
    }
}

async fn one(connection: &mut SqliteConnection, write: &Write) -> Result<Written, Trouble> {
    match write {
        Write::Samples {
            path,
            hop,
            samples,
            order,
            now,
        } => samples::write(connection, *path, hop, samples, *order, *now).await,
        Write::RoundTrip {
            path,
            time,
            rtt_ms,
            source,
        } => tests_of_path::write_round_trip(connection, *path, *time, *rtt_ms, source).await,
        Write::Transfer { path, time, report } => {
            tests_of_path::write_transfer(connection, *path, *time, report).await
        }
    }
}
