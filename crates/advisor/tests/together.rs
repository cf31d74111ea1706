//! The directory in memory and the store stay the same, whatever runs concurrently and whichever caller stops
//! waiting for an answer.

use std::sync::Arc;
use std::time::Duration;

use fairwind_advisor::service::NewSample;
use fairwind_advisor::store::{Store, StoredHop};
use fairwind_advisor::{Clock, PathConfig, Service, ServiceError};
use jiff::{SignedDuration, Timestamp};

use crate::support::START;

struct Place {
    store: Arc<Store>,
    service: Service,
    _directory: tempfile::TempDir,
}

async fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("db")).await;
    let store: Arc<Store> = Arc::new(store.unwrap());
    let clock = Clock::new(Some(START.parse().unwrap()), 1.0);
    let service = Service::start(Arc::clone(&store), clock, 1 << 20);
    Place {
        service: service.await.unwrap(),
        store,
        _directory: directory,
    }
}

impl Place {
    /// Names of paths with their hops, in memory and in the store.
    async fn both(&self) -> [Vec<(String, Vec<StoredHop>)>; 2] {
        let stored = self.store.paths().await.unwrap().into_iter();
        let directory = self.service.directory();
        let known = directory.paths().map(|path| path.stored.clone());
        [
            known.map(|path| (path.config.name, path.hops)).collect(),
            stored.map(|path| (path.config.name, path.hops)).collect(),
        ]
    }

    /// Compares them once all abandoned work is done.
    async fn is_the_same_in_memory_and_in_the_store(&self) {
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let [known, stored] = self.both().await;
            if known == stored {
                return;
            }
        }
        let [known, stored] = self.both().await;
        assert_eq!(known, stored);
    }
}

/// A test of the hop, `us` microseconds before the clock's start.
fn test(hop: &str, us: i64) -> NewSample {
    let start: Timestamp = START.parse().unwrap();
    NewSample {
        hop: Some(hop.to_owned()),
        time: start - SignedDuration::from_micros(us),
        available_mbps: 60.0,
        rtt_ms: None,
        source: None,
    }
}

fn path(number: u64) -> PathConfig {
    PathConfig::new(format!("p{number:02}"), Vec::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_hangs_up_while_a_path_is_declared_or_removed_leaves_memory_and_store_the_same() {
    let place = place().await;
    for number in 0..80 {
        let (declaring, removing) = (place.service.clone(), place.service.clone());
        let declaring = tokio::spawn(async move { declaring.put_path(path(number)).await });
        // Varies the moment of the abort, so that some calls are abandoned after the store has the change.
        tokio::time::sleep(Duration::from_micros(100 * number)).await;
        declaring.abort();
        let before = number.saturating_sub(1);
        let removing = tokio::spawn(async move { removing.remove_path(&path(before).name).await });
        tokio::time::sleep(Duration::from_micros(100 * number)).await;
        removing.abort();
    }
    place.is_the_same_in_memory_and_in_the_store().await;
}

#[tokio::test]
async fn samples_of_a_hop_that_was_removed_past_the_service_are_read_from_where_they_are() {
    let place = place().await;
    let service = &place.service;
    service.put_path(path(1)).await.unwrap();
    let known = service.path("p01").unwrap();
    service.record(&known, &[test("r", 3)]).await.unwrap();
    let known = service.path("p01").unwrap();
    let hop = known.stored.hop("r").unwrap().id;
    assert!(place.store.remove_hop(known.stored.id, hop).await.unwrap());
    service.record(&known, &[test("r", 2)]).await.unwrap();
    let [known, stored] = place.both().await;
    assert_eq!(known, stored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hops_that_come_and_go_while_all_paths_are_read_are_the_same_in_memory_and_in_the_store() {
    let place = place().await;
    place.service.put_path(path(1)).await.unwrap();
    let (reading, removing) = (place.service.clone(), place.service.clone());
    let reading = tokio::spawn(async move {
        loop {
            reading.reload().await.unwrap();
        }
    });
    let removing = tokio::spawn(async move {
        loop {
            match removing.remove_hop("p01", "r").await {
                Ok(()) => {}
                Err(ServiceError::NoHop { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    });
    for us in (1..400).rev() {
        let known = place.service.path("p01").unwrap();
        let hop = format!("h{us}");
        let hop = if us % 8 == 0 { hop.as_str() } else { "r" };
        place
            .service
            .record(&known, &[test(hop, us)])
            .await
            .unwrap();
        let [known, stored] = place.both().await;
        let of_h = |paths: &[(String, Vec<StoredHop>)]| -> Vec<StoredHop> {
            let hops = paths[0].1.iter().filter(|hop| hop.name != "r");
            hops.cloned().collect()
        };
        assert_eq!(of_h(&known), of_h(&stored), "after {us}");
    }
    reading.abort();
    removing.abort();
    place.is_the_same_in_memory_and_in_the_store().await;
}
