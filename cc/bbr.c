/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * BBR, version 3: a model of the path decides, not single losses. The model is the bandwidth (the
 * maximum of the delivery rates of two probing cycles), the round-trip time (the minimum of ten
 * seconds), and bounds on the data in flight learnt from losses. Packets are paced at about the
 * bandwidth, and about twice the bandwidth-delay product may be in flight.
 *
 * Source: Cardwell, Swett and Beshay, "BBR congestion control", draft-ietf-ccwg-bbr-06, 2026.
 * Functions have the draft's names, in the kernel's spelling; the comments name sections by their
 * titles. The draft has the inputs and the state of a transport protocol; what TCP in the kernel
 * shows of a packet is less, and the state has 104 bytes. So there are these differences:
 *
 *	draft                             here, and why
 *	windows and volumes in bytes      packets, as the kernel counts; products are rounded up
 *	P.tx_in_flight, in flight when    packets delivered since it was sent plus packets lost in
 *	  the packet was sent               this round of losses: where no packet overtakes another,
 *	                                    what was in flight has by then been delivered or lost
 *	C.lost - P.lost, lost since the   packets lost in this round of losses; less if losses last
 *	  packet was sent                   for several rounds. The stamp has no count of losses
 *	HandleLostPacket() per packet     once per ACK, for all packets that the ACK marks lost
 *	6 lost ranges in a round          6 ACKs that mark packets lost: the ranges are not told
 *	MarkConnectionAppLimited()        only this control takes its samples as limited by the
 *	                                    application: TCP's mark may not be written
 *	extra_acked: maximum of 10        two slots of 5 rounds each, so 5 to 10 rounds
 *	  rounds
 *	BBR.bw, set once per ACK          computed from max_bw and bw_shortterm where it is needed
 *	NoteLoss() saves for the undo     saved when a recovery begins, as the text has it: a second
 *	  in every round with a loss        round of losses must not take what the undo returns to
 *	loss rate of connections          SACK is taken as given
 *	  without SACK
 *	C.InitialCwnd / srtt at the       the window when the control takes over, which in a new
 *	  start                             connection is the same
 *	C.send_quantum                    TCP's own bursts of about 1 ms, at least 2 packets; here
 *	                                    it only gives offload_budget
 *	random numbers                    mixed from the clock and the sequence number
 *	times                             in ms, extra_acked_interval_start in us
 *	CE marks: "MUST be treated as     one mark in a round is a loss in that round, and ends a
 *	  congestion", no more              probe of the bandwidth. No other response to ECN
 *
 * In fast recovery, the draft conserves no packets: the short-term bounds limit the window. After a
 * timeout the window begins anew at one packet more than is in flight.
 *
 * There are no parameters.
 */
#include <fairwind/cc.h>

CC_NO_PARAMETERS();

#define INFINITE (~0U)
#define BW_SHIFT 24 /* bandwidths are in packets/us << BW_SHIFT */

/* Percent (Core Algorithm Design Parameters; Summary of Control Behavior). */
#define LOSS_THRESH 2U
#define BETA 70U
#define HEADROOM 15U
#define PACING_MARGIN 1U
#define STARTUP_PACING_GAIN 277U

#define MIN_PIPE_CWND 4U /* packets */
#define MIN_RTT_FILTER_MS 10000
#define PROBE_RTT_INTERVAL_MS 5000
#define PROBE_RTT_DURATION_MS 200
#define PROBE_WAIT_MS 2000 /* and up to 1000 more */
#define RENO_ROUNDS 63U
#define FULL_BW_ROUNDS 3
#define STARTUP_FULL_LOSSES 6
#define DRAIN_ROUNDS 3
#define EXTRA_ACKED_SLOT 5 /* rounds */

enum bbr_state { STARTUP, DRAIN, PROBE_DOWN, PROBE_CRUISE, PROBE_REFILL, PROBE_UP, PROBE_RTT };
enum bbr_acks { ACKS_INIT, ACKS_REFILLING, ACKS_STARTING, ACKS_FEEDBACK, ACKS_STOPPING };
enum bbr_undo { UNDO_NONE, UNDO_STARTUP, UNDO_PROBE_UP };

