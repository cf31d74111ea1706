//! Virtual hosts that clients choose by HOST (RFC 7151): the directives of the chosen one hold.

use fairwind_testing::advisor::TestAdvisor;
use fairwind_testing::{Proftpd, ProftpdFolder, or_skip};
use serde_json::json;

use super::{NEVER, by, fetch, other_control};
use crate::common::{Client, noise};

/// A server with these lines, and a host `b.example` at the same port with those.
fn start(folder: &ProftpdFolder, own: &str, of_host: &str) -> Proftpd {
    let users = folder.path("users");
    folder.start(&format!(
        "{own}\n<VirtualHost 127.0.0.1>\nPort @PORT@\nServerAlias b.example\nAuthOrder mod_auth_file.c\n\
         AuthUserFile {}\nRequireValidShell off\nUseFtpUsers off\nWtmpLog off\nUseLastlog off\n{of_host}\n</VirtualHost>",
        users.display()
    ))
}

fn at(server: &Proftpd, host: Option<&str>) -> Client {
    let mut client = Client::connect(server.address);
    if let Some(host) = host {
        client.expect(&format!("HOST {host}"), 220);
    }
    client.login("alice", "secret");
    client
}

#[test]
fn the_directives_of_the_host_that_the_client_chooses_hold() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    folder.serve("x", &noise(2_000_000));
    let advisor = TestAdvisor::answering(vec![by(&json!(other_control()), NEVER)]);
    let log = folder.path("b.log");
    let asks = format!(
        "FairwindEngine on\nFairwindAdvisor {}\nFairwindTimeout 5000\nFairwindMode observe\nFairwindLog {}",
        advisor.url(),
        log.display()
    );
    // On at the host alone.
    let server = start(&folder, "FairwindEngine off", &asks);
    fetch(&mut at(&server, None), "RETR x");
    assert_eq!(advisor.asked(), [""; 0]);
    fetch(&mut at(&server, Some("b.example")), "RETR x");
    assert_eq!(advisor.asked().len(), 1);
    let said = folder.text("b.log");
    assert!(said.contains(&other_control()), "{said}");
    assert_eq!(folder.text("fairwind.log"), "");
    Client::connect(server.address).expect("HOST c.example", 504);
    drop(server);
    // On everywhere else.
    let server = start(&folder, &asks, "FairwindEngine off");
    fetch(&mut at(&server, Some("b.example")), "RETR x");
    assert_eq!(advisor.asked().len(), 1);
    fetch(&mut at(&server, None), "RETR x");
    assert_eq!(advisor.asked().len(), 2);
}
