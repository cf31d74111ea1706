/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asks an advisor over REST, within a bound and without a library: a question must not take longer
 * than the server can wait, whatever the advisor does.
 */
#ifndef FAIRWIND_ADVISOR_H
#define FAIRWIND_ADVISOR_H

#include <sys/socket.h>

#include "advice.h"

/* Longest bearer token, with its final zero. */
#define FAIRWIND_TOKEN_SIZE 1025

struct fairwind_advisor {
	struct sockaddr_storage address;
	socklen_t address_length;
	/* What the configuration calls it, HOST:PORT: for the header `Host`, and for messages. */
	char name[272];
	/* Empty if it wants none. */
	char token[FAIRWIND_TOKEN_SIZE];
	/* The time that a question may take from its beginning to its answer, milliseconds. */
	int timeout_ms;
};

/* Asks about a transfer with `host`, a numeric address; `remaining` bytes are still to be moved, or a
 * negative number if that is not known. Returns true with sound advice, otherwise false with the reason.
 */
bool fairwind_ask(const struct fairwind_advisor *advisor, const char *host, long long remaining,
		  struct fairwind_advice *advice, char why[FAIRWIND_WHY_SIZE]);

/* Milliseconds of a clock that nobody sets, the same for all processes of this host. */
int64_t fairwind_now_ms(void);

#endif
