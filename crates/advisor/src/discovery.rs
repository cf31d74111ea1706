//! Which hosts of a log of transfers become paths, how many, and for how long.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::directory::KnownPath;
use crate::host::HostPattern;
use crate::path::PathConfig;

/// What the configuration says of hosts that nobody declared.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Discovery {
    /// Hosts outside of these networks become no paths.
    pub networks: Vec<IpNet>,
    /// A host that has come up in no transfer for so many days is forgotten with its history; 1 at least.
    pub forget_after_days: u32,
    /// There are no more of them; the one that came up longest ago goes first.
    pub hosts_at_most: u32,
}

impl Default for Discovery {
    fn default() -> Discovery {
        Discovery {
            networks: vec![Ipv4Net::default().into(), Ipv6Net::default().into()],
            forget_after_days: 30,
            hosts_at_most: 1_000,
        }
    }
}

impl Discovery {
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        match self.forget_after_days {
            0 => Err("discovery: forget_after_days: 1 at least".to_owned()),
            _ => Ok(()),
        }
    }

    /// Whether the host may become a path.
    pub fn allows(&self, host: IpAddr) -> bool {
        let unspecific = host.is_unspecified() || host.is_multicast() || host.is_loopback();
        !unspecific && self.networks.iter().any(|network| network.contains(&host))
    }

    /// Whether the path may stay at this time; one that was declared always may.
    pub fn keeps(&self, path: &KnownPath, now: Timestamp) -> bool {
        let Some(seen) = path.stored.discovered else {
            return true;
        };
        let days = i64::from(self.forget_after_days);
        let age = now.duration_since(seen);
        age <= SignedDuration::from_hours(24 * days) && self.allows_all(path.config())
    }

    fn allows_all(&self, path: &PathConfig) -> bool {
        path.hosts.iter().all(|host| match host {
            HostPattern::Network(network) => self.allows(network.addr()),
            HostPattern::Name(_) | HostPattern::Under(_) => true,
        })
    }
}
