/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's reno, recorded. It has neither init nor pkts_acked; those here only write down that
 * the connection began, and that an ACK of so many packets came.
 */
#include "recorder.h"

extern u32 tcp_reno_ssthresh(struct sock *sk) __attribute__((section(".ksyms")));
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
	__attribute__((section(".ksyms")));

CC_HOOK(void, recorder_init, struct sock *sk)
{
	struct call call = before_call(sk, HOOK_INIT);

	after_call(sk, &call);
}

CC_HOOK(void, recorder_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct call call = before_call(sk, HOOK_PKTS_ACKED);

	call.arguments[0] = sample->pkts_acked;
	call.arguments[1] = -1;
	after_call(sk, &call);
}

CC_HOOK(void, recorder_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct call call = before_call(sk, HOOK_CONG_AVOID);

	call.arguments[0] = ack;
	call.arguments[1] = acked;
	tcp_reno_cong_avoid(sk, ack, acked);
	after_call(sk, &call);
}

CC_HOOK(u32, recorder_ssthresh, struct sock *sk)
{
	struct call call = before_call(sk, HOOK_SSTHRESH);

	call.returned = tcp_reno_ssthresh(sk);
	after_call(sk, &call);
	return call.returned;
}

CC_HOOK(u32, recorder_undo_cwnd, struct sock *sk)
{
	struct call call = before_call(sk, HOOK_UNDO_CWND);

	call.returned = tcp_reno_undo_cwnd(sk);
	after_call(sk, &call);
	return call.returned;
}

CC_CONTROL(rec_reno) = {
	CC_ABOUT(rec_reno, "the kernel's reno, recorded"),
	.init = CC_FN(recorder_init),
	.pkts_acked = CC_FN(recorder_pkts_acked),
	.cong_avoid = CC_FN(recorder_cong_avoid),
	.ssthresh = CC_FN(recorder_ssthresh),
	.undo_cwnd = CC_FN(recorder_undo_cwnd),
};
