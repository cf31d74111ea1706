/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The filter of a host's device (TUNSETFILTEREBPF): puts each packet that the host sends into a ring
 * that the emulator has in its memory, on the sender's processor, and has the device drop it. So the
 * device's own queue is never used, and reading takes no system call.
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))

/* src/uplink.rs has the same structures. */

struct state {
	/* Not 0: the reader waits to be woken. */
	u32 asleep;
	u32 unused;
	/* Packets that found no room. */
	u64 lost;
};
volatile struct state state SEC(".bss.uplink");

struct record {
	u32 len;
	/* Bytes of each segment that the packet is to be cut into; 0: it is one. */
	u32 gso_size;
	/* The reader's. */
	u8 unused[16];
	u8 packet[];
};

/* From linux/bpf.h. */
struct __sk_buff {
	u32 len;
	u32 before[43];
	u32 gso_size;
};

struct {
	int (*type)[27]; /* BPF_MAP_TYPE_RINGBUF */
	/* Bytes: room for 21,000 packets of 1500 bytes. */
	int (*max_entries)[1 << 25];
} packets __attribute__((section(".maps"), used));

char uplink_license[] SEC("license") = "Dual BSD/GPL";

enum {
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
};

static long (*const bpf_skb_load_bytes)(const void *skb, u32 offset, void *to,
					u32 len) = (void *)26;
static void *(*const bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static void (*const bpf_ringbuf_discard)(void *data, u64 flags) = (void *)133;

/* The size of a record is to be a constant where it is reserved. */
static inline __attribute__((always_inline)) void put(struct __sk_buff *skb, u32 len, u32 room)
{
	struct record *record = bpf_ringbuf_reserve(&packets, sizeof(*record) + room, 0);
	u64 flags;

	if (!record) {
		__sync_fetch_and_add(&state.lost, 1);
		return;
	}
	record->len = len;
	record->gso_size = skb->gso_size;
	/* An exchange, so that the reader sees the record before it sleeps, or is seen asleep here. */
	flags = __sync_lock_test_and_set(&state.asleep, 0) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
	if (bpf_skb_load_bytes(skb, 0, record->packet, len)) {
		__sync_fetch_and_add(&state.lost, 1);
		bpf_ringbuf_discard(record, flags);
		return;
	}
	bpf_ringbuf_submit(record, flags);
}

SEC("socket") int uplink(struct __sk_buff *skb)
{
	u32 len = skb->len;

	if (len == 0)
		return 0;
	if (len <= 128)
		put(skb, len, 128);
	else if (len <= 512)
		put(skb, len, 512);
	else if (len <= 1504)
		put(skb, len, 1504);
	else if (len <= 4096)
		put(skb, len, 4096);
	else if (len <= 9216)
		put(skb, len, 9216);
	else if (len <= 32768)
		put(skb, len, 32768);
	else if (len <= 65536)
		put(skb, len, 65536);
	else
		__sync_fetch_and_add(&state.lost, 1);
	return 0;
}
