//! Unnamed network namespaces, which live as long as a descriptor or a process holds them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::thread;

use fairwind_kernel::{NamespaceType, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::LabError;

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    inode: u32,
}

impl Namespace {
    /// Creates a namespace.
    pub fn create() -> Result<Namespace, LabError> {
        // On a separate thread, so that the caller stays in its namespace.
        on_thread(|| {
            unshare(NamespaceType::Network)
                .map_err(|error| LabError::system("making a network namespace", error))?;
            Namespace::current()
        })
    }

    /// The calling thread's namespace.
    pub fn current() -> Result<Namespace, LabError> {
        let failed = |error| LabError::system("opening the network namespace", error);
        let file = File::open("/proc/thread-self/ns/net").map_err(failed)?;
        Namespace::of(file).map_err(failed)
    }

    /// The namespace that `file` refers to.
    pub fn of(file: File) -> io::Result<Namespace> {
        let inode = file.metadata()?.ino() as u32;
        Ok(Namespace { file, inode })
    }

    /// The inode number, which the kernel keeps in 32 bits.
    pub fn inode(&self) -> u32 {
        self.inode
    }

    /// Runs `work` in the namespace, on a separate thread.
    pub fn within<R: Send>(
        &self,
        work: impl FnOnce() -> Result<R, LabError> + Send,
    ) -> Result<R, LabError> {
        on_thread(|| {
            self.enter()?;
            work()
        })
    }

    /// Moves the calling thread into the namespace permanently.
    pub fn enter(&self) -> Result<(), LabError> {
        self.enter_before_exec()
            .map_err(|error| LabError::system("entering the network namespace", error))
    }

    /// Does the same by a system call alone, as is required between fork and exec.
    pub fn enter_before_exec(&self) -> io::Result<()> {
        let network = Some(LinkNameSpaceType::Network);
        Ok(move_into_link_name_space(self.file.as_fd(), network)?)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn on_thread<R: Send>(work: impl FnOnce() -> Result<R, LabError> + Send) -> Result<R, LabError> {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
