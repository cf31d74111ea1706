/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reno's three decisions, for reno.c and for every control that differs from Reno in one of them.
 * Source: RFC 5681, sections 3.1 and 3.2, counted in packets as in Linux.
 */
#ifndef FAIRWIND_RENO_H
#define FAIRWIND_RENO_H

#include <fairwind/cc.h>

/*
 * Growth. Slow start: one packet for each packet acknowledged (RFC 5681, 3.1, with L unlimited
 * since pacing spreads the burst). Congestion avoidance: one packet for each window acknowledged.
 */
static inline void reno_grow(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/* Loss: half the window, at least two packets (RFC 5681, equation 4). */
static inline u32 reno_half(const struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd >> 1, 2U);
}

/* Spurious loss (RFC 3522, RFC 5682, RFC 3708): restore the window before it. */
static inline u32 reno_undo(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return max(tp->snd_cwnd, tp->prior_cwnd);
}

#endif
