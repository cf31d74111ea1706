/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Gives the connections of a host what its policy says: new ones before their first data, those that are there when asked,
 * one network namespace at a time.
 */
#include "give.h"

char host_license[] SEC("license") = "Dual BSD/GPL";

/* Network namespaces with sockets of the host, by inode. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 12);
	__type(key, u32);
	__type(value, u8);
} namespaces SEC(".maps");

/* Ports at which somebody listens: the kernel lists these sockets first. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, u32);
	__type(value, u64);
} listening SEC(".maps");

/* The current process is the socket's owner. */
static __always_inline struct known *own(struct tcp_sock *tp, struct task_struct *task)
{
	struct known *known = find_or_make(tp);

	if (!known)
		return 0;
	bpf_probe_read_kernel(known->owner.program, sizeof(known->owner.program),
			      task->group_leader->comm);
	known->owner.pid = task->tgid;
	known->owner.is_known = 1;
	return known;
}

/* What a held connection has received. src/host/holder.rs repeats the layout. */
struct arrivals {
	u64 cookie;
	u64 time_ns; /* CLOCK_MONOTONIC */
	u64 bytes;
	u32 rtt_us; /* the receiver's, in eighths; 0: unknown */
	u32 mss;
	u64 window; /* that was last offered */
};
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} samples SEC(".maps");

/* The law looks no more often. */
enum { SAMPLES_NS = 10000000 };

static __always_inline void tell_arrivals(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					  struct known *known, u64 now)
{
	struct arrivals *told;

	if (now - known->sampled_ns < SAMPLES_NS)
		return;
	told = bpf_ringbuf_reserve(&samples, sizeof(*told), 0);
	if (!told)
		return;
	known->sampled_ns = now;
	told->cookie = bpf_get_socket_cookie(ctx);
	told->time_ns = now;
	told->bytes = tp->bytes_received;
	told->rtt_us = tp->rcv_rtt_est.rtt_us;
	told->mss = tp->mss_cache;
	told->window = tp->rcv_wnd;
	bpf_ringbuf_submit(told, 0);
}

/* A connection has begun that is held, or an older one is from now on. */
static __always_inline void begin_to_hold(struct bpf_sock_ops *ctx, struct given *g)
{
	if (is_within_host(ctx))
		return;
	g->has_offered = 1;
	hold(ctx, policy.first_segments);
}

/*
 * A packet is about to leave, of a connection that somebody holds. This outlives the agent if it is pinned, and lets go what
 * the agent held, nothing else; the other programs end with the agent.
 */
SEC("sockops") int packet(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *socket = ctx->sk;
	struct known *known;
	struct tcp_sock *tp;
	struct given *g;
	bool is_held;
	u64 now;

	if (ctx->op != BPF_SOCK_OPS_HDR_OPT_LEN_CB || !socket)
		return 1;
	tp = bpf_skc_to_tcp_sock(socket);
	if (!tp)
		return 1;
	known = find(tp);
	if (!known)
		return 1;
	g = &known->given;
	now = bpf_ktime_get_ns();
	/* Who computes the windows may only be late, or another come. */
	is_held = g->is_held && !is_within_host(ctx) && is_attended(now);
	if (is_held)
		tell_arrivals(ctx, tp, known, now);
	keep_or_release(ctx, &g->has_offered, is_held);
	return 1;
}

/* Advice may change: the program is called once a round trip. */
static __always_inline void follow(struct bpf_sock_ops *ctx, const struct given *g)
{
	for (u32 i = 0; i < RULES_MAX; i++) {
		if (policy.names[i] == g->rule && g->rule && policy.actions[i].is_advised) {
			bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags |
							       BPF_SOCK_OPS_RTT_CB_FLAG);
			return;
		}
	}
}

static __always_inline void note_namespace(struct sock *sk)
{
	u32 inode = netns(sk);
	u8 yes = 1;

	if (!bpf_map_lookup_elem(&namespaces, &inode))
		bpf_map_update_elem(&namespaces, &inode, &yes, BPF_ANY);
}

static __always_inline void begin(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
				  struct known *known, bool again)
{
	u64 now = bpf_ktime_get_ns();

	if (!known->owner.since_ns) {
		known->owner.since_ns = now;
		known->owner.is_of_run = is_of_run((struct sock *)tp);
	}
	if (known->owner.is_of_run)
		return;
	settle(ctx, tp, known);
	give(ctx, tp, first_rule(tp, &known->owner, now), known, again);
}

