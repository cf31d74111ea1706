//! Which segments are lost: RACK (RFC 8985) or, for `Stack::Classic2005`, forward acknowledgement.

pub(super) mod forward_ack;
mod rack;
mod reordering;

pub(super) use rack::Rack;
pub(super) use reordering::Reordering;
