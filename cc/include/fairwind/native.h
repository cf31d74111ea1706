/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The simulator's side of cc.h: the kernel's structures with the kernel's nesting, but only the
 * fields in use. crates/cc/src/native/socket.rs declares the same structures in Rust, flat; a test
 * compares the two layouts.
 */
#ifndef FAIRWIND_NATIVE_H
#define FAIRWIND_NATIVE_H

/* Fields that a control must not write; see cc.h. */
#define CC_READ_ONLY const

struct sock {
	u64 sk_pacing_rate; /* bytes/s; ~0: none */
	CC_READ_ONLY u64 sk_max_pacing_rate; /* bytes/s; ~0: none */
	u32 sk_pacing_status;
	CC_READ_ONLY u32 hz; /* jiffies per second */
	CC_READ_ONLY u64 now_ns;
	CC_READ_ONLY u32 jiffies;
	CC_READ_ONLY u32 parameters[CC_PARAMETERS_MAX];
	CC_READ_ONLY u32 sk_gso_max_size; /* largest burst handed down at once, bytes */
	struct {
		void *state; /* see CC_SHARED; NULL: none */
		const void *owner;
	} cc_shared;
	struct {
		struct advised_start *start; /* see CC_ADVISED_STARTS; NULL: none */
		const void *owner;
	} cc_advised;
};

struct inet_connection_sock {
	struct sock sk;
	CC_READ_ONLY u8 icsk_ca_state;
	CC_READ_ONLY u8 icsk_retransmits;
	u64 icsk_ca_priv[CC_PRIV_SIZE / 8];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_cwnd; /* packets */
	u32 snd_cwnd_cnt; /* packets acknowledged since the window grew */
	u32 snd_cwnd_stamp; /* jiffies */
	u32 snd_ssthresh; /* packets */
	CC_READ_ONLY u32 snd_cwnd_clamp; /* packets */
	CC_READ_ONLY u32 snd_cwnd_used; /* packets */
	CC_READ_ONLY u32 prior_cwnd; /* packets, before the latest reduction */
	CC_READ_ONLY u32 prr_delivered; /* packets */
	CC_READ_ONLY u32 prr_out; /* packets */
	CC_READ_ONLY u32 max_packets_out; /* packets, maximum in flight in the latest window */
	CC_READ_ONLY u32 cwnd_usage_seq;
	CC_READ_ONLY u32 packets_out; /* packets */
	CC_READ_ONLY u32 sacked_out; /* packets */
	CC_READ_ONLY u32 lost_out; /* packets */
	CC_READ_ONLY u32 retrans_out; /* packets */
	CC_READ_ONLY u32 srtt_us; /* eight times the smoothed round-trip time */
	CC_READ_ONLY u32 mdev_us; /* four times the mean deviation */
	CC_READ_ONLY u32 rttvar_us; /* four times the smoothed maximum deviation */
	CC_READ_ONLY u32 rtt_min_us; /* minimum of the last five minutes; ~0: none */
	CC_READ_ONLY u32 delivered; /* packets, in total */
	CC_READ_ONLY u32 delivered_ce; /* packets, in total */
	CC_READ_ONLY u32 lost; /* packets, in total */
	CC_READ_ONLY u32 app_limited; /* `delivered` at which the limitation ends; 0: none */
	CC_READ_ONLY u32 snd_una;
	CC_READ_ONLY u32 snd_nxt;
	CC_READ_ONLY u32 write_seq; /* one past the last byte in the send buffer */
	CC_READ_ONLY u32 high_seq; /* snd_nxt when the latest reduction began */
	CC_READ_ONLY u32 mss_cache; /* bytes of payload */
	CC_READ_ONLY u32 snd_wnd; /* the receiver's window, bytes */
	CC_READ_ONLY u32 lsndtime; /* jiffies of the latest data packet sent */
	CC_READ_ONLY u32 is_cwnd_limited; /* 0 or 1 */
	CC_READ_ONLY u32 rcv_tsval; /* ms by the peer's clock; 0: none */
	CC_READ_ONLY u32 reord_seen; /* how often packets have overtaken others */
	CC_READ_ONLY u64 bytes_acked;
	CC_READ_ONLY u64 tcp_mstamp; /* us */
	CC_READ_ONLY u64 first_tx_mstamp; /* us */
	CC_READ_ONLY u64 delivered_mstamp; /* us */
	CC_READ_ONLY u32 rate_delivered; /* packets, in rate_interval_us; the latest rate */
	CC_READ_ONLY u32 rate_interval_us; /* 0: not known */
};

