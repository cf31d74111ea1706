/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A congestion control that is the kernel's in all but name: every hook calls the kernel's function
 * and records what that function could read before the call, and what it left behind.
 *
 * The hooks of one connection run one after the other under its socket lock, so the order in the
 * ring buffer is the order of the calls.
 */
#ifndef FAIRWIND_RECORDER_H
#define FAIRWIND_RECORDER_H

#include <fairwind/cc.h>

/* In the order of the numbers in src/call.rs. */
enum hook {
	HOOK_INIT,
	HOOK_PKTS_ACKED,
	HOOK_CONG_AVOID,
	HOOK_SSTHRESH,
	HOOK_UNDO_CWND,
	HOOK_SET_STATE,
	HOOK_CWND_EVENT,
};

/* What the congestion control decides. */
struct window {
	u32 cwnd;
	u32 cwnd_cnt;
	u32 ssthresh;
};

/* What it can read and does not decide; in the layout of src/call.rs. */
struct inputs {
	u32 cwnd_clamp;
	u32 prior_cwnd;
	u32 max_packets_out;
	u32 is_cwnd_limited;
	u32 snd_una;
	u32 snd_nxt;
	u32 lsndtime;
	u32 pacing_status;
	u32 gso_max_size;
	u32 ca_state;
	u32 high_seq;
	u32 retrans_out;
	u32 lost;
};

/* In the layout of src/recorder.rs. */
struct call {
	u64 connection; /* the socket's address, unique among the open connections */
	u64 mstamp_us;
	u64 pacing_rate;
	u32 jiffies; /* before the call */
	u32 jiffies_after;
	u32 hook;
	u32 arguments[3];
	u32 returned;
	struct window before;
	struct window after;
	struct inputs inputs;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} calls SEC(".maps");

/* Number of calls that found no room. */
struct recorder_counts {
	u64 lost;
};
static volatile struct recorder_counts recorder_counts SEC(".bss.recorder");

CC_INLINE struct window window_of(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return (struct window){
		.cwnd = tp->snd_cwnd,
		.cwnd_cnt = tp->snd_cwnd_cnt,
		.ssthresh = tp->snd_ssthresh,
	};
}

CC_INLINE struct call before_call(const struct sock *sk, enum hook hook)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return (struct call){
		.connection = (u64)sk,
		.mstamp_us = tp->tcp_mstamp,
		.pacing_rate = sk->sk_pacing_rate,
		.hook = hook,
		.before = window_of(sk),
		.inputs = {
			.cwnd_clamp = tp->snd_cwnd_clamp,
			.prior_cwnd = tp->prior_cwnd,
			.max_packets_out = tp->max_packets_out,
			.is_cwnd_limited = cc_is_cwnd_limited(tp),
			.snd_una = tp->snd_una,
			.snd_nxt = tp->snd_nxt,
			.lsndtime = tp->lsndtime,
			.pacing_status = sk->sk_pacing_status,
			.gso_max_size = sk->sk_gso_max_size,
			.ca_state = cc_ca_state(sk),
			.high_seq = tp->high_seq,
			.retrans_out = tp->retrans_out,
			.lost = tp->lost,
		},
		.jiffies = cc_jiffies(sk),
	};
}

/* The arguments of the hook besides the socket. */
CC_INLINE void write_arguments(struct call *call, u32 first, u32 second, u32 third)
{
	call->arguments[0] = first;
	call->arguments[1] = second;
	call->arguments[2] = third;
}

CC_INLINE void after_call(const struct sock *sk, struct call *call)
{
	call->jiffies_after = cc_jiffies(sk);
	call->after = window_of(sk);
	if (bpf_ringbuf_output(&calls, call, sizeof(*call), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&recorder_counts.lost, 1);
}

#endif
