//! What the server may do once it listens: little, and only in its own directory.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use fairwind_ftp::server::{Config, UserConfig};
use fairwind_transfer::Buffer;
use nix::unistd::Uid;
use rustix::fs::{Access, AtFlags, Mode, OFlags, accessat};
use rustix::thread::CapabilitySet;

use super::confinement::{Confinement, Reach, of_host_names, of_local_time, of_network_settings};
use super::identity::Identity;
use super::privileges::{become_user, keep, require_single_thread};
use crate::failure::Failure;

/// The rights that the server keeps; all others are given up as soon as its sockets and files are open.
pub(crate) struct Rights {
    directories: Vec<Directory>,
    /// The user that the server becomes; none if it stays who it is.
    identity: Option<Identity>,
    kept: CapabilitySet,
    confinement: Confinement,
    chosen: Chosen,
}

/// What the remaining rights were chosen for: anything more takes a restart.
#[derive(Debug)]
pub(crate) struct Chosen {
    run_as: Option<String>,
    /// The directories of virtual hosts.
    roots: Vec<PathBuf>,
    /// The PAM service by which system users log in.
    pam: Option<String>,
    /// Whether host names can be resolved, and certificates read.
    finds_hosts: bool,
    /// Capabilities that the process had and gave up.
    given_up: CapabilitySet,
}

struct Directory {
    path: PathBuf,
    open: OwnedFd,
    is_written: bool,
}

impl Rights {
    /// The rights that this configuration requires.
    ///
    /// # Errors
    /// Fails if the user or the directory does not exist, if a process that is not root's would have to
    /// become another user, or if the confinement cannot be prepared.
    pub(crate) fn of(config: &Config) -> Result<Self, Failure> {
        if config.pam_as_user && config.pam.is_none() {
            return Err(Failure::input("--pam-as-user needs --pam"));
        }
        if config.pam_as_user && !Uid::effective().is_root() {
            return Err(Failure::input(
                "--pam-as-user: only root can serve files with the rights of others",
            ));
        }
        let directories = Directory::all(config)?;
        let roots: Vec<_> = config.host.iter().map(|host| host.root.clone()).collect();
        let identity = identity(config)?;
        let mut paths = vec![(config.root.clone(), Reach::Serve)];
        paths.extend(roots.iter().map(|root| (root.clone(), Reach::Serve)));
        paths.extend(of_local_time());
        paths.extend(of_network_settings());
        if config.advisor.is_some() {
            paths.extend(of_host_names());
        }
        Ok(Self {
            chosen: Chosen {
                run_as: config.run_as.clone(),
                roots,
                pam: config.pam.clone(),
                finds_hosts: config.advisor.is_some(),
                given_up: CapabilitySet::empty(),
            },
            kept: capabilities(config),
            confinement: Confinement::prepare(&paths).map_err(Failure::work)?,
            directories,
            identity,
        })
    }

    /// Gives up all other rights, before the first thread is started.
    ///
    /// # Errors
    /// Fails if there are threads already, if the kernel refuses a change, or if the directory could not be
    /// served without the rights.
    pub(crate) fn give_up(self) -> Result<Chosen, Failure> {
        require_single_thread().map_err(Failure::work)?;
        let before = permitted().map_err(Failure::work)?;
        match &self.identity {
            Some(identity) => {
                // `--run-as root` is an explicit choice of root's rights to files.
                let kept = if identity.uid.is_root() {
                    CapabilitySet::all()
                } else {
                    self.kept
                };
                become_user(identity, kept).map_err(|error| {
                    Failure::work(format!("--run-as {}: {error}", identity.name))
                })?;
                tracing::info!("files are served with the rights of {}", identity.name);
            }
            // A server that is root by choice needs root's rights to files; in any case no others can be
            // gained by running programs.
            None if Uid::effective().is_root() => {
                keep(CapabilitySet::all()).map_err(Failure::work)?;
            }
            None => keep(self.kept).map_err(Failure::work)?,
        }
        for directory in &self.directories {
            directory.check()?;
        }
        let confined = self.confinement.enter().map_err(Failure::work)?;
        if !confined {
            tracing::warn!(
                "this kernel has no Landlock: only file permissions protect other files"
            );
        }
        Ok(Chosen {
            finds_hosts: self.chosen.finds_hosts || !confined,
            given_up: before - permitted().map_err(Failure::work)?,
            ..self.chosen
        })
    }
}

