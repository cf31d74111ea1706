/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NOCC: no congestion control. Only the receiver's window limits the packets in flight; losses are
 * repaired and otherwise ignored. On a path shared with others this is an attack: use it only on
 * the operator's own paths whose spare capacity is known.
 *
 * Source: Akarapu, "Evaluation of dynamic TCP congestion control scheme in the ENABLE service",
 * thesis, 2002, section 2.3.1: the application turns congestion control off and on; while it is
 * off, the congestion window is ignored and flow control is unchanged. Here "off" is this
 * congestion control and "on" any other, selected per connection at any time.
 *
 * The window is a constant above any receiver's window in use. It is restored at once after a
 * timeout, so that all lost packets are retransmitted, not one per round-trip time. There is no
 * pacing.
 *
 * The thesis does not say how congestion control is resumed. The packets in flight are a poor
 * guide: in the recoveries of such a sender, their number swings between the receiver's whole
 * window and a few packets within a few round-trip times. So the congestion control that takes over
 * starts from what the path has carried: the packets delivered, in order or not, averaged over the
 * last 10 to 20 round-trip times, times the minimum round-trip time (the model of BBR: Cardwell et
 * al., "BBR: congestion-based congestion control", 2016). The average spans whole recoveries; the
 * rate at a single ACK among them is off by a factor of ten. If packets were lost in that time,
 * ssthresh is set to the same value, so that a recovery in progress ends there (RFC 6937) and slow
 * start does not fill the queue again.
 *
 * If no reduction is in progress, more than that may still be in flight. Its losses are yet to be
 * detected, and the new congestion control will reduce the window for them. So the window is the
 * number of packets in flight, at most twice what the path carries, which is where slow start would
 * have it at the first loss.
 *
 * After less than a round-trip time, window and ssthresh are restored to their previous values.
 *
 * Parameters (unit, default):
 *	window  packets, 100000  value of the congestion window
 */
#include <fairwind/cc.h>

#define NOCC_PARAMETERS(P) \
	P(window, "packets", 100000, 10, 400000, "what the congestion window is set to")
CC_PARAMETERS(NOCC_PARAMETERS);

#define ROUNDS 10U /* minimum time between two looks, smoothed round-trip times */

/* Packets delivered and lost up to a time. */
struct look {
	u64 us; /* 0: none */
	u32 delivered; /* packets */
	u32 lost; /* packets */
};

struct nocc {
	struct look earlier; /* start of the averaging period */
	struct look latest; /* becomes the start after ROUNDS more */
	u32 prior_cwnd; /* at init; 0: not initialized yet */
	u32 prior_ssthresh;
};
CC_STATE_FITS(struct nocc);

static void watch(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct nocc *ca = inet_csk_ca(sk);
	const struct look now = { tp->delivered_mstamp, tp->delivered, tp->lost };

	if (!ca->earlier.us) {
		ca->earlier = now;
		ca->latest = now;
	} else if (now.us - ca->latest.us >= ROUNDS * (u64)(tp->srtt_us >> 3)) {
		ca->earlier = ca->latest;
		ca->latest = now;
	}
}

static void open_window(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd = min(param(sk, window), tp->snd_cwnd_clamp);
	tp->snd_cwnd_stamp = cc_jiffies(sk);
}

CC_HOOK(void, nocc_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct nocc *ca = inet_csk_ca(sk);

	ca->earlier.us = 0;
	ca->prior_cwnd = tp->snd_cwnd;
	ca->prior_ssthresh = tp->snd_ssthresh;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
	open_window(sk);
}

CC_HOOK(void, nocc_release, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct nocc *ca = inet_csk_ca(sk);
	u64 elapsed_us = tp->delivered_mstamp - ca->earlier.us;
	u32 delivered = tp->delivered - ca->earlier.delivered;
	u32 min_rtt_us = max(tcp_min_rtt(tp), 1U);
	u64 carried;
	u32 cwnd;

	if (!ca->prior_cwnd)
		return;
	if (!ca->earlier.us || elapsed_us < min_rtt_us) {
		tp->snd_cwnd = ca->prior_cwnd;
		tp->snd_ssthresh = ca->prior_ssthresh;
		return;
	}
	carried = max((u64)delivered * min_rtt_us / elapsed_us, (u64)TCP_INIT_CWND);
	cwnd = min(carried, (u64)tp->snd_cwnd);
	if (tp->lost != ca->earlier.lost)
		tp->snd_ssthresh = cwnd;
	if (cc_ca_state(sk) < TCP_CA_CWR)
		cwnd = min(max(tcp_packets_in_flight(tp), cwnd), 2 * cwnd);
	tp->snd_cwnd = cwnd;
}

CC_HOOK(void, nocc_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	watch(sk);
	open_window(sk);
}

/* Undoes the reduction to one packet by a timeout. */
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
	CC_ABOUT(nocc,
		 "congestion control off: only the receiver's window limits what is in flight"),
	.init = CC_FN(nocc_init),
	.release = CC_FN(nocc_release),
	.ssthresh = CC_FN(nocc_ssthresh),
	.cong_control = CC_FN(nocc_cong_control),
	.set_state = CC_FN(nocc_set_state),
	.undo_cwnd = CC_FN(nocc_undo_cwnd),
};
