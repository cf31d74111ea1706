//! The demonstration: one file moved three ways over a path that others use too.
//!
//! [`Story`] has all its numbers, [`day`] the path's available bandwidth, [`network`] the experiment
//! files, [`advised`] what the advisor says and when. [`stage`] runs each way in the simulator, or in
//! the [`lab`] with the real server, client and advisor; [`measure`] reads what came of it, [`table`]
//! and [`report`] tell it.

pub mod advised;
pub mod day;
pub mod lab;
pub mod measure;
pub mod monitor;
pub mod network;
pub mod report;
pub mod stage;
pub mod story;
pub mod table;

pub use story::Story;
