//! The congestion controls, called natively and loaded into the running kernel.

mod advised;
mod bbr;
mod common;
mod cubic;
mod fairwind;
mod imtcp;
mod imtcp_bg;
mod invariants;
mod kernel;
mod ledbatpp;
mod lp;
mod nice;
mod nocc;
mod parameters;
mod pins;
mod probe;
mod reno;
mod resume;
mod sfsack;
