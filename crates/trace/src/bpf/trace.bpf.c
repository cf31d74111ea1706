// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The tracer's side in the kernel: finds the connections that match, notes them in their sockets,
 * and writes their instruments to a ring buffer on every ACK, or whenever the reader asks.
 *
 * Nothing of a connection is ever written, and no lock of a socket is taken: on an ACK the stack
 * holds it, and a sample that the reader asks for takes each value as it stands. Only tracepoints
 * and iterators are used, since they need no change of the kernel's code while it runs.
 */
#include "kernel.h"
#include "event.h"

char trace_license[] SEC("license") = "Dual BSD/GPL";

const volatile struct settings settings SEC(".rodata.settings") = { .ring_bytes = 1 << 20,
								    .cpus = 1 };

/* What is noted in the socket of a connection that matches. */
struct connection {
	u64 id;
	u64 control; /* the congestion control that was last named */
	u32 lost;
	u32 cong_signals;
	u32 fast_retran;
	u32 local_port; /* as it was last told; 0: not bound yet */
	u32 accounted; /* tp->segs_in, were there no segments but those that `ack` has seen */
	u32 skipped; /* segments that `ack` has not seen */
	u8 announced; /* the reader knows of it */
	u8 adopted;
	u8 incoming;
	u8 is_accounting; /* `accounted` has a beginning */
};

/* Who opened a socket, or listens on it; the sockets it accepts inherit it. */
struct owner {
	char program[16];
	u32 pid;
};

struct {
	UINT(type, BPF_MAP_TYPE_SK_STORAGE);
	UINT(map_flags, BPF_F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct connection);
} connections SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_SK_STORAGE);
	UINT(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	TYPE(key, int);
	TYPE(value, struct owner);
} owners SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_RINGBUF);
	UINT(max_entries, 1 << 20);
} ring SEC(".maps");

/* The filter: what is in a map passes. The reader fills them before anything is attached. */
#define FILTER(name, kind, flags, key_type) \
	struct {                            \
		UINT(type, kind);           \
		UINT(map_flags, flags);     \
		UINT(max_entries, 1);       \
		TYPE(key, key_type);        \
		TYPE(value, u8);            \
	} name SEC(".maps")
struct program {
	char name[16];
};
FILTER(networks, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, struct network);
FILTER(ports, BPF_MAP_TYPE_HASH, 0, u32);
FILTER(programs, BPF_MAP_TYPE_HASH, 0, struct program);
FILTER(namespaces, BPF_MAP_TYPE_HASH, 0, u32);
FILTER(cgroups, BPF_MAP_TYPE_HASH, 0, u64);

struct {
	UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct counts);
} counts SEC(".maps");

/* Samples without a look at the ring at most. */
enum { CREDIT_MAX = 64 };

INLINE struct counts *count(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&counts, &zero);
}

/* Another program on this CPU may interrupt this one, so counts are atomic. */
INLINE void lose(struct connection *connection)
{
	struct counts *c = count();

	__sync_fetch_and_add(&connection->lost, 1);
	if (c)
		__sync_fetch_and_add(&c->lost, 1);
}

/*
 * Samples leave an eighth of the ring to beginnings and ends of connections. A look at the ring
 * costs as much as a reservation, so each CPU looks for several samples at once: all CPUs together
 * for no more than an eighth of the room there is.
 */
INLINE int is_full(void)
{
	u32 limit = settings.ring_bytes - settings.ring_bytes / 8;
	struct counts *c = count();
	u64 used, credit;

	if (c && c->credit) {
		c->credit--;
		return 0;
	}
	used = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	if (used > limit)
		return 1;
	credit = (limit - used) / (8 * sizeof(struct sample_and_state) * settings.cpus);
	if (c)
		c->credit = credit < CREDIT_MAX ? credit : CREDIT_MAX;
	return 0;
}

