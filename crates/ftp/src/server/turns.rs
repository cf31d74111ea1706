//! Turns at work that takes processors or memory: a few at once, shared between origins; those that have
//! had least go first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_origin::{Origin, Tally};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The longest head start of new jobs over those that have had much already: without a bound, a stream of
/// new ones would keep the others waiting forever.
const HEAD_START: Duration = Duration::from_secs(10);

/// A fixed number of turns, and the jobs that wait for one.
#[derive(Debug)]
pub(super) struct Turns(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    free: usize,
    running: Tally,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    origin: Origin,
    /// When it came, plus what it has had already.
    rank: Instant,
    wake: oneshot::Sender<Turn>,
}

/// A turn; the next job gets it when this one is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    queue: Arc<Mutex<Queue>>,
    origin: Origin,
}

impl Turns {
    /// Allows `count` turns at once.
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue {
            free: count,
            running: Tally::default(),
            waiting: Vec::new(),
        })))
    }

    /// Waits for a turn. The next one goes to a job of an origin with the fewest turns now, and among
    /// these jobs to the one that came first, where what a job has `had` in earlier turns counts as
    /// having come later.
    pub(super) async fn take(&self, origin: Origin, had: Duration) -> Turn {
        let (wake, woken) = oneshot::channel();
        self.0.lock().waiting.push(Waiting {
            origin,
            rank: Instant::now() + had.min(HEAD_START),
            wake,
        });
        pass_on(&self.0);
        match woken.await {
            Ok(turn) => turn,
            // Cannot happen: the queue lives as long as this, and wakes everyone.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Queue {
    /// Takes the next job from the queue; it has a turn from now on.
    fn next(&mut self) -> Option<Waiting> {
        self.waiting.retain(|waiting| !waiting.wake.is_closed());
        if self.free == 0 {
            return None;
        }
        let next = (0..self.waiting.len()).min_by_key(|&at| {
            let waiting = &self.waiting[at];
            (self.running.of(waiting.origin), waiting.rank)
        })?;
        let next = self.waiting.remove(next);
        self.free -= 1;
        let has = self.running.of(next.origin);
        self.running.set(next.origin, has + 1);
        Some(next)
    }
}

fn pass_on(queue: &Arc<Mutex<Queue>>) {
    loop {
        let Some(next) = queue.lock().next() else {
            return;
        };
        let turn = Turn {
            queue: Arc::clone(queue),
            origin: next.origin,
        };
        // If the job has gone meanwhile, the turn is dropped, and passes itself on.
        let _ = next.wake.send(turn);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut queue = self.queue.lock();
            queue.free += 1;
            let has = queue.running.of(self.origin);
            queue.running.set(self.origin, has - 1);
        }
        pass_on(&self.queue);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::net::IpAddr;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn origin(last: u8) -> Origin {
        Origin::from(IpAddr::from([192, 0, 2, last]))
    }

    fn poll<F: Future>(future: &mut Pin<&mut F>) -> Option<F::Output> {
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn an_origin_without_a_turn_comes_before_one_that_has_some() {
        let turns = Turns::new(2);
        let mut first = pin!(turns.take(origin(1), Duration::ZERO));
        let mut second = pin!(turns.take(origin(1), Duration::ZERO));
        let first = poll(&mut first).unwrap();
        let _second = poll(&mut second).unwrap();
        let mut greedy = pin!(turns.take(origin(1), Duration::ZERO));
        let mut new = pin!(turns.take(origin(2), Duration::ZERO));
        assert!(poll(&mut greedy).is_none() && poll(&mut new).is_none());
        drop(first);
        assert!(poll(&mut greedy).is_none());
        let _new = poll(&mut new).unwrap();
    }

    #[test]
    fn who_has_had_least_comes_first_but_not_for_ever() {
        let turns = Turns::new(1);
        let mut running = pin!(turns.take(origin(1), Duration::ZERO));
        let running = poll(&mut running).unwrap();
        let mut long = pin!(turns.take(origin(1), Duration::from_secs(3_600)));
        let mut short = pin!(turns.take(origin(1), Duration::from_secs(5)));
        assert!(poll(&mut long).is_none() && poll(&mut short).is_none());
        {
            let queue = turns.0.lock();
            assert!(queue.waiting[0].rank <= Instant::now() + HEAD_START);
        }
        drop(running);
        assert!(poll(&mut long).is_none());
        let short = poll(&mut short).unwrap();
        drop(short);
        assert!(poll(&mut long).is_some());
    }

    #[test]
    fn who_goes_while_waiting_or_with_a_turn_leaves_it_to_others() {
        let turns = Turns::new(1);
        let mut running = pin!(turns.take(origin(1), Duration::ZERO));
        let running = poll(&mut running).unwrap();
        {
            let mut gone = pin!(turns.take(origin(2), Duration::ZERO));
            assert!(poll(&mut gone).is_none());
        }
        {
            let mut woken = Box::pin(turns.take(origin(3), Duration::ZERO));
            assert!(poll(&mut woken.as_mut()).is_none());
            drop(running);
            // It has the turn and is never polled again.
        }
        let mut next = pin!(turns.take(origin(4), Duration::ZERO));
        assert!(poll(&mut next).is_some());
    }
}
