/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CUBIC: after a reduction, the window follows W(t) = C (t - K)^3 + W_max, which is flat around the
 * window at the loss, and is at least Reno's. HyStart ends slow start before a loss does, when ACK
 * trains are long enough or the delay grows.
 *
 * Source: RFC 9438 (equations by their numbers below); Ha and Rhee, "Taming the elephants: new TCP
 * slow start", 2011, for HyStart. The arithmetic, its rounding and its timing are those of Linux
 * 6.18, so that the window is equal at every ACK:
 *
 *	RFC 9438                             here
 *	beta_cubic = 0.7                     717/1024
 *	C = 0.4                              41 in units of 1/(1024 * 0.1)
 *	K from an exact cube root            table and one Newton step, 0.2 % off on average
 *	target <= 1.5 cwnd (4.2)             at most a packet for every two acknowledged
 *	W(t + RTT), RTT smoothed (4.2)       the minimum RTT, rounded up to whole jiffies
 *	alpha_cubic for W_est (4.3)          a packet for every (beta_scale/8) windows acknowledged
 *	alpha_cubic = 1 above W_max (4.3)    not done
 *
 * A start may be advised (resume.h), which Linux does not have. After its jump, HyStart goes by delay alone, as in
 * RFC 9406: packets that are spread over the round-trip time are acknowledged as long trains on any path.
 *
 * Parameters (unit, default):
 *	fast_convergence    on/off, 1     release bandwidth faster if W_max shrinks (4.7)
 *	beta                1/1024, 717   share of the window that remains after a loss (4.6)
 *	c                   1/102.4, 41   C, steepness of the curve (5.1)
 *	tcp_friendliness    on/off, 1     grow at least as fast as Reno (4.3)
 *	hystart             on/off, 1     leave slow start early (4.10)
 *	hystart_detect      1, 3          by ACK trains (1), by delay (2), or both (3)
 *	hystart_low_window  packets, 16   no HyStart below this window
 *	hystart_ack_delta   us, 2000      maximum gap between the ACKs of a train
 */
#include <fairwind/reno.h>
#include <fairwind/resume.h>

#define CUBIC_PARAMETERS(P)                                                                   \
	P(fast_convergence, "on/off", 1, 0, 1, "release bandwidth faster when W_max shrinks") \
	P(beta, "1/1024", 717, 1, 1023, "what is left of the window after a loss")            \
	P(c, "1/102.4", 41, 1, 10240, "steepness of the curve")                               \
	P(tcp_friendliness, "on/off", 1, 0, 1, "at least as fast as Reno")                    \
	P(hystart, "on/off", 1, 0, 1, "leave slow start early")                               \
	P(hystart_detect, "1", 3, 0, 3, "by ACK trains (1), by delay (2), both (3)")          \
	P(hystart_low_window, "packets", 16, 1, 1000000, "HyStart not below this window")     \
	P(hystart_ack_delta, "us", 2000, 0, 1000000, "greatest gap between ACKs of a train")
CC_PARAMETERS(CUBIC_PARAMETERS);

#define SCALE 1024U /* of beta */
#define TRAIN 1U /* bits of hystart_detect */
#define DELAY 2U
#define DELAY_SAMPLES 8 /* delays in a round before it is judged */
#define DELAY_LEAST_US 4000U /* bounds of the growth of the delay that ends slow start */
#define DELAY_MOST_US 16000U

struct cubic {
	u32 cnt; /* acknowledged packets for which the window grows by one */
	u32 w_max; /* window before the latest reduction */
	u32 last_cwnd; /* window at the latest update of cnt */
	u32 last_time; /* time of that update, jiffies */
	u32 origin; /* W_max of this epoch */
	u32 k; /* K of this epoch, 1/1024 s */
	u32 delay_min; /* minimum round-trip time, us; 0: none */
	u32 epoch_start; /* jiffies; 0: the next ACK starts an epoch */
	u32 ack_cnt; /* packets acknowledged but not yet counted in w_est */
	u32 w_est; /* Reno's window in this epoch */
	u32 found; /* HyStart has ended slow start */
	u32 sample_cnt; /* number of delays in this round, up to DELAY_SAMPLES */
	u32 round_start; /* us */
	u32 end_seq; /* the round ends when this is acknowledged */
	u32 last_ack; /* latest ACK of the train, us */
	u32 curr_rtt; /* minimum delay of this round, us */
	struct resume resume;
};
CC_STATE_FITS(struct cubic);

