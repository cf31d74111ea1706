//! Workloads as state machines: what applications send and when, and what is received.
//!
//! An [`Application`] is one of four traffic models. A [`Driver`] runs one on a connection: given the
//! time, it returns the application's action and when the next one is due. A [`Meter`] counts what the
//! peer receives. Nothing here reads a clock or does I/O, so the same code runs in virtual time in the
//! simulator and in real time in the lab, and the same seed yields the same objects and pauses in both.
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
