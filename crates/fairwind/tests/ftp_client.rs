//! `fairwind get`, `put`, `ls` and `copy` as their users meet them, with a server in this process; and
//! behind a long path, which needs root.

mod gate;
mod long_path;
mod mirror;
mod names;
mod queue;
mod routes;
mod several;
mod shell;
mod sized_alone;
mod small_files;

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;

use fairwind_ftp::assembly::bind_server;
use fairwind_ftp::drs::RightSizingServer;
use fairwind_ftp::server::{Config, Extension, Server, Stop, UserConfig, hash_password};
use fairwind_testing::advisor::{Reply, TestAdvisor, advice};
use fairwind_testing::{permitted, root, wait_until};
use gate::Gate;
use names::below;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::everybody::Everybody;

/// A server for anonymous users and alice, and an empty folder for the commands.
struct Bench {
    there: TempDir,
    here: TempDir,
    host: String,
    stop: Stop,
}

impl Bench {
    fn new() -> Self {
        Self::with_server(bind_server)
    }

    fn with_server(bind: impl FnOnce(Config) -> io::Result<Server>) -> Self {
        let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            users: vec![UserConfig {
                name: "alice".into(),
                password: hash_password("secret").unwrap(),
                write: true,
                ..UserConfig::default()
            }],
            ..Config::new(there.path())
        };
        let server = bind(config).unwrap();
        let host = server.address().unwrap().to_string();
        let stop = Stop::default();
        let asked = stop.clone();
        thread::spawn(move || server.run(&asked).unwrap());
        Self {
            there,
            here,
            host,
            stop,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairwind"));
        command
            .current_dir(self.here.path())
            .env("NETRC", self.here.path().join("netrc"))
            .env_remove("FAIRWIND_FTP_PASSWORD");
        for name in ["ftp_proxy", "all_proxy"] {
            command.env_remove(name).env_remove(name.to_uppercase());
        }
        for argument in arguments {
            command.arg(argument.replace("{host}", &self.host));
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The output of a command that has to succeed.
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.says(arguments)).unwrap()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.there.path().join(name), bytes).unwrap();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.ask();
    }
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn read(folder: &TempDir, name: &str) -> Vec<u8> {
    fs::read(folder.path().join(name)).unwrap()
}

#[test]
fn a_client_that_waits_for_a_silent_server_can_be_interrupted() {
    let bench = Bench::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ftp://{}/x", silent.local_addr().unwrap());
    let mut command = bench.command(&["get", &url]);
    let client = command.stderr(Stdio::piped()).spawn().unwrap();
    // From now on it waits for the greeting.
    let _control = silent.accept().unwrap();
    kill_process(Pid::from_child(&client), Signal::INT).unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", err(&output));
}

#[test]
fn a_file_comes_and_is_told_of_in_one_line() {
    let bench = Bench::new();
    bench.write("x", &[7; 12_345]);
    let said = bench.says(&["get", "ftp://{host}/x"]);
    assert!(said.starts_with("x: 12.3 kB in "), "{said}");
    assert!(said.ends_with("; SHA-256 verified\n"), "{said}");
    assert_eq!(read(&bench.here, "x"), [7; 12_345]);
}

