//! Virtual hosts in clear: HOST (RFC 7151) chooses tree, users and texts.

use std::os::unix::fs::symlink;

use fairwind_ftp::assembly::bind_server;
use fairwind_ftp::server::{self, AccessRule, Config, HostConfig, Right, UserConfig};
use serde_json::Value;

use crate::common::{Client, Running, config};

/// A host of this name, with a tree of its own and a user alice whose password is that of the server's.
fn host(config: &Config, name: &str, tree: &tempfile::TempDir) -> HostConfig {
    HostConfig {
        names: vec![name.into()],
        root: tree.path().to_owned(),
        user: config.users.clone(),
        ..HostConfig::default()
    }
}

/// The server, and the tree of `b.example`.
fn two_hosts(change: impl FnOnce(&mut Config)) -> (Running, tempfile::TempDir) {
    let tree = tempfile::tempdir().unwrap();
    let server = Running::with(|config| {
        config.hosts = vec!["a.example".into()];
        config.host = vec![host(config, "b.example", &tree)];
        change(config);
    });
    server.write("x", "a");
    std::fs::write(tree.path().join("x"), "b").unwrap();
    (server, tree)
}

fn at(server: &Running, host: &str) -> Client {
    let mut client = Client::connect(server.address);
    client.expect(&format!("HOST {host}"), 220);
    client
}

#[test]
fn each_host_has_its_tree_and_clients_without_host_the_servers() {
    let (server, tree) = two_hosts(|_| ());
    symlink(server.dir.path(), tree.path().join("out")).unwrap();
    for (name, content) in [("a.example", b"a"), ("B.EXAMPLE", b"b")] {
        let mut client = at(&server, name);
        client.login("anonymous", "me@example.org");
        assert_eq!(client.fetch("RETR x"), content);
    }
    assert_eq!(Client::anonymous(&server).fetch("RETR x"), b"a");
    let mut client = at(&server, "b.example");
    client.login("alice", "secret");
    assert_eq!(client.give("STOR y", b"1").code, 226);
    assert!(tree.path().join("y").exists() && !server.path("y").exists());
    client.expect("CWD out", 550);
    client.expect("CWD ../..", 250);
    assert_eq!(client.fetch("NLST"), b"out\r\nx\r\ny\r\n");
}

#[test]
fn unknown_hosts_get_504_and_leave_the_session_as_it_was() {
    let (server, _tree) = two_hosts(|_| ());
    let mut client = at(&server, "b.example");
    client.expect("HOST c.example", 504);
    client.expect("HOST 127.0.0.1", 504);
    client.login("anonymous", "me@example.org");
    assert_eq!(client.fetch("RETR x"), b"b");
    // With virtual hosts and no names for the server, none leads to it but the lack of one.
    let (nameless, _tree) = two_hosts(|config| config.hosts.clear());
    let mut client = Client::connect(nameless.address);
    client.expect("HOST a.example", 504);
    client.login("anonymous", "me@example.org");
    assert_eq!(client.fetch("RETR x"), b"a");
}

#[test]
fn hosts_may_change_until_a_user_is_named_and_rein_starts_over() {
    let (server, _tree) = two_hosts(|_| ());
    let mut client = at(&server, "a.example");
    client.expect("HOST b.example", 220);
    client.expect("USER alice", 331);
    client.expect("HOST a.example", 503);
    client.expect("PASS secret", 230);
    client.expect("HOST a.example", 503);
    client.expect("REIN", 220);
    client.login("alice", "secret");
    assert_eq!(client.fetch("RETR x"), b"a");
    client.expect("REIN", 220);
    client.expect("HOST b.example", 220);
    client.login("alice", "secret");
    assert_eq!(client.fetch("RETR x"), b"b");
}

#[test]
fn users_rights_and_texts_are_those_of_the_host() {
    let texts = tempfile::tempdir().unwrap();
    let text = |name: &str| {
        std::fs::write(texts.path().join(name), format!("{name} of b\n")).unwrap();
        Some(texts.path().join(name))
    };
    let (server, tree) = two_hosts(|config| {
        let hash = config.users[0].password.clone();
        let b = &mut config.host[0];
        b.names.push("bb.example".into());
        b.banner = text("banner");
        b.motd = text("motd");
        b.anonymous = Some(false);
        b.user = vec![UserConfig {
            name: "bob".into(),
            password: hash,
            write: true,
            ..UserConfig::default()
        }];
        b.access = vec![AccessRule {
            path: "/kept".into(),
            users: Vec::new(),
            groups: Vec::new(),
            rights: vec![Right::List],
        }];
    });
    std::fs::create_dir(tree.path().join("kept")).unwrap();
    let mut client = Client::connect(server.address);
    let banner = client.expect("HOST bb.example", 220);
    assert_eq!(banner.lines[0], b"banner of b");
    for (user, password) in [("anonymous", "me@example.org"), ("alice", "secret")] {
        client.expect(&format!("USER {user}"), 331);
        client.expect(&format!("PASS {password}"), 530);
    }
    client.expect("USER bob", 331);
    assert_eq!(client.expect("PASS secret", 230).lines[0], b"motd of b");
    client.expect("TYPE I", 200);
    client.expect("MKD kept/d", 550);
    client.expect("MKD d", 257);
    let mut stranger = at(&server, "a.example");
    stranger.expect("USER bob", 331);
    stranger.expect("PASS secret", 530);
}