/* A route may have replaced the control with the SYN. */
static __always_inline bool has_lost_control(struct bpf_sock_ops *ctx, struct given *g)
{
	char name[16] = {}, wanted[16];

	if (!(g->what & GAVE_CONTROL))
		return false;
	copy(wanted, g->control);
	return !bpf_getsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name)) &&
	       !is_same(name, wanted);
}

SEC("sockops") int connection(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *socket = ctx->sk;
	struct known *known;
	struct tcp_sock *tp;

	/* Each packet is for `packet`, above. */
	if (!socket || ctx->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		return 1;
	tp = bpf_skc_to_tcp_sock(socket);
	if (!tp)
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		note_namespace((struct sock *)tp);
		known = own(tp, bpf_get_current_task_btf());
		if (known)
			begin(ctx, tp, known, false);
		break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		note_namespace((struct sock *)tp);
		known = own(tp, bpf_get_current_task_btf());
		if (known)
			known->owner.is_incoming = 1;
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		known = find(tp);
		if (known)
			begin(ctx, tp, known, has_lost_control(ctx, &known->given));
		if (known && known->given.is_held)
			begin_to_hold(ctx, &known->given);
		if (known)
			follow(ctx, &known->given);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		known = find(tp);
		if (known) {
			bool was_held = known->given.is_held;

			begin(ctx, tp, known, false);
			/* A pass would no longer see that it is new. */
			if (known->given.is_held && !was_held)
				begin_to_hold(ctx, &known->given);
		}
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		note_namespace((struct sock *)tp);
		known = find_or_make(tp);
		if (known) {
			known->owner.is_incoming = 1;
			begin(ctx, tp, known, false);
			if (known->given.is_held)
				begin_to_hold(ctx, &known->given);
			follow(ctx, &known->given);
		}
		break;
	}
	return 1;
}

/* A program asks for a control: that is noted, or said to be done and left out. */
SEC("cgroup/setsockopt") int choose(struct bpf_sockopt *ctx)
{
	struct bpf_sock *socket = ctx->sk;
	struct known *known;
	struct given *g;

	if (ctx->level == SOL_TCP && ctx->optname == TCP_CONGESTION) {
		known = socket ? find(socket) : 0;
		g = known ? &known->given : 0;
		if (g && g->what & GAVE_CONTROL && g->generation == policy.generation) {
			for (u32 i = 0; i < RULES_MAX; i++) {
				if (policy.names[i] != g->rule || !policy.actions[i].is_forced)
					continue;
				ctx->optlen = -1;
				COUNT(i, ignored);
				return 1;
			}
		}
		note_wish(ctx);
	} else if (ctx->optlen > PAGE) {
		/* The program has only the first page of it: the kernel is to take the caller's. */
		ctx->optlen = 0;
	}
	return 1;
}

static __always_inline bool is_connection(u8 state)
{
	return state != BPF_TCP_LISTEN && state != BPF_TCP_CLOSE && state != BPF_TCP_SYN_SENT &&
	       state != BPF_TCP_TIME_WAIT && state != BPF_TCP_NEW_SYN_RECV;
}

/* A connection of which nothing is known began before the agent: who has opened it follows from who listens. */
static __always_inline void guess(struct tcp_sock *tp, struct owner *owner, u64 now)
{
	u32 port = ((struct sock *)tp)->__sk_common.skc_num;

	owner->since_ns = now;
	owner->is_of_run = is_of_run((struct sock *)tp);
	owner->is_incoming = !!bpf_map_lookup_elem(&listening, &port);
}

/* Kernels before 6.12 cannot: only connections that begin are held. */
static __always_inline bool call_for_packets(struct tcp_sock *tp)
{
	int flags = 0;

	/* Other programs have theirs among them. */
	if (bpf_getsockopt(tp, SOL_TCP, CALLBACK_FLAGS, &flags, sizeof(flags)))
		return false;
	flags |= BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;
	return !bpf_setsockopt(tp, SOL_TCP, CALLBACK_FLAGS, &flags, sizeof(flags));
}

/* A live connection is held from now on, or no longer. */
static __always_inline void hold_or_let_go(struct tcp_sock *tp, struct given *g, bool was_held)
{
	u32 most = MOST;

	if (g->is_held && !was_held)
		g->is_held = call_for_packets(tp);
	if (!g->is_held && g->has_offered) {
		int none = 0;

		g->has_offered = 0;
		bpf_setsockopt(tp, SOL_TCP, TCP_WINDOW_CLAMP, &most, sizeof(most));
		if (((struct sock *)tp)->sk_priority == PRIORITY)
			bpf_setsockopt(tp, SOL_SOCKET, SO_PRIORITY, &none, sizeof(none));
	}
}

