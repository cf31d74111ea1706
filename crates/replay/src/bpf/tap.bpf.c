/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records what the sender of a connection receives and its state just before: every ACK with its
 * time and header, the congestion state and its counters. Also records the connection's SYN, its
 * first data, and when it is established.
 */
#include <fairwind/kernel.h>

/* src/tap.rs repeats the kinds and the event, src/path.rs the port. */
#define PORT 47021

enum kind {
	KIND_SENT,
	KIND_ESTABLISHED,
	KIND_RECEIVED,
};

struct standing {
	u32 cwnd;
	u32 ssthresh;
	u32 ca_state;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 snd_nxt;
};

struct event {
	u64 ns;
	u64 jiffies;
	u32 kind;
	u32 payload; /* bytes of payload in a packet sent */
	u32 snd_wnd;
	struct standing standing;
	u8 header[60]; /* TCP header, with room for all options */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

struct tap_counts {
	u64 lost;
};
static volatile struct tap_counts tap_counts SEC(".bss.tap");

char tap_license[] SEC("license") = "Dual BSD/GPL";

static __always_inline bool is_sender(const struct sock *sk)
{
	return sk->__sk_common.skc_dport == __builtin_bswap16(PORT);
}

static __always_inline void stand(struct event *event, const struct sock *sk)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock((void *)sk);

	if (!tp)
		return;
	event->snd_wnd = tp->snd_wnd;
	event->standing = (struct standing){
		.cwnd = tp->snd_cwnd,
		.ssthresh = tp->snd_ssthresh,
		.ca_state =
			BPF_CORE_READ_BITFIELD(inet_csk((const struct sock *)tp), icsk_ca_state),
		.packets_out = tp->packets_out,
		.sacked_out = tp->sacked_out,
		.lost_out = tp->lost_out,
		.retrans_out = tp->retrans_out,
		.snd_nxt = tp->snd_nxt,
	};
}

static __always_inline void put(struct event *event)
{
	event->jiffies = bpf_jiffies64();
	/* The reader polls. */
	if (bpf_ringbuf_output(&events, event, sizeof(*event), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&tap_counts.lost, 1);
}

SEC("tp_btf/tcp_probe") int BPF_PROG(received, struct sock *sk, struct sk_buff *skb)
{
	struct event event = { .ns = bpf_ktime_get_ns(), .kind = KIND_RECEIVED };

	if (!is_sender(sk))
		return 0;
	stand(&event, sk);
	bpf_probe_read_kernel(event.header, sizeof(event.header), skb->data);
	put(&event);
	return 0;
}

SEC("tp_btf/net_dev_queue") int BPF_PROG(sent, struct sk_buff *skb)
{
	struct event event = { .ns = bpf_ktime_get_ns(), .kind = KIND_SENT };
	u32 headers;

	if (!skb->sk)
		return 0;
	bpf_probe_read_kernel(event.header, sizeof(event.header),
			      skb->head + skb->transport_header);
	if ((event.header[2] << 8 | event.header[3]) != PORT)
		return 0;
	/* The packet begins with the device's link-layer header here, if there is one. */
	headers = skb->transport_header - skb->mac_header + (event.header[12] >> 4) * 4;
	event.payload = skb->len - headers;
	put(&event);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(set_state, struct sock *sk, int before, int after)
{
	struct event event = { .ns = bpf_ktime_get_ns(), .kind = KIND_ESTABLISHED };

	if (!is_sender(sk) || after != BPF_TCP_ESTABLISHED)
		return 0;
	stand(&event, sk);
	put(&event);
	return 0;
}
