//! What `fairwind serve` may still do when root has started it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command};
use std::thread;
use std::time::Duration;

use fairwind_cc::{kernel, native};
use fairwind_ftp::server::hash_password;
use fairwind_testing::{copy_program, eventually, permitted, root, wait_until};
use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::everybody::Everybody;
use crate::serve::{Control, NOBODY, Service, fairwind, lines};
use crate::turn::turn;

/// A user id that no system assigns.
const OWNER: u32 = 54_321;

/// `CAP_NET_ADMIN`, as `/proc/PID/status` shows it.
const NET_ADMIN: &str = "0000000000001000";

/// A folder that everybody can enter.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn served(folder: &tempfile::TempDir, owner: u32) -> PathBuf {
    let dir = folder.path().join("served");
    fs::create_dir(&dir).unwrap();
    chown(&dir, Some(owner), Some(owner)).unwrap();
    dir
}

fn serve(dir: &Path, options: &[&str]) -> Service {
    let listen = [dir.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    Service::by(fairwind(&listen).args(options))
}

fn read_from(control: &mut Control, name: &str) -> Result<String, String> {
    let mut data = control.data();
    let code = control.say(&format!("RETR {name}"));
    if code != "150" {
        return Err(code);
    }
    let mut text = String::new();
    data.read_to_string(&mut text).unwrap();
    assert_eq!(control.code(), "226");
    Ok(text)
}

fn upload(control: &mut Control, name: &str, text: &str) -> String {
    let mut data = control.data();
    let code = control.say(&format!("STOR {name}"));
    if code != "150" {
        return code;
    }
    data.write_all(text.as_bytes()).unwrap();
    drop(data);
    control.code()
}

/// The line of `/proc/PID/status` that begins with `key`, for each thread.
fn of_all_threads(child: &Child, key: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let value = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        words.join(" ")
    };
    let texts =
        tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok());
    texts.map(value).collect()
}

