//! Messages for a thread that waits for descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use super::shared::lock;
use super::wakeup::Wakeup;

/// The descriptor is readable once the thread is to be woken.
#[derive(Debug)]
pub(super) struct MessageQueue<T> {
    messages: Mutex<Vec<T>>,
    pub wakeup: Arc<Wakeup>,
}

impl<T> MessageQueue<T> {
    pub(super) fn new() -> io::Result<MessageQueue<T>> {
        Ok(MessageQueue {
            messages: Mutex::default(),
            wakeup: Arc::new(Wakeup::new()?),
        })
    }

    /// Adds a message without waking the thread.
    pub(super) fn push(&self, message: T) {
        lock(&self.messages).push(message);
    }

    /// Removes all messages.
    pub(super) fn take(&self) -> Vec<T> {
        self.wakeup.reset();
        std::mem::take(&mut *lock(&self.messages))
    }
}

impl<T> AsFd for MessageQueue<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(queue: &MessageQueue<u8>) -> bool {
        let mut fds = [PollFd::new(queue, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn a_thread_is_woken_when_it_is_told_not_by_each_message() {
        let queue = MessageQueue::new().unwrap();
        queue.push(1);
        queue.push(2);
        assert!(!is_readable(&queue));
        queue.wakeup.notify();
        assert!(is_readable(&queue));
        assert_eq!(queue.take(), [1, 2]);
        assert!(!is_readable(&queue));
        assert!(queue.take().is_empty());
    }
}
