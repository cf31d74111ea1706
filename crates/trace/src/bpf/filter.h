/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which connections are traced: by their addresses, ports, namespace, control group and program.
 */
#ifndef FAIRWIND_TRACE_FILTER_H
#define FAIRWIND_TRACE_FILTER_H

#include "connection.h"

/* The filter: a key in a map passes. The reader fills the maps before any program is attached. */
#define FILTER(name, kind, flags, key_type) \
	struct {                            \
		__uint(type, kind);         \
		__uint(map_flags, flags);   \
		__uint(max_entries, 1);     \
		__type(key, key_type);      \
		__type(value, u8);          \
	} name SEC(".maps")
struct program {
	char name[16];
};
FILTER(networks, BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, struct network);
FILTER(ports, BPF_MAP_TYPE_HASH, 0, u32);
FILTER(programs, BPF_MAP_TYPE_HASH, 0, struct program);
FILTER(namespaces, BPF_MAP_TYPE_HASH, 0, u32);
FILTER(cgroups, BPF_MAP_TYPE_HASH, 0, u64);

static __always_inline u16 remote_port(struct sock *sk)
{
	return __builtin_bswap16(sk->__sk_common.skc_dport);
}

static __always_inline u64 cgroup(struct sock *sk)
{
	return sk->sk_cgrp_data.cgroup->kn->id;
}

static __always_inline int in_a_network(const u32 *address)
{
	struct network key = { .length = 128 };

	for (int i = 0; i < 4; i++)
		key.address[i] = address[i];
	return !!bpf_map_lookup_elem(&networks, &key);
}

static __always_inline int network_matches(struct sock *sk)
{
	u32 local[4], remote[4];

	if (!settings.has_networks)
		return 1;
	addresses(sk, local, remote);
	return in_a_network(local) || in_a_network(remote);
}

static __always_inline int port_matches(struct sock *sk)
{
	u32 local = sk->__sk_common.skc_num, remote = remote_port(sk);

	return !settings.has_ports || bpf_map_lookup_elem(&ports, &local) ||
	       bpf_map_lookup_elem(&ports, &remote);
}

static __always_inline int namespace_matches(struct sock *sk)
{
	u32 inode = netns(sk);

	return !settings.has_namespaces || bpf_map_lookup_elem(&namespaces, &inode);
}

/* Maximum number of control group levels that are searched. */
enum { CGROUP_DEPTH = 32 };

/* Whether the filter has the socket's control group or one above it. */
static __always_inline int cgroup_matches(struct sock *sk)
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

static __always_inline int program_matches(const struct owner *owner)
{
	struct program program;

	if (!settings.has_programs)
		return 1;
	if (!owner)
		return 0;
	__builtin_memcpy(program.name, owner->program, sizeof(program.name));
	return !!bpf_map_lookup_elem(&programs, &program);
}

static __always_inline int matches(struct sock *sk, const struct owner *owner)
{
	return port_matches(sk) && network_matches(sk) && namespace_matches(sk) &&
	       cgroup_matches(sk) && program_matches(owner);
}

#endif
