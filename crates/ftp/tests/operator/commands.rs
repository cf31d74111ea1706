//! Commands of daily use: HOST, MODE Z, SITE; banner and message of the day.

use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use fairwind_ftp::server::{AccessRule, Config, Right};

use crate::common::{Client, Running, noise, permitted};

#[test]
fn banner_and_message_of_the_day_are_part_of_the_replies() {
    let texts = tempfile::tempdir().unwrap();
    let (banner, motd) = (texts.path().join("banner"), texts.path().join("motd"));
    std::fs::write(&banner, "Welcome to\n220 the \x07archive\r\n\n").unwrap();
    std::fs::write(&motd, "Maintenance on Sunday\n").unwrap();
    let server = Running::with(|config| {
        config.banner = Some(banner);
        config.motd = Some(motd);
    });
    let (mut client, greeting) = Client::greeted(server.address);
    assert_eq!(greeting.code, 220);
    assert_eq!(greeting.lines.len(), 3, "{greeting:?}");
    assert!(greeting.lines[1].starts_with(b"220 the"), "{greeting:?}");
    assert!(!greeting.text().contains('\x07'));
    client.expect("USER anonymous", 331);
    let reply = client.expect("PASS me@example.org", 230);
    assert_eq!(reply.text(), "Maintenance on Sunday\nLogin successful");
}

#[test]
fn who_enters_a_directory_is_shown_its_message() {
    let server = Running::with(|config| {
        config.directory_message = Some(".message".into());
        config.access = vec![AccessRule {
            path: "/incoming".into(),
            users: vec!["anonymous".into()],
            groups: Vec::new(),
            rights: vec![Right::Create],
        }];
    });
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    for name in ["pub", "big", "link", "pipe", "incoming", "empty"] {
        std::fs::create_dir(server.path(name)).unwrap();
    }
    server.write("pub/.message", "Mirror of\r\n250 the \x1b[2Jarchive\n\n");
    server.write(
        "big/.message",
        "x".repeat(9_000) + &"\n".repeat(9_000) + "end",
    );
    server.write("incoming/.message", "not to be read");
    server.write("empty/.message", "\n");
    symlink(outside.path().join("secret"), server.path("link/.message")).unwrap();
    let pipe = server.path("pipe/.message");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());

    let mut client = Client::anonymous(&server);
    let reply = client.expect("CWD pub", 250);
    assert_eq!(
        reply.text(),
        "Mirror of\n250 the ?[2Jarchive\n\"/pub\" is the working directory"
    );
    for name in ["link", "pipe", "incoming", "empty"] {
        let reply = client.expect(&format!("CWD /{name}"), 250);
        assert_eq!(reply.lines.len(), 1, "{reply:?}");
    }
    let reply = client.expect("CWD /big", 250);
    assert_eq!((reply.lines.len(), reply.lines[0].len()), (2, 4_096));
    server.write("big/.message", "x\n".repeat(1_000));
    assert_eq!(client.expect("CWD /big", 250).lines.len(), 101);
    assert_eq!(client.expect("CDUP", 250).lines.len(), 1);

    let plain = Running::start();
    plain.write(".message", "shown to nobody");
    let reply = Client::anonymous(&plain).expect("CWD /", 250);
    assert_eq!(reply.lines.len(), 1);
    let error = Config::new("/srv")
        .read("directory_message = \"a/b\"")
        .unwrap_err();
    assert_eq!(
        error,
        "line 1: directory_message = \"a/b\": not a name for a file"
    );
}

#[test]
fn hosts_are_taken_before_the_login_and_unknown_ones_refused() {
    let server = Running::with(|config| config.hosts = vec!["ftp.example.org".into()]);
    let mut client = Client::connect(server.address);
    client.expect("HOST FTP.example.org", 220);
    client.expect("HOST www.example.org", 504);
    client.expect("HOST [2001:db8::1]", 504);
    client.expect("HOST", 501);
    client.expect("HOST a b", 501);
    client.expect("HOST [192.0.2.1", 501);
    client.expect("USER alice", 331);
    client.expect("HOST ftp.example.org", 503);
    client.expect("PASS secret", 230);
    client.expect("HOST ftp.example.org", 503);
    let any = Running::start();
    Client::connect(any.address).expect("HOST www.example.org", 220);
}

