//! Studies: what is run, what is kept of it, and the tables, figures and pages that come of it.
//!
//! A [`Plan`] (`experiments/NAME/plan.toml`) lists runs as combinations of parameters. The [`Study`] that it
//! names knows what the parameters mean, and has the mathematics of its tables: `web100_dummynet`, `dccs`,
//! `validation`, `bbr`, `load`, `drsftp`, `imtcp_bg`, `background`, `random_paths`, `advised_start`. All share the [`cache`] of results, the
//! [`table`] writer and the filler of [`page`]s. [`papers`] is the index of all tables and figures of the papers, [`reproduce`] makes them. The
//! [`demo`] is a study with an audience.

pub mod cache;
pub mod demo;
mod draw;
mod engines;
mod error;
mod experiments;
pub mod filter;
mod form;
pub mod page;
pub mod papers;
mod parallel;
pub mod plan;
pub mod reproduce;
pub mod shell;
mod span;
mod statistics;
mod study;
pub mod table;

mod advised_start;
mod background;
mod bbr;
mod dccs;
mod drsftp;
mod imtcp_bg;
mod load;
mod random_paths;
mod validation;
mod web100_dummynet;

pub use engines::Engines;
pub use error::Error;
pub use filter::Filter;
pub use plan::Plan;
pub use study::{Host, Made, Options, Study, Task};
