/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "connection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <linux/tcp.h>

#ifndef IPPROTO_TCP
#define IPPROTO_TCP 6
#endif
/* Linux 3.13, and 5.15. */
#ifndef SO_MAX_PACING_RATE
#define SO_MAX_PACING_RATE 47
#endif
#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif
/* Of the values of SO_BUF_LOCK (linux/socket.h). */
#define SEND_LOCK 1
#define RECEIVE_LOCK 2
/* A clamp that limits no window: the largest that RFC 7323 allows. */
#define NO_CLAMP (1 << 30)
/* Longest line given to the log, with its final zero. */
#define LONGEST_LINE 640

static uint32_t hash(const char *text)
{
	uint32_t value = 2166136261u;

	while (*text)
		value = (value ^ (unsigned char)*text++) * 16777619u;
	return value;
}

static void change(struct fairwind_connection *connection, const char *reason, const char *format,
		   ...)
{
	char what[LONGEST_LINE / 2], line[LONGEST_LINE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	snprintf(line, sizeof(line), "%s%s: %s",
		 connection->host->is_observing ? "observed only: " : "", what, reason);
	connection->changes++;
	connection->host->log(false, line);
}

/* The same warning is given once for a transfer, and not too many are. */
static void warn(struct fairwind_connection *connection, const char *format, ...)
{
	const unsigned int most = sizeof(connection->warned) / sizeof(connection->warned[0]);
	char line[LONGEST_LINE];
	va_list arguments;
	unsigned int i;
	uint32_t sum;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	sum = hash(line);
	for (i = 0; i < connection->warnings; i++)
		if (connection->warned[i] == sum)
			return;
	if (connection->warnings == most)
		return;
	connection->warned[connection->warnings++] = sum;
	connection->host->log(true, line);
}

/* The last number of a file of /proc/sys. */
static bool last_number(const char *path, uint64_t *number)
{
	bool is_known = false;
	uint64_t value;
	FILE *file;

	file = fopen(path, "re");
	if (!file)
		return false;
	while (fscanf(file, "%" SCNu64, &value) == 1) {
		*number = value;
		is_known = true;
	}
	fclose(file);
	return is_known;
}

void fairwind_read_limits(struct fairwind_host *host)
{
	/* Linux's defaults, where they cannot be read. */
	host->send.settable = host->receive.settable = 212992;
	host->send.adapted = 4 << 20;
	host->receive.adapted = 6 << 20;
	last_number("/proc/sys/net/core/wmem_max", &host->send.settable);
	last_number("/proc/sys/net/core/rmem_max", &host->receive.settable);
	last_number("/proc/sys/net/ipv4/tcp_wmem", &host->send.adapted);
	last_number("/proc/sys/net/ipv4/tcp_rmem", &host->receive.adapted);
	host->send.adapted /= 2;
	host->receive.adapted /= 2;
}

static bool read_control(int fd, char control[FAIRWIND_CONTROL_SIZE])
{
	socklen_t length = FAIRWIND_CONTROL_SIZE;

	memset(control, 0, FAIRWIND_CONTROL_SIZE);
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, &length))
		return false;
	control[FAIRWIND_CONTROL_SIZE - 1] = '\0';
	return control[0] != '\0';
}

static bool read_counters(int fd, struct tcp_info *info)
{
	socklen_t length = sizeof(*info);

	memset(info, 0, sizeof(*info));
	return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length);
}

bool fairwind_connect(struct fairwind_connection *connection, int fd, bool is_sender,
		      const struct fairwind_host *host)
{
	memset(connection, 0, sizeof(*connection));
	connection->fd = fd;
	connection->is_sender = is_sender;
	connection->host = host;
	if (!read_control(fd, connection->initial))
		return false;
	memcpy(connection->control, connection->initial, sizeof(connection->control));
	return true;
}

