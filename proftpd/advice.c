/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "advice.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Arrays and objects in each other: an answer has two. */
#define DEEPEST 16
/* Limits of sound advice: those of the reference, "Following an advisor". */
#define SMALLEST_BUFFER (4u << 10)
#define LARGEST_BUFFER (1u << 30)
#define SLOWEST_MBPS 0.1
#define FASTEST_MBPS 1e6
#define SHORTEST_WAIT_MS 100u
#define LONGEST_WAIT_MS 86400000u

/* What has not been read yet. */
struct text {
	const char *at;
	const char *end;
};

struct number {
	bool is_known;
	double value;
};

/* The members of an answer that matter here. */
struct members {
	bool has_mode;
	char mode[32];
	char full_mode[32];
	bool has_control;
	char control[64];
	struct number available_mbps;
	struct number rtt_ms;
	struct number send_buffer;
	struct number receive_buffer;
	struct number pacing_mbps;
	struct number again_s;
	char reason[FAIRWIND_REASON_SIZE];
};

static bool useless(char *why, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, FAIRWIND_WHY_SIZE, format, arguments);
	va_end(arguments);
	return false;
}

/* ---- JSON (RFC 8259) */

static void skip_space(struct text *text)
{
	while (text->at < text->end && memchr(" \t\r\n", *text->at, 4))
		text->at++;
}

static bool take(struct text *text, char expected)
{
	if (text->at == text->end || *text->at != expected)
		return false;
	text->at++;
	return true;
}

static bool take_word(struct text *text, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length))
		return false;
	text->at += length;
	return true;
}

static int hexadecimal(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	digit |= 0x20;
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The character after a backslash; 0 if it is none that JSON has. What a log line cannot hold becomes a
 * question mark.
 */
static char unescaped(struct text *text)
{
	unsigned int code = 0;
	char escape;
	int i;

	if (text->at == text->end)
		return 0;
	escape = *text->at++;
	switch (escape) {
	case '"':
	case '\\':
	case '/':
		return escape;
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't':
		return ' ';
	case 'u':
		break;
	default:
		return 0;
	}
	for (i = 0; i < 4; i++) {
		int digit = text->at < text->end ? hexadecimal(*text->at++) : -1;

		if (digit < 0)
			return 0;
		code = code << 4 | (unsigned int)digit;
	}
	return code >= 0x20 && code < 0x7f ? (char)code : '?';
}

/* Takes a string and keeps as much of it as `size` bytes hold; with `size` 0 nothing. */
static bool take_string(struct text *text, char *kept, size_t size)
{
	size_t length = 0;

	if (!take(text, '"'))
		return false;
	for (;;) {
		char c;

		if (text->at == text->end || (unsigned char)*text->at < 0x20)
			return false;
		c = *text->at++;
		if (c == '"')
			break;
		if (c == '\\') {
			c = unescaped(text);
			if (!c)
				return false;
		}
		/* A log has ASCII. */
		if ((unsigned char)c >= 0x7f)
			c = '?';
		if (length + 1 < size)
			kept[length++] = c;
	}
	if (size)
		kept[length] = '\0';
	return true;
}

/* ProFTPD may have set a locale, whose decimal point strtod() would expect. */
static bool take_number(struct text *text, double *value)
{
	double mantissa = 0, scale = 1;
	int exponent = 0, shift = 0, written = 0;
	bool is_negative = take(text, '-'), is_small;
	const char *digits = text->at;

	for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
		mantissa = mantissa * 10 + (*text->at - '0');
	if (text->at == digits || (*digits == '0' && text->at - digits > 1))
		return false;
	if (take(text, '.')) {
		digits = text->at;
		for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
			/* More digits than a double has change nothing. */
			if (text->at - digits >= 20)
				continue;
			mantissa = mantissa * 10 + (*text->at - '0');
			shift++;
		}
		if (text->at == digits)
			return false;
	}
	if (take(text, 'e') || take(text, 'E')) {
		bool is_minus = take(text, '-');

		if (!is_minus)
			take(text, '+');
		digits = text->at;
		for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
			written = written < 1000 ? written * 10 + (*text->at - '0') : written;
		if (text->at == digits)
			return false;
		exponent = is_minus ? -written : written;
	}
	exponent -= shift;
	is_small = exponent < 0;
	for (exponent = is_small ? -exponent : exponent; exponent > 0 && scale < 1e300; exponent--)
		scale *= 10;
	*value = is_small ? mantissa / scale : mantissa * scale;
	if (is_negative)
		*value = -*value;
	return true;
}

static bool skip_value(struct text *text, int depth);

