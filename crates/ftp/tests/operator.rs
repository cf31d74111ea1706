//! What the operator of a public server sets: who is served, how much, and with which rights.

mod access;
mod limits;
mod quota;
