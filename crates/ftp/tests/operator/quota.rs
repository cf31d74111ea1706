//! Quotas: counts are right whatever happens to files.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fairwind_ftp::server::{Config, hash_password};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::common::{Client, Process, Running, config, eventually, noise};

/// A server that lets alice have so many bytes and files.
fn server(bytes: u64, files: u64) -> Running {
    Running::with(|config| {
        config.users[0].quota_bytes = bytes;
        config.users[0].quota_files = files;
    })
}

/// What `SITE QUOTA` says is used: bytes and files.
fn used(client: &mut Client) -> (u64, u64) {
    let text = client.expect("SITE QUOTA", 200).text();
    let number = |what: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(what));
        let words = line.expect("there is a line").split_whitespace();
        words.clone().next().unwrap().parse().unwrap()
    };
    (number("bytes "), number("files "))
}

#[test]
fn what_does_not_fit_ends_with_552_and_can_be_removed_or_resumed() {
    let server = server(500_000, 0);
    server.write("old", noise(100_000));
    let mut client = Client::alice(&server);
    assert_eq!(used(&mut client), (100_000, 1));
    let content = noise(600_000);
    assert_eq!(client.give("STOR x", &content).code, 552);
    assert!(!server.path("x").exists());
    let kept = client.expect("SIZE x", 213).text().parse().unwrap();
    assert!(kept > 0 && kept <= 400_000, "{kept}");
    assert_eq!(used(&mut client), (100_000 + kept, 2));
    client.expect("ALLO 450000", 552);

    // Room again: the rest is appended.
    client.expect("DELE old", 250);
    assert_eq!(used(&mut client), (kept, 1));
    client.expect(&format!("REST {kept}"), 350);
    let rest = &content[kept as usize..500_000];
    assert_eq!(client.give("STOR x", rest).code, 226);
    assert_eq!(server.read("x"), content[..500_000]);
    assert_eq!(used(&mut client), (500_000, 1));
    assert_eq!(client.give("STOR y", b"1").code, 552);
    client.expect("DELE y", 550);
    client.expect("DELE x", 250);
    assert_eq!(used(&mut client), (0, 0));
}

#[test]
fn counts_are_right_after_replacing_appending_renaming_and_breaking_off() {
    let server = server(1_000_000, 10);
    let mut client = Client::alice(&server);
    assert_eq!(client.give("STOR a", &noise(10_000)).code, 226);
    assert_eq!(client.give("STOR a", &noise(7_000)).code, 226);
    assert_eq!(used(&mut client), (7_000, 1));
    assert_eq!(client.give("APPE a", &noise(500)).code, 226);
    assert_eq!(used(&mut client), (7_500, 1));
    assert_eq!(client.give("STOR b", &noise(300)).code, 226);
    client.expect("RNFR b", 350);
    client.expect("RNTO a", 250);
    assert_eq!(used(&mut client), (300, 1));
    client.expect("RNFR a", 350);
    client.expect("RNTO a", 250);
    assert_eq!(used(&mut client), (300, 1));
    // ASCII takes a byte a line off.
    client.expect("TYPE A", 200);
    assert_eq!(client.give("STOR text", b"1\r\n2\r\n").code, 226);
    client.expect("TYPE I", 200);
    assert_eq!(used(&mut client), (304, 2));
    // Nothing has come: nothing is left.
    assert_eq!(client.give("STOR empty", b"").code, 226);
    client.expect("ALLO 10", 200);
    assert_eq!(client.give("STOR short", b"123").code, 426);
    assert_eq!(used(&mut client), (307, 4));
    client.expect("DELE short", 250);
    assert_eq!(used(&mut client), (304, 3));
    // A new server counts the same.
    let mut again = Running::with(|config| {
        config.root = server.dir.path().to_owned();
        config.users[0].quota_bytes = 1_000_000;
    });
    assert_eq!(used(&mut Client::alice(&again)), (304, 3));
    again.stop();
}

#[test]
fn so_many_files_and_no_more_but_old_ones_can_be_replaced() {
    let server = server(0, 2);
    let mut client = Client::alice(&server);
    assert_eq!(client.give("STOR a", b"1").code, 226);
    assert_eq!(client.give("STOR b", b"2").code, 226);
    let _data = client.passive();
    client.expect("STOR c", 552);
    client.expect("STOU", 552);
    assert_eq!(client.give("STOR b", b"33").code, 226);
    assert_eq!(used(&mut client), (3, 2));
    assert_eq!(std::fs::read_dir(server.dir.path()).unwrap().count(), 2);
}

#[test]
fn sessions_of_a_user_share_the_quota_while_they_upload() {
    let server = server(1_000_000, 0);
    let (mut one, mut two) = (Client::alice(&server), Client::alice(&server));
    let mut upload = one.passive();
    one.expect("STOR a", 150);
    upload.write_all(&noise(600_000)).unwrap();
    eventually("it has come", || used(&mut two).0 == 600_000);
    assert_eq!(two.give("STOR b", &noise(600_000)).code, 552);
    drop(upload);
    assert_eq!(one.reply().code, 226);
    assert_eq!(server.read("a").len(), 600_000);
    two.expect("DELE b", 250);
    assert_eq!(used(&mut one), (600_000, 1));
}