/* The rest of an array or object, whose bracket has been taken. */
static bool skip_rest(struct text *text, char bracket, int depth)
{
	skip_space(text);
	if (take(text, bracket))
		return true;
	do {
		skip_space(text);
		if (bracket == '}') {
			if (!take_string(text, NULL, 0))
				return false;
			skip_space(text);
			if (!take(text, ':'))
				return false;
		}
		if (!skip_value(text, depth))
			return false;
		skip_space(text);
	} while (take(text, ','));
	return take(text, bracket);
}

static bool skip_value(struct text *text, int depth)
{
	double ignored;

	skip_space(text);
	if (text->at == text->end || depth == DEEPEST)
		return false;
	switch (*text->at) {
	case '{':
		text->at++;
		return skip_rest(text, '}', depth + 1);
	case '[':
		text->at++;
		return skip_rest(text, ']', depth + 1);
	case '"':
		return take_string(text, NULL, 0);
	case 't':
		return take_word(text, "true");
	case 'f':
		return take_word(text, "false");
	case 'n':
		return take_word(text, "null");
	default:
		return take_number(text, &ignored);
	}
}

/* ---- the members */

static bool take_number_or_null(struct text *text, struct number *number)
{
	if (number->is_known)
		return false;
	if (take_word(text, "null"))
		return true;
	number->is_known = true;
	return take_number(text, &number->value);
}

static struct number *number_of(struct members *members, const char *name)
{
	if (!strcmp(name, "available_mbps"))
		return &members->available_mbps;
	if (!strcmp(name, "rtt_ms"))
		return &members->rtt_ms;
	if (!strcmp(name, "send_buffer_bytes"))
		return &members->send_buffer;
	if (!strcmp(name, "receive_buffer_bytes"))
		return &members->receive_buffer;
	if (!strcmp(name, "pacing_mbps"))
		return &members->pacing_mbps;
	if (!strcmp(name, "ask_again_after_s"))
		return &members->again_s;
	return NULL;
}

/* A member that stands there twice is no answer: which of the two would count? */
static bool take_member(struct text *text, const char *name, struct members *members)
{
	struct number *number = number_of(members, name);

	skip_space(text);
	if (number)
		return take_number_or_null(text, number);
	if (!strcmp(name, "mode")) {
		if (members->has_mode)
			return false;
		members->has_mode = true;
		return take_string(text, members->mode, sizeof(members->mode));
	}
	if (!strcmp(name, "full_mode")) {
		if (members->full_mode[0])
			return false;
		return take_word(text, "null") ||
		       take_string(text, members->full_mode, sizeof(members->full_mode));
	}
	if (!strcmp(name, "congestion_control")) {
		if (members->has_control)
			return false;
		if (take_word(text, "null"))
			return true;
		members->has_control = true;
		return take_string(text, members->control, sizeof(members->control));
	}
	if (!strcmp(name, "reason"))
		return take_string(text, members->reason, sizeof(members->reason));
	return skip_value(text, 1);
}

static bool take_members(struct text text, struct members *members)
{
	skip_space(&text);
	if (!take(&text, '{'))
		return false;
	do {
		char name[32];

		skip_space(&text);
		if (!take_string(&text, name, sizeof(name)))
			return false;
		skip_space(&text);
		if (!take(&text, ':') || !take_member(&text, name, members))
			return false;
		skip_space(&text);
	} while (take(&text, ','));
	if (!take(&text, '}'))
		return false;
	skip_space(&text);
	return text.at == text.end;
}

/* ---- what makes sense */

bool fairwind_is_nocc(const char *name)
{
	return !strncmp(strncmp(name, "fw_", 3) ? name : name + 3, "nocc", 4);
}

bool fairwind_is_off(const struct fairwind_advice *advice)
{
	return advice->mode == FAIRWIND_NO_CONGESTION_CONTROL || fairwind_is_nocc(advice->control);
}

const char *fairwind_mode_name(enum fairwind_mode mode)
{
	switch (mode) {
	case FAIRWIND_CONGESTION_CONTROL:
		return "congestion-control";
	case FAIRWIND_NO_CONGESTION_CONTROL:
		return "no-congestion-control";
	case FAIRWIND_BACKGROUND:
		return "background";
	case FAIRWIND_RATE:
		return "rate";
	}
	return "?";
}

static bool is_name(const char *name)
{
	size_t length = strlen(name);

	return length > 0 && length < FAIRWIND_CONTROL_SIZE &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
		       length;
}

static bool mode_of(const struct members *members, enum fairwind_mode *mode, char *why)
{
	if (!strcmp(members->full_mode, "background"))
		*mode = FAIRWIND_BACKGROUND;
	else if (!strcmp(members->full_mode, "rate"))
		*mode = FAIRWIND_RATE;
	else if (members->full_mode[0])
		return useless(why, "the mode is unknown");
	else if (!strcmp(members->mode, "congestion-control"))
		*mode = FAIRWIND_CONGESTION_CONTROL;
	else if (!strcmp(members->mode, "no-congestion-control"))
		*mode = FAIRWIND_NO_CONGESTION_CONTROL;
	else
		return useless(why, "the mode is unknown");
	return true;
}