struct rate_sample {
	u64 prior_mstamp; /* us */
	u32 prior_delivered; /* packets */
	u32 prior_delivered_ce; /* packets */
	s32 delivered; /* packets; negative: unknown */
	s32 delivered_ce; /* packets */
	s64 interval_us; /* negative: unknown */
	u32 snd_interval_us;
	u32 rcv_interval_us;
	s64 rtt_us; /* negative: none */
	s32 losses; /* packets marked lost by this ACK */
	u32 acked_sacked; /* packets newly acknowledged, cumulatively or selectively */
	u32 prior_in_flight; /* packets */
	u32 last_end_seq;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

struct ack_sample {
	u32 pkts_acked; /* packets */
	s32 rtt_us; /* negative: none */
	u32 in_flight; /* bytes delivered since the packet was sent */
};

struct cc_parameter {
	const char *name;
	const char *unit;
	const char *description;
	u32 default_value;
	u32 least;
	u32 greatest;
};

struct tcp_congestion_ops {
	const char *name;
	const char *description;
	const struct cc_parameter *parameters;
	u64 parameters_len;
	u64 takes_advised_start; /* 0 or 1 */
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
};

#define CC_HOOK(type, name, ...) static type name(__VA_ARGS__)
#define CC_FN(function) function

static inline u32 cc_opaque(u32 x)
{
	return x;
}

#define CC_PARAMETER_INDEX(name, ...) cc_parameter_##name,
#define CC_PARAMETER_ROW(name, unit, value, least, greatest, description) \
	{ #name, unit, description, value, least, greatest },
#define CC_PARAMETERS(LIST)                                                            \
	enum { LIST(CC_PARAMETER_INDEX) cc_parameters_len };                           \
	_Static_assert(cc_parameters_len <= CC_PARAMETERS_MAX, "too many parameters"); \
	static const struct cc_parameter cc_parameters[] = { LIST(CC_PARAMETER_ROW) }
#define CC_NO_PARAMETERS()          \
	enum { cc_parameters_len }; \
	static const struct cc_parameter cc_parameters[1]
#define param(sk, name) ((sk)->parameters[cc_parameter_##name])

#define CC_SHARED(id)                                                                    \
	_Static_assert(sizeof(id) <= CC_SHARED_SIZE, "more than connections may share"); \
	static inline id *cc_shared(struct sock *sk)                                     \
	{                                                                                \
		return sk->cc_shared.state;                                              \
	}                                                                                \
	_Static_assert(1, "")

/* resume.h makes it 1. */
#define CC_TAKES_ADVISED_START 0

#define CC_ADVISED_STARTS()                                                   \
	static inline struct advised_start *cc_advised_start(struct sock *sk) \
	{                                                                     \
		return sk->cc_advised.start;                                  \
	}                                                                     \
	_Static_assert(1, "")

#define CC_CONTROL(id)                                           \
	extern const struct tcp_congestion_ops fairwind_cc_##id; \
	const struct tcp_congestion_ops fairwind_cc_##id
#define CC_ABOUT(id, text)                                             \
	.name = #id, .description = text, .parameters = cc_parameters, \
	.parameters_len = cc_parameters_len, .takes_advised_start = CC_TAKES_ADVISED_START

static inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static inline void *inet_csk_ca(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_priv;
}

#define CC_DESCRIBE(type) _Static_assert(1, "the compiler's own layout is the description")

static inline u8 cc_ca_state(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_state;
}

static inline bool cc_is_cwnd_limited(const struct tcp_sock *tp)
{
	return tp->is_cwnd_limited;
}

static inline u32 cc_tsval(const struct tcp_sock *tp)
{
	return tp->rcv_tsval;
}

static inline u32 tcp_min_rtt(const struct tcp_sock *tp)
{
	return tp->rtt_min_us;
}

static inline u32 cc_jiffies(const struct sock *sk)
{
	return sk->jiffies;
}

static inline u32 cc_hz(const struct sock *sk)
{
	return sk->hz;
}

static inline u64 cc_now_ns(const struct sock *sk)
{
	return sk->now_ns;
}

/* Slow start: one packet for each acknowledged, up to ssthresh. Returns the ACKed packets left. */
static inline u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 room = tp->snd_ssthresh - tp->snd_cwnd;
	u32 step = min(acked, room);

	tp->snd_cwnd = min(tp->snd_cwnd + step, tp->snd_cwnd_clamp);
	return acked - step;
}

/* Additive increase: one packet for every w acknowledged. */
static inline void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	u32 cwnd = tp->snd_cwnd;

	/* Use up the credit from a larger w. */
	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd_cnt = 0;
		cwnd++;
	}
	tp->snd_cwnd_cnt += acked;
	if (tp->snd_cwnd_cnt >= w) {
		cwnd += tp->snd_cwnd_cnt / w;
		tp->snd_cwnd_cnt %= w;
	}
	tp->snd_cwnd = min(cwnd, tp->snd_cwnd_clamp);
}

#endif