static void cubic_reset(struct cubic *ca)
{
	ca->cnt = 0;
	ca->w_max = 0;
	ca->last_cwnd = 0;
	ca->last_time = 0;
	ca->origin = 0;
	ca->k = 0;
	ca->delay_min = 0;
	ca->epoch_start = 0;
	ca->ack_cnt = 0;
	ca->w_est = 0;
	ca->found = 0;
}

static void hystart_new_round(struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);
	u32 now = tcp_sk(sk)->tcp_mstamp;

	ca->round_start = now;
	ca->last_ack = now;
	ca->end_seq = tcp_sk(sk)->snd_nxt;
	ca->curr_rtt = ~0U;
	ca->sample_cnt = 0;
}

/*
 * 64 times the cube root of 0 to 63, tuned as in Linux so that the single Newton step that follows
 * is accurate. K must equal that of Linux to the bit, so these values must, too.
 */
static const u16 root64[64] = {
	10,  64,  64,  64,  128, 128, 128, 128, 133, 139, 144, 148, 153, 157, 161, 166,
	167, 171, 174, 178, 180, 183, 186, 189, 191, 195, 197, 200, 202, 204, 207, 209,
	210, 212, 214, 216, 219, 221, 223, 225, 227, 229, 231, 232, 234, 235, 237, 239,
	241, 242, 244, 246, 247, 249, 250, 252, 254, 255, 256, 258, 260, 261, 262, 264,
};

/* Cube root, 0.2 % off on average. */
static u32 cube_root(u64 a)
{
	u32 shift, x;

	if (a < 64)
		return (root64[a] + 25U) >> 6;
	/* a = m * 8^shift with m below 64, so the root is about root64[m] / 64 * 2^shift. */
	shift = ((fls64(a) * 84) >> 8) - 1;
	x = ((u32)root64[(a >> (shift * 3)) & 63] << shift) >> 6;
	/* x <- (2 x + a / x^2) / 3, where x (x - 1) compensates for x being rounded down. */
	x = 2 * x + (u32)(a / ((u64)x * (x - 1)));
	return (x * 341) >> 10;
}

static u32 us_to_jiffies_up(const struct sock *sk, u32 us)
{
	return ((u64)us * cc_hz(sk) + 999999) / 1000000;
}

/* An epoch starts with the first ACK of congestion avoidance. */
static void begin_epoch(struct sock *sk, u32 cwnd, u32 acked)
{
	struct cubic *ca = inet_csk_ca(sk);

	ca->epoch_start = cc_jiffies(sk);
	ca->ack_cnt = acked;
	ca->w_est = cwnd;
	if (ca->w_max <= cwnd) {
		ca->k = 0;
		ca->origin = cwnd;
	} else {
		/* K = cbrt((W_max - cwnd) / C) (2), with K in 1/1024 s. */
		ca->k = cube_root((1ULL << 40) / (param(sk, c) * 10) * (ca->w_max - cwnd));
		ca->origin = ca->w_max;
	}
}

/* Sets cnt from the cubic curve one round-trip time ahead (RFC 9438, 4.2, 4.4, 4.5). */
static void follow_curve(struct sock *sk, u32 cwnd)
{
	struct cubic *ca = inet_csk_ca(sk);
	u64 t = (s32)(cc_jiffies(sk) - ca->epoch_start);
	u64 distance;
	u32 delta, target;

	t += us_to_jiffies_up(sk, ca->delay_min);
	t = (t << 10) / cc_hz(sk);
	distance = t < ca->k ? ca->k - t : t - ca->k;

	/* W_cubic(t) = C (t - K)^3 + W_max (1) */
	delta = (u64)(param(sk, c) * 10) * distance * distance * distance >> 40;
	target = t < ca->k ? ca->origin - delta : ca->origin + delta;

	ca->cnt = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;
	/* Nothing is known about the path before the first loss: grow at least 5 % per RTT. */
	if (ca->w_max == 0 && ca->cnt > 20)
		ca->cnt = 20;
}

