/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "advisor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t fairwind_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits for `events` until `end`; sets errno if they do not come. */
static bool wait_for(int fd, short events, int64_t end)
{
	for (;;) {
		struct pollfd polled = { .fd = fd, .events = events };
		int64_t left = end - fairwind_now_ms();
		int count;

		if (left <= 0) {
			errno = ETIMEDOUT;
			return false;
		}
		count = poll(&polled, 1, (int)left);
		if (count > 0)
			return true;
		/* ProFTPD notes a signal and looks at it later. */
		if (count < 0 && errno != EINTR)
			return false;
	}
}

static bool open_connection(int fd, const struct fairwind_advisor *advisor, int64_t end)
{
	socklen_t length = sizeof(int);
	int error = 0;

	if (!connect(fd, (const struct sockaddr *)&advisor->address, advisor->address_length))
		return true;
	if (errno != EINPROGRESS)
		return false;
	if (!wait_for(fd, POLLOUT, end))
		return false;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
		return false;
	errno = error;
	return !error;
}

static bool send_all(int fd, const char *bytes, size_t length, int64_t end)
{
	while (length) {
		ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR && errno != EAGAIN)
			return false;
		if (sent > 0) {
			bytes += sent;
			length -= (size_t)sent;
		} else if (!wait_for(fd, POLLOUT, end)) {
			return false;
		}
	}
	return true;
}

/* HTTP/1.0, so that the answer is in one piece and ends with the connection. */
static int write_question(const struct fairwind_advisor *advisor, const char *host,
			  long long remaining, char *question, size_t size)
{
	char bytes[40] = "";

	if (remaining >= 0)
		snprintf(bytes, sizeof(bytes), "&bytes=%lld", remaining);
	return snprintf(question, size,
			"GET /v1/advice?host=%s%s HTTP/1.0\r\nHost: %s\r\n%s%s%s"
			"Accept: application/json\r\nUser-Agent: mod_fairwind\r\n\r\n",
			host, bytes, advisor->name,
			advisor->token[0] ? "Authorization: Bearer " : "", advisor->token,
			advisor->token[0] ? "\r\n" : "");
}

/* Returns FAIRWIND_INCOMPLETE, with errno, if it cannot be read. */
static enum fairwind_reading receive(int fd, int64_t end, struct fairwind_advice *advice, char *why)
{
	char answer[FAIRWIND_LONGEST_ANSWER];
	size_t length = 0;

	for (;;) {
		enum fairwind_reading reading;
		ssize_t count;

		if (!wait_for(fd, POLLIN, end))
			return FAIRWIND_INCOMPLETE;
		count = recv(fd, answer + length, sizeof(answer) - length, 0);
		if (count < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (count < 0)
			return FAIRWIND_INCOMPLETE;
		length += (size_t)count;
		reading = fairwind_read_answer(answer, length, count == 0, advice, why);
		if (reading != FAIRWIND_INCOMPLETE)
			return reading;
	}
}

bool fairwind_ask(const struct fairwind_advisor *advisor, const char *host, long long remaining,
		  struct fairwind_advice *advice, char why[FAIRWIND_WHY_SIZE])
{
	enum fairwind_reading reading = FAIRWIND_INCOMPLETE;
	int64_t end = fairwind_now_ms() + advisor->timeout_ms;
	char question[2048];
	int fd, length, error;

	length = write_question(advisor, host, remaining, question, sizeof(question));
	if (length < 0 || length >= (int)sizeof(question)) {
		snprintf(why, FAIRWIND_WHY_SIZE, "the question is too long");
		return false;
	}
	fd = socket(advisor->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		snprintf(why, FAIRWIND_WHY_SIZE, "no socket: %s", strerror(errno));
		return false;
	}
	if (open_connection(fd, advisor, end) && send_all(fd, question, (size_t)length, end))
		reading = receive(fd, end, advice, why);
	error = errno;
	close(fd);
	if (reading == FAIRWIND_INCOMPLETE && error == ETIMEDOUT)
		snprintf(why, FAIRWIND_WHY_SIZE, "no answer within %d ms", advisor->timeout_ms);
	else if (reading == FAIRWIND_INCOMPLETE)
		snprintf(why, FAIRWIND_WHY_SIZE, "%s", strerror(error));
	return reading == FAIRWIND_SOUND;
}
