/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Careful Resume: a new connection that is advised of its path confirms it with its first window, jumps to at most
 * a fifth of the window that was promised, and validates that or retreats.
 *
 * Source: RFC 9959 (sections beside the code), with the saved parameters replaced by advice: struct advised_start.
 *
 *	RFC 9959                                  here
 *	bytes                                     packets
 *	saved_cwnd                                the advised rate times the advised round-trip time
 *	jump_cwnd: at most half (3.3)             a fifth: what others have is not seen before the jump is acknowledged
 *	max_jump: configured                      a fifth of the window that the acknowledgements of the latest train
 *	                                          support: they come back as far apart as the bottleneck sent it; no
 *	                                          jump before they support half of what is promised
 *	queueing delay: up to the design (4.2.1)  no jump into a queue, as in HyStart, and after it slow start ends where
 *	                                          one grows
 *	one connection uses a set at a time       for three round-trip times; after a retreat, nobody any more
 *	PipeSize in Safe Retreat: every ACK       those of one round-trip time; later ones may acknowledge retransmissions
 *	ssthresh after validation: not said       what was promised
 *	bursts of at most the initial window      TCP's: a millisecond at the pacing rate, 64 KiB at most
 *	Lifetime, path, endpoint                  the advice has a time until which it holds, and is for one socket or
 *	                                          for a prefix of destinations
 *
 * Without advice nothing changes: one lookup when the first window has been acknowledged.
 *
 * A control has struct resume in its state, calls from its hooks the function named after each, and does not grow
 * the window while resume_holds: init, pkts_acked (before it looks at the window), ssthresh, set_state, cwnd_event,
 * undo_cwnd, min_tso_segs.
 */
#ifndef FAIRWIND_RESUME_H
#define FAIRWIND_RESUME_H

#include <fairwind/cc.h>

CC_ADVISED_STARTS();
#undef CC_TAKES_ADVISED_START
#define CC_TAKES_ADVISED_START 1

/* Packets at least after a reduction (3.5: the minimum of QUIC). */
#define RESUME_LEAST 2U
/* IPv6, TCP and its time stamps. */
#define RESUME_HEADERS 72U
/* The part of what is promised that is sent unvalidated. */
#define RESUME_JUMP 5U

enum resume_phase {
	RESUME_NORMAL = 0,
	RESUME_RECONNAISSANCE = 1,
	RESUME_UNVALIDATED = 2,
	RESUME_VALIDATING = 3,
	RESUME_SAFE_RETREAT = 4,
};

/* Why the phase began. */
enum resume_trigger {
	RESUME_NONE = 0,
	RESUME_NOT_ADVISED = 1, /* nothing is known of the path */
	RESUME_EXPIRED = 2, /* the advice no longer holds, or another connection found it wrong */
	RESUME_RTT_NOT_VALIDATED = 3, /* the path is another one */
	RESUME_NO_GAIN = 4, /* the window is as large already */
	RESUME_IN_USE = 5, /* by another connection */
	RESUME_CONGESTION = 6, /* loss or a CE mark */
	RESUME_CONFIRMED = 7, /* the jump began */
	RESUME_PATH_CHANGED = 8,
	RESUME_SENT = 9, /* all of the jump, or what there was to send within a round-trip time */
	RESUME_RATE_LIMITED = 10, /* too little was sent to validate anything */
	RESUME_VALIDATED = 11,
	RESUME_RECOVERED = 12, /* the retreat is over */
	RESUME_TIMEOUT = 13, /* a retransmission timeout (3.6) */
	RESUME_QUEUE = 14, /* others fill the path */
};

