//! The server's replies to clients that follow the protocol and to clients that do not.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{Client, Running, data, eventually, listening, noise};
use fairwind_ftp::server::{LogOpener, SyncPolicy};

#[test]
fn a_file_goes_up_and_comes_down_as_it_is() {
    let server = Running::start();
    let mut client = Client::alice(&server);
    let content = noise(3_000_001);
    assert_eq!(client.give("STOR a file", &content).code, 226);
    assert_eq!(server.read("a file"), content);
    assert_eq!(client.fetch("RETR a file"), content);
    assert_eq!(client.expect("SIZE a file", 213).text(), "3000001");
}

#[test]
fn active_and_extended_connections_carry_the_same() {
    let server = Running::start();
    server.write("x", "abc");
    let mut client = Client::anonymous(&server);
    let mut text = String::new();

    let (listener, port) = listening("127.0.0.1");
    client.expect(&format!("PORT {port}"), 200);
    client.expect("RETR x", 150);
    listener
        .accept()
        .unwrap()
        .0
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(client.reply().code, 226);

    let at = listener.local_addr().unwrap();
    client.expect(&format!("EPRT |1|127.0.0.1|{}|", at.port()), 200);
    client.expect("RETR x", 150);
    listener
        .accept()
        .unwrap()
        .0
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(client.reply().code, 226);

    let mut data = client.extended_passive();
    client.expect("RETR x", 150);
    data.read_to_string(&mut text).unwrap();
    assert_eq!(client.reply().code, 226);
    assert_eq!(text, "abcabcabc");

    client.expect("EPSV 2", 522);
    client.expect("EPSV ALL", 200);
    client.expect("PASV", 503);
    client.expect(&format!("PORT {port}"), 503);
    client.extended_passive();
}

#[test]
fn ipv6_has_epsv_and_no_pasv() {
    let server = Running::with(|config| config.listen = "[::1]:0".parse().unwrap());
    server.write("x", "abc");
    let mut client = Client::anonymous(&server);
    client.expect("PASV", 425);
    let mut data = client.extended_passive();
    client.expect("RETR x", 150);
    let mut text = String::new();
    data.read_to_string(&mut text).unwrap();
    assert_eq!(text, "abc");
}

#[test]
fn commands_out_of_order_are_told_so() {
    let server = Running::start();
    server.write("x", "abc");
    let mut client = Client::connect(server.address);
    client.expect("RETR x", 530);
    client.expect("PASV", 530);
    client.expect("STOR x", 530);
    client.expect("PASS secret", 503);
    client.expect("USER alice", 331);
    client.expect("PASS wrong", 530);
    client.expect("PASS secret", 503);
    client.login("alice", "secret");
    client.expect("USER bob", 503);
    client.expect("RETR x", 425);
    client.expect("STOR y", 425);
    assert!(!server.path(".y.fairwind-part").exists());
    client.expect("RNTO y", 503);
    client.expect("RNFR x", 350);
    client.expect("NOOP", 200);
    client.expect("RNTO y", 503);
    client.expect("ABOR", 226);
    client.expect("REST 4", 350);
    client.expect("PASV", 227);
    client.expect("RETR x", 554);
    client.expect("REIN", 220);
    client.expect("PWD", 530);
}

#[test]
fn wrong_passwords_end_the_session() {
    let server = Running::start();
    let mut client = Client::connect(server.address);
    for code in [530, 530, 421] {
        client.expect("USER alice", 331);
        client.expect("PASS guess", code);
    }
    assert!(client.is_closed());
}

#[test]
fn anonymous_users_read_and_do_not_write() {
    let server = Running::start();
    server.write("x", "abc");
    let mut client = Client::anonymous(&server);
    for command in [
        "DELE x",
        "MKD d",
        "RMD d",
        "RNFR x",
        "STOR y",
        "APPE x",
        "STOU",
        "MFMT 20000101000000 x",
    ] {
        client.expect(command, 550);
    }
    assert_eq!(client.fetch("RETR x"), b"abc");
}

