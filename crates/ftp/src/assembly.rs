//! Which extensions a server or a client has: right-sizing and advice, as far as they are chosen.

use std::io;
use std::sync::Arc;

use fairwind_transfer::Buffer;
use fairwind_transfer::advised::{Advisor, Follow, Journal};
use fairwind_transfer::drs::{Budget, Caps};
use ipnet::IpNet;

use crate::advised::{AdvisedClient, AdvisedServer};
use crate::client::{self, ClientError};
use crate::drs::{RightSizingClient, RightSizingServer};
use crate::server::{self, Config, Extensions, Server};

/// Opens a server with the extensions that its configuration selects.
///
/// # Errors
/// As [`Server::bind`], or if the URL of the advisor is invalid or the log of advice cannot be opened.
pub fn bind_server(config: Config) -> io::Result<Server> {
    let selected = Selected::open(&config, Budget::default(), None)?;
    Server::bind(config, Arc::new(selected))
}

/// The extensions that the configuration of a server selects.
struct Selected {
    extensions: Vec<Arc<dyn server::Extension>>,
    advisor: Option<NamedAdvisor>,
    /// What all right-sized buffers have taken, under any configuration.
    budget: Budget,
}

/// An advisor, and the URL by which the configuration names it.
#[derive(Clone)]
struct NamedAdvisor {
    url: String,
    advisor: Arc<Advisor>,
}

impl NamedAdvisor {
    fn at(url: &str) -> io::Result<Self> {
        let advisor = Advisor::at(url);
        let advisor =
            advisor.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Self {
            url: url.to_owned(),
            advisor: Arc::new(advisor),
        })
    }
}

impl Selected {
    /// An advisor that was named `before` and still is stays the same.
    fn open(config: &Config, budget: Budget, before: Option<&NamedAdvisor>) -> io::Result<Self> {
        let advisor = match (&config.advisor, before) {
            (None, _) => None,
            (Some(url), Some(known)) if *url == known.url => Some(known.clone()),
            (Some(url), _) => Some(NamedAdvisor::at(url)?),
        };
        let mut extensions: Vec<Arc<dyn server::Extension>> = Vec::new();
        if let Some(named) = &advisor {
            let advisor = Arc::clone(&named.advisor);
            extensions.push(Arc::new(AdvisedServer::new(advisor, config)?));
        }
        // Buffers that the operator has fixed are not sized by anything else.
        if config.drs && config.buffer == Buffer::Auto {
            extensions.push(Arc::new(RightSizingServer {
                budget: budget.clone(),
                caps: Caps {
                    all: config.limits.drs_bytes,
                    own: config.limits.drs_bytes_per_address,
                },
                ..RightSizingServer::default()
            }));
        }
        Ok(Self {
            extensions,
            advisor,
            budget,
        })
    }
}

impl Extensions for Selected {
    fn all(&self) -> &[Arc<dyn server::Extension>] {
        &self.extensions
    }

    fn under(&self, config: &Config) -> io::Result<Arc<dyn Extensions>> {
        let selected = Self::open(config, self.budget.clone(), self.advisor.as_ref())?;
        Ok(Arc::new(selected))
    }
}

/// Which extensions the user of a client chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSetup {
    /// Dynamic right-sizing, if the server supports it too.
    pub drs: bool,
    /// The advisor's URL.
    pub advisor: Option<String>,
    /// Networks whose paths the user owns, so that congestion control may be turned off there.
    pub allow_nocc: Vec<IpNet>,
    /// Buffer sizes; if the user fixed them, no extension changes them.
    pub buffer: Buffer,
}

/// Creates all extensions of a client for a setup.
///
/// # Errors
/// [`ClientError::Usage`] if the advisor's URL is invalid.
pub fn client_extensions(
    setup: &ClientSetup,
) -> Result<Vec<Arc<dyn client::Extension>>, ClientError> {
    let mut extensions: Vec<Arc<dyn client::Extension>> = Vec::new();
    if let Some(url) = &setup.advisor {
        let advisor = Advisor::at(url).map_err(|error| ClientError::Usage(error.to_string()))?;
        extensions.push(Arc::new(AdvisedClient::new(Follow {
            advisor: Arc::new(advisor),
            allow_nocc: setup.allow_nocc.clone(),
            journal: Journal::default(),
        })));
    }
    if setup.drs && setup.buffer == Buffer::Auto {
        extensions.push(Arc::new(RightSizingClient::default()));
    }
    Ok(extensions)
}