struct resume {
	u8 phase;
	u8 trigger;
	u16 initial_window; /* packets */
	u32 pipe_size; /* packets that the path has been seen to carry, from the jump on */
	u32 window; /* packets: jump_cwnd; before it, what the train supports; in the retreat, what the window is held at */
	u32 rtt_us; /* saved_rtt; 0: no jump yet */
	u32 mark; /* snd_nxt when the phase began; in RECONNAISSANCE, packets delivered by the train's first ACK */
	u32 since_us; /* when the phase began; in RECONNAISSANCE, the train's first ACK */
	u32 last_us; /* RECONNAISSANCE: the latest ACK; from VALIDATING on, the latest ACK without a queue */
	u32 delivered; /* tp->delivered at the latest ACK; in RECONNAISSANCE, at first */
};

static inline void resume_enter(struct resume *cr, enum resume_phase phase,
				enum resume_trigger trigger)
{
	cr->phase = phase;
	cr->trigger = trigger;
}

/* Whether the window must not grow (3.3, 3.5). */
static inline bool resume_holds(const struct resume *cr)
{
	return cr->phase == RESUME_UNVALIDATED || cr->phase == RESUME_SAFE_RETREAT;
}

/* Whether there was a jump, since which packets have been spread over the round-trip time. */
static inline bool resume_has_jumped(const struct resume *cr)
{
	return cr->rtt_us != 0;
}

/* A control may also take over a connection that is under way, which is no start. */
static inline void resume_init(struct sock *sk, struct resume *cr)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	bool is_new = tp->delivered < TCP_INIT_CWND && tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH;

	resume_enter(cr, is_new ? RESUME_RECONNAISSANCE : RESUME_NORMAL, RESUME_NONE);
	cr->initial_window = min(tp->snd_cwnd, 0xffffU);
	cr->pipe_size = 0;
	cr->window = 0;
	cr->rtt_us = 0;
	cr->mark = tp->delivered;
	cr->since_us = 0;
	cr->last_us = 0;
	cr->delivered = tp->delivered;
}

/* The current round-trip time, us. */
static inline u32 resume_rtt_us(const struct tcp_sock *tp)
{
	return tp->srtt_us >> 3;
}

/* Packets in a round-trip time at the rate at which the train came back; 0: too few for a rate. */
static inline u32 resume_supported(const struct tcp_sock *tp, const struct resume *cr)
{
	u32 packets = tp->delivered - cr->mark;
	u32 elapsed = cr->last_us - cr->since_us;

	if (packets < cr->initial_window / 2 || !packets)
		return 0;
	return min((u64)packets * tcp_min_rtt(tp) / max(elapsed, 1U), (u64)TCP_INFINITE_SSTHRESH);
}

/*
 * The latest train of acknowledgements: it ends with half a round-trip time of silence. The first ACK is not counted:
 * what it is for came before.
 */
static inline void resume_follow_train(const struct tcp_sock *tp, struct resume *cr)
{
	u32 now = tp->tcp_mstamp;

	if (!cr->since_us || now - cr->last_us > tcp_min_rtt(tp) / 2) {
		cr->since_us = now;
		cr->mark = tp->delivered;
	}
	cr->last_us = now;
	cr->window = resume_supported(tp, cr);
}

/* saved_cwnd, packets with their headers. */
static inline u32 resume_promised(const struct tcp_sock *tp, const struct advised_start *start)
{
	u64 bytes = start->rate * start->rtt_us / 1000000;

	return min(bytes / (tp->mss_cache + RESUME_HEADERS), (u64)TCP_INFINITE_SSTHRESH);
}

/* A factor of two faster, the jump would be sent faster than was promised; ten times slower is another path (4.2.1). */
static inline bool resume_is_same_path(const struct tcp_sock *tp, const struct advised_start *start)
{
	u32 rtt = tcp_min_rtt(tp);

	return rtt > start->rtt_us / 2 && rtt / 10 <= start->rtt_us;
}

/* Whether a round-trip time shows a queue: as HyStart, an eighth more than the path's, but 4 to 16 ms. */
static inline bool resume_is_queued(u32 rtt_us, u32 path_us)
{
	return rtt_us > path_us + min(max(path_us >> 3, 4000U), 16000U);
}

