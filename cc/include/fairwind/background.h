/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What controls share that judge the path by its delay, and may send less than a packet in a
 * round-trip time.
 */
#ifndef FAIRWIND_BACKGROUND_H
#define FAIRWIND_BACKGROUND_H

#include <fairwind/cc.h>

/* Windows are in units of 1/256 packets where they may be below one packet. */
#define PACKET 256U
/* Below this window at least, pairs are paced: the second of a pair makes the receiver answer at once. */
#define FINE_WINDOW (2 * PACKET)
/* Doubtful samples skipped in a row; after these, the delay must be the path's. */
#define DOUBTFUL_MAX 6
/* FLAG_RETRANS_DATA_ACKED of the kernel's tcp_input.c: some of what is acknowledged had been sent again. */
#define ACK_OF_RETRANSMISSION 0x08
/* For so long a receiver waits with an ACK for a second packet, us. */
#define ACK_DELAY_US 40000U

/*
 * The round-trip time that this ACK shows, us; 0: none, or one that says nothing about the queue:
 * of an ACK for a retransmission among others (from time stamps of milliseconds), of the SYN (a
 * small packet), or of a packet that was acknowledged alone while so few were in flight that the
 * receiver may have waited for a second one: they may be ACK_DELAY_US apart. The kernel's own flag
 * marks only the latter's last packet in a flight. Of such, no more than DOUBTFUL_MAX in a row are
 * skipped, so that a receiver that acknowledges each packet is not taken for silent. *doubtful
 * counts them.
 */
static inline u32 delay_sample(const struct rate_sample *rs, int flag, u8 *doubtful)
{
	u32 few;

	if (rs->rtt_us <= 0 || rs->is_retrans || flag & ACK_OF_RETRANSMISSION ||
	    !rs->prior_delivered)
		return 0;
	few = min(max((u32)min(rs->rtt_us, 1LL << 30) / ACK_DELAY_US, 1U), 4U);
	if (rs->is_ack_delayed || (rs->acked_sacked < 2 && rs->prior_in_flight <= few)) {
		if (*doubtful < DOUBTFUL_MAX) {
			++*doubtful;
			return 0;
		}
	} else {
		*doubtful = 0;
	}
	return min(rs->rtt_us, 1LL << 30);
}

/*
 * Whether a round has ended: a packet has been acknowledged that was sent after the previous round's
 * end, so that it shows what was done then. *end is the state: packets delivered at that time.
 */
static inline bool round_ended(const struct sock *sk, const struct rate_sample *rs, u32 *end)
{
	if (!rs->prior_mstamp || before(rs->prior_delivered, *end))
		return false;
	*end = tcp_sk(sk)->delivered;
	return true;
}

/* In release: a fine window's rate would hold the control that follows. */
static inline void stop_pacing(struct sock *sk)
{
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
}

/*
 * In init: pacing, without delay until the first rate is set. At the SYN's ACK, before init, a
 * control must leave the rate alone: the first window would be spaced by it, for minutes if it is
 * small.
 */
static inline void start_pacing(struct sock *sk)
{
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	stop_pacing(sk);
}

/* A window, in 1/256 packets, between the least and what the connection may have. */
static inline u32 bounded_window(const struct sock *sk, u64 window, u32 least)
{
	u64 most = min((u64)tcp_sk(sk)->snd_cwnd_clamp * PACKET, (u64)~0U);

	return max(min(window, most), (u64)least);
}

/* The rate that sends a window in a round-trip time, bytes/s, at least a packet in 4 s. */
static inline u64 window_rate(const struct sock *sk, u32 window, u32 rtt_us)
{
	u32 mss = tcp_sk(sk)->mss_cache;
	u64 rate = (u64)window * mss * (1000000 / 64) / max(rtt_us, 1U) / (PACKET / 64);

	return max(rate, (u64)(mss / 4));
}

/* Packets further apart than this one by one are sent in pairs, us. */
#define PAIR_GAP_US (ACK_DELAY_US / 2)

/* Whether packets are sent in pairs. */
static inline bool is_sparse(u32 window, u32 rtt_us)
{
	return window < FINE_WINDOW || (u64)window * PAIR_GAP_US < (u64)rtt_us * PACKET;
}

/*
 * Sets the window, in 1/256 packets. The pacing rate is 17/16 of what sends the window in the
 * round-trip time, so that ACKs clock the packets, and a burst after a gap makes no queue. A sparse
 * window is sent by the pacing rate alone, and the congestion window lets pairs leave as bursts: the
 * kernel sends at most half of it at once.
 */
static inline void set_fine_window(struct sock *sk, u32 window, u32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 rate = window_rate(sk, window, rtt_us);
	u32 cwnd = (window + PACKET / 2) / PACKET;

	if (is_sparse(window, rtt_us))
		cwnd = max(cwnd + 2, 4U);
	else
		rate += rate / 16;
	tp->snd_cwnd = max(min(cwnd, tp->snd_cwnd_clamp), 1U);
	sk->sk_pacing_rate = min(rate, (u64)sk->sk_max_pacing_rate);
}

#endif
