//! What connections of the running kernel are advised of their paths: `CC_ADVISED_STARTS` of
//! `cc/include/fairwind/ebpf.h`, by socket and by destination.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use fairwind_origin::Prefix;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::load::Verified;
use crate::advised::AdvisedStart;

/// Names of the maps: for sockets, and for destinations.
pub(super) const MAPS: [&str; 2] = ["advised_sockets", "advised_paths"];

/// Bits of the key before the address.
const NETNS_BITS: u32 = 32;

/// Destinations that begin with the same bits, as seen from a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    netns: u32,
    prefix: Prefix,
}

impl Destination {
    /// The addresses of a prefix, for senders in the network namespace with this inode.
    pub fn of(netns: u32, prefix: Prefix) -> Destination {
        Destination { netns, prefix }
    }

    /// The addresses whose first `bits` are those of `address`, for senders in the network namespace with this
    /// inode. `None`: the address has fewer bits.
    pub fn new(netns: u32, address: IpAddr, bits: u32) -> Option<Destination> {
        let prefix = Prefix::new(address, bits.try_into().ok()?)?;
        Some(Destination::of(netns, prefix))
    }

    /// The inode of the senders' network namespace.
    pub fn netns(&self) -> u32 {
        self.netns
    }

    /// The addresses.
    pub fn prefix(&self) -> Prefix {
        self.prefix
    }

    /// Whether all addresses of the other are in it.
    pub fn covers(&self, other: &Destination) -> bool {
        self.netns == other.netns && self.prefix.covers(other.prefix)
    }

    /// The key of a trie in the kernel: `struct cc_destination`.
    pub fn key(&self) -> Vec<u8> {
        let (address, bits) = self.prefix.mapped();
        let bits = (NETNS_BITS + u32::from(bits)).to_ne_bytes();
        [&bits, &self.netns.to_ne_bytes(), &address.octets()[..]].concat()
    }

    fn of_key(key: &[u8]) -> Option<Destination> {
        let (bits, rest) = key.split_first_chunk()?;
        let (netns, rest) = rest.split_first_chunk()?;
        let address: [u8; 16] = rest.try_into().ok()?;
        let bits = u32::from_ne_bytes(*bits).checked_sub(NETNS_BITS)?;
        let address = Ipv6Addr::from(address).into();
        Destination::new(u32::from_ne_bytes(*netns), address, bits)
    }
}

/// The kernel did not take or give advice.
#[derive(Debug, thiserror::Error)]
#[error("the kernel does not {action} what is advised of a path: {source}")]
pub struct AdviceError {
    action: &'static str,
    source: libbpf_rs::Error,
}

fn failed(action: &'static str) -> impl FnOnce(libbpf_rs::Error) -> AdviceError {
    move |source| AdviceError { action, source }
}

/// The advice that a control's connections start by.
#[derive(Debug)]
pub struct AdvisedStarts {
    sockets: MapHandle,
    paths: MapHandle,
}

impl AdvisedStarts {
    /// Of a control that is loaded; `None`: it takes no advice.
    pub(super) fn of_loaded(control: &Verified) -> Option<AdvisedStarts> {
        let handle = |name: &str| {
            let map = control.advised().find(|map| map.name() == OsStr::new(name));
            MapHandle::try_from(&map?).ok()
        };
        let [sockets, paths] = MAPS.map(handle);
        Some(AdvisedStarts {
            sockets: sockets?,
            paths: paths?,
        })
    }