#[test]
fn binary_and_endless_lines_harm_nobody() {
    let server = Running::start();
    let mut client = Client::anonymous(&server);
    client.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n");
    assert_eq!(client.reply().code, 500);
    client.raw(b"RETR a\0b\r\n");
    assert_eq!(client.reply().code, 500);
    client.raw(b"NOOP ");
    for _ in 0..100 {
        client.raw(&[b'x'; 10_000]);
    }
    client.raw(b"\r\n");
    assert_eq!(client.reply().code, 500);
    client.expect("NOOP", 200);
    client.raw(b"NOOP\r\nNOOP\r\nPWD\r\n");
    assert_eq!(
        [
            client.reply().code,
            client.reply().code,
            client.reply().code
        ],
        [200, 200, 257]
    );
}

#[test]
fn no_path_and_no_link_leads_out_of_the_root() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "x").unwrap();
    let server = Running::start();
    symlink(outside.path(), server.path("out")).unwrap();
    symlink(outside.path().join("secret"), server.path("file")).unwrap();
    let mut client = Client::alice(&server);
    let above = format!("/../../../../../..{}/secret", outside.path().display());
    for path in [
        above.as_str(),
        "out/secret",
        "file",
        "../../../../etc/passwd",
        "out/../out/secret",
    ] {
        for verb in ["SIZE", "MDTM", "HASH", "DELE out/../", "RNFR"] {
            let reply = client.say(&format!("{verb} {path}"));
            // The link itself may be removed or renamed, as it lies within the root.
            assert_eq!(reply.code, 550, "{verb} {path}");
        }
        client.passive();
        client.expect(&format!("RETR {path}"), 550);
    }
    client.expect("CWD out", 550);
    client.passive();
    client.expect("LIST out", 550);
    client.passive();
    client.expect("STOR out/new", 550);
    client.passive();
    client.expect("STOR file", 550);
    client.expect("MKD out/new", 550);
    client.expect("CWD ..", 250);
    assert!(client.expect("PWD", 257).text().starts_with("\"/\""));
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_bounce_is_refused() {
    let server = Running::start();
    server.write("x", "abc");
    let (listener, port) = listening("127.0.0.2");
    let at = listener.local_addr().unwrap();
    let mut client = Client::anonymous(&server);
    client.expect(&format!("PORT {port}"), 504);
    client.expect(&format!("EPRT |1|{}|{}|", at.ip(), at.port()), 504);
    client.expect("PORT 127,0,0,1,0,25", 504);
    client.expect("RETR x", 425);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody connected");
}

#[test]
fn a_peer_that_the_policy_names_may_take_part() {
    let server = Running::with(|config| config.foreign_peers.push("127.0.0.2/32".parse().unwrap()));
    server.write("x", "abc");
    let mut client = Client::anonymous(&server);
    let (listener, port) = listening("127.0.0.2");
    client.expect(&format!("PORT {port}"), 200);
    client.expect("RETR x", 150);
    let mut text = String::new();
    listener
        .accept()
        .unwrap()
        .0
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "abc");
    assert_eq!(client.reply().code, 226);

    let mut data = crate::common::connect_from([127, 0, 0, 2], client.passive_address());
    client.expect("RETR x", 150);
    data.read_to_string(&mut text).unwrap();
    assert_eq!(text, "abcabc");
}

#[test]
fn a_data_connection_is_not_stolen() {
    let server = Running::start();
    server.write("x", "abc");
    let mut client = Client::anonymous(&server);
    let address = client.passive_address();
    let mut thief = crate::common::connect_from([127, 0, 0, 2], address);
    client.expect("RETR x", 150);
    let mut text = String::new();
    thief.read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
    crate::common::data(address)
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "abc");
    assert_eq!(client.reply().code, 226);
}

