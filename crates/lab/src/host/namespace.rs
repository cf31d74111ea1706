//! Unnamed network namespaces, which live as long as a descriptor or a process holds them.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread;

use fairwind_kernel::{NamespaceType, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use super::inherited::Inherited;
use crate::error::{During, LabError, joined};

/// Size of the tables of connections of the namespaces that this one makes (Linux 6.1). By default they share one with
/// the whole machine, which the tracer goes over for each sample on kernels that list connections in no other way.
const TABLES: &str = "/proc/sys/net/ipv4/tcp_child_ehash_entries";
const TABLE: &str = "4096";

/// A network namespace. Clones are equal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Namespace(Inherited);

impl Namespace {
    /// Creates a namespace, with a table of connections of its own if the kernel can.
    pub(crate) fn create() -> Result<Namespace, LabError> {
        let make = || unshare(NamespaceType::Network).during("making a network namespace");
        // On a separate thread, so that the caller stays in its namespace.
        on_thread(|| {
            make()?;
            // In the first, which nothing else uses. With the shared table the lab is only slower.
            if fs::write(TABLES, TABLE).is_ok() {
                make()?;
            }
            Namespace::current()
        })
    }

    /// The calling thread's namespace.
    pub(crate) fn current() -> Result<Namespace, LabError> {
        let file = File::open("/proc/thread-self/ns/net");
        let file = file.during("opening the network namespace")?;
        Ok(Namespace(Inherited::from(file)))
    }

    /// The inode number, which the kernel keeps in 32 bits.
    pub(crate) fn inode(&self) -> u32 {
        self.0.metadata().map_or(0, |file| file.ino() as u32)
    }

    /// Runs `work` in the namespace, on a separate thread.
    pub(crate) fn within<R: Send>(
        &self,
        work: impl FnOnce() -> Result<R, LabError> + Send,
    ) -> Result<R, LabError> {
        on_thread(|| {
            self.enter()?;
            work()
        })
    }

    /// Moves the calling thread into the namespace permanently.
    pub(crate) fn enter(&self) -> Result<(), LabError> {
        self.enter_before_exec()
            .during("entering the network namespace")
    }

    /// Does the same by a system call alone, as is required between fork and exec.
    pub(crate) fn enter_before_exec(&self) -> io::Result<()> {
        let network = Some(LinkNameSpaceType::Network);
        Ok(move_into_link_name_space(self.as_fd(), network)?)
    }
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Namespace) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn on_thread<R: Send>(work: impl FnOnce() -> Result<R, LabError> + Send) -> Result<R, LabError> {
    thread::scope(|scope| joined(scope.spawn(work).join()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of the namespace's own table of connections; negative if it shares the machine's.
    const OWN: &str = "/proc/sys/net/ipv4/tcp_ehash_entries";

    #[test]
    fn namespaces_have_small_tables_of_their_own() {
        if !fairwind_testing::permitted(crate::privilege::check()) || fs::metadata(TABLES).is_err()
        {
            return;
        }
        let namespace = Namespace::create().unwrap();
        let read = || fs::read_to_string(OWN).during("reading the size of the table");
        assert_eq!(namespace.within(read).unwrap().trim(), TABLE);
    }
}
