/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bounds, and what sessions share. Numbers are worked out by hand. */
#undef NDEBUG
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../bounds.h"
#include "../shared.h"

/* 100 Mbit/s and 40 ms: a product of 500,000 bytes. */
static const struct fairwind_observed path = { .rate = 12500000, .round_trip_us = 40000 };
static const struct fairwind_observed nothing;

static void sound_advice_is_followed_to_the_letter(void)
{
	assert(fairwind_bounded_pacing(5000000, 5000000, &path) == 5000000);
	assert(fairwind_bounded_pacing(1250000, 0, &path) == 1250000);
	assert(fairwind_bounded_buffer(2000000, 100000, &path) == 2000000);
	assert(fairwind_bounded_buffer(625000, 2 << 20, &nothing) == 625000);
}

static void pacing_leaves_a_tenth_and_a_packet_a_round_trip(void)
{
	assert(fairwind_bounded_pacing(12500, 0, &path) == 1250000);
	assert(fairwind_bounded_pacing(12500, 5000000, &nothing) == 500000);
	/* 1460 bytes in 10 ms, where nobody knows the path. */
	assert(fairwind_bounded_pacing(12500, 0, &nothing) == 146000);
}

static void a_buffer_is_four_products_or_twice_what_autotuning_gives(void)
{
	assert(fairwind_bounded_buffer(1 << 30, 100000, &path) == 2000000);
	assert(fairwind_bounded_buffer(1 << 30, 3 << 20, &path) == 6 << 20);
}

static void the_rate_is_that_of_a_window_of_a_tenth_of_a_second(void)
{
	struct fairwind_observed observed = nothing;

	fairwind_observe(&observed, 1000, 0, 40000);
	fairwind_observe(&observed, 1050, 900000, 40000);
	assert(observed.rate == 0);
	fairwind_observe(&observed, 1100, 1000000, 40000);
	assert(observed.rate == 10000000 && observed.round_trip_us == 40000);
	/* A slower time takes nothing back. */
	fairwind_observe(&observed, 1200, 1000001, 40000);
	assert(observed.rate == 10000000);
}

static struct fairwind_advice advice_of(const char *control)
{
	struct fairwind_advice advice;

	memset(&advice, 0, sizeof(advice));
	advice.again_ms = 60000;
	strcpy(advice.control, control);
	snprintf(advice.reason, sizeof(advice.reason), "%s, %s and %s again", control, control,
		 control);
	assert(fairwind_is_sound(&advice));
	return advice;
}

static void advice_is_recalled_for_the_same_peer_and_no_more_bytes_for_ten_seconds(void)
{
	struct fairwind_question question = { "127.0.0.1:8649", "", "192.0.2.7", 1000 }, other;
	struct fairwind_shared *shared = fairwind_share();
	struct fairwind_advice advice = advice_of("reno");

	assert(!fairwind_recall(shared, &question, 5000, &advice));
	fairwind_remember(shared, &question, 5000, &advice);
	assert(fairwind_recall(shared, &question, 14999, &advice));
	assert(!strcmp(advice.control, "reno") && advice.again_ms == 50001);
	assert(!fairwind_recall(shared, &question, 15000, &advice));
	assert(!fairwind_recall(shared, &question, 4999, &advice));
	other = question;
	other.remaining = 1001;
	assert(!fairwind_recall(shared, &other, 6000, &advice));
	other.remaining = -1;
	assert(!fairwind_recall(shared, &other, 6000, &advice));
	other = question;
	other.peer = "192.0.2.8";
	assert(!fairwind_recall(shared, &other, 6000, &advice));
	other = question;
	other.advisor = "127.0.0.1:8650";
	assert(!fairwind_recall(shared, &other, 6000, &advice));
	other = question;
	other.token = "0123456789abcdef";
	assert(!fairwind_recall(shared, &other, 6000, &advice));
	/* Asked without knowing how many bytes there are, it holds for any number. */
	question.remaining = -1;
	fairwind_remember(shared, &question, 7000, &advice);
	other = question;
	other.remaining = INT64_MAX;
	assert(fairwind_recall(shared, &other, 7000, &advice));
	/* Not beyond the time at which it is to be asked for again. */
	advice.again_ms = 200;
	fairwind_remember(shared, &question, 8000, &advice);
	assert(fairwind_recall(shared, &question, 8199, &advice) && advice.again_ms == 1);
	assert(!fairwind_recall(shared, &question, 8200, &advice));
	fairwind_unshare(shared);
}