#[test]
fn users_of_the_same_name_at_two_hosts_are_two() {
    let logs = tempfile::tempdir().unwrap();
    let log = logs.path().join("commands");
    let (mut server, tree) = two_hosts(|config| {
        config.limits.sessions_per_user = 1;
        config.users[0].quota_files = 1;
        config.command_log = Some(server::LogTarget::File(log.clone()));
    });
    let mut here = at(&server, "a.example");
    here.login("alice", "secret");
    let mut there = at(&server, "b.example");
    there.login("alice", "secret");
    for client in [&mut here, &mut there] {
        let who = client.expect("SITE WHO", 200);
        assert_eq!(who.lines.len(), 3, "{who:?}");
    }
    // The quota is that of the server's alice.
    let _data = here.passive();
    here.expect("STOR y", 552);
    assert_eq!(there.give("STOR y", b"1").code, 226);
    let mut second = at(&server, "b.example");
    second.expect("USER alice", 331);
    second.expect("PASS secret", 530);
    server.stop();
    let lines = std::fs::read_to_string(log).unwrap();
    let stored = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let stored: Vec<_> = stored
        .filter(|line| line["command"] == "STOR y")
        .map(|line| line["user"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(stored, ["alice", "alice@b.example"]);
    assert!(tree.path().join("y").exists());
}

#[test]
fn a_reload_changes_hosts_for_new_sessions() {
    let (server, tree) = two_hosts(|_| ());
    let mut old = at(&server, "b.example");
    let mut new = config(server.dir.path());
    new.listen = server.address;
    new.host = vec![host(&new, "c.example", &tree)];
    server.reload.with(new.clone()).unwrap();
    old.login("anonymous", "me@example.org");
    assert_eq!(old.fetch("RETR x"), b"b");
    let mut client = Client::connect(server.address);
    client.expect("HOST b.example", 504);
    client.expect("HOST c.example", 220);
    client.login("anonymous", "me@example.org");
    assert_eq!(client.fetch("RETR x"), b"b");
    new.host[0].root = "/no/such/directory".into();
    let error = server.reload.with(new).unwrap_err().to_string();
    assert!(
        error.starts_with("host c.example: /no/such/directory"),
        "{error}"
    );
    at(&server, "c.example");
}

#[test]
fn what_is_wrong_with_a_host_is_said_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let base = config(dir.path());
    let good = host(&base, "b.example", &dir);
    let with = |change: &dyn Fn(&mut Config)| {
        let mut config = base.clone();
        config.hosts = vec!["a.example".into()];
        config.host = vec![good.clone()];
        change(&mut config);
        let error = server::check(&config).unwrap_err().to_string();
        assert_eq!(bind_server(config).err().unwrap().to_string(), error);
        error
    };
    let root = dir.path().display();
    assert_eq!(
        with(&|config| config.host[0].names.clear()),
        format!("host with root {root}: names are missing")
    );
    for (name, text) in [
        (
            "b_/example",
            "host \"b.example\": \"b_/example\" is not the name of a host",
        ),
        (
            "A.example",
            "host \"b.example\": \"a.example\" is named twice",
        ),
        (
            "B.example",
            "host \"b.example\": \"b.example\" is named twice",
        ),
    ] {
        assert_eq!(with(&|config| config.host[0].names.push(name.into())), text);
    }
    assert_eq!(
        with(&|config| config.host.push(good.clone())),
        "host \"b.example\": \"b.example\" is named twice"
    );
    assert_eq!(
        with(&|config| config.host[0].user[0].admin = true),
        "host \"b.example\": user alice: only the server's own users can have admin"
    );
    assert_eq!(
        with(&|config| config.users[0].name = "alice@b.example".into()),
        "host \"b.example\": the server has a user alice@b.example, too"
    );
    assert_eq!(
        with(&|config| config.host[0].pam = true),
        "host \"b.example\": pam = true needs the server's pam"
    );
    assert_eq!(
        with(&|config| config.host[0].key = Some("key.pem".into())),
        "host \"b.example\": a certificate and its key belong together"
    );
    assert_eq!(
        with(&|config| {
            config.host[0].key = Some("key.pem".into());
            config.host[0].certificate = Some("cert.pem".into());
        }),
        "host \"b.example\": a certificate needs [tls]"
    );
    assert_eq!(
        with(&|config| config.host[0].user[0].password = "secret".into())
            .split(" (")
            .next()
            .unwrap(),
        "host b.example: user alice: the password is not a hash"
    );
    assert!(
        with(&|config| config.host[0].motd = Some("/no/such/file".into()))
            .starts_with("host b.example: /no/such/file")
    );
}
