//! Third-party clients: lftp, rclone, curl and Python's ftplib. `scripts/setup test` installs them.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{Running, eventually, noise, own_address, permitted};

pub(crate) fn have(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    permitted(program, found.is_ok_and(|status| status.success()))
}

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}

fn curl(server: &Running, path: &str) -> Command {
    let mut command = Command::new("curl");
    command.args([
        "--silent",
        "--show-error",
        "--max-time",
        "30",
        "--user",
        "alice:secret",
    ]);
    command.arg(format!("ftp://{}/{path}", server.address));
    command
}

fn lftp(server: &Running, dir: &Path, commands: &str) -> Output {
    let settings =
        "set net:timeout 20; set net:max-retries 1; set cmd:fail-exit yes; set xfer:log no";
    let open = format!("open -u alice,secret ftp://{}", server.address);
    let mut command = Command::new("lftp");
    command
        .current_dir(dir)
        .env("HOME", dir)
        // lftp does not handle non-ASCII names in the C locale.
        .env("LC_ALL", "C.UTF-8")
        .args(["--norc", "-c"]);
    run(command.arg(format!("{settings}; {open}; {commands}; bye")))
}

#[test]
fn curl_moves_files_both_ways_passive_and_active() {
    if !have("curl") {
        return;
    }
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let content = noise(2_000_000);
    std::fs::write(here.path().join("x"), &content).unwrap();
    let up = |path: &str| {
        let mut command = curl(&server, path);
        command
            .current_dir(here.path())
            .args(["--upload-file", "x"]);
        command
    };
    run(&mut up("x"));
    run(up("dir/sub/y").arg("--ftp-create-dirs"));
    run(up("z").args(["--ftp-port", "-"]));
    assert_eq!(server.read("x"), content);
    assert_eq!(server.read("dir/sub/y"), content);
    assert_eq!(server.read("z"), content);
    assert_eq!(run(&mut curl(&server, "x")).stdout, content);
    assert_eq!(
        run(curl(&server, "x").args(["--ftp-port", "-"])).stdout,
        content
    );
    assert_eq!(
        run(curl(&server, "x").arg("--disable-epsv")).stdout,
        content
    );
    assert_eq!(
        run(curl(&server, "x").args(["--range", "10-19"])).stdout,
        content[10..20]
    );
    assert_eq!(
        run(curl(&server, "").arg("--list-only")).stdout,
        b"dir\nx\nz\n"
    );
    let head = String::from_utf8(run(curl(&server, "x").arg("--head")).stdout).unwrap();
    assert!(head.contains("Content-Length: 2000000"), "{head}");
}

#[test]
fn curl_killed_while_it_sends_resumes_to_an_identical_file() {
    if !have("curl") {
        return;
    }
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let content = noise(3_000_000);
    std::fs::write(here.path().join("x"), &content).unwrap();
    let upload = |more: &[&str]| {
        let mut command = curl(&server, "x");
        command
            .current_dir(here.path())
            .args(["--upload-file", "x"])
            .args(more);
        command
    };
    let mut sending = upload(&["--limit-rate", "400K"]).spawn().unwrap();
    eventually("something has come", || {
        std::fs::metadata(server.path(".x.fairwind-part")).is_ok_and(|facts| facts.len() > 200_000)
    });
    // With SIGKILL.
    sending.kill().unwrap();
    sending.wait().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!server.path("x").exists());
    run(&mut upload(&["--continue-at", "-"]));
    assert!(server.read("x") == content);
}

#[test]
fn lftp_mirrors_resumes_and_lists() {
    if !have("lftp") {
        return;
    }
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let content = noise(1_500_000);
    std::fs::create_dir_all(here.path().join("up/sub")).unwrap();
    std::fs::write(here.path().join("up/a b"), &content).unwrap();
    std::fs::write(here.path().join("up/sub/ü"), "umlaut").unwrap();
    lftp(&server, here.path(), "mirror --reverse up copy");
    assert_eq!(server.read("copy/a b"), content);
    assert_eq!(server.read("copy/sub/ü"), b"umlaut");
    lftp(&server, here.path(), "mirror --parallel=4 copy down");
    assert_eq!(
        std::fs::read(here.path().join("down/a b")).unwrap(),
        content
    );
    // A partial upload that broke off.
    std::fs::write(server.path(".r.fairwind-part"), &content[..700_000]).unwrap();
    lftp(&server, here.path(), "put -c 'up/a b' -o r");
    assert!(server.read("r") == content);
    std::fs::write(here.path().join("g"), &content[..300_000]).unwrap();
    lftp(&server, here.path(), "get -c 'copy/a b' -o g");
    assert!(std::fs::read(here.path().join("g")).unwrap() == content);
    let listed = lftp(&server, here.path(), "cls -1 copy");
    assert_eq!(
        String::from_utf8_lossy(&listed.stdout),
        "copy/a b\ncopy/sub/\n"
    );
    lftp(&server, here.path(), "pget -n 3 'copy/a b' -o p");
    assert!(std::fs::read(here.path().join("p")).unwrap() == content);
    lftp(&server, here.path(), "rm -r copy");
    assert!(!server.path("copy").exists());
}

