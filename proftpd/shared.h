/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the sessions of a server know together, although each is a process: the newest advice about
 * each peer, and whether the advisor answers. It is memory that the daemon maps before it forks.
 *
 * There is no lock: a session may be killed at any moment. An entry carries a checksum instead, and one
 * that two sessions have written at once is no entry. What a session reads is checked like an answer.
 */
#ifndef FAIRWIND_SHARED_H
#define FAIRWIND_SHARED_H

#include "advice.h"

struct fairwind_shared;

/* Maps it; NULL if there is no memory: then each session is on its own. */
struct fairwind_shared *fairwind_share(void);
void fairwind_unshare(struct fairwind_shared *shared);

/* What was asked. */
struct fairwind_question {
	/* The advisor's name. */
	const char *advisor;
	/* By which the advisor knows who asks; may be empty. */
	const char *token;
	/* A numeric address. */
	const char *peer;
	/* Bytes still to be moved; negative if that is not known. */
	int64_t remaining;
};

/* Advice no older than ten seconds, not yet due to be asked for again, and for no fewer bytes, which
 * would make its buffers too small. `again_ms` is then the time that is left.
 */
bool fairwind_recall(const struct fairwind_shared *shared, const struct fairwind_question *question,
		     int64_t now_ms, struct fairwind_advice *advice);
void fairwind_remember(struct fairwind_shared *shared, const struct fairwind_question *question,
		       int64_t now_ms, const struct fairwind_advice *advice);

/* Whether a session may ask now. While the advisor fails, one session may, after 1, 2, 4, ... and at
 * most 30 s, on behalf of all.
 */
bool fairwind_may_ask(struct fairwind_shared *shared, int64_t now_ms);
/* Takes note of the failure of a question that was asked at `asked_ms`; true if it is the first since
 * the advisor has answered.
 */
bool fairwind_note_failure(struct fairwind_shared *shared, int64_t asked_ms, int64_t now_ms);
/* Takes note of sound advice; true if it is the first since the advisor has failed. */
bool fairwind_note_success(struct fairwind_shared *shared);

#endif