static bool buffer_of(struct number number, const char *what, uint32_t *bytes, char *why)
{
	*bytes = 0;
	if (!number.is_known)
		return true;
	/* Not a comparison that NaN could pass. */
	if (!(number.value >= SMALLEST_BUFFER && number.value <= LARGEST_BUFFER))
		return useless(why, "%s buffer of %.0f bytes", what, number.value);
	*bytes = (uint32_t)number.value;
	return true;
}

static bool rate_of(struct number number, const char *what, double least, uint64_t *rate, char *why)
{
	*rate = 0;
	if (!number.is_known)
		return true;
	if (!(number.value >= least && number.value <= FASTEST_MBPS))
		return useless(why, "%s %g Mbit/s", what, number.value);
	*rate = (uint64_t)(number.value * 1e6 / 8 + 0.5);
	return true;
}

/* Within 100 ms and a day, whatever was sent. */
static uint32_t wait_of(double seconds)
{
	double ms = seconds * 1e3;

	if (!(ms < LONGEST_WAIT_MS))
		return LONGEST_WAIT_MS;
	return ms > SHORTEST_WAIT_MS ? (uint32_t)ms : SHORTEST_WAIT_MS;
}

static bool make_sense(const struct members *members, struct fairwind_advice *advice,
		       char why[FAIRWIND_WHY_SIZE])
{
	memset(advice, 0, sizeof(*advice));
	if (!mode_of(members, &advice->mode, why))
		return false;
	if (!members->again_s.is_known)
		return useless(why, "it does not say when to ask again");
	if (members->has_control && !is_name(members->control))
		return useless(why, "its congestion control has no name that one can have");
	if (members->rtt_ms.is_known && !(members->rtt_ms.value >= 0))
		return useless(why, "round-trip time of %g ms", members->rtt_ms.value);
	if (!rate_of(members->available_mbps, "available bandwidth of", 0, &advice->available,
		     why) ||
	    !rate_of(members->pacing_mbps, "pacing at", SLOWEST_MBPS, &advice->pacing, why) ||
	    !buffer_of(members->send_buffer, "send", &advice->send_buffer, why) ||
	    !buffer_of(members->receive_buffer, "receive", &advice->receive_buffer, why))
		return false;
	if (members->has_control)
		memcpy(advice->control, members->control, strlen(members->control) + 1);
	if (fairwind_is_off(advice) && !members->has_control)
		return useless(why,
			       "congestion control is to be off, but nothing is to replace it");
	if (advice->mode == FAIRWIND_BACKGROUND && !members->has_control)
		return useless(why, "the mode is background, but it names no control for that");
	if (advice->mode == FAIRWIND_RATE && !advice->pacing)
		return useless(why, "the mode is rate, but it has no pacing");
	advice->again_ms = wait_of(members->again_s.value);
	memcpy(advice->reason, members->reason, sizeof(advice->reason));
	return true;
}

bool fairwind_is_sound(const struct fairwind_advice *advice)
{
	size_t i;

	if ((unsigned int)advice->mode > FAIRWIND_RATE ||
	    !memchr(advice->control, '\0', sizeof(advice->control)) ||
	    !memchr(advice->reason, '\0', sizeof(advice->reason)))
		return false;
	for (i = 0; advice->reason[i]; i++)
		if (advice->reason[i] < 0x20 || advice->reason[i] >= 0x7f)
			return false;
	return (!advice->control[0] || is_name(advice->control)) &&
	       (!fairwind_is_off(advice) || advice->control[0]) &&
	       (advice->mode != FAIRWIND_BACKGROUND || advice->control[0]) &&
	       (advice->mode != FAIRWIND_RATE || advice->pacing) &&
	       (!advice->pacing || (advice->pacing >= (uint64_t)(SLOWEST_MBPS * 1e6 / 8) &&
				    advice->pacing <= (uint64_t)(FASTEST_MBPS * 1e6 / 8))) &&
	       (!advice->send_buffer || (advice->send_buffer >= SMALLEST_BUFFER &&
					 advice->send_buffer <= LARGEST_BUFFER)) &&
	       (!advice->receive_buffer || (advice->receive_buffer >= SMALLEST_BUFFER &&
					    advice->receive_buffer <= LARGEST_BUFFER)) &&
	       advice->again_ms >= SHORTEST_WAIT_MS && advice->again_ms <= LONGEST_WAIT_MS;
}