/*
 * After the jump, slow start ends where a queue grows, even a small one: others may have the rest of what was promised. It
 * counts from a thirty-second of the path's round-trip time, but 1 to 4 ms; others may have had a queue before. A host that
 * stalls delays ACKs too, but not those of a sixteenth of a round-trip time. Packets from before the jump left in trains,
 * which queue behind themselves.
 */
static inline void resume_watch_queue(struct tcp_sock *tp, struct resume *cr, s32 rtt_us)
{
	u32 path_us = max(cr->rtt_us, tcp_min_rtt(tp));
	u32 now = tp->tcp_mstamp;

	if (rtt_us <= 0)
		return;
	if ((u32)rtt_us <= path_us + min(max(path_us >> 5, 1000U), 4000U) ||
	    (u32)rtt_us > now - cr->since_us)
		cr->last_us = now;
	else if (now - cr->last_us >= path_us >> 4)
		tp->snd_ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd);
}

/* Only one connection may use the advice at a time (3.2). */
static inline bool resume_take(const struct sock *sk, struct advised_start *start)
{
	u64 now = cc_now_ns(sk);
	u64 held = start->held_until_ns;
	u64 until = now + 3000ULL * resume_rtt_us(tcp_sk(sk));

	return held <= now &&
	       __sync_val_compare_and_swap(&start->held_until_ns, held, until) == held;
}

/* Unsent data, packets. */
static inline u32 resume_unsent(const struct tcp_sock *tp)
{
	return (tp->write_seq - tp->snd_nxt) / tp->mss_cache;
}

/* Entry to the Unvalidated Phase (3.3). */
static inline void resume_jump(struct sock *sk, struct resume *cr,
			       const struct advised_start *start, u32 promised, u32 window)
{
	struct tcp_sock *tp = tcp_sk(sk);

	resume_enter(cr, RESUME_UNVALIDATED, RESUME_CONFIRMED);
	cr->pipe_size = tcp_packets_in_flight(tp);
	cr->window = min(window / RESUME_JUMP, tp->snd_cwnd_clamp);
	cr->rtt_us = start->rtt_us;
	cr->mark = tp->snd_nxt;
	cr->since_us = tp->tcp_mstamp;
	cr->delivered = tp->delivered;
	tp->snd_cwnd = cr->window;
	tp->snd_ssthresh = promised;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* Confirms the path (3.2, 4.2), and jumps if there is more to send than the window allows. */
static inline void resume_confirm(struct sock *sk, struct resume *cr)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct advised_start *start;
	u32 supported, promised, window;

	resume_follow_train(tp, cr);
	if (tp->delivered - cr->delivered < cr->initial_window)
		return;
	start = cc_advised_start(sk);
	if (!start) {
		resume_enter(cr, RESUME_NORMAL, RESUME_NOT_ADVISED);
		return;
	}
	if (cc_now_ns(sk) >= start->until_ns) {
		resume_enter(cr, RESUME_NORMAL, RESUME_EXPIRED);
		return;
	}
	if (!resume_is_same_path(tp, start)) {
		resume_enter(cr, RESUME_NORMAL, RESUME_RTT_NOT_VALIDATED);
		return;
	}
	if (resume_is_queued(tcp_min_rtt(tp), start->rtt_us)) {
		resume_enter(cr, RESUME_NORMAL, RESUME_QUEUE);
		return;
	}
	promised = resume_promised(tp, start);
	supported = cr->window;
	window = min(promised, max(supported, promised / 2));
	if (min(window / RESUME_JUMP, tp->snd_cwnd_clamp) <= tp->snd_cwnd) {
		resume_enter(cr, RESUME_NORMAL, RESUME_NO_GAIN);
		return;
	}
	/* The train may have been held up on its way: the next one, longer, tells more. */
	if (supported < window || tp->sacked_out)
		return;
	if (tcp_packets_in_flight(tp) + resume_unsent(tp) <= tp->snd_cwnd)
		return;
	if (!resume_take(sk, start)) {
		resume_enter(cr, RESUME_NORMAL, RESUME_IN_USE);
		return;
	}
	resume_jump(sk, cr, start, promised, window);
}

