/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the tracer uses of the kernel: the fields that it reads, which CO-RE relocates at load time
 * to their offsets in the running kernel, and the helpers that it calls, by their numbers in
 * uapi/linux/bpf.h. Bit fields move between kernels, so BIT_FIELD reads them.
 */
#ifndef FAIRWIND_TRACE_KERNEL_H
#define FAIRWIND_TRACE_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

enum { AF_INET = 2, AF_INET6 = 10 };
enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT,
	TCP_SYN_RECV,
	TCP_FIN_WAIT1,
	TCP_FIN_WAIT2,
	TCP_TIME_WAIT,
	TCP_CLOSE,
	TCP_CLOSE_WAIT,
	TCP_LAST_ACK,
	TCP_LISTEN,
	TCP_CLOSING,
};
enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };

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

struct kernfs_node {
	u64 id;
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
	unsigned long sk_pacing_rate;
	u32 sk_pacing_status;
	struct sock_cgroup_data sk_cgrp_data;
};

struct tcp_congestion_ops {
	char name[16];
};

struct inet_connection_sock {
	u32 icsk_rto;
	const struct tcp_congestion_ops *icsk_ca_ops;
	u8 icsk_ca_state : 5;
	u8 icsk_retransmits;
	u64 icsk_ca_priv[104 / 8];
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
};

struct socket {
	struct sock *sk;
};

struct sk_buff {
	u32 end;
	unsigned char *head;
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

#pragma clang attribute pop

struct file;

/* Properties of a field in the running kernel (enum bpf_field_info_kind of libbpf). */
#define FIELD_EXISTS(field) __builtin_preserve_field_info(field, 2)
#define BIT_FIELD(s, field)                                                                       \
	({                                                                                        \
		const void *p = (const void *)(s) + __builtin_preserve_field_info((s)->field, 0); \
		u64 word;                                                                         \
		/* The offset may be of a wider field: not into the load with it. */              \
		asm volatile("" : "+r"(p));                                                       \
		switch (__builtin_preserve_field_info((s)->field, 1)) {                           \
		case 1:                                                                           \
			word = *(const u8 *)p;                                                    \
			break;                                                                    \
		case 2:                                                                           \
			word = *(const u16 *)p;                                                   \
			break;                                                                    \
		case 4:                                                                           \
			word = *(const u32 *)p;                                                   \
			break;                                                                    \
		default:                                                                          \
			word = *(const u64 *)p;                                                   \
		}                                                                                 \
		word <<= __builtin_preserve_field_info((s)->field, 4);                            \
		word >> __builtin_preserve_field_info((s)->field, 5);                             \
	})

/* Maps, in the form that libbpf reads from BTF. */
#define UINT(name, value) int(*name)[value]
#define TYPE(name, value) typeof(value) *name
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_F_NO_PREALLOC = 1, BPF_F_CLONE = 1 << 9 };
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1 };
enum { BPF_RB_AVAIL_DATA = 0 };

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u64 (*const bpf_get_socket_cookie)(void *sk) = (void *)46;
static void *(*const bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static long (*const bpf_sk_storage_delete)(void *map, void *sk) = (void *)108;
static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static u64 (*const bpf_jiffies64)(void) = (void *)118;
static void *(*const bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static u64 (*const bpf_ringbuf_query)(void *ring, u64 flags) = (void *)134;
static struct tcp_sock *(*const bpf_skc_to_tcp_sock)(void *sk) = (void *)137;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static struct socket *(*const bpf_sock_from_file)(struct file *file) = (void *)162;

#endif