uint64_t fairwind_arrived(const struct fairwind_connection *connection)
{
	struct tcp_info info;

	if (!read_counters(connection->fd, &info))
		return 0;
	return connection->is_sender ? info.tcpi_bytes_acked : info.tcpi_bytes_received;
}

void fairwind_measure(struct fairwind_connection *connection, int64_t now_ms)
{
	struct tcp_info info;

	if (!read_counters(connection->fd, &info))
		return;
	/* The kernel's word for "no sample yet". */
	if (info.tcpi_min_rtt == UINT32_MAX)
		info.tcpi_min_rtt = 0;
	fairwind_observe(&connection->observed, now_ms,
			 connection->is_sender ? info.tcpi_bytes_acked : info.tcpi_bytes_received,
			 info.tcpi_min_rtt);
}

/* ---- pacing */

static double mbps(uint64_t bytes_a_second)
{
	return (double)bytes_a_second * 8 / 1e6;
}

static void rate_in_words(uint64_t rate, char words[32])
{
	if (rate)
		snprintf(words, 32, "%g Mbit/s", mbps(rate));
	else
		snprintf(words, 32, "unlimited");
}

/* The option has 32 bits before Linux 5.0, where a rate that does not fit into them is no limit. */
static bool set_pacing(int fd, uint64_t rate)
{
	uint64_t wide = rate ? rate : UINT64_MAX;
	uint32_t narrow = rate && rate < UINT32_MAX ? (uint32_t)rate : UINT32_MAX;

	return !setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &wide, sizeof(wide)) ||
	       !setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &narrow, sizeof(narrow));
}

/* nocc reads the limit of the rate when it starts, and never again. */
static void restart_control(struct fairwind_connection *connection)
{
	if (connection->host->is_observing || !fairwind_is_nocc(connection->control) ||
	    connection->host->set_control(connection->fd, connection->initial))
		return;
	if (connection->host->set_control(connection->fd, connection->control))
		memcpy(connection->control, connection->initial, sizeof(connection->control));
}

static void pace(struct fairwind_connection *connection, uint64_t rate, const char *reason)
{
	uint64_t before = connection->pacing;
	char from[32], to[32];

	if (rate == before)
		return;
	rate_in_words(before, from);
	rate_in_words(rate, to);
	if (!connection->host->is_observing && !set_pacing(connection->fd, rate)) {
		warn(connection, "pacing %s is advised and refused: %s", to, strerror(errno));
		return;
	}
	connection->pacing = rate;
	change(connection, reason, "pacing %s -> %s", from, to);
	if (before && (!rate || rate > before))
		restart_control(connection);
}

/* ---- congestion control */

/* The control of this name, or that by which `fairwind cc load` names its own. */
static int set_named(struct fairwind_connection *connection, const char *name,
		     char taken[FAIRWIND_CONTROL_SIZE])
{
	char own[FAIRWIND_CONTROL_SIZE + 3];
	int error;

	snprintf(taken, FAIRWIND_CONTROL_SIZE, "%s", name);
	error = connection->host->set_control(connection->fd, name);
	if (error != ENOENT || !strncmp(name, "fw_", 3))
		return error;
	if (snprintf(own, sizeof(own), "fw_%s", name) >= FAIRWIND_CONTROL_SIZE)
		return error;
	error = connection->host->set_control(connection->fd, own);
	if (error != ENOENT)
		memcpy(taken, own, FAIRWIND_CONTROL_SIZE);
	return error;
}

static void warn_of_control(struct fairwind_connection *connection, const char *name, int error)
{
	if (error == EPERM)
		warn(connection,
		     "congestion control %s is advised and refused: this process may not take it; "
		     "add it to net.ipv4.tcp_allowed_congestion_control, or see FairwindOptions "
		     "KeepNetAdmin",
		     name);
	else if (error == ENOENT)
		warn(connection,
		     "congestion control %s is advised and refused: the kernel has none of this "
		     "name; load it (modprobe tcp_%s, or fairwind cc load %s)",
		     name, name, name);
	else
		warn(connection, "congestion control %s is advised and refused: %s", name,
		     strerror(error));
}

