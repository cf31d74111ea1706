/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fairwind: takes what others leave of a path, and gives it back when they want it.
 *
 * A sender in the background must answer one question again and again: is the queue that it sees its
 * own, or somebody else's? Its own it may make and empty as it likes; for somebody else's it must
 * go. This control asks by an experiment. When it sees a queue it takes its window back to just
 * below what the path carried, by one multiplication with the base delay over the delay, and
 * looks at packets sent after that. If the queue is gone, it was the sender's own, or a burst that has
 * passed. If not, somebody else fills the link, and the sender yields: to a quarter with every
 * round trip, down to a small share of what it last had to itself.
 *
 * Signals
 *	looks		The least round-trip time of a quarter of a round, of packets sent after the
 *			latest cut, yield, jump, train or burst only. The least passes over ACKs in pairs and
 *			the sender's own bursts.
 *	base delay	The least look so far. It has no expiry, which a standing queue of others would
 *			use; a train (below) raises it when the route has changed.
 *	queue		A look less the base delay, but no more than the packets came later to the
 *			receiver by its time stamps: the rest is on the way back. A small one counts
 *			when a second look shows it, or several where there is noise; a large one at once.
 *	noise		How much looks go back and forth. A queue grows and goes over several looks;
 *			the path's noise has no memory.
 *	rise		What jitter delays dense packets more than sparse ones. Where several cuts leave
 *			the same queue, or two where there is noise, and each time it goes with the
 *			yield, the next cut's window is held. Others would fill the link more and more;
 *			what does not grow is jitter.
 *	losses		They count if they come with a queue: if the share of packets lost is more than
 *			three times as large behind half of the mean queue at losses, and more, as behind
 *			less. Then that mean tells how large the buffer is. The path's own losses are ignored.
 *			A packet is behind about the largest queue of the ACKs before it.
 *	trains		A sender that has yielded for a second without an empty look sends eight to
 *			sixteen packets at half the rate that it last had. On a full link each of them
 *			adds its own time to the queue. If the second half takes no longer than the
 *			first, nobody fills the link: after three such trains with the same delay this
 *			is the path's own, and the new base.
 *
 *	bursts		Behind fair queueing a sender sees no queue but its own, and looks like one whose
 *			link has become slower. When it has clearly less than the link once gave it, it
 *			sends eight packets at once. If they come back as far apart as the link sends
 *			them, its own kind has the rest. If they come back further apart, others take
 *			turns with it. If they come back closer together, the link gives more than it
 *			was known to.
 *
 * Modes
 *	RAMP		Towards what was free when a queue was last seen: doubling every round below a
 *			quarter of it, an eighth more a round above, up to fifteen sixteenths. At the start what
 *			is free is the rate at which the first window's packets came out of the link.
 *	CRUISE		Growth by the square root of the window a round, and by no more than the queue
 *			tolerated. After some rounds without a queue, faster and faster.
 *	CHECK		The queue has been cut, by more if the sender has a part of the link only, so
 *			that shares become equal; did it go?
 *	YIELD		Somebody else is there. Two empty looks end it, or one if looks are rare.
 *	BURST		A burst is on its way.
 *	TRAIN		A train is on its way. Behind fair queueing this is a burst too: two that come
 *			back as fast as the link sends them end the yielding.
 *
 * Connections between the same two hosts
 *	They are one sender: all of the state is common to them but what is about a connection's own packets.
 *	One leads, with nearly all of the window; its packets are looked at. The others send so little that their
 *	ACKs keep coming, and the lead goes round. Where their few packets meet the leader's queue, they share one;
 *	then all send at once, each the same part, if that is a few packets, and all are looked at. The same
 *	where a leader's application or receiver holds it back.
 *
 * A start may be advised (resume.h). The first look without a queue then jumps, to a fifth of what is promised and of what
 * the first window showed at most. What follows is a start as any: a queue is cut, and it yields to others.
 *
 * A window below two packets is sent in pairs by the pacing rate (background.h). The law, its
 * reasons and what it cannot see: docs/explanation/background-control.md.
 *
 * Parameters (unit, default):
 *	delay		us, 100		queueing delay tolerated, besides packets
 *	gain		1/1024, 96	growth a round, times the square root of the window
 *	patience	1, 6		rounds without a queue before growth becomes faster
 *	floor		1, 256		smallest share of the window last had to itself, as a divisor
 *	belief		1/1024, 896	part of what was free that is believed free after others came
 *	noise		1/1024, 256	largest noise of the delay that is tolerated, of the base delay
 *	quiet		1, 0		rounds without a queue before it comes back from a yield
 *	equal		us, 1000	queueing delay that small flows tolerate more than large ones, at most
 */
#include <fairwind/background.h>
#include <fairwind/resume.h>

#define FAIRWIND_PARAMETERS(P)                                                                 \
	P(delay, "us", 100, 0, 100000, "queueing delay tolerated, besides packets")            \
	P(gain, "1/1024", 96, 1, 10240, "growth a round, times the square root of the window") \
	P(patience, "1", 6, 1, 60, "rounds without a queue before growth becomes faster")      \
	P(floor, "1", 256, 1, 65536,                                                           \
	  "smallest share of the window last had to itself, as a divisor")                     \
	P(belief, "1/1024", 896, 1, 1024,                                                      \
	  "part of what was free that is believed free after others came")                     \
	P(noise, "1/1024", 256, 0, 1024,                                                       \
	  "largest noise of the delay that is tolerated, of the base delay")                   \
	P(quiet, "1", 0, 0, 60, "rounds without a queue before it comes back from a yield")    \
	P(equal, "us", 1000, 0, 100000,                                                        \
	  "queueing delay that small flows tolerate more than large ones, at most")
CC_PARAMETERS(FAIRWIND_PARAMETERS);

/* Looks in a round, and samples in a look unless the round ends. */
#define LOOKS 4U
#define SAMPLES 4U
/* A cut goes below what the link carries by this share: it empties the queue in a round. */
#define UNDERSHOOT 64U
/* A sender with this share of the link, 1/256, or more has nobody of its kind to leave something to. */
#define SHARE_WHOLE 248U
/* TCP sends no more packets at once; what it adds to those of a millisecond halves with each 2^TSO_RTT_LOG us of round trip. */
#define TSO_MAX 44U
#define TSO_RTT_LOG 9
/* What it leaves of a smaller share: that share, times what is missing to the whole, by this. */
#define SHARE_LEFT 3U
/* The ramp ends this share below what was free. */
#define RAMP_GAP 16U
/* A jump needs a round-trip time above the advised one by no more than this share of it, and so much, us; or than `delay`. */
#define JUMP_WAIT 32U
#define JUMP_WAIT_US 4000U
/* Less than so many windows are reached as soon by doubling twice: a jump takes a round-trip time, and is looked at for another. */
#define JUMP_LEAST 4U
/* The way up from a yield begins no lower than this share of what it last had to itself. */
#define RESTART 16
/* A window grows by no more than this share a round. */
#define GROWTH_MAX 8U
/* Losses without a queue are borne up to this share, 1/65536: 6 %. */
#define LOSS_BORNE 3932U
/* So many losses are more than chance. */
#define LOSSES_LEAST 3U
/* Packets after which the share of losses is judged, unless a window is more. */
#define LOSS_EPOCH 100U
/* A packet takes no longer than this on a link, us, as far as the tolerated delay goes: 9 Mbit/s. */
#define PACKET_MAX_US 1300U
/* What a group of packets corrects the time of one by: this share. */
#define PACKET_STEP 128U
/* Time before the first train, us; it doubles up to so often. */
#define TRAIN_GAP_US 1000000U
#define TRAIN_WAIT_MAX 5
#define TRAIN_GAP_MAX_US (TRAIN_GAP_US << TRAIN_WAIT_MAX)
/* Flat trains in a row after which their delay is believed to be the path's. */
#define TRAINS_FLAT 3
/* Trains are at most 1/400 of what was last had. */
#define TRAIN_SHARE 400U
/* Noise of the delay that is tolerated is at most this, us. */
#define NOISE_MAX_US 4000U
/* Losses are counted in parts, so that halved counts still tell of one. */
#define LOSS_PARTS 8U
/* Counts of packets are halved here. */
#define QUEUED_MAX 4000U
#define EMPTY_MAX 20000U
/* A queue of more than so many times the tolerated one is large: it counts at once. */
#define LARGE 3U
/* Packets that are sent at once, and how many must come back one after the other to tell their time. */
#define RUN_PACKETS 8U
#define RUN_LEAST 4U
/* They come evenly if no gap between ACKs is more than so many times their time: an ACK may be for two packets or more. */
#define RUN_EVEN 3U
/* A run that has not come back so long after four round trips never will, us. */
#define RUN_TIMEOUT_US 4000000U
/* Time after a burst that showed nothing, us, or eight base delays, if longer; it doubles with each after the first. */
#define BURST_GAP_US 250000U
#define BURST_WAIT_MAX 8
/* Time before the first one, us, if the first window came back unevenly: noise is learnt meanwhile. */
#define UNEVEN_WAIT_US 2000000U
/* After a burst that showed one queue for all, burst_wait is raised to this before it grows; where there has been fair
 * queueing, it grows no further than the second. */
#define BURST_WAIT_ONE_QUEUE 5
#define BURST_WAIT_FAIR 2
/* Noise of hosts, us, which is no queue. */
#define HOST_NOISE_US 20U
/* Hosts are late by so much, us: packets that come back in less say little of the link. */
#define HOST_LATE_US 100U
/* Receivers hold selective acknowledgements back for so long at most, us: Linux's default. */
#define SACK_HELD_MAX_US 1000U
/* What the first packet must save at least, us, beyond the noise of hosts. */
#define FIRST_SAVES_US 60U
/* Time between trains behind fair queueing, us, and how many packets the link sends meanwhile at least. */
#define FAIR_GAP_US 500000U
#define FAIR_GAP_PACKETS 1024U
/* Fast or late trains in a row after which nobody takes turns, and slow ones after which the link is slower. */
#define TRAINS_FAST 2
#define TRAINS_SLOW 6
/* What an early one takes back of these, if only the first window has shown a faster link: noise makes one early, too. */
#define TRAINS_EARLY 2U
/* Packets that take so long on the link together count as one where senders are to come to equal shares. */
#define QUANTUM_US 100U
/* The way up from a yield leads to `belief` of what it last had to itself, by this, at least: half, by default. */
#define RAMP_LEAST 1792U
/* A small queue counts when so many looks in a row show it: usually, where noise makes up more than half of what is
 * tolerated, and where it makes up more than three quarters. */
#define LOOKS_QUIET 2
#define LOOKS_NOISY 4
#define LOOKS_NOISIEST 7
/* Cuts in vain, after the first, that must leave the same queue before it may be jitter: usually, and where there is
 * noise; looks in which it must not grow. */
