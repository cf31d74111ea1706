/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an advisor answers: an HTTP response whose body is one JSON object. Reads bytes and nothing
 * else, so that any bytes can be tried on it. The fields are those of docs/reference/openapi.json.
 */
#ifndef FAIRWIND_ADVICE_H
#define FAIRWIND_ADVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest response, bytes: one has a few lines. */
#define FAIRWIND_LONGEST_ANSWER 16384
/* A congestion control's name and its final zero: TCP_CA_NAME_MAX of the kernel. */
#define FAIRWIND_CONTROL_SIZE 16
/* The advisor's reason, its end cut, and its final zero. */
#define FAIRWIND_REASON_SIZE 256
/* Why an answer is worth nothing, in one line. */
#define FAIRWIND_WHY_SIZE 160

enum fairwind_mode {
	FAIRWIND_CONGESTION_CONTROL,
	FAIRWIND_NO_CONGESTION_CONTROL,
	FAIRWIND_BACKGROUND,
	FAIRWIND_RATE,
};

/* Sound advice. What is zero or empty is left to the kernel. */
struct fairwind_advice {
	enum fairwind_mode mode;
	char control[FAIRWIND_CONTROL_SIZE];
	/* Bytes a second. */
	uint64_t pacing;
	/* What the advisor says is available, bytes a second. */
	uint64_t available;
	/* Bytes. */
	uint32_t send_buffer;
	uint32_t receive_buffer;
	/* Milliseconds until the next question, 100 to 86,400,000. */
	uint32_t again_ms;
	/* One line of printable ASCII. */
	char reason[FAIRWIND_REASON_SIZE];
};

enum fairwind_reading {
	FAIRWIND_INCOMPLETE,
	FAIRWIND_SOUND,
	FAIRWIND_USELESS,
};

/* Reads a response of which `length` bytes have come; `is_all`: the advisor has closed the connection.
 * Fills `advice` if it is sound, and `why` with a line if it is useless.
 */
enum fairwind_reading fairwind_read_answer(const char *bytes, size_t length, bool is_all,
					   struct fairwind_advice *advice,
					   char why[FAIRWIND_WHY_SIZE]);

/* Whether `advice` keeps to what fairwind_read_answer() promises, wherever it comes from. */
bool fairwind_is_sound(const struct fairwind_advice *advice);

/* Whether congestion control is to be off: by the mode, or because the control is nocc. */
bool fairwind_is_off(const struct fairwind_advice *advice);

/* Whether congestion control is off with the control of this name: nocc, under any name that it may be
 * loaded by.
 */
bool fairwind_is_nocc(const char *name);

/* `congestion-control`, `no-congestion-control`, `background` or `rate`. */
const char *fairwind_mode_name(enum fairwind_mode mode);

#endif
