//! Asking before system calls by which TCP connections begin, in a process and its children, without any right
//! (seccomp's user notification).
//!
//! [`Listener::install`] filters what the calling thread does from now on, and the processes that it starts. Where one of
//! them is about to [`connect`](Call::Connect), it waits until this process has [received](Listener::receive) that and lets
//! it [proceed](Listener::proceed). Meanwhile the socket can be [taken](crate::Process::take).
//!
//! Source: seccomp(2), seccomp_unotify(2).

mod filter;
mod keeper;
mod listener;
mod notification;
mod raw;

pub use filter::Call;
pub use keeper::Keeper;
pub use listener::{InstallError, Listener};
pub use notification::Notification;