#define SUSPECTS 3
#define SUSPECTS_NOISY 1
#define HOLD_LOOKS 6
/* Below this share of what it last had to itself its packets are too sparse to wait for each other. */
#define HOLD_DENSE 8
/* The base of one-way delays rises by 16 us in this time, because clocks drift, us: 160 ppm. */
#define DRIFT_US 100000U
/* Time stamps count milliseconds, us. */
#define STAMP_US 1000U
/* What sparse looks have shown of the way forward counts for more by so much with each further one, 16 us. */
#define FORWARD_FADES 8U
/* The way back delays packets by so many base delays at most, as far as what is in flight goes. */
#define BACKWARD_MOST 16U
/* While one connection leads, the others between these hosts share this part of the window. */
#define REST 16U
/* Who leads next has this part, or a packet if that is more, but no more than the second. */
#define NEXT 64U
#define NEXT_MOST 8U
/* With as many packets each, connections that share a queue all send. */
#define EVEN_SHARE (4 * PACKET)
/* Rounds for which a leader could not use its window, after which all send. */
#define LIMITED_ROUNDS 4
/* So many packets must have met the leader's queue before the queue is known to be shared; more count as so many. */
#define VOTES 5
#define VOTES_MAX 8
/* A connection leads for so many rounds, or this time, us, if longer. */
#define LEAD_ROUNDS 4
#define LEAD_US 100000U
/* What connections share is forgotten when none has used it for so long, about seconds. */
#define FORGOTTEN 8U
/* Connections are counted for so long, us. */
#define COUNT_US 2000000U
/* Connections that can be told apart. */
#define MEMBERS_MAX 63U
#define NONE (~0U)

enum mode { RAMP, CRUISE, CHECK, YIELD, TRAIN, BURST };

struct fairwind {
	u32 window; /* 1/256 packets, as all windows here */
	u32 own; /* the last that nobody disturbed */
	u32 free; /* what was free when a queue was last seen; 0: unknown */
	u32 best; /* the largest that the link carried; 0: unknown */
	u32 base_us; /* NONE: unknown */
	u32 look_us; /* least round-trip time of this look; NONE: none yet */
	u32 look_start_us; /* CHECK before its first sample: when the window was cut */
	u32 due_us; /* the next train in YIELD, or else the next burst */
	union {
		struct { /* the first window */
			u32 first_ack_us; /* 0: none yet */
			u32 first_delivered; /* packets, by then */
			u32 first_last_us; /* the latest ACK */
			u32 first_gap_us; /* the longest from one to the next */
		};
		struct { /* RAMP, CRUISE; YIELD, since its first empty look: round_start_us alone */
			u32 window_before; /* one to two rounds ago */
			u32 window_then; /* when this round began */
			u32 round_start_us;
			/* The latest packets that were sent at once; times are their low bits, us. */
			u16 group_sent;
			u16 group_first; /* time of their first ACK */
			u16 group_last; /* of their latest */
			u8 group_packets; /* that have come since the first */
			u8 group_gap; /* the longest from one ACK to the next, 16 us */
		};
		struct { /* CHECK, while it holds */
			u16 cut_queue_us; /* the queue that the cut answered */
			u16 hold_first_us;
			u16 hold_least_us;
		};
		struct { /* TRAIN: round-trip times of its first and second half */
			u32 first_sum_us;
			u32 second_sum_us;
			u32 least_us;
			u32 train_lost; /* packets lost before it */
			u8 first_samples;
			u8 second_samples;
			u16 flat_base; /* least round-trip time of the flat trains so far, 16 us; YIELD keeps it */
		};
		struct { /* BURST, TRAIN behind fair queueing: packets sent at once */
			u32 run_prior; /* delivered when they were sent; NONE: not seen yet */
			u32 run_us; /* time of their first ACK */
			u32 run_end_us; /* of their latest */
			u32 run_rtt_us; /* round-trip time that the first shows */
			u16 run_gap_us; /* the longest from one ACK to the next */
			u8 run_packets; /* that have come since the first */
			u8 run_first : 7; /* packets that the first is for */
			u8 is_sending : 1; /* they have not been sent yet */
		};
	};
	u16 acked_queued, lost_queued; /* packets while there was a queue; lost: 1/LOSS_PARTS */
	u16 acked_empty, lost_empty; /* while there was none */
	u16 epoch_acked, epoch_lost;
	u16 forward; /* one way, 16 us above the least so far: of this look */
	u16 syn_saves_us; /* what the SYN, a small packet, took less than a full one on the empty path */
	u16 loss_queue_us; /* the mean queue at losses; 0: unknown */
	u16 recent_queue_us; /* about the largest of the latest ACKs */
	u16 noise_us; /* of the delay */
	u16 rise_us; /* what its own packets are delayed when they are dense, by the path's jitter */
	u16 suspect_us; /* the queue that stayed after the latest cut in vain, and went with the yield */
	u16 last_queue_us, prior_queue_us; /* of the look before, and the one before that */
	u16 packet_quarter_us; /* time of a packet on the link, 1/4 us; 0: unknown */
	u8 clean; /* looks without a queue in a row */
	u8 fast : 2; /* trains behind fair queueing that came back fast or late, in a row */
	u8 samples : 3; /* of this look */
	u8 flat : 4; /* trains in a row; behind fair queueing: those that show a slower link */
	u8 is_limited : 1; /* one connection cannot fill the window alone */
	u8 train_packets;
	u8 mode : 3;
	u8 train_wait : 3; /* the next is due in TRAIN_GAP_US times two to the power of this */
	u8 is_proven : 1; /* the sender itself has had `best` */
	u8 is_leader : 1; /* this connection leads */
	u8 is_starting : 1; /* no queue has been seen, nor the ramp ended */
	u8 warned : 3; /* looks in a row above what is tolerated */
	u8 is_congested : 1; /* losses come with queues */
	u8 is_fair : 1; /* yields to others behind fair queueing */
	u8 was_fair : 1; /* has done so before */
	u8 is_slow : 1; /* the latest burst came back slow */
	u8 is_torn : 1; /* packets of the run were lost */
	u8 suspects : 2; /* cuts in vain in a row that left the same queue */
	u8 is_next : 1; /* it leads next, or for the leader: another does */
	u8 burst_wait : 4; /* 0: the next is due; or else, see put_off_burst */
	u8 members : 6; /* connections that send */
	u8 is_changed : 1; /* what is sent from now on is looked at anew */
	u8 is_shared : 1; /* they share a queue, and have not one each, as behind fair queueing */

	/* The connection's own. All above is what those between the same two hosts have in common. */
	u32 after; /* only packets sent after so many had been delivered are looked at */
	u32 reduce_after; /* losses before so many have been delivered have been answered */
	u16 forward_base; /* least one-way delay, 16 us, with an unknown constant */
	u8 doubtful : 3; /* see delay_sample */
	u8 has_forward : 1; /* forward_base is known */
	u8 seen_round : 2; /* the latest in which it has been counted */
	u8 is_member : 1; /* it is counted */
	u8 is_eased : 1; /* sends slower until reduce_after: its part has become larger */
	u8 seen_change : 2; /* of the window */
	u8 id : 6; /* 0: it has not joined yet */
};
CC_STATE_FITS(struct fairwind);

#define SHARED_SIZE __builtin_offsetof(struct fairwind, after)

/* What the connections between two hosts have in common. */
struct fairwind_path {
	u32 is_busy; /* one of them is at it */
	u32 used; /* when last, about seconds; 0: never */
	u32 count_us; /* since when they are counted */
	u32 lead_us; /* since when the leader leads */
	u32 heard_us; /* when an ACK for the leader came last */
	u32 next_us; /* since when the next leader is known */
	u32 filled_us; /* when a leader could last use its window */
	u8 round; /* of counting */
	u8 heard; /* connections of which there has been an ACK in this round */
	u8 ids; /* the latest id */
	u8 leader; /* its id */
	u8 next; /* the next leader's; 0: not known */
	u8 changes; /* of the window, so that packets are looked at anew */
	u8 votes; /* for a shared queue */
	u8 unused;
	u32 law[SHARED_SIZE / sizeof(u32)];
};
CC_SHARED(struct fairwind_path);

/* a * b / c, c at least 1. */
static inline u32 scale(u32 a, u32 b, u32 c)
{
	return (u32)((u64)a * b / max(c, 1U));
}

static inline u32 difference(u32 a, u32 b)
{
	return a > b ? a - b : b - a;
}

static inline u32 square_root(u32 x)
{
	u32 root = 0;

	for (u32 bit = 1U << 15; bit; bit >>= 1) {
		u32 more = root | bit;

		if ((u64)more * more <= x)
			root = more;
	}
	return root;
}

/* Connections that send, at least one. */
static inline u32 senders(const struct fairwind *ca)
{
	return max((u32)ca->members, 1U);
}

/* The window that sends a packet a second. */
static inline u32 packet_a_second(const struct fairwind *ca)
{
	return ca->base_us == NONE ? 1 : max(scale(ca->base_us, PACKET, 1000000), 1U);
}

/*
 * Not less than a packet a second, or two where these are less than 1/32 of what it last had to itself: what
 * follows a pair waits for twice that time.
 */
static inline u32 floor_window(struct sock *sk)
{
	const struct fairwind *ca = inet_csk_ca(sk);

	u32 second = packet_a_second(ca) * senders(ca);

	return max(ca->own / max(param(sk, floor), 1U), max(min(2 * second, ca->own / 32), second));
}

static inline void set_window(struct sock *sk, u32 window)
{
	struct fairwind *ca = inet_csk_ca(sk);

	ca->window = min(max(window, floor_window(sk)), 1U << 28);
}

/* Whether all connections send, each its part of the window. Otherwise one of them leads. */
static inline bool is_even(const struct fairwind *ca)
{
	return (ca->is_shared && ca->free >= ca->members * EVEN_SHARE) ||
	       (ca->is_limited && ca->window >= ca->members * EVEN_SHARE);
}

/*
 * The part of the window that is this connection's. The leader has nearly all, the others as little as keeps their ACKs
 * coming. Who leads next has a little more, so that its packets are soon under way, and who has nothing to send may begin
 * with what is usual.
 */
static inline u32 own_share(const struct fairwind *ca)
{
	u32 second = packet_a_second(ca);
	u32 rest = ca->window / REST;
	u32 next = max(ca->window / NEXT, min(ca->window / NEXT_MOST, PACKET));

	if (ca->id && !ca->is_member && ca->members)
		return min(ca->window / (ca->members + 1U), TCP_INIT_CWND * PACKET);
	if (ca->members < 2)
		return ca->window;
	if (is_even(ca))
		return max(ca->window / ca->members, second);
	if (ca->is_leader)
		return ca->window - rest - (ca->is_next ? next : 0);
	return max(ca->is_next ? next : rest / (ca->members - 1U), second);
}

/* Time of a packet at the rate of the own window: the smaller the flow, the longer. */
static inline u32 own_packet_us(const struct fairwind *ca)
{
	return scale(ca->base_us, PACKET, max(ca->own, ca->window));
}