/// Bytes and number of the files in a directory.
fn on_disk(dir: &Path) -> (u64, u64) {
    let entries = std::fs::read_dir(dir).unwrap();
    let sizes = entries.map(|entry| entry.unwrap().metadata().unwrap().len());
    sizes.fold((0, 0), |(bytes, files), size| (bytes + size, files + 1))
}

#[test]
fn counts_are_right_after_the_server_was_killed_in_the_midst_of_uploads() {
    let dir = tempfile::tempdir().unwrap();
    let hash = hash_password("secret").unwrap();
    let settings = format!(
        "[[user]]\nname = \"bob\"\npassword = \"{hash}\"\nwrite = true\n\
         quota_bytes = 1000000\nquota_files = 10\n"
    );
    let bob = |server: &Process| {
        let mut client = Client::connect(server.address);
        client.login("bob", "secret");
        client
    };
    let mut server = Process::with_settings(dir.path(), &settings);
    let mut client = bob(&server);
    assert_eq!(client.give("STOR old", &noise(100_000)).code, 226);
    // A new file, one that replaces, and one that continues; none of them comes to its end.
    let content = noise(150_000);
    let mut uploads = Vec::new();
    for command in ["STOR new", "STOR old", "APPE old2"] {
        let mut client = bob(&server);
        if command.starts_with("APPE") {
            assert_eq!(client.give("STOR old2", &noise(50_000)).code, 226);
        }
        let mut data = client.passive();
        client.expect(command, 150);
        data.write_all(&content).unwrap();
        uploads.push((client, data));
    }
    // 100 and 50 kB are complete; 150, 150, and 50 + 150 kB are not.
    eventually("all of it has come", || used(&mut client) == (650_000, 5));
    server.kill();
    drop(uploads);

    let mut again = Process::with_settings(dir.path(), &settings);
    let mut client = bob(&again);
    let left = on_disk(dir.path());
    assert_eq!(used(&mut client), left);
    assert_eq!(left.1, 5, "{left:?}");
    assert_eq!(client.expect("SIZE old", 213).text(), "100000");
    // What is left counts, and no more: so much fits, and not one byte besides.
    let room = 1_000_000 - left.0;
    let wanted = noise(usize::try_from(room).unwrap() + 1);
    assert_eq!(client.give("STOR more", &wanted).code, 552);
    client.expect("DELE more", 250);
    assert_eq!(client.give("STOR more", &wanted[1..]).code, 226);
    assert_eq!(used(&mut client), (1_000_000, 6));
    client.expect("DELE more", 250);
    // Going on with an upload, counted once.
    let kept: usize = client.expect("SIZE new", 213).text().parse().unwrap();
    client.expect(&format!("REST {kept}"), 350);
    assert_eq!(client.give("STOR new", &noise(200_000)[kept..]).code, 226);
    assert_eq!(used(&mut client), on_disk(dir.path()));
    again.kill();
}

#[test]
fn nobody_takes_away_the_rights_by_which_directories_are_counted() {
    let server = server(1_000, 0);
    let mut client = Client::alice(&server);
    client.expect("MKD d", 257);
    let reply = client.expect("SITE CHMOD 035 d", 200);
    assert!(reply.text().contains("735"), "{reply}");
    client.expect("SITE UMASK 477", 200);
    client.expect("MKD e", 257);
    for (name, mode) in [("d", 0o735), ("e", 0o700)] {
        let facts = std::fs::metadata(server.path(name)).unwrap();
        assert_eq!(facts.permissions().mode() & 0o777, mode, "{name}");
    }
    // Files are counted whatever their rights are.
    assert_eq!(client.give("STOR d/x", b"123").code, 226);
    client.expect("SITE CHMOD 000 d/x", 200);
    assert_eq!(used(&mut client), (3, 3));
    // Without a quota, everybody locks what they like.
    let free = Running::start();
    let mut client = Client::alice(&free);
    client.expect("MKD d", 257);
    let reply = client.expect("SITE CHMOD 035 d", 200);
    assert!(reply.text().contains("035"), "{reply}");
}

#[test]
fn directories_count_as_files() {
    let server = server(0, 3);
    let mut client = Client::alice(&server);
    for name in ["a", "b", "b/c"] {
        client.expect(&format!("MKD {name}"), 257);
    }
    assert_eq!(used(&mut client), (0, 3));
    client.expect("MKD d", 552);
    client.expect("MKD b", 552);
    assert!(!server.path("d").exists());
    let _data = client.passive();
    client.expect("STOR x", 552);
    client.expect("RMD b", 550);
    client.expect("DELE b/c", 550);
    assert_eq!(used(&mut client), (0, 3));
    client.expect("RMD a", 250);
    assert_eq!(used(&mut client), (0, 2));
    // One takes the place of another.
    client.expect("MKD a", 257);
    client.expect("RNFR b/c", 350);
    client.expect("RNTO a", 250);
    assert_eq!(used(&mut client), (0, 2));
    assert_eq!(client.give("STOR a/x", b"12").code, 226);
    assert_eq!(used(&mut client), (2, 3));
}

