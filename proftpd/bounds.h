/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bounds on advice: an advisor may be wrong, and what a transfer observes of its path outweighs what
 * anyone says about it (docs/reference/ftp-server.md, "Following an advisor").
 */
#ifndef FAIRWIND_BOUNDS_H
#define FAIRWIND_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* What a transfer has observed of its path. Begins with zeros. */
struct fairwind_observed {
	/* The highest rate at which bytes have arrived, bytes a second; 0 before the first measurement. */
	uint64_t rate;
	/* The shortest round-trip time, microseconds; 0 before the first sample. */
	uint32_t round_trip_us;
	/* When the current interval began, and how many bytes had arrived by then. */
	int64_t since_ms;
	uint64_t before;
};

/* Takes the bytes that have `arrived` by now. */
void fairwind_observe(struct fairwind_observed *observed, int64_t now_ms, uint64_t arrived,
		      uint32_t round_trip_us);

/* The pacing to set in place of `advised`, bytes a second, when the advisor says that `available` is. */
uint64_t fairwind_bounded_pacing(uint64_t advised, uint64_t available,
				 const struct fairwind_observed *observed);

/* The buffer to set in place of `advised`, bytes, when autotuning can reach `adapted`. */
uint32_t fairwind_bounded_buffer(uint32_t advised, uint64_t adapted,
				 const struct fairwind_observed *observed);

#endif
