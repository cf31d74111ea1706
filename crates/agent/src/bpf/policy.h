/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which rule of the policy a connection meets. src/policy/tables.rs explains the tables, src/host/load.rs fills them.
 */
#ifndef FAIRWIND_AGENT_POLICY_H
#define FAIRWIND_AGENT_POLICY_H

#include "advice.h"

enum { RULES_MAX = 64, GROUP_LEVELS = 16 };
enum kind { PROGRAM, USER, GROUP, LOCAL, REMOTE, LOCAL_PORT, REMOTE_PORT, KINDS };

/* src/host/load.rs repeats the layout. */
struct policy {
	u64 any[KINDS]; /* rules without a condition of the kind */
	u64 incoming; /* rules for connections that the peer has opened */
	u64 outgoing; /* and for those that this host has */
	u64 later; /* rules with the two following conditions */
	u64 least_bytes[RULES_MAX];
	u64 least_age_ns[RULES_MAX];
	u64 names[RULES_MAX]; /* what rules are known by over several policies */
	struct action actions[RULES_MAX];
	u64 host; /* the control group of whose connections the agent takes care */
	u32 generation; /* number of the policy */
	u32 user; /* to whom the agent belongs */
	u8 is_whole; /* `host` is the root: all connections are in it */
	u8 is_dry; /* only tells */
	u8 first_segments; /* that held connections offer at first; 0: none is held */
	u8 unused[5];
};
const volatile struct policy policy SEC(".rodata.policy");

#define TABLE(name, kind, flags, key_type) \
	struct {                           \
		__uint(type, kind);        \
		__uint(map_flags, flags);  \
		__uint(max_entries, 1);    \
		__type(key, key_type);     \
		__type(value, u64);        \
	} name SEC(".maps")
struct program {
	char name[16];
};
struct network {
	u32 length;
	u32 address[4];
};
TABLE(programs, BPF_MAP_TYPE_HASH, 0, struct program);
TABLE(users, BPF_MAP_TYPE_HASH, 0, u32);
TABLE(units, BPF_MAP_TYPE_HASH, 0, u64);
TABLE(groups, BPF_MAP_TYPE_HASH, 0, u64);
TABLE(local_networks, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, struct network);
TABLE(remote_networks, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, struct network);
TABLE(local_ports, BPF_MAP_TYPE_HASH, 0, u32);
TABLE(remote_ports, BPF_MAP_TYPE_HASH, 0, u32);

/* Who opened a connection or listens for it; accepted sockets inherit it. */
struct owner {
	char program[16];
	u64 since_ns; /* CLOCK_MONOTONIC, when the connection was first seen; 0 for who listens */
	u32 pid;
	u8 is_incoming;
	u8 is_known; /* the program is */
	u8 has_chosen; /* the program has chosen its congestion control */
	u8 is_of_run; /* of `fairwind run`, which decides itself */
};

static __always_inline u64 rules(void *table, const void *key)
{
	u64 *found = bpf_map_lookup_elem(table, key);

	return found ? *found : 0;
}

/* As in src/policy/tables.rs. */
static __always_inline u64 mix(u64 hash, u64 word)
{
	u64 product = (hash ^ word) * 0x9e3779b97f4a7c15ull;

	return product ^ (product >> 32);
}

/* Eight bytes after the other of the first 127. */
static __always_inline u64 group_hash(struct kernfs_node *node)
{
	u64 name[16] = {}, hash = 0;

	bpf_probe_read_kernel_str(name, sizeof(name), node->name);
	for (int i = 0; i < 16; i++)
		hash = mix(hash, name[i]);
	return hash;
}

/*
 * Rules for the connection's control group and those above it: by their names, and by their paths, which are put together
 * from the root down.
 */
static __noinline u64 group_rules(struct tcp_sock *tp)
{
	struct cgroup *cgroup = ((struct sock *)tp)->sk_cgrp_data.cgroup;
	u64 hashes[GROUP_LEVELS] = {}, path = 0, found = 0;
	int levels = 0;

	for (int i = 0; i < GROUP_LEVELS && cgroup; i++) {
		struct cgroup_subsys_state *parent = cgroup->self.parent;

		if (!parent)
			break;
		hashes[i] = group_hash(cgroup->kn);
		found |= rules(&units, &hashes[i]);
		levels = i + 1;
		cgroup = parent->cgroup;
	}
#pragma unroll
	for (int i = GROUP_LEVELS - 1; i >= 0; i--) {
		if (i >= levels)
			continue;
		path = mix(path, hashes[i]);
		found |= rules(&groups, &path);
	}
	return found;
}

