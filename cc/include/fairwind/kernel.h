/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What eBPF programs use of the kernel: constants of linux/bpf.h, the helpers that libbpf declares,
 * and the kernel's structures with the fields in use, which CO-RE relocates at load time to their
 * offsets in the running kernel. Bit fields move between kernels: BPF_CORE_READ_BITFIELD reads them.
 */
#ifndef FAIRWIND_KERNEL_H
#define FAIRWIND_KERNEL_H

#include <fairwind/tcp.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* A socket's family. */
enum { AF_INET6 = 10 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	u32 inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		u32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	volatile u8 skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	u32 val;
} kuid_t;

struct kernfs_iattrs {
	kuid_t ia_uid;
};

struct kernfs_node {
	u64 id;
	const char *name;
	struct kernfs_iattrs *iattr; /* none: they are root's */
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock {
	struct sock_common __sk_common;
	struct {
		atomic_t rmem_alloc;
		int len;
	} sk_backlog;
	int sk_rcvbuf;
	int sk_sndbuf;
	int sk_wmem_queued;
	u32 sk_priority;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
	u32 sk_gso_max_size;
	kuid_t sk_uid;
	struct sock_cgroup_data sk_cgrp_data;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

struct rate_sample {
	u64 prior_mstamp;
	u32 prior_delivered;
	u32 prior_delivered_ce;
	s32 delivered;
	s32 delivered_ce;
	long interval_us;
	u32 snd_interval_us;
	u32 rcv_interval_us;
	long rtt_us;
	int losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	u32 last_end_seq;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

struct tcp_congestion_ops {
	char name[16];
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
};

struct tcp_ulp_ops {
	char name[16];
};

struct inet_connection_sock {
	u32 icsk_rto;
	const struct tcp_congestion_ops *icsk_ca_ops;
	const struct tcp_ulp_ops *icsk_ulp_ops;
	u8 icsk_ca_state : 5;
	u8 icsk_retransmits;
	u64 icsk_ca_priv[CC_PRIV_SIZE / 8];
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_rack {
	u32 rtt_us;
};

struct tcp_options_received {
	u32 rcv_tsval;
};

struct tcp_sock {
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 mss_cache;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 reordering;
	u32 srtt_us;
	u32 mdev_us;
	u32 rttvar_us;
	struct minmax rtt_min;
	struct tcp_rack rack;
	struct tcp_options_received rx_opt;
	struct {
		u32 rtt_us;
	} rcv_rtt_est;
	u32 snd_wnd;
	u32 rcv_wnd;
	u32 snd_una;
	u32 snd_nxt;
	u32 write_seq;
	u32 rcv_nxt;
	u32 copied_seq;
	u32 total_retrans;
	u16 total_rto;
	u16 total_rto_recoveries;
	u32 delivered;
	u32 delivered_ce;
	u32 lost;
	u32 dsack_dups;
	u32 reord_seen;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 segs_out;
	u32 segs_in;
	u32 data_segs_out;
	u32 data_segs_in;
	u32 chrono_start;
	u32 chrono_stat[3];
	u8 chrono_type : 2;
	u64 bytes_acked;
	u64 bytes_received;
	u64 bytes_sent;
	u64 bytes_retrans;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_stamp;
	u32 snd_cwnd_clamp;
	u32 snd_cwnd_used;
	u32 prior_cwnd;
	u32 prr_delivered;
	u32 prr_out;
	u32 max_packets_out;
	u32 cwnd_usage_seq;
	u32 app_limited;
	u32 high_seq;
	u32 lsndtime;
	u8 is_cwnd_limited : 1;
	u64 tcp_mstamp;
	u64 first_tx_mstamp;
	u64 delivered_mstamp;
};

struct socket {
	struct sock *sk;
};

struct sk_buff {
	struct sock *sk;
	unsigned int len;
	u16 transport_header;
	u16 mac_header;
	u32 end;
	unsigned char *head;
	unsigned char *data;
};

struct skb_shared_info {
	u16 gso_segs;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	u32 level;
	struct upid numbers[1];
};

struct task_struct {
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	char comm[16];
};

struct bpf_iter__bpf_sk_storage_map {
	struct sock *sk;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct bpf_iter__task_file {
	struct task_struct *task;
	struct file *file;
};

#pragma clang attribute pop

static __always_inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

/* The addresses of both ends, IPv4 as ::ffff:a.b.c.d. */
static __always_inline void addresses(const struct sock *sk, u32 *local, u32 *remote)
{
	const struct sock_common *common = &sk->__sk_common;

	if (common->skc_family == AF_INET6) {
		for (int i = 0; i < 4; i++) {
			local[i] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			remote[i] = common->skc_v6_daddr.in6_u.u6_addr32[i];
		}
		return;
	}
	local[0] = local[1] = remote[0] = remote[1] = 0;
	local[2] = remote[2] = __builtin_bswap32(0xffff);
	local[3] = common->skc_rcv_saddr;
	remote[3] = common->skc_daddr;
}

/* The network namespace, as its inode number. */
static __always_inline u32 netns(const struct sock *sk)
{
	return sk->__sk_common.skc_net.net->ns.inum;
}

/* Only if the socket is known to be of TCP; bpf_skc_to_tcp_sock finds it out. */
static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

#endif
