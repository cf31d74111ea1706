//! Telnet's Synch, which comes as urgent data (RFC 959 section 4.1.3, RFC 854).

use rustix::net::{SendFlags, send};

use crate::common::{Client, Running};

/// The kernel ends a read before urgent data. Which bytes come together is a matter of chance: hence so many.
#[test]
fn abor_behind_urgent_data_is_answered_however_it_arrives() {
    let server = Running::start();
    let mut client = Client::anonymous(&server);
    for _ in 0..300 {
        client.raw(b"\xff\xf4");
        send(&client.stream, b"\xff", SendFlags::OOB).unwrap();
        client.raw(b"\xf2ABOR\r\n");
        assert_eq!(client.reply().code, 226);
    }
}
