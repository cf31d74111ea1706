//! The advisor: knows paths, keeps their history, monitors them, and gives advice to transfers.
//!
//! The advice itself is computed in `fairwind-advice`, which does no I/O. This crate has the clock, the
//! [`store`], the monitors, and the interfaces: REST ([`http`]), the thesis' calls over XML-RPC ([`xmlrpc`]),
//! `/metrics`. [`run`] puts them together; `docs/reference/advisor.md` describes its use.

pub mod clock;
pub mod config;
pub mod error;
pub mod host;
pub mod http;
pub mod import;
pub mod listener;
pub mod local;
pub mod monitor;
pub mod path;
pub mod run;
pub mod service;
pub mod state;
pub mod store;
pub mod xmlrpc;

pub use clock::Clock;
pub use config::Config;
pub use error::ServiceError;
pub use path::PathConfig;
pub use service::Service;

#[cfg(test)]
mod tests {
    mod reference;
}