/// A sparse file that occupies no space and takes longer to transfer than any test lasts.
fn huge(server: &Running) {
    std::fs::File::create(server.path("huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
}

#[test]
fn status_and_abort_are_answered_while_a_transfer_runs() {
    let server = Running::start();
    huge(&server);
    let mut client = Client::anonymous(&server);
    let mut data = client.passive();
    client.expect("RETR huge", 150);
    data.read_exact(&mut vec![0; 1_000_000]).unwrap();
    let status = client.expect("STAT", 211).text();
    let moved = status.lines().find_map(|line| {
        line.strip_prefix("Data connection open: ")?
            .split(' ')
            .next()?
            .parse::<u64>()
            .ok()
    });
    // All bytes are counted except those of the system call in progress.
    assert!(moved.unwrap() >= 700_000, "{status}");
    client.expect("NOOP", 200);
    // As RFC 959 demands: Telnet's IP and Synch first.
    client.raw(b"\xff\xf4\xff\xf2ABOR\r\n");
    assert_eq!([client.reply().code, client.reply().code], [426, 226]);
    client.expect("PWD", 257);
    drop(data);
    server.write("x", "abc");
    assert_eq!(client.fetch("RETR x"), b"abc");
}

#[test]
fn a_client_that_has_quit_before_its_data_connection_is_there_gets_its_file() {
    let server = Running::start();
    server.write("x", "abc");
    let mut client = Client::anonymous(&server);
    let address = client.passive_address();
    client.raw(b"RETR x\r\nQUIT\r\n");
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.reply().code, 150);
    // The server waits for the data connection, and has seen the end of the other.
    thread::sleep(Duration::from_millis(200));
    let mut got = Vec::new();
    data(address).read_to_end(&mut got).unwrap();
    assert_eq!(got, b"abc");
    assert_eq!([client.reply().code, client.reply().code], [226, 221]);
}

#[test]
fn commands_sent_ahead_of_a_transfers_end_are_done_after_it() {
    let server = Running::start();
    let content = noise(5_000_000);
    server.write("x", &content);
    let mut client = Client::anonymous(&server);
    let mut data = client.passive();
    client.raw(b"RETR x\r\nPWD\r\nQUIT\r\n");
    assert_eq!(client.reply().code, 150);
    let mut got = Vec::new();
    data.read_to_end(&mut got).unwrap();
    assert_eq!(got, content);
    assert_eq!(
        [
            client.reply().code,
            client.reply().code,
            client.reply().code
        ],
        [226, 257, 221]
    );
    assert!(client.is_closed());
}

#[test]
fn an_upload_of_a_client_that_vanished_does_not_look_complete() {
    let server = Running::start();
    let mut client = Client::alice(&server);
    let mut data = client.passive();
    client.expect("STOR x", 150);
    data.write_all(&noise(100_000)).unwrap();
    eventually("all bytes are there", || {
        let partial = std::fs::metadata(server.path(".x.fairwind-part"));
        partial.is_ok_and(|facts| facts.len() == 100_000)
    });
    // In the order in which the kernel closes the descriptors of a killed process.
    drop(client);
    drop(data);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!server.path("x").exists());
    let mut client = Client::alice(&server);
    client.passive();
    client.expect("RETR x", 550);
    client.expect("MLST x", 550);
    assert_eq!(client.fetch("NLST"), b"");
    assert_eq!(client.expect("SIZE x", 213).text(), "100000");
    client.expect("REST 100000", 350);
    assert_eq!(client.give("STOR x", b"the rest").code, 226);
    assert_eq!(server.read("x").len(), 100_008);
    assert_eq!(server.read("x")[..100_000], noise(100_000));
}