/* Limits cnt so that the window reaches Reno's (RFC 9438, 4.3). */
static void keep_up_with_reno(struct sock *sk, u32 cwnd)
{
	struct cubic *ca = inet_csk_ca(sk);
	u32 beta = param(sk, beta);
	/* Windows to acknowledge for one packet of growth, in eighths: 8 / alpha_cubic. */
	u32 beta_scale = max(8 * (SCALE + beta) / 3 / (SCALE - beta), 8U);
	u32 step = (cwnd * beta_scale) >> 3;
	u32 n;

	if (step && ca->ack_cnt > step) {
		n = (ca->ack_cnt - 1) / step;
		ca->ack_cnt -= n * step;
		ca->w_est += n;
	}
	if (ca->w_est > cwnd)
		ca->cnt = min(ca->cnt, cwnd / (ca->w_est - cwnd));
}

static void cubic_update(struct sock *sk, u32 acked)
{
	struct cubic *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd;
	u32 now = cc_jiffies(sk);

	ca->ack_cnt += acked;
	if (ca->last_cwnd == cwnd && (s32)(now - ca->last_time) <= (s32)(cc_hz(sk) / 32))
		return;

	/* The curve does not change within a jiffy. */
	if (!ca->epoch_start || now != ca->last_time) {
		ca->last_cwnd = cwnd;
		ca->last_time = now;
		if (!ca->epoch_start)
			begin_epoch(sk, cwnd, acked);
		follow_curve(sk, cwnd);
	}
	if (param(sk, tcp_friendliness))
		keep_up_with_reno(sk, cwnd);
	ca->cnt = max(ca->cnt, 2U);
}

/*
 * The delay that the sender's own bursts may add: two bursts of maximum size at the rate of the
 * path, which is half the pacing rate in slow start; at most 1 ms.
 */
static u32 burst_delay_us(const struct sock *sk)
{
	u64 rate = sk->sk_pacing_rate;

	if (!rate)
		return 0;
	return min((u64)sk->sk_gso_max_size * 4 * 1000000 / rate, 1000ULL);
}

static void leave_slow_start(struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);

	ca->found = 1;
	tcp_sk(sk)->snd_ssthresh = tcp_sk(sk)->snd_cwnd;
}

/* Ends slow start if ACKs have arrived close together for as long as it takes to fill the path. */
static void hystart_train(struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);
	u32 now = tcp_sk(sk)->tcp_mstamp;
	u32 threshold;

	if ((s32)(now - ca->last_ack) > (s32)param(sk, hystart_ack_delta))
		return;
	ca->last_ack = now;
	threshold = ca->delay_min + burst_delay_us(sk);
	/* A window sent in a burst returns in half the time of a paced one. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		threshold >>= 1;
	if (now - ca->round_start > threshold)
		leave_slow_start(sk);
}

/* Ends slow start if the minimum delay of this round is well above the minimum of all. */
static void hystart_delay(struct sock *sk, u32 delay)
{
	struct cubic *ca = inet_csk_ca(sk);
	u32 growth = min(max(ca->delay_min >> 3, DELAY_LEAST_US), DELAY_MOST_US);

	ca->curr_rtt = min(ca->curr_rtt, delay);
	if (ca->sample_cnt < DELAY_SAMPLES)
		ca->sample_cnt++;
	else if (ca->curr_rtt > ca->delay_min + growth)
		leave_slow_start(sk);
}

