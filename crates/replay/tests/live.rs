//! The kernel's reno and cubic recorded on the running kernel and replayed.
//!
//! Needs root; without it the test says so and passes, unless CI is set.

use std::time::Duration;

use fairwind_cc::kernel;
use fairwind_cc::native::find;
use fairwind_replay::path;
use fairwind_replay::recorder::Recorder;
use fairwind_replay::recording::Recording;
use fairwind_replay::replay::replay;

const TIME: Duration = Duration::from_secs(6);

fn permitted() -> bool {
    fairwind_testing::permitted(kernel::check_requirements())
        && fairwind_testing::permitted(fairwind_lab::privilege::check())
}

#[test]
fn our_reno_and_cubic_do_on_999_of_1000_acks_what_the_running_kernels_do() {
    if !permitted() {
        return;
    }
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
