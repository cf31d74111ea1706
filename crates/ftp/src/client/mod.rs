//! The client: sessions with servers, files fetched, stored and sent from server to server, each
//! resumed where it broke off, verified, and named when it is complete.

mod error;
mod extension;
mod features;
mod options;
mod progress;

pub use error::ClientError;
pub use extension::{
    Change, Extension, ExtensionReport, ServerFacts, SessionExtension, Setup, Talk, extensions,
};
pub use features::Features;
pub use options::{ChecksumPolicy, DataMode, Options};
pub use progress::{Progress, Silent};
