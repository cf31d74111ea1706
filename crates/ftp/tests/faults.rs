//! A killed server, a full disk, a crowd of sessions.

use std::fs;
use std::io::{Read, Write};

use crate::common::{Client, Process, data, eventually, noise, permitted};
use fairwind_ftp::protocol::host_port::parse_passive_reply;

fn alice(server: &Process) -> Client {
    let mut client = Client::connect(server.address);
    client.login("alice", "secret");
    client
}

#[test]
fn a_server_killed_while_it_receives_has_an_identical_file_after_resuming() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(4_000_000);
    let mut server = Process::start(dir.path());
    let mut client = alice(&server);
    let mut upload = client.passive();
    client.expect("STOR x", 150);
    upload.write_all(&content[..2_500_000]).unwrap();
    eventually("something is there", || {
        fs::metadata(dir.path().join(".x.fairwind-part")).is_ok_and(|facts| facts.len() > 1_000_000)
    });
    server.kill();
    assert!(!dir.path().join("x").exists());

    let server = Process::start(dir.path());
    let mut client = alice(&server);
    let size: usize = client.expect("SIZE x", 213).text().parse().unwrap();
    assert!(size > 1_000_000 && size <= 2_500_000);
    client.expect(&format!("REST {size}"), 350);
    assert_eq!(client.give("STOR x", &content[size..]).code, 226);
    assert!(fs::read(dir.path().join("x")).unwrap() == content);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_server_killed_while_it_sends_is_resumed_where_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(40_000_000);
    fs::write(dir.path().join("x"), &content).unwrap();
    let mut server = Process::start(dir.path());
    let mut client = alice(&server);
    let mut download = client.passive();
    client.expect("RETR x", 150);
    let mut got = vec![0; 1_000_000];
    download.read_exact(&mut got).unwrap();
    server.kill();
    // Data already in flight still arrives, in order.
    let _ = download.read_to_end(&mut got);
    assert!(got.len() < content.len(), "the transfer was cut");

    let server = Process::start(dir.path());
    let mut client = alice(&server);
    client.expect(&format!("REST {}", got.len()), 350);
    got.extend(client.fetch("RETR x"));
    assert!(got == content);
}

#[test]
fn a_full_disk_interrupts_the_upload_and_not_the_session() {
    let root = rustix::process::geteuid().is_root();
    if !permitted("root, for a small file system", root) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Process::start_in_small_room(dir.path(), "1m");
    let mut client = alice(&server);
    client.expect("ALLO 2000000", 452);
    assert_eq!(client.give("STOR filler", &noise(500_000)).code, 226);
    let content = noise(800_000);
    let mut upload = client.passive();
    client.expect("STOR x", 150);
    // The server closes the data connection when the disk is full.
    let _ = upload.write_all(&content);
    drop(upload);
    assert_eq!(client.reply().code, 452);
    assert_eq!(client.fetch("RETR filler"), noise(500_000));

    // Once there is space again, the upload resumes where it ended.
    client.expect("DELE filler", 250);
    let size: usize = client.expect("SIZE x", 213).text().parse().unwrap();
    assert!((1..=600_000).contains(&size), "{size}");
    client.expect(&format!("REST {size}"), 350);
    assert_eq!(client.give("STOR x", &content[size..]).code, 226);
    assert!(client.fetch("RETR x") == content);

    // An upload that would replace a file cannot be resumed: its partial file is deleted.
    let mut upload = client.passive();
    client.expect("STOR x", 150);
    let _ = upload.write_all(&noise(8_000_000));
    drop(upload);
    assert_eq!(client.reply().code, 452);
    assert!(client.fetch("RETR x") == content);
    assert_eq!(client.give("STOR y", b"abc").code, 226);
    assert_eq!(client.fetch("NLST -a"), b"x\r\ny\r\n");
}

#[test]
fn a_thousand_idle_sessions_take_less_than_100_mib() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if !permitted(
        "room for 3,000 descriptors",
        limit.maximum.is_none_or(|most| most >= 3_000),
    ) {
        return;
    }
    fairwind_kernel::raise_descriptor_limit();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x"), "abc").unwrap();
    let server = Process::start(dir.path());
    let clients: Vec<Client> = (0..1_000)
        .map(|_| {
            let mut client = Client::connect(server.address);
            client.login("anonymous", "x");
            client
        })
        .collect();
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    println!("1,000 idle sessions: {:.1} MiB", kib as f64 / 1024.0);
    assert!(kib < 100 * 1024, "{kib} KiB");
    let mut last = clients.into_iter().last().unwrap();
    let mut download = data(parse_passive_reply(&last.expect("PASV", 227).text()).unwrap());
    last.expect("RETR x", 150);
    let mut text = String::new();
    download.read_to_string(&mut text).unwrap();
    assert_eq!(text, "abc");
}
