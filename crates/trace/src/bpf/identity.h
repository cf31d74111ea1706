/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What identifies a connection, and which congestion control it uses.
 */
#ifndef FAIRWIND_TRACE_IDENTITY_H
#define FAIRWIND_TRACE_IDENTITY_H

#include "filter.h"
#include "ring.h"

/* One more than the kernel nests (MAX_PID_NS_LEVEL). */
#define PID_NAMESPACES 33

/* The process number in the reader's PID namespace, like task_tgid_nr_ns; 0 if it has none. */
static __always_inline u32 process(struct task_struct *task)
{
	struct pid *pid = 0;
	u32 innermost = 0, inode = 0;

	bpf_probe_read_kernel(&pid, sizeof(pid), &task->group_leader->thread_pid);
	bpf_probe_read_kernel(&innermost, sizeof(innermost), &pid->level);
	for (u32 level = 0; level < PID_NAMESPACES && level <= innermost; level++) {
		struct upid number = {};

		bpf_probe_read_kernel(&number, sizeof(number),
				      (const void *)pid->numbers + level * sizeof(number));
		bpf_probe_read_kernel(&inode, sizeof(inode), &number.ns->ns.inum);
		if (inode == settings.pid_namespace)
			return number.nr;
	}
	return 0;
}

/* Reports the connection to the reader, or what has changed since the last report. */
static __always_inline void identify(struct sock *sk, struct connection *connection,
				     const struct owner *owner)
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

/* Reports the name of the congestion control if it has changed. */
static __always_inline void name_control(struct connection *connection, struct tcp_sock *tp)
{
	const struct tcp_congestion_ops *ops = inet_csk((struct sock *)tp)->icsk_ca_ops;
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

#endif
