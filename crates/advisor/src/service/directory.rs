//! The paths in memory: by name, by number, by host.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use fairwind_advice::Settings;
use fairwind_origin::Prefix;

use crate::host::{self, HostPattern, Routes};
use crate::path::{PathConfig, PathError};
use crate::store::{PathId, StoredPath};

/// A path with the settings for its advice.
#[derive(Clone, Debug)]
pub struct KnownPath {
    /// The path as it is stored.
    pub stored: StoredPath,
    /// The settings of its models.
    pub settings: Settings,
}

impl KnownPath {
    /// Validates the declaration of a stored path.
    pub fn new(stored: StoredPath) -> Result<KnownPath, PathError> {
        let settings = stored.config.settings()?;
        Ok(KnownPath { stored, settings })
    }

    /// The path's declaration.
    pub fn config(&self) -> &PathConfig {
        &self.stored.config
    }
}

/// A snapshot of all paths.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    by_name: BTreeMap<String, Arc<KnownPath>>,
    by_id: HashMap<PathId, Arc<KnownPath>>,
    routes: Routes<PathId>,
    /// Resolved addresses of the hosts that were declared by name.
    resolved: Routes<PathId>,
}

impl Directory {
    /// A directory of these paths. If two have the same host, it belongs to the first of them in this order.
    pub fn new(paths: impl IntoIterator<Item = Arc<KnownPath>>) -> Directory {
        let mut directory = Directory::default();
        for path in paths {
            directory.add(path);
        }
        directory
    }

    fn add(&mut self, path: Arc<KnownPath>) {
        for host in &path.config().hosts {
            self.routes.insert(host, path.stored.id);
        }
        self.by_id.insert(path.stored.id, Arc::clone(&path));
        self.by_name.insert(path.config().name.clone(), path);
    }

    /// A copy of the directory with this path, replacing the one of the same number.
    pub fn with(&self, path: KnownPath) -> Directory {
        let id = path.stored.id;
        let old = self.by_id.get(&id);
        if old.is_some_and(|old| old.config().hosts != path.config().hosts) {
            return self.without(id).with(path);
        }
        // With the same hosts, no route changes: the routes need not be rebuilt.
        let mut directory = self.clone();
        directory.add(Arc::new(path));
        directory
    }

    /// A copy of the directory without the path of this number.
    pub fn without(&self, id: PathId) -> Directory {
        let others = self.by_name.values().filter(|path| path.stored.id != id);
        self.renewed(others.cloned())
    }

    /// A directory of these paths that keeps the resolved addresses of this one.
    pub fn renewed(&self, paths: impl IntoIterator<Item = Arc<KnownPath>>) -> Directory {
        Directory {
            resolved: self.resolved.clone(),
            ..Directory::new(paths)
        }
    }

    /// A copy of the directory with these resolved addresses.
    pub fn with_addresses(&self, addresses: &[(IpAddr, PathId)]) -> Directory {
        let mut directory = self.clone();
        directory.resolved = Routes::default();
        for &(address, path) in addresses {
            let host = HostPattern::Network(Prefix::host(address));
            directory.resolved.insert(&host, path);
        }
        directory
    }

