//! The advisor as its clients see it.

mod admission;
mod beside;
mod crash;
mod damage;
mod discovery;
mod errors;
mod full_disk;
mod hops;
mod reach;
mod rest;
mod support;
mod together;
mod transfers;
mod xmlrpc;
