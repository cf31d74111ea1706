//! Which hosts of a transfer log become paths, how many, and for how long.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::Deserialize;

/// The configuration for paths to undeclared hosts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Discovery {
    /// Only hosts in these networks become paths.
    #[cfg_attr(test, schema(value_type = Vec<String>))]
    pub networks: Vec<IpNet>,
    /// Days without a transfer after which a path is forgotten, at least 1.
    pub forget_after_days: u32,
    /// Most paths from the log; beyond it, the path whose host has not appeared for the longest time is
    /// forgotten.
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
    /// Checks the values; the error names the key.
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
}
