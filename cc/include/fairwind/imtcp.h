/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ImTCP: measures the available bandwidth of the path by the connection's own data, for imtcp.c and
 * imtcp_bg.c. No packet is added; data are stored for a moment and then sent as streams of known
 * rates, whose ACKs show from which rate on a queue grows.
 *
 * Source: Tsugawa, "TCP-based background data transfer using inline network measurement technique",
 * thesis, 2006, section 3.1, whose steps a measurement follows:
 *
 *	1  At first a burst: the rate at which its ACKs arrive is a rough estimate, the middle of the
 *	   first search range.
 *	2  The search range is divided into sub-ranges of equal width, each with a stream whose rate
 *	   rises over the sub-range.
 *	3  The sub-range that holds the available bandwidth is the first whose stream, and those
 *	   above it, have an increasing trend of delay.
 *	4  In that stream the available bandwidth is the rate at which the delay turns: the greatest at
 *	   which packets still arrive at the intervals at which they were sent.
 *	5  The next search range is the 95 % confidence interval of the results, around the latest. If
 *	   the range did not hold the bandwidth, it is widened in that direction.
 *
 * How a stream gets its rate. With a full window, packets leave when ACKs arrive. So the window is
 * made smaller by the stream's length until that many packets are stored, and is restored when the
 * stream begins: TCP then has room to send it at any rate. min_tso_segs, which TCP calls before it
 * sends anything, sets the pacing rate for the next interval by the place in the stream. Streams
 * follow each other; their ACKs are read while later ones are sent. What is read: the time at which
 * the acknowledged packet was sent (now minus its RTT) and the RTT.
 *
 * What the thesis leaves open, and how it differs here:
 *
 *	packets  TCP hands bursts of about 1 ms at the pacing rate to the device above about 24 Mbit/s, so
 *	         there a stream is as many bursts as it would be packets. Of each burst the first ACK
 *	         counts. Where packets leave one by one, as is seen by the number of send times, they
 *	         are counted instead. A stream is cut to an eighth of the window, but not below half of
 *	         its length and one; where half of the window cannot hold that, rates above those
 *	         that it can carry are left out of the search range.
 *	first    The first interval is left out: after a pause, the kernel lets a burst follow the first
 *	         after half of the spacing.
 *	trend    Pathload's (the thesis' reference 29): the change of delay over the stream divided by
 *	         the sum of all changes up or down, above 0.4; none if delay changes by less than 1/64 of
 *	         the stream's duration. The sub-range is the one for which the most streams fit.
 *	turn     The latest minimum of the delay. If delay rises from the beginning of the stream, the
 *	         one before has the turn. With a standing queue, delay falls until it turns.
 *	interval Twice the standard error, which the mean deviation stands for; at least a tenth of the
 *	         result, and at first a sub-range. A result after two misses in a row begins a new
 *	         history.
 *	checks   A stream counts if at least five of its packets or bursts were acknowledged at times of
 *	         their own and sending took the time that it should, within a quarter. Losses, SACKs and
 *	         whatever keeps TCP from sending end a measurement; after failures, the next waits 2,
 *	         4, up to 32 RTTs instead of one. A rest of one RTT keeps what storing costs small.
 *	bound    Packets are stored for at most an RTT and at most 100 ms, a stream takes no longer than
 *	         an RTT and 50 ms: RTO is at least an RTT and 200 ms. There is no timer: the window left
 *	         while packets are stored is at least half, so that ACKs keep coming.
 *
 * Rates are in kbit/s of payload. The window is Reno's whenever nothing is stored.
 */
#ifndef FAIRWIND_IMTCP_H
#define FAIRWIND_IMTCP_H

#include <fairwind/reno.h>

#define IMTCP_STREAMS_MAX 4
#define IMTCP_PARAMETERS(P)                                                  \
	P(streams, "1", 4, 2, IMTCP_STREAMS_MAX,                             \
	  "streams of a measurement, one for each part of the search range") \
	P(packets, "packets", 10, 8, 100, "packets of a stream; bursts, where TCP sends bursts")

