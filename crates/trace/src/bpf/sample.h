/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The instruments of a connection at one moment.
 */
#ifndef FAIRWIND_TRACE_SAMPLE_H
#define FAIRWIND_TRACE_SAMPLE_H

#include "identity.h"

/* Time in each of the kernel's sender states, including the current interval. */
static __always_inline void chronograph(struct sample *sample, struct tcp_sock *tp)
{
	u32 type = BPF_CORE_READ_BITFIELD(tp, chrono_type);
	u32 present = (u32)bpf_jiffies64() - tp->chrono_start;

	sample->busy_jiffies = tp->chrono_stat[0] + (type == 1 ? present : 0);
	sample->rwnd_limited_jiffies = tp->chrono_stat[1] + (type == 2 ? present : 0);
	sample->sndbuf_limited_jiffies = tp->chrono_stat[2] + (type == 3 ? present : 0);
}

static __always_inline void instruments(struct sample *sample, struct connection *connection,
					struct tcp_sock *tp)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;
	struct sock *sk = (struct sock *)tp;

	sample->ca_state = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
	sample->retransmits = icsk->icsk_retransmits;
	sample->pacing_status = sk->sk_pacing_status;
	sample->snd_cwnd = tp->snd_cwnd;
	sample->snd_ssthresh = tp->snd_ssthresh;
	sample->mss_cache = tp->mss_cache;
	sample->packets_out = tp->packets_out;
	sample->sacked_out = tp->sacked_out;
	sample->lost_out = tp->lost_out;
	sample->retrans_out = tp->retrans_out;
	sample->reordering = tp->reordering;
	sample->srtt_us = tp->srtt_us;
	sample->mdev_us = tp->mdev_us;
	sample->rttvar_us = tp->rttvar_us;
	sample->min_rtt_us = tp->rtt_min.s[0].v;
	sample->sample_rtt_us = tp->rack.rtt_us;
	sample->rcv_rtt_us = tp->rcv_rtt_est.rtt_us;
	sample->rto_jiffies = icsk->icsk_rto;
	sample->snd_wnd = tp->snd_wnd;
	sample->rcv_wnd = tp->rcv_wnd;
	sample->snd_una = tp->snd_una;
	sample->snd_nxt = tp->snd_nxt;
	sample->write_seq = tp->write_seq;
	sample->rcv_nxt = tp->rcv_nxt;
	sample->copied_seq = tp->copied_seq;
	sample->total_retrans = tp->total_retrans;
	sample->total_rto = ~0U;
	if (bpf_core_field_exists(tp->total_rto))
		sample->total_rto = tp->total_rto;
	sample->rto_recoveries = ~0U;
	if (bpf_core_field_exists(tp->total_rto_recoveries))
		sample->rto_recoveries = tp->total_rto_recoveries;
	sample->cong_signals = connection->cong_signals;
	sample->fast_retran = connection->fast_retran;
	sample->delivered = tp->delivered;
	sample->delivered_ce = tp->delivered_ce;
	sample->lost = tp->lost;
	sample->dsack_dups = tp->dsack_dups;
	sample->reord_seen = tp->reord_seen;
	sample->rate_delivered = tp->rate_delivered;
	sample->rate_interval_us = tp->rate_interval_us;
	sample->segs_out = tp->segs_out;
	sample->segs_in = tp->segs_in;
	sample->data_segs_out = tp->data_segs_out;
	sample->data_segs_in = tp->data_segs_in;
	sample->sk_sndbuf = sk->sk_sndbuf;
	sample->sk_rcvbuf = sk->sk_rcvbuf;
	sample->sk_wmem_queued = sk->sk_wmem_queued;
	sample->sk_rmem_alloc = sk->sk_backlog.rmem_alloc.counter;
	chronograph(sample, tp);
	sample->pacing_rate = sk->sk_pacing_rate;
	sample->skipped = connection->skipped;
	sample->bytes_acked = tp->bytes_acked;
	sample->bytes_received = tp->bytes_received;
	sample->bytes_sent = tp->bytes_sent;
	sample->bytes_retrans = tp->bytes_retrans;
}

static __always_inline void control_state(struct sample_and_state *sample, struct tcp_sock *tp)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;

	bpf_probe_read_kernel(sample->state, STATE_BYTES, icsk->icsk_ca_priv);
}

static __always_inline void take(struct connection *connection, struct tcp_sock *tp, u32 kind,
				 u8 state)
{
	struct sample *sample = 0;

	/* The report of its opening found no room: without it the sample would mean nothing. */
	if (!connection->announced)
		identify((struct sock *)tp, connection, bpf_sk_storage_get(&owners, tp, 0, 0));
	if (connection->announced && (kind == EVENT_CLOSE || !is_full())) {
		name_control(connection, tp);
		if (settings.with_state)
			sample = bpf_ringbuf_reserve(&ring, sizeof(struct sample_and_state), 0);
		else
			sample = bpf_ringbuf_reserve(&ring, sizeof(*sample), 0);
	}
	if (!sample) {
		lose(connection);
		return;
	}
	head(&sample->event, connection, kind);
	sample->state = state;
	instruments(sample, connection, tp);
	if (settings.with_state)
		control_state((struct sample_and_state *)sample, tp);
	submit(sample);
}

#endif
