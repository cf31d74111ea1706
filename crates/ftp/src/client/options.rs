//! The client's options.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use fairwind_transfer::SocketPlan;

use super::{Extension, Kept, Progress, RateLimit, Route, Silent, TlsPolicy};
use crate::tls::ClientTls;

/// Which side opens data connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataMode {
    /// The client (EPSV, PASV).
    #[default]
    Passive,
    /// The server (EPRT, PORT).
    Active,
}

/// Whether files are verified with checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChecksumPolicy {
    /// If the server offers them.
    #[default]
    Offered,
    /// A server that offers none is an error.
    Required,
    /// Never.
    Off,
}

/// The client's options.
#[derive(Clone)]
pub struct Options {
    /// Which side opens data connections.
    pub mode: DataMode,
    /// How servers are reached.
    pub route: Route,
    /// Limits the rate of all transfers together.
    pub limit: Option<Arc<RateLimit>>,
    /// Options for data sockets.
    pub plan: SocketPlan,
    /// Timeout for a connection attempt, a reply, and the next byte of a transfer.
    pub patience: Duration,
    /// How many times in a row, with no byte moved in between, a transient failure is retried.
    pub retries: u32,
    /// Whether to try again, too, to reach a server that has never been reached: its name may be wrong.
    pub waits: bool,
    /// The pause before the first retry; it doubles up to 30 s.
    pub pause: Duration,
    /// Whether partial files of earlier transfers are resumed.
    pub resume: bool,
    /// Most ranges of a file that are downloaded at the same time.
    pub ranges: NonZeroUsize,
    /// Whether uploads are written under their final name, for servers that do not allow renaming.
    pub in_place: bool,
    /// Whether files are verified with checksums.
    pub checksum: ChecksumPolicy,
    /// Whether `ftp://` means TLS.
    pub tls_policy: TlsPolicy,
    /// Whom to trust under TLS.
    pub tls: Arc<ClientTls>,
    /// Extensions that follow data connections.
    pub extensions: Vec<Arc<dyn Extension>>,
    /// Receives progress reports.
    pub progress: Arc<dyn Progress>,
    /// Holds the session of a connection that is closed, for the next one; none ends it.
    pub kept: Option<Kept>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: DataMode::default(),
            route: Route::default(),
            limit: None,
            plan: SocketPlan::default(),
            patience: Duration::from_secs(30),
            retries: 5,
            waits: false,
            pause: Duration::from_secs(1),
            resume: true,
            ranges: NonZeroUsize::MIN,
            in_place: false,
            checksum: ChecksumPolicy::default(),
            tls_policy: TlsPolicy::default(),
            tls: Arc::default(),
            extensions: Vec::new(),
            progress: Arc::new(Silent),
            kept: None,
        }
    }
}