/* Nobody else asked for pacing if no rate was set. */
static inline void resume_stop_pacing(struct sock *sk)
{
	if (sk->sk_pacing_status == SK_PACING_NEEDED && !~sk->sk_max_pacing_rate)
		sk->sk_pacing_status = SK_PACING_NONE;
}

/* The end of the Unvalidated Phase (3.3: check flight_size). */
static inline void resume_check_flight(struct sock *sk, struct resume *cr)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 flight = tcp_packets_in_flight(tp);

	cr->mark = tp->snd_nxt;
	if (flight < cr->initial_window || flight <= cr->pipe_size) {
		resume_stop_pacing(sk);
		tp->snd_cwnd = min(tp->snd_cwnd, max(cr->pipe_size, (u32)cr->initial_window));
		resume_enter(cr, RESUME_NORMAL, RESUME_RATE_LIMITED);
	} else {
		tp->snd_cwnd = flight;
		cr->last_us = tp->tcp_mstamp;
		resume_enter(cr, RESUME_VALIDATING, RESUME_SENT);
	}
}

/* What was advised is wrong: nobody else shall use it (3.5). */
static inline void resume_withdraw(struct sock *sk)
{
	struct advised_start *start = cc_advised_start(sk);

	if (start)
		start->until_ns = 0;
}

/* Entry to the Safe Retreat Phase (3.5): half of what the path has been seen to carry. */
static inline void resume_retreat(struct sock *sk, struct resume *cr, enum resume_trigger trigger)
{
	struct tcp_sock *tp = tcp_sk(sk);

	resume_stop_pacing(sk);
	if (cr->phase == RESUME_UNVALIDATED)
		cr->mark = tp->snd_nxt;
	resume_enter(cr, RESUME_SAFE_RETREAT, trigger);
	cr->window = max(cr->pipe_size / 2, RESUME_LEAST);
	cr->since_us = tp->tcp_mstamp;
	tp->snd_cwnd = min(tp->snd_cwnd, cr->window);
	resume_withdraw(sk);
}

/* The end of the Safe Retreat Phase (3.5), with Beta = 0.5. */
static inline void resume_end_retreat(struct tcp_sock *tp, struct resume *cr)
{
	tp->snd_cwnd = min(tp->snd_cwnd, cr->window);
	tp->snd_ssthresh = max(cr->pipe_size / 2, RESUME_LEAST);
	resume_enter(cr, RESUME_NORMAL, RESUME_RECOVERED);
}

/*
 * Slow start after the jump is paced (TCP's twice the window in a round-trip time): it would send twice what a train of
 * acknowledgements is for as fast as the path carries it, and take the queue of that for one of others.
 */
static inline void resume_follow_slow_start(struct sock *sk, struct resume *cr, s32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_in_slow_start(tp))
		resume_watch_queue(tp, cr, rtt_us);
	else
		resume_stop_pacing(sk);
}

static inline bool resume_in_reduction(const struct sock *sk)
{
	u8 state = cc_ca_state(sk);

	return state == TCP_CA_CWR || state == TCP_CA_Recovery;
}

