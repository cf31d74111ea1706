//! Estimates beside the truth by the bottleneck's counters, in the simulator.

mod cells;

use cells::{
    CUBIC, Cell, Cross, EIGHT_CUBIC, EIGHT_RENO, Errors, Policer, Queue, Trouble, quantile,
};
use fairwind_estimate::Unknown;

/// Runs a cell with some load.
fn errors(mbps: f64, rtt_ms: f64, cross: Cross) -> Errors {
    errors_in(mbps, rtt_ms, cross, Trouble::default())
}

fn errors_in(mbps: f64, rtt_ms: f64, cross: Cross, trouble: Trouble) -> Errors {
    let cell = Cell {
        mbps,
        rtt_ms,
        cross,
        queue: Queue::Fifo,
        seconds: 20.0,
        seed: 3,
        trouble,
    };
    let errors = Errors::of(&cell, &cell.run(false), 8.0);
    assert!(errors.estimates > 10, "{cell:?}: {}", errors.estimates);
    errors
}

fn sizes(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| value.abs()).collect()
}

#[test]
fn datagrams_leave_what_the_estimate_says() {
    for mbps in [10.0, 100.0, 500.0] {
        for load in [0.0, 0.3, 0.6, 0.9] {
            let errors = errors(mbps, 50.0, Cross::Datagrams(load));
            let available = sizes(&errors.available);
            let (median, p95) = (quantile(&available, 0.5), quantile(&available, 0.95));
            assert!(median < 0.02, "{mbps} Mbit/s, load {load}: median {median}");
            assert!(p95 < 0.05, "{mbps} Mbit/s, load {load}: 95 % {p95}");
            let capacity = quantile(&sizes(&errors.capacity), 0.5);
            assert!(
                capacity < 0.05,
                "{mbps} Mbit/s, load {load}: capacity {capacity}"
            );
        }
    }
}

#[test]
fn a_transfer_that_fills_the_link_leaves_next_to_nothing() {
    let errors = errors(100.0, 20.0, CUBIC);
    let available = sizes(&errors.available);
    assert!(quantile(&available, 0.5) < 0.05);
    assert!(quantile(&available, 0.95) < 0.15);
}

#[test]
fn a_new_estimate_comes_every_two_round_trips_if_the_path_carries_much_in_them() {
    for load in [0.0, 0.3, 0.6] {
        let every = errors(100.0, 50.0, Cross::Datagrams(load)).every_rtts;
        assert!(every < 2.0, "{every} at load {load}");
    }
}

#[test]
fn random_losses_lost_acks_and_reverse_traffic_are_noise_and_no_error() {
    let troubles = [
        Trouble {
            loss: 0.01,
            ..Trouble::default()
        },
        Trouble {
            ack_loss: 0.1,
            ..Trouble::default()
        },
        Trouble {
            reverse: 0.7,
            ..Trouble::default()
        },
    ];
    for trouble in troubles {
        let errors = errors_in(100.0, 50.0, Cross::Datagrams(0.6), trouble);
        let available = sizes(&errors.available);
        let (median, p95) = (quantile(&available, 0.5), quantile(&available, 0.95));
        assert!(median < 0.05, "{trouble:?}: median {median}");
        assert!(p95 < 0.15, "{trouble:?}: 95 % {p95}");
        let capacity = quantile(&sizes(&errors.capacity), 0.5);
        assert!(capacity < 0.1, "{trouble:?}: capacity {capacity}");
    }
}

/// What is said from 12 s on behind this queue: small shares take as long for a few fast trains, without
/// which the capacity is vague.
fn behind(queue: Queue, mbps: f64, rtt_ms: f64, cross: Cross) -> Errors {
    let cell = Cell {
        mbps,
        rtt_ms,
        cross,
        queue,
        seconds: 20.0,
        seed: 3,
        trouble: Trouble::default(),
    };
    Errors::of(&cell, &cell.run(false), 12.0)
}

#[test]
fn the_share_that_fair_queueing_gives_is_no_estimate() {
    // Behind WFQ, first packets of one of two flows are hardly faster.
    for (queue, crosses) in [
        (Queue::FqCodel, &[CUBIC, EIGHT_CUBIC][..]),
        (Queue::Wfq, &[EIGHT_CUBIC]),
    ] {
        for (mbps, rtt_ms) in [(10.0, 50.0), (30.0, 50.0), (100.0, 20.0)] {
            for &cross in crosses {
                let said = behind(queue, mbps, rtt_ms, cross);
                let cell = format!("{queue:?}, {mbps} Mbit/s, {cross:?}");
                assert_eq!(said.why, Some(Unknown::FairQueueing), "{cell}");
                let all = said.unknown + said.estimates;
                assert!(2 * said.fair > all, "{cell}: {} of {all}", said.fair);
                assert!(10 * said.estimates <= all, "{cell}: {}", said.estimates);
            }
        }
    }
}

#[test]
fn a_queue_in_order_of_arrival_is_not_taken_for_fair_queueing() {
    let loads = [0.0, 0.3, 0.6, 0.9].map(Cross::Datagrams);
    for cross in loads.into_iter().chain([CUBIC, EIGHT_CUBIC, EIGHT_RENO]) {
        for (mbps, rtt_ms) in [(10.0, 50.0), (30.0, 50.0), (100.0, 20.0), (500.0, 5.0)] {
            let said = behind(Queue::Fifo, mbps, rtt_ms, cross);
            assert_eq!(said.fair, 0, "{mbps} Mbit/s, {cross:?}");
        }
    }
    // Nor is a fair queue that has nothing else in it.
    let idle = behind(Queue::FqCodel, 30.0, 50.0, Cross::Datagrams(0.0));
    assert_eq!(idle.unknown, 0);
}

#[test]
fn behind_a_policer_its_rate_is_told() {
    for (mbps, rtt_ms, share, burst) in [
        (20.0, 20.0, 0.4, 20_000),
        (20.0, 20.0, 0.75, 20_000),
        (100.0, 50.0, 0.2, 60_000),
        (500.0, 20.0, 0.5, 20_000),
    ] {
        let policer = Some(Policer { share, burst });
        let trouble = Trouble {
            policer,
            ..Trouble::default()
        };
        let errors = errors_in(mbps, rtt_ms, Cross::Datagrams(0.0), trouble);
        let cell = format!("{mbps} Mbit/s, {policer:?}");
        assert_eq!(errors.policed, errors.estimates, "{cell}");
        assert!(errors.unknown <= errors.estimates / 10, "{cell}");
        let available = sizes(&errors.available);
        let (median, p95) = (quantile(&available, 0.5), quantile(&available, 0.95));
        assert!(median < 0.05, "{cell}: median {median}");
        assert!(p95 < 0.15, "{cell}: 95 % {p95}");
    }
}

#[test]
fn random_losses_are_no_policer() {
    for loss in [0.01, 0.05] {
        for load in [0.0, 0.3, 0.6] {
            for (mbps, rtt_ms) in [(10.0, 50.0), (100.0, 20.0)] {
                let trouble = Trouble {
                    loss,
                    ..Trouble::default()
                };
                let errors = errors_in(mbps, rtt_ms, Cross::Datagrams(load), trouble);
                assert_eq!(errors.policed, 0, "{mbps} Mbit/s, load {load}, {trouble:?}");
            }
        }
    }
}