struct bbr {
	u32 max_bw_before; /* maximum of the previous probing cycle */
	u32 max_bw_now; /* of this one */
	u32 bw_shortterm; /* INFINITE: none */
	u32 bw_latest; /* maximum of a round */
	u32 full_bw; /* where the bandwidth began to be flat */
	u32 inflight_latest; /* packets, maximum of a round */
	u32 inflight_longterm; /* packets; INFINITE: none */
	u32 inflight_shortterm; /* packets; INFINITE: none */
	u32 undo_bw_shortterm;
	u32 undo_inflight_longterm;
	u32 undo_inflight_shortterm;
	u32 prior_cwnd; /* packets, before recovery or PROBE_RTT */
	u32 min_rtt_us; /* INFINITE: none; 0: before init */
	u32 min_rtt_stamp; /* ms */
	u32 probe_rtt_min_us; /* minimum since the latest PROBE_RTT, INFINITE: none */
	u32 probe_rtt_min_stamp; /* ms */
	union {
		u32 cycle_stamp; /* ms, in the PROBE_BW states */
		u32 probe_rtt_done_stamp; /* ms, in PROBE_RTT if probe_rtt_timed */
	};
	u32 next_round_delivered; /* packets */
	u32 loss_round_delivered; /* packets */
	u32 loss_round_lost; /* packets lost when the round of losses began */
	u32 extra_acked_start; /* us */
	u32 extra_acked_delivered; /* packets */
	u16 extra_acked_before; /* packets, maximum of the slot before */
	u16 extra_acked_now; /* of this slot */
	union {
		u32 probe_up_acked_per_inc; /* packets, in PROBE_UP */
		u32 limited_until; /* packets delivered, if limited; not in PROBE_UP */
	};
	u32 state : 3; /* enum bbr_state */
	u32 ack_phase : 3; /* enum bbr_acks */
	u32 undo_state : 2; /* enum bbr_undo */
	u32 idle_restart : 1;
	u32 full_bw_reached : 1;
	u32 full_bw_now : 1;
	u32 full_bw_count : 2;
	u32 is_loss_in_round : 1;
	u32 is_bw_probe_sample : 1;
	u32 prev_probe_too_high : 1;
	u32 prev_probe_precautionary : 1;
	u32 probe_rtt_timed : 1; /* the duration of PROBE_RTT runs */
	u32 probe_rtt_round_done : 1;
	u32 limited : 1; /* samples up to limited_until say nothing about the bandwidth */
	u32 marked : 1; /* a CE mark, or a full queue of the host, since the latest ACK */
	u32 loss_events : 3; /* ACKs in this round that marked packets lost, at most 7 */
	u32 drain_rounds : 3;
	u32 extra_acked_rounds : 3; /* rounds of this slot */
	u32 rounds_since_probe_up : 6;
	u32 bw_probe_up_rounds : 5;
	u32 bw_probe_wait : 10; /* ms above PROBE_WAIT_MS */
};
CC_STATE_FITS(struct bbr);

/* What an ACK shows (RS). */
struct sample {
	u32 rate; /* delivery_rate; 0: none */
	u32 delivered; /* packets since the latest of those acknowledged was sent */
	u32 tx_in_flight; /* packets, when it was sent */
	u32 lost; /* packets, since then */
	u32 new_losses; /* packets that this ACK marks lost */
	bool valid; /* the ACK delivers something, and it is known when that was sent */
	bool is_app_limited;
	bool round_start;
	bool loss_round_start;
};

static u32 now_ms(const struct sock *sk)
{
	return tcp_sk(sk)->tcp_mstamp / 1000;
}

/* A number that other connections do not draw at the same time. */
static u32 draw(const struct sock *sk)
{
	u64 x = tcp_sk(sk)->tcp_mstamp ^ (u64)tcp_sk(sk)->snd_nxt << 32;

	x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ULL;
	return x >> 32;
}

static u32 max_bw(const struct bbr *ca)
{
	return max(ca->max_bw_before, ca->max_bw_now);
}

/* BoundBWForModel() */
static u32 bounded_bw(const struct bbr *ca)
{
	return min(max_bw(ca), ca->bw_shortterm);
}

static bool in_probe_bw(const struct bbr *ca)
{
	return ca->state >= PROBE_DOWN && ca->state <= PROBE_UP;
}

static u32 pacing_gain(const struct bbr *ca)
{
	switch (ca->state) {
	case STARTUP:
		return STARTUP_PACING_GAIN;
	case DRAIN:
		return 50;
	case PROBE_DOWN:
		return 90;
	case PROBE_UP:
		return 125;
	default:
		return 100;
	}
}

static u32 cwnd_gain(const struct bbr *ca)
{
	if (ca->state == PROBE_UP)
		return 225;
	return ca->state == PROBE_RTT ? 50 : 200;
}

/* Computing BBR.max_inflight */

static u32 bdp_multiple(const struct bbr *ca, u32 bw, u32 gain)
{
	u64 packets;

	if (ca->min_rtt_us == INFINITE)
		return TCP_INIT_CWND;
	/* In steps, so that no product exceeds 64 bits. */
	packets = ((u64)bw * ca->min_rtt_us >> 8) * gain / 100;
	packets = (packets + (1U << (BW_SHIFT - 8)) - 1) >> (BW_SHIFT - 8);
	return min(packets, 1ULL << 30);
}

