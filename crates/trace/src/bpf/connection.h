/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Per-connection state, kept in socket storage, and the counts of what went wrong.
 */
#ifndef FAIRWIND_TRACE_CONNECTION_H
#define FAIRWIND_TRACE_CONNECTION_H

#include <fairwind/kernel.h>
#include "event.h"

const volatile struct settings settings SEC(".rodata.settings") = { .ring_bytes = 1 << 20,
								    .cpus = 1 };

/* The state of a matching connection, in its socket. */
struct connection {
	u64 id;
	u64 control; /* the congestion control that was last reported */
	u32 lost;
	u32 cong_signals;
	u32 fast_retran;
	u32 local_port; /* as last reported; 0: not bound yet */
	u32 accounted; /* what tp->segs_in would be with only the segments that `ack` has seen */
	u32 skipped; /* segments that `ack` has not seen */
	u8 announced; /* the reader has been told of the connection */
	u8 adopted;
	u8 incoming;
	u8 is_accounting; /* `accounted` has been initialised */
};

/* The process that opened a socket or listens on it; accepted sockets inherit it. */
struct owner {
	char program[16];
	u32 pid;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct owner);
} owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} counts SEC(".maps");

static __always_inline struct counts *count(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&counts, &zero);
}

/* Another program on this CPU may interrupt this one, so the counts are updated atomically. */
static __always_inline void lose(struct connection *connection)
{
	struct counts *c = count();

	__sync_fetch_and_add(&connection->lost, 1);
	if (c)
		__sync_fetch_and_add(&c->lost, 1);
}

#endif
