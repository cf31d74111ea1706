//! Hosts and paths on the running kernel.

mod application;
mod capture;
mod classes;
mod exec;
mod hosts;
mod lab;
mod role;
mod topology;