#[test]
fn site_utime_umask_and_chmod_do_as_elsewhere() {
    let server = Running::start();
    let mut client = Client::alice(&server);
    let mode = |name: &str| {
        std::fs::metadata(server.path(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    client.expect("SITE UMASK", 200);
    client.expect("SITE UMASK 999", 501);
    client.expect("SITE UMASK 027", 200);
    assert_eq!(client.give("STOR x", b"1").code, 226);
    client.expect("MKD d", 257);
    assert_eq!((mode("x"), mode("d")), (0o640, 0o750));
    client.expect("SITE CHMOD 600 x", 200);
    // A file that is replaced keeps its permissions.
    assert_eq!(client.give("STOR x", b"2").code, 226);
    assert_eq!(mode("x"), 0o600);

    client.expect("SITE UTIME 20260302140500 x", 200);
    assert_eq!(client.expect("MDTM x", 213).text(), "20260302140500");
    let times = "SITE UTIME x 20260101000000 20270302140506 20260101000000 UTC";
    client.expect(times, 200);
    assert_eq!(client.expect("MDTM x", 213).text(), "20270302140506");
    client.expect("SITE UTIME now x", 501);
    client.expect("SITE UTIME 20260302140500 nothing", 550);
    let mut stranger = Client::anonymous(&server);
    stranger.expect("SITE UTIME 20260302140500 x", 550);
    stranger.expect("SITE UMASK 000", 200);
}

#[test]
fn site_who_shows_a_user_its_own_sessions_and_an_administrator_all() {
    let server = Running::with(|config| {
        let mut root = config.users[0].clone();
        root.name = "root".into();
        root.admin = true;
        config.users.push(root);
    });
    let mut alice = Client::alice(&server);
    let mut stranger = Client::anonymous(&server);
    let own = alice.expect("SITE WHO", 200);
    assert_eq!(own.lines.len(), 3, "{own:?}");
    assert!(own.text().contains(" alice 127.0.0.1 "), "{own:?}");
    assert!(own.lines[1].ends_with(b" SITE WHO"), "{own:?}");
    stranger.expect("SITE WHO", 550);
    let mut root = Client::connect(server.address);
    root.login("root", "secret");
    let all = root.expect("SITE WHO", 200);
    assert_eq!(all.lines.len(), 5, "{all:?}");
    assert!(all.text().contains(" me@example.org "), "{all:?}");
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn inflated(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::ZlibDecoder::new(bytes)
        .read_to_end(&mut plain)
        .unwrap();
    plain
}

#[test]
fn mode_z_compresses_files_and_listings_and_takes_positions_of_the_file() {
    let server = Running::with(|config| config.limits.deflate_level = 6);
    let text = b"all work and no play\n".repeat(20_000);
    server.write("x", &text);
    let mut client = Client::alice(&server);
    client.expect("MODE Z", 200);
    client.expect("OPTS MODE Z LEVEL 6", 200);
    client.expect("OPTS MODE Z LEVEL 7", 501);
    client.expect("OPTS MODE Z ENGINE x", 501);
    client.expect("MODE C", 504);
    let sent = client.fetch("RETR x");
    assert!(sent.len() < text.len() / 50, "{}", sent.len());
    assert_eq!(inflated(&sent), text);
    client.expect("REST 400000", 350);
    assert_eq!(inflated(&client.fetch("RETR x")), text[400_000..]);
    assert_eq!(inflated(&client.fetch("NLST")), b"x\r\n");

    let content = noise(300_000);
    client.expect("ALLO 300000", 200);
    assert_eq!(
        client.give("STOR y", &deflated(&content[..200_000])).code,
        226
    );
    client.expect("REST 200000", 350);
    assert_eq!(
        client.give("STOR y", &deflated(&content[200_000..])).code,
        226
    );
    assert_eq!(server.read("y"), content);
    client.expect("TYPE A", 200);
    assert_eq!(client.give("STOR t", &deflated(b"1\r\n2\r\n")).code, 226);
    assert_eq!(server.read("t"), b"1\n2\n");
    client.expect("TYPE I", 200);
    client.expect("MODE S", 200);
    assert_eq!(client.fetch("RETR y"), content);
}

#[test]
fn mode_z_is_offered_only_if_the_operator_wants_it() {
    let server = Running::start();
    let mut client = Client::anonymous(&server);
    client.expect("MODE Z", 504);
    client.expect("OPTS MODE Z LEVEL 1", 501);
    assert!(!client.expect("FEAT", 211).text().contains("MODE Z"));
    client.expect("MODE S", 200);
}

#[test]
fn compressed_streams_that_are_broken_or_bombs_leave_no_file() {
    let server = Running::with(|config| {
        config.limits.deflate_level = 6;
        config.users[0].quota_bytes = 100_000_000;
    });
    let mut client = Client::alice(&server);
    client.expect("MODE Z", 200);
    let whole = deflated(&noise(100_000));
    assert_eq!(client.give("STOR a", &whole[..whole.len() / 2]).code, 451);
    assert!(!server.path("a").exists());
    assert_eq!(client.give("STOR b", b"this is no zlib stream").code, 451);
    assert_eq!(
        client.give("STOR c", &[&whole[..], b"more"].concat()).code,
        451
    );
    // 64 MiB of zeros in 64 KiB.
    assert_eq!(
        client.give("STOR d", &deflated(&vec![0; 64 << 20])).code,
        552
    );
    for name in ["a", "b", "c", "d"] {
        assert!(!server.path(name).exists(), "{name}");
    }
    // What is less than 16 MiB may be of a single byte.
    assert_eq!(
        client.give("STOR e", &deflated(&vec![0; 8 << 20])).code,
        226
    );
    // What came of a broken stream can be continued.
    let kept: usize = client.expect("SIZE a", 213).text().parse().unwrap();
    client.expect(&format!("REST {kept}"), 350);
    assert_eq!(
        client
            .give("STOR a", &deflated(&noise(100_000)[kept..]))
            .code,
        226
    );
    assert_eq!(server.read("a"), noise(100_000));
}

#[test]
fn lftp_transfers_compressed_both_ways_and_sets_times() {
    let lftp = Command::new("lftp").arg("--version").output().is_ok();
    if !permitted("lftp", lftp) {
        return;
    }
    let server = Running::with(|config| config.limits.deflate_level = 6);
    let text = b"all work and no play\n".repeat(20_000);
    let own = tempfile::tempdir().unwrap();
    std::fs::write(own.path().join("x"), &text).unwrap();
    let script = format!(
        "set ftp:use-mode-z true; set net:max-retries 1; set ftp:ssl-allow false; set cmd:fail-exit true; \
         open -u alice,secret ftp://{}; lcd {}; put x -o y; get y -o z",
        server.address,
        own.path().display()
    );
    let done = Command::new("lftp")
        .args(["--norc", "-c", &script])
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(server.read("y"), text);
    assert_eq!(std::fs::read(own.path().join("z")).unwrap(), text);
}
