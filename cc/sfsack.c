/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SF-SACK: Reno with smoothed reductions. At a loss the window becomes a weighted mean of itself,
 * half of itself and its latest sample, instead of half of itself.
 *
 * Source: Bassi, "A Web100-Dummynet testbed for education and research in transport layer
 * protocols", thesis, 2005, chapter 4 (pages 36 to 40) and appendix A (pages 58 to 71), code for
 * Linux 2.4.26. With d the time since the previous drop, tau a constant, s_1 the sample at this
 * drop and s_0 the previous sample (tcp_sfsack_calc_cwnd, pages 67 and 68):
 *
 *	x    = 2 tau / d       for d <= tau, else 4
 *	cwnd = ((x - 1) cwnd + s_1 + s_0) / (x + 1)
 *
 * What the thesis leaves open, and how it is interpreted here:
 *
 *	formula   Page 68 prints alpha = 2 tau / (d - 1) and beta = 2 tau / (d + 1). With these the
 *	          window grows at a loss, and d = 1 jiffy divides by zero. The thesis' constants
 *	          for d > tau, 3 and 5, are 2 tau / d - 1 and 2 tau / d + 1 at d = tau / 2; only in
 *	          this form do the weights add up to one, and it is the filter of TCP Westwood (the
 *	          thesis' reference 7). So it is used here. In integers, for d <= tau:
 *	          cwnd = ((2 tau - d) cwnd + d (s_1 + s_0)) / (2 tau + d), rounded down; d = 0
 *	          leaves the window unchanged.
 *	tau       The filter has 100 ms, the timer that samples the window 50 ms (pages 61, 62, 67).
 *	          Here tau is the filter's, and a sample is taken every tau / 2.
 *	timer     A control has no timer: a sample is taken at the first ACK after it is due.
 *	          Samples begin with the first drop (page 68, not_first_drop).
 *	loss      During recovery, tcp_cwnd_down lowers the window to a limit: at the first drop by
 *	          rate halving, later to the filter's result with s_1 = cwnd / 2 (page 65). Here
 *	          ssthresh is that limit, half the window at the first drop, and TCP lowers the
 *	          window to it.
 *	recovered tcp_complete_cwr applies the filter a second time, to the window then reached,
 *	          with d the length of the recovery, and sets ssthresh to the result (page 69).
 *	timeout   The filter with s_1 = 1 gives the window, and half the window is ssthresh (pages
 *	          64, 69); the window is one packet only if there was no drop before.
 *
 * The window is at least 1 and ssthresh at least 2 packets. Growth is Reno's.
 *
 * Parameters (unit, default):
 *	tau  us, 100000  time constant of the filter; the window is sampled every tau / 2
 */
#include <fairwind/reno.h>

#define SFSACK_PARAMETERS(P) \
	P(tau, "us", 100000, 1000, 10000000, "time constant of the filter of the window")
CC_PARAMETERS(SFSACK_PARAMETERS);

struct sfsack {
	u64 drop_us; /* latest drop */
	u64 sample_us; /* latest sample by time */
	u32 sample; /* latest sample, packets */
	u32 window; /* the window at the latest event, packets */
	u8 dropped; /* there has been a drop */
	u8 entered; /* ssthresh was called; set_state will tell why */
	u8 reducing; /* between a drop and the end of its recovery */
};
CC_STATE_FITS(struct sfsack);

/* The result of the filter. */
static u32 smooth(struct sock *sk, u32 cwnd, u32 sample)
{
	struct sfsack *ca = inet_csk_ca(sk);
	u64 tau = param(sk, tau);
	u64 d = tcp_sk(sk)->tcp_mstamp - ca->drop_us;
	u64 samples = (u64)sample + ca->sample;

	if (d > tau)
		return (3ULL * cwnd + samples) / 5;
	return ((2 * tau - d) * cwnd + d * samples) / (2 * tau + d);
}

static void note_drop(struct sock *sk, u32 sample)
{
	struct sfsack *ca = inet_csk_ca(sk);

	ca->dropped = 1;
	ca->drop_us = tcp_sk(sk)->tcp_mstamp;
	ca->sample_us = ca->drop_us;
	ca->sample = sample;
}

/* TCP has set the window to one packet; `ca->window` is the one before. */
static void timed_out(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sfsack *ca = inet_csk_ca(sk);

	if (ca->entered)
		tp->snd_ssthresh = max(ca->window >> 1, 2U);
	if (ca->dropped)
		tp->snd_cwnd = max(smooth(sk, ca->window, 1), 1U);
	ca->window = tp->snd_cwnd;
	note_drop(sk, 1);
}

CC_HOOK(void, sfsack_init, struct sock *sk)
{
	struct sfsack *ca = inet_csk_ca(sk);

	ca->window = tcp_sk(sk)->snd_cwnd;
}

CC_HOOK(void, sfsack_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	reno_grow(sk, acked);
}

CC_HOOK(u32, sfsack_ssthresh, struct sock *sk)
{
	struct sfsack *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	ca->entered = 1;
	ca->window = cwnd;
	if (!ca->dropped)
		return reno_half(sk);
	return max(smooth(sk, cwnd, cwnd >> 1), 2U);
}

CC_HOOK(void, sfsack_set_state, struct sock *sk, u8 new_state)
{
	struct sfsack *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss) {
		timed_out(sk);
		ca->reducing = 0;
	} else if (ca->entered && new_state >= TCP_CA_CWR) {
		note_drop(sk, ca->window >> 1);
		ca->reducing = 1;
	}
	ca->entered = 0;
}

/* Recovery has ended at ssthresh. */
CC_HOOK(void, sfsack_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sfsack *ca = inet_csk_ca(sk);
	u32 cwnd = tp->snd_cwnd;

	if (event != CA_EVENT_COMPLETE_CWR || !ca->reducing)
		return;
	tp->snd_cwnd = max(smooth(sk, cwnd, cwnd >> 1), 2U);
	tp->snd_ssthresh = tp->snd_cwnd;
	tp->snd_cwnd_stamp = cc_jiffies(sk);
	ca->window = tp->snd_cwnd;
	ca->reducing = 0;
	note_drop(sk, cwnd >> 1);
}

/* Takes the place of the thesis' timer. */
CC_HOOK(void, sfsack_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sfsack *ca = inet_csk_ca(sk);

	ca->window = tp->snd_cwnd;
	if (ca->dropped && tp->tcp_mstamp - ca->sample_us >= param(sk, tau) / 2) {
		ca->sample_us = tp->tcp_mstamp;
		ca->sample = tp->snd_cwnd;
	}
}

CC_HOOK(u32, sfsack_undo_cwnd, struct sock *sk)
{
	struct sfsack *ca = inet_csk_ca(sk);

	ca->reducing = 0;
	return reno_undo(sk);
}

CC_CONTROL(sfsack) = {
	CC_ABOUT(
		sfsack,
		"Reno whose window falls to a mean of itself, its half and an earlier sample (SF-SACK)"),
	.init = CC_FN(sfsack_init),
	.ssthresh = CC_FN(sfsack_ssthresh),
	.cong_avoid = CC_FN(sfsack_cong_avoid),
	.set_state = CC_FN(sfsack_set_state),
	.cwnd_event = CC_FN(sfsack_cwnd_event),
	.pkts_acked = CC_FN(sfsack_pkts_acked),
	.undo_cwnd = CC_FN(sfsack_undo_cwnd),
};
