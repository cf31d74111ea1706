/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NOCC: congestion control off. The receiver's window alone limits what is in flight; losses are
 * repaired and otherwise ignored. On a path shared with others this is an attack: it is for paths
 * whose spare capacity is known and the operator's own.
 *
 * Source: Akarapu, "Evaluation of dynamic TCP congestion control scheme in the ENABLE service",
 * thesis, 2002, section 2.3.1: the application turns congestion control off and on; while it is off
 * the congestion window does not count, and flow control stays as it is. Here "off" is this control
 * and "on" any other, chosen per connection and changed at any time.
 *
 * The window is a constant above any receiver's window in use. It is restored at once after a
 * timeout, so that all lost packets are sent again, not one a round-trip time. There is no pacing.
 * A control that takes over begins with the packets then in flight, not with the constant.
 *
 * Parameters (unit, default):
 *	window  packets, 100000  what the congestion window is set to
 */
#include <fairwind/cc.h>

#define NOCC_PARAMETERS(P) \
	P(window, "packets", 100000, 10, 400000, "what the congestion window is set to")
CC_PARAMETERS(NOCC_PARAMETERS);

static void open_window(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd = min(param(sk, window), tp->snd_cwnd_clamp);
	tp->snd_cwnd_stamp = cc_jiffies(sk);
}

CC_HOOK(void, nocc_init, struct sock *sk)
{
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
	open_window(sk);
}

CC_HOOK(void, nocc_release, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd = max(tcp_packets_in_flight(tp), (u32)TCP_INIT_CWND);
}

CC_HOOK(void, nocc_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	open_window(sk);
}

/* A timeout has just set the window to one packet. */
CC_HOOK(void, nocc_set_state, struct sock *sk, u8 new_state)
{
	open_window(sk);
}

CC_HOOK(u32, nocc_ssthresh, struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

CC_HOOK(u32, nocc_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

CC_CONTROL(nocc) = {
	CC_ABOUT(nocc, "congestion control off: only the receiver's window limits"),
	.init = CC_FN(nocc_init),
	.release = CC_FN(nocc_release),
	.ssthresh = CC_FN(nocc_ssthresh),
	.cong_control = CC_FN(nocc_cong_control),
	.set_state = CC_FN(nocc_set_state),
	.undo_cwnd = CC_FN(nocc_undo_cwnd),
};
