//! Patterns in LIST and NLST, and names that contain line ends.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use fairwind_testing::or_skip;

use crate::common::{Client, Running, noise};

fn served() -> Running {
    let server = Running::start();
    for directory in ["pub", "pub/deep"] {
        std::fs::create_dir(server.path(directory)).unwrap();
    }
    for name in [
        "a.txt",
        "b.txt",
        "c.dat",
        ".d.txt",
        "pub/e.txt",
        "pub/deep/f.txt",
    ] {
        server.write(name, name);
    }
    server
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn patterns_are_names_of_what_they_mean() {
    let server = served();
    let mut client = Client::anonymous(&server);
    assert_eq!(text(client.fetch("NLST *.txt")), "a.txt\r\nb.txt\r\n");
    assert_eq!(
        text(client.fetch("NLST -a [!a]*.txt")),
        ".d.txt\r\nb.txt\r\n"
    );
    assert_eq!(text(client.fetch("NLST /pub/?.txt")), "/pub/e.txt\r\n");
    assert_eq!(text(client.fetch("NLST */*/f*")), "pub/deep/f.txt\r\n");
    let long = text(client.fetch("LIST -la p*"));
    assert!(
        long.starts_with('d') && long.ends_with(" pub\r\n"),
        "{long}"
    );
    let status = client.expect("STAT *.dat", 213);
    assert!(status.lines[1].ends_with(b" c.dat"), "{status}");
    client.passive();
    client.expect("NLST *.nothing", 550);
    client.passive();
    client.expect("MLSD p*", 550);
    client.passive();
    let many = "*/".repeat(100);
    assert_eq!(
        client.expect(&format!("NLST {many}"), 550).text(),
        "Pattern too complex"
    );
}

#[test]
fn what_is_there_by_name_is_no_pattern() {
    let server = served();
    server.write("[ab].txt", "");
    server.write("*", "");
    let mut client = Client::anonymous(&server);
    assert_eq!(text(client.fetch("NLST [ab].txt")), "[ab].txt\r\n");
    assert_eq!(text(client.fetch("NLST *")), "*\r\n");
    assert_eq!(text(client.fetch("NLST \\[ab].t*")), "[ab].txt\r\n");
}

#[test]
fn patterns_do_not_leave_the_root() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "").unwrap();
    let server = served();
    std::os::unix::fs::symlink(outside.path(), server.path("out")).unwrap();
    let mut client = Client::anonymous(&server);
    for pattern in ["o*/*", "out/*", "../../../../*/passwd", "/etc/pass*"] {
        client.passive();
        client.expect(&format!("NLST {pattern}"), 550);
    }
}

#[test]
fn a_line_end_in_a_name_forges_no_entry_and_the_name_is_not_passed_over_in_silence() {
    let server = Running::start();
    server.write("a\r\ntype=file;size=9; forged", "");
    server.write("b\n-rw-r--r--   1 ftp ftp 9 Mar  2 14:00 forged", "");
    server.write("c", "");
    let mut client = Client::anonymous(&server);
    for command in ["MLSD", "NLST", "NLST *", "LIST", "LIST *"] {
        let mut data = client.passive();
        client.expect(command, 150);
        let mut listed = String::new();
        std::io::Read::read_to_string(&mut data, &mut listed).unwrap();
        let forged = listed.lines().filter(|line| line.ends_with(" forged"));
        let long = command.starts_with("LIST");
        // LIST shows the names on one line each, with question marks for the line ends.
        assert_eq!(
            forged.count(),
            if long { 2 } else { 0 },
            "{command}: {listed}"
        );
        assert!(long || listed.contains("c\r\n"));
        let told = client.reply().text();
        assert_eq!(
            told.contains("2 names with a line end were left out"),
            !long,
            "{told}"
        );
    }
}

/// Runs one of Debian's clients with the input of an interactive user; `None` if it is not installed.
fn typed(program: &str, arguments: &[&str], directory: &Path, lines: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let spawned = pipes.stderr(Stdio::piped()).spawn();
    let mut child = or_skip(spawned.map_err(|error| format!("{program}: {error}")))?;
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    Some(format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

fn mget_takes_what_a_pattern_means(program: &str, options: &[&str]) {
    let server = served();
    server.write("large.txt", noise(300_000));
    let here = tempfile::tempdir().unwrap();
    let port = server.address.port().to_string();
    let arguments = [options, &["127.0.0.1", &port]].concat();
    let lines = "user anonymous me@example.org\nbinary\nmget *.txt\ncd pub\nmget ?.txt\nquit\n";
    let Some(said) = typed(program, &arguments, here.path(), lines) else {
        return;
    };
    for name in ["a.txt", "b.txt", "large.txt"] {
        let got = std::fs::read(here.path().join(name));
        assert!(
            got.is_ok_and(|got| got == server.read(name)),
            "{name}: {said}"
        );
    }
    let got = std::fs::read(here.path().join("e.txt"));
    assert!(got.is_ok_and(|got| got == b"pub/e.txt"), "{said}");
    assert!(!here.path().join("c.dat").exists());
}

#[test]
fn mget_of_tnftp_takes_what_a_pattern_means() {
    mget_takes_what_a_pattern_means("tnftp", &["-n", "-i"]);
}

#[test]
fn mget_of_inetutils_takes_what_a_pattern_means() {
    mget_takes_what_a_pattern_means("inetutils-ftp", &["-n", "-i", "-p"]);
}

#[test]
fn ncftpget_takes_what_a_pattern_means() {
    let server = served();
    let here = tempfile::tempdir().unwrap();
    let port = server.address.port().to_string();
    let arguments = ["-P", &port, "127.0.0.1", ".", "/*.txt", "/pub/?.txt"];
    let Some(said) = typed("ncftpget", &arguments, here.path(), "") else {
        return;
    };
    for name in ["a.txt", "b.txt", "e.txt"] {
        assert!(here.path().join(name).exists(), "{name}: {said}");
    }
}