#[test]
fn what_was_to_be_replaced_and_has_gone_elsewhere_counts_besides_its_successor() {
    let server = server(0, 2);
    let (mut one, mut two) = (Client::alice(&server), Client::alice(&server));
    for name in ["x", "y"] {
        assert_eq!(one.give(&format!("STOR {name}"), b"1").code, 226);
    }
    let mut upload = one.passive();
    one.expect("STOR x", 150);
    upload.write_all(b"2").unwrap();
    // The server itself leaves the name of an upload alone; others on its host need not.
    let rename = |from, to| std::fs::rename(server.path(from), server.path(to)).unwrap();
    rename("x", "z");
    drop(upload);
    assert_eq!(one.reply().code, 552);
    assert_eq!(used(&mut one), (2, 2));
    assert_eq!(on_disk(server.dir.path()), (2, 2));
    // If there is room meanwhile, it takes its place.
    let mut upload = one.passive();
    one.expect("STOR z", 150);
    upload.write_all(b"2").unwrap();
    rename("z", "x");
    two.expect("DELE y", 250);
    drop(upload);
    assert_eq!(one.reply().code, 226);
    assert_eq!(used(&mut one), (2, 2));
    assert_eq!(on_disk(server.dir.path()), (2, 2));
}

#[test]
fn of_uploads_that_were_to_replace_files_nothing_is_left_for_which_there_is_no_room() {
    let server = server(0, 3);
    let mut client = Client::alice(&server);
    for name in ["x", "y"] {
        assert_eq!(client.give(&format!("STOR {name}"), b"1").code, 226);
    }
    for (name, bytes, files, is_kept) in [("x", 5, 3, true), ("y", 5, 3, false)] {
        client.expect("ALLO 10", 200);
        let reply = client.give(&format!("STOR {name}"), b"123");
        assert_eq!(reply.code, 426);
        assert_eq!(
            reply.text().contains("wait to be resumed"),
            is_kept,
            "{reply:?}"
        );
        assert_eq!(used(&mut client), (bytes, files), "{name}");
        assert_eq!(on_disk(server.dir.path()), (bytes, files), "{name}");
    }
}

#[test]
fn sessions_keep_the_quota_of_the_configuration_that_they_began_under() {
    let server = server(1_000, 0);
    let limit = |client: &mut Client| {
        let text = client.expect("SITE QUOTA", 200).text();
        let line = text.lines().find(|line| line.contains("bytes ")).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    };
    let with = |bytes, change: &dyn Fn(&mut Config)| {
        let mut config = config(server.dir.path());
        config.users[0].quota_bytes = bytes;
        change(&mut config);
        server.reload.with(config)
    };
    let mut old = Client::alice(&server);
    assert_eq!(limit(&mut old), "1000");
    with(5_000, &|config| config.users.push(config.users[0].clone())).unwrap_err();
    assert_eq!(limit(&mut old), "1000");
    assert_eq!(limit(&mut Client::alice(&server)), "1000");
    with(2_000, &|_| ()).unwrap();
    let mut new = Client::alice(&server);
    assert_eq!(
        (limit(&mut old), limit(&mut new)),
        ("1000".into(), "2000".into())
    );
    // What is there is counted for both.
    assert_eq!(new.give("STOR x", &noise(1_500)).code, 226);
    assert_eq!(used(&mut old), (1_500, 1));
    assert_eq!(old.give("STOR y", b"1").code, 552);
}

#[test]
fn a_deep_tree_is_counted_with_few_descriptors() {
    const DEPTH: usize = 300;
    let dir = tempfile::tempdir().unwrap();
    let mut path = dir.path().to_owned();
    for _ in 0..DEPTH {
        path.push("d");
        std::fs::create_dir_all(path.join("e")).unwrap();
    }
    std::fs::write(path.join("deep"), "12345").unwrap();
    let hash = hash_password("secret").unwrap();
    let server = Process::with_settings(
        dir.path(),
        &format!("[[user]]\nname = \"bob\"\npassword = \"{hash}\"\nquota_bytes = 1000\n"),
    );
    let mut client = Client::connect(server.address);
    client.login("bob", "secret");
    let limit = Rlimit {
        current: Some(server.descriptors() as u64 + 20),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    prlimit(
        Some(Pid::from_child(&server.child)),
        Resource::Nofile,
        limit,
    )
    .unwrap();
    assert_eq!(used(&mut client), (5, 2 * DEPTH as u64 + 1));
}
