/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Probe: sends in trains, by which the available bandwidth and the capacity of the path are
 * estimated, and between them next to nothing.
 *
 * Sources: estimate.h has the method and its sources. The two rates by which it is applied here are
 * ours. Others search for the available bandwidth: ImTCP tries the parts of a search range, pathload
 * halves an interval. But behind a queue in order of arrival every rate r above the available
 * bandwidth A tells something, since the receive rate is
 *
 *	o = C r / (r + X)    with X = C - A, the rate of the others.
 *
 * Each next train of a kind is sent at k times the receive rate of the previous one, so that its rate
 * converges, whatever A and C are, to
 *
 *	r = k C - X = A + (k - 1) C
 *
 * where the slope of delay is k - 1. Slow trains, k = 5/4, lie just above A, and their slope gives A
 * with little regard to C. Fast trains, k = 4, lie far above C; from both kinds follows C. Three
 * slow trains follow a fast one. A slow train below A, whose delay does not rise, doubles the rate.
 *
 * A train is a quarter to half of what the path could carry in two round-trip times, but at least
 * `least` packets and six bursts of the host, and at most `most` packets or six bursts. Between
 * trains pairs of packets keep ACKs coming: a 32nd of the capacity. A train begins when the previous
 * one has been acknowledged, and its share is over: on average the trains take half of what is
 * available, or `share` of the capacity if that is more. So a new estimate comes every two round
 * trips on paths that carry much in these; where they do not, or are full, less often.
 *
 * A policer lets the burst of a train pass and drops what follows, so that short trains show the link
 * alone. Where more than half of the capacity seems available, one slow train in PROBE_TURNS is eight
 * times as long, an eighth above what is available; and once a train lost packets although the queue
 * was short, all are, so that most of each shows what passes when the burst has.
 *
 * Losses do not change the rate: they are in the receive rate. This is an instrument, not a control
 * to move data with.
 *
 * Parameters (unit, default):
 *	slow   1/1024, 1280  k of slow trains
 *	fast   1/1024, 4096  k of fast trains
 *	least  packets, 16   least length of a train
 *	most   packets, 64   greatest length of a train
 *	share  1/1024, 64    what trains may take of the capacity, whatever others leave
 */
#include <fairwind/background.h>
#include <fairwind/estimate.h>

#define PROBE_PARAMETERS(P)                                                          \
	P(slow, "1/1024", 1280, 1056, 2048,                                          \
	  "slow trains: next rate, in times of the receive rate")                    \
	P(fast, "1/1024", 4096, 1536, 8192,                                          \
	  "fast trains: next rate, in times of the receive rate")                    \
	P(least, "packets", 16, 8, 500, "least length of a train")                   \
	P(most, "packets", 64, 8, 500, "greatest length of a train, but six bursts") \
	P(share, "1/1024", 64, 1, 1024, "share of the capacity that trains may take")
CC_PARAMETERS(PROBE_PARAMETERS);

/* A fast train, then slow ones, and again; the last of so many may be a long one, and it begins here. */
#define PROBE_CYCLE 4
#define PROBE_TURNS 32
#define PROBE_FIRST_TURN 20
/* Bursts that a regression needs. */
#define PROBE_BURSTS 6
/* Rates, bytes/s: below the least, a train takes minutes; the greatest is beyond pacing. */
#define PROBE_LEAST_RATE 2000ULL
#define PROBE_MOST_RATE 4000000000ULL
/* A train takes its share of at most this time: a wrong rate must not last. */
#define PROBE_PATIENCE_MS 5000ULL
/* Least round-trip times from train to train, 1/256: with half of one that a train may come early. */
#define PROBE_APART (256 + 128 + 48)
/* Trains with fewer samples become twice as long, so often: where ACKs come together. */
#define PROBE_FEW 4
#define PROBE_LONGEST 3
/* A queue that is too short to have dropped any: packets, or the time of a burst, us. */
#define PROBE_SHORT 2
#define PROBE_SHORT_US 1200
/* Packets that a policer should pass when its burst has passed, at least; twice as many are enough. */
#define PROBE_TAIL 32
/* k of the next fast train is kept in these, and is at least this. */
#define FAST_UNIT 16
#define FAST_LEAST 24