#[test]
fn commands_sent_ahead_do_not_make_the_upload_of_a_killed_client_complete() {
    let server = Running::start();
    for ahead in [1, 10, 70, 600] {
        let mut client = Client::alice(&server);
        let mut data = client.passive();
        client.expect(&format!("STOR x{ahead}"), 150);
        client.raw("PWD\r\n".repeat(ahead).as_bytes());
        data.write_all(&noise(100_000)).unwrap();
        eventually("all bytes are there", || {
            let partial = std::fs::metadata(server.path(&format!(".x{ahead}.fairwind-part")));
            partial.is_ok_and(|facts| facts.len() == 100_000)
        });
        // In the order in which the kernel closes the descriptors of a killed process.
        drop(client);
        drop(data);
    }
    std::thread::sleep(Duration::from_millis(50));
    for ahead in [1, 10, 70, 600] {
        let name = format!("x{ahead}");
        assert!(!server.path(&name).exists(), "{ahead} commands ahead");
    }
    // Who is still there gets its answers.
    let mut client = Client::alice(&server);
    let mut data = client.passive();
    client.expect("STOR x", 150);
    client.raw("PWD\r\n".repeat(70).as_bytes());
    data.write_all(b"abc").unwrap();
    drop(data);
    assert_eq!(client.reply().code, 226);
    for _ in 0..70 {
        assert_eq!(client.reply().code, 257);
    }
    assert_eq!(server.read("x"), b"abc");
}

#[test]
fn all_that_came_is_kept_when_the_control_connection_drops() {
    let server = Running::start();
    let mut client = Client::alice(&server);
    let mut data = client.passive();
    client.expect("STOR x", 150);
    let content = noise(3_000_000);
    data.write_all(&content).unwrap();
    // All bytes are in the server's kernel; how many of them the server has read is unknown.
    eventually("all bytes are acknowledged", || unacknowledged(&data) == 0);
    drop(client);
    // The next upload stays open: at its end the file would get its name.
    let mut next = None;
    eventually("the upload is given up", || {
        let mut client = Client::alice(&server);
        let data = client.passive();
        client.say("REST 3000000");
        let begun = client.say("STOR x").code == 150;
        next = Some((client, data));
        begun
    });
    assert!(server.read(".x.fairwind-part") == content);
    drop((data, next));
}

/// Bytes that the peer has not acknowledged yet (tcp(7), SIOCOUTQ).
fn unacknowledged(stream: &TcpStream) -> i32 {
    let mut bytes = 0;
    // SAFETY: the kernel writes an integer to `bytes`.
    let result = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(result, 0);
    bytes
}

#[test]
fn a_complete_file_is_continued() {
    let server = Running::with(|config| config.sync = SyncPolicy::Uploads);
    server.write("x", "0123456789");
    let mut client = Client::alice(&server);
    assert_eq!(client.give("APPE x", b"abc").code, 226);
    assert_eq!(server.read("x"), b"0123456789abc");
    client.expect("REST 4", 350);
    assert_eq!(client.give("STOR x", b"ABC").code, 226);
    assert_eq!(server.read("x"), b"0123ABC");
    client.passive();
    client.expect("REST 8", 350);
    client.expect("STOR x", 554);
}

#[test]
fn modes_are_changed_by_those_who_may_write() {
    let server = Running::start();
    server.write("x", "");
    let outside = tempfile::NamedTempFile::new().unwrap();
    symlink(outside.path(), server.path("link")).unwrap();
    let mode = |path: &std::path::Path| {
        let facts = std::fs::metadata(path).unwrap();
        facts.permissions().mode() & 0o7777
    };
    let before = mode(outside.path());
    Client::anonymous(&server).expect("SITE CHMOD 777 x", 550);
    let mut client = Client::alice(&server);
    client.expect("SITE CHMOD 000 x", 200);
    assert_eq!(mode(&server.path("x")), 0);
    client.expect("SITE CHMOD 0640 x", 200);
    for (command, code) in [
        ("SITE CHMOD 777 link", 550),
        ("SITE CHMOD 4755 x", 501),
        ("SITE CHMOD u+x x", 501),
        ("SITE CHMOD 899 x", 501),
        ("SITE CHMOD 644", 501),
        ("SITE CHMOD 644 nothing", 550),
        // Otherwise anyone who may write could lock out everybody.
        ("SITE CHMOD 000 /", 550),
    ] {
        client.expect(command, code);
    }
    assert_eq!(mode(&server.path("x")), 0o640);
    assert_eq!(mode(outside.path()), before);
}

