/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * AIMD(a, b): in congestion avoidance the window grows by a packets a round-trip time; a loss takes
 * the share b of it. AIMD(1, 1/2) is Reno.
 *
 * Source: Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion
 * avoidance in computer networks", 1989.
 *
 * Parameters (unit, default):
 *	a  packets, 1    growth a round-trip time
 *	b  1/1024, 512   share of the window that a loss takes
 */
#include <fairwind/cc.h>

#define AIMD_PARAMETERS(P)                                     \
	P(a, "packets", 1, 1, 100, "growth a round-trip time") \
	P(b, "1/1024", 512, 1, 1023, "share of the window that a loss takes")
CC_PARAMETERS(AIMD_PARAMETERS);

struct aimd {
	u32 before; /* window before the latest reduction, packets */
};
CC_STATE_FITS(struct aimd);

/* An ACK of `acked` packets, outside of recovery. */
CC_HOOK(void, aimd_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	/* A packet for every cwnd / a packets acknowledged. */
	tcp_cong_avoid_ai(tp, max(tp->snd_cwnd / param(sk, a), 1U), acked);
}

/* A loss: the window to go down to. */
CC_HOOK(u32, aimd_ssthresh, struct sock *sk)
{
	struct aimd *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	ca->before = cwnd;
	return max(cwnd - (u32)((u64)cwnd * param(sk, b) / 1024), 2U);
}

/* The loss was none: the window to go back to. */
CC_HOOK(u32, aimd_undo_cwnd, struct sock *sk)
{
	struct aimd *ca = inet_csk_ca(sk);

	return max(tcp_sk(sk)->snd_cwnd, ca->before);
}

CC_CONTROL(aimd) = {
	CC_ABOUT(aimd, "a packets more a round-trip time, the share b less at a loss"),
	.cong_avoid = CC_FN(aimd_cong_avoid),
	.ssthresh = CC_FN(aimd_ssthresh),
	.undo_cwnd = CC_FN(aimd_undo_cwnd),
};