static u32 quantization_budget(const struct sock *sk, u32 packets)
{
	const struct bbr *ca = inet_csk_ca(sk);
	u64 quantum = min((u64)sk->sk_pacing_rate / 1000, 65536ULL);
	u32 offload_budget = 3 * max((u32)quantum / max(tcp_sk(sk)->mss_cache, 1U), 2U);

	packets = max(max(packets, offload_budget), MIN_PIPE_CWND);
	return ca->state == PROBE_UP ? packets + 2 : packets;
}

static u32 max_inflight(const struct sock *sk)
{
	const struct bbr *ca = inet_csk_ca(sk);
	u32 extra_acked = max(ca->extra_acked_before, ca->extra_acked_now);

	return quantization_budget(sk,
				   bdp_multiple(ca, bounded_bw(ca), cwnd_gain(ca)) + extra_acked);
}

static u32 target_inflight(const struct sock *sk)
{
	const struct bbr *ca = inet_csk_ca(sk);

	return min(bdp_multiple(ca, bounded_bw(ca), 100), tcp_sk(sk)->snd_cwnd);
}

static u32 inflight_with_headroom(const struct bbr *ca)
{
	u32 headroom;

	if (ca->inflight_longterm == INFINITE)
		return INFINITE;
	headroom = max((u32)((u64)ca->inflight_longterm * HEADROOM / 100), 1U);
	if (ca->inflight_longterm < headroom + MIN_PIPE_CWND)
		return MIN_PIPE_CWND;
	return ca->inflight_longterm - headroom;
}

static u32 probe_rtt_cwnd(const struct bbr *ca)
{
	return max(bdp_multiple(ca, bounded_bw(ca), 50), MIN_PIPE_CWND);
}

/* Pacing Rate */

static void set_pacing_rate_with_gain(struct sock *sk, u32 gain)
{
	const struct bbr *ca = inet_csk_ca(sk);
	u64 rate = (u64)bounded_bw(ca) * tcp_sk(sk)->mss_cache;

	if (!rate)
		return;
	/* 10^6 / 2^24 = 15625 / 2^18, in steps as above */
	rate = rate * gain / 100 * (100 - PACING_MARGIN) / 100;
	rate = max(rate * 15625 >> (BW_SHIFT - 6), 1ULL);
	rate = min(rate, (u64)sk->sk_max_pacing_rate);
	if (ca->full_bw_reached || rate > sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

static void init_pacing_rate(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 srtt_us = tp->srtt_us ? max(tp->srtt_us >> 3, 1U) : 1000;
	u64 rate = (u64)tp->snd_cwnd * tp->mss_cache * 1000000 / srtt_us;

	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	sk->sk_pacing_rate = min(rate * STARTUP_PACING_GAIN / 100, (u64)sk->sk_max_pacing_rate);
}

/* Modulating cwnd in Loss Recovery */

static void save_cwnd(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	if (cc_ca_state(sk) < TCP_CA_Recovery && ca->state != PROBE_RTT)
		ca->prior_cwnd = cwnd;
	else
		ca->prior_cwnd = max(ca->prior_cwnd, cwnd);
}

static void restore_cwnd(struct sock *sk)
{
	const struct bbr *ca = inet_csk_ca(sk);

	tcp_sk(sk)->snd_cwnd = max(tcp_sk(sk)->snd_cwnd, ca->prior_cwnd);
}

static void save_state_upon_loss(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);

	save_cwnd(sk);
	ca->undo_state = UNDO_NONE;
	ca->undo_bw_shortterm = ca->bw_shortterm;
	ca->undo_inflight_shortterm = ca->inflight_shortterm;
	ca->undo_inflight_longterm = ca->inflight_longterm;
}

/* Entering states */

static void start_round(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);

	ca->next_round_delivered = tcp_sk(sk)->delivered;
}

static void reset_congestion_signals(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);

	ca->is_loss_in_round = 0;
	ca->bw_latest = 0;
	ca->inflight_latest = 0;
	ca->loss_round_lost = tcp_sk(sk)->lost;
}

static void reset_short_term_model(struct bbr *ca)
{
	ca->bw_shortterm = INFINITE;
	ca->inflight_shortterm = INFINITE;
}

static void reset_full_bw(struct bbr *ca, u32 full_bw)
{
	ca->full_bw = full_bw;
	ca->full_bw_count = 0;
	ca->full_bw_now = 0;
}

static void start_probe_down(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);
	u32 random = draw(sk);

	reset_congestion_signals(sk);
	/* PickProbeWait() */
	ca->rounds_since_probe_up = random & 1;
	ca->bw_probe_wait = (u64)(random >> 1) * 1000 >> 31;
	ca->cycle_stamp = now_ms(sk);
	ca->ack_phase = ACKS_STOPPING;
	start_round(sk);
	ca->state = PROBE_DOWN;
}