/* The reader comes by itself: waking it costs more than the sample. */
INLINE void submit(void *event)
{
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

INLINE void head(struct event *event, struct connection *connection, u32 kind)
{
	event->kind = kind;
	event->lost = connection->lost;
	event->id = connection->id;
	event->time_ns = bpf_ktime_get_ns();
}

/* The addresses of both ends, IPv4 in the form ::ffff:a.b.c.d. */
INLINE void addresses(struct sock *sk, u32 *local, u32 *remote)
{
	struct sock_common *common = &sk->__sk_common;

	if (common->skc_family == AF_INET6) {
		for (int i = 0; i < 4; i++) {
			local[i] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			remote[i] = common->skc_v6_daddr.in6_u.u6_addr32[i];
		}
		return;
	}
	local[0] = local[1] = remote[0] = remote[1] = 0;
	local[2] = remote[2] = __builtin_bswap32(0xffff);
	local[3] = common->skc_rcv_saddr;
	remote[3] = common->skc_daddr;
}

INLINE u16 remote_port(struct sock *sk)
{
	return __builtin_bswap16(sk->__sk_common.skc_dport);
}

INLINE u32 netns(struct sock *sk)
{
	return sk->__sk_common.skc_net.net->ns.inum;
}

INLINE u64 cgroup(struct sock *sk)
{
	return sk->sk_cgrp_data.cgroup->kn->id;
}

INLINE int in_a_network(const u32 *address)
{
	struct network key = { .length = 128 };

	for (int i = 0; i < 4; i++)
		key.address[i] = address[i];
	return !!bpf_map_lookup_elem(&networks, &key);
}

INLINE int network_matches(struct sock *sk)
{
	u32 local[4], remote[4];

	if (!settings.has_networks)
		return 1;
	addresses(sk, local, remote);
	return in_a_network(local) || in_a_network(remote);
}

INLINE int port_matches(struct sock *sk)
{
	u32 local = sk->__sk_common.skc_num, remote = remote_port(sk);

	return !settings.has_ports || bpf_map_lookup_elem(&ports, &local) ||
	       bpf_map_lookup_elem(&ports, &remote);
}

INLINE int namespace_matches(struct sock *sk)
{
	u32 inode = netns(sk);

	return !settings.has_namespaces || bpf_map_lookup_elem(&namespaces, &inode);
}

/* Levels of control groups that are looked at. */
enum { CGROUP_DEPTH = 32 };

/* The socket's control group or one above it. */
INLINE int cgroup_matches(struct sock *sk)
{
	struct cgroup *cgroup;

	if (!settings.has_cgroups)
		return 1;
	cgroup = sk->sk_cgrp_data.cgroup;
	for (int i = 0; i < CGROUP_DEPTH && cgroup; i++) {
		struct cgroup_subsys_state *parent;
		u64 inode = cgroup->kn->id;

		if (bpf_map_lookup_elem(&cgroups, &inode))
			return 1;
		parent = cgroup->self.parent;
		cgroup = parent ? parent->cgroup : 0;
	}
	return 0;
}

INLINE int program_matches(const struct owner *owner)
{
	struct program program;

	if (!settings.has_programs)
		return 1;
	if (!owner)
		return 0;
	__builtin_memcpy(program.name, owner->program, sizeof(program.name));
	return !!bpf_map_lookup_elem(&programs, &program);
}

INLINE int matches(struct sock *sk, const struct owner *owner)
{
	return port_matches(sk) && network_matches(sk) && namespace_matches(sk) &&
	       cgroup_matches(sk) && program_matches(owner);
}

/* Tells the reader of the connection, or anew what has changed. */
INLINE void identify(struct sock *sk, struct connection *connection, const struct owner *owner)
{
	struct identity *identity = bpf_ringbuf_reserve(&ring, sizeof(*identity), 0);

	if (!identity) {
		lose(connection);
		return;
	}
	head(&identity->event, connection, connection->announced ? EVENT_IDENTITY : EVENT_OPEN);
	identity->cgroup = cgroup(sk);
	identity->netns = netns(sk);
	identity->pid = owner ? owner->pid : 0;
	identity->local_port = connection->local_port = sk->__sk_common.skc_num;
	identity->remote_port = remote_port(sk);
	identity->family = sk->__sk_common.skc_family;
	identity->adopted = connection->adopted;
	identity->incoming = connection->incoming;
	identity->unused = 0;
	addresses(sk, identity->local, identity->remote);
	if (owner)
		__builtin_memcpy(identity->program, owner->program, sizeof(identity->program));
	else
		__builtin_memset(identity->program, 0, sizeof(identity->program));
	connection->announced = 1;
	submit(identity);
}

/* Names the congestion control, when it is another than at the last time. */
INLINE void name_control(struct connection *connection, struct tcp_sock *tp)
{
	const struct tcp_congestion_ops *ops = ((struct inet_connection_sock *)tp)->icsk_ca_ops;
	struct control *control;

	if (connection->control == (u64)ops || !ops)
		return;
	control = bpf_ringbuf_reserve(&ring, sizeof(*control), 0);
	if (!control) {
		lose(connection);
		return;
	}
	head(&control->event, connection, EVENT_CONTROL);
	bpf_probe_read_kernel(control->name, sizeof(control->name), ops->name);
	connection->control = (u64)ops;
	submit(control);
}

/* Time in each of the kernel's states of a sender, with what has passed in the present one. */
INLINE void chronograph(struct sample *sample, struct tcp_sock *tp)
{
	u32 type = BIT_FIELD(tp, chrono_type);
	u32 present = (u32)bpf_jiffies64() - tp->chrono_start;

	sample->busy_jiffies = tp->chrono_stat[0] + (type == 1 ? present : 0);
	sample->rwnd_limited_jiffies = tp->chrono_stat[1] + (type == 2 ? present : 0);
	sample->sndbuf_limited_jiffies = tp->chrono_stat[2] + (type == 3 ? present : 0);
}

INLINE void instruments(struct sample *sample, struct connection *connection, struct tcp_sock *tp)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;
	struct sock *sk = (struct sock *)tp;

	sample->ca_state = BIT_FIELD(icsk, icsk_ca_state);
	sample->retransmits = icsk->icsk_retransmits;
	sample->pacing_status = sk->sk_pacing_status;
	sample->snd_cwnd = tp->snd_cwnd;
	sample->snd_ssthresh = tp->snd_ssthresh;
	sample->mss_cache = tp->mss_cache;
	sample->packets_out = tp->packets_out;
	sample->sacked_out = tp->sacked_out;
	sample->lost_out = tp->lost_out;
	sample->retrans_out = tp->retrans_out;
	sample->reordering = tp->reordering;
	sample->srtt_us = tp->srtt_us;
	sample->mdev_us = tp->mdev_us;
	sample->rttvar_us = tp->rttvar_us;
	sample->min_rtt_us = tp->rtt_min.s[0].v;
	sample->sample_rtt_us = tp->rack.rtt_us;
	sample->rcv_rtt_us = tp->rcv_rtt_est.rtt_us;
	sample->rto_jiffies = icsk->icsk_rto;
	sample->snd_wnd = tp->snd_wnd;
	sample->rcv_wnd = tp->rcv_wnd;
	sample->snd_una = tp->snd_una;
	sample->snd_nxt = tp->snd_nxt;
	sample->write_seq = tp->write_seq;
	sample->rcv_nxt = tp->rcv_nxt;
	sample->copied_seq = tp->copied_seq;
	sample->total_retrans = tp->total_retrans;
	sample->total_rto = ~0U;
	if (FIELD_EXISTS(tp->total_rto))
		sample->total_rto = tp->total_rto;
	sample->rto_recoveries = ~0U;
	if (FIELD_EXISTS(tp->total_rto_recoveries))
		sample->rto_recoveries = tp->total_rto_recoveries;
	sample->cong_signals = connection->cong_signals;
	sample->fast_retran = connection->fast_retran;
	sample->delivered = tp->delivered;
	sample->delivered_ce = tp->delivered_ce;
	sample->lost = tp->lost;
	sample->dsack_dups = tp->dsack_dups;
	sample->reord_seen = tp->reord_seen;
	sample->rate_delivered = tp->rate_delivered;
	sample->rate_interval_us = tp->rate_interval_us;
	sample->segs_out = tp->segs_out;
	sample->segs_in = tp->segs_in;
	sample->data_segs_out = tp->data_segs_out;
	sample->data_segs_in = tp->data_segs_in;
	sample->sk_sndbuf = sk->sk_sndbuf;
	sample->sk_rcvbuf = sk->sk_rcvbuf;
	sample->sk_wmem_queued = sk->sk_wmem_queued;
	sample->sk_rmem_alloc = sk->sk_backlog.rmem_alloc.counter;
	chronograph(sample, tp);
	sample->pacing_rate = sk->sk_pacing_rate;
	sample->skipped = connection->skipped;
	sample->bytes_acked = tp->bytes_acked;
	sample->bytes_received = tp->bytes_received;
	sample->bytes_sent = tp->bytes_sent;
	sample->bytes_retrans = tp->bytes_retrans;
}

