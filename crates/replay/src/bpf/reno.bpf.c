/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's reno, recorded. It has neither init nor pkts_acked; those here only record that the
 * connection began, and which packets an ACK acknowledged.
 */
#include "hooks.h"

KERNEL_FUNCTION(u32, tcp_reno_ssthresh, struct sock *sk);
KERNEL_FUNCTION(void, tcp_reno_cong_avoid, struct sock *sk, u32 ack, u32 acked);

#define NO_FUNCTION(...) ((void)0)

RECORD_INIT(NO_FUNCTION)
RECORD_PKTS_ACKED(NO_FUNCTION)
RECORD_CONG_AVOID(tcp_reno_cong_avoid)
RECORD_SSTHRESH(tcp_reno_ssthresh)
RECORD_UNDO_CWND(tcp_reno_undo_cwnd)

CC_CONTROL(rec_reno) = {
	CC_ABOUT(rec_reno, "the kernel's reno, recorded"),
	.init = CC_FN(recorder_init),
	.pkts_acked = CC_FN(recorder_pkts_acked),
	.cong_avoid = CC_FN(recorder_cong_avoid),
	.ssthresh = CC_FN(recorder_ssthresh),
	.undo_cwnd = CC_FN(recorder_undo_cwnd),
};
