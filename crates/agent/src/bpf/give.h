/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gives a connection what its rule says, and what it had before when the rule no longer holds.
 */
#ifndef FAIRWIND_AGENT_GIVE_H
#define FAIRWIND_AGENT_GIVE_H

#include "choice.h"
#include "hold.h"
#include "policy.h"

/* What of a connection has been changed, or why it has not. */
enum {
	GAVE_CONTROL = 1,
	GAVE_RATE = 2,
	GAVE_CLASS = 4,
	GAVE_BUFFERS = 8,
	KEPT_OWN = 16, /* the program has chosen its congestion control */
	REFUSED = 32, /* the kernel refuses the congestion control */
	LEFT_ULP = 64, /* another protocol is on top of the connection, as of kTLS and MPTCP */
	ONLY_TOLD = 128, /* by a policy that only tells */
};

/* What a connection has been given, and had before. src/host/connection.rs repeats the layout. */
struct given {
	u64 rule; /* what the rule is known by; 0: none */
	u64 rate_before;
	u32 generation; /* of the policy that was last asked */
	u32 class_before;
	char control[16];
	char control_before[16];
	u8 what;
	u8 is_held; /* what it receives is held down */
	u8 has_offered; /* a window that is to be let go when it is no longer held */
	u8 unused;
	u32 advice; /* number of the advice that it follows; 0: none */
};

/*
 * What is known of a socket. It stays with the socket when a policy is replaced, and if the map is pinned, when the agent
 * ends. Accepted sockets inherit it from who listens, which is given nothing itself. In one piece, as a pass over many
 * connections waits for memory most of the time.
 */
struct known {
	struct owner owner;
	struct given given;
	u64 sampled_ns; /* when its arrivals were last told of */
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct known);
} sockets SEC(".maps");

static __always_inline struct known *find(void *sk)
{
	return bpf_sk_storage_get(&sockets, sk, 0, 0);
}

static __always_inline struct known *find_or_make(void *sk)
{
	return bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

/* What became of the connections, by rule. */
struct counts {
	u64 connections; /* that met the rule */
	u64 given; /* of which were given its congestion control */
	u64 own; /* keep what their program has chosen */
	u64 refused; /* by the kernel */
	u64 left; /* left alone, as another protocol is on top */
	u64 ignored; /* calls by which a program would have chosen another */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RULES_MAX);
	__type(key, u32);
	__type(value, struct counts);
} counts SEC(".maps");

static __always_inline void add(u32 rule, u32 at)
{
	struct counts *c = bpf_map_lookup_elem(&counts, &rule);

	if (c)
		__sync_fetch_and_add((u64 *)c + at, 1);
}
#define COUNT(rule, field) add(rule, __builtin_offsetof(struct counts, field) / sizeof(u64))

static __always_inline void copy(char *to, const volatile char *from)
{
	for (int i = 0; i < 16; i++)
		to[i] = from[i];
}

/* Whether it is an IPv4 connection of an IPv6 socket. */
static __always_inline bool is_mapped(const struct sock *sk)
{
	const struct sock_common *common = &sk->__sk_common;

	return common->skc_family == AF_INET6 && !common->skc_v6_daddr.in6_u.u6_addr32[0] &&
	       !common->skc_v6_daddr.in6_u.u6_addr32[1] &&
	       common->skc_v6_daddr.in6_u.u6_addr32[2] == __builtin_bswap32(0xffff);
}

static __always_inline long set_class(void *who, struct sock *sk, u32 class)
{
	/* The kernel refuses its own mark, and would take that of IPv6, which its packets do not have. */
	if (is_mapped(sk))
		return -1;
	if (sk->__sk_common.skc_family == AF_INET6)
		return bpf_setsockopt(who, SOL_IPV6, IPV6_TCLASS, &class, sizeof(class));
	return bpf_setsockopt(who, SOL_IP, IP_TOS, &class, sizeof(class));
}

static __always_inline long get_class(void *who, struct sock *sk, u32 *class)
{
	if (sk->__sk_common.skc_family == AF_INET6)
		return bpf_getsockopt(who, SOL_IPV6, IPV6_TCLASS, class, sizeof(*class));
	return bpf_getsockopt(who, SOL_IP, IP_TOS, class, sizeof(*class));
}