/* ---- HTTP/1.0 (RFC 1945), which the question asks for: no body in pieces */

struct head {
	const char *body;
	bool has_length;
	size_t length;
};

/* The line at `*at` without its end, and `*at` behind it; false if it is not complete. */
static bool take_line(const char **at, const char *end, struct text *line)
{
	const char *feed = memchr(*at, '\n', (size_t)(end - *at));

	if (!feed)
		return false;
	line->at = *at;
	line->end = feed > *at && feed[-1] == '\r' ? feed - 1 : feed;
	*at = feed + 1;
	return true;
}

static bool is_field(struct text line, const char *name, struct text *value)
{
	size_t length = strlen(name);

	if ((size_t)(line.end - line.at) <= length || strncasecmp(line.at, name, length) ||
	    line.at[length] != ':')
		return false;
	value->at = line.at + length + 1;
	value->end = line.end;
	skip_space(value);
	return true;
}

static bool take_length(struct text text, struct head *head)
{
	size_t length = 0;

	if (text.at == text.end || head->has_length)
		return false;
	for (; text.at < text.end && *text.at >= '0' && *text.at <= '9'; text.at++) {
		length = length * 10 + (size_t)(*text.at - '0');
		if (length > FAIRWIND_LONGEST_ANSWER)
			return false;
	}
	skip_space(&text);
	head->has_length = true;
	head->length = length;
	return text.at == text.end;
}

static enum fairwind_reading read_head(const char *bytes, size_t length, struct head *head,
				       char *why)
{
	const char *at = bytes, *end = bytes + length;
	struct text line, value;

	memset(head, 0, sizeof(*head));
	if (length >= 5 && memcmp(bytes, "HTTP/", 5)) {
		useless(why, "what answers does not speak HTTP");
		return FAIRWIND_USELESS;
	}
	if (!take_line(&at, end, &line))
		return FAIRWIND_INCOMPLETE;
	if (line.end - line.at < 12 || memcmp(line.at, "HTTP/1.", 7) || line.at[8] != ' ') {
		useless(why, "what answers does not speak HTTP");
		return FAIRWIND_USELESS;
	}
	if (memcmp(line.at + 9, "200", 3)) {
		const char *status = line.at + 9;
		bool is_number = status[0] >= '1' && status[0] <= '5' && status[1] >= '0' &&
				 status[1] <= '9' && status[2] >= '0' && status[2] <= '9';

		if (is_number)
			useless(why, "it answers with status %.3s", status);
		else
			useless(why, "what answers does not speak HTTP");
		return FAIRWIND_USELESS;
	}
	while (take_line(&at, end, &line)) {
		if (line.at == line.end) {
			head->body = at;
			return FAIRWIND_SOUND;
		}
		if (is_field(line, "transfer-encoding", &value)) {
			useless(why, "its answer comes in pieces");
			return FAIRWIND_USELESS;
		}
		if (is_field(line, "content-length", &value) && !take_length(value, head)) {
			useless(why, "the length of its answer makes no sense");
			return FAIRWIND_USELESS;
		}
	}
	return FAIRWIND_INCOMPLETE;
}

enum fairwind_reading fairwind_read_answer(const char *bytes, size_t length, bool is_all,
					   struct fairwind_advice *advice,
					   char why[FAIRWIND_WHY_SIZE])
{
	enum fairwind_reading reading;
	struct members members;
	struct text body;
	struct head head;

	reading = read_head(bytes, length, &head, why);
	if (reading == FAIRWIND_USELESS)
		return reading;
	if (reading == FAIRWIND_SOUND) {
		body.at = head.body;
		body.end = bytes + length;
		if (head.has_length && (size_t)(body.end - body.at) >= head.length)
			body.end = body.at + head.length;
		else if (head.has_length || !is_all)
			reading = FAIRWIND_INCOMPLETE;
		/* Whether it has come as a whole does not matter then. */
		if (body.end - bytes > FAIRWIND_LONGEST_ANSWER)
			reading = FAIRWIND_INCOMPLETE;
	}
	if (reading == FAIRWIND_INCOMPLETE) {
		if (!is_all && length < FAIRWIND_LONGEST_ANSWER)
			return FAIRWIND_INCOMPLETE;
		useless(why, length < FAIRWIND_LONGEST_ANSWER ? "its answer ends too early" :
								"its answer is too long");
		return FAIRWIND_USELESS;
	}
	memset(&members, 0, sizeof(members));
	if (!take_members(body, &members)) {
		useless(why, "its answer is not the JSON of an advisor");
		return FAIRWIND_USELESS;
	}
	return make_sense(&members, advice, why) ? FAIRWIND_SOUND : FAIRWIND_USELESS;
}