static void hystart_update(struct sock *sk, u32 delay)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);

	if (after(tp->snd_una, ca->end_seq))
		hystart_new_round(sk);
	if (tp->snd_cwnd < param(sk, hystart_low_window))
		return;
	if (param(sk, hystart_detect) & TRAIN && !resume_has_jumped(&ca->resume))
		hystart_train(sk);
	if (param(sk, hystart_detect) & DELAY)
		hystart_delay(sk, delay);
}

CC_HOOK(void, cubic_init, struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);

	cubic_reset(ca);
	resume_init(sk, &ca->resume);
	if (param(sk, hystart))
		hystart_new_round(sk);
}

CC_HOOK(void, cubic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);

	if (resume_holds(&ca->resume) || !tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	cubic_update(sk, acked);
	tcp_cong_avoid_ai(tp, ca->cnt, acked);
}

CC_HOOK(u32, cubic_ssthresh, struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd;
	u32 beta = param(sk, beta);

	ca->epoch_start = 0;
	/* W_max, reduced if it is below the previous one: fast convergence (4.7). */
	if (cwnd < ca->w_max && param(sk, fast_convergence))
		ca->w_max = cwnd * (SCALE + beta) / (2 * SCALE);
	else
		ca->w_max = cwnd;
	return resume_ssthresh(sk, &ca->resume, max(cwnd * beta / SCALE, 2U));
}

CC_HOOK(u32, cubic_undo_cwnd, struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);

	return resume_undo_cwnd(&ca->resume, reno_undo(sk));
}

/* After a timeout, everything known about the path is outdated. */
CC_HOOK(void, cubic_set_state, struct sock *sk, u8 new_state)
{
	struct cubic *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	resume_set_state(&ca->resume, new_state);
	cubic_reset(ca);
	hystart_new_round(sk);
}

/* Idle time of the application does not count on the curve (RFC 9438, 5.8). */
CC_HOOK(void, cubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct cubic *ca = inet_csk_ca(sk);
	u32 now = cc_jiffies(sk);
	s32 idle = now - tcp_sk(sk)->lsndtime;

	/* The window of a jump that failed is none that the path has carried. */
	if (resume_cwnd_event(sk, &ca->resume, event))
		ca->w_max = min(ca->w_max, ca->resume.pipe_size);
	if (event != CA_EVENT_TX_START || !ca->epoch_start || idle <= 0)
		return;
	ca->epoch_start += idle;
	if (after(ca->epoch_start, now))
		ca->epoch_start = now;
}

CC_HOOK(void, cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct cubic *ca = inet_csk_ca(sk);
	u32 delay;

	resume_pkts_acked(sk, &ca->resume, sample);
	if (sample->rtt_us < 0)
		return;
	/* For a second after a reduction, delays are not representative of the queue. */
	if (ca->epoch_start && (s32)(cc_jiffies(sk) - ca->epoch_start) < (s32)cc_hz(sk))
		return;
	delay = max((u32)sample->rtt_us, 1U);
	if (!ca->delay_min || delay < ca->delay_min)
		ca->delay_min = delay;
	if (!ca->found && tcp_in_slow_start(tcp_sk(sk)) && param(sk, hystart))
		hystart_update(sk, delay);
}

CC_HOOK(u32, cubic_min_tso_segs, struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);

	return resume_min_tso_segs(sk, &ca->resume);
}

CC_CONTROL(cubic) = {
	CC_ABOUT(
		cubic,
		"a window that grows as a cubic function of time (RFC 9438), HyStart; as in Linux 6.18"),
	.init = CC_FN(cubic_init),
	.ssthresh = CC_FN(cubic_ssthresh),
	.cong_avoid = CC_FN(cubic_cong_avoid),
	.set_state = CC_FN(cubic_set_state),
	.cwnd_event = CC_FN(cubic_cwnd_event),
	.pkts_acked = CC_FN(cubic_pkts_acked),
	.min_tso_segs = CC_FN(cubic_min_tso_segs),
	.undo_cwnd = CC_FN(cubic_undo_cwnd),
};
