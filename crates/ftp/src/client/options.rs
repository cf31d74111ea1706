//! How the client goes about its work.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Extension, Progress, Silent};
use crate::data::SocketPlan;

/// Who opens data connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataMode {
    /// The client (EPSV, PASV).
    #[default]
    Passive,
    /// The server (EPRT, PORT).
    Active,
}

/// What is done about checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChecksumPolicy {
    /// The server is asked if it has any.
    #[default]
    Offered,
    /// A server that has none is a failure.
    Required,
    /// Nothing is asked.
    Off,
}

/// How the client goes about its work.
#[derive(Clone)]
pub struct Options {
    /// Who opens data connections.
    pub mode: DataMode,
    /// Options of data sockets.
    pub plan: SocketPlan,
    /// How long a connection, a reply, or the next byte may take.
    pub patience: Duration,
    /// How often in a row, without a byte in between, is tried again what may pass.
    pub retries: u32,
    /// The first pause before trying again; it doubles up to 30 s.
    pub pause: Duration,
    /// Whether what earlier transfers left behind is continued.
    pub resume: bool,
    /// Whether uploads go straight to their name, for servers that let nobody rename.
    pub in_place: bool,
    /// What is done about checksums.
    pub checksum: ChecksumPolicy,
    /// Who follows data connections.
    pub extensions: Vec<Arc<dyn Extension>>,
    /// Who hears of it.
    pub progress: Arc<dyn Progress>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: DataMode::default(),
            plan: SocketPlan::default(),
            patience: Duration::from_secs(30),
            retries: 5,
            pause: Duration::from_secs(1),
            resume: true,
            in_place: false,
            checksum: ChecksumPolicy::default(),
            extensions: Vec::new(),
            progress: Arc::new(Silent),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("mode", &self.mode)
            .field("plan", &self.plan)
            .field("patience", &self.patience)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}
