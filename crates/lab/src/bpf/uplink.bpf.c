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
	/* Not 0: there was no room in `packets`, and what came then may not be read yet. */
	u32 spills;
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

/* Small: a ring is written and read from end to end, and what the processors' caches hold costs less. */
struct {
	int (*type)[27]; /* BPF_MAP_TYPE_RINGBUF */
	/* Bytes. */
	int (*max_entries)[1 << 20];
} packets __attribute__((section(".maps"), used));

struct {
	int (*type)[27];
	/* Bytes: room for 21,000 packets of 1500 bytes. */
	int (*max_entries)[1 << 25];
} spilled __attribute__((section(".maps"), used));

char uplink_license[] SEC("license") = "Dual BSD/GPL";

enum {
	/* Bytes of the header that is not the emulator's concern. */
	ETHERNET = 14,
	BPF_RB_NO_WAKEUP = 1,
	/* Of bpf_ringbuf_query: bytes that are not read. */
	BPF_RB_AVAIL_DATA = 0,
};

static long (*const bpf_skb_load_bytes)(const void *skb, u32 offset, void *to,
					u32 len) = (void *)26;
static void *(*const bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static void (*const bpf_ringbuf_discard)(void *data, u64 flags) = (void *)133;
static u64 (*const bpf_ringbuf_query)(void *ring, u64 flags) = (void *)134;

/*
 * The size of a record is to be a constant where it is reserved. Answers how much of the packet the
 * device is to keep: one byte, if that is to wake the reader, who waits for the device. The ring would
 * wake it by an interrupt to this processor itself, which in a virtual machine costs several
 * microseconds.
 */
static inline __attribute__((always_inline)) int put(struct __sk_buff *skb, u32 len, u32 room)
{
	struct record *record = 0;

	/* Nothing is put before what has spilled until all of that has been read. */
	if (state.spills && !bpf_ringbuf_query(&spilled, BPF_RB_AVAIL_DATA))
		state.spills = 0;
	if (!state.spills) {
		record = bpf_ringbuf_reserve(&packets, sizeof(*record) + room, 0);
		if (!record)
			state.spills = 1;
	}
	if (!record)
		record = bpf_ringbuf_reserve(&spilled, sizeof(*record) + room, 0);
	if (!record) {
		__sync_fetch_and_add(&state.lost, 1);
		return 0;
	}
	record->len = len;
	record->gso_size = skb->gso_size;
	if (bpf_skb_load_bytes(skb, ETHERNET, record->packet, len)) {
		__sync_fetch_and_add(&state.lost, 1);
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return 0;
	}
	/* An exchange in there is a barrier: the reader sees the record before it sleeps, or is seen asleep. */
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return state.asleep ? __sync_lock_test_and_set(&state.asleep, 0) : 0;
}

SEC("socket") int uplink(struct __sk_buff *skb)
{
	u32 len = skb->len - ETHERNET;

	if (skb->len <= ETHERNET)
		return 0;
	if (len <= 128)
		return put(skb, len, 128);
	if (len <= 512)
		return put(skb, len, 512);
	if (len <= 1504)
		return put(skb, len, 1504);
	if (len <= 4096)
		return put(skb, len, 4096);
	if (len <= 9216)
		return put(skb, len, 9216);
	if (len <= 32768)
		return put(skb, len, 32768);
	if (len <= 65536)
		return put(skb, len, 65536);
	__sync_fetch_and_add(&state.lost, 1);
	return 0;
}