#[test]
fn an_upload_shorter_than_announced_waits_to_be_resumed() {
    let server = Running::start();
    let mut client = Client::alice(&server);
    client.expect("ALLO 10", 200);
    assert_eq!(client.give("STOR x", b"12345").code, 426);
    assert!(!server.path("x").exists());
    client.expect("ALLO 10", 200);
    assert_eq!(client.give("APPE x", b"67890").code, 226);
    assert_eq!(server.read("x"), b"1234567890");
    client.expect("ALLO 99999999999999999", 452);
}

/// Bytes of the file are announced, and text has more of them on its way.
#[test]
fn a_number_of_bytes_says_nothing_about_the_end_of_text() {
    let server = Running::start();
    let mut client = Client::alice(&server);
    client.expect("TYPE A", 200);
    client.expect("ALLO 4", 200);
    let mut data = client.passive();
    client.expect("STOR x", 150);
    data.write_all(b"a\r\nb").unwrap();
    eventually("all bytes are there", || {
        std::fs::read(server.path(".x.fairwind-part")).is_ok_and(|found| found == b"a\nb")
    });
    drop(client);
    drop(data);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!server.path("x").exists());
}

#[test]
fn a_file_that_becomes_shorter_is_not_sent_as_a_whole() {
    let server = Running::start();
    for (kind, number) in [("TYPE I", 0), ("TYPE A", 1)] {
        let name = format!("x{number}");
        let file = std::fs::File::create(server.path(&name)).unwrap();
        file.set_len(256 << 20).unwrap();
        let mut client = Client::anonymous(&server);
        client.expect(kind, 200);
        let mut data = client.passive();
        client.expect(&format!("RETR {name}"), 150);
        data.read_exact(&mut [0; 100_000]).unwrap();
        file.set_len(128 << 20).unwrap();
        let rest = std::io::copy(&mut data, &mut std::io::sink()).unwrap();
        assert_eq!(rest, (128 << 20) - 100_000);
        let reply = client.reply();
        assert_eq!(reply.code, 451, "{reply}");
        assert!(reply.text().contains("shorter"), "{reply}");
    }
}

#[test]
fn an_aborted_upload_leaves_the_old_file() {
    let server = Running::start();
    server.write("x", "old");
    let mut client = Client::alice(&server);
    let mut data = client.passive();
    client.expect("STOR x", 150);
    data.write_all(b"new").unwrap();
    client.raw(b"ABOR\r\n");
    assert_eq!([client.reply().code, client.reply().code], [426, 226]);
    assert_eq!(server.read("x"), b"old");
}

#[test]
fn the_parts_of_a_file_are_had_by_restart_and_range() {
    let server = Running::start();
    server.write("x", "0123456789");
    let mut client = Client::anonymous(&server);
    client.expect("REST 7", 350);
    assert_eq!(client.fetch("RETR x"), b"789");
    assert_eq!(client.fetch("RETR x"), b"0123456789");
    client.expect("RANG 2 4", 350);
    assert_eq!(client.fetch("RETR x"), b"234");
    client.expect("TYPE A", 200);
    client.expect("REST 7", 501);
}

