/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What connections are given, and what an advisor says of their peers. A process asks the advisor for those that the programs
 * name, and fills the map.
 */
#ifndef FAIRWIND_AGENT_ADVICE_H
#define FAIRWIND_AGENT_ADVICE_H

#include <fairwind/kernel.h>

/* src/action.rs repeats the layout. */
struct action {
	char control[16]; /* empty: as it is */
	u32 max_rate; /* bytes a second; 0: no limit */
	u32 send_buffer; /* bytes; 0: as it is */
	u32 receive_buffer; /* as above */
	u8 traffic_class; /* 0: as it is */
	u8 is_forced; /* whatever the program has chosen */
	u8 holds; /* what is received down */
	u8 is_advised; /* but for what an advisor says */
};

/* A peer, as a network namespace sees it. */
struct peer {
	u32 netns;
	u32 address[4];
};

/* Advice on peers. src/advised.rs repeats the layout. */
struct advice {
	struct action action;
	u64 asks_ns; /* CLOCK_MONOTONIC, when to ask again */
	u64 ends_ns; /* when it no longer holds */
	u32 number; /* another with each answer */
	u32 unused;
};

/* Peers whose first bits are the same, as src/told.rs has them by what an answer holds for. */
struct peers {
	u32 bits; /* of what follows */
	struct peer peer;
};
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 12);
	__type(key, struct peers);
	__type(value, struct advice);
} advised SEC(".maps");

/* Peers to ask about. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} asked SEC(".maps");

/* Peers that nothing is advised of: when to name them again, CLOCK_MONOTONIC. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 12);
	__type(key, struct peer);
	__type(value, u64);
} unanswered SEC(".maps");

/* A peer that there is no answer about is named again after this. */
enum { RETRY_NS = 1000000000 };

/* What is advised of the peer now, by the longest prefix; none if nothing is. */
static __always_inline struct advice *advice_on(const struct peer *peer, u64 now)
{
	struct peers key = { .bits = 8 * sizeof(*peer), .peer = *peer };
	struct advice *advice = bpf_map_lookup_elem(&advised, &key);
	u64 *again, next = now + RETRY_NS;

	if (advice && now < advice->ends_ns) {
		/* Of all peers that it holds for, one is named. */
		if (now >= advice->asks_ns) {
			advice->asks_ns = next;
			bpf_ringbuf_output(&asked, (void *)peer, sizeof(*peer), 0);
		}
		return advice;
	}
	again = bpf_map_lookup_elem(&unanswered, peer);
	if (!again || now >= *again) {
		bpf_map_update_elem(&unanswered, peer, &next, BPF_ANY);
		bpf_ringbuf_output(&asked, (void *)peer, sizeof(*peer), 0);
	}
	return 0;
}

#endif
