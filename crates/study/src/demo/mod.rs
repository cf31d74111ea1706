//! The demonstration: one file moved in several ways over a path that others use too.
//!
//! [`Story`] holds all its numbers, [`day`] the path's available bandwidth, [`network`] the experiment files,
//! [`advised`] the advice and when it is given. [`stage`] runs each way in the simulator, or in the [`lab`]
//! with the real server, client and advisor; [`measure`] reads the results, [`table`] and [`report`] present
//! them. `days` repeats it for its page.

pub mod advised;
pub mod day;
pub(crate) mod days;
pub mod lab;
pub mod measure;
pub mod monitor;
pub mod network;
pub mod report;
pub mod stage;
pub mod story;
pub mod table;

pub use story::Story;
