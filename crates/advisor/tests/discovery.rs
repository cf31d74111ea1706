//! Hosts in a transfer log become paths, within limits.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_advice::wire::{Direction, TransferReport};
use fairwind_advisor::config::Discovery;
use fairwind_advisor::store::Store;
use fairwind_advisor::{Clock, PathConfig, Service};
use jiff::Timestamp;
use sqlx::{Connection, SqliteConnection};

async fn service(place: &Path, now: &str) -> Service {
    let store = Store::open(&place.join("advisor.db")).await.unwrap();
    let now: Timestamp = now.parse().unwrap();
    let clock = Clock::new(Some(now), 1.0);
    Service::start(Arc::new(store), clock, 1 << 20)
        .await
        .unwrap()
}

/// Direct access to the service's database.
async fn database(place: &Path) -> SqliteConnection {
    let file = place.join("advisor.db");
    let url = format!("sqlite:{}", file.display());
    SqliteConnection::connect(&url).await.unwrap()
}

async fn execute(place: &Path, statement: &'static str) {
    let mut database = database(place).await;
    sqlx::query(statement).execute(&mut database).await.unwrap();
}

fn host(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number))
}

fn names(service: &Service) -> Vec<String> {
    let directory = service.directory();
    let names = directory.paths().map(|path| path.config().name.clone());
    names.collect()
}

async fn discover(service: &Service, hosts: &[u32], discovery: &Discovery) -> usize {
    let hosts = hosts.iter().map(|&number| host(number));
    service.discover(hosts, discovery).await.unwrap()
}

fn transfer(to: u32) -> TransferReport {
    TransferReport {
        host: host(to).to_string(),
        bytes: 1_000,
        seconds: 1.0,
        retransmits: None,
        rtt_ms: None,
        limited: None,
        direction: Direction::Sent,
    }
}

#[tokio::test]
async fn only_hosts_of_the_allowed_networks_become_paths() {
    let place = tempfile::tempdir().unwrap();
    let service = service(place.path(), "2026-03-02T14:00:00Z").await;
    let discovery = Discovery {
        networks: vec![
            "10.0.0.0/30".parse().unwrap(),
            "2001:db8::/32".parse().unwrap(),
        ],
        ..Discovery::default()
    };
    let hosts = [
        "10.0.0.1",
        "10.0.0.4",
        "::ffff:10.0.0.2",
        "2001:db8::7",
        "2001:db9::7",
        "127.0.0.1",
    ];
    let hosts = hosts.map(|host| host.parse::<IpAddr>().unwrap());
    assert_eq!(service.discover(hosts, &discovery).await.unwrap(), 3);
    assert_eq!(names(&service), ["10.0.0.1", "10.0.0.2", "2001-db8--7"]);
    // A path that the configuration no longer allows is forgotten.
    let narrower = Discovery {
        networks: vec!["10.0.0.2/32".parse().unwrap()],
        ..Discovery::default()
    };
    service.forget_discovered(&narrower).await.unwrap();
    assert_eq!(names(&service), ["10.0.0.2"]);
}

#[tokio::test]
async fn a_host_without_a_transfer_for_too_long_is_forgotten_and_a_declared_one_is_not() {
    let place = tempfile::tempdir().unwrap();
    let discovery = Discovery::default();
    let first = service(place.path(), "2026-03-02T14:00:00Z").await;
    let own = PathConfig::new("own", vec![host(9).to_string().parse().unwrap()]);
    first.put_path(own).await.unwrap();
    assert_eq!(discover(&first, &[1, 2, 3, 4, 9], &discovery).await, 4);
    // A discovered path that is then declared counts as declared.
    let declared = PathConfig::new("10.0.0.4", vec![host(4).to_string().parse().unwrap()]);
    assert!(!first.put_path(declared).await.unwrap());
    let later = service(place.path(), "2026-03-22T14:00:00Z").await;
    assert_eq!(discover(&later, &[2], &discovery).await, 0);
    later.record_transfer(transfer(3)).await.unwrap();
    later.forget_discovered(&discovery).await.unwrap();
    assert_eq!(names(&later).len(), 5);
    // 30 days and an hour after the first transfer.
    let last = service(place.path(), "2026-04-01T15:00:00Z").await;
    last.forget_discovered(&discovery).await.unwrap();
    assert_eq!(names(&last), ["10.0.0.2", "10.0.0.3", "10.0.0.4", "own"]);
    let again = service(place.path(), "2027-04-01T15:00:00Z").await;
    again.forget_discovered(&discovery).await.unwrap();
    assert_eq!(names(&again), ["10.0.0.4", "own"]);
}