static void start_probe_refill(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);

	reset_short_term_model(ca);
	ca->bw_probe_up_rounds = 0;
	tcp_sk(sk)->snd_cwnd_cnt = 0;
	ca->prev_probe_precautionary = 0;
	ca->ack_phase = ACKS_REFILLING;
	start_round(sk);
	ca->state = PROBE_REFILL;
}

static void raise_inflight_longterm_slope(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);

	ca->probe_up_acked_per_inc = max(tcp_sk(sk)->snd_cwnd >> ca->bw_probe_up_rounds, 1U);
	if (ca->bw_probe_up_rounds < 30)
		ca->bw_probe_up_rounds++;
}

static void start_probe_up(struct sock *sk, u32 rate)
{
	struct bbr *ca = inet_csk_ca(sk);

	ca->limited = 0;
	ca->ack_phase = ACKS_STARTING;
	start_round(sk);
	reset_full_bw(ca, rate);
	ca->state = PROBE_UP;
	raise_inflight_longterm_slope(sk);
}

/* Updating the Model Upon Packet Loss */

static void note_loss(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);

	if (!ca->is_loss_in_round)
		ca->loss_round_delivered = tcp_sk(sk)->delivered;
	ca->is_loss_in_round = 1;
}

static bool is_inflight_too_high(const struct sample *s)
{
	return (u64)s->lost * 100 > (u64)s->tx_in_flight * LOSS_THRESH;
}

/* InflightAtLoss(): how much was in flight when the loss rate exceeded the threshold. */
static u32 inflight_at_loss(const struct sample *s)
{
	u32 size = min(s->new_losses, min(s->lost, s->tx_in_flight));
	u64 tolerated = (u64)(s->tx_in_flight - size) * LOSS_THRESH;
	u64 lost_before = (u64)(s->lost - size) * 100;
	u32 inflight = s->tx_in_flight - size;

	if (tolerated > lost_before)
		inflight += (tolerated - lost_before) / (100 - LOSS_THRESH);
	return inflight;
}

static void handle_inflight_too_high(struct sock *sk, const struct sample *s)
{
	struct bbr *ca = inet_csk_ca(sk);
	u32 least = (u64)target_inflight(sk) * BETA / 100;

	ca->prev_probe_too_high = 1;
	ca->is_bw_probe_sample = 0;
	if (!s->is_app_limited)
		ca->inflight_longterm = max(inflight_at_loss(s), least);
	if (ca->state == PROBE_UP) {
		ca->undo_state = UNDO_PROBE_UP;
		start_probe_down(sk);
	}
}

/* HandleLostPacket() */
static void handle_losses(struct sock *sk, const struct sample *s)
{
	struct bbr *ca = inet_csk_ca(sk);

	if (s->new_losses || ca->marked)
		note_loss(sk);
	if (s->new_losses && ca->loss_events < 7)
		ca->loss_events++;
	if (ca->is_bw_probe_sample && (ca->marked || (s->lost && is_inflight_too_high(s))))
		handle_inflight_too_high(sk, s);
	ca->marked = 0;
}

static void adapt_lower_bounds(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);
	bool probing = ca->state == STARTUP || ca->state == PROBE_REFILL || ca->state == PROBE_UP;

	if (probing || !ca->is_loss_in_round)
		return;
	if (ca->bw_shortterm == INFINITE)
		ca->bw_shortterm = max_bw(ca);
	if (ca->inflight_shortterm == INFINITE)
		ca->inflight_shortterm = tcp_sk(sk)->snd_cwnd;
	ca->bw_shortterm = max(ca->bw_latest, (u32)((u64)ca->bw_shortterm * BETA / 100));
	ca->inflight_shortterm =
		max(ca->inflight_latest, (u32)((u64)ca->inflight_shortterm * BETA / 100));
}

/* Updating Network Path Model Parameters */

static void update_round(struct sock *sk, const struct rate_sample *rs, struct sample *s)
{
	struct bbr *ca = inet_csk_ca(sk);

	s->round_start = !before(rs->prior_delivered, ca->next_round_delivered);
	if (!s->round_start)
		return;
	start_round(sk);
	if (ca->rounds_since_probe_up < RENO_ROUNDS)
		ca->rounds_since_probe_up++;
	if (ca->drain_rounds < 7)
		ca->drain_rounds++;
}

static void update_latest_signals(struct sock *sk, const struct rate_sample *rs, struct sample *s)
{
	struct bbr *ca = inet_csk_ca(sk);

	ca->bw_latest = max(ca->bw_latest, s->rate);
	ca->inflight_latest = max(ca->inflight_latest, s->delivered);
	s->loss_round_start = !before(rs->prior_delivered, ca->loss_round_delivered);
	if (s->loss_round_start)
		ca->loss_round_delivered = tcp_sk(sk)->delivered;
}

