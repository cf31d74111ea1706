//! Which extensions a server or a client has: right-sizing and advice, as far as they are chosen.

use std::io;
use std::sync::Arc;

use fairwind_transfer::Buffer;
use fairwind_transfer::advised::{Advisor, Follow, Journal};
use fairwind_transfer::drs::{Budget, Caps};
use ipnet::IpNet;
use parking_lot::Mutex;

use crate::advised::{AdvisedClient, AdvisedServer};
use crate::background::BackgroundClient;
use crate::client::{self, ClientError};
use crate::drs::{RightSizingClient, RightSizingServer};
use crate::server::{self, Config, Server};

/// Opens a server with the extensions that its configuration selects.
///
/// # Errors
/// As [`Server::bind`], or if the URL of the advisor is invalid or the log of advice cannot be opened.
pub fn bind_server(config: Config) -> io::Result<Server> {
    let (budget, known) = (Budget::default(), Mutex::new(None));
    Server::bind(config, move |config| {
        server_extensions(config, &budget, &known)
    })
}

/// An advisor, and the URL by which the configuration names it.
type NamedAdvisor = (String, Arc<Advisor>);

/// The extensions that the configuration of a server selects. Under any configuration the right-sized buffers
/// have this budget, and an advisor that is `known` from the last one stays the same.
fn server_extensions(
    config: &Config,
    budget: &Budget,
    known: &Mutex<Option<NamedAdvisor>>,
) -> io::Result<Vec<Arc<dyn server::Extension>>> {
    let mut extensions: Vec<Arc<dyn server::Extension>> = Vec::new();
    let mut known = known.lock();
    let advisor = match (&config.advisor, &*known) {
        (None, _) => None,
        (Some(url), Some(known)) if *url == known.0 => Some(known.clone()),
        (Some(url), _) => {
            let advisor = Advisor::at(url)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            Some((url.clone(), Arc::new(advisor)))
        }
    };
    if let Some((_, advisor)) = &advisor {
        extensions.push(Arc::new(AdvisedServer::new(Arc::clone(advisor), config)?));
    }
    *known = advisor;
    // Buffers that the operator has fixed are not sized by anything else.
    if config.drs && config.buffer == Buffer::Auto {
        extensions.push(Arc::new(RightSizingServer {
            // Without congestion control, the buffer that is advised bounds what is in flight.
            alone: config.advisor.is_none(),
            budget: budget.clone(),
            caps: Caps {
                all: config.limits.drs_bytes,
                own: config.limits.drs_bytes_per_address,
            },
        }));
    }
    Ok(extensions)
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
    /// Downloads take only what others leave, and their buffers are not sized.
    pub background: bool,
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
    if setup.background {
        extensions.push(Arc::new(BackgroundClient));
    } else if setup.drs && setup.buffer == Buffer::Auto {
        extensions.push(Arc::new(RightSizingClient {
            alone: setup.advisor.is_none(),
        }));
    }
    Ok(extensions)
}