#define IMTCP_POINTS_MIN 5 /* send times that a stream must have */
#define IMTCP_RESULTS_MAX 16 /* that the mean spans */
#define IMTCP_FAILURES_MAX 5
#define IMTCP_MISSES_MAX 2
#define IMTCP_STORE_US 100000U /* longest time that packets are stored */
#define IMTCP_STREAM_US 50000U /* longest time that a stream takes, beyond an RTT */
#define IMTCP_TREND 26 /* increasing: 0.4 of 64 */
#define IMTCP_BEGINNING 8192U /* of a stream: an eighth */
#define IMTCP_KBPS 125ULL /* bytes/s in a kbit/s */

enum imtcp_phase {
	IMTCP_NEW, /* no ACK yet */
	IMTCP_REST, /* between measurements */
	IMTCP_STORE, /* the window is made smaller for a stream */
	IMTCP_SEND, /* a stream is being sent */
	IMTCP_WAIT, /* all streams have been sent */
};

struct imtcp {
	u32 cwnd; /* the window while it is made smaller, or at the latest loss, packets */
	u32 since; /* when the phase began, us */
	u32 start; /* sequence number at which the first stream began */
	u32 low, high; /* search range, kbit/s; 0: none yet */
	u32 available; /* the latest result, kbit/s; 0: none yet */
	u32 mean, deviation; /* of the results since the latest jump, kbit/s */
	/* Of the stream whose ACKs arrive. Places are in 1/65536 of the stream. */
	u32 first_us, last_us; /* send times */
	u32 first_rtt, last_rtt, least_rtt; /* us */
	u32 changes; /* sum of all changes of the RTT, up or down, us */
	u16 first_at, last_at; /* places */
	/* Of each stream. */
	u16 ends[IMTCP_STREAMS_MAX]; /* packets since the start */
	u16 turns[IMTCP_STREAMS_MAX]; /* place from which the RTT rises */
	signed char trends[IMTCP_STREAMS_MAX]; /* above 0: increasing */
	u16 packets; /* length of a stream */
	u8 points; /* send times of the stream whose ACKs arrive */
	u8 streams; /* of this measurement */
	u8 sending : 4; /* the stream that is stored or sent */
	u8 receiving : 4; /* the stream whose ACKs arrive */
	u8 results : 5; /* since the latest jump, up to IMTCP_RESULTS_MAX */
	u8 failures : 3; /* measurements given up in a row, up to IMTCP_FAILURES_MAX */
	u8 phase : 3;
	u8 misses : 2; /* measurements in a row whose range did not hold the result */
	u8 single : 1; /* packets leave one by one */
	u8 fresh : 1; /* `available` is new */
};

/* The verifier allows no variable index into the state. */
static inline u16 imtcp_get(const u16 *all, u32 i)
{
	u16 value = 0;

	for (u32 j = 0; j < IMTCP_STREAMS_MAX; j++)
		if (j == i)
			value = all[j];
	return value;
}

static inline void imtcp_put(u16 *all, u32 i, u16 value)
{
	for (u32 j = 0; j < IMTCP_STREAMS_MAX; j++)
		if (j == i)
			all[j] = value;
}

static inline u32 imtcp_mss(const struct sock *sk)
{
	return max(tcp_sk(sk)->mss_cache, 1U);
}

/* Before the first result there is only one stream: a burst. */
static inline bool imtcp_is_first(const struct imtcp *m)
{
	return !m->high;
}

/* The rate at a place of a stream, kbit/s. */
static inline u32 imtcp_rate(const struct imtcp *m, u32 stream, u32 at)
{
	u64 width = m->high - m->low;

	return m->low + (width * ((stream << 16) + at) / max(m->streams, (u8)1) >> 16);
}

