/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bounds.h"

/* The shortest interval in which a rate is measured: a burst says nothing about a path. */
#define WINDOW_MS 100
/* The divisor of a rate, observed or claimed, that gives the slowest pacing. */
#define PACING_DIVISOR 10
/* The largest packet considered, bytes: Ethernet's, without headers. */
#define PACKET 1460
/* The shortest round-trip time considered, microseconds: within a host there is no path to speak of. */
#define SHORTEST_US 10000
/* The largest buffer, in products of rate and round-trip time. */
#define PRODUCTS 4
/* The buffer that is granted in any case, as a multiple of what autotuning could give. */
#define ADAPTED 2

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void fairwind_observe(struct fairwind_observed *observed, int64_t now_ms, uint64_t arrived,
		      uint32_t round_trip_us)
{
	int64_t time_ms = now_ms - observed->since_ms;
	uint64_t rate;

	if (round_trip_us)
		observed->round_trip_us = round_trip_us;
	if (!observed->since_ms) {
		observed->since_ms = now_ms;
		observed->before = arrived;
		return;
	}
	if (time_ms < WINDOW_MS || time_ms < observed->round_trip_us / 1000)
		return;
	rate = arrived > observed->before ?
		       (arrived - observed->before) * 1000 / (uint64_t)time_ms :
		       0;
	observed->rate = larger(observed->rate, rate);
	observed->since_ms = now_ms;
	observed->before = arrived;
}

uint64_t fairwind_bounded_pacing(uint64_t advised, uint64_t available,
				 const struct fairwind_observed *observed)
{
	/* A packet a round trip is the least that TCP ever sends (RFC 5681 section 3.1). */
	uint64_t packet = UINT64_C(1000000) * PACKET / larger(observed->round_trip_us, SHORTEST_US);
	uint64_t tenth = larger(observed->rate, available) / PACING_DIVISOR;

	return larger(advised, larger(tenth, packet));
}

uint32_t fairwind_bounded_buffer(uint32_t advised, uint64_t adapted,
				 const struct fairwind_observed *observed)
{
	double product = (double)observed->rate * observed->round_trip_us / 1e6 * PRODUCTS;
	double most = product > (double)adapted * ADAPTED ? product : (double)adapted * ADAPTED;

	return most < advised ? (uint32_t)most : advised;
}