static __always_inline void give_control(void *who, struct tcp_sock *tp, struct given *g,
					 const volatile struct action *a, u32 rule, bool may,
					 bool is_new)
{
	char name[16] = {}, wanted[16];

	copy(wanted, a->control);
	if (bpf_getsockopt(who, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return;
	if (!may) {
		g->what = (g->what & ~GAVE_CONTROL) | KEPT_OWN;
		if (is_new)
			COUNT(rule, own);
		return;
	}
	if (!(g->what & GAVE_CONTROL))
		copy(g->control_before, name);
	copy(g->control, wanted);
	close_wish(tp);
	if (!is_same(name, wanted) &&
	    bpf_setsockopt(who, SOL_TCP, TCP_CONGESTION, wanted, sizeof(wanted))) {
		g->what |= REFUSED;
		if (is_new)
			COUNT(rule, refused);
		return;
	}
	if (is_new || !(g->what & GAVE_CONTROL))
		COUNT(rule, given);
	g->what |= GAVE_CONTROL;
}

/* What its program has chosen since this was last called, the connection keeps. Not inlined, as `give`. */
static __noinline void settle(void *who, struct tcp_sock *tp, struct known *known)
{
	struct given *g = &known->given;

	if (!is_granted(who, tp))
		return;
	known->owner.has_chosen = 1;
	if (g->what & GAVE_CONTROL && g->generation == policy.generation)
		g->what = (g->what & ~GAVE_CONTROL) | KEPT_OWN;
}

static __always_inline void give_back_control(void *who, struct given *g)
{
	char name[16] = {}, before[16];

	copy(before, g->control_before);
	/* Unless its program or another has given it something else since. */
	if (!bpf_getsockopt(who, SOL_TCP, TCP_CONGESTION, name, sizeof(name)) &&
	    is_same(name, g->control))
		bpf_setsockopt(who, SOL_TCP, TCP_CONGESTION, before, sizeof(before));
	g->what &= ~GAVE_CONTROL;
}

/* What is advised for the connection. One of the host with itself has no path. */
static __always_inline struct advice *advice_for(struct sock *sk, u64 now)
{
	u32 local[4], remote[4];
	bool is_within = true;
	struct peer peer;

	peer.netns = netns(sk);
	addresses(sk, local, remote);
	for (int i = 0; i < 4; i++) {
		peer.address[i] = remote[i];
		is_within &= local[i] == remote[i];
	}
	return is_within ? 0 : advice_on(&peer, now);
}

/*
 * A rule that is as before is not applied again, unless `again`, the kernel has refused its control, or there is other
 * advice. Not inlined, as the stack of a program is small.
 */
static __noinline void give(void *who, struct tcp_sock *tp, int rule, struct known *known,
			    bool again)
{
	const volatile struct action *a = 0;
	struct given *g = &known->given;
	struct sock *sk = (struct sock *)tp;
	bool is_new, is_forced = false;
	u32 followed = 0;
	u64 name = 0;

	if (rule >= 0 && rule < RULES_MAX) {
		a = &policy.actions[rule];
		name = policy.names[rule];
		is_forced = a->is_forced;
		if (a->is_advised) {
			struct advice *advice = advice_for(sk, bpf_ktime_get_ns());

			if (advice) {
				followed = advice->number;
				a = &advice->action;
			}
		}
	}
	again |= g->advice != followed;
	g->advice = followed;
	if (g->generation == policy.generation && g->rule == name && !again && !(g->what & REFUSED))
		return;
	/* Nothing has been given, and nothing is to be. */
	if (!name && !g->rule && !g->what)
		return;
	is_new = name && g->rule != name;
	if (is_new)
		COUNT(rule, connections);
	g->generation = policy.generation;
	g->rule = name;
	if (policy.is_dry) {
		g->what |= ONLY_TOLD;
		return;
	}
	g->what &= ~(KEPT_OWN | REFUSED | LEFT_ULP | ONLY_TOLD);
	if (inet_csk(sk)->icsk_ulp_ops) {
		g->what |= LEFT_ULP;
		g->is_held = 0;
		if (is_new)
			COUNT(rule, left);
		return;
	}
	if (a && a->control[0])
		give_control(who, tp, g, a, rule, !known->owner.has_chosen || is_forced, is_new);
	else if (g->what & GAVE_CONTROL)
		give_back_control(who, g);

	if (a && a->max_rate) {
		u32 rate = a->max_rate;

		if (!(g->what & GAVE_RATE))
			g->rate_before = sk->sk_max_pacing_rate;
		if (!bpf_setsockopt(who, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate)))
			g->what |= GAVE_RATE;
	} else if (g->what & GAVE_RATE) {
		u32 rate = g->rate_before < ~0u ? g->rate_before : ~0u;

		bpf_setsockopt(who, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
		g->what &= ~GAVE_RATE;
	}

	if (a && a->traffic_class) {
		u32 before = 0;

		if (!(g->what & GAVE_CLASS) && !get_class(who, sk, &before))
			g->class_before = before;
		if (!set_class(who, sk, a->traffic_class))
			g->what |= GAVE_CLASS;
	} else if (g->what & GAVE_CLASS) {
		set_class(who, sk, g->class_before);
		g->what &= ~GAVE_CLASS;
	}

	g->is_held = a && a->holds;

	/* The kernel then no longer tunes them, and cannot be told to do so again. */
	if (a && a->send_buffer) {
		u32 bytes = a->send_buffer;

		if (!bpf_setsockopt(who, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)))
			g->what |= GAVE_BUFFERS;
	}
	if (a && a->receive_buffer) {
		u32 bytes = a->receive_buffer;

		if (!bpf_setsockopt(who, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)))
			g->what |= GAVE_BUFFERS;
	}
}

#endif