INLINE void control_state(struct sample_and_state *sample, struct tcp_sock *tp)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;

	bpf_probe_read_kernel(sample->state, STATE_BYTES, icsk->icsk_ca_priv);
}

INLINE void take(struct connection *connection, struct tcp_sock *tp, u32 kind, u8 state)
{
	struct sample *sample = 0;

	/* Its beginning found no room: without it the sample would mean nothing. */
	if (!connection->announced)
		identify((struct sock *)tp, connection, bpf_sk_storage_get(&owners, tp, 0, 0));
	if (connection->announced && (kind == EVENT_CLOSE || !is_full())) {
		name_control(connection, tp);
		if (settings.with_state)
			sample = bpf_ringbuf_reserve(&ring, sizeof(struct sample_and_state), 0);
		else
			sample = bpf_ringbuf_reserve(&ring, sizeof(*sample), 0);
	}
	if (!sample) {
		lose(connection);
		return;
	}
	head(&sample->event, connection, kind);
	sample->state = state;
	instruments(sample, connection, tp);
	if (settings.with_state)
		control_state((struct sample_and_state *)sample, tp);
	submit(sample);
}

/* Segments that a packet consists of, as TCP counts those that it receives. */
INLINE u32 segments(struct sk_buff *skb)
{
	struct skb_shared_info *info = (void *)(skb->head + skb->end);
	u16 segments = 0;

	bpf_probe_read_kernel(&segments, sizeof(segments), &info->gso_segs);
	return segments ? segments : 1;
}

