//! FTP for bulk data: the protocol, a server and a client. Extensions give both access to the live data
//! connection, so that its buffers follow the path ([`drs`]) and its congestion control follows an advisor that
//! knows the path ([`advised`]); [`assembly`] chooses them.
//!
//! RFC 959, 1123, 2389 (FEAT), 2428 (EPRT, EPSV), 2577 (security considerations), 2640 (UTF-8) and 3659
//! (SIZE, MDTM, REST, MLST).

pub mod advised;
pub mod assembly;
pub mod client;
pub mod drs;
pub mod extension;
pub mod protocol;
pub mod server;
