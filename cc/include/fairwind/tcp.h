/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Integers and TCP's constants, by the kernel's names: for the simulator and for eBPF programs.
 */
#ifndef FAIRWIND_TCP_H
#define FAIRWIND_TCP_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;

#ifndef __cplusplus
#if !defined(bool)
#define bool _Bool
#define true 1
#define false 0
#endif
#endif

/* Size of a congestion control's state for each connection, bytes: icsk_ca_priv. */
#define CC_PRIV_SIZE 104
/* Size at most of what connections between the same two hosts share, bytes. */
#define CC_SHARED_SIZE 128

/* What is advised of a path: see CC_ADVISED_STARTS of cc.h. */
struct advised_start {
	u64 rate; /* promised, bytes/s, headers included: the low edge of a forecast; at most 10^12 */
	u64 until_ns; /* the advice holds before this time of CLOCK_MONOTONIC; 0: it has been found wrong */
	u64 held_until_ns; /* a connection uses it until then */
	u32 rtt_us; /* minimum round-trip time of the path; at most 10^7 */
	u32 padding;
};

/* Congestion states of the kernel, the argument of set_state. */
enum tcp_ca_state {
	TCP_CA_Open = 0,
	TCP_CA_Disorder = 1,
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

/* Events, the argument of cwnd_event. */
enum tcp_ca_event {
	CA_EVENT_TX_START, /* first transmission with no packet in flight */
	CA_EVENT_CWND_RESTART, /* the window was reset after an idle time */
	CA_EVENT_COMPLETE_CWR, /* a reduction of the window has ended */
	CA_EVENT_LOSS, /* retransmission timeout */
	CA_EVENT_ECN_NO_CE, /* a packet without a CE mark arrived */
	CA_EVENT_ECN_IS_CE, /* a packet with a CE mark arrived */
};

/* sk_pacing_status. */
enum {
	SK_PACING_NONE = 0,
	SK_PACING_NEEDED = 1, /* TCP paces */
	SK_PACING_FQ = 2, /* the fq queueing discipline paces */
};

#endif
