/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hooks of a recorded congestion control, each wrapped around the kernel's function. A
 * congestion control has the hooks for which it names a function.
 */
#ifndef FAIRWIND_RECORDER_HOOKS_H
#define FAIRWIND_RECORDER_HOOKS_H

#include "recorder.h"

#define KERNEL_FUNCTION(type, name, ...) \
	extern type name(__VA_ARGS__)    \
	__ksym

KERNEL_FUNCTION(u32, tcp_reno_undo_cwnd, struct sock *sk);

/* A hook without a result, with its arguments besides the socket. */
#define RECORD(name, kind, does, first, second, third, ...)   \
	CC_HOOK(void, recorder_##name, __VA_ARGS__)           \
	{                                                     \
		struct call call = before_call(sk, kind);     \
                                                              \
		write_arguments(&call, first, second, third); \
		does;                                         \
		after_call(sk, &call);                        \
	}

/* A hook that takes only the socket and returns a value. */
#define RECORD_ANSWER(name, kind, function)               \
	CC_HOOK(u32, recorder_##name, struct sock *sk)    \
	{                                                 \
		struct call call = before_call(sk, kind); \
                                                          \
		call.returned = function(sk);             \
		after_call(sk, &call);                    \
		return call.returned;                     \
	}

#define RECORD_INIT(function) RECORD(init, HOOK_INIT, function(sk), 0, 0, 0, struct sock *sk)
#define RECORD_PKTS_ACKED(function)                                                   \
	RECORD(pkts_acked, HOOK_PKTS_ACKED, function(sk, sample), sample->pkts_acked, \
	       sample->rtt_us, sample->in_flight, struct sock *sk,                    \
	       const struct ack_sample *sample)
#define RECORD_CONG_AVOID(function)                                                  \
	RECORD(cong_avoid, HOOK_CONG_AVOID, function(sk, ack, acked), ack, acked, 0, \
	       struct sock *sk, u32 ack, u32 acked)
#define RECORD_SET_STATE(function)                                                  \
	RECORD(set_state, HOOK_SET_STATE, function(sk, new_state), new_state, 0, 0, \
	       struct sock *sk, u8 new_state)
#define RECORD_CWND_EVENT(function)                                                            \
	RECORD(cwnd_event, HOOK_CWND_EVENT, function(sk, event), event, 0, 0, struct sock *sk, \
	       enum tcp_ca_event event)
#define RECORD_SSTHRESH(function) RECORD_ANSWER(ssthresh, HOOK_SSTHRESH, function)
#define RECORD_UNDO_CWND(function) RECORD_ANSWER(undo_cwnd, HOOK_UNDO_CWND, function)

#endif
