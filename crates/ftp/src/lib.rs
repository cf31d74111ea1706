//! FTP for bulk data: the protocol, a server and a client. Extensions follow the live data connections of
//! both, so that the buffers fit the path ([`drs`]) and the congestion control is the one that an advisor
//! recommends ([`advised`]), or downloads are held down to what others leave ([`background`]); [`assembly`] chooses
//! them.
//!
//! RFC 959, 1123, 2389 (FEAT), 2428 (EPRT, EPSV), 2577 (security considerations), 2640 (UTF-8) and 3659
//! (SIZE, MDTM, REST, MLST).

pub mod advised;
pub mod assembly;
pub mod background;
mod blocks;
mod bounded;
pub mod client;
pub mod drs;
pub mod extension;
mod file_reader;
mod pattern;
pub mod protocol;
pub mod server;
pub mod tls;