impl Chosen {
    /// Warns of what a new configuration requests but the remaining rights do not allow.
    pub(crate) fn warn_of(&self, config: &Config) {
        if config.run_as != self.run_as {
            let name = |user: &Option<String>| user.clone().unwrap_or_else(|| "not set".into());
            let (stays, new) = (name(&self.run_as), name(&config.run_as));
            tracing::warn!("run_as: {stays} stays; {new} takes effect after a restart");
        }
        if config.pam.is_some() && config.pam != self.pam {
            tracing::warn!("pam: another service takes effect after a restart");
        }
        for host in &config.host {
            if !self.roots.contains(&host.root) {
                let root = host.root.display();
                tracing::warn!("host: {root} can be served after a restart");
            }
        }
        let missing = capabilities(config) & self.given_up;
        if missing.contains(CapabilitySet::SETUID) {
            tracing::warn!("pam_as_user: logins of system users fail until a restart");
        }
        if missing.contains(CapabilitySet::NET_BIND_SERVICE) {
            let first = first_free_port();
            tracing::warn!("passive_ports: ports below {first} take effect after a restart");
        }
        if missing.contains(CapabilitySet::NET_ADMIN) {
            tracing::warn!(
                "buffer, advisor, drs: only what every program may set takes effect; more needs a restart"
            );
        }
        if config.advisor.is_some() && !self.finds_hosts {
            tracing::warn!(
                "advisor: to find its host by name, and its certificate, needs a restart"
            );
        }
    }
}

fn permitted() -> io::Result<CapabilitySet> {
    Ok(rustix::thread::capabilities(None)?.permitted)
}

impl Directory {
    /// Those of the server and of its virtual hosts.
    fn all(config: &Config) -> Result<Vec<Self>, Failure> {
        let hosts = config.host.iter().map(|host| (&host.root, &host.user));
        let server = std::iter::once((&config.root, &config.users));
        server
            .chain(hosts)
            .map(|(root, users)| Self::open(root, users))
            .collect()
    }

    fn open(root: &Path, users: &[UserConfig]) -> Result<Self, Failure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = rustix::fs::open(root, flags, Mode::empty())
            .map_err(|error| Failure::work(format!("{}: {error}", root.display())))?;
        Ok(Self {
            path: root.to_owned(),
            open,
            is_written: users.iter().any(|user| user.write),
        })
    }

    /// Checks that the directory can be served, and warns if users may write but the server may not.
    fn check(&self) -> Result<(), Failure> {
        let may = |access| accessat(&self.open, ".", access, AtFlags::EACCESS).is_ok();
        let (path, name) = (self.path.display(), own_name());
        if !may(Access::READ_OK | Access::EXEC_OK) {
            return Err(Failure::work(format!(
                "{path}: {name} may not read this directory; --run-as names a user who may (root, if it has to be)"
            )));
        }
        if self.is_written && !may(Access::WRITE_OK) {
            tracing::warn!(
                "{path}: {name} may not write to this directory, whatever users may; give it to {name}, \
                 or name another user by --run-as"
            );
        }
        Ok(())
    }
}

fn own_name() -> String {
    let uid = Uid::effective();
    let known = nix::unistd::User::from_uid(uid).ok().flatten();
    known.map_or_else(|| uid.to_string(), |user| user.name)
}

/// The user that the server becomes; none if it stays who it is.
fn identity(config: &Config) -> Result<Option<Identity>, Failure> {
    let wanted = match &config.run_as {
        Some(text) => {
            let wanted = Identity::parse(text)
                .map_err(|error| Failure::input(format!("--run-as {text}: {error}")))?;
            if !Uid::effective().is_root() && !wanted.is_own() {
                return Err(Failure::input(format!(
                    "--run-as {text}: only root can become somebody else, or of another group"
                )));
            }
            wanted
        }
        None if !Uid::effective().is_root() => return Ok(None),
        None => Identity::of_owner(&config.root)
            .map_err(|error| Failure::work(format!("{}: {error}", config.root.display())))?,
    };
    if wanted.is_own() {
        return Ok(None);
    }
    if config.run_as.is_none() && !exists_here(wanted.uid) {
        tracing::warn!(
            "this user namespace has no {}: files are served with the rights of {}",
            wanted.name,
            own_name()
        );
        return Ok(None);
    }
    Ok(Some(wanted))
}

/// Whether the user exists in this user namespace (user_namespaces(7)); in an unprivileged one, root is the
/// user who created it.
fn exists_here(uid: Uid) -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else {
        return true;
    };
    map.lines().any(|line| {
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if uid.as_raw().checked_sub(first).is_some_and(|n| n < count))
    })
}

/// Capabilities that transfers need.
fn capabilities(config: &Config) -> CapabilitySet {
    let mut kept = CapabilitySet::empty();
    // To use restricted congestion controls, and buffers beyond the limits of unprivileged programs.
    if config.advisor.is_some() || config.drs || config.buffer != Buffer::Auto {
        kept |= CapabilitySet::NET_ADMIN;
    }
    // To act with the rights of others.
    if config.pam_as_user {
        kept |= CapabilitySet::SETUID | CapabilitySet::SETGID;
    }
    let passive = config.passive_ports.as_ref();
    if passive.is_some_and(|ports| *ports.start() < first_free_port()) {
        kept |= CapabilitySet::NET_BIND_SERVICE;
    }
    kept
}

/// The first port that an unprivileged program may listen on.
fn first_free_port() -> u16 {
    let port = fairwind_kernel::sysctl("net.ipv4.ip_unprivileged_port_start");
    port.and_then(|port| port.parse().ok()).unwrap_or(1_024)
}
