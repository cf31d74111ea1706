//! A service for tests.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod process;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use fairwind_advice_client::Client;
use fairwind_advisor::http::Limits;
use fairwind_advisor::run::{Options, serve};
use fairwind_advisor::{Clock, Config};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// The start of the tests' clock.
pub(crate) const START: &str = "2026-03-02T14:00:00Z";

/// A service in a thread of this process, which ends when this is dropped.
pub(crate) struct Running {
    pub url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Kept until the service has ended.
    _state: tempfile::TempDir,
}

impl Running {
    pub(crate) fn start() -> Running {
        Running::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Running {
        let state = tempfile::tempdir().unwrap();
        let mut options = options(state.path());
        change(&mut options);
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, listens) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            let stop = async move { drop(stopped.await) };
            let told = move |urls: &[String]| ready.send(urls[0].clone()).unwrap();
            runtime.block_on(serve(options, told, stop)).unwrap();
        });
        Running {
            url: listens.recv_timeout(Duration::from_secs(30)).unwrap(),
            stop: Some(stop),
            thread: Some(thread),
            _state: state,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url)
            .unwrap()
            .with_deadline(Duration::from_secs(30))
    }

    /// Declares a path to these hosts, with the fields in `more`.
    pub(crate) fn put_path(&self, name: &str, hosts: &[&str], more: Value) {
        let mut config = json!({"hosts": hosts, "ping": {"interval_s": 0}});
        config
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let _: Value = self
            .client()
            .put(&format!("/v1/paths/{name}"), &config)
            .unwrap();
    }

    /// The text of `/metrics`.
    pub(crate) fn metrics(&self) -> String {
        let text = curl(&[&format!("{}/metrics", self.url)]);
        assert!(text.ends_with("# EOF\n"), "{text}");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            assert!(std::thread::panicking(), "the service has failed");
        }
    }
}

/// Options of a service in this directory, on a free port, with its clock at [`START`].
pub(crate) fn options(state: &Path) -> Options {
    Options {
        state: Some(PathBuf::from(state)),
        config: Config {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            ..Config::default()
        },
        clock: Clock::new(Some(START.parse().unwrap()), 1.0),
        limits: Limits::default(),
    }
}

/// The standard output of a program, which must succeed.
pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The output of curl.
pub(crate) fn curl(arguments: &[&str]) -> String {
    let mut all = vec!["-sS", "--noproxy", "*", "--max-time", "30"];
    all.extend(arguments);
    output("curl", &all)
}

/// The output of a Python program.
pub(crate) fn python(program: &str, url: &str) -> String {
    output("python3", &["-c", program, url])
}
