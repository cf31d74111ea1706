/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface between the programs in the kernel and the reader: the events in the ring buffer,
 * the filter and the counts. build.rs repeats the layout of a sample in Rust, and src/event.rs,
 * src/filter.rs and src/kernel/tracer.rs repeat the others.
 */
#ifndef FAIRWIND_TRACE_EVENT_H
#define FAIRWIND_TRACE_EVENT_H

enum event_kind {
	EVENT_OPEN = 1, /* struct identity: a matching connection */
	EVENT_IDENTITY, /* struct identity: its port is now known */
	EVENT_CONTROL, /* struct control: its congestion control has changed */
	EVENT_SAMPLE, /* struct sample: its instruments */
	EVENT_CLOSE, /* struct sample: its last event */
};

struct event {
	u32 kind;
	u32 lost; /* events of the connection so far that found no room in the ring */
	u64 id; /* the socket's cookie */
	u64 time_ns; /* CLOCK_MONOTONIC */
};

struct identity {
	struct event event;
	u64 cgroup; /* inode of the version 2 cgroup */
	u32 netns; /* inode of the network namespace */
	u32 pid; /* process number in the reader's PID namespace; 0: unknown */
	u16 local_port;
	u16 remote_port;
	u8 family;
	u8 adopted; /* the connection was open before the trace */
	u8 incoming; /* the peer opened it; unknown for adopted connections */
	u8 unused;
	u32 local[4]; /* network byte order; IPv4 as ::ffff:a.b.c.d */
	u32 remote[4];
	char program[16];
};

struct control {
	struct event event;
	char name[16];
};

struct sample {
	struct event event;
	u8 state;
	u8 ca_state;
	u8 retransmits;
	u8 pacing_status;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 mss_cache;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 reordering;
	u32 srtt_us;
	u32 mdev_us;
	u32 rttvar_us;
	u32 min_rtt_us;
	u32 sample_rtt_us;
	u32 rcv_rtt_us;
	u32 rto_jiffies;
	u32 snd_wnd;
	u32 rcv_wnd;
	u32 snd_una;
	u32 snd_nxt;
	u32 write_seq;
	u32 rcv_nxt;
	u32 copied_seq;
	u32 total_retrans;
	u32 total_rto; /* ~0: this kernel does not count */
	u32 rto_recoveries; /* timeouts that began a recovery; ~0: this kernel does not count */
	u32 cong_signals; /* since the trace has followed the connection */
	u32 fast_retran; /* since the trace has followed the connection */
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u32 dsack_dups;
	u32 reord_seen;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 segs_out;
	u32 segs_in;
	u32 data_segs_out;
	u32 data_segs_in;
	u32 sk_sndbuf;
	u32 sk_rcvbuf;
	u32 sk_wmem_queued;
	u32 sk_rmem_alloc;
	u32 busy_jiffies;
	u32 rwnd_limited_jiffies;
	u32 sndbuf_limited_jiffies;
	u64 pacing_rate;
	u64 skipped; /* received segments that the kernel did not report to the tracer */
	u64 bytes_acked;
	u64 bytes_received;
	u64 bytes_sent;
	u64 bytes_retrans;
};

_Static_assert(sizeof(struct event) == 24, "as in event.rs");
_Static_assert(sizeof(struct identity) == 96, "as in event.rs");
_Static_assert(sizeof(struct control) == 40, "as in event.rs");
_Static_assert(sizeof(struct sample) == 256, "as in event.rs");

/* Bytes of private state that a congestion control has per connection. */
enum { STATE_BYTES = 104 };

/* A sample followed by the private state of the connection's congestion control. */
struct sample_and_state {
	struct sample sample;
	u64 state[STATE_BYTES / 8];
};

/* Key of the map of networks, in the layout of the kernel's LPM tries. */
struct network {
	u32 length; /* length of the prefix, bits */
	u32 address[4]; /* network byte order; IPv4 as ::ffff:a.b.c.d */
};

/* Alternatives are kept in maps, one per kind; a kind without any matches every connection. */
struct settings {
	u32 ring_bytes;
	u32 cpus;
	u32 pid_namespace; /* the reader's */
	u8 has_networks;
	u8 has_ports;
	u8 has_programs;
	u8 has_namespaces;
	u8 has_cgroups;
	u8 with_state; /* samples are struct sample_and_state */
	u8 unused[2];
};

_Static_assert(sizeof(struct sample_and_state) == 360, "as in event.rs");
_Static_assert(sizeof(struct network) == 20, "as in filter.rs");
_Static_assert(sizeof(struct settings) == 20, "as in tracer.rs");

struct counts {
	u64 lost; /* events that found no room in the ring */
	u64 unwatched; /* matching connections that are not traced for lack of memory */
	u64 credit; /* samples certain to find room without another query of the ring */
	u64 skipped; /* received segments that the kernel did not report to the tracer */
};

#endif
