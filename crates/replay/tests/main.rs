//! Our congestion controls compared with the kernel's.

mod live;
mod recorded;
mod sender;
