//! The kernel's reno and cubic, and its sender, recorded on the running kernel and replayed.
//!
//! Needs root.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairwind_cc::kernel;
use fairwind_cc::native::find;
use fairwind_replay::control::replay;
use fairwind_replay::recorder::Recorder;
use fairwind_replay::recording::Recording;
use fairwind_replay::{path, sender, tap};

const TIME: Duration = Duration::from_secs(6);

/// One recording at a time, as a tap sees every connection to the port that all recordings share.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn permitted() -> bool {
    fairwind_testing::permitted(kernel::check_requirements())
        && fairwind_testing::permitted(fairwind_lab::privilege::check())
}

#[test]
fn our_reno_and_cubic_do_on_999_of_1000_acks_what_the_running_kernels_do() {
    if !permitted() {
        return;
    }
    let _turn = alone();
    for recorder in Recorder::ALL {
        let path = path::brief();
        let (ran, calls) = recorder.record(|name| path.run(name, TIME)).unwrap();
        ran.unwrap();
        let recording = Recording {
            control: recorder.control().to_owned(),
            path: path.name.to_owned(),
            kernel: fairwind_kernel::release(),
            hz: fairwind_kernel::hz(),
            calls: calls.into_iter().next().unwrap(),
        };
        let parameters = find(recorder.control()).unwrap().default_parameters();
        let agreement = replay(&recording, &parameters);
        assert!(agreement.acks > 500, "{agreement:?}");
        assert!(agreement.decisions > 0, "{agreement:?}");
        assert!(agreement.share() >= 0.999, "{agreement:?}");
    }
}

/// How long both agree depends on when the kernel's timers run, and so on the machine's other load;
/// in slow start, before the first loss, it does not.
#[test]
fn the_simulators_sender_begins_as_the_running_kernels_does() {
    if !permitted() {
        return;
    }
    let _turn = alone();
    let slow = path::slow();
    let full_queue = slow.iter().find(|path| path.name == "slow full queue");
    let exchange = tap::record(full_queue.unwrap(), "reno", Duration::from_secs(1)).unwrap();
    assert!(exchange.opened_us < exchange.established_us, "{exchange:?}");
    assert!(
        exchange.established_us < exchange.written_us,
        "{exchange:?}"
    );
    let agreement = sender::replay(&exchange, &find("reno").unwrap().default_parameters());
    assert!(agreement.acks > 100, "{agreement:?}");
    let alike = agreement
        .first_difference
        .map_or(exchange.acks.len(), |difference| difference.index);
    assert!(alike >= 30, "{agreement:?}");
}