/* To whom a control group belongs. */
static __always_inline u32 user_of(struct cgroup *cgroup)
{
	if (!bpf_core_field_exists(struct kernfs_node, iattr) ||
	    !bpf_core_field_exists(struct kernfs_iattrs, ia_uid))
		return 0;
	/* Without attributes, as most are, this reads 0. */
	return cgroup->kn->iattr->ia_uid.val;
}

/* Whether it is in the control group of a run, or below one, by the name; not in one that just anybody has made. */
static __always_inline bool is_of_run(struct sock *sk)
{
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;
	const char prefix[] = "fairwind-run-";

	for (int i = 0; i < GROUP_LEVELS && cgroup; i++) {
		struct cgroup_subsys_state *parent = cgroup->self.parent;
		u32 user = user_of(cgroup);
		bool is_same = !user || user == policy.user;
		char name[16] = {};

		bpf_probe_read_kernel_str(name, sizeof(name), cgroup->kn->name);
		for (unsigned int at = 0; at < sizeof(prefix) - 1; at++)
			is_same &= name[at] == prefix[at];
		if (is_same)
			return true;
		cgroup = parent ? parent->cgroup : 0;
	}
	return false;
}

/* Whether the connection is in the control group of whose connections the agent takes care, or below it. */
static __always_inline bool is_of_host(struct sock *sk)
{
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;

	if (policy.is_whole)
		return true;
	for (int i = 0; i < 2 * GROUP_LEVELS && cgroup; i++) {
		struct cgroup_subsys_state *parent;

		if (cgroup->kn->id == policy.host)
			return true;
		parent = cgroup->self.parent;
		cgroup = parent ? parent->cgroup : 0;
	}
	return false;
}

/* Whether any of these rules has a condition of the kind: looking up what cannot matter takes most of the time. */
static __always_inline bool asks(u64 met, enum kind kind)
{
	return met & ~policy.any[kind];
}

/* The number of the first rule that the connection meets now; negative if none. */
static __always_inline int first_rule(struct tcp_sock *tp, const struct owner *owner, u64 now_ns)
{
	struct sock *sk = (struct sock *)tp;
	struct network local = { .length = 128 }, remote = { .length = 128 };
	u32 local_port = sk->__sk_common.skc_num;
	u32 remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	u32 user = sk->sk_uid.val;
	u64 met = owner->is_incoming ? policy.incoming : policy.outgoing;
	u64 moved, age;

	if (asks(met, LOCAL_PORT))
		met &= policy.any[LOCAL_PORT] | rules(&local_ports, &local_port);
	if (asks(met, REMOTE_PORT))
		met &= policy.any[REMOTE_PORT] | rules(&remote_ports, &remote_port);
	if (asks(met, PROGRAM))
		met &= policy.any[PROGRAM] |
		       (owner->is_known ? rules(&programs, owner->program) : 0);
	if (asks(met, USER))
		met &= policy.any[USER] | rules(&users, &user);
	if (asks(met, LOCAL) || asks(met, REMOTE))
		addresses(sk, local.address, remote.address);
	if (asks(met, LOCAL))
		met &= policy.any[LOCAL] | rules(&local_networks, &local);
	if (asks(met, REMOTE))
		met &= policy.any[REMOTE] | rules(&remote_networks, &remote);
	if (asks(met, GROUP))
		met &= policy.any[GROUP] | group_rules(tp);
	if (met & policy.later) {
		moved = tp->bytes_acked + tp->bytes_received;
		age = now_ns - owner->since_ns;
		for (int i = 0; i < RULES_MAX; i++) {
			if (moved < policy.least_bytes[i] || age < policy.least_age_ns[i])
				met &= ~(1ull << i);
		}
	}
	for (int i = 0; i < RULES_MAX; i++) {
		if (met >> i & 1)
			return i;
	}
	return -1;
}

#endif