/* Time of a packet on the link, as far as the first window showed it. */
static inline u32 packet_us(const struct fairwind *ca)
{
	u32 own = own_packet_us(ca);

	return ca->packet_quarter_us ? min(ca->packet_quarter_us / 4U + 1, own) : own;
}

/* Time of a packet on the link if it carries this window. */
static inline u32 packet_time(const struct fairwind *ca, u32 window)
{
	return scale(ca->base_us, PACKET, window);
}

/* Packets that take QUANTUM_US on the link together; at least one. */
static inline u32 quantum(const struct fairwind *ca)
{
	return min(max(QUANTUM_US / max(packet_us(ca), 1U), 1U), 16U);
}

/* The part of the queueing delay tolerated that is for the noise of the path. */
static inline u32 noise_part_us(struct sock *sk)
{
	const struct fairwind *ca = inet_csk_ca(sk);

	return min(3U * ca->noise_us,
		   min(scale(ca->base_us, param(sk, noise), 1024), NOISE_MAX_US));
}

/* What the second packet of a pair waits for the first, us. The SYN has taken next to no time on the link. */
static inline u32 pair_us(const struct fairwind *ca)
{
	if (!is_sparse(own_share(ca), ca->base_us))
		return 0;
	return max(packet_us(ca), min((u32)ca->syn_saves_us, own_packet_us(ca)));
}

/*
 * The queueing delay tolerated: a constant, a packet on the link, some packets at the own rate, and
 * the noise of the path. The third makes small flows bear more than large ones, so that they come to
 * equal shares. Where losses come with queues, the buffer is known, and it is at most a quarter of that.
 */
static inline u32 tolerated_us(struct sock *sk)
{
	const struct fairwind *ca = inet_csk_ca(sk);
	u32 share = ca->base_us / 32;
	u32 packet = min(packet_us(ca), max(PACKET_MAX_US, (u32)ca->syn_saves_us));
	u32 us = min(param(sk, delay), share) + packet;

	us += min(own_packet_us(ca) * quantum(ca), min(param(sk, equal), share));
	us += noise_part_us(sk);
	if (ca->loss_queue_us && ca->is_congested) {
		/* One packet may wait for another. By the own window, in which the buffer is, its time is too short. */
		if (ca->best)
			packet = min(packet, packet_time(ca, ca->best));
		us = min(us, max(ca->loss_queue_us / 4U, packet + packet / 4 + HOST_NOISE_US));
	}
	/* A packet of another connection between these hosts may be before it. */
	if (ca->members > 1 && !is_even(ca))
		us += packet_us(ca);
	return us + pair_us(ca);
}

/* Above what a queue is large. Where losses come with queues, there is no time to look twice. */
static inline u32 large_us(const struct fairwind *ca, u32 tolerated)
{
	return ca->loss_queue_us && ca->is_congested ? tolerated : LARGE * tolerated;
}

/*
 * Whether the noise is most of what is tolerated. Less than a packet on the link, or this part of one, may be of the
 * sender's own kind.
 */
static inline bool is_noisy(struct sock *sk, u32 tolerated, u32 part)
{
	const struct fairwind *ca = inet_csk_ca(sk);

	return 2 * noise_part_us(sk) > tolerated && part * ca->noise_us >= packet_us(ca);
}

/* Looks in a row that must show a small queue: noise seldom lasts. */
static inline u32 looks_needed(struct sock *sk, u32 tolerated)
{
	if (!is_noisy(sk, tolerated, 1))
		return LOOKS_QUIET;
	return 4 * noise_part_us(sk) <= 3 * tolerated ? LOOKS_NOISY : LOOKS_NOISIEST;
}

/* The path's own delay is another one. The link carries the same rates, which are other windows now. */
static inline void set_base(struct fairwind *ca, u32 base_us)
{
	if (ca->base_us != NONE) {
		ca->window = scale(ca->window, base_us, ca->base_us);
		ca->own = scale(ca->own, base_us, ca->base_us);
		ca->free = scale(ca->free, base_us, ca->base_us);
		ca->best = scale(ca->best, base_us, ca->base_us);
		/* Below the SYN's time it is another route. */
		if (base_us < ca->base_us && ca->base_us - base_us <= ca->syn_saves_us)
			ca->syn_saves_us -= ca->base_us - base_us;
	}
	ca->base_us = base_us;
}

/* From now on only packets sent from now on count. */
static inline void look_anew(struct sock *sk)
{
	struct fairwind *ca = inet_csk_ca(sk);

	ca->after = tcp_sk(sk)->delivered;
	ca->is_changed = 1;
	ca->look_us = NONE;
	ca->clean = 0;
}

static inline void begin_round(struct fairwind *ca, u32 now_us)
{
	ca->window_before = ca->window;
	ca->window_then = ca->window;
	ca->round_start_us = now_us;
	ca->group_packets = 0;
}

/* Less is believed to be free. */
static inline void doubt_free(struct sock *sk, u32 free)
{
	struct fairwind *ca = inet_csk_ca(sk);

	ca->free = max(scale(free, param(sk, belief), 1024), floor_window(sk));
}

static inline u16 short_us(u32 us)
{
	return (u16)min(us, 65535U);
}

static inline void put_off_train(struct fairwind *ca, u32 now_us)
{
	ca->due_us = now_us + (TRAIN_GAP_US << ca->train_wait);
}

static inline void put_off_burst(struct fairwind *ca, u32 now_us)
{
	ca->due_us = now_us;
	if (ca->burst_wait)
		ca->due_us += max(BURST_GAP_US, 8 * ca->base_us) << (ca->burst_wait - 1U);
}

/* The way up from a yield begins. */
static void come_back(struct sock *sk, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);

	ca->mode = RAMP;
	ca->group_packets = 0;
	put_off_burst(ca, now_us);
	set_window(sk, max(ca->window, ca->own / RESTART));
}

static void yield_to_others(struct sock *sk, u32 divisor, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);

	set_window(sk, ca->window / divisor);
	look_anew(sk);
	if (ca->mode != YIELD) {
		ca->mode = YIELD;
		put_off_train(ca, now_us);
	}
}

/* More than a tenth of what is sent has been lost lately: nothing is gained by sending more. */
static inline bool is_losing(const struct fairwind *ca)
{
	return ca->epoch_lost >= LOSSES_LEAST && ca->epoch_lost * 10U > ca->epoch_acked;
}

/* An empty look while cruising, of length us: the window grows. */
static void grow(struct sock *sk, u32 us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u32 rounds = ca->clean / LOOKS;
	u32 patience = param(sk, patience);
	/* Both are in 1/256 packets: the root of the window in packets, times 256. */
	u32 step = scale(square_root(min(ca->window, 1U << 23) * PACKET), param(sk, gain), 1024);
	u32 most = max(min(ca->own, ca->window) / GROWTH_MAX, PACKET / 16);
	/* Each of a group adds no more than its part of the queue tolerated, or QUANTUM_US. */
	u32 bound = max(scale(ca->window, tolerated_us(sk), ca->base_us),
			QUANTUM_US * PACKET / max(packet_us(ca), 1U));

	step = max(min(step, bound), PACKET / 64);
	if (ca->loss_queue_us && ca->is_congested) {
		u32 room = scale(ca->own, ca->loss_queue_us, ca->base_us) / 4;
		/* The longer nobody has been there, the less likely it fills the buffer of others. */
		u32 waits = rounds / max(patience, 1U);

		most = min(most, max(room * (max(waits, 2U) - 1), PACKET / 16));
	}
	if (rounds > patience)
		step = max(step, min(step << min(rounds - patience, 8U), most));
	set_window(sk, ca->window + max(scale(step, us, ca->base_us), 1U));
}

/*
 * The share of the link that this window is, 1/256. The first window has shown the time of a packet; where it has not, it is
 * unknown: 0.
 */
static inline u32 link_share(const struct fairwind *ca, u32 window)
{
	return min(scale(window, ca->packet_quarter_us, 4 * ca->base_us), SHARE_WHOLE);
}

/*
 * What a sender leaves of its window to others of its kind: a part of it that grows with its share of the link.
 * As all of them see the same queues, shares become equal.
 */
static inline u32 left_to_others(const struct fairwind *ca, u32 window)
{
	u32 share = link_share(ca, window);

	return scale(window, share * (SHARE_WHOLE - share), 65536 * SHARE_LEFT);
}

/*
 * TCP sends several packets at once (tcp_tso_autosize): those of a millisecond, and more over short paths, but no more than
 * half of the window. In the mean, half of them wait at the link though the looks are empty. Who has the link to itself has
 * so much in flight besides what the link carries of this window; where losses come with queues, no more than an eighth of
 * the buffer.
 */
static inline u32 waiting(const struct fairwind *ca, u32 window)
{
	u32 packets = scale(window / PACKET, 1000, ca->base_us) +
		      (TSO_MAX >> min(ca->base_us >> TSO_RTT_LOG, 31U));
	u32 more;

	packets = min(max(min(packets, TSO_MAX), 2U), ca->window / PACKET / 2);
	more = packets * PACKET / 2;
	if (ca->loss_queue_us && ca->is_congested)
		more = min(more, scale(window, ca->loss_queue_us, ca->base_us) / 8);
	more = min(more, ca->window - min(window, ca->window));
	return ca->members < 2 && link_share(ca, window + more) == SHARE_WHOLE ? more : 0;
}

/*
 * The most that the link has carried. A window that is sent in bursts may be more without a queue between them: what has
 * been delivered in a round trip does not have them in it. It is of this connection alone.
 */
static void learn_best(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	u32 carried = ca->free;

	if (ca->members < 2 && tp->rate_interval_us)
		carried = min(carried, scale(min(tp->rate_delivered, 1U << 20) * PACKET,
					     ca->base_us, tp->rate_interval_us));
	if (carried < ca->best)
		return;
	ca->best = carried;
	ca->is_proven = 1;
}

/*
 * A queue is seen: the window of a round trip ago, which is what filled the link, is scaled to what
 * the link carries of it.
 */
static void cut(struct sock *sk, u32 queue_us, u32 tolerated, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	/* What the link carries has not been reached. */
	bool is_early = ca->mode == RAMP && !ca->is_starting && ca->window < ca->free / 2;
	/* The start has just ended, by what the first window had shown. */
	bool is_new = ca->mode == CRUISE && !ca->is_proven && ca->clean < 2 * LOOKS;
	bool is_surprise = false;
	u32 was, carried;

	if (ca->mode == RAMP)
		was = ca->window < ca->free / 2 || !ca->free ? ca->window / 2 : ca->window / 5 * 4;
	else
		was = min(ca->window_before, ca->window);
	was = max(was, 1U);
	if (ca->mode != RAMP) {
		/* More queue than the growth since can have made. */
		u32 own = scale(ca->window - was, ca->base_us, was);

		is_surprise = queue_us > large_us(ca, tolerated) + 2 * own;
	}
	if (ca->loss_queue_us)
		ca->loss_queue_us = max(ca->loss_queue_us, short_us(queue_us));
	carried = scale(was, ca->base_us, ca->base_us + queue_us);
	/* At the start, the first window has shown it better. */
	if (ca->is_starting && ca->free)
		carried = min(carried, ca->free);
	carried = max(carried, floor_window(sk));
	ca->free = is_early ? max(carried, ca->free / 2) : carried;
	if (ca->mode == CRUISE && !is_surprise && !ca->is_limited)
		learn_best(sk);
	ca->own = ca->is_starting ? ca->free : max(ca->free, ca->own - (ca->own >> 5));
	ca->is_starting = false;
	look_anew(sk);
	if (is_surprise && is_new) {
		/* The first window had shown too much. So much less empties the queue. */
		set_window(sk, ca->free - ca->free / 7);
	} else if (is_surprise) {
		doubt_free(sk, ca->free);
		set_window(sk, ca->free / 2);
	} else {
		u32 below = carried / UNDERSHOOT;

		if (ca->mode == CRUISE) {
			below = max(below, left_to_others(ca, carried));
			carried += waiting(ca, carried);
			ca->free = max(ca->free, carried);
		}
		set_window(sk, carried - below);
	}
	ca->mode = CHECK;
	ca->cut_queue_us = short_us(queue_us);
	ca->look_start_us = now_us;
}

