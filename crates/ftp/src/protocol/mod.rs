//! The text of the control connection, for client and server. No I/O here.

pub mod command;
pub mod digest;
pub mod host_port;
pub mod line;
pub mod path;
pub mod reply;
pub mod time;

pub use command::Command;
pub use path::VirtualPath;
pub use reply::Reply;
