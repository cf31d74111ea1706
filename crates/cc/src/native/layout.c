/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The layout of native.h, for the test that compares socket.rs with it: name, offset and size in
 * bytes of every field, then of every structure, with offset 0.
 */
#include <stddef.h>
#include <fairwind/cc.h>

struct fairwind_cc_field {
	const char *name;
	size_t offset;
	size_t size;
};

#define FIELD(name, type, field) name, offsetof(type, field), sizeof(((type *)0)->field)
#define SK(field) FIELD(#field, struct tcp_sock, inet_conn.sk.field)
#define CSK(field) FIELD(#field, struct tcp_sock, inet_conn.field)
#define TP(field) FIELD(#field, struct tcp_sock, field)
#define RS(field) FIELD("rs." #field, struct rate_sample, field)
#define ACK(field) FIELD("ack." #field, struct ack_sample, field)

const struct fairwind_cc_field fairwind_cc_layout[] = {
	{ SK(sk_pacing_rate) },
	{ SK(sk_max_pacing_rate) },
	{ SK(sk_pacing_status) },
	{ SK(hz) },
	{ SK(now_ns) },
	{ SK(jiffies) },
	{ SK(parameters) },
	{ SK(sk_gso_max_size) },
	{ SK(cc_shared) },
	{ SK(cc_advised) },
	{ CSK(icsk_ca_state) },
	{ CSK(icsk_retransmits) },
	{ CSK(icsk_ca_priv) },
	{ TP(snd_cwnd) },
	{ TP(snd_cwnd_cnt) },
	{ TP(snd_cwnd_stamp) },
	{ TP(snd_ssthresh) },
	{ TP(snd_cwnd_clamp) },
	{ TP(snd_cwnd_used) },
	{ TP(prior_cwnd) },
	{ TP(prr_delivered) },
	{ TP(prr_out) },
	{ TP(max_packets_out) },
	{ TP(cwnd_usage_seq) },
	{ TP(packets_out) },
	{ TP(sacked_out) },
	{ TP(lost_out) },
	{ TP(retrans_out) },
	{ TP(srtt_us) },
	{ TP(mdev_us) },
	{ TP(rttvar_us) },
	{ TP(rtt_min_us) },
	{ TP(delivered) },
	{ TP(delivered_ce) },
	{ TP(lost) },
	{ TP(app_limited) },
	{ TP(snd_una) },
	{ TP(snd_nxt) },
	{ TP(write_seq) },
	{ TP(high_seq) },
	{ TP(mss_cache) },
	{ TP(snd_wnd) },
	{ TP(lsndtime) },
	{ TP(is_cwnd_limited) },
	{ TP(rcv_tsval) },
	{ TP(reord_seen) },
	{ TP(bytes_acked) },
	{ TP(tcp_mstamp) },
	{ TP(first_tx_mstamp) },
	{ TP(delivered_mstamp) },
	{ TP(rate_delivered) },
	{ TP(rate_interval_us) },
	{ RS(prior_mstamp) },
	{ RS(prior_delivered) },
	{ RS(prior_delivered_ce) },
	{ RS(delivered) },
	{ RS(delivered_ce) },
	{ RS(interval_us) },
	{ RS(snd_interval_us) },
	{ RS(rcv_interval_us) },
	{ RS(rtt_us) },
	{ RS(losses) },
	{ RS(acked_sacked) },
	{ RS(prior_in_flight) },
	{ RS(last_end_seq) },
	{ RS(is_app_limited) },
	{ RS(is_retrans) },
	{ RS(is_ack_delayed) },
	{ ACK(pkts_acked) },
	{ ACK(rtt_us) },
	{ ACK(in_flight) },
	{ "CC_SHARED_SIZE", 0, CC_SHARED_SIZE },
	{ "struct advised_start", 0, sizeof(struct advised_start) },
	{ "struct tcp_sock", 0, sizeof(struct tcp_sock) },
	{ "struct rate_sample", 0, sizeof(struct rate_sample) },
	{ "struct ack_sample", 0, sizeof(struct ack_sample) },
	{ "struct cc_parameter", 0, sizeof(struct cc_parameter) },
	{ "struct tcp_congestion_ops", 0, sizeof(struct tcp_congestion_ops) },
	{ 0, 0, 0 },
};
