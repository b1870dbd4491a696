/* SPDX-License-Identifier: Apache-2.0
 * override.h: an operator override (pause, raise, override) set or cleared, as JSON and as text:
 * for the commands and for their HTTP routes. It is stored in the database; the daemon that
 * leads the watch, now or after a restart, reads it within about a second.
 */
#ifndef VIEW_OVERRIDE_H
#define VIEW_OVERRIDE_H

#include "ledger/overrides.h"
#include "watch/settings.h"

/* What was done for one watch, or for all of them ("*"). */
struct override_answer {
	const char *watch, *name;
	const struct override *in_force; /* NULL: it was cleared … */
	bool was;                        /* … and there was one */
};

/* Set it for `for_us` (0: until it is cleared). */
MUST_CHECK defib_err override_set(struct store *s, const struct override *said, int64_t for_us,
                                  struct arena *a, struct override_answer *out, struct failure *f);
/*
 * Clear it: of one watch, or of all and then of each. *still is one that is set for all
 * watches and so for the one too: it cannot be cleared for a single watch. NULL: none.
 */
MUST_CHECK defib_err override_clear(struct store *s, const char *watch, const char *name,
                                    struct arena *a, struct override_answer **out, int *n,
                                    const struct override **still, struct failure *f);
/* An object, whole. */
void override_answer_json(const struct database *d, const struct override_answer *w,
                          struct buf *out);
/* The document around the objects, which are separated by commas. */
void override_answers_json(const char *answers, struct buf *out);

/* "2026-01-02T03:04:05Z": people need no milliseconds. */
void moment_text(int64_t us, struct buf *out);
/* "by cli:anna at … until …, because …" */
void override_text(const struct override *t, struct buf *out);
/*
 * A line for who looks at jobs of a watch: that nothing of it is given back, because recovery is
 * paused. Nothing where it is not, or where that cannot be read.
 */
void pause_line(struct store *s, const char *watch, struct buf *out);

/* Objects, whole. */
void override_json(const struct override *t, struct buf *out);

#endif
