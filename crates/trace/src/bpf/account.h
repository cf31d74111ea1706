/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Segments of which the tracer was not told.
 */
#ifndef FAIRWIND_TRACE_ACCOUNT_H
#define FAIRWIND_TRACE_ACCOUNT_H

#include "connection.h"

/* Segments that a packet consists of, as TCP counts those that it receives. */
INLINE u32 segments(struct sk_buff *skb)
{
	struct skb_shared_info *info = (void *)(skb->head + skb->end);
	u16 segments = 0;

	bpf_probe_read_kernel(&segments, sizeof(segments), &info->gso_segs);
	return segments ? segments : 1;
}

INLINE void begin_accounting(struct connection *connection, struct tcp_sock *tp)
{
	connection->accounted = tp->segs_in;
	connection->is_accounting = !((struct sock *)tp)->sk_backlog.len;
}

/*
 * Finds the segments of which the tracer was not told: a kernel may leave out its program, and not
 * count that. TCP has counted a segment when it comes here, and those that wait behind it while a
 * process has the socket: only without these the count says anything.
 */
INLINE void account(struct connection *connection, struct tcp_sock *tp, struct sk_buff *skb)
{
	u32 came = tp->segs_in, missed;
	struct counts *c;

	if (!connection->is_accounting) {
		begin_accounting(connection, tp);
		return;
	}
	/* The usual case: one segment since the last look. */
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