INLINE void begin_accounting(struct connection *connection, struct tcp_sock *tp)
{
	connection->accounted = tp->segs_in;
	connection->is_accounting = !((struct sock *)tp)->sk_backlog.len;
}

/*
 * Finds the segments of which the tracer was not told: a kernel may leave out its program, and not
 * count that. TCP has counted a segment when it comes here, and those that wait behind it while a
 * process has the socket: only without these the count says anything.
 */
INLINE void account(struct connection *connection, struct tcp_sock *tp, struct sk_buff *skb)
{
	u32 came = tp->segs_in, missed;
	struct counts *c;

	if (!connection->is_accounting) {
		begin_accounting(connection, tp);
		return;
	}
	/* The usual case: one segment since the last look. */
	connection->accounted += came - connection->accounted == 1 ? 1 : segments(skb);
	missed = came - connection->accounted;
	if (!missed || ((struct sock *)tp)->sk_backlog.len)
		return;
	connection->accounted = came;
	connection->skipped += missed;
	c = count();
	if (c)
		__sync_fetch_and_add(&c->skipped, missed);
}

/* Watches a connection from now on, if it matches. */
INLINE void consider(struct tcp_sock *tp, const struct owner *owner, u8 state, int adopted,
		     int incoming)
{
	struct sock *sk = (struct sock *)tp;
	struct connection *connection;

	if (!matches(sk, owner))
		return;
	connection = bpf_sk_storage_get(&connections, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!connection) {
		struct counts *c = count();

		if (c)
			__sync_fetch_and_add(&c->unwatched, 1);
		return;
	}
	connection->id = bpf_get_socket_cookie(tp);
	connection->adopted = adopted;
	connection->incoming = incoming;
	if (state == TCP_ESTABLISHED && !adopted)
		begin_accounting(connection, tp);
	identify(sk, connection, owner);
	take(connection, tp, EVENT_SAMPLE, state);
}