struct probe {
	struct train train;
	u32 slow; /* rate of the next slow train, bytes/s */
	u32 capacity; /* receive rate of the latest fast train, bytes/s */
	u32 available; /* bytes/s */
	u16 due_ms; /* when the next train may begin, on the clock of milliseconds */
	u8 fast; /* k of the next fast train, 1/FAST_UNIT */
	u8 longer : 2; /* trains have `least` and `most` packets doubled as often */
	u8 turn : 5; /* place of the next train; a multiple of PROBE_CYCLE: fast */
	u8 is_ready : 1; /* init was called */
};
CC_STATE_FITS(struct probe);

static u32 bound_rate(u64 rate)
{
	return min(max(rate, PROBE_LEAST_RATE), PROBE_MOST_RATE);
}

/* Rate of a train of this kind, bytes/s; 0: as fast as the host can. */
static u32 train_rate(const struct probe *p, u8 kind)
{
	if (kind & TRAIN_FIRST)
		return 0;
	if (kind & TRAIN_LONG)
		return bound_rate((u64)p->available * 9 / 8);
	return kind & TRAIN_FAST ? bound_rate((u64)p->capacity * p->fast / FAST_UNIT) : p->slow;
}

/* What is available by a slow train: its rate minus slope times capacity. */
static u32 available(const struct probe *p, u64 sent, u64 received)
{
	u64 busy;

	if (sent <= received)
		return min(sent, (u64)p->capacity);
	busy = (sent - received) * p->capacity / received;
	return sent > busy ? min(sent - busy, (u64)p->capacity) : 0;
}

/*
 * A fast train that lost packets was too much for the queue: the next are slower, and shorter as
 * the host's bursts are. Without losses they become faster again, but slowly.
 */
static void learn_fast(struct sock *sk, struct probe *p, u64 received)
{
	p->capacity = bound_rate(received);
	if (p->train.lost)
		p->fast = max(p->fast * 3U / 4, (u32)FAST_LEAST);
	else
		p->fast = min(p->fast + 1U, param(sk, fast) * FAST_UNIT / 1024);
}

/* Packets in the queue at the end of a train, for a link of this rate; 0: no more than a burst. */
static u64 queue(const struct sock *sk, const struct train *tr, u64 rate)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	s32 wait_us = tr->open_rtt + tr->last_a - tr->sent_us - tcp_min_rtt(tp);

	return wait_us < PROBE_SHORT_US ? 0 : wait_us * rate / 1000000 / max(tp->mss_cache, 1U);
}

/* Whether the delay fell since packets began to be missing. */
static bool delay_fell(const struct train *tr)
{
	u32 acked_us = tr->last_a - tr->tail_a * TRAIN_TAIL_US;
	u32 sent_us = tr->sent_us - tr->tail_sent * TRAIN_TAIL_US;

	return tr->tail_v && tr->last_v >= tr->tail_v + PROBE_FEW && acked_us < sent_us / 4 * 3;
}

/*
 * Longer trains where they have few samples, and where packets are lost although the queue is short: a
 * policer, whose burst should take no more than a part of a train. Shorter ones if they overflow the
 * queue.
 */
static void learn_length(const struct sock *sk, struct probe *p, u64 received)
{
	const struct train *tr = &p->train;
	u64 packets = queue(sk, tr, max(received, (u64)p->capacity));
	u32 tail = tr->tail_v ? tr->last_v - tr->tail_v : 0;

	if (!tr->lost) {
		if (tr->samples < PROBE_FEW && p->longer < PROBE_LONGEST)
			p->longer++;
	} else if (packets < PROBE_SHORT || delay_fell(tr)) {
		/* Few losses may be random. */
		if (tr->lost * 16U > tr->last_v && (tr->flags & TRAIN_LONG || tail < PROBE_TAIL))
			p->longer = PROBE_LONGEST;
		else if (tail > 2 * PROBE_TAIL && p->longer)
			p->longer--;
	} else if (packets >= 4 * PROBE_SHORT && p->longer) {
		p->longer--;
	}
}

