/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The windows that connections offer, so that what they receive takes only what others leave. A process computes them; these
 * programs put them into the packets that leave.
 */
#ifndef FAIRWIND_AGENT_HOLD_H
#define FAIRWIND_AGENT_HOLD_H

#include <fairwind/kernel.h>
#include "options.h"

/* The largest window that a connection is to offer, bytes, by its cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, u64);
	__type(value, u32);
} windows SEC(".maps");

/* Until when `windows` holds, CLOCK_MONOTONIC, ns: who fills it may be gone. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} held_until SEC(".maps");

/* More than a receiver can offer. */
enum { MOST = 1 << 30 };

static __always_inline void offer(struct bpf_sock_ops *ctx, u32 window)
{
	bpf_setsockopt(ctx, SOL_TCP, TCP_WINDOW_CLAMP, &window, sizeof(window));
}

/* The priority by which the holders of a host know the sockets that are held: TC_PRIO_FILLER. crates/transfer repeats it. */
enum { PRIORITY = 1 };

static __always_inline void mark(struct bpf_sock_ops *ctx)
{
	int priority = PRIORITY;

	if (ctx->sk && !ctx->sk->priority)
		bpf_setsockopt(ctx, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority));
}

/* It is no longer held. */
static __always_inline void release(struct bpf_sock_ops *ctx)
{
	int none = 0;

	offer(ctx, MOST);
	if (ctx->sk && ctx->sk->priority == PRIORITY)
		bpf_setsockopt(ctx, SOL_SOCKET, SO_PRIORITY, &none, sizeof(none));
}

/* A connection of this host with itself shares no path with others. */
static __always_inline bool is_within_host(struct bpf_sock_ops *ctx)
{
	if (ctx->family != AF_INET6)
		return ctx->local_ip4 == ctx->remote_ip4;
	return ctx->local_ip6[0] == ctx->remote_ip6[0] && ctx->local_ip6[1] == ctx->remote_ip6[1] &&
	       ctx->local_ip6[2] == ctx->remote_ip6[2] && ctx->local_ip6[3] == ctx->remote_ip6[3];
}

/* Whether the process is there that computes the windows. */
static __always_inline bool is_attended(u64 now)
{
	u32 zero = 0;
	u64 *until = bpf_map_lookup_elem(&held_until, &zero);

	return until && now < *until;
}

/*
 * A connection that is held has begun: the program is called for each packet that leaves from now on. The flag stays, as the
 * socket has one for all programs, and another may hold it, too.
 */
static __always_inline void hold(struct bpf_sock_ops *ctx, u32 first_segments)
{
	offer(ctx, first_segments * ctx->mss_cache);
	mark(ctx);
	bpf_sock_ops_cb_flags_set(ctx,
				  ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* A packet is about to be sent: the window that it offers is the latest. The kernel's own tuning may have raised it. */
static __always_inline void offer_latest(struct bpf_sock_ops *ctx)
{
	u64 cookie = bpf_get_socket_cookie(ctx);
	u32 *window = bpf_map_lookup_elem(&windows, &cookie);

	if (window)
		offer(ctx, *window);
}

/*
 * A packet is about to leave: if the connection is held, it follows its window; if it no longer is, what the program of this
 * note has offered is let go, once.
 */
static __always_inline void keep_or_release(struct bpf_sock_ops *ctx, u8 *has_offered, bool is_held)
{
	if (is_held) {
		*has_offered = 1;
		offer_latest(ctx);
		/* Its program, another that held it, too, or a pass that began to hold it may have left it without. */
		mark(ctx);
	} else if (*has_offered) {
		*has_offered = 0;
		release(ctx);
	}
}

#endif
