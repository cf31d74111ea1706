/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ring buffer, and the share of it that samples may take.
 */
#ifndef FAIRWIND_TRACE_RING_H
#define FAIRWIND_TRACE_RING_H

#include "connection.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

/* Maximum number of samples per CPU between queries of the ring. */
enum { CREDIT_MAX = 64 };

/*
 * Samples leave an eighth of the ring for the beginnings and ends of connections. A query of the
 * ring costs as much as a reservation, so each CPU obtains credit for several samples at once; the
 * credit of all CPUs together is at most an eighth of the free room.
 */
static __always_inline int is_full(void)
{
	u32 limit = settings.ring_bytes - settings.ring_bytes / 8;
	struct counts *c = count();
	u64 used, credit;

	if (c && c->credit) {
		c->credit--;
		return 0;
	}
	used = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	if (used > limit)
		return 1;
	credit = (limit - used) / (8 * sizeof(struct sample_and_state) * settings.cpus);
	if (c)
		c->credit = credit < CREDIT_MAX ? credit : CREDIT_MAX;
	return 0;
}

/* The reader polls: waking it would cost more than the sample. */
static __always_inline void submit(void *event)
{
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void head(struct event *event, struct connection *connection, u32 kind)
{
	event->kind = kind;
	event->lost = connection->lost;
	event->id = connection->id;
	event->time_ns = bpf_ktime_get_ns();
}

#endif
