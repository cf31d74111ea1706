//! The text of the control connection, for both of its ends. No input or output here.

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
