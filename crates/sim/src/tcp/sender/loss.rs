//! Which segments are lost: RACK (RFC 8985) or, for `Stack::Classic2005`, forward acknowledgement.

pub mod forward_ack;
mod rack;
mod reordering;

pub use rack::Rack;
pub use reordering::Reordering;