/* Packets that TCP sends at once at a rate in kbit/s; 0 counts as 1. */
static inline u32 imtcp_burst(const struct sock *sk, u32 rate)
{
	return (rate * IMTCP_KBPS >> 10) / imtcp_mss(sk);
}

/* The window that limits, be it the receiver's, packets. */
static inline u32 imtcp_window(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return min(tp->snd_cwnd, tp->snd_wnd / imtcp_mss(sk));
}

static inline u32 imtcp_packets_to(const struct sock *sk, u32 seq)
{
	const struct imtcp *m = inet_csk_ca(sk);

	return (seq - m->start) / imtcp_mss(sk);
}

/* Where a stream begins, packets since the start. */
static inline u32 imtcp_begin_of(const struct imtcp *m, u32 stream)
{
	return stream ? imtcp_get(m->ends, stream - 1) : 0;
}

static inline void imtcp_enter(struct sock *sk, enum imtcp_phase phase)
{
	struct imtcp *m = inet_csk_ca(sk);

	m->phase = phase;
	m->since = tcp_sk(sk)->tcp_mstamp;
}

static inline void imtcp_shrink(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp *m = inet_csk_ca(sk);
	u32 window = imtcp_window(sk);

	m->cwnd = tp->snd_cwnd;
	if (window > m->packets)
		tp->snd_cwnd = window - m->packets;
}

/* Gives the window back, if it is smaller for a stream. */
static inline void imtcp_restore(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct imtcp *m = inet_csk_ca(sk);

	if (m->phase == IMTCP_STORE)
		tp->snd_cwnd = max(tp->snd_cwnd, m->cwnd);
}

/* Gives a measurement up. */
static inline void imtcp_stop(struct sock *sk)
{
	struct imtcp *m = inet_csk_ca(sk);

	if (m->phase < IMTCP_STORE)
		return;
	imtcp_restore(sk);
	imtcp_enter(sk, IMTCP_REST);
	if (m->failures < IMTCP_FAILURES_MAX)
		m->failures++;
}

/* The stream being sent is complete; TCP's own rate is restored, as it does with each ACK. */
static inline void imtcp_sent(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp *m = inet_csk_ca(sk);
	u64 rate = (u64)tp->mss_cache * tp->snd_cwnd * 9600000 / max(tp->srtt_us, 1U);

	imtcp_put(m->ends, m->sending, imtcp_packets_to(sk, tp->snd_nxt));
	sk->sk_pacing_rate = min(rate, (u64)sk->sk_max_pacing_rate);
	m->sending++;
	if (m->sending == m->streams) {
		imtcp_enter(sk, IMTCP_WAIT);
		return;
	}
	imtcp_enter(sk, IMTCP_STORE);
	imtcp_shrink(sk);
}

/* For min_tso_segs: sets the rate of what is sent now. */
static inline u32 imtcp_before_sending(struct sock *sk)
{
	struct imtcp *m = inet_csk_ca(sk);
	u64 rate = ~0ULL;
	u32 sent;

	if (m->phase != IMTCP_SEND)
		return 2;
	sent = imtcp_packets_to(sk, tcp_sk(sk)->snd_nxt) - imtcp_begin_of(m, m->sending);
	if (sent >= m->packets) {
		imtcp_sent(sk);
		return 2;
	}
	if (!imtcp_is_first(m))
		rate = imtcp_rate(m, m->sending, (sent << 16) / max(m->packets, (u16)1)) *
		       IMTCP_KBPS;
	sk->sk_pacing_rate = min(rate, (u64)sk->sk_max_pacing_rate);
	return 1;
}

static inline void imtcp_search(struct imtcp *m, u64 low, u64 high)
{
	m->low = max(low, 8ULL);
	m->high = max(min(high, 1ULL << 31), m->low + 8ULL);
}

