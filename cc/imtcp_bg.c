/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ImTCP-bg: background transfer. Reno whose window is at most what the path has left, as measured
 * by ImTCP, and which shrinks at once when the RTT rises.
 *
 * Source: the thesis named in imtcp.h, section 3.2, equations 1 to 4. With A the latest result:
 *
 *	1  smoothed = (1 - gamma) smoothed + gamma A
 *	2  cwnd <= smoothed RTT_min
 *	3  if RTT / RTT_min > delta,
 *	4     cwnd = cwnd RTT_min / RTT
 *
 * RTT is smoothed as by TCP, with a weight of 1/8 for each ACK. Growth and what a loss does are
 * Reno's.
 *
 * What the thesis leaves open, and how it differs here:
 *
 *	RTT     Of the latest packet that an ACK acknowledges. TCP's own smoothed RTT is of the
 *	        earliest, and has the delay of an ACK in it: with a window of five or less, more than
 *	        delta allows. The RTT of a packet acknowledged alone while few are in flight may have
 *	        it, too, and is skipped, at most six times in a row.
 *	RTT_min TCP's, of the last five minutes instead of the connection's whole life.
 *	often   Equation 4 is applied once in a window: the RTT shows it no earlier than that.
 *	ssthresh is lowered to the window by equation 4, or slow start would double it again.
 *	stale   A limit of which no measurement has told for eight RTTs is dropped (the thesis says that
 *	        there is one every one to four). Otherwise a window that is limited to less than a
 *	        measurement needs would never grow again. Equation 4 is left.
 *	least   The window is at least two packets.
 *
 * Parameters (unit, default):
 *	streams  1, 4          streams of a measurement
 *	packets  packets, 10   packets of a stream, or bursts where TCP sends bursts
 *	gamma    1/1024, 128   weight of the latest result: 1/8 (section 4.1.1)
 *	delta    1/1024, 1229  RTT from which the window shrinks, in RTT_min: 1.2 (section 4.1.2)
 */
#include <fairwind/imtcp.h>

#define IMTCP_BG_PARAMETERS(P)                                                              \
	IMTCP_PARAMETERS(P)                                                                 \
	P(gamma, "1/1024", 128, 1, 1024, "weight of the latest result in the smoothed one") \
	P(delta, "1/1024", 1229, 1025, 10240,                                               \
	  "round-trip time from which the window shrinks, in units of the smallest")
CC_PARAMETERS(IMTCP_BG_PARAMETERS);

#define LEAST 2U /* window, packets */
#define STALE 8 /* RTTs without a result after which its limit is dropped */
#define STALE_MAX_MS 30000U /* the clock of 16 bits must not wrap before */
#define FEW 4 /* packets in flight, for which the receiver may wait for another */
#define DOUBTFUL_MAX 6 /* samples skipped in a row */

struct imtcp_bg {
	struct imtcp measurement;
	u32 smoothed; /* available bandwidth, kbit/s; 0: unknown */
	u32 srtt_us; /* eight times the smoothed RTT; 0: none yet */
	u32 shrunk; /* snd_nxt when the RTT last shrank the window */
	u16 result_ms; /* when the latest result came */
	u8 doubtful; /* samples skipped */
};
CC_STATE_FITS(struct imtcp_bg);

CC_HOOK(void, imtcp_bg_init, struct sock *sk)
{
	struct imtcp_bg *ca = inet_csk_ca(sk);

	imtcp_init_state(sk);
	ca->smoothed = 0;
	ca->srtt_us = 0;
	ca->doubtful = 0;
	ca->shrunk = tcp_sk(sk)->snd_una;
}

CC_HOOK(void, imtcp_bg_release, struct sock *sk)
{
	imtcp_stop(sk);
}

CC_HOOK(u32, imtcp_bg_ssthresh, struct sock *sk)
{
	return imtcp_reduced(sk);
}