static void update_max_bw(struct bbr *ca, const struct sample *s)
{
	if (s->rate >= max_bw(ca) || !s->is_app_limited)
		ca->max_bw_now = max(ca->max_bw_now, s->rate);
}

static void advance_max_bw_filter(struct bbr *ca)
{
	/* Without a sample in this cycle, the previous one's is all that is known. */
	if (!ca->max_bw_now)
		return;
	ca->max_bw_before = ca->max_bw_now;
	ca->max_bw_now = 0;
}

static void update_ack_aggregation(struct sock *sk, const struct rate_sample *rs,
				   const struct sample *s)
{
	struct bbr *ca = inet_csk_ca(sk);
	u32 now_us = tcp_sk(sk)->tcp_mstamp;
	u64 expected = (u64)bounded_bw(ca) * (now_us - ca->extra_acked_start);
	u32 extra;

	/* Rounded up: an ACK rate equal to the bandwidth is no aggregation. */
	expected = (expected >> BW_SHIFT) + !!(expected & ((1U << BW_SHIFT) - 1));

	if (s->round_start &&
	    ++ca->extra_acked_rounds >= (ca->full_bw_reached ? EXTRA_ACKED_SLOT : 1)) {
		ca->extra_acked_rounds = 0;
		ca->extra_acked_before = ca->extra_acked_now;
		ca->extra_acked_now = 0;
	}
	if (ca->extra_acked_delivered <= expected) {
		ca->extra_acked_delivered = 0;
		ca->extra_acked_start = now_us;
		expected = 0;
	}
	ca->extra_acked_delivered =
		min((u64)ca->extra_acked_delivered + rs->acked_sacked, (u64)INFINITE);
	extra = min(ca->extra_acked_delivered - (u32)expected, tcp_sk(sk)->snd_cwnd);
	ca->extra_acked_now = max((u32)ca->extra_acked_now, min(extra, 0xffffU));
}

/* Startup, Drain */

static void check_full_bw_reached(struct bbr *ca, const struct sample *s)
{
	if (ca->full_bw_now || !s->round_start || s->is_app_limited)
		return;
	if ((u64)s->rate * 4 >= (u64)ca->full_bw * 5) {
		reset_full_bw(ca, s->rate);
		return;
	}
	if (++ca->full_bw_count < FULL_BW_ROUNDS)
		return;
	ca->full_bw_now = 1;
	ca->full_bw_reached = 1;
}

static void check_startup_high_loss(struct sock *sk, const struct sample *s)
{
	struct bbr *ca = inet_csk_ca(sk);

	if (!s->loss_round_start || ca->state != STARTUP)
		return;
	if (cc_ca_state(sk) == TCP_CA_Recovery && ca->loss_events >= STARTUP_FULL_LOSSES &&
	    is_inflight_too_high(s)) {
		ca->undo_state = UNDO_STARTUP;
		ca->full_bw_now = 1;
		ca->full_bw_reached = 1;
		ca->inflight_longterm =
			max(bdp_multiple(ca, bounded_bw(ca), 100), ca->inflight_latest);
	}
}

static void check_startup_done(struct sock *sk, const struct sample *s)
{
	struct bbr *ca = inet_csk_ca(sk);

	check_startup_high_loss(sk, s);
	if (ca->state != STARTUP || !ca->full_bw_reached)
		return;
	ca->state = DRAIN;
	ca->drain_rounds = 0;
}

static void check_drain_done(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);
	u32 target;

	if (ca->state != DRAIN)
		return;
	target = quantization_budget(sk, bdp_multiple(ca, bounded_bw(ca), 100));
	if (tcp_packets_in_flight(tcp_sk(sk)) <= target || ca->drain_rounds > DRAIN_ROUNDS)
		start_probe_down(sk);
}

/* ProbeBW Algorithm Details */

static bool check_time_to_probe_bw(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);
	s32 elapsed_ms = now_ms(sk) - ca->cycle_stamp;
	u32 reno_rounds = min(target_inflight(sk), RENO_ROUNDS);

	if (elapsed_ms <= (s32)(PROBE_WAIT_MS + ca->bw_probe_wait) &&
	    ca->rounds_since_probe_up < reno_rounds)
		return false;
	start_probe_refill(sk);
	return true;
}

static bool is_time_to_cruise(const struct sock *sk)
{
	const struct bbr *ca = inet_csk_ca(sk);
	u32 inflight = tcp_packets_in_flight(tcp_sk(sk));

	return inflight <= inflight_with_headroom(ca) &&
	       inflight <= quantization_budget(sk, bdp_multiple(ca, max_bw(ca), 100));
}

