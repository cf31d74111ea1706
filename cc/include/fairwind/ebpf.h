/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's side of cc.h: kernel.h, and the kernel functions that a control can call. Bit fields
 * move between kernels, so they are read through cc_... functions.
 */
#ifndef FAIRWIND_EBPF_H
#define FAIRWIND_EBPF_H

#include <fairwind/kernel.h>

#define CC_INLINE static __always_inline

#define CC_HOOK(type, name, ...) SEC("struct_ops") type BPF_PROG(name, __VA_ARGS__)
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

/* Pairs of hosts of which something is known; the longest unused is forgotten first. */
#define CC_SHARED_MAX 4096
/* Two hosts, as the sender sees them. */
struct cc_hosts {
	u32 netns; /* the sender's network namespace */
	u32 from[4];
	u32 to[4];
};

#define CC_SHARED(id)                                                                       \
	struct {                                                                            \
		__uint(type, BPF_MAP_TYPE_LRU_HASH);                                        \
		__uint(max_entries, CC_SHARED_MAX);                                         \
		__type(key, struct cc_hosts);                                               \
		__type(value, id);                                                          \
	} cc_shared_states SEC(".maps");                                                    \
	CC_INLINE id *cc_shared(struct sock *sk)                                            \
	{                                                                                   \
		struct cc_hosts hosts = { 0 };                                              \
		id *shared;                                                                 \
                                                                                            \
		hosts.netns = netns(sk);                                                    \
		addresses(sk, hosts.from, hosts.to);                                        \
		shared = bpf_map_lookup_elem(&cc_shared_states, &hosts);                    \
		if (!shared) {                                                              \
			id zero = { 0 };                                                    \
                                                                                            \
			bpf_map_update_elem(&cc_shared_states, &hosts, &zero, BPF_NOEXIST); \
			shared = bpf_map_lookup_elem(&cc_shared_states, &hosts);            \
		}                                                                           \
		return shared;                                                              \
	}                                                                                   \
	_Static_assert(1, "")

/* Prefixes of destinations of which something is advised. */
#define CC_ADVISED_MAX 4096
/* A destination, as the sender sees it. */
struct cc_destination {
	u32 prefix_bits; /* of what follows */
	u32 netns; /* the sender's network namespace */
	u32 to[4]; /* IPv4 as ::ffff:a.b.c.d */
};

/* The loader relies on the names of the maps. */
#define CC_ADVISED_STARTS()                                                        \
	struct {                                                                   \
		__uint(type, BPF_MAP_TYPE_SK_STORAGE);                             \
		__uint(map_flags, BPF_F_NO_PREALLOC);                              \
		__type(key, int);                                                  \
		__type(value, struct advised_start);                               \
	} advised_sockets SEC(".maps");                                            \
	struct {                                                                   \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);                               \
		__uint(map_flags, BPF_F_NO_PREALLOC);                              \
		__uint(max_entries, CC_ADVISED_MAX);                               \
		__type(key, struct cc_destination);                                \
		__type(value, struct advised_start);                               \
	} advised_paths SEC(".maps");                                              \
	CC_INLINE struct advised_start *cc_advised_start(struct sock *sk)          \
	{                                                                          \
		struct cc_destination destination = { 0 };                         \
		struct advised_start *start;                                       \
		u32 local[4];                                                      \
                                                                                   \
		start = bpf_sk_storage_get(&advised_sockets, sk, 0, 0);            \
		if (start)                                                         \
			return start;                                              \
		destination.prefix_bits = 8 * (sizeof(destination) - sizeof(u32)); \
		destination.netns = netns(sk);                                     \
		addresses(sk, local, destination.to);                              \
		return bpf_map_lookup_elem(&advised_paths, &destination);          \
	}                                                                          \
	_Static_assert(1, "")

#define CC_CONTROL(id)                                                              \
	_Static_assert(sizeof("fw_" #id) <= 16, "the name may have 12 characters"); \
	char cc_license[] SEC("license") = "Dual BSD/GPL";                          \
	struct tcp_congestion_ops fw_##id SEC(".struct_ops.link")
#define CC_ABOUT(id, text) .name = "fw_" #id

/* Functions of the kernel. */
extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) __ksym;

CC_INLINE void *inet_csk_ca(const struct sock *sk)
{
	return (void *)inet_csk(sk)->icsk_ca_priv;
}

/* Global functions are verified apart, and nothing is known of what they return. */
__attribute__((noinline)) u32 cc_opaque(u32 x)
{
	asm volatile("" : "+r"(x));
	return x;
}

/* The section is never loaded; its BTF type describes the state to the tracer. */
#define CC_DESCRIBE(type) static const type cc_state_layout SEC(".state") = { 0 }

CC_INLINE u8 cc_ca_state(const struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
}

CC_INLINE bool cc_is_cwnd_limited(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
}

CC_INLINE u32 cc_tsval(const struct tcp_sock *tp)
{
	return tp->rx_opt.rcv_tsval;
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
