//! Our congestion controls compared with the kernel's.

mod core;
mod live;
mod recorded;
