/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Trains: what a connection's own data shows of the path's capacity and available bandwidth.
 *
 * A train is a number of packets sent at one rate r. Behind a queue that serves all packets in the
 * order of their arrival, with capacity C and available bandwidth A, the delay of its packets is
 *
 *	constant                     if r <= A
 *	rises by (r - A) / C a second of sending time    if r > A
 *
 * (Melander, Bjorkman and Gunningberg, "A new end-to-end probing and analysis method for estimating
 * bandwidth bottlenecks", Globecom 2000; Man, Hasegawa and Murata, "ImTCP: TCP with an inline
 * measurement mechanism for available bandwidth", Computer Communications 29, 2006). Two rates above
 * A give both unknowns.
 *
 * A control embeds a struct train in its state, begins trains, and hands every ACK to train_ack. The
 * slope is r / o - 1, with o the rate at which the receiver gets the train: that of a regression of
 * the volume delivered on the time of the ACK. Here are only its sums; crates/estimate divides, and
 * keeps the history. What is known of the path's noise:
 *
 *	bursts      Hosts send, and receivers acknowledge, several packets at once. Packets with
 *	            one time of sending are one sample, that of the last of them, with the volume of
 *	            all before: whole bursts (after Man, Hasegawa and Murata, "ICIM: an inline
 *	            network measurement mechanism for high-speed networks", 2006). So a regression
 *	            over few or unequal bursts is exact.
 *	aggregates  What comes together although it was sent apart has waited for each other: one
 *		    sample, the last of them. The train's last ones wait for others that do not
 *		    come: where bursts come together, they are no sample.
 *	stretched   A missing ACK takes away a sample, or makes it that of a packet before the
 *	and lost    burst's last; volume and time still belong together.
 *	delayed     A train ends with one packet outstanding, whose ACK may wait for another packet. If
 *		    later ones were lost, it may be the last that comes: one packet's ACK that is
 *		    late by what receivers wait is no sample.
 *	reverse     Noise for the regression, whose error the sum of squares tells.
 *	traffic
 *	losses      The volume is what was delivered, cumulatively or selectively, so that o is right;
 *	            r is by sequence numbers.
 *	policers    A token bucket lets its burst pass before it drops what exceeds its rate. Once two
 *	            packets are missing it is empty, and what passes until the train ends, its tail,
 *	            passes at that rate.
 *
 * No byte is added to the wire. crates/estimate reads the state: a train is its first member.
 */
#ifndef FAIRWIND_ESTIMATE_H
#define FAIRWIND_ESTIMATE_H

#include <fairwind/cc.h>

/* What limited a train, or spoils it: bits of `flags`. */
enum {
	TRAIN_APPLICATION = 1, /* the application had nothing to send */
	TRAIN_RECEIVER = 2, /* the receiver's window was full */
	TRAIN_SLOW = 4, /* sent at less than three quarters of the rate that was asked for */
	TRAIN_FAST = 8, /* of the faster of two kinds */
	TRAIN_FIRST =
		16, /* the first window, sent at once: one sample, of its first packet to its last */
	TRAIN_TOGETHER = 32, /* bursts came together */
	TRAIN_LONG =
		64, /* longer than a policer's burst may be, and hardly above what is available */
};

/* Later ACKs, us, and more samples are no part of a train, so that the sums hold them. */
#define TRAIN_MAX_US (1 << 21)
#define TRAIN_MAX_SAMPLES 1000
/* Its tail begins when as many packets are missing: one may have been overtaken. */
#define TRAIN_MISSING 2
#define TRAIN_TAIL_US 32
/* Receivers hold an ACK back for 40 ms or more; it must also be late by as many times what a packet takes. */
#define TRAIN_HELD_US 36000
#define TRAIN_HELD_TIMES 4

struct train {
	u64 va; /* sums over samples: volume from the first sample's, times time from its; packets us */
	u64 aa; /* squares of the time of the ACK; us^2 */
	u32 vv; /* squares of the volume, packets^2 */
	u32 v; /* volumes, packets */
	u32 a; /* times of ACKs, us */
	u32 last_a; /* latest sample, in the sums when the next one comes or the train ends: time, us */
	u32 sent_us; /* from the first sample to the latest: time of sending, us */
	u32 sent; /* what was sent in that time, bytes */
	u32 open_rtt; /* round-trip time of the first ACK, us */
	u16 last_v; /* latest sample: packets */
	u16 samples; /* bursts */
	u16 number; /* trains that have ended */
	u16 lost; /* packets marked lost while it was under way */
	u16 tail_v; /* where its tail begins: volume, packets; 0: it has none */
	u16 tail_a; /* time of the ACK, in units of TRAIN_TAIL_US */
	u16 tail_sent; /* time of sending, from the first sample's, in the same units */
	u8 flags;
	u8 stage; /* one of enum train_stage */
	u8 open; /* packets of the train that the first ACK was of; 255: as many or more */
	/* Below here, for the control alone: the train that is under way. */
	u8 kind; /* its flags */
	u8 missing; /* packets that others sent after them have overtaken; no more than begin its tail */
	u8 longest; /* longest burst of the samples but the latest, packets */
	u16 lost_before; /* packets that the connection had marked lost */
	u16 first_delivered; /* tp->delivered at the first sample, its lower half */
	u32 begin; /* sequence number of the first byte; from the first sample on, its end */
	u32 end; /* and of the end */
	u32 first_us; /* time of the first sample's ACK */
	u32 burst_us; /* time of sending of the latest burst */
	u32 burst_seq; /* its end, a sequence number */
};

enum train_stage {
	TRAIN_ENDED = 0,
	TRAIN_BEGUN, /* no ACK yet: the sums are those of the train before */
	TRAIN_SAMPLED,
};

_Static_assert(sizeof(struct train) == 88, "as in crates/estimate");
_Static_assert(__builtin_offsetof(struct train, open_rtt) == 40, "as in crates/estimate");
_Static_assert(__builtin_offsetof(struct train, flags) == 58, "as in crates/estimate");

/*
 * Begins a train with the next packet to be sent, at a rate that the control sets. The results of the
 * one before stay until the first ACK of this one.
 */
static inline void train_begin(const struct sock *sk, struct train *tr, u32 packets, u8 kind)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	tr->begin = tp->snd_nxt;
	tr->end = tr->begin + packets * tp->mss_cache;
	tr->kind = kind;
	tr->lost_before = tp->lost;
	tr->stage = TRAIN_BEGUN;
}

/* Packets of the train that have not been sent yet. */
static inline u32 train_left(const struct sock *sk, const struct train *tr)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (tr->stage == TRAIN_ENDED || !before(tp->snd_nxt, tr->end))
		return 0;
	return (tr->end - tp->snd_nxt + tp->mss_cache - 1) / max(tp->mss_cache, 1U);
}

