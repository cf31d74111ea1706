//! The client: sessions with servers; files downloaded, uploaded and sent from server to server, each resumed
//! where it broke off, verified, and given its name when it is complete.
//!
//! Its calls block; concurrent transfers each have a thread and a session.

pub mod batch;
mod both_ends;
mod checksum;
mod clash;
mod control;
mod credentials;
mod data_connection;
mod error;
mod extension;
mod features;
mod listing;
mod local;
mod moving;
mod name_encoding;
mod netrc;
mod options;
mod place;
mod progress;
mod protection;
mod report;
mod retrieve;
mod retry;
mod running_checksum;
mod session;
mod store;
mod stream;
mod target;
mod third_party;
pub mod tree;
mod unix_listing;

pub(crate) use both_ends::at_once;
pub use checksum::{Checksum, Verification};
pub use credentials::{Ask, Credentials};
pub use error::ClientError;
pub use extension::{Change, ControlConnection, Extension, ExtensionReport, SessionExtension};
pub use features::Features;
pub use listing::{Entry, Kind};
pub use options::{ChecksumPolicy, DataMode, Options};
pub use place::{Place, Scheme, is_url, join, split};
pub use progress::{Progress, Silent};
pub use protection::TlsPolicy;
pub use report::{Failed, FileReport, Outcome};
pub use retrieve::Retrieval;
pub use retry::Connection;
pub use session::Session;
pub use store::Storage;
pub use target::is_standard_output;
pub use third_party::third_party;
