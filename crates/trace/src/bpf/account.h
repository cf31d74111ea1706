/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts the segments that the kernel did not report to the tracer.
 */
#ifndef FAIRWIND_TRACE_ACCOUNT_H
#define FAIRWIND_TRACE_ACCOUNT_H

#include "connection.h"

/* Number of segments in a packet, as TCP counts those that it receives. */
static __always_inline u32 segments(struct sk_buff *skb)
{
	struct skb_shared_info *info = (void *)(skb->head + skb->end);
	u16 segments = 0;

	bpf_probe_read_kernel(&segments, sizeof(segments), &info->gso_segs);
	return segments ? segments : 1;
}

static __always_inline void begin_accounting(struct connection *connection, struct tcp_sock *tp)
{
	connection->accounted = tp->segs_in;
	connection->is_accounting = !((struct sock *)tp)->sk_backlog.len;
}

/*
 * Counts the segments that were not reported: the kernel may skip the program without counting
 * that as a miss. When the program runs, TCP has counted this segment in segs_in, and also those
 * that wait in the backlog while a process owns the socket; so the count is meaningful only without
 * a backlog.
 */
static __always_inline void account(struct connection *connection, struct tcp_sock *tp,
				    struct sk_buff *skb)
{
	u32 came = tp->segs_in, missed;
	struct counts *c;

	if (!connection->is_accounting) {
		begin_accounting(connection, tp);
		return;
	}
	/* The usual case: one segment since the last run. */
	connection->accounted += came - connection->accounted == 1 ? 1 : segments(skb);
	missed = came - connection->accounted;
	if (!missed || ((struct sock *)tp)->sk_backlog.len)
		return;
	connection->accounted = came;
	connection->skipped += missed;
	c = count();
	if (c)
		__sync_fetch_and_add(&c->skipped, missed);
}

#endif
