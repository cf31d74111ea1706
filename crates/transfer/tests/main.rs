//! Transfers on live connections, with a scripted advisor.

mod advised;
mod common;
mod reported;
