/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface of a congestion control, or control for short, in both worlds.
 *
 * A control is one file in cc/. It includes only this header, uses the kernel's names (struct sock,
 * struct tcp_sock, struct rate_sample, the hooks of struct tcp_congestion_ops), and ends with
 * CC_CONTROL. clang compiles it to an eBPF object for the kernel, and the host's compiler compiles
 * it for the simulator. All differences between the two are in the two headers included here.
 *
 * Of the connection, a control may write what the kernel lets an eBPF control write: snd_cwnd,
 * snd_cwnd_cnt, snd_cwnd_stamp, snd_ssthresh, sk_pacing_rate, sk_pacing_status and its state of
 * CC_PRIV_SIZE bytes at inet_csk_ca(sk). Natively, all other fields are const, so that the host's
 * compiler rejects what the verifier would reject.
 *
 * Integers only. Windows are in packets, times in microseconds unless a name says otherwise,
 * srtt_us is eight times the smoothed round-trip time, pacing rates are in bytes per second.
 */
#ifndef FAIRWIND_CC_H
#define FAIRWIND_CC_H

#include <fairwind/tcp.h>

/* Maximum number of parameters of a control. */
#define CC_PARAMETERS_MAX 8

/* snd_ssthresh before the first reduction. */
#define TCP_INFINITE_SSTHRESH 0x7fffffff
/* Initial window, packets (RFC 6928). */
#define TCP_INIT_CWND 10

/* Each argument is evaluated once: in the kernel, a field may change concurrently. */
#define min(a, b)                              \
	({                                     \
		__typeof__(a) min_a = (a);     \
		__typeof__(b) min_b = (b);     \
		min_a < min_b ? min_a : min_b; \
	})
#define max(a, b)                              \
	({                                     \
		__typeof__(a) max_a = (a);     \
		__typeof__(b) max_b = (b);     \
		max_a > max_b ? max_a : max_b; \
	})

#ifdef __bpf__
#include <fairwind/ebpf.h>
#else
#include <fairwind/native.h>
#endif

/*
 * CC_HOOK(return type, name, arguments...) { body }
 *	defines a function for struct tcp_congestion_ops.
 *
 * CC_PARAMETERS(LIST)
 *	defines the parameters of the control, all u32. LIST is a macro that calls its argument for
 *	each parameter: P(name, unit, default, least, greatest, description). Units: "us",
 *	"packets", "1/1024" (a fraction in 1024ths), "on/off", "1" (a plain number).
 *	param(sk, name) reads one; parameters can change while connections run.
 *
 * CC_CONTROL(name) = { CC_ABOUT(name, "what it does"), .hook = CC_FN(function), ... };
 *	ends the file and registers the control under the file's name: fw_<name> in the kernel.
 *	ssthresh, undo_cwnd and one of cong_avoid and cong_control are required.
 *
 * CC_STATE_FITS(type)
 *	fails to compile if the control's state does not fit in CC_PRIV_SIZE, and describes the
 *	state to the tracer, which shows the fields of struct <name>.
 *
 * CC_SHARED(type)
 *	gives the control state that all its connections between the same two hosts share, with the same
 *	parameters: cc_shared(sk), which may be NULL, and all zero at first. In the kernel connections may
 *	use it at the same time, and what has not been used for long may be forgotten.
 *
 * CC_ADVISED_STARTS()
 *	gives the control cc_advised_start(sk): what has been advised of the connection's path, or NULL. In the kernel
 *	this is the advice for the socket, or else that for the longest prefix of the destination.
 *
 * cc_opaque(x)
 *	is x, a u32. The kernel's verifier, which follows a program once for each range that it knows a value to
 *	be in, forgets the range: for controls that it says are too large.
 *
 * Clocks: cc_jiffies(sk) in units of 1/cc_hz(sk) s, cc_now_ns(sk), tp->tcp_mstamp (us, at the
 * latest packet received or sent).
 */
#define CC_STATE_FITS(type)                                                                     \
	_Static_assert(sizeof(type) <= CC_PRIV_SIZE, "the state does not fit in icsk_ca_priv"); \
	CC_DESCRIBE(type)

/* Slow start: the window is below ssthresh. */
static inline bool tcp_in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/*
 * Whether the congestion window, rather than the application or the receiver, limited sending. Only
 * then may the window grow (RFC 7661). In slow start, it may reach twice what was in flight.
 */
static inline bool tcp_is_cwnd_limited(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (cc_is_cwnd_limited(tp))
		return true;
	if (tcp_in_slow_start(tp))
		return tp->snd_cwnd < 2 * tp->max_packets_out;
	return false;
}

/* Number of the highest bit set, counted from 1; 0: none. clang 14 has no such builtin for eBPF. */
static inline u32 fls64(u64 x)
{
	u32 n = 0;

	for (u32 step = 32; step; step >>= 1) {
		if (x >> step) {
			x >>= step;
			n += step;
		}
	}
	return n + (x != 0);
}

/* Packets sent that have neither been delivered nor marked lost. */
static inline u32 tcp_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* Whether a is before b, for 32-bit sequence numbers and clocks, which wrap. */
static inline bool before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

static inline bool after(u32 a, u32 b)
{
	return before(b, a);
}

#endif