/* Takes the rates of the next trains from the one that has ended. */
static void learn(struct sock *sk, struct probe *p)
{
	u64 received = train_received_rate(sk, &p->train);
	u64 sent = train_sent_rate(&p->train);
	u8 flags = p->train.flags;

	if (!(flags & TRAIN_FIRST))
		learn_length(sk, p, received);
	if (!received || flags & TRAIN_LONG || (p->train.samples < 3 && !(flags & TRAIN_FIRST)))
		return;
	if (flags & TRAIN_FIRST) {
		p->capacity = bound_rate(received);
		p->slow = bound_rate(received / 2);
		p->available = p->capacity / 4;
	} else if (flags & TRAIN_FAST) {
		learn_fast(sk, p, received);
	} else {
		p->available = available(p, sent, received);
		if (sent - sent / 16 <= received)
			p->slow = bound_rate(min(sent * 2, (u64)p->capacity * 5 / 4));
		else
			p->slow = bound_rate(received * param(sk, slow) / 1024);
	}
}

/* Rate that trains may have on average, bytes/s. */
static u64 allowed(struct sock *sk, const struct probe *p)
{
	u64 share = (u64)p->capacity * param(sk, share) / 1024;

	return max(share, (u64)p->available / 2) + 1;
}

/* Kind of the next train. */
static u8 next_kind(const struct probe *p)
{
	if (p->turn % PROBE_CYCLE == 0)
		return TRAIN_FAST;
	return p->turn == PROBE_TURNS - 1 && p->available > p->capacity / 2 ? TRAIN_LONG : 0;
}

/* Length of the next train, packets: whole bursts. */
static u32 length(struct sock *sk, const struct probe *p, u8 kind)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 mss = max(tp->mss_cache, 1U);
	u32 rtt_us = min(tcp_min_rtt(tp), 1000000U);
	u64 packets = allowed(sk, p) * 2 * rtt_us / 1000000 / mss;
	u32 longer = kind & TRAIN_LONG ? PROBE_LONGEST : p->longer;
	/* tcp_tso_autosize */
	u32 burst = max(min(train_rate(p, kind) >> 10, sk->sk_gso_max_size) / mss, 2U);

	packets =
		max(min(packets, (u64)param(sk, most) << longer), (u64)param(sk, least) << longer);
	packets = max(packets, (u64)burst * PROBE_BURSTS);
	return ((u32)packets + burst - 1) / burst * burst;
}

static u16 clock_ms(const struct sock *sk)
{
	return tcp_sk(sk)->tcp_mstamp / 1000;
}

/*
 * Pairs, which receivers acknowledge at once: two before the next train may begin, or one every 64
 * packet times, as a pause of the pacer cannot be cut short. What was lost is sent again as fast as
 * trains are on average.
 */
static void rest(struct sock *sk, struct probe *p, u32 wait_ms)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 rate = (u64)4 * tp->mss_cache * 1000 / max(wait_ms, 1U);
	u32 again = tp->lost_out - min(tp->retrans_out, tp->lost_out);
	u32 cwnd = again ? tcp_packets_in_flight(tp) + again : 4;

	rate = max(min(rate, (u64)p->capacity / 4), (u64)p->capacity / 32);
	if (cc_ca_state(sk) >= TCP_CA_Recovery)
		rate = again ? allowed(sk, p) : (u64)p->capacity / 32;
	tp->snd_cwnd = max(min(cwnd, tp->snd_cwnd_clamp), 1U);
	sk->sk_pacing_rate = min((u64)bound_rate(rate), (u64)sk->sk_max_pacing_rate);
}

