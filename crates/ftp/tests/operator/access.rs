//! Rights by directory.

use std::fs;
use std::os::unix::fs::symlink;

use fairwind_ftp::server::{AccessRule, Config, Right, UserConfig, check};

use crate::common::{Client, Running};

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
