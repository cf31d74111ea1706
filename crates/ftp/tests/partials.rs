//! Partial uploads are visible under no name: whatever sessions do at the same time, a name shows only what
//! was acknowledged as complete.

mod model;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fairwind_ftp::server::UserConfig;

use crate::common::{Client, Running};

/// A server with the users alice and bob, who may both write.
fn for_two() -> Running {
    Running::with(|config| {
        let alice = config.users[0].clone();
        config.users.push(UserConfig {
            name: "bob".into(),
            ..alice
        });
    })
}

fn client(server: &Running, name: &str) -> Client {
    let mut client = Client::connect(server.address);
    client.login(name, "secret");
    client
}

/// Leaves a partial upload of `name` with these bytes.
fn break_off(client: &mut Client, name: &str, bytes: &[u8]) {
    client.expect(&format!("ALLO {}", bytes.len() + 1), 200);
    assert_eq!(client.give(&format!("STOR {name}"), bytes).code, 426);
}

fn make_old(partial: &Path) {
    let file = File::options().write(true).open(partial).unwrap();
    let eight_days = Duration::from_secs(8 * 24 * 3_600);
    file.set_modified(SystemTime::now() - eight_days).unwrap();
}

#[test]
fn nobody_else_touches_an_upload_that_is_under_way() {
    let server = for_two();
    let (mut alice, mut bob) = (client(&server, "alice"), client(&server, "bob"));
    let mut data = alice.passive();
    alice.expect("STOR x", 150);
    data.write_all(b"alice's ").unwrap();
    bob.expect("DELE x", 450);
    bob.passive();
    bob.expect("STOR x", 450);
    bob.passive();
    bob.expect("APPE x", 450);
    data.write_all(b"bytes").unwrap();
    drop(data);
    assert_eq!(alice.reply().code, 226);
    assert_eq!(server.read("x"), b"alice's bytes");
    assert_eq!(fs::read_dir(server.dir.path()).unwrap().count(), 1);
}

#[test]
fn nobody_else_changes_a_name_to_which_an_upload_is_under_way() {
    let server = for_two();
    server.write("x", "old");
    server.write("y", "other");
    let (mut alice, mut bob) = (client(&server, "alice"), client(&server, "bob"));
    let mut data = alice.passive();
    alice.expect("STOR x", 150);
    data.write_all(b"new").unwrap();
    bob.expect("DELE x", 450);
    for (from, to) in [("x", "z"), ("y", "x"), ("x", "x")] {
        bob.expect(&format!("RNFR {from}"), 350);
        bob.expect(&format!("RNTO {to}"), 450);
    }
    assert_eq!(
        (server.read("x"), server.read("y")),
        (b"old".to_vec(), b"other".to_vec())
    );
    drop(data);
    assert_eq!(alice.reply().code, 226);
    assert_eq!(server.read("x"), b"new");
    // What waits to be resumed is in nobody's way, and stays.
    break_off(&mut alice, "x", b"newer");
    break_off(&mut alice, "z", b"rest");
    for (from, to) in [("x", "x"), ("x", "z"), ("z", "x")] {
        bob.expect(&format!("RNFR {from}"), 350);
        bob.expect(&format!("RNTO {to}"), 250);
    }
    bob.expect("DELE x", 250);
    assert_eq!(server.read(".x.fairwind-part"), b"newer");
    assert_eq!(alice.expect("SIZE z", 213).text(), "4");
}

