/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Congestion controls that programs ask for. The program at a control group is called before the call, which the kernel may
 * refuse: it was a choice if the socket has the control later.
 */
#ifndef FAIRWIND_AGENT_CHOICE_H
#define FAIRWIND_AGENT_CHOICE_H

#include <fairwind/kernel.h>
#include "options.h"

struct wish {
	char control[16];
	u8 is_open; /* whether it has been granted is not known yet */
	u8 was_granted; /* one before it has been, and nobody knows yet */
	u8 unused[6];
};
/* What programs have last asked for; connections inherit it from who listens. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct wish);
} wishes SEC(".maps");

static __always_inline bool is_same(const char *a, const char *b)
{
	for (int i = 0; i < 16; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			break;
	}
	return true;
}

static __always_inline bool has(void *who, const struct wish *wish)
{
	char name[16] = {};

	return !bpf_getsockopt(who, SOL_TCP, TCP_CONGESTION, name, sizeof(name)) &&
	       is_same(wish->control, name);
}

/* A program asks for a control by this call. */
static __always_inline void note_wish(struct bpf_sockopt *ctx)
{
	struct bpf_sock *socket = ctx->sk;
	char *name = ctx->optval, *end = ctx->optval_end;
	struct wish *wish;

	/* The kernel has room for a whole name here, and zeros behind a shorter one. */
	if (!socket || name + 16 > end)
		return;
	wish = bpf_sk_storage_get(&wishes, socket, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!wish)
		return;
	if (wish->is_open && has(socket, wish))
		wish->was_granted = 1;
	for (int i = 0; i < 15; i++)
		wish->control[i] = name[i];
	wish->control[15] = 0;
	wish->is_open = 1;
}

/* Whether the socket has what its program has asked for since this was last true. Until then the call may be under way. */
static __always_inline bool is_granted(void *who, void *sk)
{
	struct wish *wish = bpf_sk_storage_get(&wishes, sk, 0, 0);

	if (!wish || !(wish->was_granted || (wish->is_open && has(who, wish))))
		return false;
	wish->is_open = 0;
	wish->was_granted = 0;
	return true;
}

/* The socket is about to be given a control: if that is what its program has asked for, it was not by that. */
static __always_inline void close_wish(void *sk)
{
	struct wish *wish = bpf_sk_storage_get(&wishes, sk, 0, 0);

	if (wish)
		wish->is_open = 0;
}

#endif
