// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The kernel side of the tracer: finds matching connections, keeps state for them in their sockets,
 * and writes their instruments to a ring buffer on every ACK or whenever the reader asks.
 *
 * Connections are never modified. On an ACK the stack holds the socket's lock; a sample that the
 * reader requests takes each value as it is at that moment, without the lock unless the kernel
 * lists its table of connections. Only tracepoints and iterators are used, as they do not patch the
 * code of the running kernel.
 */
#include "account.h"
#include "filter.h"
#include "identity.h"
#include "sample.h"

char trace_license[] SEC("license") = "Dual BSD/GPL";

/* Traces a connection from now on if it matches. */
static __always_inline void consider(struct tcp_sock *tp, const struct owner *owner, u8 state,
				     int adopted, int incoming)
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
	if (state == BPF_TCP_ESTABLISHED && !adopted)
		begin_accounting(connection, tp);
	identify(sk, connection, owner);
	take(connection, tp, EVENT_SAMPLE, state);
}

/* Records the process as the socket's owner, in the socket. */
static __always_inline struct owner *own(struct tcp_sock *tp, struct task_struct *task)
{
	struct owner *owner = bpf_sk_storage_get(&owners, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (owner) {
		owner->pid = process(task);
		bpf_probe_read_kernel(owner->program, sizeof(owner->program),
				      task->group_leader->comm);
	}
	return owner;
}

/*
 * A socket is about to change its state. On connect and listen the current process is the caller;
 * at any other change it is an arbitrary one.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(set_state, struct sock *sk, int before, int after)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct connection *connection;
	struct owner *owner;

	if (!tp)
		return 0;
	if (after == BPF_TCP_LISTEN || after == BPF_TCP_SYN_SENT)
		owner = own(tp, bpf_get_current_task_btf());
	else
		owner = bpf_sk_storage_get(&owners, tp, 0, 0);
	connection = bpf_sk_storage_get(&connections, tp, 0, 0);
	if (!connection) {
		if (after == BPF_TCP_SYN_SENT || after == BPF_TCP_ESTABLISHED)
			consider(tp, owner, after, 0, before == BPF_TCP_SYN_RECV);
		return 0;
	}
	if (before == after)
		return 0;
	if (after == BPF_TCP_ESTABLISHED)
		begin_accounting(connection, tp);
	/* The port is chosen after the first change of state. */
	if (after == BPF_TCP_ESTABLISHED && !connection->local_port)
		identify(sk, connection, owner);
	take(connection, tp, after == BPF_TCP_CLOSE ? EVENT_CLOSE : EVENT_SAMPLE, after);
	if (after == BPF_TCP_CLOSE)
		bpf_sk_storage_delete(&connections, tp);
	return 0;
}

/*
 * An established connection is about to process a packet: the sample shows the state that earlier
 * packets have led to. If the connection has nothing in flight, the packet acknowledges nothing.
 */
SEC("tp_btf/tcp_probe") int BPF_PROG(ack, struct sock *sk, struct sk_buff *skb)
{
	struct connection *connection = bpf_sk_storage_get(&connections, sk, 0, 0);
	struct tcp_sock *tp;

	if (!connection)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	account(connection, tp, skb);
	if (tp->packets_out)
		take(connection, tp, EVENT_SAMPLE, BPF_TCP_ESTABLISHED);
	return 0;
}

/*
 * Counts what the kernel does not count: congestion signals and fast retransmits. The window is
 * reduced on leaving Open and Disorder, and on entering Loss.
 */
SEC("tp_btf/tcp_cong_state_set") int BPF_PROG(congestion, struct sock *sk, u8 after)
{
	struct connection *connection = bpf_sk_storage_get(&connections, sk, 0, 0);
	struct tcp_sock *tp;
	u8 before;

	if (!connection || after < TCP_CA_CWR)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	before = BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)tp, icsk_ca_state);
	if (before == after)
		return 0;
	if (before < TCP_CA_CWR || after == TCP_CA_Loss)
		__sync_fetch_and_add(&connection->cong_signals, 1);
	if (after == TCP_CA_Recovery)
		__sync_fetch_and_add(&connection->fast_retran, 1);
	return 0;
}

/* Whether ACKs of sent data may still arrive that tcp_probe does not report. */
static __always_inline int is_closing(u8 state)
{
	return state == BPF_TCP_FIN_WAIT1 || state == BPF_TCP_CLOSE_WAIT ||
	       state == BPF_TCP_LAST_ACK || state == BPF_TCP_CLOSING;
}

static __always_inline int on_demand(struct sock *sk, int only_closing)
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
	if (!connection || !connection->id || state == BPF_TCP_CLOSE)
		return 0;
	if (only_closing && !is_closing(state))
		return 0;
	if (!connection->local_port && socket->__sk_common.skc_num)
		identify(socket, connection, bpf_sk_storage_get(&owners, tp, 0, 0));
	take(connection, tp, EVENT_SAMPLE, state);
	return 0;
}

/*
 * The reader requests a sample of every traced connection. The kernel lists them by their storage, or else by its
 * table of connections, one network namespace at a time.
 */
SEC("iter/bpf_sk_storage_map") int tick(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	return on_demand(ctx->sk, 0);
}

SEC("iter/bpf_sk_storage_map") int tick_closing(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	return on_demand(ctx->sk, 1);
}

SEC("iter/tcp") int tick_table(struct bpf_iter__tcp *ctx)
{
	return on_demand((struct sock *)ctx->sk_common, 0);
}

SEC("iter/tcp") int tick_table_closing(struct bpf_iter__tcp *ctx)
{
	return on_demand((struct sock *)ctx->sk_common, 1);
}

/* Visits every open file of every process once, at the start, to find the existing sockets. */
SEC("iter/task_file") int adopt(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
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
	if (state == BPF_TCP_CLOSE || state == BPF_TCP_TIME_WAIT)
		return 0;
	/* An owner recorded during the trace opened the socket; this process may only share it. */
	owner = bpf_sk_storage_get(&owners, tp, 0, 0);
	if (!owner)
		owner = own(tp, task);
	if (state != BPF_TCP_LISTEN && !bpf_sk_storage_get(&connections, tp, 0, 0))
		consider(tp, owner, state, 1, 0);
	return 0;
}
