//! Requests for samples: the kernel goes over the traced connections.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
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
        let here = Identity::of(&home.metadata().map_err(TraceError::Namespace)?);
        let mut result = Ok(());
        let mut has_left = false;
        if namespaces
            .keys()
            .any(|&namespace| here.beside(namespace) == here)
        {
            result = call();
        }
        namespaces.retain(|&namespace, path| {
            let identity = here.beside(namespace);
            if result.is_err() || identity == here {
                return true;
            }
            let Some(there) = identity.open(path) else {
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

/// What a namespace's file is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(file: &Metadata) -> Identity {
        Identity {
            device: file.dev(),
            inode: file.ino(),
        }
    }

    /// That of the namespace with this inode: all are in one file system of the kernel's own.
    fn beside(self, inode: u32) -> Identity {
        Identity {
            inode: inode.into(),
            ..self
        }
    }

    fn is_at(self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|file| Identity::of(&file) == self)
    }

    /// Opens the namespace by this path, or another if it is no longer there; `None` if nothing has it.
    fn open(self, path: &mut PathBuf) -> Option<File> {
        let open = |path: &Path| {
            // Before it is opened: another file may have taken its place, and opening that may have effects.
            let file = self.is_at(path).then(|| File::open(path).ok())??;
            (Identity::of(&file.metadata().ok()?) == self).then_some(file)
        };
        open(path).or_else(|| {
            *path = self.find()?;
            open(path)
        })
    }

    /// A path to the namespace: by a file that this process has open, as one that makes namespaces may have no thread
    /// in them; by a thread that is in it; by a name; or by a file of another process.
    fn find(self) -> Option<PathBuf> {
        let entries = |folder: PathBuf| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path())
        };
        let processes = || entries(PathBuf::from("/proc"));
        let threads = processes().flat_map(|process| entries(process.join("task")));
        let files = processes().flat_map(|process| entries(process.join("fd")));
        entries(PathBuf::from("/proc/self/fd"))
            .chain(threads.map(|thread| thread.join("ns/net")))
            .chain(entries(PathBuf::from(NAMED)))
            .chain(files)
            .find(|path| self.is_at(path))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use fairwind_kernel::{NamespaceType, unshare};

    use super::*;
    use crate::kernel::check_requirements;

    fn inode(namespace: &File) -> u32 {
        namespace.metadata().unwrap().ino() as u32
    }

    #[test]
    fn namespaces_are_visited_and_left_while_a_thread_is_in_them() {
        if !fairwind_testing::permitted(check_requirements()) {
            return;
        }
        let own = || inode(&File::open(HERE).unwrap());
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
            File::open(HERE).unwrap()
        };
        let held = thread::spawn(make).join().unwrap();
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
        namespaces.note(inode(&held));

        assert_eq!(visits(), 1);
        drop(held);
        assert_eq!(visits(), 0);
    }
}
