/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's side of cc.h: the fields in use of the kernel's structures, which CO-RE locates at
 * load time whatever their offsets in the running kernel, and the kernel functions that a control
 * can call. Bit fields move between kernels, so they are read through cc_... functions.
 */
#ifndef FAIRWIND_EBPF_H
#define FAIRWIND_EBPF_H

#define SEC(name) __attribute__((section(name), used))
#define CC_INLINE static inline __attribute__((always_inline))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock {
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
	u32 sk_gso_max_size;
};

struct inet_connection_sock {
	u8 icsk_ca_state : 5;
	u8 icsk_retransmits;
	u64 icsk_ca_priv[CC_PRIV_SIZE / 8];
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_stamp;
	u32 snd_ssthresh;
	u32 snd_cwnd_clamp;
	u32 snd_cwnd_used;
	u32 prior_cwnd;
	u32 prr_delivered;
	u32 prr_out;
	u32 max_packets_out;
	u32 cwnd_usage_seq;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 srtt_us;
	u32 mdev_us;
	u32 rttvar_us;
	struct minmax rtt_min;
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u32 app_limited;
	u32 snd_una;
	u32 snd_nxt;
	u32 high_seq;
	u32 mss_cache;
	u32 snd_wnd;
	u32 lsndtime;
	u8 is_cwnd_limited : 1;
	u64 bytes_acked;
	u64 tcp_mstamp;
	u64 first_tx_mstamp;
	u64 delivered_mstamp;
};

struct rate_sample {
	u64 prior_mstamp;
	u32 prior_delivered;
	u32 prior_delivered_ce;
	s32 delivered;
	s32 delivered_ce;
	long interval_us;
	u32 snd_interval_us;
	u32 rcv_interval_us;
	long rtt_us;
	int losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	u32 last_end_seq;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

#pragma clang attribute pop

struct tcp_congestion_ops {
	char name[16];
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

/*
 * The kernel calls a hook with its arguments in an array of 64-bit words. The program made by
 * CC_HOOK unpacks them for the function that the control's author writes.
 */
#define CC_CTX_1 (void *)ctx[0]
#define CC_CTX_2 CC_CTX_1, (void *)ctx[1]
#define CC_CTX_3 CC_CTX_2, (void *)ctx[2]
#define CC_CTX_4 CC_CTX_3, (void *)ctx[3]
#define CC_CTX_PICK(_1, _2, _3, _4, ctx, ...) ctx
#define CC_CTX(...) CC_CTX_PICK(__VA_ARGS__, CC_CTX_4, CC_CTX_3, CC_CTX_2, CC_CTX_1, )

/* The host's compiler checks the types of arguments; here all of them are words. */
#pragma clang diagnostic ignored "-Wint-conversion"

#define CC_HOOK(type, name, ...)                         \
	CC_INLINE type name##_body(__VA_ARGS__);         \
	SEC("struct_ops") type name(u64 *ctx)            \
	{                                                \
		return name##_body(CC_CTX(__VA_ARGS__)); \
	}                                                \
	CC_INLINE type name##_body(__VA_ARGS__)
#define CC_FN(function) ((void *)(function))

/* Set by the loader, which may change it while connections run. The loader relies on the order. */
struct cc_settings {
	u32 hz;
	u32 parameters[CC_PARAMETERS_MAX];
};

static volatile struct cc_settings cc_settings SEC(".data.settings") = { .hz = 1000 };

#define CC_PARAMETER_INDEX(name, ...) cc_parameter_##name,
#define CC_PARAMETERS(LIST) enum { LIST(CC_PARAMETER_INDEX) cc_parameters_len }
#define CC_NO_PARAMETERS() enum { cc_parameters_len }
#define param(sk, name) (cc_settings.parameters[cc_parameter_##name])

#define CC_CONTROL(id)                                                              \
	_Static_assert(sizeof("fw_" #id) <= 16, "the name may have 12 characters"); \
	char cc_license[] SEC("license") = "Dual BSD/GPL";                          \
	struct tcp_congestion_ops fw_##id SEC(".struct_ops.link")
#define CC_ABOUT(id, text) .name = "fw_" #id

/* Functions of the kernel. */
extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __attribute__((section(".ksyms")));
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
	__attribute__((section(".ksyms")));

/* Helpers, by the numbers of the kernel's uapi/linux/bpf.h. */
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u64 (*const bpf_jiffies64)(void) = (void *)118;

/* Reads a bit field at its place in the running kernel (enum bpf_field_info_kind of libbpf). */
#define CC_BIT_FIELD(s, field)                                                                    \
	({                                                                                        \
		const void *p = (const void *)(s) + __builtin_preserve_field_info((s)->field, 0); \
		u64 word;                                                                         \
		switch (__builtin_preserve_field_info((s)->field, 1)) {                           \
		case 1:                                                                           \
			word = *(const u8 *)p;                                                    \
			break;                                                                    \
		case 2:                                                                           \
			word = *(const u16 *)p;                                                   \
			break;                                                                    \
		case 4:                                                                           \
			word = *(const u32 *)p;                                                   \
			break;                                                                    \
		default:                                                                          \
			word = *(const u64 *)p;                                                   \
		}                                                                                 \
		word <<= __builtin_preserve_field_info((s)->field, 4);                            \
		word >> __builtin_preserve_field_info((s)->field, 5);                             \
	})

CC_INLINE struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

CC_INLINE struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

CC_INLINE void *inet_csk_ca(const struct sock *sk)
{
	return (void *)inet_csk(sk)->icsk_ca_priv;
}

/* The section is never loaded; its BTF type describes the state to the tracer. */
#define CC_DESCRIBE(type) \
	static const type cc_state_layout __attribute__((section(".state"), used)) = { 0 }

CC_INLINE u8 cc_ca_state(const struct sock *sk)
{
	return CC_BIT_FIELD(inet_csk(sk), icsk_ca_state);
}

CC_INLINE bool cc_is_cwnd_limited(const struct tcp_sock *tp)
{
	return CC_BIT_FIELD(tp, is_cwnd_limited);
}

CC_INLINE u32 tcp_min_rtt(const struct tcp_sock *tp)
{
	return tp->rtt_min.s[0].v;
}

CC_INLINE u32 cc_jiffies(const struct sock *sk)
{
	return bpf_jiffies64();
}

CC_INLINE u32 cc_hz(const struct sock *sk)
{
	return cc_settings.hz;
}

CC_INLINE u64 cc_now_ns(const struct sock *sk)
{
	return bpf_ktime_get_ns();
}

#endif
