//! Replays the recordings in `recordings/`; needs no privileges. `docs/measurements/replay.md`
//! describes how they were made.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fairwind_cc::native::{Parameters, find};
use fairwind_replay::call::{Call, Hook};
use fairwind_replay::control::{Agreement, replay};
use fairwind_replay::path::{self, RecordedPath};
use fairwind_replay::recorder::Recorder;
use fairwind_replay::recording::Recording;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "fwr"))
        .collect()
}

fn recordings() -> impl Iterator<Item = Recording> {
    let read = |file: PathBuf| {
        Recording::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    files().into_iter().map(read)
}

fn recording(path: &str, control: &str) -> Recording {
    recordings()
        .find(|recording| recording.path == path && recording.control == control)
        .unwrap()
}

fn parameters(control: &str) -> Parameters {
    find(control).unwrap().default_parameters()
}

/// Asserts that every ACK and every decision agrees.
fn assert_whole(agreement: &Agreement, of: &Recording) {
    let name = format!("{} over `{}`", of.control, of.path);
    assert!(agreement.acks > 0, "{name}");
    assert_eq!(
        (
            agreement.cwnd,
            agreement.ssthresh,
            agreement.decisions_equal
        ),
        (agreement.acks, agreement.acks, agreement.decisions),
        "{name}: {:?}",
        agreement.first_difference
    );
}

#[test]
fn our_reno_and_cubic_do_on_every_ack_what_the_kernels_did() {
    for recording in recordings() {
        let agreement = replay(&recording, &parameters(&recording.control));
        assert_whole(&agreement, &recording);
    }
}

#[test]
fn every_path_is_recorded_with_both_controls() {
    let of_path = |path: &RecordedPath| {
        Recorder::ALL.map(|recorder| (path.name.to_owned(), recorder.control().to_owned()))
    };
    let expected: BTreeSet<_> = path::all().iter().flat_map(of_path).collect();
    let found = recordings().map(|recording| (recording.path, recording.control));
    assert_eq!(found.collect::<BTreeSet<_>>(), expected);
}

#[test]
fn what_a_control_can_meet_is_among_the_recordings() {
    let calls: Vec<_> = recordings()
        .filter(|recording| recording.control == "cubic")
        .flat_map(|recording| recording.calls)
        .collect();
    let count = |what: &dyn Fn(&Call) -> bool| calls.iter().filter(|call| what(call)).count();
    // The minimum number of each that makes the test worthwhile.
    let losses = count(&|call| matches!(call.hook, Hook::Ssthresh { .. }));
    assert!(losses >= 50, "{losses} losses");
    let timeouts = count(&|call| call.hook == Hook::SetState(4));
    assert!(timeouts >= 3, "{timeouts} timeouts");
    let undone = count(&|call| matches!(call.hook, Hook::UndoCwnd { .. }));
    assert!(undone >= 3, "{undone} losses that were none");
    let idle = count(&|call| call.hook == Hook::CwndEvent(0));
    assert!(idle >= 10, "{idle} ends of an idle time");
    let hystart = count(&|call| {
        matches!(call.hook, Hook::PktsAcked(_)) && call.before.ssthresh != call.after.ssthresh
    });
    assert!(hystart >= 3, "{hystart} ends of slow start by HyStart");
}

#[test]
fn another_control_does_not_pass_for_the_kernels() {
    let mut recording = recording("random loss 0.1 %", "cubic");
    let agreement = replay(&recording, &parameters("reno"));
    assert!(agreement.share() < 0.9, "{agreement:?}");
    assert!(agreement.decisions_equal < agreement.decisions);
    let mut beta = parameters("cubic");
    beta.set("beta", 700).unwrap();
    assert!(replay(&recording, &beta).share() < 0.9);
    let mut hystart = parameters("cubic");
    hystart.set("hystart", 0).unwrap();
    assert!(replay(&recording, &hystart).share() < 1.0);

    // Even a single packet less on a single ACK is detected.
    let grown = |call: &Call| {
        matches!(call.hook, Hook::CongAvoid { .. }) && call.after.cwnd > call.before.cwnd
    };
    let index = recording.calls.iter().position(grown).unwrap();
    recording.calls[index].after.cwnd -= 1;
    let agreement = replay(&recording, &parameters("cubic"));
    assert_eq!(agreement.first_difference.unwrap().index, index);
    assert!(agreement.cwnd < agreement.acks);
}
