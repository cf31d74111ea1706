/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * LEDBAT++: a background control that holds the delay it adds to the path at a target, and empties
 * the queue at regular intervals to see the path without it.
 *
 * Source: draft-irtf-iccrg-ledbat-plus-plus, sections 4.1 to 4.5, and RFC 6817 for what it keeps
 * of LEDBAT. With W the window, T the target, q the queueing delay, base the base delay:
 *
 *	GAIN = 1 / min(16, ceil(2 T / base))                                       (4.2)
 *	slow start            W += GAIN for each packet acknowledged               (4.1)
 *	q <= T, each round    W += GAIN                                            (4.2)
 *	q > T, each round     W += max(GAIN - C W (q/T - 1), -W/2), C = 1          (4.3)
 *	W >= 2
 *
 *	slow start  The first one also ends when q exceeds 3/4 of T (4.1).
 *	slow-down   ssthresh = W, W = 2 for two round trips, then slow start up to ssthresh. The
 *	            first one comes two round trips after the end of the first slow start, the next
 *	            ones nine times as long after the end of the previous one as that one took (4.4).
 *	delay       The round-trip time, the least of the four latest samples, which filters delayed
 *	            ACKs out (4.5). The base delay is the minimum of the last ten minutes, in slots
 *	            of one minute (RFC 6817, 4.2, BASE_HISTORY).
 *	window      It starts at two packets (RFC 6817, INIT_CWND), and grows only where it limits
 *	            the packets in flight (RFC 6817, 2.4.1, in the kernel's way).
 *	loss        W / 2, once a round trip, as in Reno (RFC 6817, 2.4.1).
 *
 * What the draft leaves open, and how it is interpreted here:
 *
 *	loss during a slow-down
 *	            Half of ssthresh, not of the two packets: what is lost was sent with the window
 *	            before. Otherwise one such loss leaves a window of two packets.
 *	timeout     Slow start up to ssthresh is LEDBAT++'s too, at GAIN. It is no slow-down: it
 *	            does not set the time of the next one, which waits for its end.
 *	first slow start ended by a loss
 *	            is followed by a slow-down, as if the delay had ended it.
 *	a connection that takes this control while it runs
 *	            keeps its window. It is in slow start if TCP says so.
 *
 * Parameters (unit, default):
 *	target  us, 60000  T
 */
#include <fairwind/reno.h>

#define LEDBATPP_PARAMETERS(P) P(target, "us", 60000, 1000, 1000000, "queueing delay aimed at")
CC_PARAMETERS(LEDBATPP_PARAMETERS);

#define LEAST 2U /* window, packets */
#define GAIN_MOST 16U /* greatest 1 / GAIN */
#define PACKET 720720U /* parts of a packet; every GAIN is a whole number of them */
#define SHARE 4096U /* unit of shares of the window */
#define FREEZE 2U /* round trips at the least window; and until the first slow-down */
#define INTERVAL 9U /* from one slow-down to the next, in lengths of the one before */
#define RECENT 4 /* samples of which the least is the current delay */
#define HISTORY 10 /* minutes of the base delay */
#define MINUTE_US 60000000U

enum phase {
	FIRST_SLOW_START,
	AVOIDANCE, /* or slow start after a timeout */
	FROZEN, /* a slow-down, at the least window */
	REGROWTH, /* a slow-down, in slow start up to ssthresh */
};

struct ledbatpp {
	u64 begun_us; /* the latest slow-down */
	u64 next_us; /* the next slow-down; while frozen: the end of that */
	u32 base[HISTORY]; /* minima by minute, us, the current one first; 0: none */
	u32 recent[RECENT]; /* round-trip times, us, the latest first; 0: none */
	u32 minute; /* of base[0] */
	u32 round_seq; /* the round ends when this is acknowledged */
	u32 part; /* of a packet, beside snd_cwnd, 1/PACKET */
	u8 phase;
};
CC_STATE_FITS(struct ledbatpp);

/* Round-trip time, us. */
static u32 round_trip(const struct sock *sk)
{
	return max(tcp_sk(sk)->srtt_us >> 3, 1U);
}

/* Minimum of the last minutes, us; 0: none. */
static u32 base_delay(const struct ledbatpp *ca)
{
	u32 base = ca->base[0];

	for (int i = 1; i < HISTORY; i++)
		if (ca->base[i])
			base = min(base, ca->base[i]);
	return base;
}

/* The queueing delay, us. */
static u32 queueing_delay(const struct ledbatpp *ca)
{
	u32 current = ca->recent[0];

	for (int i = 1; i < RECENT; i++)
		if (ca->recent[i])
			current = min(current, ca->recent[i]);
	return current - min(base_delay(ca), current);
}

/* 1 / GAIN. */
static u32 gain_divisor(struct sock *sk)
{
	u32 base = max(base_delay(inet_csk_ca(sk)), 1U);

	return min((2 * param(sk, target) + base - 1) / base, GAIN_MOST);
}

/* Sets the window, in 1/PACKET of a packet. */
static void set_window(struct sock *sk, u64 window)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ledbatpp *ca = inet_csk_ca(sk);
	u64 most = (u64)max(tp->snd_cwnd_clamp, LEAST) * PACKET;

	window = min(max(window, (u64)LEAST * PACKET), most);
	tp->snd_cwnd = window / PACKET;
	ca->part = window % PACKET;
}