#[test]
fn what_is_roots_alone_is_not_given_to_strangers() {
    if !permitted(root()) {
        return;
    }
    let folder = folder();
    let dir = served(&folder, 0);
    for (name, mode) in [("secret", 0o600), ("public", 0o644)] {
        fs::write(dir.join(name), name).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let service = serve(&dir, &["--user", "alice"]);
    let mut client = service.alice();
    assert_eq!(read_from(&mut client, "secret"), Err("550".into()));
    assert_eq!(client.say("HASH secret"), "550");
    assert_eq!(client.say("DELE public"), "550");
    assert_eq!(upload(&mut client, "new", "text"), "550");
    assert_eq!(read_from(&mut client, "public").unwrap(), "public");
    for uids in of_all_threads(&service.child, "Uid:") {
        assert_eq!(uids, format!("{NOBODY} {NOBODY} {NOBODY} {NOBODY}"));
    }
    for key in ["CapPrm:", "CapEff:", "CapBnd:"] {
        for set in of_all_threads(&service.child, key) {
            assert_eq!(set, NET_ADMIN, "{key}");
        }
    }
    for set in of_all_threads(&service.child, "NoNewPrivs:") {
        assert_eq!(set, "1");
    }
}

#[test]
fn no_capability_is_kept_that_transfers_do_not_need() {
    if !permitted(root()) {
        return;
    }
    let folder = folder();
    let service = serve(&served(&folder, 0), &["--no-drs"]);
    for set in of_all_threads(&service.child, "CapPrm:") {
        assert_eq!(set, "0000000000000000");
    }
}

#[test]
fn uploads_belong_to_the_owner_of_the_directory_or_whom_the_operator_names() {
    if !permitted(root()) {
        return;
    }
    let folder = folder();
    let dir = served(&folder, OWNER);
    let service = serve(&dir, &["--user", "alice"]);
    let mut client = service.alice();
    assert_eq!(upload(&mut client, "x", "text"), "226");
    assert_eq!(client.say("MKD d"), "257");
    assert_eq!(client.say("RNFR x"), "350");
    assert_eq!(client.say("RNTO d/y"), "250");
    assert_eq!(client.say("SITE CHMOD 600 d/y"), "200");
    let facts = fs::metadata(dir.join("d/y")).unwrap();
    assert_eq!(
        (facts.uid(), facts.gid(), facts.mode() & 0o777),
        (OWNER, OWNER, 0o600)
    );
    drop(service);

    let named = serve(&dir, &["--user", "alice", "--run-as", "root"]);
    assert_eq!(upload(&mut named.alice(), "z", "text"), "226");
    assert_eq!(fs::metadata(dir.join("z")).unwrap().uid(), 0);
    drop(named);

    let config = folder.path().join("ftp.toml");
    fs::write(&config, "run_as = \"54322:54323\"\n").unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let config = config.to_str().unwrap();
    let other = serve(&dir, &["--user", "alice", "--config", config]);
    assert_eq!(upload(&mut other.alice(), "o", "text"), "226");
    let facts = fs::metadata(dir.join("o")).unwrap();
    assert_eq!((facts.uid(), facts.gid()), (54_322, 54_323));
}

#[test]
fn logs_of_roots_are_written_and_rotated_after_the_rights_are_gone() {
    if !permitted(root()) {
        return;
    }
    let folder = folder();
    let dir = served(&folder, OWNER);
    let logs = folder.path().join("logs");
    fs::create_dir(&logs).unwrap();
    fs::set_permissions(&logs, fs::Permissions::from_mode(0o700)).unwrap();
    let log = logs.join("xferlog");
    let mut service = serve(
        &dir,
        &["--user", "alice", "--xferlog", log.to_str().unwrap()],
    );
    let mut client = service.alice();
    let children = format!("/proc/{0}/task/{0}/children", service.child.id());
    let keeper = fs::read_to_string(children).unwrap();
    assert_eq!(upload(&mut client, "x", "text"), "226");
    wait_until("the first is logged", || lines(&log) == 1);
    fs::rename(&log, logs.join("xferlog.1")).unwrap();
    assert_eq!(upload(&mut client, "y", "text"), "226");
    wait_until("the second is logged", || lines(&log) == 1);
    for (name, path) in [("xferlog.1", " /x "), ("xferlog", " /y ")] {
        let text = fs::read_to_string(logs.join(name)).unwrap();
        assert!(
            text.lines().count() == 1 && text.contains(path),
            "{name}: {text}"
        );
    }
    // However the server ends, nothing of it is left.
    service.child.kill().unwrap();
    service.child.wait().unwrap();
    let keeper = PathBuf::from(format!("/proc/{}", keeper.trim()));
    assert!(eventually(|| !is_running(&keeper)));
}

#[test]
fn the_configuration_is_read_again_after_the_rights_are_gone() {
    if !permitted(root()) {
        return;
    }
    // Only root can access what is in it.
    let folder = tempfile::tempdir().unwrap();
    let dir = served(&folder, OWNER);
    fs::write(dir.join("x"), "text").unwrap();
    let config = folder.path().join("ftp.toml");
    let log = folder.path().join("xferlog");
    let write = |anonymous: bool| {
        let new = folder.path().join("new.toml");
        fs::write(
            &new,
            format!("anonymous = {anonymous}\nxferlog = {log:?}\n"),
        )
        .unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        // As editors do it.
        fs::rename(new, &config).unwrap();
    };
    write(false);
    let service = serve(&dir, &["--config", config.to_str().unwrap()]);
    let mut stranger = service.connect();
    assert_eq!(stranger.say("USER anonymous"), "331");
    assert_eq!(stranger.say("PASS me@example.org"), "530");
    write(true);
    service.signal(Signal::HUP);
    service.tells("the configuration was read again");
    let mut stranger = service.connect();
    assert_eq!(stranger.say("USER anonymous"), "331");
    assert_eq!(stranger.say("PASS me@example.org"), "230");
    assert_eq!(read_from(&mut stranger, "x").unwrap(), "text");
    wait_until("it is logged", || lines(&log) == 1);
}

fn is_running(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status"));
    status.is_ok_and(|text| !text.contains("State:\tZ"))
}

#[test]
fn a_port_of_roots_is_taken_before_the_rights_are_given_up() {
    if !permitted(root()) {
        return;
    }
    let folder = folder();
    let dir = served(&folder, OWNER);
    fs::write(dir.join("x"), "text").unwrap();
    let free = (600..1_024).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let listen = format!("127.0.0.1:{}", free.unwrap());
    let mut command = fairwind(&[
        dir.to_str().unwrap(),
        "--listen",
        &listen,
        "--user",
        "alice",
    ]);
    let service = Service::by(&mut command);
    assert_eq!(read_from(&mut service.alice(), "x").unwrap(), "text");
}

#[test]
fn a_directory_that_the_server_could_not_read_is_refused_at_the_start() {
    if !permitted(root()) {
        return;
    }
    let folder = folder();
    let dir = served(&folder, 0);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    let output = fairwind(&[dir.to_str().unwrap(), "--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("nobody may not read") && said.contains("--run-as"),
        "{said}"
    );
    let service = serve(&dir, &["--run-as", "root", "--user", "alice"]);
    assert_eq!(upload(&mut service.alice(), "x", "text"), "226");
}

#[test]
fn a_user_that_does_not_exist_is_named() {
    let folder = folder();
    let dir = folder.path().to_str().unwrap();
    let output = fairwind(&[dir, "--run-as", "no-such-user"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("there is no user \"no-such-user\""), "{said}");
}

#[test]
fn without_root_the_server_stays_who_it_is() {
    if !permitted(root()) {
        return;
    }
    let folder = folder();
    let dir = served(&folder, OWNER);
    // Other users may have no access to the folder in which it was built.
    let program = folder.path().join("fairwind");
    copy_program(Path::new(env!("CARGO_BIN_EXE_fairwind")), &program);
    let log = dir.join("log");
    let start = |options: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["serve", dir.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        command.args(options).uid(OWNER).gid(OWNER);
        command
    };
    let refused = start(&["--run-as", "root"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains("only root can become somebody else"),
        "{said}"
    );
    let group = format!("{OWNER}:54323");
    let mut ignored = start(&["--run-as", &group]).spawn().unwrap();
    assert!(eventually(|| ignored.try_wait().unwrap().is_some()));
    assert_eq!(ignored.wait().unwrap().code(), Some(2));
    let options = ["--user", "alice", "--xferlog", log.to_str().unwrap()];
    let service = Service::by(&mut start(&options));
    assert_eq!(upload(&mut service.alice(), "x", "text"), "226");
    assert_eq!(fs::metadata(dir.join("x")).unwrap().uid(), OWNER);
    wait_until("it is logged", || lines(&log) == 1);
    for set in of_all_threads(&service.child, "CapPrm:") {
        assert_eq!(set, "0000000000000000");
    }
}

#[test]
fn who_comes_when_no_descriptor_is_free_is_told_after_the_rights_are_gone() {
    if !permitted(root()) {
        return;
    }
    let folder = folder();
    let dir = served(&folder, OWNER);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 20; exec \"$0\" \"$@\""]);
    limited.args([
        env!("CARGO_BIN_EXE_fairwind"),
        "serve",
        dir.to_str().unwrap(),
    ]);
    let service = Service::by(limited.args(["--listen", "127.0.0.1:0"]));
    let mut crowd = Vec::new();
    let refused = loop {
        let (next, code) = service.greeted();
        match code.as_str() {
            "220" => crowd.push(next),
            _ => break code,
        }
        assert!(crowd.len() < 20);
    };
    assert_eq!(refused, "421");
}

#[test]
fn the_configuration_is_read_again_beside_a_token_that_only_root_may_read() {
    if !permitted(root()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = served(&folder, OWNER);
    let (config, token) = (folder.path().join("ftp.toml"), folder.path().join("token"));
    fs::write(&token, "secret\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let write = |settings: &str| {
        fs::write(
            &config,
            format!("advisor = \"http://127.0.0.1:9\"\n{settings}"),
        )
        .unwrap();
    };
    write("");
    let options = [dir.to_str().unwrap(), "--listen", "127.0.0.1:0", "--config"];
    let mut command = fairwind(&options);
    command.env("FAIRWIND_ADVISOR_TOKEN_FILE", &token);
    let service = Service::by(command.arg(&config));
    for settings in ["anonymous = false\n", "allow_nocc = [\"192.0.2.0/24\"]\n"] {
        write(settings);
        service.signal(Signal::HUP);
        service.tells("the configuration was read again");
    }
}

#[test]
fn what_takes_a_restart_is_told() {
    if !permitted(root()) {
        return;
    }
    let folder = folder();
    let dir = served(&folder, OWNER);
    let config = folder.path().join("ftp.toml");
    fs::write(&config, "drs = false\n").unwrap();
    let service = serve(&dir, &["--config", config.to_str().unwrap()]);
    fs::write(
        &config,
        "run_as = \"54322:54323\"\npassive_ports = [900, 950]\nadvisor = \"http://192.0.2.1:8649\"\n",
    )
    .unwrap();
    service.signal(Signal::HUP);
    for key in ["run_as", "passive_ports", "drs", "advisor"] {
        service.tells(&format!("{key}: "));
    }
    service.tells("the configuration was read again");
    // A configuration that requires no more rights causes no warning.
    fs::write(&config, "drs = false\npassive_ports = [50000, 50100]\n").unwrap();
    service.signal(Signal::HUP);
    let line = service.log.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(line.contains("the configuration was read again"), "{line}");
}

#[test]
fn the_group_that_the_operator_names_is_taken_by_root_too() {
    if !permitted(root()) {
        return;
    }
    let folder = folder();
    let dir = served(&folder, OWNER);
    fs::write(dir.join("secret"), "of the owner").unwrap();
    fs::set_permissions(dir.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    chown(dir.join("secret"), Some(OWNER), Some(OWNER)).unwrap();
    let service = serve(&dir, &["--user", "alice", "--run-as", "root:54323"]);
    let mut client = service.alice();
    assert_eq!(upload(&mut client, "x", "text"), "226");
    let facts = fs::metadata(dir.join("x")).unwrap();
    assert_eq!((facts.uid(), facts.gid()), (0, 54_323));
    assert_eq!(read_from(&mut client, "secret").unwrap(), "of the owner");
}

#[test]
fn a_link_is_renamed_as_a_file_is() {
    if !permitted(root()) {
        return;
    }
    let folder = folder();
    let dir = served(&folder, OWNER);
    fs::write(dir.join("x"), "text").unwrap();
    std::os::unix::fs::symlink("x", dir.join("link")).unwrap();
    let service = serve(&dir, &["--user", "alice"]);
    let mut client = service.alice();
    assert_eq!(client.say("RNFR link"), "350");
    assert_eq!(client.say("RNTO other"), "250");
    assert_eq!(read_from(&mut client, "other").unwrap(), "text");
}

/// An advisor that advises everybody to use this congestion control; returns its URL.
fn advising(control: &str) -> String {
    let advice = json!({
        "mode": "congestion-control", "congestion_control": control, "available_mbps": null,
        "interval_mbps": null, "rtt_ms": null, "send_buffer_bytes": null,
        "receive_buffer_bytes": null, "pacing_mbps": null, "threshold_mbps": null,
        "next_advice": "2026-03-02T14:05:00Z", "model": "linear", "days_used": 63,
        "r_squared": 0.5, "reason": "because the test says so", "path": "test",
        "ask_again_after_s": 3600.0,
    })
    .to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
            head.find(String::is_empty);
            let length = advice.len();
            // The server may be gone.
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{advice}"
            );
        }
    });
    url
}

