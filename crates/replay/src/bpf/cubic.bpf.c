/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's cubic, recorded. */
#include "hooks.h"

KERNEL_FUNCTION(void, cubictcp_init, struct sock *sk);
KERNEL_FUNCTION(u32, cubictcp_recalc_ssthresh, struct sock *sk);
KERNEL_FUNCTION(void, cubictcp_cong_avoid, struct sock *sk, u32 ack, u32 acked);
KERNEL_FUNCTION(void, cubictcp_state, struct sock *sk, u8 new_state);
KERNEL_FUNCTION(void, cubictcp_cwnd_event, struct sock *sk, enum tcp_ca_event event);
KERNEL_FUNCTION(void, cubictcp_acked, struct sock *sk, const struct ack_sample *sample);

RECORD_INIT(cubictcp_init)
RECORD_PKTS_ACKED(cubictcp_acked)
RECORD_CONG_AVOID(cubictcp_cong_avoid)
RECORD_SSTHRESH(cubictcp_recalc_ssthresh)
RECORD_UNDO_CWND(tcp_reno_undo_cwnd)
RECORD_SET_STATE(cubictcp_state)
RECORD_CWND_EVENT(cubictcp_cwnd_event)

CC_CONTROL(rec_cubic) = {
	CC_ABOUT(rec_cubic, "the kernel's cubic, recorded"),
	.init = CC_FN(recorder_init),
	.pkts_acked = CC_FN(recorder_pkts_acked),
	.cong_avoid = CC_FN(recorder_cong_avoid),
	.ssthresh = CC_FN(recorder_ssthresh),
	.undo_cwnd = CC_FN(recorder_undo_cwnd),
	.set_state = CC_FN(recorder_set_state),
	.cwnd_event = CC_FN(recorder_cwnd_event),
};
