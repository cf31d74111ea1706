/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gives the connections of a control group what a run asks for, before their first packet: a congestion control, a
 * limit of their rate, a mark in their packets; and later the windows that they are to offer.
 */
#include "advice.h"
#include "choice.h"
#include "hold.h"

char agent_license[] SEC("license") = "Dual BSD/GPL";

/* src/attach.rs repeats the layout. */
struct settings {
	struct action action;
	u32 first_segments; /* that each connection offers until `windows` has another; 0: as it is */
};
const volatile struct settings settings SEC(".rodata.settings");

/* What became of the connections. */
struct counts {
	u64 given; /* that were given the control */
	u64 own; /* that keep what their program has chosen */
	u64 refused; /* of which the kernel has refused it, as where a route demands another */
	u64 ignored; /* calls by which a program would have chosen another */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} counts SEC(".maps");

/* Sockets whose program has chosen their congestion control; connections inherit it from who listens. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, u8);
} chosen SEC(".maps");

static __always_inline void add(u32 at)
{
	u32 zero = 0;
	struct counts *c = bpf_map_lookup_elem(&counts, &zero);

	if (c)
		__sync_fetch_and_add((u64 *)c + at, 1);
}
#define COUNT(field) add(__builtin_offsetof(struct counts, field) / sizeof(u64))

static __always_inline bool has_chosen(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *socket = ctx->sk;
	u8 yes = 1;

	if (!socket)
		return false;
	if (is_granted(ctx, socket))
		bpf_sk_storage_get(&chosen, socket, &yes, BPF_SK_STORAGE_GET_F_CREATE);
	return bpf_sk_storage_get(&chosen, socket, 0, 0);
}

/* Sockets that these programs hold: whether a window has been offered that is to be let go. Others may hold others. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u8);
} held SEC(".maps");

/* The advice that a connection follows, by its number. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} followed SEC(".maps");

static __always_inline struct advice *advice_for(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *socket = ctx->sk;
	struct tcp_sock *tp;
	struct peer peer;
	u32 local[4];

	if (!settings.action.is_advised || !socket || is_within_host(ctx))
		return 0;
	tp = bpf_skc_to_tcp_sock(socket);
	if (!tp)
		return 0;
	peer.netns = netns((struct sock *)tp);
	addresses((struct sock *)tp, local, peer.address);
	return advice_on(&peer, bpf_ktime_get_ns());
}

static __always_inline bool give_control(struct bpf_sock_ops *ctx, const volatile struct action *a)
{
	struct bpf_sock *socket = ctx->sk;
	char name[16];

	for (int i = 0; i < 16; i++)
		name[i] = a->control[i];
	if (socket)
		close_wish(socket);
	return !bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
}

static __always_inline void give_rest(struct bpf_sock_ops *ctx)
{
	u32 rate = settings.action.max_rate;
	int class = settings.action.traffic_class;

	if (rate)
		bpf_setsockopt(ctx, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	if (!class)
		return;
	/* The kernel refuses the mark of an IPv4 connection to a program here if its socket is of IPv6. */
	if (ctx->family == AF_INET6)
		bpf_setsockopt(ctx, SOL_IPV6, IPV6_TCLASS, &class, sizeof(class));
	else
		bpf_setsockopt(ctx, SOL_IP, IP_TOS, &class, sizeof(class));
}

/* Whether it has the control; a route may have replaced it since. */
static __always_inline bool has_control(struct bpf_sock_ops *ctx, const volatile struct action *a)
{
	char name[16] = {};

	if (bpf_getsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return false;
	for (int i = 0; i < 16; i++) {
		if (name[i] != a->control[i])
			return false;
	}
	return true;
}

/* If there is other advice than the connection follows, it follows that. */
static __always_inline void follow(struct bpf_sock_ops *ctx, bool wants_control)
{
	struct advice *advice = advice_for(ctx);
	u32 rate, number = advice ? advice->number : 0, *before;

	if (!settings.action.is_advised || !ctx->sk)
		return;
	before = bpf_sk_storage_get(&followed, ctx->sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!before || *before == number)
		return;
	*before = number;
	/* Without advice any more, it keeps what it has. */
	if (!advice)
		return;
	if (wants_control && advice->action.control[0] && !has_control(ctx, &advice->action))
		give_control(ctx, &advice->action);
	rate = advice->action.max_rate ? advice->action.max_rate : ~0u;
	if (settings.action.max_rate && rate > settings.action.max_rate)
		rate = settings.action.max_rate;
	bpf_setsockopt(ctx, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
}

static __always_inline void begin_to_hold(struct bpf_sock_ops *ctx)
{
	u8 yes = 1;

	if (!ctx->sk || is_within_host(ctx) ||
	    !bpf_sk_storage_get(&held, ctx->sk, &yes, BPF_SK_STORAGE_GET_F_CREATE))
		return;
	hold(ctx, settings.first_segments);
}

/*
 * Before the SYN; when a socket begins to listen, as what it has is inherited by each connection before its SYN is
 * answered; and again when a connection is there, as the control of a route comes with the SYN.
 */
SEC("sockops") int give(struct bpf_sock_ops *ctx)
{
	bool may, wants_control;

	/* Each packet is for `packet`, below. */
	if (ctx->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		return 1;
	may = settings.action.is_forced || !has_chosen(ctx);
	wants_control = settings.action.control[0] && may;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		if (wants_control)
			give_control(ctx, &settings.action);
		give_rest(ctx);
		if (ctx->op == BPF_SOCK_OPS_TCP_CONNECT_CB)
			follow(ctx, may);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		if (settings.first_segments)
			begin_to_hold(ctx);
		if (settings.action.is_advised) {
			follow(ctx, may);
			bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags |
							       BPF_SOCK_OPS_RTT_CB_FLAG);
		}
		if (!settings.action.control[0])
			break;
		if (!wants_control)
			COUNT(own);
		else if (has_control(ctx, &settings.action) || give_control(ctx, &settings.action))
			COUNT(given);
		else
			COUNT(refused);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		follow(ctx, may);
		break;
	}
	return 1;
}

/*
 * A packet is about to leave, of a connection that somebody holds. This outlives the run if it is pinned, and lets go what the
 * run held; the other programs end with the run.
 */
SEC("sockops") int packet(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *socket = ctx->sk;
	u8 *has_offered;

	if (ctx->op != BPF_SOCK_OPS_HDR_OPT_LEN_CB || !socket)
		return 1;
	has_offered = bpf_sk_storage_get(&held, socket, 0, 0);
	if (!has_offered)
		return 1;
	keep_or_release(ctx, has_offered, is_attended(bpf_ktime_get_ns()));
	return 1;
}

/* A program asks for a control: that is noted, or said to be done and left out. */
SEC("cgroup/setsockopt") int choose(struct bpf_sockopt *ctx)
{
	bool gives = settings.action.control[0] || settings.action.is_advised;

	if (ctx->level == SOL_TCP && ctx->optname == TCP_CONGESTION) {
		if (settings.action.is_forced && gives) {
			ctx->optlen = -1;
			COUNT(ignored);
		} else {
			note_wish(ctx);
		}
	} else if (ctx->optlen > PAGE) {
		/* The program has only the first page of it: the kernel is to take the caller's. */
		ctx->optlen = 0;
	}
	return 1;
}
