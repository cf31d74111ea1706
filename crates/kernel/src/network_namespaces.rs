//! The network namespaces of the host, one after the other.
//!
//! Some of what the kernel lists is of the reader's network namespace alone, such as its connections.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::io::Errno;

use crate::{enter_network, is_shortage};

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
    /// Of the call; or, by `failed`, of finding the own namespace or the way back to it, or if one cannot be looked for, as
    /// where no descriptor is free.
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
            let there = match identity.open(path, &mut search) {
                Ok(Some(there)) => there,
                Ok(None) => return false,
                // It may well be there.
                Err(error) => {
                    result = Err(failed(error));
                    return true;
                }
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
    fn open(self, path: &mut PathBuf, search: &mut Option<Search>) -> io::Result<Option<File>> {
        if let Some(file) = self.open_at(path)? {
            return Ok(Some(file));
        }
        let search = search.get_or_insert_with(Search::new);
        // A thread that was there, as one that visits it, may have left.
        while let Some(found) = search.find(self) {
            if let Some(file) = self.open_at(&found)? {
                *path = found;
                return Ok(Some(file));
            }
        }
        search
            .cut_short
            .get()
            .map_or(Ok(None), |error| Err(error.into()))
    }

    /// Opens the namespace by this path; `None` if that is another file, or none.
    fn open_at(self, path: &Path) -> io::Result<Option<File>> {
        // Before it is opened: another file may have taken its place, and opening that may have effects.
        if !self.is_at(path) {
            return Ok(None);
        }
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            Ok((metadata, file)) => Ok((Identity::of(&metadata) == self).then_some(file)),
            Err(error) if is_shortage(&error) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// A search for paths to namespaces, which goes over the processes of the host once, however many are looked for: those that
/// are gone take all of it.
struct Search {
    left: Box<dyn Iterator<Item = PathBuf>>,
    passed: BTreeMap<Identity, Vec<PathBuf>>,
    /// Why some have not been looked at.
    cut_short: Rc<Cell<Option<Errno>>>,
}

impl Search {
    /// By files that this process has open, as one that makes namespaces may have no thread in them; by threads that are in
    /// them; by names; or by files of other processes.
    fn new() -> Search {
        let folders = Folders::default();
        let cut_short = Rc::clone(&folders.cut_short);
        let below = |name: &'static str| {
            let each = folders.clone();
            let processes = folders.entries("/proc".into());
            processes.flat_map(move |process| each.entries(process.join(name)))
        };
        let all = folders
            .entries("/proc/self/fd".into())
            .chain(below("task").map(|thread| thread.join("ns/net")))
            .chain(folders.entries(NAMED.into()))
            .chain(below("fd"));
        Search {
            left: Box::new(all),
            passed: BTreeMap::new(),
            cut_short,
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

/// Lists folders, and notes if one could not be listed for want of descriptors or memory.
#[derive(Clone, Default)]
struct Folders {
    cut_short: Rc<Cell<Option<Errno>>>,
}

impl Folders {
    /// What is in the folder, which is opened when the first entry is asked for.
    fn entries(&self, folder: PathBuf) -> impl Iterator<Item = PathBuf> + use<> {
        let cut_short = Rc::clone(&self.cut_short);
        let list = move || {
            let entries = fs::read_dir(folder).inspect_err(|error| {
                if is_shortage(error) {
                    cut_short.set(Errno::from_io_error(error));
                }
            });
            entries.into_iter().flatten().flatten()
        };
        let entries = std::iter::once_with(list).flatten();
        entries.map(|entry| entry.path())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::process::Command;
    use std::sync::mpsc;
    use std::thread;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
    fn one_for_which_no_descriptor_is_free_is_not_taken_for_gone() {
        const NAME: &str =
            "network_namespaces::tests::one_for_which_no_descriptor_is_free_is_not_taken_for_gone";
        const ALONE: &str = "FAIRWIND_TEST_ALONE";
        if !fairwind_testing::permitted(fairwind_testing::root()) {
            return;
        }
        // The limit is that of the whole process.
        if std::env::var_os(ALONE).is_none() {
            let mut alone = Command::new(std::env::current_exe().unwrap());
            let output = alone.args(["--exact", NAME]).env(ALONE, "1").output();
            let said = String::from_utf8(output.unwrap().stdout).unwrap();
            assert!(said.contains("test result: ok. 1 passed"), "{said}");
            return;
        }
        let (tell, told) = mpsc::channel();
        let (_end, ended) = mpsc::channel::<()>();
        thread::spawn(move || {
            unshare(NamespaceType::Network).unwrap();
            tell.send(inode(&File::open(HERE).unwrap())).unwrap();
            let _ = ended.recv();
        });
        let there = told.recv().unwrap();
        let namespaces = NetworkNamespaces::default();
        namespaces.note(there);
        let visit = || namespaces.each(|| Ok(()), |error| error);
        // The way back takes the last one.
        let visit_with_one_free = || {
            let before = getrlimit(Resource::Nofile);
            let free = File::open("/dev/null").unwrap().as_raw_fd() as u64;
            let current = Some(free + 1);
            setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
            let visited = visit();
            setrlimit(Resource::Nofile, before).unwrap();
            visited.unwrap_err().raw_os_error()
        };

        // Without a path to it, and with one.
        assert_eq!(visit_with_one_free(), Some(libc::EMFILE));
        visit().unwrap();
        assert_eq!(visit_with_one_free(), Some(libc::EMFILE));
        assert!(namespaces.has(there));
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
