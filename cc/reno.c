/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reno: slow start, congestion avoidance, and halving the window at a loss.
 *
 * Source: RFC 5681 and RFC 6582, in the kernel's terms: the window counts packets, and recovery
 * (fast retransmit, the reduction of the window to ssthresh) is done by TCP, not by its
 * congestion control. reno.h has the three decisions. A start may be advised (resume.h).
 *
 * Parameters: none.
 */
#include <fairwind/reno.h>
#include <fairwind/resume.h>

CC_NO_PARAMETERS();

struct reno {
	struct resume resume;
};
CC_STATE_FITS(struct reno);

CC_HOOK(void, reno_init, struct sock *sk)
{
	struct reno *ca = inet_csk_ca(sk);

	resume_init(sk, &ca->resume);
}

CC_HOOK(u32, reno_ssthresh, struct sock *sk)
{
	struct reno *ca = inet_csk_ca(sk);

	return resume_ssthresh(sk, &ca->resume, reno_half(sk));
}

CC_HOOK(void, reno_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct reno *ca = inet_csk_ca(sk);

	if (!resume_holds(&ca->resume))
		reno_grow(sk, acked);
}

CC_HOOK(void, reno_set_state, struct sock *sk, u8 new_state)
{
	struct reno *ca = inet_csk_ca(sk);

	resume_set_state(&ca->resume, new_state);
}

CC_HOOK(void, reno_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct reno *ca = inet_csk_ca(sk);

	resume_cwnd_event(sk, &ca->resume, event);
}

CC_HOOK(void, reno_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct reno *ca = inet_csk_ca(sk);

	resume_pkts_acked(sk, &ca->resume, sample);
}

CC_HOOK(u32, reno_min_tso_segs, struct sock *sk)
{
	struct reno *ca = inet_csk_ca(sk);

	return resume_min_tso_segs(sk, &ca->resume);
}

CC_HOOK(u32, reno_undo_cwnd, struct sock *sk)
{
	struct reno *ca = inet_csk_ca(sk);

	return resume_undo_cwnd(&ca->resume, reno_undo(sk));
}

CC_CONTROL(reno) = {
	CC_ABOUT(reno, "slow start, additive increase, half the window at a loss (RFC 5681)"),
	.init = CC_FN(reno_init),
	.ssthresh = CC_FN(reno_ssthresh),
	.cong_avoid = CC_FN(reno_cong_avoid),
	.set_state = CC_FN(reno_set_state),
	.cwnd_event = CC_FN(reno_cwnd_event),
	.pkts_acked = CC_FN(reno_pkts_acked),
	.min_tso_segs = CC_FN(reno_min_tso_segs),
	.undo_cwnd = CC_FN(reno_undo_cwnd),
};