static bool is_time_to_go_down(struct sock *sk, const struct sample *s)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *ca = inet_csk_ca(sk);

	if (ca->prev_probe_too_high && tcp_packets_in_flight(tp) >= ca->inflight_longterm) {
		ca->prev_probe_precautionary = 1;
		return true;
	}
	if (cc_is_cwnd_limited(tp) && tp->snd_cwnd >= ca->inflight_longterm) {
		reset_full_bw(ca, s->rate);
		return false;
	}
	return ca->full_bw_now;
}

static void probe_inflight_longterm_upward(struct sock *sk, const struct rate_sample *rs,
					   const struct sample *s)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *ca = inet_csk_ca(sk);
	u32 per_inc = max(ca->probe_up_acked_per_inc, 1U);
	u32 acked, delta;

	if (!cc_is_cwnd_limited(tp) || tp->snd_cwnd < ca->inflight_longterm)
		return;
	acked = tp->snd_cwnd_cnt + rs->acked_sacked;
	delta = acked / per_inc;
	tp->snd_cwnd_cnt = acked - delta * per_inc;
	ca->inflight_longterm = min((u64)ca->inflight_longterm + delta, (u64)INFINITE - 1);
	if (s->round_start)
		raise_inflight_longterm_slope(sk);
}

/* AdaptLongTermModel(); whether it decided on a state. */
static bool adapt_long_term_model(struct sock *sk, const struct rate_sample *rs,
				  const struct sample *s)
{
	struct bbr *ca = inet_csk_ca(sk);

	if (ca->ack_phase == ACKS_STARTING && s->round_start)
		ca->ack_phase = ACKS_FEEDBACK;
	if (ca->ack_phase == ACKS_STOPPING && s->round_start) {
		ca->is_bw_probe_sample = 0;
		ca->ack_phase = ACKS_INIT;
		if (in_probe_bw(ca) && !s->is_app_limited)
			advance_max_bw_filter(ca);
		if (in_probe_bw(ca) && ca->prev_probe_precautionary && !ca->prev_probe_too_high) {
			start_probe_refill(sk);
			return true;
		}
	}
	if (is_inflight_too_high(s) || ca->inflight_longterm == INFINITE)
		return false;
	ca->inflight_longterm = max(ca->inflight_longterm, s->tx_in_flight);
	if (ca->state == PROBE_UP)
		probe_inflight_longterm_upward(sk, rs, s);
	return false;
}

static void update_probe_bw_cycle_phase(struct sock *sk, const struct rate_sample *rs,
					const struct sample *s)
{
	struct bbr *ca = inet_csk_ca(sk);

	if (!ca->full_bw_reached || adapt_long_term_model(sk, rs, s))
		return;
	switch (ca->state) {
	case PROBE_DOWN:
		if (!check_time_to_probe_bw(sk) && is_time_to_cruise(sk))
			ca->state = PROBE_CRUISE;
		break;
	case PROBE_CRUISE:
		check_time_to_probe_bw(sk);
		break;
	case PROBE_REFILL:
		if (s->round_start) {
			ca->is_bw_probe_sample = 1;
			start_probe_up(sk, s->rate);
		}
		break;
	case PROBE_UP:
		if (is_time_to_go_down(sk, s)) {
			ca->prev_probe_too_high = 0;
			start_probe_down(sk);
		}
		break;
	}
}

/* ProbeRTT Logic */

/* UpdateMinRTT(); whether it is time for PROBE_RTT. */
static bool update_min_rtt(struct sock *sk, const struct rate_sample *rs)
{
	struct bbr *ca = inet_csk_ca(sk);
	u32 now = now_ms(sk);
	bool probe_rtt_expired = (s32)(now - ca->probe_rtt_min_stamp) > PROBE_RTT_INTERVAL_MS;
	u32 rtt_us;

	if (rs->rtt_us >= 0) {
		rtt_us = max((u32)min((u64)rs->rtt_us, (u64)INFINITE - 1), 1U);
		if (rtt_us < ca->probe_rtt_min_us || probe_rtt_expired) {
			ca->probe_rtt_min_us = rtt_us;
			ca->probe_rtt_min_stamp = now;
		}
	}
	if (ca->probe_rtt_min_us < ca->min_rtt_us ||
	    (s32)(now - ca->min_rtt_stamp) > MIN_RTT_FILTER_MS) {
		ca->min_rtt_us = ca->probe_rtt_min_us;
		ca->min_rtt_stamp = ca->probe_rtt_min_stamp;
	}
	return probe_rtt_expired;
}

static void exit_probe_rtt(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);

	reset_short_term_model(ca);
	if (!ca->full_bw_reached) {
		ca->state = STARTUP;
		return;
	}
	start_probe_down(sk);
	ca->state = PROBE_CRUISE;
}

static void check_probe_rtt_done(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);
	u32 now = now_ms(sk);

	if (!ca->probe_rtt_timed || (s32)(now - ca->probe_rtt_done_stamp) <= 0)
		return;
	ca->probe_rtt_min_stamp = now;
	restore_cwnd(sk);
	exit_probe_rtt(sk);
}

