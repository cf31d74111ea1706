//! Virtual hosts: HOST (RFC 7151) and the server name of TLS (SNI, RFC 6066 section 3) choose among trees with users,
//! texts and certificates of their own. Everything else, such as limits and logs, is the server's.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;

use super::access::AccessRule;
use super::config::{Config, UserConfig};
use super::greeting::Greeting;
use super::quota::Quotas;
use super::session::Session;
use super::users::Users;
use super::{Shared, invalid};
use crate::protocol::Reply;
use crate::protocol::command::is_host_name;
use crate::tls::{Certificates, NamedCertificates, ServerTls, TlsConfig};

/// A virtual host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Names that HOST and TLS may give: an array; the first one follows the names of the host's users in logs and lists.
    pub names: Vec<String>,
    /// The directory that is served.
    pub root: PathBuf,
    /// As the server's. Default: the server's.
    #[serde(default)]
    pub anonymous: Option<bool>,
    /// Named users, who can log in at this host only: an array of tables.
    #[serde(default)]
    pub user: Vec<UserConfig>,
    /// Rights by directory: an array of tables.
    #[serde(default)]
    pub access: Vec<AccessRule>,
    /// As `--banner`.
    #[serde(default)]
    pub banner: Option<PathBuf>,
    /// As `--motd`.
    #[serde(default)]
    pub motd: Option<PathBuf>,
    /// As `--tls-certificate`; needs `[tls]`. Default: the server's.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// Private key of `certificate`.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// Whether system users can log in, if there is `pam`. Default: `false`.
    #[serde(default)]
    pub pam: bool,
}

impl HostConfig {
    /// The name by which the host is told from others; empty if it has none, which [`check`] refuses.
    pub(super) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// What the server's configuration is for sessions of this host.
    fn within(&self, server: &Config) -> Config {
        Config {
            root: self.root.clone(),
            anonymous: self.anonymous.unwrap_or(server.anonymous),
            users: self.user.clone(),
            access: self.access.clone(),
            banner: self.banner.clone(),
            motd: self.motd.clone(),
            pam: server.pam.clone().filter(|_| self.pam),
            authenticator: server.authenticator.clone().filter(|_| self.pam),
            host: Vec::new(),
            ..server.clone()
        }
    }

    fn own_files(&self) -> Option<(&PathBuf, &PathBuf)> {
        self.certificate.as_ref().zip(self.key.as_ref())
    }
}

/// Virtual hosts by name, in lower case; none at any of these.
#[derive(Default)]
pub(super) struct Hosts(HashMap<String, Arc<Shared>>);

impl Hosts {
    /// Opens the trees, texts and certificates of the hosts of `server`, which are otherwise like it.
    ///
    /// # Errors
    /// If one of them cannot be opened, or a host or a user is invalid; the error names the host.
    pub(super) fn open(server: &Shared, before: Option<&Shared>) -> io::Result<Self> {
        check_names(&server.config)?;
        let mut hosts = HashMap::new();
        for host in &server.config.host {
            let at = |error: io::Error| named(host, &error);
            let config = host.within(&server.config);
            // A tree that is open stays open: its path may be out of reach by now.
            let opened = before.and_then(|before| before.hosts.with_root(&config));
            let users = Users::open(
                &config,
                Some(host.name()),
                opened.map(|shared| &shared.users),
                &server.ledger.quotas,
            );
            let shared = Arc::new(Shared {
                users: users.map_err(at)?,
                greeting: Greeting::read(&config).map_err(at)?,
                extensions: server.extensions.clone(),
                xferlog: server.xferlog.clone(),
                journal: server.journal.clone(),
                tls: server.tls.as_ref().map(|tls| tls.at_host(host.name())),
                ledger: Arc::clone(&server.ledger),
                hosts: Self::default(),
                config,
            });
            for name in &host.names {
                hosts.insert(name.to_ascii_lowercase(), Arc::clone(&shared));
            }
        }
        Ok(Self(hosts))
    }

    /// The host of this name, in lower case.
    fn find(&self, name: &str) -> Option<&Arc<Shared>> {
        self.0.get(name)
    }

    fn with_root(&self, config: &Config) -> Option<&Arc<Shared>> {
        self.0.values().find(|host| host.config.root == config.root)
    }
}

/// The certificates of all names that a configuration has, for its [`ServerTls`].
///
/// # Errors
/// If a file cannot be read or used; the error names the host.
pub(super) fn certificates(config: &Config, tls: &TlsConfig) -> io::Result<Certificates> {
    let mut all = NamedCertificates::default();
    let own = ServerTls::certificate(&tls.certificate, &tls.key, &config.file_reader)?;
    for name in &config.hosts {
        all.insert(name.to_ascii_lowercase(), Arc::clone(&own));
    }
    for host in &config.host {
        let certificate = match host.own_files() {
            Some((certificate, key)) => {
                ServerTls::certificate(certificate, key, &config.file_reader)
                    .map_err(|error| named(host, &error))?
            }
            None => Arc::clone(&own),
        };
        for name in &host.names {
            all.insert(name.to_ascii_lowercase(), Arc::clone(&certificate));
        }
    }
    Ok(Certificates::new(own, all))
}

