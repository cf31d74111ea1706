//! FTP for bulk data: the protocol, a server and a client. Both have access to the live data connection,
//! so that its buffers follow the path ([`drs`]) and its congestion control follows an advisor that knows
//! the path ([`advised`]).
//!
//! RFC 959, 1123, 2389 (FEAT), 2428 (EPRT, EPSV), 2577 (security considerations), 2640 (UTF-8) and 3659
//! (SIZE, MDTM, REST, MLST).

pub mod advised;
pub mod client;
pub mod data;
pub mod drs;
pub mod protocol;
pub mod server;
mod sparing;
