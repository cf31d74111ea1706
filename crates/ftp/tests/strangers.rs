//! What strangers can do to a server: use up its memory, its ports, its processors, its patience.

use std::net::{IpAddr, Ipv4Addr};
use std::thread;

use argon2::password_hash::PasswordHasher;
use argon2::{Argon2, Params};

use crate::common::{Client, Process};

/// What the whole server may take, KiB.
const MEMORY: u64 = 64 << 10;

/// An address of loopback.
fn loopback(number: usize) -> IpAddr {
    IpAddr::from(Ipv4Addr::from_bits(0x7f01_0000 + number as u32))
}

/// A user `bob` whose password `secret` is looked at in no time.
fn bob() -> String {
    let cheap = Argon2::from(Params::new(8, 1, 1, None).unwrap());
    let hash = cheap.hash_password(b"secret").unwrap();
    format!("[[user]]\nname = \"bob\"\npassword = \"{hash}\"\nwrite = true\n")
}

/// Logs in and out by name and password; answers the code of the last reply.
fn log_in(client: &mut Client, name: &str, password: &str) -> u16 {
    client.expect(&format!("USER {name}"), 331);
    let code = client.say(&format!("PASS {password}")).code;
    client.expect("REIN", 220);
    code
}

/// Twenty at a time, 10,000 in all: a tenth of them by alice, whose hash takes 19 MiB.
#[test]
fn ten_thousand_logins_of_any_kind_leave_less_than_64_mib() {
    let dir = tempfile::tempdir().unwrap();
    let limits = "[limits]\nlogin_pause_ms = 0\nlogin_failures = 100000\n";
    let server = Process::with_settings(dir.path(), &format!("{limits}{}", bob()));
    let address = server.address;
    let kinds = [
        ("anonymous", "me@example.org", 230),
        ("bob", "secret", 230),
        ("bob", "wrong", 530),
    ];
    let crowd: Vec<_> = (0..20)
        .map(|number| {
            thread::spawn(move || {
                for session in 0..50 {
                    let (mut client, _) = Client::from(loopback(number), address);
                    for login in 0..9 {
                        let (name, password, code) = kinds[login % kinds.len()];
                        assert_eq!(log_in(&mut client, name, password), code, "{name}");
                    }
                    let (name, password, code) = match session % 3 {
                        0 => ("alice", "secret", 230),
                        1 => ("alice", "wrong", 530),
                        _ => ("nobody", "secret", 530),
                    };
                    assert_eq!(log_in(&mut client, name, password), code, "{name}");
                }
            })
        })
        .collect();
    for client in crowd {
        client.join().unwrap();
    }
    let (now, most) = (server.kib("VmRSS"), server.kib("VmHWM"));
    println!("after 10,000 logins: {now} KiB, {most} KiB at most");
    assert!(most < MEMORY, "{most} KiB, {now} KiB now");
}