#[test]
fn lftp_mirrors_more_files_than_there_are_ports() {
    if !have("lftp") {
        return;
    }
    let server = Running::with(|config| {
        config.listen.set_ip(own_address());
        config.passive_ports = Some(50_000..=50_030);
    });
    let names: Vec<String> = (0..150).map(|number| format!("tree/{number}")).collect();
    std::fs::create_dir(server.path("tree")).unwrap();
    for name in &names {
        server.write(name, name);
    }
    let here = tempfile::tempdir().unwrap();
    lftp(&server, here.path(), "mirror --parallel=4 tree tree");
    for name in &names {
        let copy = std::fs::read_to_string(here.path().join(name)).unwrap();
        assert_eq!(&copy, name);
    }
}

#[test]
fn rclone_copies_syncs_and_moves_to_directories_that_are_not_there_yet() {
    if !have("rclone") {
        return;
    }
    let server = Running::start();
    let here = tempfile::tempdir().unwrap();
    let rclone = |arguments: &[&str]| {
        let mut command = Command::new("rclone");
        command
            .current_dir(here.path())
            .env("HOME", here.path())
            .arg("--retries=1");
        run(command.args(arguments)).stdout
    };
    let password = String::from_utf8(rclone(&["obscure", "secret"])).unwrap();
    let (host, port) = (server.address.ip(), server.address.port());
    let remote = format!(
        ":ftp,host={host},port={port},user=alice,pass={}:",
        password.trim()
    );
    let at = |path: &str| format!("{remote}{path}");
    let content = noise(1_500_000);
    std::fs::create_dir_all(here.path().join("up/sub")).unwrap();
    std::fs::write(here.path().join("up/a b"), &content).unwrap();
    std::fs::write(here.path().join("up/sub/ü"), "umlaut").unwrap();
    rclone(&["copy", "up", &at("new/copy")]);
    assert!(server.read("new/copy/a b") == content);
    assert_eq!(server.read("new/copy/sub/ü"), b"umlaut");
    rclone(&["check", "--download", "up", &at("new/copy")]);
    std::fs::remove_file(here.path().join("up/sub/ü")).unwrap();
    std::fs::write(here.path().join("up/more"), "more").unwrap();
    rclone(&["sync", "up", &at("new/copy")]);
    assert_eq!(server.read("new/copy/more"), b"more");
    assert!(!server.path("new/copy/sub/ü").exists());
    rclone(&["move", &at("new/copy"), &at("moved/there")]);
    assert!(server.read("moved/there/a b") == content);
    assert!(!server.path("new/copy/a b").exists());
    rclone(&["move", &at("moved/there"), "down"]);
    assert!(std::fs::read(here.path().join("down/a b")).unwrap() == content);
    rclone(&["move", "down", &at("up/again")]);
    assert!(server.read("up/again/a b") == content);
    assert_eq!(rclone(&["lsf", &at("up/again")]), b"a b\nmore\n");
}

#[test]
fn ftplib_does_all_that_it_can() {
    if !have("python3") {
        return;
    }
    let server = Running::start();
    let script = r#"
import ftplib, io, sys
ftp = ftplib.FTP()
ftp.connect(sys.argv[1], int(sys.argv[2]), timeout=20)
ftp.login("alice", "secret")
body = bytes(range(256)) * 2000
ftp.storbinary("STOR x", io.BytesIO(body))
got = io.BytesIO()
ftp.retrbinary("RETR x", got.write)
assert got.getvalue() == body
got = io.BytesIO()
ftp.retrbinary("RETR x", got.write, rest=1000)
assert got.getvalue() == body[1000:]
ftp.set_pasv(False)
got = io.BytesIO()
ftp.retrbinary("RETR x", got.write)
assert got.getvalue() == body
ftp.set_pasv(True)
ftp.storlines("STOR t", io.BytesIO(b"one\ntwo\n"))
lines = []
ftp.retrlines("RETR t", lines.append)
assert lines == ["one", "two"], lines
assert ftp.mkd("d") == "/d"
ftp.cwd("d")
assert ftp.pwd() == "/d"
ftp.cwd("..")
ftp.rename("t", "d/t")
assert ftp.nlst() == ["d", "x"], ftp.nlst()
facts = dict(ftp.mlsd(facts=["type", "size"]))
assert facts["x"] == {"type": "file", "size": "512000"}, facts
assert facts["d"]["type"] == "dir", facts
ftp.voidcmd("TYPE I")
assert ftp.size("x") == 512000
try:
    ftp.delete("none")
    raise SystemExit("deleted nothing")
except ftplib.error_perm as error:
    assert str(error).startswith("550"), error
connection = ftp.transfercmd("RETR x")
connection.recv(10)
connection.close()
try:
    ftp.voidresp()
except ftplib.error_temp:
    pass
ftp.delete("d/t")
ftp.rmd("d")
ftp.quit()
"#;
    let mut command = Command::new("python3");
    command.args([
        "-c",
        script,
        &server.address.ip().to_string(),
        &server.address.port().to_string(),
    ]);
    run(&mut command);
}
