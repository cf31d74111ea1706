//! Waiting for sockets and for messages of another thread, with timeouts precise to the nanosecond.
//!
//! rustix waits that precisely (epoll_pwait2(2), Linux 5.11) with its feature `linux_5_11`, otherwise to the
//! millisecond.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use fairwind_path::units::Duration;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use super::wakeup::Wakeup;
use crate::clock::timespec;

/// Most events that one call returns.
const BATCH: usize = 256;
/// Token of the inbox.
const INBOX: u64 = u64::MAX;

/// Waiting only for errors, which are always reported.
pub(super) const ERRORS: EventFlags = EventFlags::empty();

/// An event of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub token: u64,
    /// The connection has failed, or the peer has closed it.
    pub failed: bool,
}

/// A set of descriptors, each with a token, and the messages that a thread exchanges with another.
pub(super) struct EventLoop<In, Out> {
    epoll: OwnedFd,
    inbox: Receiver<In>,
    /// Readable once this thread is to be woken.
    wakeup: Arc<Wakeup>,
    outbox: Sender<Out>,
    other: Arc<Wakeup>,
}

/// The event loops of two threads that exchange messages.
pub(super) fn pair<A, B>() -> io::Result<(EventLoop<A, B>, EventLoop<B, A>)> {
    let [one, two] = [Arc::new(Wakeup::new()?), Arc::new(Wakeup::new()?)];
    let (to_one, at_one) = mpsc::channel();
    let (to_two, at_two) = mpsc::channel();
    let at_one = EventLoop::new((at_one, Arc::clone(&one)), (to_two, Arc::clone(&two)))?;
    Ok((at_one, EventLoop::new((at_two, two), (to_one, one))?))
}

impl<In, Out> EventLoop<In, Out> {
    fn new(
        (inbox, wakeup): (Receiver<In>, Arc<Wakeup>),
        (outbox, other): (Sender<Out>, Arc<Wakeup>),
    ) -> io::Result<EventLoop<In, Out>> {
        let events = EventLoop {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            inbox,
            wakeup,
            outbox,
            other,
        };
        events.add(&*events.wakeup, INBOX, EventFlags::IN)?;
        Ok(events)
    }

    pub(super) fn add(&self, fd: impl AsFd, token: u64, wanted: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, fd, data, wanted)?)
    }

    pub(super) fn change(&self, fd: impl AsFd, token: u64, wanted: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::modify(&self.epoll, fd, data, wanted)?)
    }

    pub(super) fn remove(&self, fd: impl AsFd) {
        // Fails only for a descriptor that is not in the set, which is harmless.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits for at most `longest`, or for a message. Replaces the content of `events` by the events of
    /// descriptors.
    pub(super) fn wait(&self, longest: Duration, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        let mut buffer = [MaybeUninit::<epoll::Event>::uninit(); BATCH];
        let timeout = timespec(longest.as_nanos());
        let ready = match epoll::wait(&self.epoll, &mut buffer, Some(&timeout)) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let ready = ready.iter().map(|event| {
            let flags = event.flags;
            Event {
                token: event.data.u64(),
                failed: flags.intersects(EventFlags::ERR | EventFlags::HUP),
            }
        });
        events.extend(ready.filter(|event| event.token != INBOX));
        Ok(())
    }

    /// Removes all messages from the inbox.
    pub(super) fn messages(&self) -> Vec<In> {
        self.wakeup.reset();
        self.inbox.try_iter().collect()
    }

    /// Leaves a message for the other thread without waking it.
    pub(super) fn send(&self, message: Out) {
        // Fails only once the other thread has ended, for which it does not matter any more.
        let _ = self.outbox.send(message);
    }

    /// Wakes the other thread.
    pub(super) fn wake_other(&self) {
        self.other.notify();
    }

    /// Wakes this thread.
    pub(super) fn wakeup(&self) -> Arc<Wakeup> {
        Arc::clone(&self.wakeup)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_woken(events: &EventLoop<u8, u8>) -> bool {
        let mut fds = [PollFd::new(&events.epoll, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn a_thread_is_woken_when_it_is_told_not_by_each_message() {
        let (one, other) = pair::<u8, u8>().unwrap();
        one.send(1);
        one.send(2);
        assert!(!is_woken(&other));
        one.wake_other();
        assert!(is_woken(&other));
        assert_eq!(other.messages(), [1, 2]);
        assert!(!is_woken(&other));
        assert!(other.messages().is_empty());
    }
}