#[tokio::test]
async fn of_too_many_hosts_those_go_that_came_up_longest_ago() {
    let place = tempfile::tempdir().unwrap();
    let discovery = Discovery {
        hosts_at_most: 3,
        ..Discovery::default()
    };
    let first = service(place.path(), "2026-03-02T14:00:00Z").await;
    first
        .put_path(PathConfig::new("own", Vec::new()))
        .await
        .unwrap();
    assert_eq!(discover(&first, &[1, 2], &discovery).await, 2);
    let second = service(place.path(), "2026-03-03T14:00:00Z").await;
    assert_eq!(discover(&second, &[3], &discovery).await, 1);
    assert_eq!(discover(&second, &[1, 4], &discovery).await, 1);
    assert_eq!(names(&second), ["10.0.0.1", "10.0.0.3", "10.0.0.4", "own"]);
    let hosts: Vec<u32> = (10..2_000).collect();
    discover(&second, &hosts, &discovery).await;
    assert_eq!(names(&second).len(), 4);
    assert_eq!(names(&second)[3], "own");
    let none = Discovery {
        hosts_at_most: 0,
        ..discovery
    };
    second.forget_discovered(&none).await.unwrap();
    assert_eq!(names(&second), ["own"]);
}

#[tokio::test]
async fn a_declared_path_that_is_named_like_a_host_stays_as_it_was_declared() {
    let place = tempfile::tempdir().unwrap();
    let discovery = Discovery::default();
    let first = service(place.path(), "2026-03-02T14:00:00Z").await;
    // As declared by `fairwind history import --path 10.0.0.1`: no host leads to it.
    let declared = PathConfig {
        threshold_mbps: Some(42.0),
        own: true,
        ..PathConfig::new("10.0.0.1", Vec::new())
    };
    first.put_path(declared.clone()).await.unwrap();
    assert_eq!(discover(&first, &[1, 2], &discovery).await, 1);
    assert_eq!(first.path("10.0.0.1").unwrap().config(), &declared);
    let later = service(place.path(), "2026-05-02T14:00:00Z").await;
    later.forget_discovered(&discovery).await.unwrap();
    assert_eq!(names(&later), ["10.0.0.1"]);
    assert_eq!(later.path("10.0.0.1").unwrap().config(), &declared);
}

#[tokio::test]
async fn a_declaration_that_cannot_be_read_is_not_overwritten_by_a_host_of_its_name() {
    let place = tempfile::tempdir().unwrap();
    let first = service(place.path(), "2026-03-02T14:00:00Z").await;
    let path = PathConfig::new("10.0.0.1", Vec::new());
    first.put_path(path).await.unwrap();
    execute(place.path(), "UPDATE path SET config = 'unreadable'").await;
    let second = service(place.path(), "2026-03-02T14:00:00Z").await;
    assert!(names(&second).is_empty());
    assert_eq!(discover(&second, &[1], &Discovery::default()).await, 0);
    let mut database = database(place.path()).await;
    let kept: String = sqlx::query_scalar("SELECT config FROM path")
        .fetch_one(&mut database)
        .await
        .unwrap();
    assert_eq!(kept, "unreadable");
}

#[tokio::test]
async fn a_report_that_is_kept_is_answered_although_its_host_could_not_be_seen_again() {
    let place = tempfile::tempdir().unwrap();
    let first = service(place.path(), "2026-03-02T14:00:00Z").await;
    discover(&first, &[1], &Discovery::default()).await;
    let later = service(place.path(), "2026-03-03T14:00:00Z").await;
    let refusing = "CREATE TRIGGER refusing BEFORE UPDATE OF discovered_us ON path \
                    BEGIN SELECT RAISE(ABORT, 'refused'); END";
    execute(place.path(), refusing).await;
    let answer = later.record_transfer(transfer(1)).await.unwrap();
    assert_eq!(answer.path, "10.0.0.1");
}

/// The time in which so many hosts become paths.
async fn time_to_discover(number: u32) -> Duration {
    let place = tempfile::tempdir().unwrap();
    let service = service(place.path(), "2026-03-02T14:00:00Z").await;
    let discovery = Discovery {
        hosts_at_most: number,
        ..Discovery::default()
    };
    let hosts: Vec<u32> = (0..number).collect();
    let begin = Instant::now();
    let new = discover(&service, &hosts, &discovery).await;
    assert_eq!(new, number as usize);
    begin.elapsed()
}

/// Ten times as many hosts would take a hundred times as long with a new directory for each.
#[tokio::test]
async fn the_time_for_many_hosts_grows_with_their_number_only() {
    let (mut few, mut many) = (Duration::MAX, Duration::MAX);
    // What else the machine does only adds to a time, so the least of several is judged.
    for _ in 0..5 {
        few = few.min(time_to_discover(2_000).await);
        many = many.min(time_to_discover(20_000).await);
        if many < 30 * few {
            return;
        }
    }
    panic!("2,000 hosts in {few:?}, 20,000 in {many:?}");
}
