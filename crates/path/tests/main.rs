//! Invariants and worked examples of pipes and queues, through the public interface.

mod aggregation;
mod allocations;
mod cellular;
mod codel;
mod drive;
mod dualpi2;
mod fq_codel;
mod laws;
mod pie;
mod policer;
mod rates;
mod schedulers;
mod traces;