/* Equation 2. */
static void limit_by_bandwidth(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_bg *ca = inet_csk_ca(sk);
	u16 age_ms = (u32)(tp->tcp_mstamp / 1000) - ca->result_ms;
	u64 most;

	if (age_ms > min(STALE * (tp->srtt_us >> 3) / 1000 + 1, STALE_MAX_MS))
		ca->smoothed = 0;
	if (!ca->smoothed)
		return;
	most = (u64)ca->smoothed * tcp_min_rtt(tp) / 8000 / imtcp_mss(sk);
	tp->snd_cwnd = min((u64)tp->snd_cwnd, max(most, (u64)LEAST));
}

/* Equations 3 and 4. */
static void shrink_by_rtt(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_bg *ca = inet_csk_ca(sk);
	u64 least_us = 8ULL * tcp_min_rtt(tp);

	if (before(tp->snd_una, ca->shrunk) || ca->srtt_us * 1024ULL <= least_us * param(sk, delta))
		return;
	tp->snd_cwnd = max((u32)(tp->snd_cwnd * least_us / ca->srtt_us), LEAST);
	tp->snd_ssthresh = max(min(tp->snd_ssthresh, tp->snd_cwnd), LEAST);
	ca->shrunk = tp->snd_nxt;
}

CC_HOOK(void, imtcp_bg_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	imtcp_restore(sk);
	reno_grow(sk, acked);
	shrink_by_rtt(sk);
	limit_by_bandwidth(sk);
	imtcp_step(sk, param(sk, streams), param(sk, packets));
}

CC_HOOK(void, imtcp_bg_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART)
		imtcp_stop(sk);
}

static void smooth_rtt(struct sock *sk, const struct ack_sample *sample)
{
	struct imtcp_bg *ca = inet_csk_ca(sk);
	u32 rtt_us = min((u32)sample->rtt_us, 1U << 28);

	if (sample->rtt_us <= 0)
		return;
	if (sample->pkts_acked < 2 && tcp_sk(sk)->packets_out < FEW &&
	    ca->doubtful < DOUBTFUL_MAX) {
		ca->doubtful++;
		return;
	}
	ca->doubtful = 0;
	ca->srtt_us = ca->srtt_us ? ca->srtt_us - ca->srtt_us / 8 + rtt_us : rtt_us * 8;
}

/* Equation 1. */
static void smooth_result(struct sock *sk)
{
	struct imtcp_bg *ca = inet_csk_ca(sk);
	u64 result = ca->measurement.available;
	u64 gamma = param(sk, gamma);

	if (!ca->measurement.fresh)
		return;
	ca->measurement.fresh = 0;
	ca->result_ms = tcp_sk(sk)->tcp_mstamp / 1000;
	if (ca->smoothed)
		result = ((1024 - gamma) * ca->smoothed + gamma * result) / 1024;
	ca->smoothed = result;
}

CC_HOOK(void, imtcp_bg_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	smooth_rtt(sk, sample);
	imtcp_acked(sk, sample->rtt_us);
	smooth_result(sk);
}

CC_HOOK(u32, imtcp_bg_min_tso_segs, struct sock *sk)
{
	return imtcp_before_sending(sk);
}

CC_HOOK(u32, imtcp_bg_undo_cwnd, struct sock *sk)
{
	return imtcp_undo(sk);
}

CC_CONTROL(imtcp_bg) = {
	CC_ABOUT(imtcp_bg,
		 "background: at most the available bandwidth that it measures, and less when the "
		 "round-trip time rises (ImTCP-bg)"),
	.init = CC_FN(imtcp_bg_init),
	.release = CC_FN(imtcp_bg_release),
	.ssthresh = CC_FN(imtcp_bg_ssthresh),
	.cong_avoid = CC_FN(imtcp_bg_cong_avoid),
	.cwnd_event = CC_FN(imtcp_bg_cwnd_event),
	.pkts_acked = CC_FN(imtcp_bg_pkts_acked),
	.min_tso_segs = CC_FN(imtcp_bg_min_tso_segs),
	.undo_cwnd = CC_FN(imtcp_bg_undo_cwnd),
};
