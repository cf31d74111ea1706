/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP-LP (low priority): a background control that takes a rising one-way delay for congestion, and
 * gives way to one packet in a round-trip time if the delay does not fall.
 *
 * Source: Kuzmanovic, Knightly, "TCP-LP: low-priority service via end-point congestion control",
 * IEEE/ACM Transactions on Networking, 2006, section III. With d the one-way delay of a packet and
 * W the window:
 *
 *	smoothed delay    sd = (1 - gamma) sd + gamma d, gamma = 1/8
 *	early congestion  sd > d_min + delta (d_max - d_min), delta = 0.15
 *	reaction          W / 2, and an inference phase of three round trips. W does not grow in it.
 *	                  If there is early congestion in it again: W = 1, and a new phase.
 *	otherwise         Reno
 *
 * It is not the kernel's module of this name, which redefines d_min and d_max at each indication.
 *
 * What the paper leaves open, and how it is done here:
 *
 *	d             The peer's time stamps count milliseconds, the time when a packet was sent is
 *	              known to the microsecond. Their difference is off by up to a millisecond, at
 *	              random; the smoothed delay by a fraction of one. So d_min and d_max are those
 *	              of the smoothed delay, which begins with the mean of eight.
 *	clocks        Only differences of delays count, so the clocks' offset does not matter. Their
 *	              drift is no queue: of sd - d_min no more counts than the smoothed round-trip
 *	              time exceeds its minimum by. If the peer sends no time stamps, or its clock
 *	              does not count milliseconds, the round-trip time is d.
 *	d_max         The first slow start teaches it, until a loss or until the window no longer
 *	              limits the flow; delays do not count as congestion before that.
 *	once a round  The delays of packets sent before a reduction say nothing about it: they are
 *	              smoothed, but are no new early congestion.
 *	one packet    Below two packets, pairs of packets are paced, so that the receiver does not
 *	              delay its ACK. Larger windows are paced a little faster than they need.
 *	growth        Congestion avoidance, after a timeout slow start up to ssthresh.
 *	recovery      The window is ssthresh from its beginning to its end (RFC 6675).
 *
 * Parameters (unit, default):
 *	delta      1/1024, 154  share of d_max - d_min
 *	gamma      1/1024, 128  weight of the newest delay
 *	inference  1, 3         round trips of an inference phase
 */
#include <fairwind/background.h>

#define LP_PARAMETERS(P)                                                                     \
	P(delta, "1/1024", 154, 1, 1023, "share of the greatest delay that is congestion")   \
	P(gamma, "1/1024", 128, 1, 1023, "weight of the newest delay in the smoothed delay") \
	P(inference, "1", 3, 1, 100, "round trips without growth after early congestion")
CC_PARAMETERS(LP_PARAMETERS);

#define SHARE 1024U /* unit of shares */
#define FIRST_MEAN 8 /* delays that begin the smoothed one */
#define ORIGIN (1U << 30) /* value of the first one-way delay, us */
#define CLOCK_CHECK_US 1000000U /* shortest time over which the peer's clock is compared */

struct lp {
	u64 smoothed; /* delay, us / SHARE; of the first, the sum, us */
	u64 inference_us; /* end of the phase */
	u64 clock_us; /* own time at which the peer's was clock_ms */
	u32 clock_ms; /* 0: not seen yet */
	u32 offset; /* between the clocks, so that the first delay is ORIGIN, us */
	u32 min_delay; /* of the smoothed delay, us */
	u32 max_queueing; /* d_max - d_min, us */
	u32 window; /* 1/256 packets; 0: before init */
	u32 prior_window; /* before the latest reduction by a loss */
	u32 acked; /* since the window grew, 1/256 packets */
	u32 reduced; /* packets delivered at the latest reduction */
	u8 samples; /* up to FIRST_MEAN */
	u8 round_trips; /* they stand for one-way delays */
	u8 learning; /* the first slow start */
	u8 slow_start;
	u8 doubtful; /* delays skipped in a row */
};
CC_STATE_FITS(struct lp);

static void set_window(struct sock *sk, u64 window)
{
	struct lp *ca = inet_csk_ca(sk);

	ca->window = bounded_window(sk, window, PACKET);
}

/* Whether the peer's clock goes far from once in a millisecond. */
static bool clock_is_foreign(struct lp *ca, u64 now_us, u32 ms)
{
	u64 elapsed = (now_us - ca->clock_us) / 1000;
	u32 advanced = ms - ca->clock_ms;

	if (now_us - ca->clock_us < CLOCK_CHECK_US)
		return false;
	ca->clock_us = now_us;
	ca->clock_ms = ms;
	return advanced > 3 * elapsed || advanced < elapsed / 3;
}

/* One-way delay of the packet acknowledged, us; relative, but for round_trips. */
static u32 one_way_delay(struct sock *sk, u32 rtt)
{
	struct lp *ca = inet_csk_ca(sk);
	u64 now = tcp_sk(sk)->tcp_mstamp;
	u32 ms = cc_tsval(tcp_sk(sk));
	u32 delay = ms * 1000U - (u32)(now - rtt);

	if (ca->round_trips)
		return rtt;
	if (!ms || (ca->clock_ms && clock_is_foreign(ca, now, ms))) {
		ca->round_trips = 1;
		ca->samples = 0;
		return rtt;
	}
	if (!ca->clock_ms) {
		ca->clock_us = now;
		ca->clock_ms = ms;
		ca->offset = ORIGIN - delay;
	}
	return delay + ca->offset;
}