#[test]
fn json_is_one_object_with_an_entry_a_file() {
    let bench = Bench::new();
    bench.write("x", b"abc");
    let told = bench.json(&["get", "ftp://{host}/x", "new/", "--json"]);
    assert_eq!(told["command"], "get");
    assert_eq!((&told["files"], &told["bytes"]), (&1.into(), &3.into()));
    assert_eq!(told["verified"], 1);
    assert_eq!(told["control_changes"], 0);
    let file = &told["transfers"][0];
    assert_eq!(file["destination"], "new/x");
    assert_eq!(file["checksum"]["algorithm"], "SHA-256");
    // FIPS 180-4 for "abc".
    assert_eq!(
        file["checksum"]["value"],
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    assert_eq!(read(&bench.here, "new/x"), b"abc");
}

#[test]
fn standard_output_has_the_files_and_standard_error_the_words() {
    let bench = Bench::new();
    bench.write("x", &[7; 300_000]);
    bench.write("y", b"abc");
    let output = bench.run(&["get", "ftp://{host}/x", "ftp://{host}/y", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(output.stdout == [vec![7; 300_000], b"abc".to_vec()].concat());
    let said = err(&output);
    assert!(said.contains("2 files, 2 verified"), "{said}");

    let output = bench.run(&["get", "ftp://{host}/y", "/dev/stdout", "--json"]);
    assert_eq!(output.stdout, b"abc");
    let told: Value = serde_json::from_str(&err(&output)).unwrap();
    assert_eq!(told["verified"], 1);

    let output = bench.run(&["get", "ftp://{host}/", "-", "-r"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert_eq!(fs::read_dir(bench.here.path()).unwrap().count(), 0);
}

#[test]
fn standard_output_that_is_a_file_is_gone_on_with_where_it_is() {
    let bench = Bench::new();
    bench.write("x", b"abc");
    let path = bench.here.path().join("all");
    fs::write(&path, "before ").unwrap();
    let all = fs::File::options().append(true).open(&path).unwrap();
    let mut command = bench.command(&["get", "ftp://{host}/x", "-"]);
    assert!(command.stdout(all).status().unwrap().success());
    assert_eq!(read(&bench.here, "all"), b"before abc");
    assert_eq!(fs::read_dir(bench.here.path()).unwrap().count(), 1);
}

#[test]
fn standard_input_is_stored_in_directories_that_are_made() {
    let bench = Bench::new();
    let url = "ftp://alice:secret@{host}/new/deep/x";
    let put = |arguments: &[&str]| {
        let mut command = bench.command(arguments);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        // A command that is refused earlier reads nothing.
        let _ = child.stdin.take().unwrap().write_all(b"abc");
        child.wait_with_output().unwrap()
    };
    let output = put(&["put", "-", url]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let output = put(&["put", "-", url, "--create-dirs"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(read(&bench.there, "new/deep/x"), b"abc");
    let output = put(&["put", "-", "ftp://alice:secret@{host}/new/"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("has no name"), "{}", err(&output));
}

#[test]
fn a_name_that_cannot_be_told_makes_the_command_fail_and_the_others_are_stored() {
    let bench = Bench::new();
    let tree = bench.here.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("a\nb"), "lost").unwrap();
    fs::write(tree.join("x"), "abc").unwrap();
    let output = bench.run(&["put", "tree", "ftp://alice:secret@{host}/", "-r"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("a?b"), "{}", err(&output));
    assert_eq!(read(&bench.there, "tree/x"), b"abc");
    let output = bench.run(&["put", "tree/a\nb", "tree/x", "ftp://alice:secret@{host}/"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(read(&bench.there, "x"), b"abc");
}

/// A pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_failure_is_one_whoever_reads_the_result() {
    let bench = Bench::new();
    bench.write("x", b"abc");
    bench.write("y", b"abc");
    // A directory where the mirror has a file.
    fs::create_dir_all(bench.here.path().join("m/x")).unwrap();
    let jobs = format!("ftp://{0}/x\nftp://{0}/none\n", bench.host);
    fs::write(bench.here.path().join("queue"), jobs).unwrap();
    let (x, none, root) = ("ftp://{host}/x", "ftp://{host}/none", "ftp://{host}/");
    for arguments in [
        &["get", x, none, "new/"][..],
        &["get", x, none, "new/", "--json"],
        &["get", "--queue", "queue"],
        &["mirror", root, "m", "--dry-run"],
        &["mirror", root, "m", "--dry-run", "--json"],
        &["mirror", root, "m"],
        &["mirror", root, "m", "--json"],
        &["du", x, none],
        &["du", x, none, "--json"],
    ] {
        let mut command = bench.command(arguments);
        let output = command.stdout(closed()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(err(&output).contains("error: "), "{arguments:?}");
    }
    let mut command = bench.command(&["get", x, "new/"]);
    let output = command.stdout(closed()).output().unwrap();
    assert_eq!(
        (output.status.code(), err(&output)),
        (Some(0), String::new())
    );
}

#[test]
fn wrong_usage_is_told_without_the_passwords_in_it() {
    let bench = Bench::new();
    let url = "ftp://alice:hidden@h/x";
    let proxy = "https://bob:hidden@p:3128";
    for arguments in [
        &["ls", url, url][..],
        &["get", "--queue", "queue", url],
        &["chmod", url, url],
        &["ls", "--proxy", proxy, url],
        &["ls", &format!("--proxy={proxy}"), url],
    ] {
        let output = bench.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = err(&output);
        assert!(
            said.starts_with("error: ") && !said.contains("hidden"),
            "{said}"
        );
    }
    let output = bench.run(&["ls", url, url]);
    let said = err(&output);
    assert!(said.contains("'ftp://alice@h/x'"), "{said}");
}

#[test]
fn what_is_not_there_is_not_listed() {
    let bench = Bench::new();
    for url in ["ftp://{host}/none", "ftp://{host}/none/"] {
        let output = bench.run(&["ls", url]);
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(err(&output).contains("none"), "{}", err(&output));
    }
}

#[test]
fn passwords_come_from_the_url_netrc_or_the_environment() {
    let bench = Bench::new();
    fs::write(bench.here.path().join("x"), "abc").unwrap();
    bench.says(&["put", "x", "ftp://alice:secret@{host}/1"]);
    let output = bench.run(&["put", "x", "ftp://alice@{host}/2"]);
    assert_eq!(output.status.code(), Some(2), "nobody can be asked");
    assert!(
        err(&output).contains("FAIRWIND_FTP_PASSWORD"),
        "{}",
        err(&output)
    );
    let known = bench
        .command(&["put", "x", "ftp://alice@{host}/3"])
        .env("FAIRWIND_FTP_PASSWORD", "secret")
        .status()
        .unwrap();
    assert!(known.success());
    let netrc = "machine 127.0.0.1 login alice password secret\n";
    let path = bench.here.path().join("netrc");
    fs::write(&path, netrc).unwrap();
    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o640);
    let output = bench.run(&["put", "x", "ftp://{host}/4"]);
    assert_eq!(output.status.code(), Some(2), "others may read it");
    assert!(err(&output).contains("chmod 600"), "{}", err(&output));
    mode(0o600);
    bench.says(&["put", "x", "ftp://{host}/4"]);
    for name in ["1", "3", "4"] {
        assert_eq!(read(&bench.there, name), b"abc");
    }
}

#[test]
fn failures_and_wrong_usage_have_their_exit_codes() {
    let bench = Bench::new();
    let code = |arguments: &[&str]| bench.run(arguments).status.code();
    assert_eq!(code(&["get", "ftp://{host}/none"]), Some(1));
    assert_eq!(code(&["get", "ftp://alice:wrong@{host}/x"]), Some(1));
    assert_eq!(code(&["get", "ftp://127.0.0.1:1/x"]), Some(1));
    assert_eq!(code(&["ls", "ftp://{host}/none"]), Some(1));
    assert_eq!(
        code(&["copy", "ftp://{host}/none", "ftp://{host}/y"]),
        Some(1)
    );
    // No data connection of a copy is this host's.
    for option in [
        ["--advisor", "http://127.0.0.1:1"],
        ["--buffer", "64KiB"],
        ["--congestion-control", "reno"],
    ] {
        let copy = ["copy", "ftp://{host}/x", "ftp://{host}/y"];
        assert_eq!(code(&[&copy[..], &option].concat()), Some(2), "{option:?}");
    }
    assert_eq!(code(&["get", "http://{host}/x"]), Some(2));
    assert_eq!(code(&["get", "ftp://{host}/x%0aDELE%20y"]), Some(2));
    assert_eq!(code(&["get", "ftp://{host}/"]), Some(2));
    assert_eq!(code(&["put", "ftp://{host}/x"]), Some(2));
    assert_eq!(
        code(&["get", "ftp://{host}/x", "--buffer", "much"]),
        Some(2)
    );
    let wrong = bench.run(&["get", "ftp://alice:wrong@{host}/x"]);
    assert!(!err(&wrong).contains("wrong"), "{}", err(&wrong));
}

#[test]
fn one_failure_does_not_keep_other_files_from_coming() {
    let bench = Bench::new();
    bench.write("x", b"abc");
    let output = bench.run(&["get", "ftp://{host}/none", "ftp://{host}/x", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["files"], 1);
    assert!(
        told["failures"][0]["error"]
            .as_str()
            .unwrap()
            .contains("550"),
        "{told}"
    );
    assert_eq!(read(&bench.here, "x"), b"abc");
}

#[test]
fn a_tree_goes_there_and_is_listed_and_comes_back() {
    let bench = Bench::new();
    let tree = bench.here.path().join("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::write(tree.join("x"), "abc").unwrap();
    fs::write(tree.join("d/y"), "defg").unwrap();
    let put = [
        "put",
        "tree",
        "ftp://alice:secret@{host}/",
        "-r",
        "--parallel",
        "2",
    ];
    bench.says(&put);
    let listed = bench.json(&["ls", "ftp://{host}/tree", "--json"]);
    assert_eq!(listed[0]["name"], "d");
    assert_eq!(
        (&listed[1]["kind"], &listed[1]["bytes"]),
        (&"file".into(), &3.into())
    );
    let said = bench.says(&["ls", "ftp://{host}/tree"]);
    assert!(said.ends_with("    3  x\n"), "{said}");
    bench.says(&["get", "ftp://{host}/tree", "back", "-r"]);
    assert_eq!(read(&bench.here, "back/d/y"), b"defg");
    let again = bench.json(&["put", "tree", "ftp://alice:secret@{host}/", "-r", "--json"]);
    assert_eq!((&again["skipped"], &again["bytes"]), (&2.into(), &0.into()));
    assert!(Path::new(&bench.here.path().join("back/x")).is_file());
}

#[test]
fn an_upload_follows_its_advisor_and_tells_it_how_it_went() {
    if !permitted(root()) {
        return;
    }
    let control = |name: &str, again| {
        let changes = json!({ "congestion_control": name, "pacing_mbps": 64.0 });
        Reply::Advice(advice(again, changes))
    };
    let advisor = Arc::new(TestAdvisor::answering(vec![
        control("reno", 0.1),
        control("cubic", 0.1),
        control("cubic", 3600.0),
    ]));
    // The third question means that the second advice was followed. Until then the server reads nothing, and
    // the buffers hold only a part of the file.
    let asked = Arc::clone(&advisor);
    let gate = Gate::opened_when(move || asked.asked().len() == 3);
    let bench = Bench::with_server(|config| {
        let right_sizing = Arc::new(RightSizingServer::default());
        let extensions: Vec<Arc<dyn Extension>> = vec![right_sizing, Arc::new(gate)];
        Server::bind(config, move |_| Ok(extensions.clone()))
    });
    let bytes: Vec<u8> = (0..16_000_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(bench.here.path().join("x"), &bytes).unwrap();
    let report = bench.json(&[
        "put",
        "x",
        "ftp://alice:secret@{host}/",
        "--advisor",
        &advisor.url(),
        "--json",
    ]);
    assert!(read(&bench.there, "x") == bytes);
    let transfer = &report["transfers"][0];
    assert_eq!(transfer["congestion_control"], "cubic");
    let mbps = transfer["mbps"].as_f64().unwrap();
    assert!(mbps < 70.0, "paced at 64 Mbit/s: {mbps}");
    let changes = transfer["changes"].as_array().unwrap();
    let controls: Vec<_> = changes
        .iter()
        .filter(|change| change["what"] == "congestion control")
        .map(|change| (&change["to"], &change["reason"]))
        .collect();
    let why = json!("because the test says so");
    assert_eq!(controls, [(&json!("reno"), &why), (&json!("cubic"), &why)]);
    assert_eq!(report["control_changes"], 2);
    wait_until("the result is told", || advisor.results().len() == 1);
    let result = &advisor.results()[0];
    assert_eq!(
        (&result["direction"], &result["host"]),
        (&json!("sent"), &json!("127.0.0.1"))
    );
    // The bytes that have arrived when the last ones are in the socket.
    let arrived = result["bytes"].as_u64().unwrap();
    assert!((1_000_000..=16_000_000).contains(&arrived), "{arrived}");
}

/// What `fairwind run` says of its connections shows the congestion control of the upload.
#[test]
fn an_upload_in_the_background_has_the_congestion_control_for_that() {
    if !permitted(fairwind_cc::kernel::check_requirements()) || !permitted(root()) {
        return;
    }
    let bench = Bench::new();
    fs::write(bench.here.path().join("big"), vec![7; 1 << 20]).unwrap();
    let program = env!("CARGO_BIN_EXE_fairwind");
    let url = "ftp://alice:secret@{host}/big";
    let run = [
        "run",
        "--limit",
        "1Gbit/s",
        "--json=run.json",
        "--",
        program,
    ];
    let put = ["put", "big", url, "--background"];
    bench.says(&[&run[..], &put].concat());
    let arrived = fs::read(bench.there.path().join("big")).unwrap();
    assert_eq!(arrived.len(), 1 << 20);
    let run: Value =
        serde_json::from_slice(&fs::read(bench.here.path().join("run.json")).unwrap()).unwrap();
    let connections = run["connections"].as_array().unwrap();
    let data = connections
        .iter()
        .find(|connection| connection["bytes_sent"].as_u64() >= Some(1 << 20))
        .unwrap();
    let control = data["congestion_control"].as_str().unwrap();
    assert!(control.starts_with("fw_fairwin"), "{run}");
}

#[test]
fn without_rights_an_upload_in_the_background_says_what_would_help() {
    if !permitted(root()) {
        return;
    }
    let everybody = Everybody::new();
    let mut command = everybody.command();
    let output = command
        .args([
            "put",
            "/etc/hostname",
            "ftp://127.0.0.1:9/x",
            "--background",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("--background: not permitted to load eBPF: run as root, or with CAP_"),
        "{said}"
    );
    let allow = "sysctl -w net.ipv4.tcp_allowed_congestion_control='";
    assert!(
        said.contains(allow) && said.contains("fw_fairwind"),
        "{said}"
    );
}

#[test]
fn files_come_into_a_directory_that_may_be_written_and_not_read() {
    if !permitted(root()) {
        return;
    }
    let bench = Bench::new();
    bench.write("x", b"for all");
    bench.write("y", b"to drop");
    fs::create_dir(bench.there.path().join("tree")).unwrap();
    bench.write("tree/z", b"below");
    let everybody = Everybody::new();
    let drop_box = tempfile::tempdir().unwrap();
    fs::set_permissions(drop_box.path(), Permissions::from_mode(0o733)).unwrap();
    let url = |path: &str| format!("ftp://{}/{path}", bench.host);
    let into = drop_box.path().to_str().unwrap();
    for arguments in [
        &["get", &url("x"), into][..],
        &["get", &url("x"), &url("y"), into],
        &["get", "-r", &url("tree"), &format!("{into}/tree")],
    ] {
        let mut command = everybody.command();
        command.args(arguments).env("HOME", "/");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    }
    assert_eq!(below(drop_box.path()), ["tree/", "tree/z", "x", "y"]);
    assert_eq!(read(&drop_box, "x"), b"for all");
    assert_eq!(read(&drop_box, "y"), b"to drop");
    assert_eq!(read(&drop_box, "tree/z"), b"below");
}
