//! Errors of the service.

use thiserror::Error;

use crate::path::PathError;
use crate::store::StoreError;

/// Why the service cannot do what was asked.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// No path has this name.
    #[error("there is no path {0:?}")]
    NoPath(String),
    /// The path has no hop of this name.
    #[error("path {path} has no hop {hop:?}")]
    NoHop {
        /// The path.
        path: String,
        /// The hop.
        hop: String,
    },
    /// No path leads to the host.
    #[error("no path leads to {0}")]
    NoRoute(String),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The request contradicts the present state.
    #[error("{0}")]
    Conflict(String),
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The service is ending, or its store failed for a whole group of writes.
    #[error("{0}")]
    Unavailable(String),
}

impl ServiceError {
    /// The service is ending.
    pub(crate) fn ending() -> ServiceError {
        ServiceError::Unavailable("the service is ending".to_owned())
    }
}

impl From<PathError> for ServiceError {
    fn from(error: PathError) -> Self {
        Self::Invalid(error.to_string())
    }
}
