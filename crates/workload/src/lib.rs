//! Workloads as state machines: what applications send and when, and what of it arrives.
//!
//! An [`Application`] is one of four kinds of traffic. A [`Driver`] is one at work on a connection: it
//! is told the time and says what the application does, and when it comes again. A [`Meter`] counts
//! what the other end receives. Nothing here reads a clock or does I/O, so the simulator drives the
//! same code in virtual time as the lab drives in real time, and with the same seed the same objects
//! and pauses come in both.
//!
//! | kind | model | source |
//! |---|---|---|
//! | bulk | a greedy source, or a transfer of a given size | RFC 3148: bulk transfer capacity |
//! | web | objects of Pareto sizes, exponential think times | Crovella and Bestavros, IEEE/ACM Transactions on Networking 5(6), 1997: the sizes' heavy tail |
//! | constant rate | datagrams at even intervals | RFC 3432: periodic streams |
//! | on-off | on and off periods, exponential or fixed | Willinger, Taqqu, Sherman and Wilson, IEEE/ACM Transactions on Networking 5(1), 1997 |

mod application;
mod driver;
mod meter;
mod random;

pub use application::Application;
pub use driver::{Driver, Step};
pub use meter::Meter;
pub use random::seed_for;
