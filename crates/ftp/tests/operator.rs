//! What the operator of a public server sets: who is served, how much, and with which rights; and what it sees.

mod access;
mod commands;
mod hosts;
mod limits;
mod quota;
mod sight;