static void cruise(struct sock *sk, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);

	ca->mode = CRUISE;
	ca->clean = 0;
	begin_round(ca, now_us);
}

/* The window to which the connection is advised to jump; 0: it is to start as any. */
static u32 advised_window(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct fairwind *ca = inet_csk_ca(sk);
	struct advised_start *start = cc_advised_start(sk);
	u32 window;

	if (!start || cc_now_ns(sk) >= start->until_ns || !resume_is_same_path(tp, start) ||
	    tcp_min_rtt(tp) > start->rtt_us + max(min(start->rtt_us / JUMP_WAIT, JUMP_WAIT_US),
						  param(sk, delay)))
		return 0;
	window = min(min(resume_promised(tp, start), 1U << 18) * PACKET, ca->free) / RESUME_JUMP;
	if (window <= JUMP_LEAST * ca->window ||
	    tcp_packets_in_flight(tp) + resume_unsent(tp) <= tp->snd_cwnd ||
	    !resume_take(sk, start))
		return 0;
	return window;
}

/* An empty look at the start. Returns whether the window is as advised now. */
static bool jump(struct sock *sk)
{
	u32 window = advised_window(sk);

	if (!window)
		return false;
	set_window(sk, window);
	look_anew(sk);
	return true;
}

/* A full buffer at the start: if somebody has jumped, what was advised is wrong. */
static void withdraw_jump(struct sock *sk)
{
	struct advised_start *start = cc_advised_start(sk);

	if (start && cc_now_ns(sk) < start->held_until_ns)
		start->until_ns = 0;
}

/* An empty look, of length us, on the way up. */
static void ramp(struct sock *sk, u32 us, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u32 step = scale(ca->window, min(us, 2 * ca->base_us), ca->base_us);
	u32 end = ca->free - ca->free / RAMP_GAP;

	if (ca->is_starting && jump(sk)) {
		ca->own = max(ca->own, ca->window);
		return;
	}
	if (ca->free && ca->window >= ca->free / 4 && !ca->is_starting)
		step /= GROWTH_MAX;
	if (ca->free && ca->window + step >= end) {
		set_window(sk, end);
		ca->own = ca->is_starting ? ca->free : ca->own;
		ca->is_starting = false;
		cruise(sk, now_us);
		return;
	}
	set_window(sk, ca->window + step);
	if (ca->is_starting)
		ca->own = max(ca->own, ca->window);
}

/* Before packets are sent at once. */
static void begin_run(struct sock *sk, enum mode mode)
{
	struct fairwind *ca = inet_csk_ca(sk);

	look_anew(sk);
	ca->mode = mode;
	ca->samples = 0;
	ca->look_start_us = (u32)tcp_sk(sk)->tcp_mstamp;
	ca->run_prior = NONE;
	ca->run_packets = 0;
	ca->is_torn = 0;
	ca->is_sending = 1;
	ca->train_packets = (u8)min(tcp_packets_in_flight(tcp_sk(sk)) + RUN_PACKETS, 255U);
}

/* Window while packets are sent at once, packets. */
static inline u32 run_window(const struct fairwind *ca)
{
	return ca->mode == BURST ? ca->window / PACKET + RUN_PACKETS : ca->train_packets;
}

/*
 * Where only the first window has shown a faster link, its first packet took less time than there was from one of the
 * others to the next. Noise may have made that difference.
 */
static inline bool is_lost_in_noise(const struct fairwind *ca)
{
	u32 apart_us = max(packet_time(ca, ca->free), ca->packet_quarter_us / 4U);

	return 4U * ca->noise_us + packet_time(ca, ca->best) > apart_us;
}

/* After a queue that was its own: RAMP or CRUISE, but first a burst if the link once carried clearly more. */
static void go_on(struct sock *sk, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);

	begin_round(ca, now_us);
	ca->mode = ca->window < ca->free - ca->free / 8 ? RAMP : CRUISE;
	if (ca->best && !ca->is_proven && is_lost_in_noise(ca))
		ca->best = ca->free;
	if (ca->free < ca->best - ca->best / 8 && !ca->is_shared && !ca->is_limited) {
		if (ca->free >= 4 * PACKET && !before(now_us, ca->due_us))
			begin_run(sk, BURST);
	} else {
		ca->burst_wait = 0;
	}
}

/*
 * Jitter that keeps packets in order delays dense ones more than sparse ones: each waits for the one
 * before. This is what it does to packets that are as dense as now.
 */
static inline u32 own_rise_us(const struct fairwind *ca)
{
	u32 share = min(scale(ca->window, 256, ca->own), 256U);

	return ca->rise_us * (share * (512 - share)) >> 16;
}

/* Whether the queues that stayed after the latest cuts, and went with the yields, are all the same. */
static inline void suspect_jitter(struct fairwind *ca, u32 queue_us, u32 tolerated)
{
	if (difference(queue_us, ca->suspect_us) > max(ca->suspect_us / 3U, tolerated / 2))
		ca->suspects = 0;
	else if (ca->suspects < SUSPECTS)
		ca->suspects++;
	ca->suspect_us = short_us(queue_us);
}

/*
 * Whether to keep the window though the queue stayed: it may be jitter. Others would fill the link more
 * and more; if it does not grow for HOLD_LOOKS, the hold is over.
 */
static bool is_holding(struct sock *sk, u32 queue_us, u32 tolerated)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u32 needed = is_noisy(sk, tolerated, 2) ? SUSPECTS_NOISY : SUSPECTS;

	if (ca->suspects < needed || ca->is_congested)
		return false;
	if (!ca->clean) {
		ca->hold_first_us = short_us(queue_us);
		ca->hold_least_us = short_us(queue_us);
	}
	if (queue_us > ca->hold_first_us + max(tolerated, ca->hold_first_us / 4U)) {
		ca->suspects = 0;
		return false;
	}
	ca->hold_least_us = short_us(min((u32)ca->hold_least_us, queue_us));
	if (++ca->clean > HOLD_LOOKS)
		ca->clean = 0;
	return true;
}

/*
 * The queue has not grown while the window was held. What sparse packets wait for is not their own density: the path
 * may have become longer, which trains tell.
 */
static void end_hold(struct sock *sk, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);

	if (ca->window < ca->own / HOLD_DENSE) {
		yield_to_others(sk, 1, now_us);
		ca->due_us = now_us;
		return;
	}
	ca->rise_us = short_us(min((u32)ca->rise_us + ca->hold_least_us, ca->base_us / 2));
	go_on(sk, now_us);
}

/* A look after a cut: is the queue gone? */
static void check(struct sock *sk, u32 queue_us, u32 tolerated, u32 us, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);

	if (queue_us > max(tolerated, ca->cut_queue_us / 2U)) {
		if (is_holding(sk, queue_us, tolerated)) {
			if (!ca->clean)
				end_hold(sk, now_us);
			return;
		}
		suspect_jitter(ca, queue_us, tolerated);
		doubt_free(sk, ca->free);
		yield_to_others(sk, 2, now_us);
		return;
	}
	go_on(sk, now_us);
	if (ca->mode == CRUISE)
		grow(sk, us);
}

static void begin_train(struct sock *sk)
{
	struct fairwind *ca = inet_csk_ca(sk);

	if (ca->is_fair) {
		begin_run(sk, TRAIN);
		return;
	}
	look_anew(sk);
	ca->mode = TRAIN;
	ca->train_packets = (u8)min(max(ca->own / PACKET / 4, 8U), 16U);
	ca->first_sum_us = 0;
	ca->second_sum_us = 0;
	ca->first_samples = 0;
	ca->second_samples = 0;
	ca->least_us = NONE;
	ca->train_lost = tcp_sk(sk)->lost;
}

/*
 * A queue grows and goes over several looks, noise goes back and forth: what counts is the smaller of two
 * opposite changes in a row. One large change counts as no more than about four times the mean.
 */
static void learn_noise(struct fairwind *ca, u32 queue_us)
{
	u32 last = ca->last_queue_us, prior = ca->prior_queue_us;
	u32 change = 0;

	if ((last > prior) == (last > queue_us))
		change = min(difference(last, prior), difference(last, queue_us));
	change = min(change, min(4U * ca->noise_us + 100, NOISE_MAX_US));
	if (change > ca->noise_us)
		ca->noise_us += (change - ca->noise_us + 7) / 8;
	else
		ca->noise_us -= (ca->noise_us - change + 15) / 16;
}

/*
 * How much later than ever before the packet came to the receiver by its time stamps, 16 us. The base delay may be
 * known from others: then the first packet has waited for what it took more, on the way forward as far as is known.
 */
static u16 forward_change(struct sock *sk, u32 tsval, u32 rtt_us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u16 forward = (u16)((tsval * STAMP_US - ((u32)tcp_sk(sk)->tcp_mstamp - rtt_us)) / 16);

	if (!ca->has_forward)
		ca->forward_base = forward - min(rtt_us - min(ca->base_us, rtt_us), 1U << 18) / 16;
	else if ((short)(forward - ca->forward_base) < 0)
		ca->forward_base = forward;
	ca->has_forward = true;
	return forward - ca->forward_base;
}

/*
 * The largest part of the queue that can be on the way forward. Time stamps have milliseconds: the least of
 * a look is early by up to one, the more samples the more, and the base by all of it. The base rises, because
 * clocks drift; connections that look together have one each.
 */
static u32 forward_at_most(struct fairwind *ca, u32 us, u32 now_us)
{
	if (ca->forward && now_us % DRIFT_US < us)
		ca->forward_base += senders(ca);
	return ca->forward * 16U + 16;
}

