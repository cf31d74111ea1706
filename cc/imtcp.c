/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ImTCP: Reno that measures the available bandwidth of its path by its own data. The state has the
 * result: `available`, in kbit/s of payload, with the search range `low` to `high` of the next
 * measurement.
 *
 * Source: the thesis named in imtcp.h, which says how a measurement is made and how it differs from
 * the thesis. Everything else is Reno's (reno.h); the thesis puts the measurement below any control
 * of TCP.
 *
 * Packets are paced, as streams need it: between streams at the kernel's usual rate for a paced
 * connection.
 *
 * Parameters (unit, default):
 *	streams  1, 4         streams of a measurement
 *	packets  packets, 10  packets of a stream, or bursts where TCP sends bursts
 * The defaults are those of the thesis' implementation for FreeBSD.
 */
#include <fairwind/imtcp.h>

CC_PARAMETERS(IMTCP_PARAMETERS);
CC_STATE_FITS(struct imtcp);

CC_HOOK(void, imtcp_init, struct sock *sk)
{
	imtcp_init_state(sk);
}

CC_HOOK(void, imtcp_release, struct sock *sk)
{
	imtcp_stop(sk);
}

CC_HOOK(u32, imtcp_ssthresh, struct sock *sk)
{
	return imtcp_reduced(sk);
}

CC_HOOK(void, imtcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	imtcp_restore(sk);
	reno_grow(sk, acked);
	imtcp_step(sk, param(sk, streams), param(sk, packets));
}

CC_HOOK(void, imtcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART)
		imtcp_stop(sk);
}

CC_HOOK(void, imtcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	imtcp_acked(sk, sample->rtt_us);
}

CC_HOOK(u32, imtcp_min_tso_segs, struct sock *sk)
{
	return imtcp_before_sending(sk);
}

CC_HOOK(u32, imtcp_undo_cwnd, struct sock *sk)
{
	return imtcp_undo(sk);
}

CC_CONTROL(imtcp) = {
	CC_ABOUT(imtcp,
		 "Reno that measures the available bandwidth by streams of its own data (ImTCP)"),
	.init = CC_FN(imtcp_init),
	.release = CC_FN(imtcp_release),
	.ssthresh = CC_FN(imtcp_ssthresh),
	.cong_avoid = CC_FN(imtcp_cong_avoid),
	.cwnd_event = CC_FN(imtcp_cwnd_event),
	.pkts_acked = CC_FN(imtcp_pkts_acked),
	.min_tso_segs = CC_FN(imtcp_min_tso_segs),
	.undo_cwnd = CC_FN(imtcp_undo_cwnd),
};
