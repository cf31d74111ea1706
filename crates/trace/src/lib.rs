//! The instruments of every TCP connection of the running kernel, as Web100 had them, without a
//! kernel patch: read by eBPF, at an interval down to a millisecond or on every ACK.
//!
//! [`Tracer`](kernel::Tracer) attaches the programs of `bpf/trace.bpf.c` and hands out
//! [`Event`](event::Event)s; [`Session`](session::Session) asks it for samples on time;
//! [`Recorder`](record::Recorder) writes one file per connection, with the columns of
//! [`INSTRUMENTS`](instrument::INSTRUMENTS); a [`Plan`](plan::Plan) combines session and recorder,
//! and [`Live`](live::Live) shows the connections.
//!
//! Connections are seen in all network namespaces and are never modified.

pub mod control_state;
pub mod event;
pub mod file;
pub mod filter;
pub mod instrument;
pub mod kernel;
pub mod live;
pub mod plan;
pub mod record;
pub mod session;