/* A look, of length us, has ended. */
static void judge(struct sock *sk, u32 look_us, u32 us, bool is_used, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u32 queue_us, tolerated;
	bool is_queued;

	if (ca->base_us == NONE)
		ca->syn_saves_us = short_us(look_us - min(tcp_min_rtt(tcp_sk(sk)), look_us));
	if (look_us < ca->base_us)
		set_base(ca, look_us);
	queue_us = look_us - ca->base_us;
	if (ca->mode == CRUISE && queue_us < ca->rise_us && ca->window >= ca->own - ca->own / 8)
		ca->rise_us -= (ca->rise_us - queue_us) / 8;
	queue_us -= min(queue_us, own_rise_us(ca));
	tolerated = cc_opaque(tolerated_us(sk));
	if (ca->has_forward)
		queue_us = min(queue_us, forward_at_most(ca, us, now_us));
	if (queue_us <= tolerated && !ca->is_fair) {
		if (ca->mode == YIELD)
			put_off_train(ca, now_us);
		ca->flat = 0; /* the base is right */
	}
	/* A small queue may be a burst of this look alone, or noise. */
	ca->warned = queue_us > tolerated ? min(ca->warned + 1, LOOKS_NOISIEST) : 0;
	is_queued = queue_us > large_us(ca, tolerated) || ca->warned >= looks_needed(sk, tolerated);
	queue_us = cc_opaque(queue_us);
	is_queued = cc_opaque(is_queued);
	switch (ca->mode) {
	case RAMP:
		if (ca->window < ca->own / 4)
			learn_noise(ca, queue_us);
		if (is_queued)
			cut(sk, queue_us, tolerated, now_us);
		else if (is_used && !ca->warned)
			ramp(sk, us, now_us);
		break;
	case CRUISE:
		learn_noise(ca, queue_us);
		if (is_queued) {
			cut(sk, queue_us, tolerated, now_us);
			break;
		}
		ca->train_wait = 0;
		if (now_us - ca->round_start_us >= ca->base_us) {
			ca->window_before = ca->window_then;
			ca->window_then = ca->window;
			ca->round_start_us = now_us;
		}
		if (!is_used || ca->warned || is_losing(ca))
			break;
		ca->clean = min(ca->clean + 1, 255);
		grow(sk, us);
		ca->own = max(ca->own, ca->window);
		break;
	case CHECK:
		check(sk, queue_us, tolerated, us, now_us);
		break;
	case YIELD:
		/* The queue of others that fill the link does not go between two looks. */
		if (min(queue_us, (u32)min(ca->last_queue_us, ca->prior_queue_us)) <= tolerated)
			learn_noise(ca, queue_us);
		if (queue_us > tolerated) {
			yield_to_others(sk, 4, now_us);
		} else if (!ca->is_fair) {
			bool is_rare = us > 2 * ca->base_us;

			if (!ca->clean)
				ca->round_start_us = now_us - us;
			ca->clean = min(ca->clean + 1, 255);
			if ((ca->clean < 2 && !is_rare) ||
			    now_us - ca->round_start_us < param(sk, quiet) * ca->base_us)
				break;
			ca->clean = 0;
			/* What is tolerated may hide a longer route: it has come back in vain. */
			if (ca->suspects &&
			    queue_us > min(tolerated - pair_us(ca), tolerated - tolerated / 4)) {
				ca->due_us = now_us;
				break;
			}
			come_back(sk, now_us);
			ca->free = max(ca->free, scale(ca->own, param(sk, belief), RAMP_LEAST));
			ramp(sk, us, now_us);
		}
		break;
	}
	ca->prior_queue_us = ca->last_queue_us;
	ca->last_queue_us = short_us(queue_us);
}

/*
 * If the link is full, each packet of the train adds its time on the link to the queue, and the second
 * half's delay is half the train's time on the link above the first half's.
 */
static bool is_flat(struct sock *sk)
{
	const struct fairwind *ca = inet_csk_ca(sk);
	u32 first = ca->first_sum_us / max((u32)ca->first_samples, 1U);
	u32 second = ca->second_sum_us / max((u32)ca->second_samples, 1U);

	return ca->first_samples && ca->second_samples && tcp_sk(sk)->lost == ca->train_lost &&
	       second < first + ca->train_packets * packet_us(ca) / 8;
}

/* An ACK while a train is on its way. rtt_us is 0 if it shows no delay. */
static void watch_train(struct sock *sk, const struct rate_sample *rs, u32 rtt_us, u32 now_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	u32 packets = ca->train_packets;
	u32 delivered = tp->delivered - ca->after;

	if (rtt_us && !before(rs->prior_delivered, ca->after) && rtt_us < 1U << 24) {
		if (delivered <= packets / 2) {
			ca->first_sum_us += rtt_us;
			ca->first_samples++;
		} else {
			ca->second_sum_us += rtt_us;
			ca->second_samples++;
		}
		ca->least_us = min(ca->least_us, rtt_us);
	}
	if (delivered + 1 < packets && (tcp_packets_in_flight(tp) || !ca->first_samples))
		return;
	look_anew(sk);
	ca->mode = YIELD;
	if (is_flat(sk)) {
		/* A queue of others changes from one train to the next; a route does not. */
		if (difference(ca->least_us, ca->flat_base * 16U) >
		    2 * packet_us(ca) + ca->base_us / 256)
			ca->flat = 0;
		ca->flat_base = short_us(ca->least_us / 16);
		if (++ca->flat < TRAINS_FLAT) {
			begin_train(sk);
		} else {
			set_base(ca, ca->least_us);
			/* Nobody was there. */
			ca->free = max(ca->free, ca->own);
			ca->has_forward = false;
			ca->flat = 0;
			ca->train_wait = 0;
			come_back(sk, now_us);
			/* They had this rate. */
			set_window(sk, max(ca->window, ca->own / 2));
		}
	} else {
		u32 least_us = min(own_packet_us(ca), TRAIN_GAP_MAX_US / TRAIN_SHARE / 16) *
			       TRAIN_SHARE * packets;

		ca->flat = 0;
		ca->suspects = 0;
		ca->train_wait = min(ca->train_wait + 1, TRAIN_WAIT_MAX);
		ca->due_us = now_us + max(TRAIN_GAP_US << ca->train_wait, least_us);
	}
}

/*
 * Follows packets that are sent at once by what had been delivered then, which is the same for all.
 * True when no more of them will come.
 */
static bool watch_run(struct sock *sk, const struct rate_sample *rs, u32 now_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);

	/* A pair may be missing: the pacing that goes on holds half of it back. */
	if (tp->packets_out + RUN_PACKETS / 2 >= run_window(ca))
		ca->is_sending = 0;
	if (rs->losses > 0 || tp->sacked_out) {
		ca->run_prior = NONE;
		ca->run_packets = 0;
	}
	if (rs->losses > 0 && !before(rs->prior_delivered, ca->after))
		ca->is_torn = 1;
	if (!rs->prior_mstamp || before(rs->prior_delivered, ca->after))
		return now_us - ca->look_start_us > 4 * ca->base_us + RUN_TIMEOUT_US;
	ca->is_sending = 0;
	if (rs->prior_delivered == ca->run_prior) {
		ca->run_packets = (u8)min(ca->run_packets + rs->acked_sacked, 255U);
		ca->run_gap_us = max(ca->run_gap_us, short_us(now_us - ca->run_end_us));
		ca->run_end_us = now_us;
	} else if (ca->run_packets >= RUN_LEAST) {
		return true;
	} else {
		ca->run_prior = rs->prior_delivered;
		ca->run_packets = 0;
		ca->run_us = now_us;
		ca->run_end_us = now_us;
		ca->run_gap_us = 0;
		ca->run_rtt_us = (u32)max(rs->rtt_us, 0LL);
		ca->run_first = (u8)min(max(rs->acked_sacked, 1U), 127U);
	}
	return !tcp_packets_in_flight(tp) ||
	       !before(rs->prior_delivered, ca->after + run_window(ca));
}

/* Time from one packet of the run to the next, us; 0: unknown, as where one gap is half of it, or packets are lost. */
static inline u32 run_packet_us(const struct fairwind *ca)
{
	if (ca->run_packets < RUN_LEAST || ca->is_torn ||
	    ca->run_gap_us > (ca->run_end_us - ca->run_us) / 2)
		return 0;
	return max((ca->run_end_us - ca->run_us) / ca->run_packets, 1U);
}

/*
 * A run that comes back faster than the link was believed to be shows that it is. It has to come evenly, as a link sends:
 * ACKs that were held are closer together, too.
 */
static inline void raise_best(struct fairwind *ca, u32 us)
{
	if (us && us < packet_time(ca, ca->best) && ca->run_gap_us <= RUN_EVEN * us)
		ca->best = scale(ca->base_us, PACKET, us);
}

static void yield_behind_fair_queueing(struct sock *sk, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);

	yield_to_others(sk, 2, now_us);
	set_window(sk, 0);
	ca->is_fair = 1;
	ca->fast = 0;
	ca->flat = 0;
	ca->burst_wait = 0;
}

/*
 * Time of a packet when the link carried the most. What several connections have in flight says little of it where that
 * is a few packets: it is no less than what the first window has shown, or the SYN, where hosts are not late by as much.
 */
static inline u32 best_packet_us(const struct fairwind *ca)
{
	u32 us = packet_time(ca, ca->best);

	if (ca->members < 2)
		return us;
	us = max(us, ca->packet_quarter_us / 4U);
	return ca->syn_saves_us > 10 * HOST_LATE_US ? max(us, (u32)ca->syn_saves_us) : us;
}

static void put_off_fair_train(struct fairwind *ca, u32 now_us)
{
	u32 least_us = FAIR_GAP_PACKETS * min(packet_time(ca, ca->best), 1U << 20);

	ca->due_us = now_us + max(least_us, FAIR_GAP_US);
}

/* An ACK while a burst is on its way. */
static void watch_burst(struct sock *sk, const struct rate_sample *rs, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u32 best_us, free_us, more_us, us;

	if (!watch_run(sk, rs, now_us))
		return;
	us = run_packet_us(ca);
	look_anew(sk);
	/* Packets after the burst were sent when it had left the queue. */
	if (us)
		ca->after = rs->prior_delivered;
	best_us = best_packet_us(ca);
	free_us = max(packet_time(ca, ca->free), best_us);
	more_us = best_us / 3;
	/* What others between these hosts have in flight makes windows inexact. */
	if (ca->members < 2)
		more_us = min(more_us, (free_us - best_us) / 2);
	if (us > best_us + more_us && (us - best_us) * ca->run_packets > tcp_sk(sk)->mdev_us / 8) {
		/* Noise may do that, or others between these hosts, but seldom twice. */
		if (!ca->is_slow && (2U * ca->noise_us > best_us || ca->members > 1)) {
			ca->is_slow = 1;
			ca->due_us = now_us;
			go_on(sk, now_us);
			return;
		}
		yield_behind_fair_queueing(sk, now_us);
		put_off_fair_train(ca, now_us);
		return;
	}
	ca->is_slow = 0;
	raise_best(ca, us);
	if (us && us < free_us / 3 && us < best_us + best_us / 6 && !ca->was_fair)
		ca->burst_wait = max((u8)ca->burst_wait, (u8)BURST_WAIT_ONE_QUEUE);
	ca->burst_wait = min(ca->burst_wait + 1, ca->was_fair ? BURST_WAIT_FAIR : BURST_WAIT_MAX);
	put_off_burst(ca, now_us);
	go_on(sk, now_us);
}

