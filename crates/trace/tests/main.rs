//! The tracer on the running kernel.

mod common;
mod connections;
mod files;
