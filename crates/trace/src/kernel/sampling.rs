//! Requests for samples: the kernel goes over the traced connections.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fairwind_kernel::enter_network;
use libbpf_rs::{Iter, Link};

use super::TraceError;

/// Names of network namespaces, as `ip netns` gives them.
const NAMED: &str = "/run/netns";

/// The network namespace of the calling thread.
const HERE: &str = "/proc/thread-self/ns/net";

/// How the kernel lists connections, by the programs that take their samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// Those that are traced, wherever they are.
    Storage,
    /// All of a network namespace: for kernels that refuse the other.
    Table,
}

impl Listing {
    /// Its programs: of all connections, and of those that are closing.
    pub(super) fn programs(self) -> [&'static str; 2] {
        match self {
            Listing::Storage => ["tick", "tick_closing"],
            Listing::Table => ["tick_table", "tick_table_closing"],
        }
    }

    pub(super) fn other(self) -> Listing {
        match self {
            Listing::Storage => Listing::Table,
            Listing::Table => Listing::Storage,
        }
    }
}

/// The programs, attached.
#[derive(Debug)]
pub(super) struct Sampling {
    listing: Listing,
    all: Link,
    closing: Link,
    namespaces: Namespaces,
}

impl Sampling {
    pub(super) fn new(listing: Listing, all: Link, closing: Link) -> Sampling {
        Sampling {
            listing,
            all,
            closing,
            namespaces: Namespaces::default(),
        }
    }

    pub(super) fn visits_all(&self) -> bool {
        self.listing == Listing::Table
    }

    /// There are traced connections in this namespace.
    pub(super) fn note(&self, namespace: u32) {
        if self.visits_all() {
            self.namespaces.note(namespace);
        }
    }

    /// Of all connections.
    pub(super) fn all(&self) -> Result<(), TraceError> {
        self.run(&self.all)
    }

    /// Of those that are closing.
    pub(super) fn closing(&self) -> Result<(), TraceError> {
        self.run(&self.closing)
    }

    fn run(&self, iterator: &Link) -> Result<(), TraceError> {
        match self.listing {
            Listing::Storage => run(iterator),
            Listing::Table => self.namespaces.each(|| run(iterator)),
        }
    }
}

/// Runs an iterator's program over everything it iterates over.
pub(super) fn run(iterator: &Link) -> Result<(), TraceError> {
    let mut iterator = Iter::new(iterator).map_err(TraceError::Failed)?;
    let mut nothing = [0; 64];
    while iterator.read(&mut nothing).map_err(TraceError::Iterator)? > 0 {}
    Ok(())
}

/// Network namespaces, by their inodes, with a path to each. They are opened anew each time, lest a trace keep alive
/// one that its last process has left.
#[derive(Debug, Default)]
struct Namespaces(RefCell<BTreeMap<u32, PathBuf>>);

impl Namespaces {
    fn note(&self, namespace: u32) {
        self.0.borrow_mut().entry(namespace).or_default();
    }

    /// Calls it in each of them. Afterwards the thread is in its own again.
    fn each(&self, mut call: impl FnMut() -> Result<(), TraceError>) -> Result<(), TraceError> {
        let mut namespaces = self.0.borrow_mut();
        if namespaces.is_empty() {
            return Ok(());
        }
        let home = File::open(HERE).map_err(TraceError::Namespace)?;
        let here = inode(Path::new(HERE));
        let mut result = Ok(());
        let mut has_left = false;
        if here.is_some_and(|here| namespaces.contains_key(&here)) {
            result = call();
        }
        namespaces.retain(|&namespace, path| {
            if result.is_err() || here == Some(namespace) {
                return true;
            }
            let Some(there) = open(namespace, path) else {
                return false;
            };
            // One that has vanished, or may not be entered, has no samples.
            if enter_network(there.as_fd()).is_ok() {
                has_left = true;
                result = call();
            }
            true
        });
        if has_left {
            enter_network(home.as_fd()).map_err(TraceError::Namespace)?;
        }
        result
    }
}

/// Opens a namespace by this path, or another if it is no longer there; `None` if nothing has it.
fn open(namespace: u32, path: &mut PathBuf) -> Option<File> {
    let open = |path: &Path| {
        let file = File::open(path).ok()?;
        (inode(path) == Some(namespace)).then_some(file)
    };
    open(path).or_else(|| {
        *path = find(namespace)?;
        open(path)
    })
}

/// A path to the namespace: by a file that this process has open, as one that makes namespaces may have no thread in
/// them; by a thread that is in it; by a name; or by a file of another process.
fn find(namespace: u32) -> Option<PathBuf> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = |folder: PathBuf| entries(folder).map(|entry| entry.path());
    let processes = || entries(PathBuf::from("/proc"));
    let threads = |process: PathBuf| entries(process.join("task"));
    let is_it = |path: &PathBuf| inode(path) == Some(namespace);
    entries(PathBuf::from("/proc/self/fd"))
        .chain(
            processes()
                .flat_map(threads)
                .map(|thread| thread.join("ns/net")),
        )
        .chain(entries(PathBuf::from(NAMED)))
        .chain(processes().flat_map(|process| entries(process.join("fd"))))
        .find(is_it)
}

/// The inode of a network namespace; `None` if the path leads to none.
fn inode(path: &Path) -> Option<u32> {
    let of = |path: &Path| fs::metadata(path).ok();
    let there = of(path)?;
    // All namespaces are in one file system of the kernel's own.
    (there.dev() == of(Path::new(HERE))?.dev()).then_some(())?;
    u32::try_from(there.ino()).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use fairwind_kernel::{NamespaceType, unshare};

    use super::*;
    use crate::kernel::check_requirements;

    #[test]
    fn namespaces_are_visited_and_left_while_a_thread_is_in_them() {
        if !fairwind_testing::permitted(check_requirements()) {
            return;
        }
        let own = || inode(Path::new(HERE)).unwrap();
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let inhabitant = thread::spawn(move || {
            unshare(NamespaceType::Network).unwrap();
            tell.send(own()).unwrap();
            let _ = ended.recv();
        });
        let (here, there) = (own(), told.recv().unwrap());
        let namespaces = Namespaces::default();
        for namespace in [here, there, 1] {
            namespaces.note(namespace);
        }
        let visit = || {
            let mut visited = Vec::new();
            let call = || {
                visited.push(own());
                Ok(())
            };
            namespaces.each(call).unwrap();
            visited
        };

        assert_eq!(visit(), [here, there]);
        assert_eq!(own(), here);
        drop(end);
        inhabitant.join().unwrap();
        assert_eq!(visit(), [here]);
    }

    #[test]
    fn a_namespace_that_only_a_file_holds_is_visited() {
        if !fairwind_testing::permitted(check_requirements()) {
            return;
        }
        let make = || {
            unshare(NamespaceType::Network).unwrap();
            (File::open(HERE).unwrap(), inode(Path::new(HERE)).unwrap())
        };
        let (held, there) = thread::spawn(make).join().unwrap();
        let namespaces = Namespaces::default();
        let visits = || {
            let mut visits = 0;
            let call = || {
                visits += 1;
                Ok(())
            };
            namespaces.each(call).unwrap();
            visits
        };
        namespaces.note(there);

        assert_eq!(visits(), 1);
        drop(held);
        assert_eq!(visits(), 0);
    }
}
