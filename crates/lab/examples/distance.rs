//! Distances between the processors of this machine: the nanoseconds that a word takes from the first
//! processor to each other one and back. Processors that share a cache are several times nearer than others,
//! and the host of a virtual machine may move them at any time.
//!
//! ```text
//! cargo run --release -p fairwind-lab --example distance
//! ```

use std::hint;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_testing::{keep_to, processors};

/// Rounds, of which the median is taken, so that interruptions in a few of them do not make a processor seem
/// far away.
const ROUNDS: usize = 50;
/// Round trips per round.
const BOUNCES: u32 = 2_000;

/// A word that shares its cache line with nothing else.
#[repr(align(128))]
struct Word(AtomicU32);

fn main() -> ExitCode {
    let here = processors().start;
    let distances: Vec<String> = processors()
        .skip(1)
        .map(|there| distance(here, there).as_nanos().to_string())
        .collect();
    if distances.is_empty() {
        eprintln!("distance: there is one processor");
        return ExitCode::FAILURE;
    }
    println!("{}", distances.join(" "));
    ExitCode::SUCCESS
}

/// The median time of a round trip.
fn distance(here: usize, there: usize) -> Duration {
    let word = Word(AtomicU32::new(0));
    keep_to(here);
    let mut times = thread::scope(|scope| {
        scope.spawn(|| {
            keep_to(there);
            answer(&word);
        });
        (0..ROUNDS)
            .map(|round| ask(&word, round as u32 * BOUNCES))
            .collect::<Vec<_>>()
    });
    times.sort_unstable();
    times[ROUNDS / 2]
}

/// One round, beginning with bounce number `from`: odd numbers go there, even ones come back. Returns the
/// time of a round trip.
fn ask(word: &Word, from: u32) -> Duration {
    let began = Instant::now();
    for bounce in from..from + BOUNCES {
        word.0.store(2 * bounce + 1, Ordering::Release);
        await_number(word, 2 * bounce + 2);
    }
    began.elapsed() / BOUNCES
}

fn answer(word: &Word) {
    for bounce in 0..ROUNDS as u32 * BOUNCES {
        await_number(word, 2 * bounce + 1);
        word.0.store(2 * bounce + 2, Ordering::Release);
    }
}

fn await_number(word: &Word, number: u32) {
    while word.0.load(Ordering::Acquire) != number {
        hint::spin_loop();
    }
}