static inline void resume_pkts_acked(struct sock *sk, struct resume *cr,
				     const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 elapsed, acked;

	if (cr->phase == RESUME_VALIDATING || cr->trigger == RESUME_VALIDATED)
		resume_follow_slow_start(sk, cr, sample->rtt_us);
	if (cr->phase == RESUME_NORMAL)
		return;
	if (cr->phase == RESUME_RECONNAISSANCE) {
		resume_confirm(sk, cr);
		return;
	}
	acked = tp->delivered - cr->delivered;
	cr->delivered = tp->delivered;
	elapsed = (u32)tp->tcp_mstamp - cr->since_us;
	if (cr->phase != RESUME_SAFE_RETREAT || elapsed <= resume_rtt_us(tp))
		cr->pipe_size += acked;

	if (cr->phase == RESUME_UNVALIDATED) {
		if (tcp_min_rtt(tp) <= cr->rtt_us / 2)
			resume_retreat(sk, cr, RESUME_PATH_CHANGED);
		else if (after(tp->snd_una, cr->mark) || elapsed > resume_rtt_us(tp) ||
			 (sample->rtt_us > 0 && resume_is_queued(sample->rtt_us, cr->rtt_us)))
			resume_check_flight(sk, cr);
		return;
	}
	if (before(tp->snd_una, cr->mark))
		return;
	if (cr->phase == RESUME_VALIDATING)
		resume_enter(cr, RESUME_NORMAL, RESUME_VALIDATED);
	else if (!resume_in_reduction(sk))
		resume_end_retreat(tp, cr);
}

/* Congestion: the threshold is `normal` without a jump. */
static inline u32 resume_ssthresh(struct sock *sk, struct resume *cr, u32 normal)
{
	if (cr->phase == RESUME_RECONNAISSANCE)
		resume_enter(cr, RESUME_NORMAL, RESUME_CONGESTION);
	if (cr->phase == RESUME_NORMAL)
		return normal;
	if (cr->phase != RESUME_SAFE_RETREAT)
		resume_retreat(sk, cr, RESUME_CONGESTION);
	return min(normal, cr->window);
}

/* Persistent congestion (3.6). */
static inline void resume_set_state(struct resume *cr, u8 new_state)
{
	if (new_state == TCP_CA_Loss && cr->phase != RESUME_NORMAL)
		resume_enter(cr, RESUME_NORMAL, RESUME_TIMEOUT);
}

/* Returns whether the retreat has ended: the packets of the jump have been acknowledged, or sent again and then. */
static inline bool resume_cwnd_event(struct sock *sk, struct resume *cr, enum tcp_ca_event event)
{
	if (event != CA_EVENT_COMPLETE_CWR || cr->phase != RESUME_SAFE_RETREAT)
		return false;
	resume_end_retreat(tcp_sk(sk), cr);
	return true;
}

/* The window must not grow in the retreat, even if its losses were none. */
static inline u32 resume_undo_cwnd(const struct resume *cr, u32 normal)
{
	return cr->phase == RESUME_SAFE_RETREAT ? min(normal, cr->window) : normal;
}

/* Paces the jump over the current round-trip time (3.3, 4.3.2): TCP itself would take half of that. */
static inline void resume_pace(struct sock *sk, const struct resume *cr)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 bytes = (u64)cr->window * tp->mss_cache;
	u64 rate = bytes * 1000000 / max(resume_rtt_us(tp), 1U);

	sk->sk_pacing_rate = min(rate, (u64)sk->sk_max_pacing_rate);
}

/*
 * Holds the window of the retreat, where proportional rate reduction would lead to it only slowly (4.5). The first
 * retransmission leaves at once (RFC 6675, section 5).
 */
static inline void resume_drain(struct sock *sk, const struct resume *cr)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool is_first = resume_in_reduction(sk) && !tp->prr_out;
	u32 most = max(cr->window, is_first ? tcp_packets_in_flight(tp) + 1 : 0);

	tp->snd_cwnd = min(tp->snd_cwnd, most);
}

/* Before anything is sent, after TCP has set window and rate. Returns the packets of a burst at least: TCP's default. */
static inline u32 resume_min_tso_segs(struct sock *sk, struct resume *cr)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (cr->phase == RESUME_UNVALIDATED) {
		if (tcp_packets_in_flight(tp) >= tp->snd_cwnd)
			resume_check_flight(sk, cr);
		else
			resume_pace(sk, cr);
	} else if (cr->phase == RESUME_SAFE_RETREAT) {
		resume_drain(sk, cr);
	}
	return 2;
}

#endif
