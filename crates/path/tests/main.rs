//! The laws of pipes and queues and their worked examples, through the public interface.

mod allocations;
mod cellular;
mod codel;
mod drive;
mod laws;
mod rates;
mod schedulers;
mod traces;
