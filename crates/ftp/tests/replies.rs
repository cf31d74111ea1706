//! Replies to commands on names that do not exist or are of the wrong kind: programs act on the code alone.

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
