//! The advice service as its clients meet it.

mod crash;
mod doors;
mod hops;
mod rest;
mod support;
mod transfers;
mod xmlrpc;
