//! Damage to the stored data of one path.

use std::fs;
use std::path::Path;

use fairwind_advice::Sample;
use fairwind_advisor::PathConfig;
use fairwind_advisor::store::{
    Group, GroupWritten, Order, PathId, Store, StoredPath, Write, Written,
};
use jiff::Timestamp;
use sqlx::{Connection, SqliteConnection};

/// Samples per block, as in `docs/reference/advisor.md`.
const BLOCK: usize = 300;
/// Page size, bytes.
const PAGE: usize = 16 << 10;

fn samples(path: PathId, first: usize, number: usize) -> Group {
    let sample = |n: usize| Sample {
        time: Timestamp::from_second(1_700_000_000 + 300 * n as i64).unwrap(),
        // Unique over all paths, so that a sample can be found in the file.
        available_mbps: path.0 as f64 + n as f64 * 1e-6,
    };
    let samples = Write::Samples {
        hop: "r1".to_owned(),
        samples: (first..first + number).map(sample).collect(),
        order: Order::Append,
        now: "2026-03-02T14:00:00Z".parse().unwrap(),
    };
    Group {
        path,
        writes: vec![samples],
    }
}

async fn open(file: &Path) -> Store {
    Store::open(file).await.unwrap()
}

/// A store of two paths with `number` samples each, and one path between them, because reading a hop also
/// touches the first page of the next one.
async fn filled(file: &Path, number: usize) -> [StoredPath; 2] {
    let store = open(file).await;
    let mut paths = Vec::new();
    for name in ["damaged", "of-no-account", "sound"] {
        let path = store.put_path(&PathConfig::new(name, Vec::new())).await;
        paths.push(path.unwrap());
    }
    for path in &paths {
        let written = store.write(&[samples(path.id, 0, number)]).await.unwrap();
        assert_eq!(kept(&written[0]), number);
    }
    store.close().await;
    paths.remove(1);
    paths.try_into().unwrap()
}

fn kept(written: &GroupWritten) -> usize {
    match written.as_ref().unwrap() {
        Written::Done(kept) => kept[0].samples.len(),
        other => panic!("{other:?}"),
    }
}

/// Writes new samples of both paths in one transaction.
async fn writes_to_both(file: &Path, [damaged, sound]: &[StoredPath; 2], next: usize) -> String {
    let store = open(file).await;
    let groups = [
        samples(sound.id, next, 1),
        samples(damaged.id, next, 1),
        samples(sound.id, next + 1, 1),
    ];
    let written = store.write(&groups).await.unwrap();
    assert_eq!((kept(&written[0]), kept(&written[2])), (1, 1));
    let (all, end) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
    let hop = store.paths().await.unwrap()[2].hops[0].id;
    let there = store.samples(hop, all, end, usize::MAX).await.unwrap();
    assert_eq!(there.len(), next + 2);
    // The store as a whole is intact.
    store.check().await.unwrap();
    let hop = store.paths().await.unwrap()[0].hops[0].id;
    let unread = store.samples(hop, all, end, usize::MAX).await.unwrap_err();
    let unwritten = written[1].as_ref().unwrap_err().to_string();
    assert_eq!(unwritten, unread.to_string());
    store.close().await;
    unwritten
}

#[tokio::test]
async fn a_damaged_block_of_one_path_keeps_no_other_path_from_being_written() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("advisor.db");
    let paths = filled(&file, 10).await;
    let url = format!("sqlite://{}", file.display());
    let mut database = SqliteConnection::connect(&url).await.unwrap();
    let hop = paths[0].hop("r1").map_or(1, |hop| hop.id.0);
    sqlx::query("UPDATE block SET samples = x'0107' WHERE id >> 34 = ?")
        .bind(hop)
        .execute(&mut database)
        .await
        .unwrap();
    database.close().await.unwrap();
    let error = writes_to_both(&file, &paths, 10).await;
    let expected = format!(
        "{}: path damaged, hop r1: a block of samples is damaged; bring back a backup, or remove the \
         path and its history by `fairwind advisor paths remove`; other paths are not concerned",
        file.display()
    );
    assert_eq!(error, expected);
    // The remedy that the error names.
    let store = open(&file).await;
    assert!(store.remove_path(paths[0].id).await.unwrap());
    store.close().await;
}

#[tokio::test]
async fn a_page_that_is_no_page_any_more_keeps_no_other_path_from_being_written() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("advisor.db");
    // Enough that the last block of one path is on a page without any block of the other.
    let number = 20 * BLOCK - 2;
    let paths = filled(&file, number).await;
    let mut bytes = fs::read(&file).unwrap();
    let last = (paths[0].id.0 as f64 + (number - 1) as f64 * 1e-6).to_le_bytes();
    let at = bytes.windows(8).position(|there| there == last).unwrap();
    let page = at - at % PAGE;
    bytes[page..page + 8].fill(0xa5);
    fs::write(&file, bytes).unwrap();
    let error = writes_to_both(&file, &paths, number).await;
    assert!(error.contains("path damaged, hop r1: "), "{error}");
    assert!(error.contains("malformed"), "{error}");
    assert!(error.contains(".recover"), "{error}");
}

#[tokio::test]
async fn a_declaration_that_cannot_be_read_hides_no_other_path() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("advisor.db");
    filled(&file, 1).await;
    let url = format!("sqlite://{}", file.display());
    let mut database = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("UPDATE path SET config = '{' WHERE name = 'damaged'")
        .execute(&mut database)
        .await
        .unwrap();
    database.close().await.unwrap();
    let store = open(&file).await;
    let names = |paths: &[StoredPath]| -> Vec<String> {
        paths.iter().map(|path| path.config.name.clone()).collect()
    };
    assert_eq!(
        names(&store.paths().await.unwrap()),
        ["of-no-account", "sound"]
    );
    store
        .put_path(&PathConfig::new("damaged", Vec::new()))
        .await
        .unwrap();
    assert_eq!(
        names(&store.paths().await.unwrap()),
        ["damaged", "of-no-account", "sound"]
    );
}

#[tokio::test]
async fn a_file_that_is_no_database_or_cannot_be_written_is_named_with_what_helps() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("advisor.db");
    fs::write(&file, "no database ".repeat(1_000)).unwrap();
    let error = Store::open(&file).await.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{}: ", file.display())),
        "{error}"
    );
    assert!(error.contains("move it away"), "{error}");
    let nowhere = place.path().join("nowhere/advisor.db");
    let error = Store::open(&nowhere).await.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{}: ", nowhere.display())),
        "{error}"
    );
    assert!(error.contains("must be there"), "{error}");
}
