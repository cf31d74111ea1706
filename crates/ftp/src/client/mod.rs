//! The client: sessions with servers; files downloaded, uploaded and sent from server to server, each resumed
//! where it broke off, verified, and given its name when it is complete.
//!
//! Its calls block; concurrent transfers each have a thread and a session.

pub mod batch;
mod both_ends;
mod checksum;
mod clash;
mod control;
pub mod copy_tree;
mod credentials;
mod data_connection;
mod error;
mod extension;
mod features;
mod filter;
mod glob;
mod listing;
mod local;
mod manage;
pub mod mirror;
mod moving;
mod name_encoding;
mod netrc;
mod options;
mod place;
mod progress;
mod proxy;
mod ranges;
mod rate;
mod report;
mod retrieve;
mod retry;
mod route;
mod running_checksum;
pub mod scan;
mod selection;
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
pub use filter::Filter;
pub use listing::{Entry, Kind};
pub use manage::{Removal, Usage, remove_tree, usage};
pub use options::{ChecksumPolicy, DataMode, Options};
pub use place::{Place, is_url, join, printable, split};
pub use progress::{Progress, Silent};
pub use proxy::Proxy;
pub use rate::RateLimit;
pub use report::{Failed, FileReport, Outcome};
pub use retrieve::Retrieval;
pub use retry::Connection;
pub use route::{Bind, Route, Through};
pub use selection::{Match, Selection};
pub use session::Session;
pub use store::Storage;
pub use target::is_standard_output;
pub use third_party::{third_party, third_party_file};