static void handle_probe_rtt(struct sock *sk, const struct sample *s)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *ca = inet_csk_ca(sk);
	u32 inflight = tcp_packets_in_flight(tp);

	ca->limited = 1;
	ca->limited_until = tp->delivered + inflight;
	if (ca->probe_rtt_timed) {
		if (s->round_start)
			ca->probe_rtt_round_done = 1;
		if (ca->probe_rtt_round_done)
			check_probe_rtt_done(sk);
	} else if (inflight <= probe_rtt_cwnd(ca)) {
		ca->probe_rtt_timed = 1;
		ca->probe_rtt_done_stamp = now_ms(sk) + PROBE_RTT_DURATION_MS;
		ca->probe_rtt_round_done = 0;
		start_round(sk);
	}
}

static void check_probe_rtt(struct sock *sk, const struct sample *s, bool expired)
{
	struct bbr *ca = inet_csk_ca(sk);

	if (ca->state != PROBE_RTT && expired && !ca->idle_restart) {
		save_cwnd(sk);
		ca->state = PROBE_RTT;
		ca->probe_rtt_timed = 0;
		ca->ack_phase = ACKS_STOPPING;
		start_round(sk);
	}
	if (ca->state == PROBE_RTT)
		handle_probe_rtt(sk, s);
	if (s->delivered)
		ca->idle_restart = 0;
}

/* cwnd Adjustment Mechanism */

static u32 bound_cwnd_for_model(const struct bbr *ca, u32 cwnd)
{
	u32 cap = INFINITE;

	if (ca->state == PROBE_RTT || ca->state == PROBE_CRUISE)
		cap = inflight_with_headroom(ca);
	else if (in_probe_bw(ca))
		cap = ca->inflight_longterm;
	cap = max(min(cap, ca->inflight_shortterm), MIN_PIPE_CWND);
	return min(cwnd, cap);
}

static void set_cwnd(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct bbr *ca = inet_csk_ca(sk);
	u32 inflight = max_inflight(sk);
	u32 cwnd = tp->snd_cwnd;
	u32 grown = min((u64)cwnd + acked, (u64)INFINITE);

	if (ca->full_bw_reached)
		cwnd = min(grown, inflight);
	else if (cwnd < inflight || tp->delivered < TCP_INIT_CWND)
		cwnd = grown;
	cwnd = max(cwnd, MIN_PIPE_CWND);
	if (ca->state == PROBE_RTT)
		cwnd = min(cwnd, probe_rtt_cwnd(ca));
	cwnd = bound_cwnd_for_model(ca, cwnd);
	tp->snd_cwnd = max(min(cwnd, tp->snd_cwnd_clamp), 1U);
}

static void read_sample(struct sock *sk, const struct rate_sample *rs, struct sample *s)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *ca = inet_csk_ca(sk);

	s->valid = rs->prior_mstamp && rs->delivered > 0;
	s->round_start = false;
	s->loss_round_start = false;
	s->rate = 0;
	s->delivered = s->valid ? rs->delivered : 0;
	s->new_losses = rs->losses > 0 ? rs->losses : 0;
	s->lost = tp->lost - ca->loss_round_lost;
	s->tx_in_flight = s->valid ? min((u64)s->delivered + s->lost, (u64)INFINITE - 1) :
				     rs->prior_in_flight;
	if (s->valid && rs->interval_us > 0)
		s->rate = min(((u64)s->delivered << BW_SHIFT) / (u64)rs->interval_us,
			      (u64)INFINITE - 1);
	if (ca->limited && s->valid && after(rs->prior_delivered, ca->limited_until))
		ca->limited = 0;
	s->is_app_limited = rs->is_app_limited || ca->limited;
}

/* UpdateModelAndState(), for an ACK that delivers something. */
static void update_model_and_state(struct sock *sk, const struct rate_sample *rs, struct sample *s)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *ca = inet_csk_ca(sk);

	update_latest_signals(sk, rs, s);
	update_round(sk, rs, s);
	update_max_bw(ca, s);
	if (s->loss_round_start) {
		adapt_lower_bounds(sk);
		ca->is_loss_in_round = 0;
	}
	update_ack_aggregation(sk, rs, s);
	check_full_bw_reached(ca, s);
	check_startup_done(sk, s);
	check_drain_done(sk);
	update_probe_bw_cycle_phase(sk, rs, s);
	if (s->loss_round_start) {
		/* AdvanceLatestDeliverySignals() */
		ca->bw_latest = s->rate;
		ca->inflight_latest = s->delivered;
		ca->loss_round_lost = tp->lost;
		ca->loss_events = 0;
	}
}

