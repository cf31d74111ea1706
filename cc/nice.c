/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP Nice: a background control that halves its window when delays show a queue, long before a
 * loss does, and goes below one packet in a round-trip time if that is needed.
 *
 * Source: Venkataramani, Kokku, Dahlin, "TCP Nice: a mechanism for background transfers", OSDI
 * 2002, section 3, on top of Vegas: Brakmo, Peterson, "TCP Vegas: end to end congestion avoidance
 * on a global Internet", 1995. With W the window, t the threshold and f the fraction, which the
 * evaluation sets to 0.1 and 0.5:
 *
 *	each packet   rtt > (1 - t) minRTT + t maxRTT counts as congested
 *	each round    more than f of the packets congested: W / 2
 *	              otherwise Vegas. With diff = W (1 - minRTT / rtt), rtt the least of the round:
 *	                diff < alpha: W + 1; diff > beta: W - 1
 *	                slow start as long as diff <= 1; its end leaves W - diff + 1
 *	loss          W / 2, as in Reno
 *	W < 1         one packet every 1 / W round trips, for W down to 1/48
 *
 * minRTT and maxRTT are those of the connection. maxRTT stands for the round-trip time with a full
 * queue. A flow that has never seen a full queue takes a smaller value for it, and so gives way to
 * few packets, even to delays that vary for other reasons: such a flow may starve, also beside its
 * own kind.
 *
 * What the paper leaves open, and how it is done here:
 *
 *	round         As long as it takes until a packet is acknowledged that was sent in it.
 *	W below one   A clean round adds one packet there, too, as Vegas does.
 *	W below two   Pairs of packets are paced, so that the receiver does not delay its ACK.
 *	pacing        Larger windows are paced as well, a little faster than a window in a round trip,
 *	              so that no burst of the flow's own counts as congestion.
 *	samples       One for each ACK, counted for all packets that it acknowledges; none of
 *	              retransmissions and of ACKs that the receiver may have delayed.
 *	slow start    Vegas' alone, since the paper's rule is one of congestion avoidance: it ends when
 *	              a queue stands, and its own bursts teach maxRTT. It doubles in each round, not
 *	              in every other, as in Linux' Vegas.
 *	timeout       One packet, or the window if that is smaller, and slow start up to ssthresh.
 *	recovery      The window is ssthresh from its beginning to its end (RFC 6675).
 *
 * Parameters (unit, default):
 *	threshold  1/1024, 102  t
 *	fraction   1/1024, 512  f
 *	alpha      packets, 1   of Vegas
 *	beta       packets, 3   of Vegas
 */
#include <fairwind/background.h>

#define NICE_PARAMETERS(P)                                                                   \
	P(threshold, "1/1024", 102, 1, 1023, "share of the queue that counts as congestion") \
	P(fraction, "1/1024", 512, 1, 1023, "share of congested packets that halves")        \
	P(alpha, "packets", 1, 0, 1000, "queued packets below which the window grows")       \
	P(beta, "packets", 3, 0, 1000, "queued packets above which the window shrinks")
CC_PARAMETERS(NICE_PARAMETERS);

#define SHARE 1024U /* unit of shares */
#define LEAST (PACKET / 48) /* window */
#define GAMMA PACKET /* diff that ends slow start */

struct nice {
	u32 window; /* 1/256 packets; 0: before init */
	u32 prior_window; /* before the latest reduction by a loss */
	u32 min_rtt; /* of the connection, us; 0: none */
	u32 max_rtt;
	u32 round_rtt; /* minimum of this round, us; 0: none */
	u32 round_end; /* packets delivered at its beginning */
	u32 packets; /* of this round, with a delay */
	u32 congested; /* of those */
	u8 slow_start;
	u8 doubtful; /* delays skipped in a row */
};
CC_STATE_FITS(struct nice);

static void set_window(struct sock *sk, u64 window)
{
	struct nice *ca = inet_csk_ca(sk);

	ca->window = bounded_window(sk, window, LEAST);
}

static void take_delay(struct sock *sk, u32 rtt, u32 packets)
{
	struct nice *ca = inet_csk_ca(sk);
	u32 limit;

	ca->min_rtt = ca->min_rtt ? min(ca->min_rtt, rtt) : rtt;
	ca->max_rtt = max(ca->max_rtt, rtt);
	ca->round_rtt = ca->round_rtt ? min(ca->round_rtt, rtt) : rtt;
	ca->packets += packets;
	limit = ca->min_rtt + (u64)(ca->max_rtt - ca->min_rtt) * param(sk, threshold) / SHARE;
	if (rtt > limit)
		ca->congested += packets;
}