/* Step 5, without a result. Widened once; after that, also moved. */
static inline void imtcp_miss(struct imtcp *m, bool above)
{
	u32 half = (m->high - m->low) / 2;

	if (above)
		imtcp_search(m, m->misses ? m->high - half : m->low,
			     (u64)m->high + (m->misses ? 2 * half : half));
	else if (m->misses)
		imtcp_search(m, m->low - min(2 * half, m->low / 2), m->low + half);
	else
		imtcp_search(m, m->low - min(half, m->low / 2), m->high);
	if (m->misses < IMTCP_MISSES_MAX)
		m->misses++;
}

/* Integer square root of 1 to 16. */
static inline u32 imtcp_root(u32 n)
{
	return n >= 16 ? 4 : n >= 9 ? 3 : n >= 4 ? 2 : 1;
}

/* Step 5, with a result. */
static inline void imtcp_learn(struct imtcp *m, u32 result)
{
	u32 part = (m->high - m->low) / max(m->streams, (u8)1);
	u32 off = result > m->mean ? result - m->mean : m->mean - result;
	u64 half;

	if (!m->results || m->misses == IMTCP_MISSES_MAX) {
		m->mean = result;
		m->deviation = 0;
		m->results = 1;
	} else {
		if (m->results < IMTCP_RESULTS_MAX)
			m->results++;
		m->deviation = m->deviation - m->deviation / m->results + off / m->results;
		off /= m->results;
		m->mean = result > m->mean ? m->mean + off : m->mean - off;
	}
	m->misses = 0;
	m->available = result;
	m->fresh = 1;
	/* A standard deviation is 5/4 of the mean deviation. */
	half = m->deviation * 5ULL / 2 / imtcp_root(m->results);
	half = max(half, result / 10ULL);
	if (m->results < 3)
		half = max(half, (u64)part);
	imtcp_search(m, result - min(half, (u64)result), result + half);
}

/* Steps 3 and 4. */
static inline void imtcp_conclude(struct sock *sk)
{
	struct imtcp *m = inet_csk_ca(sk);
	u32 chosen = 0; /* the first stream above the available bandwidth */
	s32 fit = 0, best;
	u32 at;

	for (u32 i = 0; i < IMTCP_STREAMS_MAX; i++)
		if (i < m->streams)
			fit += m->trends[i];
	best = fit;
	for (u32 i = 0; i < IMTCP_STREAMS_MAX; i++) {
		if (i >= m->streams)
			break;
		fit -= 2 * m->trends[i];
		if (fit >= best) {
			best = fit;
			chosen = i + 1;
		}
	}
	m->failures = 0;
	imtcp_enter(sk, IMTCP_REST);
	if (chosen == m->streams) {
		imtcp_miss(m, true);
		return;
	}
	at = imtcp_get(m->turns, chosen);
	if (at < IMTCP_BEGINNING) {
		if (!chosen) {
			imtcp_miss(m, false);
			return;
		}
		chosen--;
		at = imtcp_get(m->turns, chosen);
	}
	imtcp_learn(m, imtcp_rate(m, chosen, at));
}

/* Step 1: the burst's ACKs, or if they came as one, what a window carries. */
static inline void imtcp_conclude_first(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp *m = inet_csk_ca(sk);
	u64 bits = ((u64)(m->last_at - m->first_at) * m->packets * tp->mss_cache >> 16) * 8;
	u32 us = m->last_us + m->last_rtt - m->first_us - m->first_rtt;
	u64 rate;

	if (m->points < 3 || !us) {
		bits = (u64)tp->mss_cache * tp->snd_cwnd * 8;
		us = max(tp->srtt_us >> 3, 1U);
	}
	rate = bits * 1000 / us;
	imtcp_search(m, rate / 2, rate / 2 * 3);
	imtcp_enter(sk, IMTCP_REST);
}

