//! Which hops decide, and what is reported about the others.

use crate::common::time;
use fairwind_advice::{
    Advice, History, Hop, Mode, Request, Role, Sample, Samples, Settings, advise, deciding,
};
use jiff::{SignedDuration, Timestamp};

const NOW: &str = "2026-03-04T14:00:00Z";

/// A hop with `tests` tests, one every `every` minutes, the last of them `ago` minutes before now, each
/// with `mbps` Mbit/s.
fn hop(name: &str, role: Role, every: i64, tests: i32, ago: i64, mbps: f64) -> Hop {
    let newest = time(NOW) - SignedDuration::from_mins(ago);
    let every = SignedDuration::from_mins(every);
    let mut samples = Samples::new();
    for before in (0..tests).rev() {
        let sample = Sample {
            time: newest - every * before,
            available_mbps: mbps,
        };
        samples.insert(sample, Timestamp::MAX).unwrap();
    }
    Hop::new(name, samples).with_role(role)
}

fn history(hops: &[Hop]) -> History {
    History {
        hops: hops.to_vec(),
        rtt: None,
    }
}

/// A path of the operator's own with a threshold of 42 Mbit/s, whose tests are stale after 15 minutes.
fn settings() -> Settings {
    Settings {
        threshold_mbps: Some(42.0),
        own_path: true,
        ..Settings::default()
    }
}

fn ask(hops: &[Hop]) -> Advice {
    advise(&history(hops), &Request::default(), time(NOW), &settings())
}

/// The mode, and the names of the hops that decide.
fn outcome(hops: &[Hop]) -> (Mode, Vec<String>) {
    let history = history(hops);
    let names = deciding(&history, time(NOW), &settings());
    let names = names.into_iter().map(str::to_owned).collect();
    (ask(hops).mode, names)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A router that is polled every five minutes and is not congested.
fn router() -> Hop {
    hop("router", Role::Found, 5, 100, 1, 60.0)
}

#[test]
fn a_hop_that_came_with_one_test_is_forgotten_when_that_is_stale() {
    let fresh = hop("ruoter", Role::Found, 5, 1, 14, 60.0);
    let stale = hop("ruoter", Role::Found, 5, 1, 16, 60.0);
    let both = names(&["router", "ruoter"]);
    assert_eq!(
        outcome(&[router(), fresh]),
        (Mode::NoCongestionControl, both)
    );
    let one = names(&["router"]);
    assert_eq!(
        outcome(&[router(), stale.clone()]),
        (Mode::NoCongestionControl, one)
    );
    let reason = ask(&[router(), stale]).reason;
    let expected =
        "; ruoter does not count any more, its newest test is 960 s old: declare it if it should";
    assert!(reason.ends_with(expected), "{reason}");
}

#[test]
fn a_hop_that_falls_silent_is_waited_for_twelve_times_as_long_as_it_used_to_be_silent() {
    // Tested every five minutes: forgotten after an hour.
    for (ago, mode) in [
        (15, Mode::NoCongestionControl),
        (16, Mode::CongestionControl),
        (60, Mode::CongestionControl),
        (61, Mode::NoCongestionControl),
    ] {
        let second = hop("second", Role::Found, 5, 100, ago, 60.0);
        assert_eq!(ask(&[router(), second]).mode, mode, "{ago} minutes");
    }
    // A hop tested every minute is not forgotten before its tests are stale.
    let often = |ago| hop("often", Role::Found, 1, 100, ago, 41.0);
    assert_eq!(ask(&[router(), often(15)]).mode, Mode::CongestionControl);
    assert_eq!(ask(&[router(), often(16)]).mode, Mode::NoCongestionControl);
}

#[test]
fn a_declared_hop_is_never_forgotten() {
    let declared = hop("declared", Role::Declared, 5, 1, 60 * 24 * 30, 60.0);
    let (mode, deciding) = outcome(&[router(), declared]);
    assert_eq!(mode, Mode::CongestionControl);
    assert_eq!(deciding, names(&["router", "declared"]));
    let untested = Hop::new("untested", Samples::new());
    assert_eq!(ask(&[router(), untested]).mode, Mode::CongestionControl);
}

#[test]
fn a_found_hop_without_tests_decides_nothing() {
    let empty = Hop::new("once declared", Samples::new()).with_role(Role::Found);
    let expected = (Mode::NoCongestionControl, names(&["router"]));
    assert_eq!(outcome(&[router(), empty.clone()]), expected);
    let reason = ask(&[empty]).reason;
    assert!(reason.contains("no hop is watched"), "{reason}");
}

#[test]
fn where_all_have_fallen_silent_nothing_is_tested() {
    let (a, b) = (
        hop("a", Role::Found, 5, 100, 60 * 24, 60.0),
        hop("b", Role::Found, 5, 100, 60 * 25, 60.0),
    );
    let (mode, deciding) = outcome(&[a.clone(), b.clone()]);
    assert_eq!((mode, deciding), (Mode::CongestionControl, names(&["a"])));
    let reason = ask(&[a, b]).reason;
    assert!(
        reason.contains("the newest test of a is 86400 s old"),
        "{reason}"
    );
}

#[test]
fn transfers_decide_where_no_hop_does() {
    // Beside a router, transfers do not count, however slow or old they are.
    for transfers in [
        hop("transfers", Role::Makeshift, 5, 1, 1, 10.0),
        hop("transfers", Role::Makeshift, 5, 1, 60 * 24, 10.0),
    ] {
        let expected = (Mode::NoCongestionControl, names(&["router"]));
        assert_eq!(outcome(&[router(), transfers.clone()]), expected);
        let alone = (Mode::CongestionControl, names(&["transfers"]));
        assert_eq!(outcome(&[transfers]), alone);
    }
    let fast = hop("transfers", Role::Makeshift, 5, 1, 1, 60.0);
    let silent = hop("router", Role::Found, 5, 100, 60 * 24, 60.0);
    let expected = (Mode::NoCongestionControl, names(&["transfers"]));
    assert_eq!(outcome(&[silent, fast]), expected);
}

#[test]
fn transfers_that_are_declared_tests_decide_beside_hops_while_they_are_recent() {
    let transfers = |ago, mbps| hop("transfers", Role::Transfers, 5, 1, ago, mbps);
    for (transfers, mode) in [
        (transfers(14, 60.0), Mode::NoCongestionControl),
        (transfers(14, 10.0), Mode::CongestionControl),
        (transfers(16, 10.0), Mode::NoCongestionControl),
    ] {
        assert_eq!(ask(&[router(), transfers]).mode, mode);
    }
    let (mode, deciding) = outcome(&[transfers(16, 60.0)]);
    assert_eq!(
        (mode, deciding),
        (Mode::CongestionControl, names(&["transfers"]))
    );
}
