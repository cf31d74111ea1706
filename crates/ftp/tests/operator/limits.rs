//! Networks, sessions and rates.

use std::io::Read;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Client, Process, Running, eventually, loopback, noise, own_address};

#[test]
fn only_clients_of_admitted_networks_are_served() {
    let (welcome, unwelcome) = (loopback(0x0f_0001), loopback(0x0f_0101));
    let server = Running::with(|config| {
        config.allow = vec!["127.16.0.0/16".parse().unwrap()];
        config.deny = vec!["127.16.1.0/24".parse().unwrap()];
    });
    let (mut client, greeting) = Client::from(welcome, server.address);
    assert_eq!(greeting.code, 220);
    client.login("alice", "secret");
    for address in [unwelcome, own_address()] {
        let (mut client, greeting) = Client::from(address, server.address);
        assert_eq!(greeting.code, 421);
        assert!(client.is_closed());
    }
}

#[test]
fn the_server_has_so_many_sessions_wherever_they_come_from() {
    let server = Running::with(|config| config.limits.sessions = 2);
    let greeted = || Client::from(own_address(), server.address);
    let (first, second) = (greeted(), greeted());
    assert_eq!([first.1.code, second.1.code], [220, 220]);
    let (mut third, greeting) = greeted();
    assert_eq!(greeting.code, 421);
    assert!(third.is_closed());
    drop(first);
    eventually("a place is free", || greeted().1.code == 220);
}

#[test]
fn a_user_has_so_many_sessions_and_a_place_is_free_again_after_the_last_word() {
    let server = Running::with(|config| config.limits.sessions_per_user = 2);
    let (mut first, _second) = (Client::alice(&server), Client::alice(&server));
    let mut third = Client::connect(server.address);
    third.expect("USER alice", 331);
    third.expect("PASS secret", 530);
    Client::anonymous(&server);
    // A name that starts over has no session any more.
    first.expect("REIN", 220);
    third.login("alice", "secret");
    third.expect("QUIT", 221);
    eventually("the place is free", || {
        let mut fourth = Client::connect(server.address);
        fourth.expect("USER alice", 331);
        fourth.say("PASS secret").code == 230
    });
}

#[test]
fn transfers_keep_to_the_rate_of_their_user_both_ways() {
    let server = Running::with(|config| config.limits.rate_per_user = 400_000);
    let content = noise(200_000);
    let mut client = Client::alice(&server);
    let begin = Instant::now();
    assert_eq!(client.give("STOR x", &content).code, 226);
    assert_eq!(client.fetch("RETR x"), content);
    // The last piece of 20,000 bytes is not waited for.
    assert!(begin.elapsed() > Duration::from_millis(900), "{begin:?}");

    // At that rate it would take 50 s.
    let begin = Instant::now();
    let large = noise(20_000_000);
    server.write("large", &large);
    let mut stranger = Client::anonymous(&server);
    assert!(stranger.fetch("RETR large") == large);
    assert!(begin.elapsed() < Duration::from_secs(40), "{begin:?}");
}

/// Each file takes half a second at the rate.
#[test]
fn sessions_of_an_address_share_its_rate_and_another_has_its_own() {
    let server = Running::with(|config| config.limits.rate_per_address = 400_000);
    let content = noise(200_000);
    server.write("x", &content);
    let fetch = |from: IpAddr| {
        let (mut client, _) = Client::from(from, server.address);
        client.login("anonymous", "me@example.org");
        assert!(client.fetch("RETR x") == content);
    };
    let (shared, other) = (own_address(), own_address());
    let begin = Instant::now();
    let taken = thread::scope(|scope| {
        let fetches = [shared, shared, shared, other].map(|from| {
            scope.spawn(move || {
                fetch(from);
                begin.elapsed()
            })
        });
        fetches.map(|fetch| fetch.join().unwrap())
    });
    // The last pieces of each, of 20,000 bytes, are not waited for, nor is the first of all.
    let last = taken[..3].iter().max().unwrap();
    assert!(*last > Duration::from_millis(1_250), "{taken:?}");
    assert!(taken[3] < *last, "{taken:?}");
}

/// Each file takes half a second at the rate.
#[test]
fn all_sessions_share_the_rate_of_all() {
    let server = Running::with(|config| config.limits.rate = 400_000);
    let content = noise(200_000);
    server.write("x", &content);
    let fetch = |user: Option<&str>| {
        let (mut client, _) = Client::from(own_address(), server.address);
        match user {
            Some(user) => client.login(user, "secret"),
            None => client.login("anonymous", "me@example.org"),
        }
        assert!(client.fetch("RETR x") == content);
    };
    let begin = Instant::now();
    thread::scope(|scope| {
        for user in [None, None, Some("alice")] {
            scope.spawn(move || fetch(user));
        }
    });
    // As above.
    let taken = begin.elapsed();
    assert!(taken > Duration::from_millis(1_250), "{taken:?}");
}

#[test]
fn a_transfer_that_waits_for_its_rate_can_be_stopped() {
    let server = Running::with(|config| config.limits.rate = 2_000);
    server.write("x", noise(1_000_000));
    let mut client = Client::anonymous(&server);
    let _data = client.passive();
    client.expect("RETR x", 150);
    client.raw(b"ABOR\r\n");
    assert_eq!(client.reply().code, 426);
    assert_eq!(client.reply().code, 226);
}

/// 20,000 names of 250 bytes, which 20 listings would hold twenty times.
#[test]
fn listings_that_nobody_reads_take_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..20_000 {
        std::fs::write(dir.path().join(format!("{number:0250}")), "").unwrap();
    }
    let server = Process::start(dir.path());
    let before = server.kib("VmRSS");
    let mut listings = Vec::new();
    for command in ["NLST", "NLST *"].repeat(10) {
        let mut client = Client::connect(server.address);
        client.login("anonymous", "me@example.org");
        let mut data = client.passive();
        client.expect(command, 150);
        // It has begun.
        data.read_exact(&mut [0]).unwrap();
        listings.push((client, data));
    }
    let grown = server.kib("VmHWM") - before;
    println!("{} listings: {grown} KiB", listings.len());
    assert!(grown < 32 << 10, "{grown} KiB");
    for (client, data) in &mut listings[..2] {
        let mut rest = Vec::new();
        data.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len() + 1, 20_000 * 252);
        assert_eq!(client.reply().code, 226);
    }
}
