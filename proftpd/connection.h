/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A live data connection that follows advice: its congestion control, pacing and buffers. */
#ifndef FAIRWIND_CONNECTION_H
#define FAIRWIND_CONNECTION_H

#include "advice.h"
#include "bounds.h"

/* The kernel's limits of a buffer, bytes as passed to setsockopt(2): half of what sockets then have. */
struct fairwind_limits {
	/* What a program may set. */
	uint64_t settable;
	/* What autotuning can reach. */
	uint64_t adapted;
};

struct fairwind_host {
	struct fairwind_limits send;
	struct fairwind_limits receive;
	/* Sets the congestion control of a socket as the server may; returns 0 or an errno. */
	int (*set_control)(int fd, const char *name);
	/* Writes a line: a change, or, as a warning, what could not be done. */
	void (*log)(bool is_warning, const char *line);
	/* Changes nothing, and logs what it would change. */
	bool is_observing;
};

/* One buffer, as advice has left it; both 0 while it is autotuned. */
struct fairwind_buffer {
	uint32_t asked;
	int seen;
};

struct fairwind_connection {
	int fd;
	bool is_sender;
	const struct fairwind_host *host;
	/* The congestion control that it began with, and the one that it has. */
	char initial[FAIRWIND_CONTROL_SIZE];
	char control[FAIRWIND_CONTROL_SIZE];
	/* Bytes a second; 0: unlimited. */
	uint64_t pacing;
	struct fairwind_buffer buffer;
	struct fairwind_observed observed;
	unsigned int changes;
	/* Hashes of the warnings that have been given, each once. */
	uint32_t warned[16];
	unsigned int warnings;
};

/* Reads the limits of this host from /proc, before a chroot(2) hides it. */
void fairwind_read_limits(struct fairwind_host *host);

/* False if the descriptor is not a TCP socket. */
bool fairwind_connect(struct fairwind_connection *connection, int fd, bool is_sender,
		      const struct fairwind_host *host);

/* Measures what the path carries. */
void fairwind_measure(struct fairwind_connection *connection, int64_t now_ms);

/* Bytes that the other host has acknowledged, or that have come from it. */
uint64_t fairwind_arrived(const struct fairwind_connection *connection);

/* Carries out the advice, within what the path has shown; `is_own`: congestion control may be off. */
void fairwind_follow(struct fairwind_connection *connection, const struct fairwind_advice *advice,
		     bool is_own);

/* Returns to the kernel's defaults, for this reason. */
void fairwind_restore(struct fairwind_connection *connection, const char *reason);

#endif