/* Puts the latest sample into the sums. */
static inline void train_add(struct train *tr)
{
	u64 a = tr->last_a;
	u32 v = tr->last_v;

	tr->a += a;
	tr->v += v;
	tr->aa += a * a;
	tr->vv += v * v;
	tr->va += a * v;
}

/* Length of the latest burst, bytes. */
static inline u32 train_burst(const struct train *tr)
{
	return tr->burst_seq - tr->begin - tr->sent;
}

/* The same in packets; 255: as many or more. */
static inline u8 train_burst_packets(const struct sock *sk, const struct train *tr)
{
	return min(train_burst(tr) / max(tcp_sk(sk)->mss_cache, 1U), 255U);
}

static inline void train_clear(struct train *tr)
{
	tr->va = 0;
	tr->aa = 0;
	tr->vv = 0;
	tr->v = 0;
	tr->a = 0;
	tr->last_a = 0;
	tr->last_v = 0;
	tr->sent_us = 0;
	tr->sent = 0;
	tr->longest = 0;
	tr->samples = 0;
	tr->open = 0;
	tr->missing = 0;
	tr->tail_v = 0;
	tr->tail_a = 0;
	tr->tail_sent = 0;
}

/* Takes this ACK as the first sample. */
static inline void train_base(const struct sock *sk, struct train *tr)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	tr->samples = 1;
	tr->first_us = tp->tcp_mstamp;
	tr->first_delivered = tp->delivered;
}