static bool has_control(const struct fairwind_connection *connection, const char *name)
{
	const char *control = connection->control;

	return !strcmp(control, name) ||
	       (!strncmp(control, "fw_", 3) && !strcmp(control + 3, name));
}

/* True if the connection has the congestion control now. */
static bool control_by(struct fairwind_connection *connection, const char *name, const char *reason)
{
	char taken[FAIRWIND_CONTROL_SIZE];
	int error = 0;

	if (has_control(connection, name))
		return true;
	snprintf(taken, sizeof(taken), "%s", name);
	if (!connection->host->is_observing)
		error = set_named(connection, name, taken);
	if (error) {
		warn_of_control(connection, taken, error);
		return false;
	}
	change(connection, reason, "congestion control %s -> %s", connection->control, taken);
	memcpy(connection->control, taken, sizeof(taken));
	return true;
}

/* ---- the buffer of the direction in which bytes go */

static int buffer_option(const struct fairwind_connection *connection)
{
	return connection->is_sender ? SO_SNDBUF : SO_RCVBUF;
}

static const struct fairwind_limits *limits_of(const struct fairwind_connection *connection)
{
	return connection->is_sender ? &connection->host->send : &connection->host->receive;
}

static int buffer_size(const struct fairwind_connection *connection)
{
	socklen_t length = sizeof(int);
	int size = 0;

	getsockopt(connection->fd, SOL_SOCKET, buffer_option(connection), &size, &length);
	return size / 2;
}

static bool read_locks(const struct fairwind_connection *connection, int *locks)
{
	socklen_t length = sizeof(*locks);

	return !getsockopt(connection->fd, SOL_SOCKET, SO_BUF_LOCK, locks, &length);
}

/* Whether something else has set it, such as SocketOptions, or that cannot be told. */
static bool is_foreign(const struct fairwind_connection *connection)
{
	int lock = connection->is_sender ? SEND_LOCK : RECEIVE_LOCK, locks;

	if (!read_locks(connection, &locks))
		return true;
	return locks & lock &&
	       (!connection->buffer.asked || buffer_size(connection) != connection->buffer.seen);
}

/* Returns it to autotuning. */
static void give_back(struct fairwind_connection *connection)
{
	int locks;

	if (!read_locks(connection, &locks))
		return;
	locks &= ~(connection->is_sender ? SEND_LOCK : RECEIVE_LOCK);
	if (!setsockopt(connection->fd, SOL_SOCKET, SO_BUF_LOCK, &locks, sizeof(locks)))
		memset(&connection->buffer, 0, sizeof(connection->buffer));
}

static void set_buffer(struct fairwind_connection *connection, uint32_t bytes)
{
	const struct fairwind_limits *limits = limits_of(connection);
	int size = (int)(bytes < limits->settable ? bytes : limits->settable), clamp = NO_CLAMP;

	/* Autotuning reaches more than what this process may set. */
	if (bytes > limits->settable && limits->adapted > limits->settable) {
		warn(connection,
		     "a buffer of %" PRIu32 " bytes is advised and left to the kernel, "
		     "which grants %" PRIu64 " (net.core.%cmem_max)",
		     bytes, limits->settable, connection->is_sender ? 'w' : 'r');
		give_back(connection);
		return;
	}
	if (setsockopt(connection->fd, SOL_SOCKET, buffer_option(connection), &size, sizeof(size)))
		return;
	if (!connection->is_sender)
		setsockopt(connection->fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp));
	connection->buffer.asked = bytes;
	connection->buffer.seen = buffer_size(connection);
	if ((uint32_t)size < bytes)
		warn(connection,
		     "a buffer of %" PRIu32 " bytes is advised, and the kernel grants "
		     "%d (net.core.%cmem_max)",
		     bytes, size, connection->is_sender ? 'w' : 'r');
}

