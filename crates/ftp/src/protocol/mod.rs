//! The text of the control connection, and that of files in TYPE A ([`ascii`]), for client and server. No
//! sockets and no files here.

pub(crate) mod ascii;
pub(crate) mod command;
pub mod digest;
pub mod host_port;
pub(crate) mod line;
pub(crate) mod path;
pub mod reply;
pub(crate) mod time;

pub(crate) use command::Command;
pub(crate) use path::VirtualPath;
pub use reply::Reply;
