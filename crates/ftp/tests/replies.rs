//! Replies to commands on names: what they say of those that do not exist or are of the wrong kind, where programs act
//! on the code alone, and how they tell a name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use crate::common::{Client, Running};

#[test]
fn what_is_not_there_is_told_by_550_and_what_is_no_directory_by_501() {
    let server = Running::start();
    server.write("file", "abc");
    let mut client = Client::alice(&server);
    let long = "n".repeat(256);
    for command in [
        "MLSD nothing",
        "MLSD nothing/below",
        "MLSD file/below",
        "LIST nothing",
        "LIST -la nothing",
        "NLST nothing",
        "MLST nothing",
        "STAT nothing",
        "SIZE nothing",
        "MDTM nothing",
        "RETR nothing",
        "CWD nothing",
        "CWD file",
        "RNFR nothing",
        "RNFR /",
        "DELE nothing",
        "RMD nothing",
        "RMD file",
        "MKD file",
        "MKD nothing/below",
        "STOR nothing/below",
        &format!("SIZE {long}"),
        &format!("CWD {long}"),
        &format!("MLSD {long}"),
    ] {
        client.passive();
        client.expect(command, 550);
    }
    client.passive();
    client.expect("MLSD file", 501);
}

#[test]
fn names_that_cannot_be_made_are_told_by_553() {
    let server = Running::start();
    server.write("file", "abc");
    let mut client = Client::alice(&server);
    client.expect("MKD d", 257);
    let long = "n".repeat(256);
    client.passive();
    client.expect(&format!("STOR {long}"), 553);
    client.expect(&format!("MKD {long}"), 553);
    for to in [long.as_str(), ".x.fairwind-part"] {
        client.expect("RNFR file", 350);
        client.expect(&format!("RNTO {to}"), 553);
    }
    client.expect("RNFR d", 350);
    assert_eq!(
        client.expect("RNTO d/below", 553).text(),
        "File name not allowed"
    );
}

#[test]
fn a_link_that_leads_nowhere_is_told_and_renamed_as_what_it_is() {
    let server = Running::start();
    symlink("nothing", server.path("link")).unwrap();
    let mut client = Client::alice(&server);
    let facts = client.expect("MLST link", 250).text();
    assert!(facts.contains("type=OS.unix=symlink;"), "{facts}");
    client.expect("RNFR link", 350);
    client.expect("RNTO other", 250);
    assert!(server.path("other").is_symlink());
    client.expect("DELE other", 250);
    assert!(!server.path("other").is_symlink());
}

#[test]
fn names_are_told_with_the_bytes_that_they_have() {
    let server = Running::start();
    let mut client = Client::alice(&server);
    client.expect("OPTS MLST type;", 200);
    // In Latin-1.
    for (command, reply) in [
        (
            &b"MKD p\xfcb \"x\""[..],
            &b"257 \"/p\xfcb \"\"x\"\"\" created\r\n"[..],
        ),
        (
            b"CWD p\xfcb \"x\"",
            b"250 \"/p\xfcb \"\"x\"\"\" is the working directory\r\n",
        ),
        (
            b"PWD",
            b"257 \"/p\xfcb \"\"x\"\"\" is the working directory\r\n",
        ),
        (
            b"MLST",
            b"250-Facts:\r\n type=dir; /p\xfcb \"x\"\r\n250 End\r\n",
        ),
        (
            b"STAT .",
            b"212-Status of /p\xfcb \"x\":\r\n212 End of status\r\n",
        ),
    ] {
        let told = client.exchange(command);
        assert_eq!(told, reply, "{}", told.escape_ascii());
    }
    assert_eq!(client.give("STOR file", b"abc").code, 226);
    client.exchange(b"RNFR file");
    client.exchange(b"RNTO \xe9");
    for (command, end) in [
        (&b"STAT"[..], &b", in /p\xfcb \"x\"\r\n"[..]),
        (b"STAT \xe9", b" \xe9\r\n"),
        (b"STAT /", b" p\xfcb \"x\"\r\n"),
        (b"HASH \xe9", b" /p\xfcb \"x\"/\xe9\r\n"),
        (b"SITE CHMOD 640 \xe9", b" for /p\xfcb \"x\"/\xe9\r\n"),
        (b"MFMT 19990929003355 \xe9", b"; /p\xfcb \"x\"/\xe9\r\n"),
    ] {
        let told = client.exchange(command);
        let has_end = told.windows(end.len()).any(|part| part == end);
        assert!(has_end, "{}", told.escape_ascii());
    }
    for (command, opening) in [
        (
            &b"STOR \xe8"[..],
            &b"150 Receiving /p\xfcb \"x\"/\xe8\r\n"[..],
        ),
        (
            b"RETR \xe8",
            b"150 Sending /p\xfcb \"x\"/\xe8 (0 bytes)\r\n",
        ),
        (b"NLST", b"150 Listing /p\xfcb \"x\"\r\n"),
    ] {
        let data = client.passive();
        let told = client.exchange(command);
        assert_eq!(told, opening, "{}", told.escape_ascii());
        drop(data);
        client.reply();
    }
}

#[test]
fn a_client_that_repeats_what_it_is_told_finds_it() {
    let server = Running::start();
    let mut client = Client::alice(&server);
    for (sent, name, told) in [
        // Telnet's escape byte is doubled, by the server in any case.
        (
            &b"a\xff\xff\xf4"[..],
            &b"a\xff\xf4"[..],
            &b"a\xff\xff\xf4"[..],
        ),
        (b"b\xffc", b"b\xffc", b"b\xff\xffc"),
        // Controls of ISO 8859, in UTF-8 and without, are no ends of lines.
        (b"d\xc2\x85", b"d\xc2\x85", b"d\xc2\x85"),
        (b"e\x85", b"e\x85", b"e\x85"),
    ] {
        let made = client.exchange(&[b"MKD /", sent].concat());
        let expected = [b"257 \"/", told, b"\" created\r\n"].concat();
        assert_eq!(made, expected, "{}", made.escape_ascii());
        assert!(server.dir.path().join(OsStr::from_bytes(name)).is_dir());
        let entered = client.exchange(&[b"CWD /", told].concat());
        assert!(entered.starts_with(b"250 "), "{}", entered.escape_ascii());
    }
}

#[test]
fn control_characters_of_names_are_not_sent_in_replies() {
    let server = Running::start();
    let mut client = Client::alice(&server);
    let made = client.exchange(b"MKD a\tb\x1b\x7f\rc");
    assert_eq!(made, b"257 \"/a?b???c\" created\r\n");
    std::fs::create_dir(server.path("x\n212 y")).unwrap();
    let listed = client.exchange(b"STAT /");
    assert!(listed.ends_with(b" x?212 y\r\n212 End of status\r\n"));
}
