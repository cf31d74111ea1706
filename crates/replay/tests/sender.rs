//! Replays the exchanges in `recordings/` into the simulator's sender; needs no privileges.
//! `docs/measurements/replay.md` describes how they were made.

use std::fs;
use std::path::Path;

use fairwind_cc::native::find;
use fairwind_replay::exchange::Exchange;
use fairwind_replay::path;
use fairwind_replay::sender::replay;

const RECOVERY: u32 = 3;
const LOSS: u32 = 4;

fn exchanges() -> Vec<Exchange> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "fwx"))
        .map(|file| Exchange::read(&file).unwrap())
        .collect()
}

#[test]
fn the_simulators_sender_stands_before_the_acks_as_the_kernels_did() {
    for exchange in exchanges() {
        let parameters = find(&exchange.control).unwrap().default_parameters();
        let agreement = replay(&exchange, &parameters);
        assert!(agreement.acks > 100, "{}", exchange.path);
        assert_eq!(
            agreement.acks, agreement.alike,
            "{} over {}: {:?}",
            exchange.control, exchange.path, agreement.first_difference
        );
    }
}

#[test]
fn every_slow_path_is_recorded_with_both_controls_and_losses_of_each_kind_are_met() {
    let exchanges = exchanges();
    let mut found: Vec<(&str, &str)> = exchanges
        .iter()
        .map(|exchange| (exchange.path.as_str(), exchange.control.as_str()))
        .collect();
    let paths = path::slow();
    let mut expected: Vec<(&str, &str)> = paths
        .iter()
        .flat_map(|path| [(path.name, "reno"), (path.name, "cubic")])
        .collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let acks_in = |state| {
        let acks = exchanges.iter().flat_map(|exchange| &exchange.acks);
        acks.filter(|ack| ack.before.ca_state == state).count()
    };
    assert!(acks_in(RECOVERY) > 200, "{}", acks_in(RECOVERY));
    assert!(acks_in(LOSS) > 20, "{}", acks_in(LOSS));
}

#[test]
fn a_sender_that_does_otherwise_does_not_pass_for_the_kernels() {
    let exchanges = exchanges();
    let full_queue =
        |exchange: &&Exchange| exchange.path == "slow full queue" && exchange.control == "reno";
    let exchange = exchanges.iter().find(full_queue).unwrap();
    let cubic = replay(exchange, &find("cubic").unwrap().default_parameters());
    assert!(cubic.alike < cubic.acks);

    // Even a single packet counted differently before a single ACK is detected.
    let mut changed = exchange.clone();
    changed.acks[90].before.retrans_out += 1;
    let reno = replay(&changed, &find("reno").unwrap().default_parameters());
    assert_eq!(reno.first_difference.unwrap().index, 90);
    assert_eq!(reno.alike, reno.acks - 1);
}