static inline bool imtcp_is_valid(const struct sock *sk)
{
	const struct imtcp *m = inet_csk_ca(sk);
	u32 rate = imtcp_rate(m, m->receiving, (m->first_at + m->last_at) / 2);
	u64 bits = ((u64)(m->last_at - m->first_at) * m->packets * imtcp_mss(sk) >> 16) * 8;
	u64 planned_us = bits * 1000 / max(rate, 1U);
	u32 took_us = m->last_us - m->first_us;

	return m->points >= IMTCP_POINTS_MIN && took_us <= planned_us + planned_us / 4 &&
	       took_us >= planned_us - planned_us / 4;
}

/* Pathload's pairwise difference test, 64 to -64 before the threshold is taken off. */
static inline s32 imtcp_trend(const struct imtcp *m)
{
	bool rises = !before(m->last_rtt, m->first_rtt);
	u32 change = rises ? m->last_rtt - m->first_rtt : m->first_rtt - m->last_rtt;
	s32 trend;

	if (change < (m->last_us - m->first_us) / 64)
		return -IMTCP_TREND;
	trend = change * 64ULL / max(m->changes, 1U);
	return (rises ? trend : -trend) - IMTCP_TREND;
}

/* All ACKs of a stream have arrived. */
static inline void imtcp_received(struct sock *sk)
{
	struct imtcp *m = inet_csk_ca(sk);
	s32 trend;

	if (imtcp_is_first(m)) {
		imtcp_conclude_first(sk);
		return;
	}
	if (!imtcp_is_valid(sk)) {
		if (m->points < IMTCP_POINTS_MIN)
			m->single = 0;
		imtcp_stop(sk);
		return;
	}
	/* ACKs of every second packet tell single packets from bursts of four and more. */
	if (imtcp_burst(sk, imtcp_rate(m, m->receiving, 0)) >= 4)
		m->single = 2 * m->points + 2 >= m->packets;
	trend = imtcp_trend(m);
	for (u32 i = 0; i < IMTCP_STREAMS_MAX; i++)
		if (i == m->receiving)
			m->trends[i] = trend;
	m->points = 0;
	m->receiving++;
	if (m->receiving == m->streams)
		imtcp_conclude(sk);
}

/* An RTT of the stream whose ACKs arrive, at a place in it. */
static inline void imtcp_add(struct sock *sk, u32 rtt, u16 at)
{
	struct imtcp *m = inet_csk_ca(sk);
	u32 sent_us = tcp_sk(sk)->tcp_mstamp - rtt;

	if (m->points && sent_us == m->last_us && !imtcp_is_first(m))
		return;
	if (m->points < 2) {
		m->first_us = sent_us;
		m->first_rtt = rtt;
		m->first_at = at;
		m->least_rtt = rtt;
		m->changes = 0;
		imtcp_put(m->turns, m->receiving, 0);
	} else {
		m->changes += rtt > m->last_rtt ? rtt - m->last_rtt : m->last_rtt - rtt;
		if (rtt <= m->least_rtt) {
			m->least_rtt = rtt;
			imtcp_put(m->turns, m->receiving, at);
		}
	}
	m->last_us = sent_us;
	m->last_rtt = rtt;
	m->last_at = at;
	if (m->points < 255)
		m->points++;
}

/* For pkts_acked. */
static inline void imtcp_acked(struct sock *sk, s32 rtt_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp *m = inet_csk_ca(sk);
	u32 acked, begin;

	if (m->phase < IMTCP_STORE || (m->phase == IMTCP_STORE && !m->sending))
		return;
	if (rtt_us <= 0 || tp->sacked_out || tp->lost_out) {
		imtcp_stop(sk);
		return;
	}
	if (!after(tp->snd_una, m->start))
		return;
	acked = imtcp_packets_to(sk, tp->snd_una);
	for (u32 i = 0; i < IMTCP_STREAMS_MAX; i++) {
		if (m->phase < IMTCP_STORE || m->receiving >= m->sending ||
		    acked <= imtcp_get(m->ends, m->receiving))
			break;
		imtcp_received(sk);
	}
	if (m->phase < IMTCP_STORE)
		return;
	begin = imtcp_begin_of(m, m->receiving);
	if (acked <= begin)
		return;
	imtcp_add(sk, rtt_us, min(((acked - begin) << 16) / max(m->packets, (u16)1), 65535U));
	if (m->receiving < m->sending && acked == imtcp_get(m->ends, m->receiving))
		imtcp_received(sk);
}

