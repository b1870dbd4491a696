/* SPDX-License-Identifier: Apache-2.0
 * exits.h: an end that was seen frees at once what the program had.
 *
 * The same path as a scan's (decide, apply, ledger), with two differences: which
 * jobs are stuck is known from the claims that an attached table wrote down,
 * and the verdict is `dead` on the strength of the exit. No guard is asked: there
 * is nothing to doubt.
 */
#ifndef RECOVER_EXITS_H
#define RECOVER_EXITS_H

#include "life/programs.h"
#include "recover/scan.h"

struct exits;
/* Of one watch; session and watch must outlive it. */
struct exits *exits_new(struct session *session, const struct watch *w, const char *actor,
                        bool ledger_off);
void exits_free(struct exits *x); /* NULL is allowed */
/* Whether the watch can be recovered so: bound, attached, with a remedy that cannot loop. */
MUST_CHECK defib_err exits_ready(struct exits *x, struct failure *f);

struct exit_result {
	int64_t outcomes[OUTCOME_COUNT];
	int64_t waiting; /* jobs that are still to be freed: locked, or their session lives */
};
/*
 * Free what the program had. With `living`, also jobs whose session still shows:
 * then nobody can be behind it any more. May be called again while some wait.
 */
MUST_CHECK defib_err exits_release(struct exits *x, const struct program *p, bool living,
                                   struct exit_result *result, struct failure *f);

/* What programs left that are gone from this host with their watchers. *freed: how many jobs. */
MUST_CHECK defib_err exits_sweep(struct exits *x, int64_t *freed, struct failure *f);

#endif
