//! The text of the control connection, and that of files in TYPE A ([`ascii`]), for client and server. No
//! sockets and no files here.

pub mod ascii;
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