/* Nobody takes turns any more, or nobody ever has. */
static void leave_fair(struct sock *sk, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);

	ca->flat = 0;
	ca->is_fair = 0;
	come_back(sk, now_us);
}

/*
 * The link is slower than was believed: a packet takes us on it. If only the first window has said more, it
 * is what has been carried.
 */
static void prove_best(struct fairwind *ca, u32 us)
{
	ca->best = ca->is_proven ? scale(ca->base_us, PACKET, us) : ca->free;
	ca->is_proven = 1;
}

/*
 * An ACK while a train behind fair queueing is on its way. The first packet of an idle flow waits for
 * none of the others, but only for the one on the link. So if others take turns, it takes less time
 * than there is from each of the following to the next, and if the link is slower, as much.
 */
static void watch_fair_train(struct sock *sk, const struct rate_sample *rs, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u32 best_us = best_packet_us(ca);
	u32 us, first_us, empty_us, early_us;
	bool is_fast, is_late;

	if (!watch_run(sk, rs, now_us))
		return;
	us = run_packet_us(ca);
	look_anew(sk);
	ca->mode = YIELD;
	put_off_fair_train(ca, now_us);
	if (!us) {
		/* On this path it cannot be told who takes turns. A buffer that does not hold them is no queue of
		 * the sender's own. */
		ca->flat += ca->is_torn ? TRAINS_SLOW / 2 : 1;
		if (ca->flat >= TRAINS_SLOW)
			leave_fair(sk, now_us);
		return;
	}
	empty_us = ca->base_us - min(max(best_us, (u32)ca->syn_saves_us), ca->base_us);
	empty_us += (ca->run_first - 1U) * us;
	first_us = ca->run_rtt_us - min(empty_us, ca->run_rtt_us);
	is_fast = us < best_us + best_us / 3;
	/* It has waited in a queue with others. */
	is_late = first_us > us + us / 4;
	if (!is_late)
		raise_best(ca, us);
	/* Trains of the kind may have met. */
	if ((is_fast || is_late) && ++ca->fast < TRAINS_FAST) {
		ca->due_us = now_us + 4 * ca->base_us;
		return;
	}
	ca->fast = 0;
	if (first_us < us / 2)
		ca->was_fair = 1;
	if (is_fast || is_late) {
		if (!is_fast)
			prove_best(ca, us);
		ca->free = max(ca->free, min(scale(ca->base_us, PACKET, us), ca->best));
	} else {
		/* A link that only the first window has shown may have been an error. */
		early_us = ca->is_proven ? us - (us - best_us) / 4 - min(us / 16, HOST_NOISE_US) :
					   us / 3 * 2;
		if (first_us > early_us)
			ca->flat++;
		else
			ca->flat =
				ca->is_proven ? 0 : max((u32)ca->flat, TRAINS_EARLY) - TRAINS_EARLY;
		/* No turn is as long as all of them. */
		if (!ca->is_proven && first_us > us + us / 8) {
			ca->flat = min(ca->flat + TRAINS_SLOW / 2 - 1, TRAINS_SLOW);
			ca->due_us = now_us + 4 * ca->base_us;
		}
		if (ca->flat < TRAINS_SLOW)
			return;
		prove_best(ca, us);
		ca->free = ca->best;
		ca->was_fair = 0;
	}
	leave_fair(sk, now_us);
}

/*
 * Packets that were sent at once (TSO) come back as far apart as the link sends them. By as much as hosts are late, each
 * group of them is wrong, and so is the first window. In the start, where the first window has shown packets that take
 * less time than that, longer groups correct it by a quarter, and later each by a little, so that half of them are longer.
 */
static void learn_packet_time(struct fairwind *ca, u32 now_us)
{
	u32 us = (u16)(ca->group_last - ca->group_first);
	u32 packets = ca->group_packets;
	u32 known = ca->packet_quarter_us;
	u32 quarter_us, step;

	if (packets < RUN_LEAST || us < HOST_LATE_US || 16U * ca->group_gap > us / 2)
		return;
	quarter_us = us * 4 / packets;
	if (ca->is_starting) {
		if (known >= 4 * HOST_LATE_US || packets < RUN_PACKETS)
			return;
		ca->packet_quarter_us = short_us((3 * known + quarter_us + 2) / 4);
		ca->free = min(ca->free, max(scale(4 * ca->base_us, PACKET, ca->packet_quarter_us),
					     ca->window));
		return;
	}
	/* What hosts do not explain is of others who take turns, or noise. */
	if (difference(us, packets * known / 4) >
	    HOST_LATE_US + HOST_LATE_US * packets / RUN_PACKETS)
		return;
	/* By what is not whole with as much chance. */
	step = (known + now_us % PACKET_STEP) / PACKET_STEP;
	quarter_us = max(quarter_us, known - min(step, known));
	ca->packet_quarter_us = short_us(min(quarter_us, known + step));
}

/* Follows packets that were sent at once, in RAMP and CRUISE. */
static void watch_groups(struct sock *sk, const struct rate_sample *rs, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u16 sent = (u16)(now_us - (u32)rs->rtt_us);

	if (ca->base_us == NONE || !ca->packet_quarter_us || rs->rtt_us <= 0 || rs->is_retrans ||
	    tcp_sk(sk)->sacked_out)
		return;
	if (sent != ca->group_sent) {
		learn_packet_time(ca, now_us);
		ca->group_sent = sent;
		ca->group_first = (u16)now_us;
		ca->group_packets = 0;
		ca->group_gap = 0;
	} else {
		u32 gap = (u16)((u16)now_us - ca->group_last) / 16U;

		ca->group_packets = (u8)min(ca->group_packets + rs->acked_sacked, 255U);
		ca->group_gap = (u8)max((u32)ca->group_gap, min(gap, 255U));
	}
	ca->group_last = (u16)now_us;
}

/* How far apart the first window's packets arrive is, roughly, a packet's time on the link. */
static void watch_first_window(struct sock *sk, u32 rtt_us, u32 now_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	u32 packets, us, each_us, first_us, waited_us = 0;

	if (!rtt_us)
		return;
	if (cc_tsval(tp))
		waited_us = forward_change(sk, cc_tsval(tp), rtt_us) * 16U;
	if (!ca->first_ack_us) {
		ca->first_ack_us = now_us;
		ca->first_delivered = tp->delivered;
		ca->first_last_us = now_us;
		return;
	}
	ca->first_gap_us = max(ca->first_gap_us, now_us - ca->first_last_us);
	ca->first_last_us = now_us;
	packets = tp->delivered - ca->first_delivered;
	us = now_us - ca->first_ack_us;
	if (packets < 4 || !us)
		return;
	/* The latest has waited behind the others, unless it was sent after them. */
	rtt_us -= min(us, rtt_us);
	if (rtt_us < tcp_min_rtt(tp))
		return;
	/* A queue on the way back brings ACKs closer together than the packets came. */
	waited_us -= min(waited_us, STAMP_US);
	us = max(us, waited_us);
	ca->free = (u32)min((u64)packets * PACKET * rtt_us / us, 1ULL << 26);
	ca->packet_quarter_us = (u16)min(us * 4 / packets, 65000U);
	/* Behind fair queueing the first of them has shown the link's own rate. */
	each_us = us / packets;
	first_us = tcp_min_rtt(tp) + max(ca->first_delivered, 1U) * each_us - each_us;
	first_us = rtt_us + each_us - min(first_us, rtt_us + each_us);
	if (us > waited_us && first_us + FIRST_SAVES_US < each_us && first_us < each_us / 4 * 3 &&
	    ca->first_gap_us < us / 2) {
		ca->best = scale(rtt_us, PACKET, max(first_us, each_us / 16));
		/* What delays one of them by half as much may have delayed the answer to the SYN. */
		if (ca->first_gap_us > each_us + (each_us - first_us) / 2)
			ca->due_us = now_us + UNEVEN_WAIT_US;
	}
}

/*
 * A packet that is lost behind more queue than this is lost behind a queue: half of what losses come with. It asks
 * neither for the queue tolerated nor for the noise, which may be more than a small buffer holds.
 */
static inline u32 loss_queue_least_us(struct sock *sk)
{
	const struct fairwind *ca = inet_csk_ca(sk);

	if (!ca->loss_queue_us)
		return tolerated_us(sk);
	return max(ca->loss_queue_us / 2U, packet_us(ca) / 2 + HOST_NOISE_US);
}

/* Losses beyond any path's own are answered whatever they come with, as behind a policer. */
static void answer_many_losses(struct sock *sk, u32 acked, u32 lost)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	u32 share;

	ca->epoch_acked += acked;
	ca->epoch_lost += lost;
	if ((u32)ca->epoch_acked + ca->epoch_lost <
	    min(max(ca->window / PACKET, LOSS_EPOCH), EMPTY_MAX))
		return;
	share = scale(ca->epoch_lost, 65536, ca->epoch_acked + ca->epoch_lost);
	ca->epoch_acked = 0;
	ca->epoch_lost = 0;
	if (share <= LOSS_BORNE || ca->mode == TRAIN || ca->mode == BURST ||
	    before(tp->delivered, ca->reduce_after))
		return;
	/* Once a window, less is sent by four times what is too much. */
	share = min(4 * (share - LOSS_BORNE), 32768U);
	set_window(sk, scale(ca->window, 65536 - share, 65536));
	ca->free = ca->window;
	ca->own = max(ca->own - ca->own / 8, ca->window);
	ca->is_starting = false;
	ca->clean = 0;
	ca->reduce_after = tp->delivered + max(tcp_packets_in_flight(tp), own_share(ca) / PACKET);
}

/* Counts packets with a queue and without one apart. Old ones count less and less. */
static void count_losses(struct fairwind *ca, bool is_queued, u32 acked, u32 lost)
{
	if (is_queued) {
		ca->acked_queued += acked;
		ca->lost_queued += lost * LOSS_PARTS;
	} else {
		ca->acked_empty += acked;
		ca->lost_empty += lost * LOSS_PARTS;
	}
	if (ca->acked_queued > QUEUED_MAX || ca->lost_queued > QUEUED_MAX) {
		ca->acked_queued /= 2;
		ca->lost_queued /= 2;
	}
	if (ca->acked_empty > EMPTY_MAX || ca->lost_empty > EMPTY_MAX) {
		ca->acked_empty /= 2;
		ca->lost_empty /= 2;
	}
}

/* Whether the share of packets lost with a queue is more than three times that without one. */
static inline bool losses_come_with_queues(const struct fairwind *ca)
{
	/* On a path that loses packets without a queue too, one with a queue may be chance. */
	u64 signs = ca->lost_queued - min(ca->lost_queued, min((u32)ca->lost_empty, LOSS_PARTS));

	return signs * (ca->acked_empty + 50U) >
	       3ULL * (ca->lost_empty + LOSS_PARTS) * (ca->acked_queued + 1U);
}

