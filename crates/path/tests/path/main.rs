//! The crate's laws and its worked examples, through its public interface.

mod cellular;
mod codel;
mod drive;
mod laws;
mod rates;
mod schedulers;
mod traces;
