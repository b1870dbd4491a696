/* SPDX-License-Identifier: Apache-2.0
 * exits.h: when a program's exit is seen, its jobs are recovered at once.
 *
 * This is the path of a scan (decide, apply, ledger) with two differences: the stuck jobs are known
 * from the claims that an attached table recorded, and the verdict is `dead`, based on the exit.
 * There is no guard, because there is nothing to doubt.
 */
#ifndef RECOVER_EXITS_H
#define RECOVER_EXITS_H

#include "life/programs.h"
#include "recover/scan.h"

struct exits;
/* For one watch; session and watch must outlive it. */
struct exits *exits_new(struct session *session, const struct watch *w, const char *actor,
                        bool ledger_off);
void exits_free(struct exits *x); /* NULL is allowed */
/* Whether the watch can be recovered this way: bound, attached, with a remedy that cannot loop. */
MUST_CHECK defib_err exits_ready(struct exits *x, struct failure *f);

struct exit_result {
	int64_t outcomes[OUTCOME_COUNT];
	int64_t waiting; /* jobs not yet recovered: locked, or their session is still there */
};
/*
 * Recover the jobs of the program. With `living`, also jobs whose session is still listed: no
 * process can be behind it any more. May be called again while jobs wait.
 */
MUST_CHECK defib_err exits_release(struct exits *x, const struct program *p, bool living,
                                   struct exit_result *result, struct failure *f);

/*
 * Recover the jobs of programs of this host that are gone together with their watchers. *freed:
 * number of jobs.
 */
MUST_CHECK defib_err exits_sweep(struct exits *x, int64_t *freed, struct failure *f);

#endif
