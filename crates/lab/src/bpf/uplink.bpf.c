/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The filter of a host's device (TUNSETFILTEREBPF): on the sender's processor, copies each packet that
 * the host sends into a ring that is mapped into the emulator, and has the device drop it. So the
 * device's own queue is never used, and reading takes no system call.
 */
#include <fairwind/kernel.h>

/* src/uplink.rs relies on the layout of these structures. */

struct state {
	/* Not 0: the reader waits for a wake-up. */
	u32 asleep;
	/* Not 0: `packets` was full, and `spilled` may not have been read empty yet. */
	u32 spills;
	/* Packets that could not be stored. */
	u64 lost;
};
volatile struct state state SEC(".bss.uplink");

struct record {
	u32 len;
	/* Payload bytes of each segment that the packet is to be cut into; 0: it is one segment. */
	u32 gso_size;
	/* Free for the reader. */
	u8 unused[16];
	u8 packet[];
};

/* Small: a ring is written and read from end to end, which is cheaper if it fits the processors' caches. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* bytes */
} packets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 25); /* bytes: room for 21,000 packets of 1500 bytes */
} spilled SEC(".maps");

char uplink_license[] SEC("license") = "Dual BSD/GPL";

/* Bytes of the header that the emulator does not need. */
enum { ETHERNET = 14 };

/*
 * Inlined because bpf_ringbuf_reserve requires a constant size. Returns how much of the packet the
 * device is to keep: one byte to wake a reader that waits for the device, otherwise nothing. The ring's
 * own wake-up takes an interrupt from this processor to itself, which costs several microseconds in a
 * virtual machine.
 */
static __always_inline int put(struct __sk_buff *skb, u32 len, u32 room)
{
	struct record *record = 0;

	/* To keep the order, `packets` is not used until everything spilled has been read. */
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
	/* Contains an exchange, a full barrier: the reader sees the record before it sleeps, or is seen asleep. */
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