static void smooth(struct sock *sk, u32 delay)
{
	struct lp *ca = inet_csk_ca(sk);
	u64 gamma = param(sk, gamma);

	if (ca->samples < FIRST_MEAN) {
		ca->smoothed = ca->samples ? ca->smoothed + delay : delay;
		ca->min_delay = ~0U;
		if (++ca->samples < FIRST_MEAN)
			return;
		ca->smoothed = ca->smoothed * SHARE / FIRST_MEAN;
	} else {
		ca->smoothed = ca->smoothed - ca->smoothed / SHARE * gamma + delay * gamma;
	}
	ca->min_delay = min((u64)ca->min_delay, ca->smoothed / SHARE);
}

/* Early congestion: the smoothed delay is above its threshold. */
static bool early_congestion(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct lp *ca = inet_csk_ca(sk);
	u32 queueing, rtt = tp->srtt_us >> 3;

	if (ca->samples < FIRST_MEAN)
		return false;
	queueing = ca->smoothed / SHARE - ca->min_delay;
	queueing = min(queueing, rtt - min(tcp_min_rtt(tp), rtt));
	ca->max_queueing = max(ca->max_queueing, queueing);
	return queueing > (u64)ca->max_queueing * param(sk, delta) / SHARE;
}

static bool in_inference(const struct sock *sk)
{
	const struct lp *ca = inet_csk_ca(sk);

	return tcp_sk(sk)->tcp_mstamp < ca->inference_us;
}

static void give_way(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct lp *ca = inet_csk_ca(sk);

	set_window(sk, in_inference(sk) ? PACKET : ca->window / 2);
	tp->snd_ssthresh = max(ca->window / PACKET, 2U);
	ca->slow_start = 0;
	ca->acked = 0;
	ca->reduced = tp->delivered;
	ca->inference_us = tp->tcp_mstamp + (u64)param(sk, inference) * (tp->srtt_us >> 3);
}

/* Reno's growth. */
static void grow(struct sock *sk, u32 acked)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct lp *ca = inet_csk_ca(sk);
	u64 most = (u64)tp->snd_ssthresh * PACKET;
	u64 credit = ca->acked + (u64)acked * PACKET;
	u32 window = ca->window;

	if (!is_sparse(window, tp->srtt_us >> 3) && !tcp_is_cwnd_limited(sk)) {
		ca->learning = 0;
		return;
	}
	if (ca->slow_start) {
		set_window(sk, max((u64)window, min(window + (u64)acked * PACKET, most)));
		if (ca->window >= most) {
			ca->slow_start = 0;
			ca->learning = 0;
		}
		return;
	}
	set_window(sk, window + credit / window * PACKET);
	ca->acked = credit % window;
}

CC_HOOK(void, lp_init, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct lp *ca = inet_csk_ca(sk);

	set_window(sk, (u64)tp->snd_cwnd * PACKET);
	ca->prior_window = ca->window;
	ca->reduced = tp->delivered;
	ca->slow_start = tcp_in_slow_start(tp);
	ca->learning = ca->slow_start;
	start_pacing(sk);
}

CC_HOOK(void, lp_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct lp *ca = inet_csk_ca(sk);
	u8 state = cc_ca_state(sk);
	bool reducing = state == TCP_CA_CWR || state == TCP_CA_Recovery;
	bool congested;
	u32 rtt;

	if (!ca->window)
		return;
	rtt = delay_sample(rs, flag, &ca->doubtful);
	if (rtt)
		smooth(sk, one_way_delay(sk, rtt));
	congested = rtt && early_congestion(sk) && !before(rs->prior_delivered, ca->reduced);
	if (congested && !reducing && !ca->learning)
		give_way(sk);
	else if (!reducing && !in_inference(sk))
		grow(sk, rs->acked_sacked);
	set_window(sk, ca->window);
	if (tp->srtt_us)
		set_fine_window(sk, ca->window, tp->srtt_us >> 3);
}

CC_HOOK(u32, lp_ssthresh, struct sock *sk)
{
	struct lp *ca = inet_csk_ca(sk);

	ca->prior_window = ca->window;
	ca->slow_start = 0;
	ca->learning = 0;
	ca->acked = 0;
	ca->reduced = tcp_sk(sk)->delivered;
	set_window(sk, ca->window / 2);
	return max(ca->window / PACKET, 2U);
}

CC_HOOK(void, lp_set_state, struct sock *sk, u8 new_state)
{
	struct lp *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	set_window(sk, PACKET);
	ca->slow_start = 1;
}

CC_HOOK(void, lp_release, struct sock *sk)
{
	stop_pacing(sk);
}

CC_HOOK(u32, lp_undo_cwnd, struct sock *sk)
{
	struct lp *ca = inet_csk_ca(sk);

	set_window(sk, max(ca->window, ca->prior_window));
	return max(tcp_sk(sk)->snd_cwnd, ca->window / PACKET);
}

CC_CONTROL(lp) = {
	CC_ABOUT(lp, "background: Reno that gives way when the one-way delay rises (TCP-LP)"),
	.init = CC_FN(lp_init),
	.release = CC_FN(lp_release),
	.ssthresh = CC_FN(lp_ssthresh),
	.cong_control = CC_FN(lp_cong_control),
	.set_state = CC_FN(lp_set_state),
	.undo_cwnd = CC_FN(lp_undo_cwnd),
};