/* All connections of the reader's network namespace. */
SEC("iter/tcp") int pass(struct bpf_iter__tcp *ctx)
{
	struct sock *sk = (struct sock *)ctx->sk_common;
	u64 now = bpf_ktime_get_ns();
	struct known *known;
	struct tcp_sock *tp;
	bool was_held;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !is_of_host((struct sock *)tp))
		return 0;
	if (((struct sock *)tp)->__sk_common.skc_state == BPF_TCP_LISTEN) {
		u32 port = ((struct sock *)tp)->__sk_common.skc_num;

		bpf_map_update_elem(&listening, &port, &now, BPF_ANY);
		return 0;
	}
	if (!is_connection(((struct sock *)tp)->__sk_common.skc_state))
		return 0;
	known = find_or_make(tp);
	if (!known)
		return 0;
	if (!known->owner.since_ns)
		guess(tp, &known->owner, now);
	if (known->owner.is_of_run)
		return 0;
	was_held = known->given.is_held;
	settle(tp, tp, known);
	give(tp, tp, first_rule(tp, &known->owner, now), known, false);
	hold_or_let_go(tp, &known->given, was_held);
	return 0;
}

/* The agent ends: nothing is held from now on. */
SEC("iter/tcp") int let_go(struct bpf_iter__tcp *ctx)
{
	struct sock *sk = (struct sock *)ctx->sk_common;
	struct known *known;
	struct tcp_sock *tp;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !is_connection(((struct sock *)tp)->__sk_common.skc_state))
		return 0;
	known = find(tp);
	if (known && known->given.is_held) {
		known->given.is_held = 0;
		hold_or_let_go(tp, &known->given, true);
	}
	return 0;
}

/* A connection for the reader. src/host/connection.rs repeats the layout. */
struct row {
	struct given given;
	struct owner owner;
	u64 cgroup;
	u64 bytes_sent;
	u64 bytes_received;
	u64 rate; /* bytes a second, by which it is paced */
	u64 max_rate;
	u32 local[4];
	u32 remote[4];
	u32 namespace;
	u32 user;
	u32 rtt_us;
	u32 window; /* packets */
	u16 local_port;
	u16 remote_port;
	u8 state;
	u8 unused[3];
	char control[16];
	char ulp[16];
};

SEC("iter/tcp") int list(struct bpf_iter__tcp *ctx)
{
	struct sock *sk = (struct sock *)ctx->sk_common;
	const struct tcp_congestion_ops *ops;
	const struct tcp_ulp_ops *ulp;
	struct row row = {};
	struct known *known;
	struct tcp_sock *tp;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	sk = (struct sock *)tp;
	if (!is_connection(sk->__sk_common.skc_state) || !is_of_host(sk))
		return 0;
	known = find(tp);
	if (known) {
		settle(tp, tp, known);
		row.given = known->given;
		row.owner = known->owner;
	}
	row.cgroup = sk->sk_cgrp_data.cgroup->kn->id;
	row.bytes_sent = tp->bytes_acked;
	row.bytes_received = tp->bytes_received;
	row.rate = sk->sk_pacing_rate;
	row.max_rate = sk->sk_max_pacing_rate;
	addresses(sk, row.local, row.remote);
	row.namespace = netns(sk);
	row.user = sk->sk_uid.val;
	row.rtt_us = tp->srtt_us >> 3;
	row.window = tp->snd_cwnd;
	row.local_port = sk->__sk_common.skc_num;
	row.remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	row.state = sk->__sk_common.skc_state;
	ops = inet_csk(sk)->icsk_ca_ops;
	if (ops)
		bpf_probe_read_kernel(row.control, sizeof(row.control), ops->name);
	ulp = inet_csk(sk)->icsk_ulp_ops;
	if (ulp)
		bpf_probe_read_kernel(row.ulp, sizeof(row.ulp), ulp->name);
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

/* Every open file of every process, once, to find who has the sockets that were there before. */
SEC("iter/task_file") int adopt(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct known *known;
	struct socket *socket;
	struct tcp_sock *tp;
	struct sock *sk;

	if (!task || !file || task->pid != task->tgid)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	if (!is_of_host((struct sock *)tp))
		return 0;
	note_namespace((struct sock *)tp);
	known = find(tp);
	if (!known || !known->owner.is_known)
		own(tp, task);
	return 0;
}