    /// All paths, in the order of their names.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &Arc<KnownPath>> {
        self.by_name.values()
    }

    /// The number of paths.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is no path.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The path of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<KnownPath>> {
        self.by_name.get(name)
    }

    /// The path of this number.
    pub fn numbered(&self, id: PathId) -> Option<&Arc<KnownPath>> {
        self.by_id.get(&id)
    }

    /// The path to a host, given as an address or a name.
    pub fn route(&self, host: &str) -> Option<&Arc<KnownPath>> {
        let resolved = || self.resolved.find(host);
        let exact = |path: &PathId| self.by_id.contains_key(path);
        let path = match self.routes.find(host) {
            // A resolved address is more specific than a network around it, but not than the same address if
            // that was declared itself.
            Some(path) if self.names_exactly(host, path) => Some(path),
            other => resolved().filter(exact).or(other),
        };
        self.by_id.get(&path?)
    }

    /// The destinations around an address that all have its path; none for a name, and without a path.
    pub fn prefix(&self, host: &str) -> Option<Prefix> {
        let address = host::address(host)?;
        let path = self.route(host)?.stored.id;
        let prefix = match self.routes.find_address(address) {
            Some((prefix, of)) if of == path => prefix,
            // It is the address of a name.
            _ => Prefix::host(address),
        };
        let prefix = self.routes.part_of(prefix, address, path);
        Some(self.resolved.part_of(prefix, address, path))
    }

    fn names_exactly(&self, host: &str, path: PathId) -> bool {
        let Ok(pattern) = host.parse::<HostPattern>() else {
            return false;
        };
        self.numbered(path)
            .is_some_and(|path| path.config().hosts.contains(&pattern))
    }

    /// A path other than `id` that already has one of these hosts, with that host.
    pub fn conflict(&self, id: Option<PathId>, hosts: &[HostPattern]) -> Option<(&str, String)> {
        hosts.iter().find_map(|host| {
            let path = self.routes.exactly(host)?;
            let path = self.by_id.get(&path).filter(|_| Some(path) != id)?;
            Some((path.config().name.as_str(), host.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoredPath;

    fn path(id: i64, name: &str, hosts: &[&str]) -> KnownPath {
        let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
        KnownPath::new(StoredPath {
            id: PathId(id),
            config: PathConfig::new(name, hosts),
            hops: Vec::new(),
            changed: 0,
            discovered: None,
        })
        .unwrap()
    }

    fn name(directory: &Directory, host: &str) -> Option<String> {
        let path = directory.route(host)?;
        Some(path.config().name.clone())
    }

    #[test]
    fn a_path_that_is_declared_anew_loses_the_hosts_it_had() {
        let directory = Directory::default().with(path(1, "a", &["192.0.2.1"]));
        let directory = directory.with(path(1, "a", &["192.0.2.2"]));
        assert_eq!(name(&directory, "192.0.2.1"), None);
        assert_eq!(name(&directory, "192.0.2.2").as_deref(), Some("a"));
        assert!(directory.without(PathId(1)).is_empty());
    }

    #[test]
    fn the_address_of_a_name_is_nearer_than_a_network() {
        let directory = Directory::default()
            .with(path(1, "net", &["192.0.2.0/24", "192.0.2.9"]))
            .with(path(2, "host", &["data.example.org"]));
        let found = [
            ("192.0.2.7".parse().unwrap(), PathId(2)),
            ("192.0.2.9".parse().unwrap(), PathId(2)),
        ];
        let directory = directory.with_addresses(&found);
        assert_eq!(name(&directory, "192.0.2.7").as_deref(), Some("host"));
        assert_eq!(
            name(&directory, "192.0.2.9").as_deref(),
            Some("net"),
            "it was declared itself"
        );
        let without = directory.without(PathId(2));
        assert_eq!(name(&without, "192.0.2.7").as_deref(), Some("net"));
    }

    #[test]
    fn a_prefix_leaves_out_the_addresses_of_names() {
        let directory = Directory::default()
            .with(path(1, "net", &["192.0.2.0/24"]))
            .with(path(2, "host", &["data.example.org"]));
        let prefix = |directory: &Directory, host: &str| {
            let prefix = directory.prefix(host)?;
            Some(prefix.to_string())
        };
        let whole = Some("192.0.2.0/24".to_owned());
        assert_eq!(prefix(&directory, "192.0.2.1"), whole);
        assert_eq!(prefix(&directory, "::ffff:192.0.2.1"), whole);
        assert_eq!(prefix(&directory, "data.example.org"), None);
        assert_eq!(prefix(&directory, "198.51.100.1"), None);
        let found = [("192.0.2.9".parse().unwrap(), PathId(2))];
        let directory = directory.with_addresses(&found);
        let part = |host: &str| prefix(&directory, host).unwrap();
        assert_eq!(part("192.0.2.1"), "192.0.2.0/29");
        assert_eq!(part("192.0.2.8"), "192.0.2.8/32");
        assert_eq!(part("192.0.2.9"), "192.0.2.9/32");
        assert_eq!(part("192.0.2.200"), "192.0.2.128/25");
    }

    #[test]
    fn a_host_of_another_path_is_a_conflict() {
        let directory = Directory::default().with(path(1, "a", &["192.0.2.0/24"]));
        let hosts = ["192.0.2.5/24".parse().unwrap()];
        let conflict = directory.conflict(None, &hosts);
        assert_eq!(conflict, Some(("a", "192.0.2.0/24".to_owned())));
        assert_eq!(directory.conflict(Some(PathId(1)), &hosts), None);
    }
}
