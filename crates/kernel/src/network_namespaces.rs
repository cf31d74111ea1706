//! The network namespaces of the host, one after the other.
//!
//! Some of what the kernel lists is of the reader's network namespace alone, such as its connections.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::enter_network;

/// Names of network namespaces, as `ip netns` gives them.
const NAMED: &str = "/run/netns";

/// The network namespace of the calling thread.
const HERE: &str = "/proc/thread-self/ns/net";

/// Network namespaces, by their inodes, with a path to each. They are opened anew each time, lest this process keep alive
/// one that its last process has left.
#[derive(Debug, Default)]
pub struct NetworkNamespaces(RefCell<BTreeMap<u32, PathBuf>>);

impl NetworkNamespaces {
    /// There is one with this inode.
    pub fn note(&self, namespace: u32) {
        self.0.borrow_mut().entry(namespace).or_default();
    }

    /// Whether the one with this inode is known, and has not been found gone since it was noted.
    pub fn has(&self, namespace: u32) -> bool {
        self.0.borrow().contains_key(&namespace)
    }

    /// Calls it in each of them, as long as it succeeds. Afterwards the thread is in its own again. Namespaces that are no
    /// longer there are forgotten.
    ///
    /// # Errors
    ///
    /// Of the call; or, by `failed`, of finding the own namespace or the way back to it.
    pub fn each<E>(
        &self,
        mut call: impl FnMut() -> Result<(), E>,
        failed: fn(io::Error) -> E,
    ) -> Result<(), E> {
        let mut namespaces = self.0.borrow_mut();
        if namespaces.is_empty() {
            return Ok(());
        }
        let home = File::open(HERE).map_err(failed)?;
        let here = Identity::of(&home.metadata().map_err(failed)?);
        let mut result = Ok(());
        let mut has_left = false;
        if namespaces
            .keys()
            .any(|&namespace| here.beside(namespace) == here)
        {
            result = call();
        }
        let mut search = None;
        namespaces.retain(|&namespace, path| {
            let identity = here.beside(namespace);
            if result.is_err() || identity == here {
                return true;
            }
            let Some(there) = identity.open(path, &mut search) else {
                return false;
            };
            // One that has vanished, or may not be entered, is left out.
            if enter_network(there.as_fd()).is_ok() {
                has_left = true;
                result = call();
            }
            true
        });
        if has_left {
            enter_network(home.as_fd()).map_err(failed)?;
        }
        result
    }
}

/// What a namespace's file is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    fn open(self, path: &mut PathBuf, search: &mut Option<Search>) -> Option<File> {
        let open = |path: &Path| {
            // Before it is opened: another file may have taken its place, and opening that may have effects.
            let file = self.is_at(path).then(|| File::open(path).ok())??;
            (Identity::of(&file.metadata().ok()?) == self).then_some(file)
        };
        open(path).or_else(|| {
            let search = search.get_or_insert_with(Search::new);
            // A thread that was there, as one that visits it, may have left.
            while let Some(found) = search.find(self) {
                if let Some(file) = open(&found) {
                    *path = found;
                    return Some(file);
                }
            }
            None
        })
    }
}

/// A search for paths to namespaces, which goes over the processes of the host once, however many are looked for: those that
/// are gone take all of it.
struct Search {
    left: Box<dyn Iterator<Item = PathBuf>>,
    passed: BTreeMap<Identity, Vec<PathBuf>>,
}

impl Search {
    /// By files that this process has open, as one that makes namespaces may have no thread in them; by threads that are in
    /// them; by names; or by files of other processes.
    fn new() -> Search {
        let processes = || entries("/proc");
        let threads = processes().flat_map(|process| entries(process.join("task")));
        let files = processes().flat_map(|process| entries(process.join("fd")));
        let all = entries("/proc/self/fd")
            .chain(threads.map(|thread| thread.join("ns/net")))
            .chain(entries(NAMED))
            .chain(files);
        Search {
            left: Box::new(all),
            passed: BTreeMap::new(),
        }
    }

    /// A path to the namespace that has not been tried yet.
    fn find(&mut self, wanted: Identity) -> Option<PathBuf> {
        if let Some(path) = self.passed.get_mut(&wanted).and_then(Vec::pop) {
            return Some(path);
        }
        for path in &mut self.left {
            let Ok(file) = fs::metadata(&path) else {
                continue;
            };
            let identity = Identity::of(&file);
            if identity == wanted {
                return Some(path);
            }
            // Other files are in other file systems.
            if identity.device == wanted.device {
                self.passed.entry(identity).or_default().push(path);
            }
        }
        None
    }
}

fn entries(folder: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::{NamespaceType, unshare};

    fn inode(namespace: &File) -> u32 {
        namespace.metadata().unwrap().ino() as u32
    }

    #[test]
    fn namespaces_are_visited_and_left_while_a_thread_is_in_them() {
        if !fairwind_testing::permitted(fairwind_testing::root()) {
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
        let namespaces = NetworkNamespaces::default();
        for namespace in [here, there, 1] {
            namespaces.note(namespace);
        }
        let visit = || {
            let mut visited = Vec::new();
            let call = || {
                visited.push(own());
                Ok(())
            };
            namespaces.each(call, |error| error).unwrap();
            visited
        };

        assert_eq!(visit(), [here, there]);
        assert_eq!(own(), here);
        assert!(!namespaces.has(1), "there is none");
        assert!(namespaces.has(there));
        drop(end);
        inhabitant.join().unwrap();
        assert_eq!(visit(), [here]);
        assert!(namespaces.has(here) && !namespaces.has(there));
    }

    #[test]
    fn several_namespaces_are_found_by_one_search() {
        if !fairwind_testing::permitted(fairwind_testing::root()) {
            return;
        }
        let make = || {
            unshare(NamespaceType::Network).unwrap();
            File::open(HERE).unwrap()
        };
        let held: Vec<File> = (0..3)
            .map(|_| thread::spawn(make).join().unwrap())
            .collect();
        let mut search = Search::new();
        // In an order in which it has passed some of them by then.
        for file in held.iter().rev() {
            let identity = Identity::of(&file.metadata().unwrap());
            let path = search.find(identity).unwrap();
            assert!(identity.is_at(&path));
        }
        let none = Identity::of(&held[0].metadata().unwrap()).beside(1);
        assert_eq!(search.find(none), None);
        assert_eq!(search.left.next(), None);
    }

    #[test]
    fn a_namespace_that_only_a_file_holds_is_visited() {
        if !fairwind_testing::permitted(fairwind_testing::root()) {
            return;
        }
        let make = || {
            unshare(NamespaceType::Network).unwrap();
            File::open(HERE).unwrap()
        };
        let held = thread::spawn(make).join().unwrap();
        let namespaces = NetworkNamespaces::default();
        let visits = || {
            let mut visits = 0;
            let call = || {
                visits += 1;
                Ok(())
            };
            namespaces.each(call, |error| error).unwrap();
            visits
        };
        namespaces.note(inode(&held));

        assert_eq!(visits(), 1);
        drop(held);
        assert_eq!(visits(), 0);
    }
}
