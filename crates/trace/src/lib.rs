//! The instruments of every TCP connection of the running kernel, as Web100 had them, on a kernel
//! without a patch: read by eBPF, at an interval down to a millisecond or on every ACK.
//!
//! [`Tracer`](kernel::Tracer) attaches the programs of `bpf/trace.bpf.c` and hands out
//! [`Event`](event::Event)s, and [`Session`](session::Session) asks it in time;
//! [`Recorder`](record::Recorder) makes one file a connection of them, with the columns of
//! [`INSTRUMENTS`](instrument::INSTRUMENTS); a [`Plan`](plan::Plan) joins both, and
//! [`Live`](live::Live) shows them.
//! Connections are seen in all network namespaces and are never written to.

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
