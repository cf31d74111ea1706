//! Requests for samples: the kernel goes over the traced connections.

use std::io::Read;

use fairwind_kernel::NetworkNamespaces;
use libbpf_rs::{Iter, Link};

use super::TraceError;

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
    namespaces: NetworkNamespaces,
}

impl Sampling {
    pub(super) fn new(listing: Listing, all: Link, closing: Link) -> Sampling {
        Sampling {
            listing,
            all,
            closing,
            namespaces: NetworkNamespaces::default(),
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
            Listing::Table => self
                .namespaces
                .each(|| run(iterator), TraceError::Namespace),
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