    /// Of the controls that are pinned below this folder; `None`: none of them takes advice.
    pub(super) fn pinned(folder: &Path) -> libbpf_rs::Result<Option<AdvisedStarts>> {
        let open = |name: &str| match MapHandle::from_pinned_path(pin(folder, OsStr::new(name))) {
            Ok(map) => Ok(Some(map)),
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let [sockets, paths] = MAPS.map(open);
        let maps = sockets?.zip(paths?);
        Ok(maps.map(|(sockets, paths)| AdvisedStarts { sockets, paths }))
    }

    /// Advises a connection, which starts by it unless it has already sent more than its first window.
    ///
    /// # Errors
    ///
    /// If it is no socket, or the kernel has no memory.
    pub fn advise_socket(
        &self,
        socket: impl AsFd,
        start: &AdvisedStart,
    ) -> Result<(), AdviceError> {
        let descriptor = socket.as_fd().as_raw_fd().to_ne_bytes();
        self.sockets
            .update(&descriptor, &start.to_bytes(), MapFlags::ANY)
            .map_err(failed("take"))
    }

    /// Advises all connections to a destination, in place of what they were advised before.
    ///
    /// # Errors
    ///
    /// If there are too many destinations.
    pub fn advise(&self, to: &Destination, start: &AdvisedStart) -> Result<(), AdviceError> {
        self.paths
            .update(&to.key(), &start.to_bytes(), MapFlags::ANY)
            .map_err(failed("take"))
    }

    /// Withdraws what is advised of exactly this destination; returns false if nothing was.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn withdraw(&self, to: &Destination) -> Result<bool, AdviceError> {
        match self.paths.delete(&to.key()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("forget")(error)),
        }
    }

    /// What a connection to all of this destination would be advised: of this prefix, or else of the longest that has it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn find(&self, to: &Destination) -> Result<Option<AdvisedStart>, AdviceError> {
        let value = self.paths.lookup(&to.key(), MapFlags::ANY);
        let value = value.map_err(failed("tell"))?;
        Ok(value.as_deref().and_then(AdvisedStart::from_bytes))
    }

    /// What is advised of exactly this destination.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn of(&self, to: &Destination) -> Result<Option<AdvisedStart>, AdviceError> {
        // A look-up would find a shorter prefix, too.
        let key = to.key();
        match self.paths.keys().any(|other| other == key) {
            true => self.find(to),
            false => Ok(None),
        }
    }

    /// All destinations of which something is advised.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn destinations(&self) -> Result<Vec<(Destination, AdvisedStart)>, AdviceError> {
        let mut all = Vec::new();
        for key in self.paths.keys() {
            let value = self.paths.lookup(&key, MapFlags::ANY);
            let value = value.map_err(failed("tell"))?;
            // It may have been withdrawn meanwhile.
            let start = value.as_deref().and_then(AdvisedStart::from_bytes);
            all.extend(Destination::of_key(&key).zip(start));
        }
        Ok(all)
    }
}

/// Where a map of this name is pinned in a folder. No control is called so: a control's name has no hyphen.
pub(super) fn pin(folder: &Path, map: &OsStr) -> PathBuf {
    folder.join(map.to_string_lossy().replace('_', "-"))
}

/// Whether this is one of the maps.
pub(super) fn is_advised(name: &OsStr) -> bool {
    MAPS.iter().any(|map| name == OsStr::new(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_prefix() {
        let to = Destination::new(7, "192.0.2.77".parse().unwrap(), 24).unwrap();
        assert_eq!(to.prefix().to_string(), "192.0.2.0/24");
        let to = Destination::new(7, "2001:db8:ff::1".parse().unwrap(), 33).unwrap();
        assert_eq!(to.prefix().to_string(), "2001:db8::/33");
        let to = Destination::new(7, "::1".parse().unwrap(), 0).unwrap();
        assert_eq!(to.prefix().to_string(), "::/0");
        assert_eq!(Destination::new(7, "192.0.2.77".parse().unwrap(), 33), None);
        assert_eq!(Destination::new(7, "::1".parse().unwrap(), 129), None);
    }

    #[test]
    fn a_key_reads_back() {
        let to = Destination::new(7, "192.0.2.0".parse().unwrap(), 24).unwrap();
        let key = to.key();
        assert_eq!(key.len(), 24);
        assert_eq!(key[..4], (32u32 + 96 + 24).to_ne_bytes());
        assert_eq!(key[18..], [0xff, 0xff, 192, 0, 2, 0]);
        assert_eq!(Destination::of_key(&key), Some(to));
        let other = |netns, address: &str, bits| {
            let other = Destination::new(netns, address.parse().unwrap(), bits).unwrap();
            (to.covers(&other), other.covers(&to))
        };
        assert_eq!(other(7, "192.0.2.7", 32), (true, false));
        assert_eq!(other(7, "192.0.2.7", 24), (true, true));
        assert_eq!(other(8, "192.0.2.7", 32), (false, false));
        assert_eq!(other(7, "::", 0), (false, true));
        assert_eq!(Destination::of_key(&key[1..]), None);
    }
}
