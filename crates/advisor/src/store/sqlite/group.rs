//! Groups of writes, each written completely or not at all.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::SqliteConnection;

use super::error::Trouble;
use super::{SqliteStore, path_measurements, paths, samples};
use crate::store::{GroupWritten, PathId, StoreError, Write, Written, admit};

/// Writes the groups in one transaction, except those of paths whose history is damaged. SQLite does not
/// commit a transaction that has met a damaged page, so it is started again without that path.
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

/// Writes the groups without damaged paths; returns `None` with nothing written if another path turns out to
/// be damaged.
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
    if !has_room(connection, writes).await? {
        return Ok(vec![Written::Full; writes.len()]);
    }
    let mut answers = Vec::with_capacity(writes.len());
    for write in writes {
        let written = if_there(connection, write).await;
        answers.push(written.map_err(|trouble| (write.path(), trouble))?);
    }
    Ok(answers)
}

/// Whether the paths have room for the new hops of the writes. Checked within the transaction, before any
/// write, because concurrent groups may add hops too.
async fn has_room(
    connection: &mut SqliteConnection,
    writes: &[Write],
) -> Result<bool, (PathId, Trouble)> {
    let mut wanted: BTreeMap<PathId, BTreeSet<&str>> = BTreeMap::new();
    for write in writes {
        if let Write::Samples { path, hop, .. } = write {
            wanted.entry(*path).or_default().insert(hop);
        }
    }
    for (path, wanted) in wanted {
        let known = paths::hop_names(connection, path).await;
        let whose = || format!("path number {}", path.0);
        let known = known.map_err(|trouble| (path, trouble.of(whose)))?;
        let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
        if !admit::has_room(&known, &wanted) {
            return Ok(false);
        }
    }
    Ok(true)
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
        } => path_measurements::write_round_trip(connection, *path, *time, *rtt_ms, source).await,
        Write::Transfer { path, time, report } => {
            path_measurements::write_transfer(connection, *path, *time, report).await
        }
    }
}
