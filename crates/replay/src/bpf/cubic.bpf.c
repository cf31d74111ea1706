/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's cubic, recorded. */
#include "recorder.h"

extern void cubictcp_init(struct sock *sk) __attribute__((section(".ksyms")));
extern u32 cubictcp_recalc_ssthresh(struct sock *sk) __attribute__((section(".ksyms")));
extern void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked)
	__attribute__((section(".ksyms")));
extern void cubictcp_state(struct sock *sk, u8 new_state) __attribute__((section(".ksyms")));
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
	__attribute__((section(".ksyms")));
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample)
	__attribute__((section(".ksyms")));

CC_HOOK(void, recorder_init, struct sock *sk)
{
	struct call call = before_call(sk, HOOK_INIT);

	cubictcp_init(sk);
	after_call(sk, &call);
}

CC_HOOK(void, recorder_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct call call = before_call(sk, HOOK_PKTS_ACKED);

	call.arguments[0] = sample->pkts_acked;
	call.arguments[1] = sample->rtt_us;
	call.arguments[2] = sample->in_flight;
	cubictcp_acked(sk, sample);
	after_call(sk, &call);
}

CC_HOOK(void, recorder_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct call call = before_call(sk, HOOK_CONG_AVOID);

	call.arguments[0] = ack;
	call.arguments[1] = acked;
	cubictcp_cong_avoid(sk, ack, acked);
	after_call(sk, &call);
}

CC_HOOK(u32, recorder_ssthresh, struct sock *sk)
{
	struct call call = before_call(sk, HOOK_SSTHRESH);

	call.returned = cubictcp_recalc_ssthresh(sk);
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

CC_HOOK(void, recorder_set_state, struct sock *sk, u8 new_state)
{
	struct call call = before_call(sk, HOOK_SET_STATE);

	call.arguments[0] = new_state;
	cubictcp_state(sk, new_state);
	after_call(sk, &call);
}

CC_HOOK(void, recorder_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct call call = before_call(sk, HOOK_CWND_EVENT);

	call.arguments[0] = event;
	cubictcp_cwnd_event(sk, event);
	after_call(sk, &call);
}

CC_CONTROL(rec_cubic) = {
	CC_ABOUT(rec_cubic, "the kernel's cubic, recorded"),
	.init = CC_FN(recorder_init),
	.pkts_acked = CC_FN(recorder_pkts_acked),
	.cong_avoid = CC_FN(recorder_cong_avoid),
	.ssthresh = CC_FN(recorder_ssthresh),
	.undo_cwnd = CC_FN(recorder_undo_cwnd),
	.set_state = CC_FN(recorder_set_state),
	.cwnd_event = CC_FN(recorder_cwnd_event),
};
