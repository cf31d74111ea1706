//! Measures the service under load: many paths with weeks of history, requests for advice at a fixed rate,
//! and new samples at the same time.
//!
//! `cargo bench --profile optimised -p fairwind-advisor --bench load -- [--paths 1000] [--weeks 9] [--rate
//! 500] [--sample-every 300] [--seconds 60] [--warm-up 30] [--history-memory MIB] [--state DIR]`
//!
//! Every path gets a new sample each `--sample-every` seconds. Once it is acknowledged, advice for the path
//! is requested; the result shows how many of these answers mention the sample.
//!
//! The load is open-loop: a request is sent at its scheduled time whether or not earlier ones have been
//! answered, and its latency counts from that time, so that stalls of the service cannot hide.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use fairwind_advice::Curve;
use fairwind_advisor::http::Limits;
use fairwind_advisor::run::{Options, serve};
use fairwind_advisor::service::DEFAULT_HISTORY_BYTES;
use fairwind_advisor::store::{Group, Order, Store, Write};
use fairwind_advisor::{Clock, Config, PathConfig};
use jiff::{SignedDuration, Timestamp};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, oneshot};

/// Number of connections shared by the requests.
const CONNECTIONS: usize = 64;
/// The time of the service's clock at the end of the history.
const NOW: &str = "2026-03-02T14:00:00Z";

struct Load {
    paths: u32,
    weeks: i64,
    rate: f64,
    /// Seconds between the new samples of a path.
    sample_every_s: f64,
    seconds: f64,
    /// Seconds between the start and the first request.
    warm_up: f64,
    history_mib: usize,
    state: Option<PathBuf>,
}

impl Load {
    fn of_arguments() -> Load {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let pairs = arguments.as_chunks().0.iter();
        let given: HashMap<&str, &str> = pairs
            .map(|[name, value]| (name.trim_start_matches('-'), value.as_str()))
            .collect();
        let number = |name: &str, usual: f64| -> f64 {
            let text = given.get(name);
            text.map_or(usual, |text| text.parse().expect("a number"))
        };
        Load {
            paths: number("paths", 1_000.0) as u32,
            weeks: number("weeks", 9.0) as i64,
            rate: number("rate", 500.0),
            sample_every_s: number("sample-every", 300.0),
            seconds: number("seconds", 60.0),
            warm_up: number("warm-up", 30.0),
            history_mib: number("history-memory", (DEFAULT_HISTORY_BYTES >> 20) as f64) as usize,
            state: given.get("state").map(PathBuf::from),
        }
    }
}

fn main() {
    let load = Load::of_arguments();
    let temporary = tempfile::tempdir().expect("a directory");
    let state = load
        .state
        .clone()
        .unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&state).expect("a directory");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if !state.join("advisor.db").exists() {
        runtime.block_on(fill(&load, &state));
    }
    let file = std::fs::metadata(state.join("advisor.db")).map_or(0, |data| data.len());
    println!("database             {:.0} MB", file as f64 * 1e-6);

    let start = runtime.block_on(behind_all(&state));
    let options = Options {
        state: Some(state),
        config: Config {
            listen: vec!["127.0.0.1:0".parse().expect("an address")],
            history_mib: Some(load.history_mib),
            ..Config::default()
        },
        clock: Clock::new(Some(start), 1.0),
        limits: Limits::default(),
    };
    let begin = Instant::now();
    let clock = options.clock;
    let (ready, listens) = mpsc::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let service = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let told = move |urls: &[String]| ready.send(urls[0].clone()).expect("somebody listens");
        let stop = async move { drop(stopped.await) };
        runtime
            .block_on(serve(options, told, stop))
            .expect("the service runs");
    });
    let url = listens.recv().expect("the service starts");
    let address = url.strip_prefix("http://").map(str::parse);
    let address = address
        .expect("no certificate was given")
        .expect("an address");
    println!(
        "start                {:.3} s",
        begin.elapsed().as_secs_f64()
    );

    std::thread::sleep(Duration::from_secs_f64(load.warm_up));
    let driven = runtime.block_on(drive(&load, address, clock));
    report("advice", &driven.advice);
    report("new sample", &driven.samples);
    report("advice after it", &driven.advice_after);
    println!(
        "in the next answer   {} of {} new samples",
        driven.advice_after.len() - driven.unseen,
        driven.samples.len()
    );
    println!(
        "resident memory      {} MiB, load generator included",
        resident_kib() >> 10
    );
    drop(stop);
    service.join().expect("the service ends");
}