/* Takes the first ACK: what the path does to the first packets, which meet no others of the train. */
static inline void train_open(const struct sock *sk, struct train *tr, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 mss = max(tp->mss_cache, 1U);
	u32 end = rs->last_end_seq;

	/* If the ACK is of a part of what was sent at once, that is the end of all of it. */
	if (!tp->sacked_out && before(tp->snd_una, end))
		end = tp->snd_una;
	tr->stage = TRAIN_SAMPLED;
	tr->open_rtt = rs->rtt_us;
	tr->open = after(end, tr->begin) ? min((end - tr->begin) / mss, 255U) : 0;
	tr->burst_us = tp->tcp_mstamp - rs->rtt_us;
}

/*
 * Whether an ACK of the next burst came four times as fast after the latest one as data was sent. Twice
 * as fast as that is no queue that empties: bursts come together.
 */
static inline bool train_together(const struct sock *sk, struct train *tr, u32 a, u32 volume,
				  u32 burst_us)
{
	u64 acked = (u64)(volume - tr->last_v) * tcp_sk(sk)->mss_cache * (burst_us - tr->burst_us);
	u64 even = (u64)train_burst(tr) * (a - tr->last_a);

	if (acked > even * 8)
		tr->kind |= TRAIN_TOGETHER;
	return acked > even * 4;
}

/* Whether the receiver seems to have held this ACK back. */
static inline bool train_held(const struct train *tr, u32 a, u32 volume)
{
	u32 later_us = a - tr->last_a;

	return volume - tr->last_v == 1 && later_us > TRAIN_HELD_US &&
	       (u64)later_us * tr->last_v > (u64)tr->last_a * TRAIN_HELD_TIMES;
}

/*
 * Begins the tail with this ACK if enough packets are missing before the latest that it is of: at the
 * end of what was sent at once.
 */
static inline void train_miss(const struct sock *sk, struct train *tr, const struct rate_sample *rs,
			      u32 a, u32 volume)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 sent_us = tr->sent_us + (u32)tp->tcp_mstamp - (u32)rs->rtt_us - tr->burst_us;
	u32 sent = min(sent_us / TRAIN_TAIL_US, 65535U);

	if (!volume)
		return;
	if (tr->missing < TRAIN_MISSING) {
		u32 missing = tr->missing, delivered = volume - tr->last_v;

		if (after(rs->last_end_seq, tr->burst_seq))
			missing += (rs->last_end_seq - tr->burst_seq) / max(tp->mss_cache, 1U);
		missing -= min(missing, delivered);
		/* Where nothing was selected, the end may be that of all that was sent at once. */
		tr->missing = tp->sacked_out ? min(missing, (u32)TRAIN_MISSING) : 0;
		if (tr->missing < TRAIN_MISSING)
			return;
	} else if (sent != tr->tail_sent) {
		return;
	}
	tr->tail_v = volume;
	tr->tail_a = min(a / TRAIN_TAIL_US, 65535U);
	tr->tail_sent = sent;
}

/*
 * Takes the sample of an ACK, if it has one of this train. The first burst gives none: the pacer lets
 * the second follow early. The first window is one burst, and the packets in it are the samples.
 */