/// There positions would count CR LF as two (RFC 3659 section 5.1).
#[test]
fn text_is_moved_as_a_whole_only_whenever_type_and_position_were_given() {
    let server = Running::start();
    server.write("x", "01\n345678");
    let mut client = Client::alice(&server);
    let _data = client.passive();
    for (commands, transfer) in [
        (
            [("TYPE I", 200), ("REST 3", 350), ("TYPE A", 200)],
            "RETR x",
        ),
        (
            [("TYPE I", 200), ("REST 3", 350), ("TYPE A", 200)],
            "STOR x",
        ),
        (
            [("TYPE I", 200), ("REST 3", 350), ("TYPE A", 200)],
            "APPE x",
        ),
        (
            [("TYPE I", 200), ("RANG 3 4", 350), ("TYPE A", 200)],
            "RETR x",
        ),
        ([("NOOP", 200), ("RANG 3 4", 350), ("NOOP", 200)], "RETR x"),
        ([("NOOP", 200), ("RANG 0 4", 350), ("NOOP", 200)], "RETR x"),
    ] {
        for (command, code) in commands {
            client.expect(command, code);
        }
        client.expect(transfer, 501);
    }
    // The position was for the refused command.
    assert_eq!(client.fetch("RETR x"), b"01\r\n345678");
    client.expect("RANG 3 4", 350);
    client.expect("RANG 1 0", 350);
    assert_eq!(client.fetch("RETR x"), b"01\r\n345678");
    client.expect("RANG 3 4", 350);
    let hash = client.expect("HASH x", 213).text();
    assert!(hash.starts_with("SHA-256 3-4 "), "{hash}");
    assert_eq!(server.read("x"), b"01\n345678");
}

#[test]
fn text_has_cr_lf_on_the_wire_and_lf_in_files() {
    let server = Running::start();
    let mut client = Client::alice(&server);
    client.expect("TYPE A", 200);
    assert_eq!(client.give("STOR t", b"a\r\nb\r\n").code, 226);
    assert_eq!(server.read("t"), b"a\nb\n");
    assert_eq!(client.fetch("RETR t"), b"a\r\nb\r\n");
    client.expect("SIZE t", 550);
}

#[test]
fn names_are_made_changed_and_removed() {
    let server = Running::start();
    let mut client = Client::alice(&server);
    assert_eq!(
        client.expect("MKD a \"b\"", 257).text(),
        "\"/a \"\"b\"\"\" created"
    );
    client.expect("CWD a \"b\"", 250);
    assert_eq!(client.give("STOR x", b"abc").code, 226);
    client.expect("RNFR x", 350);
    client.expect("RNTO /y", 250);
    client.expect("CDUP", 250);
    client.expect("RMD a \"b\"", 250);
    client.expect("MFMT 19990929003355 y", 213);
    assert_eq!(client.expect("MDTM y", 213).text(), "19990929003355");
    let facts = client.expect("MLST y", 250);
    assert!(
        facts.lines[1].starts_with(b"type=file;size=3;modify=19990929003355;perm=adfrw;"),
        "{facts}"
    );
    assert!(facts.lines[1].ends_with(b"; /y"), "{facts}");
    client.expect("OPTS MLST size;", 200);
    assert_eq!(client.fetch("MLSD"), b" .\r\nsize=3; y\r\n");
    client.passive();
    client.expect("MLSD y", 501);
    assert_eq!(client.expect("STAT y", 213).lines.len(), 3);
    client.expect("DELE y", 250);
    client.expect("DELE y", 550);
    client.expect("STOR .z.fairwind-part", 553);
    let reply = {
        let mut data = client.passive();
        let opening = client.expect("STOU", 150).text();
        data.write_all(b"u").unwrap();
        drop(data);
        assert_eq!(client.reply().code, 226);
        opening
    };
    assert_eq!(server.read(reply.strip_prefix("FILE: ").unwrap()), b"u");
}

#[test]
fn checksums_are_made_of_files_and_their_parts() {
    let server = Running::start();
    server.write("x", "xabcx");
    let mut client = Client::anonymous(&server);
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    client.expect("RANG 1 3", 350);
    assert_eq!(
        client.expect("HASH x", 213).text(),
        format!("SHA-256 1-3 {abc} /x")
    );
    assert_eq!(
        client.expect("XSHA256 \"x\" 1 4", 250).text(),
        abc.to_uppercase()
    );
    assert_eq!(
        client.expect("XMD5 x 1 4", 250).text(),
        "900150983CD24FB0D6963F7D28E17F72"
    );
    client.expect("XCRC x 1 9", 501);
    client.expect("OPTS HASH MD5", 200);
    assert!(
        client
            .expect("FEAT", 211)
            .text()
            .contains("HASH SHA-256;SHA-512;SHA-1;MD5*;CRC32")
    );
    client.expect("OPTS HASH ROT13", 504);
    huge(&server);
    client.raw(b"HASH huge\r\nABOR\r\n");
    assert_eq!([client.reply().code, client.reply().code], [426, 226]);
}