static u64 window(const struct sock *sk)
{
	const struct ledbatpp *ca = inet_csk_ca(sk);

	return (u64)tcp_sk(sk)->snd_cwnd * PACKET + ca->part;
}

/* Slow start, up to ssthresh. */
static void grow_fast(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 grown = window(sk) + (u64)acked * PACKET / gain_divisor(sk);

	if (tcp_is_cwnd_limited(sk))
		set_window(sk, min(grown, (u64)tp->snd_ssthresh * PACKET));
}

/* Congestion avoidance, at the end of a round. */
static void adjust(struct sock *sk)
{
	u32 target = param(sk, target);
	u32 delay = queueing_delay(inet_csk_ca(sk));
	u64 old = window(sk);
	u64 growth = PACKET / gain_divisor(sk);
	u32 excess = delay > target ? min(delay - target, target) : 0;
	u64 share = (u64)excess * SHARE / target;
	u64 decrease = min(old * share / SHARE, old / 2 + growth);

	if (!excess && !tcp_is_cwnd_limited(sk))
		return;
	set_window(sk, old + growth - decrease);
}

static void begin_slow_down(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ledbatpp *ca = inet_csk_ca(sk);

	tp->snd_ssthresh = max(tp->snd_cwnd, LEAST);
	set_window(sk, 0);
	ca->begun_us = tp->tcp_mstamp;
	ca->next_us = ca->begun_us + (u64)FREEZE * round_trip(sk);
	ca->phase = FROZEN;
}

/* Goes on to the next phase if it is time. */
static void step(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ledbatpp *ca = inet_csk_ca(sk);
	u64 now = tp->tcp_mstamp;

	switch (ca->phase) {
	case FIRST_SLOW_START:
		if (queueing_delay(ca) > param(sk, target) / 4 * 3)
			tp->snd_ssthresh = max(tp->snd_cwnd, LEAST);
		if (tcp_in_slow_start(tp))
			break;
		ca->next_us = now + (u64)FREEZE * round_trip(sk);
		ca->phase = AVOIDANCE;
		break;
	case AVOIDANCE:
		if (now >= ca->next_us && !tcp_in_slow_start(tp))
			begin_slow_down(sk);
		break;
	case FROZEN:
		if (now >= ca->next_us)
			ca->phase = REGROWTH;
		break;
	default:
		if (tcp_in_slow_start(tp))
			break;
		ca->next_us = now + INTERVAL * (now - ca->begun_us);
		ca->phase = AVOIDANCE;
	}
}

/* A new connection, on which at most the SYN was acknowledged, begins with the least window. */
CC_HOOK(void, ledbatpp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ledbatpp *ca = inet_csk_ca(sk);

	if (tp->delivered <= 1 && !tp->packets_out)
		tp->snd_cwnd = min(tp->snd_cwnd, LEAST);
	ca->round_seq = tp->snd_nxt;
}

CC_HOOK(void, ledbatpp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct ledbatpp *ca = inet_csk_ca(sk);
	u32 minute = tcp_sk(sk)->tcp_mstamp / MINUTE_US;
	u32 rtt = sample->rtt_us;

	if (sample->rtt_us <= 0)
		return;
	if (minute != ca->minute) {
		for (int i = HISTORY - 1; i > 0; i--)
			ca->base[i] = ca->base[i - 1];
		ca->base[0] = 0;
		ca->minute = minute;
	}
	ca->base[0] = ca->base[0] ? min(ca->base[0], rtt) : rtt;
	for (int i = RECENT - 1; i > 0; i--)
		ca->recent[i] = ca->recent[i - 1];
	ca->recent[0] = rtt;
}

CC_HOOK(void, ledbatpp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ledbatpp *ca = inet_csk_ca(sk);
	bool round_ended = !before(tp->snd_una, ca->round_seq);

	if (round_ended)
		ca->round_seq = tp->snd_nxt;
	if (!ca->recent[0])
		return;
	step(sk);
	if (ca->phase == FROZEN)
		set_window(sk, 0);
	else if (tcp_in_slow_start(tp))
		grow_fast(sk, acked);
	else if (round_ended)
		adjust(sk);
	set_window(sk, window(sk));
}

/* The end of a recovery restores ssthresh; a slow-down keeps its window. */
CC_HOOK(void, ledbatpp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	const struct ledbatpp *ca = inet_csk_ca(sk);

	if (event == CA_EVENT_COMPLETE_CWR && ca->phase == FROZEN)
		set_window(sk, 0);
}

CC_HOOK(u32, ledbatpp_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct ledbatpp *ca = inet_csk_ca(sk);

	ca->part = 0;
	if (ca->phase == FROZEN)
		return max(tp->snd_ssthresh >> 1, LEAST);
	return reno_half(sk);
}

CC_HOOK(u32, ledbatpp_undo_cwnd, struct sock *sk)
{
	return reno_undo(sk);
}

CC_CONTROL(ledbatpp) = {
	CC_ABOUT(
		ledbatpp,
		"background: holds its queueing delay at a target, with regular slow-downs (LEDBAT++)"),
	.init = CC_FN(ledbatpp_init),
	.ssthresh = CC_FN(ledbatpp_ssthresh),
	.cong_avoid = CC_FN(ledbatpp_cong_avoid),
	.cwnd_event = CC_FN(ledbatpp_cwnd_event),
	.pkts_acked = CC_FN(ledbatpp_pkts_acked),
	.undo_cwnd = CC_FN(ledbatpp_undo_cwnd),
};