/* Notes the process as the socket's owner; it stays in the socket. */
INLINE struct owner *own(struct tcp_sock *tp, struct task_struct *task)
{
	struct owner *owner = bpf_sk_storage_get(&owners, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (owner) {
		owner->pid = task->tgid;
		bpf_probe_read_kernel(owner->program, sizeof(owner->program),
				      task->group_leader->comm);
	}
	return owner;
}

/*
 * A socket is about to change its state. The process that calls connect or listen is the current
 * one; what else happens here happens to whatever process runs.
 */
SEC("tp_btf/inet_sock_set_state") int set_state(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	int before = ctx[1], after = ctx[2];
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct connection *connection;
	struct owner *owner;

	if (!tp)
		return 0;
	if (after == TCP_LISTEN || after == TCP_SYN_SENT)
		owner = own(tp, bpf_get_current_task_btf());
	else
		owner = bpf_sk_storage_get(&owners, tp, 0, 0);
	connection = bpf_sk_storage_get(&connections, tp, 0, 0);
	if (!connection) {
		if (after == TCP_SYN_SENT || after == TCP_ESTABLISHED)
			consider(tp, owner, after, 0, before == TCP_SYN_RECV);
		return 0;
	}
	if (before == after)
		return 0;
	if (after == TCP_ESTABLISHED)
		begin_accounting(connection, tp);
	/* The port is chosen after the state. */
	if (after == TCP_ESTABLISHED && !connection->local_port)
		identify(sk, connection, owner);
	take(connection, tp, after == TCP_CLOSE ? EVENT_CLOSE : EVENT_SAMPLE, after);
	if (after == TCP_CLOSE)
		bpf_sk_storage_delete(&connections, tp);
	return 0;
}

/*
 * A packet has come for an established connection and is about to be dealt with: the sample is what
 * the packets before it have led to. With nothing of ours under way it acknowledges nothing.
 */
SEC("tp_btf/tcp_probe") int ack(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct connection *connection = bpf_sk_storage_get(&connections, sk, 0, 0);
	struct tcp_sock *tp;

	if (!connection)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	account(connection, tp, (void *)ctx[1]);
	if (tp->packets_out)
		take(connection, tp, EVENT_SAMPLE, TCP_ESTABLISHED);
	return 0;
}

/* The kernel has no counts of these. The window is cut on the way out of the first two states. */
SEC("tp_btf/tcp_cong_state_set") int congestion(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	u8 after = ctx[1];
	struct connection *connection = bpf_sk_storage_get(&connections, sk, 0, 0);
	struct tcp_sock *tp;
	u8 before;

	if (!connection || after < TCP_CA_CWR)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	before = BIT_FIELD((struct inet_connection_sock *)tp, icsk_ca_state);
	if (before == after)
		return 0;
	if (before < TCP_CA_CWR || after == TCP_CA_Loss)
		__sync_fetch_and_add(&connection->cong_signals, 1);
	if (after == TCP_CA_Recovery)
		__sync_fetch_and_add(&connection->fast_retran, 1);
	return 0;
}

/* Whether ACKs of what we sent may come, of which tcp_probe says nothing. */
INLINE int is_closing(u8 state)
{
	return state == TCP_FIN_WAIT1 || state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK ||
	       state == TCP_CLOSING;
}

INLINE int on_demand(void *sk, int only_closing)
{
	struct connection *connection;
	struct tcp_sock *tp;
	struct sock *socket;
	u8 state;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	connection = bpf_sk_storage_get(&connections, tp, 0, 0);
	socket = (struct sock *)tp;
	state = socket->__sk_common.skc_state;
	if (!connection || !connection->id || state == TCP_CLOSE)
		return 0;
	if (only_closing && !is_closing(state))
		return 0;
	if (!connection->local_port && socket->__sk_common.skc_num)
		identify(socket, connection, bpf_sk_storage_get(&owners, tp, 0, 0));
	take(connection, tp, EVENT_SAMPLE, state);
	return 0;
}

/* The reader asks for a sample of every connection that is watched. */
SEC("iter/bpf_sk_storage_map") int tick(u64 *ctx)
{
	return on_demand((void *)ctx[2], 0);
}

SEC("iter/bpf_sk_storage_map") int tick_closing(u64 *ctx)
{
	return on_demand((void *)ctx[2], 1);
}

/* Every open file of every process, once at the start: the sockets that are there already. */
SEC("iter/task_file") int adopt(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[1];
	struct file *file = (void *)ctx[3];
	struct socket *socket;
	struct owner *owner;
	struct tcp_sock *tp;
	struct sock *sk;
	u8 state;

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
	state = ((struct sock *)tp)->__sk_common.skc_state;
	if (state == TCP_CLOSE || state == TCP_TIME_WAIT)
		return 0;
	/* One that opened it since the trace began knows better than one that shares it. */
	owner = bpf_sk_storage_get(&owners, tp, 0, 0);
	if (!owner)
		owner = own(tp, task);
	if (state != TCP_LISTEN && !bpf_sk_storage_get(&connections, tp, 0, 0))
		consider(tp, owner, state, 1, 0);
	return 0;
}
