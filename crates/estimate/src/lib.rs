//! Capacity and available bandwidth of a path, from trains of packets (RFC 5136).
//!
//! A train of rate r that meets cross traffic of rate X at a bottleneck of capacity C is received at
//! C r / (r + X), and its delay rises by (r + X) / C - 1 a second. The trains of one connection come
//! from the congestion control, by `cc/include/fairwind/estimate.h`: [`latest`] reads them from its
//! state, [`Estimator`] keeps their history.

mod estimator;
mod train;

pub use estimator::{Estimate, Estimator, Figure, Unknown};
pub use train::{Limit, TRAIN_BYTES, Tail, Train, latest};
