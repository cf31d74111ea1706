//! The advice service as its clients meet it.

mod beside;
mod crash;
mod damage;
mod discovery;
mod errors;
mod full_disk;
mod reach;
mod rest;
mod support;
mod xmlrpc;
