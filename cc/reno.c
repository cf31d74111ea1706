/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reno: slow start, congestion avoidance, and halving the window at a loss.
 *
 * Source: RFC 5681 and RFC 6582, in the kernel's terms: the window counts packets, and recovery
 * (fast retransmit, the reduction of the window to ssthresh) is done by TCP, not by its
 * congestion control. reno.h has the three decisions.
 *
 * Parameters: none.
 */
#include <fairwind/reno.h>

CC_NO_PARAMETERS();

CC_HOOK(u32, reno_ssthresh, struct sock *sk)
{
	return reno_half(sk);
}

CC_HOOK(void, reno_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	reno_grow(sk, acked);
}

CC_HOOK(u32, reno_undo_cwnd, struct sock *sk)
{
	return reno_undo(sk);
}

CC_CONTROL(reno) = {
	CC_ABOUT(reno, "slow start, additive increase, half the window at a loss (RFC 5681)"),
	.ssthresh = CC_FN(reno_ssthresh),
	.cong_avoid = CC_FN(reno_cong_avoid),
	.undo_cwnd = CC_FN(reno_undo_cwnd),
};
