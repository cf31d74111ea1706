//! How far the processors of this machine are from each other: nanoseconds that a word takes from the first
//! one to another and back, for each other one. Processors that share a cache are several times nearer
//! than others, and the host of a virtual machine may move them at any time.
//!
//! ```text
//! cargo run --release -p fairwind-lab --example distance
//! ```

use std::hint;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Of which the median is taken: whoever is interrupted in a few of them is not taken for far away.
const ROUNDS: usize = 50;
/// There and back, in a round.
const BOUNCES: u32 = 2_000;

/// In a line of the cache of its own.
#[repr(align(128))]
struct Word(AtomicU32);

fn main() -> ExitCode {
    let distances = processors().and_then(|all| {
        let (&first, others) = all.split_first().ok_or(nix::Error::ENODEV)?;
        let each = others.iter().map(|&other| distance(first, other));
        each.collect::<nix::Result<Vec<_>>>()
    });
    match distances {
        Ok(distances) if distances.is_empty() => {
            eprintln!("distance: there is one processor");
            ExitCode::FAILURE
        }
        Ok(distances) => {
            let words: Vec<_> = distances
                .iter()
                .map(|distance| distance.as_nanos().to_string())
                .collect();
            println!("{}", words.join(" "));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("distance: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Those that this process may use.
fn processors() -> nix::Result<Vec<usize>> {
    let usable = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count())
        .filter(|&processor| usable.is_set(processor).unwrap_or(false))
        .collect())
}

/// Binds the calling thread.
fn bind(processor: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// There and back, the median.
fn distance(here: usize, there: usize) -> nix::Result<Duration> {
    let word = Word(AtomicU32::new(0));
    // Binding fails here or nowhere: the threads below wait for each other.
    bind(there)?;
    bind(here)?;
    let mut times = thread::scope(|scope| {
        scope.spawn(|| bind(there).map(|()| answer(&word)));
        (0..ROUNDS)
            .map(|round| ask(&word, round as u32 * BOUNCES))
            .collect::<Vec<_>>()
    });
    times.sort_unstable();
    Ok(times[ROUNDS / 2])
}

/// A round, from so many bounces on: odd numbers go there, even ones come back.
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
