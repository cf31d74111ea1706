//! Open files that a program executed by this one inherits.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use fairwind_kernel::checked;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An open file. What is written about it for the other program is the number of its descriptor.
#[derive(Clone, Debug)]
pub(crate) struct Inherited(Arc<File>);

impl From<File> for Inherited {
    fn from(file: File) -> Inherited {
        Inherited(Arc::new(file))
    }
}

impl Deref for Inherited {
    type Target = Arc<File>;

    fn deref(&self) -> &Arc<File> {
        &self.0
    }
}

impl Serialize for Inherited {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_raw_fd().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Inherited {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Inherited, D::Error> {
        let file = take(RawFd::deserialize(deserializer)?).map_err(de::Error::custom)?;
        Ok(Inherited::from(File::from(file)))
    }
}

/// An inherited descriptor, which programs do not inherit in turn. Two programs may share one, so each
/// gets a copy, and the original stays open.
pub(super) fn take(fd: RawFd) -> io::Result<OwnedFd> {
    close_on_exec(fd, true)?;
    // SAFETY: the descriptor is open, or the call above had failed; nobody closes it.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()
}

/// By libc, because rustix takes only descriptors that are known to be open.
pub(super) fn close_on_exec(fd: RawFd, close: bool) -> io::Result<()> {
    let flags = if close { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: the call takes numbers only.
    checked(unsafe { libc::fcntl(fd, libc::F_SETFD, flags) }).map(drop)
}
