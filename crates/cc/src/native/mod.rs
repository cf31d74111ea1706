//! The congestion controls as the simulator calls them: plain function calls on a flat [`TcpSock`].
//!
//! ```
//! use fairwind_cc::native::{TcpSock, find};
//!
//! let reno = find("reno").unwrap();
//! let mut sk = TcpSock::default();
//! reno.init(&mut sk, &reno.default_parameters());
//! sk.is_cwnd_limited = 1;
//! reno.cong_avoid(&mut sk, 0, 2);
//! assert_eq!(sk.snd_cwnd, 12);
//! ```

mod advised;
mod control;
#[cfg(test)]
mod layout;
mod parameter;
mod parameters;
mod shared;
mod socket;

pub use advised::AdvisedPath;
pub use control::{Control, all, find};
pub use parameter::Parameter;
pub use parameters::{ParameterError, Parameters};
pub use shared::{Hosts, SharedState};
pub use socket::{
    AckSample, CA_PRIV_WORDS, GSO_MAX_SIZE, PACING_FQ, PACING_NEEDED, PACING_NONE, PARAMETERS_MAX,
    RateSample, TCP_INFINITE_SSTHRESH, TCP_INIT_CWND, TcpSock, ca_event, ca_state,
};