#[test]
fn one_address_has_so_many_sessions_and_no_more() {
    let server = Running::with(|config| config.limits.sessions_per_address = 2);
    let first = Client::connect(server.address);
    let _second = Client::connect(server.address);
    assert_eq!(Client::greeted(server.address).1.code, 421);
    drop(first);
    eventually("a place is free", || {
        Client::greeted(server.address).1.code == 220
    });
}

#[test]
fn idle_sessions_and_transfers_that_stand_still_end() {
    let server = Running::with(|config| {
        config.limits.idle_s = 1;
        config.limits.stalled_s = 1;
        config.limits.connect_s = 1;
    });
    huge(&server);
    let mut transferring = Client::anonymous(&server);
    let mut forgotten = Client::anonymous(&server);
    let mut idle = Client::anonymous(&server);
    let data = transferring.passive();
    transferring.expect("RETR huge", 150);
    forgotten.expect("PASV", 227);
    forgotten.expect("RETR huge", 150);
    assert_eq!(idle.reply().code, 421);
    assert!(idle.is_closed());
    assert_eq!(transferring.reply().code, 426);
    assert_eq!(forgotten.reply().code, 425);
    drop(data);
}

#[test]
fn a_server_that_stops_says_so() {
    let mut server = Running::start();
    huge(&server);
    let mut idle = Client::anonymous(&server);
    let mut transferring = Client::anonymous(&server);
    let _data = transferring.passive();
    transferring.expect("RETR huge", 150);
    server.stop();
    assert_eq!(idle.reply().code, 421);
    assert_eq!(transferring.reply().code, 426);
}

#[test]
fn a_server_that_stops_waits_for_no_client_that_has_quit() {
    let mut server = Running::start();
    huge(&server);
    let mut client = Client::anonymous(&server);
    let mut data = client.passive();
    client.raw(b"RETR huge\r\nQUIT\r\n");
    assert_eq!(client.reply().code, 150);
    data.read_exact(&mut [0; 100_000]).unwrap();
    server.stop();
    assert_eq!(client.reply().code, 426);
}

#[test]
fn every_transfer_of_a_file_is_logged() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let server = Running::with(|config| config.xferlog = Some(log.path().to_owned()));
    server.write("a file", "abc");
    let mut client = Client::anonymous(&server);
    client.fetch("RETR a file");
    client.fetch("LIST");
    let mut client = Client::alice(&server);
    client.give("STOR y", b"12345");
    let mut text = String::new();
    eventually("both are logged", || {
        text = std::fs::read_to_string(log.path()).unwrap();
        text.lines().count() == 2
    });
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].ends_with(" 1 127.0.0.1 3 /a_file b _ o a me@example.org ftp 0 * c"),
        "{text}"
    );
    assert!(
        lines[1].ends_with(" 1 127.0.0.1 5 /y b _ i r alice ftp 0 * c"),
        "{text}"
    );
}

#[test]
fn a_log_that_hangs_keeps_nobody_waiting() {
    let (release, hang) = mpsc::channel::<()>();
    let (hang, opened) = (Mutex::new(hang), AtomicUsize::new(0));
    let server = Running::with(|config| {
        config.xferlog = Some("log".into());
        config.log_opener = LogOpener::by(move |_| {
            if opened.fetch_add(1, Ordering::Relaxed) > 0 {
                let _ = hang.lock().unwrap().recv();
            }
            tempfile::tempfile()
        });
    });
    server.write("x", "abc");
    // More than there are threads for control connections.
    let mut clients: Vec<Client> = (0..4).map(|_| Client::anonymous(&server)).collect();
    for client in &mut clients {
        assert_eq!(client.fetch("RETR x"), b"abc");
    }
    for client in &mut clients {
        client.expect("NOOP", 200);
    }
    drop(release);
}