/* Whether the window limits what is sent. A sparse one limits by pacing alone. */
static bool limits(const struct sock *sk)
{
	const struct nice *ca = inet_csk_ca(sk);

	return is_sparse(ca->window, tcp_sk(sk)->srtt_us >> 3) || tcp_is_cwnd_limited(sk);
}

/* Vegas, at the end of a round. */
static void vegas(struct sock *sk)
{
	struct nice *ca = inet_csk_ca(sk);
	u32 rtt = max(ca->round_rtt, 1U);
	u32 diff = (u64)ca->window * (rtt - min(ca->min_rtt, rtt)) / rtt;

	if (ca->slow_start) {
		if (diff > GAMMA) {
			set_window(sk, ca->window - diff + PACKET);
			tcp_sk(sk)->snd_ssthresh = max(ca->window / PACKET, 2U);
			ca->slow_start = 0;
		}
	} else if (diff < param(sk, alpha) * PACKET) {
		if (limits(sk))
			set_window(sk, (u64)ca->window + PACKET);
	} else if (diff > param(sk, beta) * PACKET) {
		set_window(sk, max(ca->window, 3 * PACKET) - PACKET);
	}
}

static void judge_round(struct sock *sk)
{
	struct nice *ca = inet_csk_ca(sk);
	bool congested = (u64)ca->congested * SHARE > (u64)ca->packets * param(sk, fraction);

	if (congested && !ca->slow_start) {
		set_window(sk, ca->window / 2);
		tcp_sk(sk)->snd_ssthresh = max(ca->window / PACKET, 2U);
	} else if (ca->packets) {
		vegas(sk);
	}
	ca->packets = 0;
	ca->congested = 0;
	ca->round_rtt = 0;
}

static void grow_fast(struct sock *sk, u32 acked)
{
	struct nice *ca = inet_csk_ca(sk);
	u64 most = (u64)tcp_sk(sk)->snd_ssthresh * PACKET;

	if (limits(sk))
		set_window(sk, max((u64)ca->window, min(ca->window + (u64)acked * PACKET, most)));
	if (ca->window >= most)
		ca->slow_start = 0;
}

CC_HOOK(void, nice_init, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct nice *ca = inet_csk_ca(sk);

	set_window(sk, (u64)tp->snd_cwnd * PACKET);
	ca->prior_window = ca->window;
	ca->round_end = tp->delivered;
	ca->slow_start = tcp_in_slow_start(tp);
	start_pacing(sk);
}

CC_HOOK(void, nice_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct nice *ca = inet_csk_ca(sk);
	u8 state = cc_ca_state(sk);
	bool reducing = state == TCP_CA_CWR || state == TCP_CA_Recovery;
	u32 rtt;

	if (!ca->window)
		return;
	rtt = delay_sample(rs, flag, &ca->doubtful);
	if (rtt)
		take_delay(sk, rtt, rs->acked_sacked);
	if (ca->slow_start && !reducing)
		grow_fast(sk, rs->acked_sacked);
	if (round_ended(sk, rs, &ca->round_end) && !reducing)
		judge_round(sk);
	set_window(sk, ca->window);
	if (tp->srtt_us)
		set_fine_window(sk, ca->window, tp->srtt_us >> 3);
}

CC_HOOK(u32, nice_ssthresh, struct sock *sk)
{
	struct nice *ca = inet_csk_ca(sk);

	ca->prior_window = ca->window;
	ca->slow_start = 0;
	set_window(sk, ca->window / 2);
	return max(ca->window / PACKET, 2U);
}

CC_HOOK(void, nice_set_state, struct sock *sk, u8 new_state)
{
	struct nice *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	set_window(sk, min(ca->window, PACKET));
	ca->slow_start = 1;
}

CC_HOOK(void, nice_release, struct sock *sk)
{
	stop_pacing(sk);
}

CC_HOOK(u32, nice_undo_cwnd, struct sock *sk)
{
	struct nice *ca = inet_csk_ca(sk);

	set_window(sk, max(ca->window, ca->prior_window));
	return max(tcp_sk(sk)->snd_cwnd, ca->window / PACKET);
}

CC_CONTROL(nice) = {
	CC_ABOUT(nice,
		 "background: Vegas that halves its window when delays show a queue (TCP Nice)"),
	.init = CC_FN(nice_init),
	.release = CC_FN(nice_release),
	.ssthresh = CC_FN(nice_ssthresh),
	.cong_control = CC_FN(nice_cong_control),
	.set_state = CC_FN(nice_set_state),
	.undo_cwnd = CC_FN(nice_undo_cwnd),
};