/// The first event of this kind in the journal of a server that follows advice while it sends `huge`.
fn event(service: &Service, journal: &Path, kind: &str) -> Value {
    let mut client = service.alice();
    let _unread = client.data();
    assert_eq!(client.say("RETR huge"), "150");
    let mut found = None;
    wait_until(kind, || {
        let text = fs::read_to_string(journal).unwrap();
        let mut events = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        found = events.find(|event: &Value| event["event"] == kind);
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_control_that_only_root_may_use_is_used_after_the_rights_are_gone() {
    if !permitted(root()) || !permitted(kernel::check_requirements()) {
        return;
    }
    let _turn = turn();
    let control = format!("fts{:x}_reno", process::id());
    let reno = native::find("reno").unwrap();
    let _loaded = kernel::load_as(&reno.default_parameters(), &control).unwrap();
    let (folder, url) = (folder(), advising(&control));
    let dir = served(&folder, OWNER);
    let huge = File::create(dir.join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    huge.set_permissions(fs::Permissions::from_mode(0o644))
        .unwrap();
    let journal = folder.path().join("journal");
    let options = ["--user", "alice", "--advisor", &url, "--advice-log"];

    let mut command = fairwind(&[dir.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    let service = Service::by(command.args(options).arg(&journal));
    let change = event(&service, &journal, "change");
    assert_eq!(
        (&change["what"], &change["to"]),
        (&json!("congestion_control"), &json!(control))
    );
    for uids in of_all_threads(&service.child, "Uid:") {
        assert_eq!(uids, format!("{OWNER} {OWNER} {OWNER} {OWNER}"));
    }

    // Somebody who never had root's rights may not use it.
    let others = folder.path().join("others");
    File::create(&others).unwrap();
    chown(&others, Some(NOBODY), Some(NOBODY)).unwrap();
    let everybody = Everybody::new();
    let mut command = everybody.command();
    command.args(["serve", dir.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    let service = Service::by(command.args(options).arg(&others));
    let refused = event(&service, &others, "refused");
    assert_eq!(refused["wanted"], control);
    assert_eq!(
        refused["reason"],
        "this program may not take it (CAP_NET_ADMIN)"
    );
}

/// Checks that the kernel has Landlock, as far as the server needs it.
fn landlock() -> Result<(), &'static str> {
    let least = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V2));
    least.map(drop).map_err(|_| "this kernel has no Landlock")
}

/// The server has the directory open, and its files are everybody's or the owner's: nothing but Landlock
/// protects them.
#[test]
fn a_home_that_is_moved_out_of_the_directory_is_out_of_reach() {
    if !permitted(root()) || !permitted(landlock()) {
        return;
    }
    let folder = folder();
    let dir = served(&folder, OWNER);
    let (home, outside) = (dir.join("home"), folder.path().join("outside"));
    fs::create_dir(&home).unwrap();
    chown(&home, Some(OWNER), Some(OWNER)).unwrap();
    fs::write(home.join("x"), "text").unwrap();
    chown(home.join("x"), Some(OWNER), Some(OWNER)).unwrap();
    let config = folder.path().join("ftp.toml");
    let hash = hash_password("secret").unwrap();
    let alice = "[[user]]\nname = \"alice\"\nhome = \"home\"\nwrite = true\n";
    fs::write(&config, format!("{alice}password = \"{hash}\"\n")).unwrap();
    let service = serve(&dir, &["--config", config.to_str().unwrap()]);
    let mut client = service.alice();
    assert_eq!(read_from(&mut client, "x").unwrap(), "text");
    fs::rename(&home, &outside).unwrap();
    assert_eq!(read_from(&mut client, "x"), Err("550".into()));
    assert_eq!(upload(&mut client, "new", "text"), "550");
    assert_eq!(client.say("DELE x"), "550");
    fs::rename(&outside, &home).unwrap();
    assert_eq!(read_from(&mut client, "x").unwrap(), "text");
}
