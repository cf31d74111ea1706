//! Measures how long a machine was stalled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::processors::{keep_to, processors};

/// Interval at which each processor is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Delays up to this are normal on any machine.
const USUAL: Duration = Duration::from_millis(1);

/// Runs `run` and measures how long the processors of this machine were meanwhile stalled or busy with
/// other work: the sum of the delays of more than a millisecond with which a thread on each of them
/// woke up. It is an upper bound on the delay that the machine added to `run`.
pub fn with_stalls<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        let threads: Vec<_> = processors()
            .map(|processor| scope.spawn(move || stalls(processor, over)))
            .collect();
        let result = run();
        over.store(true, Ordering::Relaxed);
        let each = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_default());
        (result, each.sum())
    })
}

fn stalls(processor: usize, over: &AtomicBool) -> Duration {
    keep_to(processor);
    let mut stalls = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let asleep = Instant::now();
        thread::sleep(POLL_INTERVAL);
        let late = asleep.elapsed().saturating_sub(POLL_INTERVAL);
        if late > USUAL {
            stalls += late;
        }
    }
    stalls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_run_is_given_back_with_less_than_all_processors_time() {
        let began = Instant::now();
        let (result, stalls) = with_stalls(|| {
            thread::sleep(Duration::from_millis(20));
            7
        });
        assert_eq!(result, 7);
        assert!(stalls <= began.elapsed() * processors().count() as u32);
    }
}
