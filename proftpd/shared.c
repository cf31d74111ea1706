/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "shared.h"

#include <string.h>
#include <sys/mman.h>

/* Peers remembered; another one may take the place of one of them. */
#define ENTRIES 256
/* How long advice serves other transfers with the same peer. */
#define FRESH_MS 10000
#define FIRST_PAUSE_MS 1000
#define LONGEST_PAUSE_MS 30000
/* Failures in a row that are told apart: after these the pause is the longest. */
#define MOST_FAILURES 8

struct entry {
	int64_t asked_ms;
	/* Of the advisor's name, the token and the peer. */
	uint64_t key;
	int64_t remaining;
	struct fairwind_advice advice;
};

#define WORDS ((sizeof(struct entry) + 7) / 8)

struct fairwind_shared {
	/* 0 while the advisor answers. */
	uint32_t failures;
	int64_t ask_at_ms;
	struct {
		uint64_t words[WORDS];
		uint64_t checksum;
	} entries[ENTRIES];
};

/* FNV-1a, 64 bits. */
static uint64_t hash(uint64_t before, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;

	while (length--)
		before = (before ^ *at++) * UINT64_C(0x100000001b3);
	return before;
}

static uint64_t key_of(const struct fairwind_question *question)
{
	uint64_t key = UINT64_C(0xcbf29ce484222325);

	key = hash(key, question->advisor, strlen(question->advisor) + 1);
	key = hash(key, question->token, strlen(question->token) + 1);
	return hash(key, question->peer, strlen(question->peer));
}

/* An entry that nobody has written, all zeros, does not match it. */
static uint64_t checksum_of(const uint64_t words[WORDS])
{
	return ~hash(UINT64_C(0xcbf29ce484222325), words, WORDS * sizeof(words[0]));
}

struct fairwind_shared *fairwind_share(void)
{
	void *memory = mmap(NULL, sizeof(struct fairwind_shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void fairwind_unshare(struct fairwind_shared *shared)
{
	if (shared)
		munmap(shared, sizeof(*shared));
}

bool fairwind_recall(const struct fairwind_shared *shared, const struct fairwind_question *question,
		     int64_t now_ms, struct fairwind_advice *advice)
{
	uint64_t key = key_of(question), words[WORDS], checksum;
	struct entry entry;
	int64_t age;
	size_t i;

	if (!shared)
		return false;
	for (i = 0; i < WORDS; i++)
		words[i] =
			__atomic_load_n(&shared->entries[key % ENTRIES].words[i], __ATOMIC_RELAXED);
	checksum = __atomic_load_n(&shared->entries[key % ENTRIES].checksum, __ATOMIC_RELAXED);
	if (checksum != checksum_of(words))
		return false;
	memcpy(&entry, words, sizeof(entry));
	age = now_ms - entry.asked_ms;
	if (entry.key != key || age < 0 || age >= FRESH_MS || !fairwind_is_sound(&entry.advice) ||
	    age >= entry.advice.again_ms)
		return false;
	if (entry.remaining >= 0 &&
	    (question->remaining < 0 || question->remaining > entry.remaining))
		return false;
	*advice = entry.advice;
	advice->again_ms -= (uint32_t)age;
	return true;
}

void fairwind_remember(struct fairwind_shared *shared, const struct fairwind_question *question,
		       int64_t now_ms, const struct fairwind_advice *advice)
{
	uint64_t key = key_of(question), words[WORDS] = { 0 };
	struct entry entry;
	size_t i;

	if (!shared)
		return;
	memset(&entry, 0, sizeof(entry));
	entry.asked_ms = now_ms;
	entry.key = key;
	entry.remaining = question->remaining;
	entry.advice = *advice;
	memcpy(words, &entry, sizeof(entry));
	for (i = 0; i < WORDS; i++)
		__atomic_store_n(&shared->entries[key % ENTRIES].words[i], words[i],
				 __ATOMIC_RELAXED);
	__atomic_store_n(&shared->entries[key % ENTRIES].checksum, checksum_of(words),
			 __ATOMIC_RELAXED);
}

static int64_t pause_after(uint32_t failures)
{
	int64_t pause = FIRST_PAUSE_MS;

	while (--failures && pause < LONGEST_PAUSE_MS)
		pause *= 2;
	return pause < LONGEST_PAUSE_MS ? pause : LONGEST_PAUSE_MS;
}

bool fairwind_may_ask(struct fairwind_shared *shared, int64_t now_ms)
{
	uint32_t failures;
	int64_t ask_at;

	if (!shared)
		return true;
	failures = __atomic_load_n(&shared->failures, __ATOMIC_RELAXED);
	if (!failures)
		return true;
	ask_at = __atomic_load_n(&shared->ask_at_ms, __ATOMIC_RELAXED);
	/* A time that no session can have written properly forbids nothing. */
	if (now_ms < ask_at && ask_at - now_ms <= LONGEST_PAUSE_MS)
		return false;
	/* Whoever moves the time on asks. */
	return __atomic_compare_exchange_n(&shared->ask_at_ms, &ask_at,
					   now_ms + pause_after(failures), false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

bool fairwind_note_failure(struct fairwind_shared *shared, int64_t asked_ms, int64_t now_ms)
{
	uint32_t failures;

	if (!shared)
		return true;
	failures = __atomic_load_n(&shared->failures, __ATOMIC_RELAXED);
	/* Questions that were under way together count as one. */
	if (failures && asked_ms < __atomic_load_n(&shared->ask_at_ms, __ATOMIC_RELAXED) -
					   pause_after(failures))
		return false;
	if (failures < MOST_FAILURES)
		failures = __atomic_add_fetch(&shared->failures, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&shared->ask_at_ms, now_ms + pause_after(failures), __ATOMIC_RELAXED);
	return failures == 1;
}

bool fairwind_note_success(struct fairwind_shared *shared)
{
	return shared && __atomic_exchange_n(&shared->failures, 0, __ATOMIC_RELAXED) != 0;
}