static void a_failing_advisor_is_asked_by_one_session_after_ever_longer_pauses(void)
{
	static const int64_t pauses[] = {
		1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000, 30000
	};
	struct fairwind_shared *shared = fairwind_share();
	int64_t now = 100000;
	size_t i;

	assert(fairwind_may_ask(shared, now));
	assert(fairwind_note_failure(shared, now, now + 200));
	/* Another question was under way at the same time. */
	assert(!fairwind_note_failure(shared, now + 50, now + 250));
	now += 200;
	for (i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
		assert(!fairwind_may_ask(shared, now + pauses[i] - 1));
		now += pauses[i];
		assert(fairwind_may_ask(shared, now));
		assert(!fairwind_may_ask(shared, now));
		assert(!fairwind_note_failure(shared, now, now));
	}
	assert(fairwind_note_success(shared) && !fairwind_note_success(shared));
	assert(fairwind_may_ask(shared, now));
	fairwind_unshare(shared);
}

static void without_memory_each_session_is_on_its_own(void)
{
	struct fairwind_question question = { "a:1", "", "192.0.2.7", 1 };
	struct fairwind_advice advice = advice_of("reno");

	fairwind_remember(NULL, &question, 1, &advice);
	assert(!fairwind_recall(NULL, &question, 1, &advice));
	assert(fairwind_may_ask(NULL, 1) && fairwind_note_failure(NULL, 1, 1));
	assert(!fairwind_note_success(NULL));
	fairwind_unshare(NULL);
}

/* Some are killed while they write. */
static void sessions_that_write_at_once_leave_whole_advice_or_none(void)
{
	static const char *const names[] = { "reno", "cubic", "bbr", "fw_background" };
	struct fairwind_question question = { "127.0.0.1:8649", "", "192.0.2.7", -1 };
	struct fairwind_shared *shared = fairwind_share();
	struct fairwind_advice advice;
	unsigned int round, i;
	pid_t children[4];

	for (i = 0; i < 4; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			advice = advice_of(names[i]);
			for (;;)
				fairwind_remember(shared, &question, 1000, &advice);
		}
	}
	for (round = 0; round < 20000; round++) {
		struct fairwind_advice whole;

		if (!fairwind_recall(shared, &question, 1000, &advice))
			continue;
		whole = advice_of(advice.control);
		assert(!memcmp(&whole, &advice, sizeof(whole)));
	}
	for (i = 0; i < 4; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	/* The next one mends it. */
	advice = advice_of("reno");
	fairwind_remember(shared, &question, 1000, &advice);
	assert(fairwind_recall(shared, &question, 1000, &advice));
	fairwind_unshare(shared);
}

static void advice_that_a_session_has_made_up_is_not_taken(void)
{
	struct fairwind_question question = { "127.0.0.1:8649", "", "192.0.2.7", -1 };
	struct fairwind_shared *shared = fairwind_share();
	struct fairwind_advice advice = advice_of("reno"), made_up;

	made_up = advice;
	made_up.send_buffer = 1;
	fairwind_remember(shared, &question, 1000, &made_up);
	assert(!fairwind_recall(shared, &question, 1000, &advice));
	made_up = advice;
	memset(made_up.control, 'x', sizeof(made_up.control));
	fairwind_remember(shared, &question, 1000, &made_up);
	assert(!fairwind_recall(shared, &question, 1000, &advice));
	made_up = advice;
	made_up.reason[0] = '\n';
	fairwind_remember(shared, &question, 1000, &made_up);
	assert(!fairwind_recall(shared, &question, 1000, &advice));
	fairwind_unshare(shared);
}

int main(void)
{
	sound_advice_is_followed_to_the_letter();
	pacing_leaves_a_tenth_and_a_packet_a_round_trip();
	a_buffer_is_four_products_or_twice_what_autotuning_gives();
	the_rate_is_that_of_a_window_of_a_tenth_of_a_second();
	advice_is_recalled_for_the_same_peer_and_no_more_bytes_for_ten_seconds();
	a_failing_advisor_is_asked_by_one_session_after_ever_longer_pauses();
	without_memory_each_session_is_on_its_own();
	sessions_that_write_at_once_leave_whole_advice_or_none();
	advice_that_a_session_has_made_up_is_not_taken();
	puts("all hold");
	return 0;
}
