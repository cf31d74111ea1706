//! What the operator of a public server sets: who is served, how much, and with which rights.

mod limits;