/* Begins a measurement if the window is large enough for it. */
static inline void imtcp_start(struct sock *sk, u32 streams, u32 packets)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp *m = inet_csk_ca(sk);
	u32 window = imtcp_window(sk);
	u32 length = packets, most = 1U << 14;
	u32 limit, burst;
	u64 slow;

	if (cc_ca_state(sk) != TCP_CA_Open || !tp->srtt_us || window < 2 * packets)
		return;
	if (!imtcp_is_first(m)) {
		limit = min((window / 8 + 1) * 1024ULL * imtcp_mss(sk) / IMTCP_KBPS, 1ULL << 31);
		if (!m->single && m->high > limit)
			imtcp_search(m, min(m->low, limit / 2), limit);
		burst = m->single ? 1 : max(imtcp_burst(sk, m->high), 1U);
		length = min(packets * burst, window / 8);
		length = max(length, min((packets / 2 + 1) * burst, window / 2));
		/* What the slowest stream may take. */
		slow = (u64)m->low * (IMTCP_STREAM_US + (tp->srtt_us >> 3)) / 8000 / imtcp_mss(sk);
		if (slow < packets)
			return;
		most = min(slow, (u64)most);
	}
	m->packets = max(min(length, most), packets);
	m->streams = imtcp_is_first(m) ? 1 : streams;
	m->sending = 0;
	m->receiving = 0;
	m->points = 0;
	imtcp_enter(sk, IMTCP_STORE);
}

/* For cong_avoid, after the window has been set; imtcp_restore comes before that. */
static inline void imtcp_step(struct sock *sk, u32 streams, u32 packets)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp *m = inet_csk_ca(sk);
	u32 elapsed = (u32)tp->tcp_mstamp - m->since;
	u32 rtt = tp->srtt_us >> 3;

	if (m->phase == IMTCP_NEW)
		imtcp_enter(sk, IMTCP_REST);
	else if (m->phase == IMTCP_REST && elapsed >= (u64)rtt << m->failures)
		imtcp_start(sk, streams, packets);
	else if (m->phase == IMTCP_STORE && elapsed > min(rtt, IMTCP_STORE_US))
		imtcp_stop(sk);
	else if (m->phase > IMTCP_STORE && elapsed > 2ULL * rtt + 2 * IMTCP_STREAM_US)
		imtcp_stop(sk);
	if (m->phase != IMTCP_STORE)
		return;
	if (imtcp_window(sk) < 2 * m->packets) {
		imtcp_stop(sk);
		return;
	}
	if (tcp_packets_in_flight(tp) + m->packets > imtcp_window(sk)) {
		imtcp_shrink(sk);
		return;
	}
	if (!m->sending)
		m->start = tp->snd_nxt;
	imtcp_enter(sk, IMTCP_SEND);
}

/* For init. */
static inline void imtcp_init_state(struct sock *sk)
{
	struct imtcp *m = inet_csk_ca(sk);

	*m = (struct imtcp){ 0 };
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* For ssthresh: Reno's, of the whole window. */
static inline u32 imtcp_reduced(struct sock *sk)
{
	struct imtcp *m = inet_csk_ca(sk);

	imtcp_stop(sk);
	m->cwnd = tcp_sk(sk)->snd_cwnd;
	return reno_half(sk);
}

/* For undo_cwnd: TCP's own record may be of a window made smaller for a stream. */
static inline u32 imtcp_undo(const struct sock *sk)
{
	const struct imtcp *m = inet_csk_ca(sk);

	return max(reno_undo(sk), m->cwnd);
}

#endif
