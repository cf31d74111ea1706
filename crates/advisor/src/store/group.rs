//! Groups of writes, each written completely or not at all.

use std::collections::{BTreeSet, HashMap};

use sqlx::SqliteConnection;

use super::error::Trouble;
use super::sqlite::Transaction;
use super::{
    Group, GroupWritten, PathId, Store, StoreError, Write, Written, admit, path_measurements,
    paths, samples,
};

impl Store {
    /// Writes the groups in one transaction, with one outcome per group in the same order. Groups of paths
    /// whose history is damaged are left out. SQLite does not commit a transaction that has met a damaged
    /// page, so it is started again without that path.
    pub async fn write(&self, groups: &[Group]) -> Result<Vec<GroupWritten>, StoreError> {
        let mut damaged = HashMap::new();
        loop {
            let mut transaction = self.begin().await?;
            match write_all(&mut transaction, groups, &damaged).await {
                Err((path, trouble)) if trouble.is_of_path() => {
                    damaged.insert(path, trouble.at(&self.file));
                }
                outcome => {
                    let outcome = outcome.map_err(|(_, trouble)| trouble);
                    return self.end(transaction, outcome).await;
                }
            }
        }
    }
}

/// Writes the groups without damaged paths; the error is that of a path.
async fn write_all(
    transaction: &mut Transaction<'_>,
    groups: &[Group],
    damaged: &HashMap<PathId, StoreError>,
) -> Result<Vec<GroupWritten>, (PathId, Trouble)> {
    let mut answers = Vec::with_capacity(groups.len());
    for group in groups {
        answers.push(match damaged.get(&group.path) {
            Some(error) => Err(error.clone()),
            None => {
                let written = write(&mut transaction.connection, group).await;
                Ok(written.map_err(|trouble| (group.path, trouble))?)
            }
        });
    }
    for path in groups
        .iter()
        .map(|group| group.path)
        .collect::<BTreeSet<_>>()
    {
        let announced = transaction.announce(path).await;
        announced.map_err(|trouble| (path, trouble))?;
    }
    Ok(answers)
}

async fn write(connection: &mut SqliteConnection, group: &Group) -> Result<Written, Trouble> {
    if !has_room(connection, group).await? {
        return Ok(Written::Full);
    }
    let Some(path) = paths::name(connection, group.path).await? else {
        return Ok(Written::Gone);
    };
    let mut kept = Vec::new();
    for write in &group.writes {
        let written = write_one(connection, group.path, write).await;
        kept.extend(written.map_err(|trouble| trouble.of(|| whose(&path, write)))?);
    }
    Ok(Written::Done(kept))
}

/// Whether the path has room for the new hops of the writes. Checked within the transaction, before any
/// write, because concurrent groups may add hops too.
async fn has_room(connection: &mut SqliteConnection, group: &Group) -> Result<bool, Trouble> {
    let hops = group.writes.iter().filter_map(|write| match write {
        Write::Samples { hop, .. } => Some(hop.as_str()),
        _ => None,
    });
    let wanted: BTreeSet<&str> = hops.collect();
    if wanted.is_empty() {
        return Ok(true);
    }
    let known = paths::hop_names(connection, group.path).await;
    let known = known.map_err(|trouble| trouble.of(|| format!("path number {}", group.path.0)))?;
    let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    Ok(admit::has_room(&known, &wanted))
}

fn whose(path: &str, write: &Write) -> String {
    match write {
        Write::Samples { hop, .. } => paths::hop_of(path, hop),
        Write::RoundTrip(_) | Write::Transfer { .. } => format!("path {path}"),
    }
}

async fn write_one(
    connection: &mut SqliteConnection,
    path: PathId,
    write: &Write,
) -> Result<Option<super::Kept>, Trouble> {
    match write {
        Write::Samples {
            hop,
            samples,
            order,
            now,
        } => {
            let kept = samples::write(connection, path, hop, samples, *order, *now).await?;
            return Ok(Some(kept));
        }
        Write::RoundTrip(one) => path_measurements::write_round_trip(connection, path, one).await?,
        Write::Transfer { time, report } => {
            path_measurements::write_transfer(connection, path, *time, report).await?;
        }
    }
    Ok(None)
}
