//! ProFTPD's module with the advisor as its users start it, and with what only root may do.

use std::fs;
use std::path::Path;
use std::process::{self, Child, Command};

use fairwind_cc::{kernel, native};
use fairwind_testing::advisor::{Reply, TestAdvisor, advice};
use fairwind_testing::{Proftpd, ProftpdFolder, or_skip, permitted, root, wait_until};
use serde_json::json;

use crate::advisor::Service;
use crate::turn::turn;

/// Bytes that a slow download has not read when a test looks at it.
const LARGE: usize = 60_000_000;
/// `CAP_NET_ADMIN` alone, as `/proc/PID/status` shows it.
const NET_ADMIN: &str = "0000000000001000";

/// A client that reads slowly, killed when it is dropped.
struct Download(Child);

impl Download {
    fn start(server: &Proftpd) -> Self {
        let mut command = Command::new("curl");
        command.args(["--silent", "--limit-rate", "4M", "--output", "/dev/null"]);
        command.arg(format!("ftp://alice:secret@{}/x", server.address));
        Self(command.spawn().unwrap())
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A congestion control that anybody may take, and is not the default.
fn other_control() -> Result<String, String> {
    let words = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/{name}");
        fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    };
    let default = words("tcp_congestion_control")?;
    let allowed = words("tcp_allowed_congestion_control")?;
    let mut others = allowed
        .split_whitespace()
        .filter(|name| *name != default.trim());
    let other = others.next().map(str::to_owned);
    other.ok_or("there is no second congestion control".into())
}

fn advisor(state: &Path, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairwind"));
    command.arg("advisor").args(arguments);
    let status = command.env("STATE_DIRECTORY", state).status().unwrap();
    assert!(status.success());
}

/// The path is declared for the background and then removed, while the download runs; the advisor wants a token.
#[test]
fn a_download_follows_the_advisor_and_its_operator() {
    let Some((folder, other)) = or_skip(ProftpdFolder::new()).zip(or_skip(other_control())) else {
        return;
    };
    let state = tempfile::tempdir().unwrap();
    let config = state.path().join("advisor.toml");
    let text = format!(
        "[[path]]\nname = \"here\"\nhosts = [\"127.0.0.0/8\"]\nmode = \"background\"\n\
         controls = {{ background = \"{other}\" }}\nshortest_interval_s = 1\nlongest_interval_s = 1\n"
    );
    fs::write(&config, text).unwrap();
    let tokens = state.path().join("tokens");
    let token = state.path().join("token");
    let [tokens, token, config] = [&tokens, &token, &config].map(|path| path.to_str().unwrap());
    advisor(state.path(), &["token", tokens, "--read", "--into", token]);
    let service = Service::by(
        state.path(),
        state.path(),
        &["--config", config, "--tokens", tokens],
    );
    folder.serve("x", &vec![7; LARGE]);
    let url = service.url();
    let server = folder.start(&format!(
        "FairwindEngine on\nFairwindAdvisor {url}\nFairwindTokenFile {token}\nFairwindTimeout 5000"
    ));
    let _download = Download::start(&server);
    let log = || folder.text("fairwind.log");
    wait_until("in the background", || {
        log().contains(&format!(
            " -> {other}: background: the path's transfers take only"
        ))
    });
    advisor(state.path(), &["paths", "remove", "here"]);
    wait_until("as by default", || {
        log().contains(&format!("congestion control {other} -> "))
    });
    drop((server, _download));

    // Without the token there is no advice.
    let server = folder.start(&format!("FairwindEngine on\nFairwindAdvisor {url}"));
    let _download = Download::start(&server);
    wait_until("lost", || {
        log().contains("transfers continue with the kernel's defaults: it answers with status 401")
    });
}

/// The value of a line of `/proc/PID/status`.
fn status(id: &str, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    words.join(" ")
}

/// The process that wrote the last line of the module's log.
fn session(log: &str) -> String {
    let line = log.lines().last().unwrap();
    let (_, rest) = line.split_once("mod_fairwind/").unwrap();
    let (_, rest) = rest.split_once('[').unwrap();
    rest.split_once(']').unwrap().0.to_owned()
}

#[test]
fn a_control_that_only_root_may_use_needs_a_right_that_is_kept_alone() {
    if !permitted(root()) || !permitted(kernel::check_requirements()) {
        return;
    }
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let _turn = turn();
    let control = format!("ftp{:x}_reno", process::id());
    let reno = native::find("reno").unwrap();
    let _loaded = kernel::load_as(&reno.default_parameters(), &control).unwrap();
    let advice = advice(3600.0, json!({ "congestion_control": control }));
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice)]);
    folder.serve("x", &vec![7; LARGE]);
    let taken = format!(" -> {control}: because the test says so\n");
    let refused = format!(
        "congestion control {control} is advised and refused: this process may not take it;"
    );
    let not_kept = "CAP_NET_ADMIN is not there to be kept: KeepNetAdmin needs";
    for (lines, expected) in [
        ("", vec![refused.as_str()]),
        ("RootRevoke off", vec![&refused]),
        ("FairwindOptions KeepNetAdmin", vec![not_kept, &refused]),
        (
            "CapabilitiesEngine off\nFairwindOptions KeepNetAdmin",
            vec![&taken],
        ),
        ("CapabilitiesEngine off\nRootRevoke off", vec![&taken]),
    ] {
        let _ = fs::remove_file(folder.path("fairwind.log"));
        let server = folder.start(&format!(
            "FairwindEngine on\nFairwindAdvisor {}\nFairwindTimeout 5000\n{lines}",
            advisor.url()
        ));
        let _download = Download::start(&server);
        let log = || folder.text("fairwind.log");
        wait_until(lines, || log().lines().count() == expected.len());
        for part in expected {
            assert!(log().contains(part), "{lines}: {}", log());
        }
        if lines.contains("KeepNetAdmin") && lines.contains("off") {
            let id = session(&log());
            assert_eq!(status(&id, "Uid:"), "65534 65534 65534 65534");
            assert_eq!(status(&id, "CapPrm:"), NET_ADMIN);
            assert_eq!(status(&id, "CapEff:"), "0000000000000000");
        }
    }
}