CC_HOOK(void, bbr_cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct bbr *ca = inet_csk_ca(sk);
	struct sample s;
	bool expired;

	/* The ACK of the SYN comes before init. */
	if (!ca->min_rtt_us)
		return;
	read_sample(sk, rs, &s);
	handle_losses(sk, &s);
	if (s.valid)
		update_model_and_state(sk, rs, &s);
	expired = update_min_rtt(sk, rs);
	check_probe_rtt(sk, &s, expired);
	set_pacing_rate_with_gain(sk, pacing_gain(ca));
	set_cwnd(sk, rs->acked_sacked);
}

CC_HOOK(void, bbr_init, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *ca = inet_csk_ca(sk);
	u32 now = now_ms(sk);

	ca->max_bw_before = 0;
	ca->max_bw_now = 0;
	ca->min_rtt_us = tp->srtt_us ? max(tp->srtt_us >> 3, 1U) : INFINITE;
	ca->min_rtt_stamp = now;
	ca->probe_rtt_min_us = ca->min_rtt_us;
	ca->probe_rtt_min_stamp = now;
	ca->prior_cwnd = 0;
	ca->undo_bw_shortterm = 0;
	ca->undo_inflight_shortterm = 0;
	ca->undo_inflight_longterm = 0;
	ca->extra_acked_start = tp->tcp_mstamp;
	ca->extra_acked_delivered = 0;
	ca->inflight_longterm = INFINITE;
	ca->loss_round_delivered = tp->delivered;
	reset_congestion_signals(sk);
	reset_short_term_model(ca);
	reset_full_bw(ca, 0);
	start_round(sk);
	init_pacing_rate(sk);
	ca->state = STARTUP;
}

/* Restarting From Idle */
CC_HOOK(void, bbr_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *ca = inet_csk_ca(sk);

	if (event != CA_EVENT_TX_START || !tp->app_limited || !ca->min_rtt_us)
		return;
	ca->idle_restart = 1;
	ca->extra_acked_start = tp->tcp_mstamp;
	ca->extra_acked_delivered = 0;
	if (in_probe_bw(ca))
		set_pacing_rate_with_gain(sk, 100);
	else if (ca->state == PROBE_RTT)
		check_probe_rtt_done(sk);
}

/* A reduction begins. The window itself is the model's. */
CC_HOOK(u32, bbr_ssthresh, struct sock *sk)
{
	save_state_upon_loss(sk);
	return tcp_sk(sk)->snd_ssthresh;
}

CC_HOOK(void, bbr_set_state, struct sock *sk, u8 new_state)
{
	struct bbr *ca = inet_csk_ca(sk);
	u8 old_state = cc_ca_state(sk);

	if (!ca->min_rtt_us)
		return;
	if (new_state == TCP_CA_CWR)
		ca->marked = 1;
	else if (new_state == TCP_CA_Recovery && old_state == TCP_CA_CWR)
		save_state_upon_loss(sk); /* ssthresh is not called again */
	else if (new_state == TCP_CA_Loss)
		note_loss(sk);
	else if (new_state < TCP_CA_Recovery && old_state >= TCP_CA_Recovery)
		restore_cwnd(sk);
}

/* HandleSpuriousLossDetection() */
CC_HOOK(u32, bbr_undo_cwnd, struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);
	u32 undo = ca->undo_state;
	u32 cwnd = max(tcp_sk(sk)->snd_cwnd, ca->prior_cwnd);

	ca->is_loss_in_round = 0;
	reset_full_bw(ca, 0);
	ca->bw_shortterm = max(ca->bw_shortterm, ca->undo_bw_shortterm);
	ca->inflight_shortterm = max(ca->inflight_shortterm, ca->undo_inflight_shortterm);
	ca->inflight_longterm = max(ca->inflight_longterm, ca->undo_inflight_longterm);
	ca->undo_state = UNDO_NONE;
	if (undo == UNDO_STARTUP && ca->state != STARTUP) {
		ca->full_bw_reached = 0;
		if (ca->state != PROBE_RTT)
			ca->state = STARTUP;
	} else if (undo == UNDO_PROBE_UP && in_probe_bw(ca) && ca->state != PROBE_UP) {
		start_probe_refill(sk);
	}
	return cwnd;
}

CC_CONTROL(bbr) = {
	CC_ABOUT(
		bbr,
		"a model of bandwidth, round-trip time and losses (draft-ietf-ccwg-bbr-06, BBRv3)"),
	.init = CC_FN(bbr_init),
	.ssthresh = CC_FN(bbr_ssthresh),
	.cong_control = CC_FN(bbr_cong_control),
	.set_state = CC_FN(bbr_set_state),
	.cwnd_event = CC_FN(bbr_cwnd_event),
	.undo_cwnd = CC_FN(bbr_undo_cwnd),
};
