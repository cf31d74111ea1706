//! The advice service as its clients meet it.

mod crash;
mod errors;
mod rest;
mod support;
mod xmlrpc;