#[test]
fn unfinished_uploads_have_no_name_that_a_command_knows() {
    let server = for_two();
    let mut alice = client(&server, "alice");
    break_off(&mut alice, "x", b"abc");
    let partial = ".x.fairwind-part";
    assert_eq!(server.read(partial), b"abc");
    for verb in [
        "RETR", "HASH", "XMD5", "SIZE", "MDTM", "MLST", "RNFR", "DELE", "RMD", "CWD", "STAT",
        "LIST", "NLST", "MLSD",
    ] {
        alice.passive();
        alice.expect(&format!("{verb} {partial}"), 550);
    }
    alice.expect(&format!("MFMT 19990929003355 {partial}"), 550);
    alice.expect(&format!("SITE CHMOD 777 {partial}"), 550);
    for verb in ["STOR", "APPE", "MKD"] {
        alice.passive();
        alice.expect(&format!("{verb} {partial}"), 553);
    }
    for listing in ["LIST -a", "NLST -a", "MLSD"] {
        let text = alice.fetch(listing);
        assert!(!String::from_utf8(text).unwrap().contains("fairwind-part"));
    }
    // The user who began it resumes or removes it under the name of the file.
    assert_eq!(alice.expect("SIZE x", 213).text(), "3");
    alice.expect("DELE x", 250);
    assert_eq!(fs::read_dir(server.dir.path()).unwrap().count(), 0);
}

#[test]
fn nobody_goes_on_with_what_another_user_began() {
    let server = for_two();
    let (mut alice, mut bob) = (client(&server, "alice"), client(&server, "bob"));
    break_off(&mut alice, "x", b"alice's");
    bob.expect("SIZE x", 550);
    bob.passive();
    bob.expect("REST 7", 350);
    bob.expect("STOR x", 554);
    // It remains for alice until bob has a partial upload of the same name.
    assert_eq!(alice.expect("SIZE x", 213).text(), "7");
    break_off(&mut bob, "x", b"bob");
    alice.expect("SIZE x", 550);
    bob.expect("REST 3", 350);
    assert_eq!(bob.give("STOR x", b"'s").code, 226);
    assert_eq!(server.read("x"), b"bob's");
}

#[test]
fn an_upload_that_was_taken_away_around_the_server_gives_its_name_to_nothing_else() {
    let server = for_two();
    let mut alice = client(&server, "alice");
    let mut data = alice.passive();
    alice.expect("STOR x", 150);
    data.write_all(b"alice's bytes").unwrap();
    fs::remove_file(server.path(".x.fairwind-part")).unwrap();
    server.write(".x.fairwind-part", "others");
    drop(data);
    assert_eq!(alice.reply().code, 451);
    assert!(!server.path("x").exists());
    assert_eq!(server.read(".x.fairwind-part"), b"others");
}

#[test]
fn what_nobody_goes_on_with_expires() {
    let server = for_two();
    let mut alice = client(&server, "alice");
    for name in ["old", "new"] {
        break_off(&mut alice, name, b"abc");
    }
    make_old(&server.path(".old.fairwind-part"));
    alice.expect("SIZE old", 550);
    alice.passive();
    alice.expect("REST 3", 350);
    alice.expect("STOR old", 554);
    make_old(&server.path(".old.fairwind-part"));
    assert_eq!(Client::anonymous(&server).fetch("NLST"), b"");
    assert!(!server.path(".old.fairwind-part").exists());
    assert_eq!(alice.expect("SIZE new", 213).text(), "3");
}

#[test]
fn a_directory_with_nothing_but_expired_uploads_can_be_removed() {
    let server = for_two();
    let mut alice = client(&server, "alice");
    alice.expect("MKD d", 257);
    break_off(&mut alice, "d/old", b"abc");
    break_off(&mut alice, "d/new", b"abc");
    make_old(&server.path("d/.old.fairwind-part"));
    alice.expect("RMD d", 550);
    let mut uploading = client(&server, "alice");
    let mut data = uploading.passive();
    uploading.expect("APPE d/new", 150);
    make_old(&server.path("d/.new.fairwind-part"));
    // An upload in progress does not expire.
    alice.expect("RMD d", 550);
    data.write_all(b"def").unwrap();
    drop(data);
    assert_eq!(uploading.reply().code, 226);
    assert_eq!(server.read("d/new"), b"abcdef");
    break_off(&mut alice, "d/old", b"abc");
    make_old(&server.path("d/.old.fairwind-part"));
    alice.expect("DELE d/new", 250);
    alice.expect("RMD d", 250);
    assert!(!server.path("d").exists());
}
