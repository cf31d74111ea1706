//! Rights by directory.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::time::Duration;

use fairwind_ftp::server::{AccessRule, Config, Right, UserConfig, check};

use crate::common::{Client, Running, connect_from, eventually, loopback};

fn rule(path: &str, users: &[&str], rights: &[Right]) -> AccessRule {
    AccessRule {
        path: path.into(),
        users: users.iter().map(|user| (*user).to_owned()).collect(),
        groups: Vec::new(),
        rights: rights.to_vec(),
    }
}

/// A server with `/incoming`, where anonymous users may only leave files, and `/private` for alice alone.
fn server() -> Running {
    let server = Running::with(|config| {
        for directory in ["incoming", "private", "pub"] {
            fs::create_dir(config.root.join(directory)).unwrap();
        }
        fs::write(config.root.join("private/x"), "secret").unwrap();
        fs::write(config.root.join("pub/x"), "abc").unwrap();
        config.access = vec![
            rule("/incoming", &["anonymous"], &[Right::Create]),
            rule("/private", &["alice"], &[Right::List, Right::Read]),
            rule("/private", &[], &[]),
        ];
    });
    symlink("../private", server.path("pub/way")).unwrap();
    symlink("../private/x", server.path("pub/way-in")).unwrap();
    server
}

#[test]
fn strangers_leave_files_and_neither_see_nor_replace_what_is_there() {
    let server = server();
    let mut client = Client::anonymous(&server);
    client.expect("CWD incoming", 250);
    assert_eq!(client.give("STOR y", b"1").code, 226);
    assert_eq!(server.read("incoming/y"), b"1");
    let _data = client.passive();
    for (command, code) in [
        ("LIST", 550),
        ("MLSD", 550),
        ("RETR y", 550),
        ("HASH y", 550),
        ("DELE y", 550),
        ("STOR y", 550),
        ("APPE y", 550),
        ("MKD d", 550),
        ("SITE CHMOD 600 y", 550),
        ("MFMT 20000101000000 y", 550),
        ("STOR /pub/y", 550),
        ("STOR /y", 550),
    ] {
        client.expect(command, code);
    }
    client.expect("RNFR y", 350);
    client.expect("RNTO z", 550);
    assert_eq!(server.read("incoming/y"), b"1");
}

/// An upload of ten bytes to `/incoming/y` that has been silent for so long that its owner could take it over.
fn lost_upload(server: &Running, client: &mut Client) -> TcpStream {
    let mut data = client.passive();
    client.expect("STOR incoming/y", 150);
    data.write_all(b"0123456789").unwrap();
    eventually("all bytes are there", || {
        let partial = fs::metadata(server.path("incoming/.y.fairwind-part"));
        partial.is_ok_and(|facts| facts.len() == 10)
    });
    std::thread::sleep(Duration::from_millis(1_100));
    data
}

#[test]
fn who_calls_itself_alice_goes_on_with_nothing_of_hers() {
    let server = server();
    let mut alice = Client::alice(&server);
    let data = lost_upload(&server, &mut alice);
    let mut stranger = Client::connect(server.address);
    stranger.login("anonymous", "alice");
    let _data = stranger.passive();
    stranger.expect("SIZE incoming/y", 550);
    stranger.expect("STOR incoming/y", 450);
    stranger.expect("REST 10", 350);
    stranger.expect("STOR incoming/y", 450);
    alice.raw(b"ABOR\r\n");
    assert_eq!([alice.reply().code, alice.reply().code], [426, 226]);
    drop(data);
    stranger.expect("SIZE incoming/y", 550);
    stranger.expect("REST 10", 350);
    stranger.expect("STOR incoming/y", 550);
    assert_eq!(alice.expect("SIZE incoming/y", 213).text(), "10");
    // Nor is its session hers.
    let sessions = alice.expect("SITE WHO", 200);
    assert_eq!(sessions.lines.len(), 3, "{sessions}");
}

