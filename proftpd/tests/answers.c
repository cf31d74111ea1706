/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads answers from standard input and says what the module makes of them, a line for each. An answer is
 * its length (32 bits, this machine's order), a byte that is 1 if it is all that comes, and its bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../advice.h"

int main(void)
{
	unsigned char head[5];

	while (fread(head, 1, sizeof(head), stdin) == sizeof(head)) {
		char why[FAIRWIND_WHY_SIZE] = "";
		struct fairwind_advice advice;
		uint32_t length;
		char *bytes;

		memcpy(&length, head, sizeof(length));
		/* Its exact size, so that a byte read beyond it is found. */
		bytes = malloc(length);
		if (length && fread(bytes, 1, length, stdin) != length)
			return 1;
		switch (fairwind_read_answer(bytes, length, head[4], &advice, why)) {
		case FAIRWIND_INCOMPLETE:
			puts("incomplete");
			break;
		case FAIRWIND_USELESS:
			printf("useless: %s\n", why);
			break;
		case FAIRWIND_SOUND:
			if (!fairwind_is_sound(&advice))
				abort();
			printf("%s|%s|%" PRIu64 "|%" PRIu64 "|%" PRIu32 "|%" PRIu32 "|%" PRIu32
			       "|%s\n",
			       fairwind_mode_name(advice.mode), advice.control, advice.pacing,
			       advice.available, advice.send_buffer, advice.receive_buffer,
			       advice.again_ms, advice.reason);
			break;
		}
		fflush(stdout);
		free(bytes);
	}
	return 0;
}