async fn open(state: &Path) -> Store {
    let store = Store::open(&state.join("advisor.db")).await;
    store.expect("a store")
}

/// Fills the store with the weeks of history of every path.
async fn fill(load: &Load, state: &Path) {
    let begin = Instant::now();
    let store = open(state).await;
    let now: Timestamp = NOW.parse().expect("a time");
    let mut samples = 0;
    for number in 0..load.paths {
        let host = host(number).parse().expect("an address");
        let mut config = PathConfig::new(format!("p{number}"), vec![host]);
        config.threshold_mbps = Some(42.0);
        config.own = true;
        config.ping.interval_s = 0;
        let path = store.put_path(&config).await.expect("a path");
        let begins = now - SignedDuration::from_hours(load.weeks * 7 * 24);
        let recording = curve(number).samples(begins, now);
        samples += recording.len();
        let write = Write::Samples {
            hop: "path".to_owned(),
            samples: recording,
            order: Order::Fill,
            now,
        };
        let group = Group {
            path: path.id,
            writes: vec![write],
        };
        store.write(&[group]).await.expect("history");
    }
    store.close().await;
    println!(
        "filled               {samples} samples in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
}

fn curve(number: u32) -> Curve {
    Curve {
        seed: u64::from(number),
        ..Curve::default()
    }
}

fn host(number: u32) -> String {
    std::net::Ipv4Addr::from(0x0a00_0001 + number).to_string()
}

/// A time after all samples, including those of an earlier run.
async fn behind_all(state: &Path) -> Timestamp {
    let store = open(state).await;
    let mut newest: Timestamp = NOW.parse().expect("a time");
    for path in store.paths().await.expect("paths") {
        for hop in path.hops {
            let (from, to) = (newest, Timestamp::MAX);
            let samples = store.samples(hop.id, from, to, 1).await.expect("samples");
            newest = samples
                .last()
                .map_or(newest, |sample| sample.time.max(newest));
        }
    }
    store.close().await;
    newest + SignedDuration::from_secs(300)
}

/// The measurements; latencies in microseconds.
#[derive(Clone, Default)]
struct Driven {
    advice: Vec<u64>,
    samples: Vec<u64>,
    /// For advice about a path whose new sample was just acknowledged.
    advice_after: Vec<u64>,
    /// Number of those answers that did not mention the sample.
    unseen: usize,
}

/// The client side of the load.
struct Driver {
    connections: Connections,
    clock: Clock,
    driven: Mutex<Driven>,
}

/// Sends requests for advice about random paths, and new samples of all paths in turn.
async fn drive(load: &Load, address: SocketAddr, clock: Clock) -> Driven {
    let driver = Arc::new(Driver {
        connections: Connections::new(address),
        clock,
        driven: Mutex::default(),
    });
    let samples_a_second = f64::from(load.paths) / load.sample_every_s;
    let begin = Instant::now();
    let requests = tokio::spawn(at_rate(begin, load.rate, load.seconds, {
        let driver = Arc::clone(&driver);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let paths = load.paths;
        move |due, _| {
            let (driver, path) = (Arc::clone(&driver), random.random_range(0..paths));
            async move { driver.ask(path, due).await }
        }
    }));
    let samples = tokio::spawn(at_rate(begin, samples_a_second, load.seconds, {
        let driver = Arc::clone(&driver);
        let paths = load.paths;
        move |due, number| {
            let driver = Arc::clone(&driver);
            async move { driver.sample(number % paths, number, due).await }
        }
    }));
    requests.await.expect("every request is answered");
    samples.await.expect("every sample is acknowledged");
    driver.driven.lock().await.clone()
}

/// Starts `work` `rate` times a second for `seconds` seconds, with its scheduled time, and waits for all of
/// it. A separate thread keeps the time, because the runtime's timer has a resolution of a millisecond.
async fn at_rate<F>(
    begin: Instant,
    rate: f64,
    seconds: f64,
    mut work: impl FnMut(Instant, u32) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = Handle::current();
    let started = tokio::task::spawn_blocking(move || {
        let mut tasks = Vec::new();
        for number in 0..(rate * seconds) as u32 {
            let due = begin + Duration::from_secs_f64(f64::from(number) / rate);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            tasks.push(runtime.spawn(work(due, number)));
        }
        tasks
    });
    for task in started.await.expect("all are started") {
        task.await.expect("it is answered");
    }
}

impl Driver {
    async fn ask(&self, path: u32, due: Instant) {
        self.connections.exchange(&advice_of(path)).await;
        self.driven.lock().await.advice.push(micros(due));
    }

    /// Sends a new sample of a path, and checks whether the path's next advice takes it into account.
    async fn sample(&self, path: u32, number: u32, due: Instant) {
        // Below the threshold, so that the reason mentions it; consecutive values differ.
        let available_mbps = 10.0 + f64::from(number % 307) / 10.0;
        let time = self.clock.now();
        let body = format!("[{{\"time\":\"{time}\",\"available_mbps\":{available_mbps:.1}}}]");
        let text = format!(
            "POST /v1/paths/p{path}/samples HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = self.connections.exchange(&text).await;
        assert!(answer.contains("\"accepted\":1"), "{answer}");
        let acknowledged = Instant::now();
        self.driven.lock().await.samples.push(micros(due));
        let answer = self.connections.exchange(&advice_of(path)).await;
        let named = answer.contains(&format!("has {available_mbps:.1} Mbit/s available"));
        let mut driven = self.driven.lock().await;
        driven.advice_after.push(micros(acknowledged));
        driven.unseen += usize::from(!named);
    }
}

fn advice_of(path: u32) -> String {
    let host = host(path);
    format!("GET /v1/advice?host={host}&bytes=16000000000 HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}

/// A pool of persistent connections.
struct Connections {
    address: SocketAddr,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
    room: tokio::sync::Semaphore,
}

impl Connections {
    fn new(address: SocketAddr) -> Connections {
        Connections {
            address,
            idle: Mutex::default(),
            room: tokio::sync::Semaphore::new(CONNECTIONS),
        }
    }

    /// Sends a request; returns the body of its answer.
    async fn exchange(&self, text: &str) -> String {
        let _permit = self.room.acquire().await.expect("it stays open");
        let idle = self.idle.lock().await.pop();
        let mut stream = match idle {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.address)
                    .await
                    .expect("a connection");
                stream.set_nodelay(true).expect("an option");
                BufReader::new(stream)
            }
        };
        stream
            .get_mut()
            .write_all(text.as_bytes())
            .await
            .expect("the service reads");
        let body = answer(&mut stream).await;
        self.idle.lock().await.push(stream);
        body
    }
}

/// Reads an answer, which must be successful.
async fn answer(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).await.expect("an answer");
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line).await.expect("a header");
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().expect("a length");
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("a body");
    String::from_utf8(body).expect("JSON is text")
}

fn report(what: &str, latencies: &[u64]) {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    // The smallest latency that this share of the requests did not exceed.
    let ms = |share: f64| {
        let rank = (share * sorted.len() as f64).ceil() as usize;
        let latency = sorted.get(rank.saturating_sub(1));
        latency.map_or(0.0, |&latency| latency as f64 * 1e-3)
    };
    println!(
        "{what:<20} {} requests; ms: p50 {:.2}, p90 {:.2}, p99 {:.2}, p99.9 {:.2}, most {:.2}",
        sorted.len(),
        ms(0.5),
        ms(0.9),
        ms(0.99),
        ms(0.999),
        ms(1.0)
    );
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok())
        .unwrap_or(0)
}