/*
 * About the largest queue of the latest ACKs: a small buffer that was full when it dropped a packet may be half
 * empty when the next one comes back. Where packets overtake each other, what has been overtaken is taken for
 * lost, behind whatever queue: there it is the queue of this ACK.
 */
static inline u32 recent_queue_us(struct sock *sk, u32 queue_us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u32 recent_us = ca->recent_queue_us - ca->recent_queue_us / 4U;

	ca->recent_queue_us = short_us(max(queue_us, recent_us));
	return tcp_sk(sk)->reord_seen ? queue_us : ca->recent_queue_us;
}

/* Whether the ACK shows a loss to which the window must answer: of a full buffer. */
static bool judge_losses(struct sock *sk, const struct rate_sample *rs, u32 rtt_us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u32 acked = min(rs->acked_sacked, 1000U);
	u32 lost = min((u32)max(rs->losses, 0), 1000U);
	u32 queue_us;
	bool is_queued;

	answer_many_losses(sk, acked, lost);
	/* The rest of the losses that have been answered say nothing new. */
	if (!rtt_us || ca->base_us == NONE || before(tcp_sk(sk)->delivered, ca->reduce_after))
		return false;
	/* A burst may be more than the buffer holds: its losses say nothing of how full it usually is. */
	if (ca->mode == BURST || (ca->mode == TRAIN && ca->is_fair))
		return false;
	queue_us = rtt_us - min(ca->base_us, rtt_us);
	is_queued = recent_queue_us(sk, queue_us) > loss_queue_least_us(sk);
	/* Many at once say no more than one: a full buffer drops them together, and so does a path. */
	lost = min(lost, 1U);
	count_losses(ca, is_queued, acked, lost);
	if (!lost)
		return false;
	ca->is_congested = losses_come_with_queues(ca);
	if (ca->loss_queue_us)
		ca->loss_queue_us =
			short_us(ca->loss_queue_us - ca->loss_queue_us / 8U + queue_us / 8);
	else
		ca->loss_queue_us = short_us(queue_us);
	return is_queued && ca->is_congested && ca->mode != TRAIN;
}

static void answer_loss(struct sock *sk, const struct rate_sample *rs, u32 now_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	u32 was = ca->window;

	doubt_free(sk, ca->free ? min(ca->free, was) : was);
	if (ca->is_starting) {
		withdraw_jump(sk);
		/* The start may have gone far beyond the link; at its pace, half of this was carried. */
		u32 packets = min((u32)max(rs->delivered, 1), 1U << 20);
		u32 us = (u32)min(max(rs->interval_us, 1LL), 1LL << 30);

		ca->own = min(ca->free, scale(2 * packets * PACKET, ca->base_us, us));
	}
	set_window(sk, min(was, ca->free) / 2);
	ca->is_starting = false;
	ca->mode = YIELD;
	put_off_train(ca, now_us);
	look_anew(sk);
	ca->reduce_after = tp->delivered + max(tcp_packets_in_flight(tp), was / PACKET);
}

/* Time until all connections have changed their windows, each at its next ACK, us. */
static inline u32 adoption_us(const struct fairwind *ca)
{
	if (ca->members < 2 || ca->base_us == NONE || !is_even(ca))
		return 0;
	return min(scale(ca->base_us, 2 * PACKET, own_share(ca)), ca->base_us);
}

/* Whether the connection's part of the window limits it. If not, an empty queue says nothing of a larger one. */
static inline bool is_window_used(struct sock *sk, const struct rate_sample *rs)
{
	u32 share = own_share(inet_csk_ca(sk));

	return !rs->is_app_limited &&
	       (share < 4 * PACKET || tcp_sk(sk)->max_packets_out >= share / (2 * PACKET));
}

/*
 * The longest that a receiver holds selective acknowledgements back, so that one tells of several packets: as much of
 * a delay may be of no queue. Linux does so for a twentieth of the round trip (tcp_ack_snd_check). Where losses are
 * congestion, it may be what a small buffer holds, and counts.
 */
static inline u32 held_us(struct sock *sk, u32 rtt_us)
{
	const struct fairwind *ca = inet_csk_ca(sk);

	if (!tcp_sk(sk)->sacked_out || ca->base_us == NONE || rtt_us <= ca->base_us ||
	    (ca->loss_queue_us && ca->is_congested))
		return 0;
	return min(min(ca->base_us / 20, SACK_HELD_MAX_US), rtt_us - ca->base_us);
}

/* Takes a sample into the look, and judges it when the look is over. */
static void look(struct sock *sk, const struct rate_sample *rs, u32 rtt_us, u32 now_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	u32 tsval = cc_tsval(tp);
	u32 us, round_us;

	if (before(rs->prior_delivered, ca->after))
		return;
	if (ca->look_us == NONE) {
		/* Few samples say little by milliseconds: those of the look before count, too, less and less. */
		if (ca->mode == YIELD && ca->samples && ca->samples < SAMPLES)
			ca->forward = (u16)min(ca->forward + FORWARD_FADES, 65535U);
		else
			ca->forward = (u16)~0U;
		ca->samples = 0;
		ca->look_start_us = now_us;
	}
	/* What the receiver has held back is before its time stamp. */
	if (tsval)
		ca->forward = min(ca->forward, forward_change(sk, tsval, rtt_us));
	ca->look_us = min(ca->look_us, rtt_us - held_us(sk, rtt_us));
	ca->samples = min(ca->samples + 1U, SAMPLES);
	us = now_us - ca->look_start_us;
	round_us = ca->base_us == NONE ? rtt_us : ca->base_us;
	/* One sample of a noisy path says little. */
	if ((us >= max(round_us / LOOKS, adoption_us(ca)) && ca->samples >= SAMPLES) ||
	    us >= (ca->mode != YIELD && ca->noise_us > packet_us(ca) ? SAMPLES * round_us :
								       round_us)) {
		u32 least_us = cc_opaque(ca->look_us);

		ca->look_us = NONE;
		judge(sk, least_us, us, is_window_used(sk, rs), now_us);
	}
}

/*
 * What the way back delays the packets of this look beyond the base, us, as far as their time stamps show it, whose base
 * rises where noise lets few packets through without delay.
 */
static inline u32 backward_us(const struct fairwind *ca)
{
	u32 forward_us = ca->forward * 16U + STAMP_US + 4U * ca->noise_us;

	if (!ca->has_forward || ca->base_us == NONE || ca->look_us == NONE ||
	    ca->look_us <= ca->base_us + forward_us)
		return 0;
	return min(ca->look_us - ca->base_us - forward_us, BACKWARD_MOST * ca->base_us);
}

static void send(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	u32 rtt_us = ca->base_us == NONE ? max(tp->srtt_us >> 3, 1000U) : ca->base_us;

	if (ca->is_leader &&
	    ((ca->mode == BURST && ca->is_sending) || (ca->mode == TRAIN && ca->is_fair))) {
		tp->snd_cwnd = max(min(run_window(ca), tp->snd_cwnd_clamp), 1U);
		sk->sk_pacing_rate = sk->sk_max_pacing_rate;
	} else if (ca->mode == TRAIN && ca->is_leader) {
		u32 delivered = min(tp->delivered - ca->after, ca->train_packets - 1U);

		tp->snd_cwnd = max(min(ca->train_packets - delivered, tp->snd_cwnd_clamp), 1U);
		sk->sk_pacing_rate =
			min(window_rate(sk, ca->own / 2, rtt_us), (u64)sk->sk_max_pacing_rate);
	} else {
		u32 share = own_share(ca);
		u32 more = scale(share, backward_us(ca), rtt_us) / PACKET;

		set_fine_window(sk, share, rtt_us);
		/* The rate is that of the window; what waits on the way back is in flight besides. */
		if (share >= 4 * PACKET)
			tp->snd_cwnd = min(tp->snd_cwnd + more, tp->snd_cwnd_clamp);
		if (ca->is_eased && before(tp->delivered, ca->reduce_after))
			sk->sk_pacing_rate -= sk->sk_pacing_rate / 8;
		else
			ca->is_eased = 0;
	}
	tp->snd_ssthresh = max(tp->snd_cwnd, 2U);
}

/*
 * From another control, in mid-connection: what is in flight is scaled to what the path carries of it,
 * as after any queue, and the first look says whose queue there is.
 */
static void take_over(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	u32 rtt_us = tp->srtt_us >> 3;
	u32 in_flight = min(min(tcp_packets_in_flight(tp), tp->snd_cwnd), 1U << 20);

	ca->base_us = max(min(tcp_min_rtt(tp), rtt_us), 1U);
	ca->window = max(scale(in_flight * PACKET, ca->base_us, rtt_us), FINE_WINDOW);
	/* The least may be that of the SYN, which takes less time on the link than a full packet. */
	ca->syn_saves_us = short_us(scale(ca->base_us, PACKET, ca->window));
	ca->base_us += ca->syn_saves_us;
	ca->own = ca->window;
	ca->free = ca->window;
	ca->is_starting = false;
	ca->mode = CHECK;
	ca->cut_queue_us = short_us(rtt_us - min(ca->base_us, rtt_us));
}

/* The base delay, as far as it is known, and no more than what connections are counted for. */
static inline u32 bounded_base_us(const struct fairwind *ca)
{
	return min(ca->base_us, COUNT_US);
}

/*
 * Counts the connections that send. One that has nothing left to send leaves, and comes back with its next ACK. Who has
 * gone without a word is missing when those are counted of which there are ACKs.
 */
static inline void count_members(struct sock *sk, struct fairwind_path *path, bool is_leaving)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u32 now_us = (u32)tcp_sk(sk)->tcp_mstamp;

	if (now_us - path->count_us > max(COUNT_US, 4 * bounded_base_us(ca))) {
		ca->members = path->heard;
		path->heard = 0;
		path->count_us = now_us;
		path->round++;
	}
	if (ca->seen_round != (path->round & 3)) {
		ca->seen_round = path->round;
		path->heard += path->heard < MEMBERS_MAX;
	}
	if (!ca->is_member)
		ca->members += ca->members < MEMBERS_MAX;
	ca->members = max((u8)ca->members, path->heard);
	ca->is_member = 1;
	if (is_leaving) {
		ca->members -= ca->members > 0;
		path->heard -= path->heard > 0;
		ca->seen_round = path->round - 1U;
		ca->is_member = 0;
	}
	if (ca->members < 2)
		ca->is_limited = 0;
}

/* A leader of which there has been no ACK for so long has nothing to send, us. */
static inline u32 silent_us(const struct fairwind *ca)
{
	u32 base_us = bounded_base_us(ca);
	u32 us = 4 * base_us + 2 * ACK_DELAY_US;

	if (ca->mode == TRAIN || ca->mode == BURST)
		return us + RUN_TIMEOUT_US;
	return us + min(scale(8 * base_us, PACKET, ca->window), RUN_TIMEOUT_US);
}

/*
 * Whether this connection may lead next. The lead goes round by the ids, but one of which there is no ACK just now is
 * passed over.
 */
