/* SPDX-License-Identifier: Apache-2.0
 * aged.h: the oldest jobs of a watch by their sign of life, whatever the rules
 * say of them: what a person takes in hand in an emergency.
 *
 * Jobs that wait count as well as those that run: where nobody works, both
 * grow old, and only the second kind is ever judged stuck.
 */
#ifndef RECOVER_AGED_H
#define RECOVER_AGED_H

#include "watch/bind.h"

struct aged {
	const char *job; /* facts.h */
	const char *key[WATCH_KEYS_MAX];
	int64_t age_us;
	bool alive; /* a live worker has it */
};

/* At most `limit` jobs whose sign of life is older than `older_us`, oldest first. */
MUST_CHECK defib_err aged_jobs(const struct binding *b, struct store *s, int64_t older_us,
                               int64_t limit, struct arena *a, struct aged **out, int *n,
                               struct failure *f);

#endif