static inline void train_ack(const struct sock *sk, struct train *tr, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 burst_us = tp->tcp_mstamp - rs->rtt_us;
	u32 a, volume;

	if (tr->stage == TRAIN_ENDED || rs->rtt_us <= 0 || rs->rtt_us > TRAIN_MAX_US ||
	    rs->is_retrans || rs->is_ack_delayed || !rs->prior_mstamp)
		return;
	if (!after(rs->last_end_seq, tr->begin) || after(rs->last_end_seq, tr->end))
		return;
	if (tr->stage == TRAIN_BEGUN) {
		train_clear(tr);
		train_open(sk, tr, rs);
		if (tr->kind & TRAIN_FIRST)
			train_base(sk, tr);
	}
	if (!tr->samples && burst_us == tr->burst_us) {
		tr->burst_seq = rs->last_end_seq;
		return;
	}
	if (!tr->samples) {
		/* From here on, begin is the end of the first burst. */
		tr->begin = tr->burst_seq;
		tr->burst_us = burst_us;
		train_base(sk, tr);
	} else if (tr->samples == 1 && burst_us == tr->burst_us && !(tr->kind & TRAIN_FIRST)) {
		train_base(sk, tr);
	}
	a = (u32)tp->tcp_mstamp - tr->first_us;
	volume = (u16)(tp->delivered - tr->first_delivered);
	if (a > TRAIN_MAX_US || volume > TRAIN_MAX_SAMPLES || before(burst_us, tr->burst_us))
		return;
	if (tr->last_v && train_held(tr, a, volume))
		return;
	train_miss(sk, tr, rs, a, volume);
	if (burst_us != tr->burst_us) {
		bool together = train_together(sk, tr, a, volume, burst_us);

		if (tr->samples == TRAIN_MAX_SAMPLES)
			return;
		if (together && tr->samples == 1) {
			tr->begin = tr->burst_seq;
			tr->burst_us = burst_us;
			tr->burst_seq = rs->last_end_seq;
			train_base(sk, tr);
			return;
		}
		if (!together) {
			train_add(tr);
			tr->longest = max(tr->longest, train_burst_packets(sk, tr));
			tr->samples++;
		}
		tr->sent_us += burst_us - tr->burst_us;
		tr->sent = tr->burst_seq - tr->begin;
		tr->burst_us = burst_us;
	}
	tr->burst_seq = rs->last_end_seq;
	tr->last_a = a;
	tr->last_v = volume;
}

/* Rate of sending, bytes/s of payload; 0: unknown. */
static inline u64 train_sent_rate(const struct train *tr)
{
	return (u64)tr->sent * 1000000 / max(tr->sent_us, 1U);
}

/*
 * Rate of arrival at the receiver, bytes/s of payload, by the first and the latest sample; 0:
 * unknown.
 */
static inline u64 train_received_rate(const struct sock *sk, const struct train *tr)
{
	return (u64)tr->last_v * tcp_sk(sk)->mss_cache * 1000000 / max(tr->last_a, 1U);
}

/*
 * Whether the train has ended: all of it was sent, and at most one packet of it is outstanding. It
 * also ends where nothing more can be sent. Then the results are complete. `asked` is the rate of
 * sending that the control has set, bytes/s; 0: none.
 */
static inline bool train_ended(const struct sock *sk, struct train *tr, u32 asked)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u8 flags = tr->kind;

	if (tr->stage == TRAIN_ENDED)
		return false;
	/* As much was lost as it has: what is sent again goes first, and is lost again. */
	if ((u16)(tp->lost - tr->lost_before) > (tr->end - tr->begin) / max(tp->mss_cache, 1U))
		tr->end = tp->snd_nxt;
	if (train_left(sk, tr)) {
		u32 room = tp->snd_una + tp->snd_wnd - tp->snd_nxt;

		if ((s32)room < (s32)tp->mss_cache)
			flags |= TRAIN_RECEIVER;
		else if (tp->app_limited)
			flags |= TRAIN_APPLICATION;
		else
			return false;
	}
	if (tcp_packets_in_flight(tp) > 1)
		return false;
	/* What is left over for the last burst ends earlier than a whole one would. */
	if (tr->stage == TRAIN_BEGUN)
		train_clear(tr);
	else if (tr->samples && !(tr->kind & TRAIN_TOGETHER) &&
		 train_burst_packets(sk, tr) * 4U >= tr->longest * 3U)
		train_add(tr);
	else if (tr->samples)
		tr->samples--;
	if (tr->samples > 2 && train_sent_rate(tr) < asked / 4 * 3ULL)
		flags |= TRAIN_SLOW;
	tr->flags = flags;
	tr->lost = (u16)tp->lost - tr->lost_before;
	tr->number++;
	tr->stage = TRAIN_ENDED;
	return true;
}

#endif