static inline bool may_lead_next(const struct fairwind_path *path, const struct fairwind *ca,
				 u32 now_us)
{
	u32 lead_us = max(LEAD_ROUNDS * bounded_base_us(ca), LEAD_US);
	u32 us = now_us - path->lead_us;
	u32 ahead = (ca->id + MEMBERS_MAX - path->leader) % MEMBERS_MAX;

	if (now_us - path->heard_us > silent_us(ca))
		return true;
	/* What the leader tries must end. A yielding sender sends too little for it to matter who does. */
	if (ca->mode == YIELD || ca->mode == TRAIN || ca->mode == BURST)
		return false;
	if (path->next && now_us - path->next_us < lead_us)
		return false;
	return us > lead_us && us - lead_us >= lead_us / MEMBERS_MAX * (ahead - min(ahead, 1U));
}

/* Its part has become larger: before it has sent that once, no ACKs tell it when to send. */
static inline void ease(struct sock *sk)
{
	struct fairwind *ca = inet_csk_ca(sk);

	ca->is_eased = 1;
	ca->reduce_after = tcp_sk(sk)->delivered + own_share(ca) / PACKET;
}

static void take_lead(struct sock *sk, struct fairwind_path *path, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);

	path->leader = ca->id;
	path->next = 0;
	path->lead_us = now_us;
	path->heard_us = now_us;
	ca->is_leader = 1;
	ca->is_next = 0;
	ca->after = tcp_sk(sk)->delivered;
	ca->look_us = NONE;
	if (!is_even(ca))
		ease(sk);
	if (ca->mode == TRAIN)
		ca->mode = YIELD;
	else if (ca->mode == BURST)
		ca->mode = CHECK;
}

/*
 * Passes the lead on. What the next leader is to send next has been put off by its rate until now: it leads from the
 * first ACK for what it has sent since it knows.
 */
static void pass_lead(struct sock *sk, struct fairwind_path *path, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	u32 now_us = (u32)tp->tcp_mstamp;

	ca->is_leader = path->leader == ca->id;
	ca->is_next = path->next == ca->id || (ca->is_leader && path->next);
	if (ca->seen_change != (path->changes & 3)) {
		ca->seen_change = path->changes;
		ca->after = tp->delivered;
		if (ca->mode == YIELD)
			ca->reduce_after = tp->delivered + tcp_packets_in_flight(tp);
	}
	if (ca->is_leader) {
		path->heard_us = now_us;
	} else if (ca->is_next) {
		if (rs && !before(rs->prior_delivered, ca->after))
			take_lead(sk, path, now_us);
	} else if (rs && may_lead_next(path, ca, now_us)) {
		if (is_even(ca)) {
			take_lead(sk, path, now_us);
			return;
		}
		path->next = ca->id;
		path->next_us = now_us;
		ca->is_next = 1;
		ca->after = tp->delivered;
	}
}

/* Where one alone cannot use the window for some rounds, as by its application or its receiver, all send. */
static void watch_use(struct sock *sk, struct fairwind_path *path, const struct rate_sample *rs,
		      u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u32 base_us = bounded_base_us(ca);

	if (is_even(ca) || (ca->mode != CRUISE && !ca->is_starting) || is_window_used(sk, rs))
		path->filled_us = now_us;
	else if (ca->members > 1 && ca->window >= ca->members * EVEN_SHARE &&
		 now_us - path->lead_us > LIMITED_ROUNDS / 2 * base_us &&
		 now_us - path->filled_us > LIMITED_ROUNDS * base_us)
		ca->is_limited = 1;
}

/*
 * A packet of a connection that does not lead: has it met the queue that the leader's cut has just answered? Behind fair
 * queueing it has not.
 */
static void vote(struct sock *sk, struct fairwind_path *path, u32 rtt_us, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);
	u32 queue_us = rtt_us - min(ca->base_us, rtt_us);

	if (!rtt_us || is_even(ca) || ca->mode != CHECK || ca->look_us != NONE ||
	    now_us - ca->look_start_us > ca->base_us / 2 || ca->cut_queue_us < 3 * packet_us(ca))
		return;
	/* Packets of its own lead met its own queue. */
	if (tcp_sk(sk)->packets_out > own_share(ca) / PACKET + 4)
		return;
	if (queue_us >= ca->cut_queue_us / 4U * 3)
		path->votes = min(path->votes + 1, VOTES_MAX);
	else if (queue_us <= ca->cut_queue_us / 2U)
		path->votes -= min(path->votes, 2);
	if (path->votes >= VOTES)
		ca->is_shared = 1;
	else if (!path->votes)
		ca->is_shared = 0;
}

/*
 * Takes over what the connections between the two hosts have in common. NULL if another of them is just at it, or the
 * kernel has no memory: this ACK is left out then. rs is NULL without an ACK.
 */
static struct fairwind_path *enter(struct sock *sk, const struct rate_sample *rs, bool is_leaving)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	struct fairwind_path *path = cc_shared(sk);
	u32 now = (u32)(tp->tcp_mstamp >> 20) + 1;
	u32 members = ca->members;

	if (!path || __sync_lock_test_and_set(&path->is_busy, 1))
		return 0;
	if (!ca->id) {
		path->ids = path->ids % MEMBERS_MAX + 1;
		ca->id = path->ids;
		ca->seen_round = path->round - 1U;
		ca->seen_change = path->changes;
	}
	if (!path->used || now - path->used > FORGOTTEN) {
		path->leader = ca->id;
		path->lead_us = (u32)tp->tcp_mstamp;
		path->next = 0;
		path->votes = 0;
		path->heard = 0;
		path->count_us = (u32)tp->tcp_mstamp;
		path->round++;
		ca->members = 0;
		ca->is_member = 0;
	} else {
		__builtin_memcpy(ca, path->law, SHARED_SIZE);
	}
	path->used = now;
	count_members(sk, path, is_leaving);
	pass_lead(sk, path, rs);
	if (members > 1 && ca->members < members && (is_even(ca) || ca->members < 2))
		ease(sk);
	/* Another may lead at once. */
	if (is_leaving && ca->is_leader)
		path->heard_us -= 1U << 30;
	return path;
}

static void leave(struct sock *sk, struct fairwind_path *path)
{
	struct fairwind *ca = inet_csk_ca(sk);

	if (ca->is_changed) {
		ca->is_changed = 0;
		path->changes++;
		ca->seen_change = path->changes;
	}
	__builtin_memcpy(path->law, ca, SHARED_SIZE);
	/* eBPF has no release. */
	__sync_lock_test_and_set(&path->is_busy, 0);
}

CC_HOOK(void, fairwind_init, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	struct fairwind_path *path = enter(sk, 0, false);
	bool is_first = !ca->window;

	start_pacing(sk);
	ca->after = tp->delivered;
	if (is_first) {
		ca->window = TCP_INIT_CWND * PACKET;
		ca->own = TCP_INIT_CWND * PACKET;
		ca->base_us = NONE;
		ca->look_us = NONE;
		ca->is_starting = true;
		if (tp->delivered > TCP_INIT_CWND && tp->srtt_us >> 3)
			take_over(sk);
	}
	if (!ca->is_starting || !is_first)
		send(sk);
	if (path)
		leave(sk, path);
}

/*
 * To another control: the window as it is, and half of what was last free as the threshold, so that a
 * control that does not yield is back there soon.
 */
CC_HOOK(void, fairwind_release, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	struct fairwind_path *path;

	if (!ca->window)
		return;
	tp->snd_cwnd = max(min(own_share(ca) / PACKET, tp->snd_cwnd_clamp), 2U);
	tp->snd_ssthresh = max(ca->free / senders(ca) / PACKET / 2, tp->snd_cwnd);
	stop_pacing(sk);
	path = enter(sk, 0, true);
	if (path)
		leave(sk, path);
}

/* All that has been written is acknowledged. */
static inline bool has_nothing_left(const struct tcp_sock *tp)
{
	return !tp->packets_out && tp->write_seq == tp->snd_nxt;
}

static void follow_law(struct sock *sk, const struct rate_sample *rs, u32 rtt_us, u32 now_us)
{
	struct fairwind *ca = inet_csk_ca(sk);

	if (ca->is_starting && tcp_sk(sk)->delivered <= TCP_INIT_CWND + 1)
		watch_first_window(sk, rtt_us, now_us);
	else if (ca->mode == RAMP || ca->mode == CRUISE)
		watch_groups(sk, rs, now_us);
	if (judge_losses(sk, rs, rtt_us))
		answer_loss(sk, rs, now_us);
	if (ca->mode == BURST)
		watch_burst(sk, rs, now_us);
	else if (ca->mode == TRAIN && ca->is_fair)
		watch_fair_train(sk, rs, now_us);
	else if (ca->mode == TRAIN)
		watch_train(sk, rs, rtt_us, now_us);
	else if (rtt_us)
		look(sk, rs, rtt_us, now_us);
	/* Looks may be rare. */
	if (ca->mode == YIELD && !before(now_us, ca->due_us) && ca->is_leader)
		begin_train(sk);
}

CC_HOOK(void, fairwind_cong_control, struct sock *sk, u32 ack, int flag,
	const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fairwind *ca = inet_csk_ca(sk);
	u32 now_us = (u32)tp->tcp_mstamp;
	struct fairwind_path *path;
	u32 rtt_us;
	u8 doubtful;

	/* The SYN's acknowledgement, before init. */
	if (!ca->window)
		return;
	path = enter(sk, rs, has_nothing_left(tp));
	if (!path)
		return;
	doubtful = ca->doubtful;
	rtt_us = cc_opaque(delay_sample(rs, flag, &doubtful));
	ca->doubtful = doubtful;
	if (ca->is_leader)
		watch_use(sk, path, rs, now_us);
	else
		vote(sk, path, rtt_us, now_us);
	if (ca->is_leader || (is_even(ca) && ca->mode != TRAIN && ca->mode != BURST))
		follow_law(sk, rs, rtt_us, now_us);
	send(sk);
	leave(sk, path);
}

/* A timeout. */
CC_HOOK(void, fairwind_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct fairwind *ca = inet_csk_ca(sk);
	struct fairwind_path *path;

	if (event != CA_EVENT_LOSS || !ca->window)
		return;
	path = enter(sk, 0, false);
	if (!path)
		return;
	if (ca->is_leader)
		set_window(sk, ca->window / 2);
	leave(sk, path);
}

CC_HOOK(u32, fairwind_ssthresh, struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd, 2U);
}

CC_HOOK(u32, fairwind_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

CC_CONTROL(fairwind) = {
	CC_ABOUT(fairwind, "background: takes what others leave of the path, and yields to them"),
	.init = CC_FN(fairwind_init),
	.release = CC_FN(fairwind_release),
	.cong_control = CC_FN(fairwind_cong_control),
	.cwnd_event = CC_FN(fairwind_cwnd_event),
	.ssthresh = CC_FN(fairwind_ssthresh),
	.undo_cwnd = CC_FN(fairwind_undo_cwnd),
};