static void send_train(struct sock *sk, struct probe *p)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tcp_packets_in_flight(tp) + train_left(sk, &p->train);
	u32 rate = train_rate(p, p->train.kind);

	tp->snd_cwnd = max(min(cwnd, tp->snd_cwnd_clamp), 1U);
	if (rate)
		sk->sk_pacing_rate = min((u64)rate, (u64)sk->sk_max_pacing_rate);
}

/*
 * Least time from the beginning of a train to that of the next. What a train takes from others that
 * keep the queue filled, their ACKs show them a round-trip time later: there is a hole as long as the
 * train, and a train in it would find the path empty. So the next comes after the hole, at no fixed
 * time.
 */
static u64 apart_ms(const struct tcp_sock *tp, const struct train *tr)
{
	u64 rtt_us = tp->srtt_us >> 3;
	u32 least_us = tcp_min_rtt(tp);

	if (!tr->open || tr->open_rtt < least_us + least_us / 16)
		return 0;
	return rtt_us * (PROBE_APART + (tp->tcp_mstamp & 255) / 2) / 256000;
}

static void begin_train(struct sock *sk, struct probe *p)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u8 kind = next_kind(p);
	u32 packets = length(sk, p, kind);
	u64 due_ms = (u64)packets * max(tp->mss_cache, 1U) * 1000 / allowed(sk, p);

	due_ms = min(due_ms, PROBE_PATIENCE_MS);
	/* An eighth more or less, lest trains meet what they themselves have set off a while ago. */
	due_ms += (due_ms * (tp->tcp_mstamp & 255) >> 10) - due_ms / 8;
	due_ms = max(due_ms, apart_ms(tp, &p->train));
	train_begin(sk, &p->train, packets, kind);
	p->turn = p->turn + 1 < PROBE_TURNS ? p->turn + 1 : 0;
	p->due_ms = clock_ms(sk) + due_ms;
	send_train(sk, p);
}

/* The first window leaves at once and is a train, too. */
CC_HOOK(void, probe_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct probe *p = inet_csk_ca(sk);
	u64 rate = (u64)tp->snd_cwnd * tp->mss_cache * 1000000;

	start_pacing(sk);
	p->is_ready = 1;
	p->capacity = bound_rate(rate / max(tp->srtt_us >> 3, 1000U));
	p->available = p->capacity / 4;
	p->slow = p->capacity;
	p->fast = 2 * FAST_UNIT;
	p->turn = PROBE_FIRST_TURN;
	p->due_ms = clock_ms(sk);
	if (!tp->packets_out)
		train_begin(sk, &p->train, max(tp->snd_cwnd, 2U), TRAIN_FAST | TRAIN_FIRST);
}

CC_HOOK(void, probe_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct probe *p = inet_csk_ca(sk);
	s32 wait_ms;

	if (!p->is_ready)
		return;
	train_ack(sk, &p->train, rs);
	if (train_ended(sk, &p->train, train_rate(p, p->train.kind)))
		learn(sk, p);
	if (p->train.stage != TRAIN_ENDED) {
		send_train(sk, p);
		return;
	}
	wait_ms = (short)(p->due_ms - clock_ms(sk));
	/* Half a round-trip time early rather than late: there may be no ACK at the right time. */
	if (wait_ms <= (s32)(tp->srtt_us / 16000) && cc_ca_state(sk) < TCP_CA_Recovery)
		begin_train(sk, p);
	else
		rest(sk, p, wait_ms);
}

CC_HOOK(u32, probe_ssthresh, struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd, 2U);
}

CC_HOOK(u32, probe_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

/* Small bursts: each is a sample. Receivers acknowledge pairs at once. */
CC_HOOK(u32, probe_min_tso_segs, struct sock *sk)
{
	return 2;
}

CC_CONTROL(probe) = {
	CC_ABOUT(probe, "trains at two rates, which measure available bandwidth and capacity"),
	.init = CC_FN(probe_init),
	.ssthresh = CC_FN(probe_ssthresh),
	.cong_control = CC_FN(probe_cong_control),
	.undo_cwnd = CC_FN(probe_undo_cwnd),
	.min_tso_segs = CC_FN(probe_min_tso_segs),
};
