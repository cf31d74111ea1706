//! Tests run against every available server: this project's, vsftpd, ProFTPD and pyftpdlib.

use std::any::Any;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fairwind_ftp::client::batch::{self, Job};
use fairwind_ftp::client::{Connection, Credentials, Options, Outcome, Retrieval, Storage};

use super::broken::pyftpd;
use super::others::Vsftpd;
use super::proftpd::Proftpd;
use super::{alice, options, place};
use crate::common::Running;

/// A server that allows downloads and uploads below a directory.
pub(super) struct Peer {
    pub name: &'static str,
    /// The directory's local path.
    pub there: PathBuf,
    address: SocketAddr,
    credentials: Credentials,
    /// The directory's path on the server, with a trailing slash unless it is empty.
    pub prefix: &'static str,
    _server: Box<dyn Any>,
}

impl Peer {
    pub(super) fn connection(&self) -> Connection {
        self.connection_with(options())
    }

    pub(super) fn connection_with(&self, options: Options) -> Connection {
        let place = place(self.address, "");
        Connection::new(place, self.credentials.clone(), options)
    }

    /// A connection for transfers between servers.
    pub(super) fn connection_to(&self, name: &[u8]) -> Connection {
        let place = place(self.address, "").with_path(self.path(name));
        Connection::new(place, self.credentials.clone(), options())
    }

    pub(super) fn path(&self, name: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), name].concat()
    }

    pub(super) fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        fs::read(self.there.join(name)).unwrap_or_default()
    }

    /// A job that uploads `source` under a name.
    pub(super) fn storing(&self, source: &Path, name: &[u8]) -> Job {
        Job::Put(Storage {
            source: source.to_owned(),
            remote: self.path(name),
            present: None,
        })
    }

    /// A job that downloads a name to `target`.
    pub(super) fn fetching(&self, name: &[u8], target: &Path) -> Job {
        Job::Get(Retrieval {
            remote: self.path(name),
            target: target.to_owned(),
            listed: None,
        })
    }

    /// Runs these jobs one after the other.
    pub(super) fn run(&self, jobs: Vec<Job>) -> Outcome {
        batch::run(self.connection(), jobs, std::num::NonZeroUsize::MIN).unwrap()
    }
}

pub(super) fn own() -> Peer {
    let server = Running::start();
    Peer {
        name: "ours",
        there: server.dir.path().to_owned(),
        address: server.address,
        credentials: alice(),
        prefix: "",
        _server: Box::new(server),
    }
}

pub(super) fn vsftpd() -> Option<Peer> {
    let server = Vsftpd::start()?;
    Some(Peer {
        name: "vsftpd",
        there: server.directory.path().join("pub"),
        address: server.process.address,
        credentials: Credentials::anonymous(),
        prefix: "pub/",
        _server: Box::new(server),
    })
}

pub(super) fn proftpd() -> Option<Peer> {
    let server = Proftpd::start()?;
    Some(Peer {
        name: "ProFTPD",
        there: server.there.clone(),
        address: server.process.address,
        credentials: alice(),
        prefix: "",
        _server: Box::new(server),
    })
}

pub(super) fn pyftpdlib() -> Option<Peer> {
    let directory = tempfile::tempdir().unwrap();
    let server = pyftpd(directory.path(), &[])?;
    Some(Peer {
        name: "pyftpdlib",
        there: directory.path().to_owned(),
        address: server.address,
        credentials: alice(),
        prefix: "",
        _server: Box::new((server, directory)),
    })
}

/// All available servers.
pub(super) fn every() -> Vec<Peer> {
    let others = [vsftpd(), proftpd(), pyftpdlib()];
    std::iter::once(own())
        .chain(others.into_iter().flatten())
        .collect()
}