/// Checks all that [`Hosts::open`] would, except for certificates.
///
/// # Errors
/// As [`Hosts::open`].
pub(super) fn check(config: &Config) -> io::Result<()> {
    check_names(config)?;
    for host in &config.host {
        let within = host.within(config);
        let users = Users::open(&within, Some(host.name()), None, &Quotas::default());
        users
            .and_then(|_| Greeting::read(&within))
            .map_err(|error| named(host, &error))?;
    }
    Ok(())
}

fn check_names(config: &Config) -> io::Result<()> {
    let mut seen: Vec<String> = config
        .hosts
        .iter()
        .map(|name| name.to_ascii_lowercase())
        .collect();
    for host in &config.host {
        let wrong = |what: String| Err(invalid(format!("host {:?}: {what}", host.name())));
        if host.names.is_empty() {
            let root = host.root.display();
            return Err(invalid(format!("host with root {root}: names are missing")));
        }
        for name in &host.names {
            if !is_host_name(name) {
                return wrong(format!("{name:?} is not the name of a host"));
            }
            let name = name.to_ascii_lowercase();
            if seen.contains(&name) {
                return wrong(format!("{name:?} is named twice"));
            }
            seen.push(name);
        }
        if host.certificate.is_some() != host.key.is_some() {
            return wrong("a certificate and its key belong together".into());
        }
        if host.certificate.is_some() && config.tls.is_none() {
            return wrong("a certificate needs [tls]".into());
        }
        if host.pam && config.pam.is_none() {
            return wrong("pam = true needs the server's pam".into());
        }
        // SITE WHO would show sessions of other hosts.
        if let Some(user) = host.user.iter().find(|user| user.admin) {
            return wrong(format!(
                "user {}: only the server's own users can have admin",
                user.name
            ));
        }
        let account = |user: &UserConfig| account(&user.name, Some(host.name()));
        let is_taken = |account: &String| config.users.iter().any(|user| user.name == *account);
        if let Some(account) = host.user.iter().map(account).find(is_taken) {
            return wrong(format!("the server has a user {account}, too"));
        }
    }
    Ok(())
}

/// The name of a user in logs, lists, limits and the marks of unfinished uploads: users of two hosts are two, even if
/// they call themselves the same.
pub(super) fn account(user: &str, host: Option<&str>) -> String {
    match host {
        Some(host) => format!("{user}@{host}"),
        None => user.to_owned(),
    }
}

fn named(host: &HostConfig, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("host {}: {error}", host.name()))
}

impl Session {
    /// HOST, before a login (RFC 7151).
    pub(super) fn host(&mut self, name: &str) -> Reply {
        if self.state.user.is_some() || self.state.name.is_some() {
            return Reply::new(503, "HOST comes before USER; REIN starts over");
        }
        let Some(host) = self.find_host(name) else {
            return Reply::new(504, "No such host here");
        };
        // What the client was shown a certificate for cannot be left for something else.
        let names_one = self
            .tls
            .as_ref()
            .is_some_and(|tls| tls.server_name().is_some());
        if names_one && !Arc::ptr_eq(&host, &self.shared) {
            return Reply::new(504, "TLS was begun with the name of another host");
        }
        self.shared = host;
        self.shared.greeting.banner()
    }

    /// What a name leads to. As long as nothing names any hosts, all names are the server's.
    fn find_host(&self, name: &str) -> Option<Arc<Shared>> {
        let Config { host, hosts, .. } = &self.server.config;
        let is_own = |own: &String| own.eq_ignore_ascii_case(name);
        if hosts.iter().any(is_own) || (host.is_empty() && hosts.is_empty()) {
            return Some(Arc::clone(&self.server));
        }
        self.server.hosts.find(name).cloned()
    }

    /// The host that the client has named in the handshake is that of the session, whatever HOST said in clear before. A
    /// name that no host has changes nothing; then it is up to the client whether it takes the certificate.
    pub(super) fn follow_server_name(&mut self) {
        let name = self.tls.as_ref().and_then(|tls| tls.server_name());
        if let Some(host) = name.and_then(|name| self.find_host(name)) {
            self.shared = host;
        }
        self.arrived_at = Arc::clone(&self.shared);
    }

    /// REIN: back to the host that the session has without HOST.
    pub(super) fn leave_host(&mut self) {
        self.shared = Arc::clone(&self.arrived_at);
    }
}
