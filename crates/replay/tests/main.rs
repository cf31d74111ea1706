//! Our controls held to the kernel's.

mod core;
mod live;
mod recorded;