#[test]
fn who_may_only_create_begins_nothing_anew_that_another_user_can_go_on_with() {
    let server = server();
    let mut alice = Client::alice(&server);
    alice.expect("ALLO 11", 200);
    assert_eq!(alice.give("STOR incoming/y", b"0123456789").code, 426);
    let mut stranger = Client::anonymous(&server);
    let _data = stranger.passive();
    stranger.expect("STOR incoming/y", 550);
    stranger.expect("APPE incoming/y", 550);
    alice.expect("REST 10", 350);
    assert_eq!(alice.give("STOR incoming/y", b"abc").code, 226);
    assert_eq!(server.read("incoming/y"), b"0123456789abc");
    // Its own it may begin anew.
    stranger.expect("ALLO 11", 200);
    assert_eq!(stranger.give("STOR incoming/z", b"0123456789").code, 426);
    assert_eq!(stranger.give("STOR incoming/z", b"abc").code, 226);
    assert_eq!(server.read("incoming/z"), b"abc");
}

#[test]
fn strangers_go_on_with_their_own_uploads_by_the_address_they_come_from() {
    let server = server();
    let mut lost = Client::anonymous(&server);
    let _data = lost_upload(&server, &mut lost);
    let (mut other, _) = Client::from(loopback(1), server.address);
    other.login("anonymous", "me@example.org");
    let _waiting = connect_from(loopback(1), other.passive_address());
    other.expect("SIZE incoming/y", 550);
    other.expect("STOR incoming/y", 450);
    let mut again = Client::connect(server.address);
    again.login("ftp", "whoever@example.org");
    assert_eq!(again.expect("SIZE incoming/y", 213).text(), "10");
    again.expect("REST 10", 350);
    assert_eq!(again.give("STOR incoming/y", b"abc").code, 226);
    assert_eq!(lost.reply().code, 426);
    assert_eq!(server.read("incoming/y"), b"0123456789abc");
}

#[test]
fn no_link_and_no_rename_leads_around_a_rule() {
    let server = server();
    let mut stranger = Client::anonymous(&server);
    let _data = stranger.passive();
    for command in [
        "RETR /private/x",
        "RETR /pub/way/x",
        "RETR /pub/way-in",
        "SIZE /pub/way-in",
        "LIST /pub/way",
        "CWD /pub/way",
        "MLST /private",
        "HASH /pub/way/x",
    ] {
        stranger.expect(command, 550);
    }
    let mut alice = Client::alice(&server);
    assert_eq!(alice.fetch("RETR /pub/way/x"), b"secret");
    alice.expect("DELE /private/x", 550);
    alice.expect("DELE /pub/way/x", 550);
    alice.expect("STOR /private/y", 425);
    alice.expect("RNFR /private", 350);
    alice.expect("RNTO /open", 550);
    alice.expect("RNFR /private/x", 350);
    alice.expect("RNTO /x", 550);
    alice.expect("RNFR /pub/x", 350);
    alice.expect("RNTO /private/z", 550);
    let _data = alice.passive();
    alice.expect("STOR /private/y", 550);
    // Elsewhere she has the rights of a user who may write.
    alice.expect("RNFR /pub/x", 350);
    alice.expect("RNTO /pub/z", 250);
    alice.expect("DELE /pub/z", 250);
}

#[test]
fn a_rule_for_nobody_is_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = |rule: AccessRule| {
        let config = Config {
            access: vec![rule],
            users: vec![UserConfig {
                name: "alice".into(),
                password: fairwind_ftp::server::hash_password("secret").unwrap(),
                groups: vec!["staff".into()],
                ..UserConfig::default()
            }],
            ..Config::new(dir.path())
        };
        check(&config).map_err(|error| error.to_string())
    };
    refusal(rule("/a", &["alice", "anonymous"], &[])).unwrap();
    assert_eq!(
        refusal(rule("/a", &["alcie"], &[])).unwrap_err(),
        "access: path \"/a\": there is no user \"alcie\""
    );
    assert_eq!(
        refusal(rule("a", &[], &[])).unwrap_err(),
        "access: path \"a\" does not begin with /"
    );
    let of_group = |name: &str| AccessRule {
        groups: vec![name.into()],
        ..rule("/a", &[], &[])
    };
    refusal(of_group("staff")).unwrap();
    assert_eq!(
        refusal(of_group("stuff")).unwrap_err(),
        "access: path \"/a\": no user is in a group \"stuff\""
    );
}