static void buffer_in_words(const struct fairwind_connection *connection, char words[32])
{
	if (connection->buffer.asked)
		snprintf(words, 32, "%d", connection->buffer.seen);
	else
		snprintf(words, 32, "autotuned");
}

/* Setting a buffer ends the kernel's autotuning of it, so that is done only where it gains something:
 * more is advised than autotuning could ever give, or congestion control is off and the buffer is what
 * bounds the packets in flight.
 */
static void buffer_by(struct fairwind_connection *connection, uint32_t advised, bool bounds_flight,
		      const char *reason)
{
	uint64_t adapted = limits_of(connection)->adapted;
	uint32_t wanted = bounds_flight || advised > adapted ? advised : 0;
	char from[32], to[32];

	if (wanted == connection->buffer.asked || is_foreign(connection))
		return;
	buffer_in_words(connection, from);
	if (connection->host->is_observing) {
		connection->buffer.asked = wanted;
		connection->buffer.seen = (int)wanted;
	} else if (wanted) {
		set_buffer(connection, wanted);
	} else {
		give_back(connection);
	}
	buffer_in_words(connection, to);
	if (strcmp(from, to))
		change(connection, reason, "%s buffer %s -> %s",
		       connection->is_sender ? "send" : "receive", from, to);
}

/* ---- */

static uint64_t within_bounds(struct fairwind_connection *connection,
			      const struct fairwind_advice *advice)
{
	uint64_t pacing;

	if (!advice->pacing)
		return 0;
	pacing = fairwind_bounded_pacing(advice->pacing, advice->available, &connection->observed);
	if (pacing != advice->pacing)
		warn(connection,
		     "pacing %g Mbit/s is advised and bounded to %g: less would starve "
		     "the transfer",
		     mbps(advice->pacing), mbps(pacing));
	return pacing;
}

static uint32_t bounded(struct fairwind_connection *connection, uint32_t advised)
{
	uint64_t adapted = limits_of(connection)->adapted;
	uint32_t bytes = fairwind_bounded_buffer(advised, adapted, &connection->observed);

	if (bytes != advised)
		warn(connection,
		     "a buffer of %" PRIu32 " bytes is advised and bounded to %" PRIu32
		     ": the path has not shown that it needs more",
		     advised, bytes);
	return bytes;
}

static void follow_as_sender(struct fairwind_connection *connection,
			     const struct fairwind_advice *advice, bool is_own)
{
	bool is_off = fairwind_is_off(advice), is_permitted = !is_off || is_own, is_taken;
	const char *name = connection->initial;

	if (!is_permitted)
		warn(connection,
		     "congestion control %s is advised and refused: the path to this host is not "
		     "own here (FairwindOwnNetworks)",
		     advice->control);
	if (is_permitted && advice->control[0])
		name = advice->control;
	/* The rate first: some congestion controls read it when they start. */
	pace(connection, is_permitted ? within_bounds(connection, advice) : 0, advice->reason);
	is_taken = control_by(connection, name, advice->reason);
	if (!is_taken) {
		/* Rather the initial congestion control than one that is no longer advised. */
		control_by(connection, connection->initial, advice->reason);
		if (is_off)
			pace(connection, 0, advice->reason);
	}
	buffer_by(connection, bounded(connection, advice->send_buffer),
		  is_off && is_permitted && is_taken, advice->reason);
}

void fairwind_follow(struct fairwind_connection *connection, const struct fairwind_advice *advice,
		     bool is_own)
{
	/* A receiver sends only acknowledgements: nothing but its window matters. */
	if (connection->is_sender)
		follow_as_sender(connection, advice, is_own);
	else
		buffer_by(connection, bounded(connection, advice->receive_buffer), false,
			  advice->reason);
}

void fairwind_restore(struct fairwind_connection *connection, const char *reason)
{
	if (connection->is_sender) {
		control_by(connection, connection->initial, reason);
		pace(connection, 0, reason);
	}
	buffer_by(connection, 0, false, reason);
}
