//! A congestion control for the connections of any program, from their first packet on.
//!
//! [`run`](run::run) starts a command in a control group of its own. eBPF programs there give each of its sockets the
//! control, a limit and a mark before its SYN or, if it listens, before it answers one; nothing is changed outside of the
//! group. What the connections do is seen by the tracer (`fairwind-trace`); by that, downloads are [held](hold::Hold) down.
//!
//! Without rights, [`direct`] sets what needs none on the command's own sockets.
//!
//! A [`daemon`] does so for a whole host, by a [`policy`] of rules, which eBPF programs apply to the connections of the
//! [`host`]; and for commands of users without rights.
//!
//! Requires Linux 5.18 with BTF and control groups of version 2, 6.4 for congestion controls of `cc/`, and root, or
//! `CAP_BPF`, `CAP_PERFMON` and `CAP_NET_ADMIN` with the right to make a control group. The [`RunError`](error::RunError)
//! and the [`AgentError`](daemon::AgentError) name what is missing.

mod action;
pub mod advised;
mod answers;
pub mod attach;
pub mod attended;
pub mod control_group;
pub mod daemon;
pub mod direct;
pub mod error;
pub mod hold;
pub mod host;
pub mod policy;
pub mod run;
pub mod starts;
pub mod summary;
mod told;
mod unfollowed;
