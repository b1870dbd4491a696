/* SPDX-License-Identifier: Apache-2.0
 * background.h: acts on all jobs that match some terms, as rows of defib.act.
 *
 * An operator orders such an act; the daemon that leads the watch carries it out a batch at a time
 * (daemon/background_acts.h) and stores how far it came after each batch. So it survives a restart:
 * the next leader continues after the last job that was handled. The id is the batch of all its
 * entries in the ledger, so that one undo reverts all of it.
 */
#ifndef LEDGER_BACKGROUND_H
#define LEDGER_BACKGROUND_H

#include "store/store.h"

#define BACKGROUND_WAITING "waiting"
#define BACKGROUND_RUNNING "running"
#define BACKGROUND_DONE "done"
#define BACKGROUND_CANCELLED "cancelled"
#define BACKGROUND_FAILED "failed"

#define BACKGROUND_PARTS_MAX 1000000000
#define BACKGROUND_DONE_MAX (ROW_INT_MOST / 1000) /* of one outcome: the sum does not overflow */

struct background_act {
	const char *id, *watch, *act; /* act: a verb of act_kind_named() */
	const char *terms;            /* a JSON list of texts */
	const char *step, *reason, *actor, *state;
	bool overrides;               /* override_guard */
	int64_t total;                /* -1: more than were counted */
	const char *up_to, *position; /* cursors (view/job.h); NULL: none */
	int64_t parts;                /* transactions so far: their numbers are not used again */
	int64_t done;
	const char *others; /* JSON: outcomes of the other jobs, and how many */
	const char *refusal, *error;
	const char *role;                    /* of the database, that ordered it; NULL on SQLite */
	int64_t at_us, updated_us, ended_us; /* 0: not yet */
};

/* Whether the table can be used; with `create` it is created if it is missing. */
MUST_CHECK defib_err background_open(struct store *s, bool create, bool *there, struct failure *f);
/*
 * act->actor becomes the actor that was stored: only a daemon's role may name a person, others are
 * named by the database. DEFIB_PERMISSION: this role may not override guards in the background.
 */
MUST_CHECK defib_err background_add(struct store *s, struct background_act *act, struct arena *a,
                                    struct failure *f);
/*
 * The one with this id, or (NULL) all: those that have not ended first, then the latest. A row that
 * is no act is left out (row_set_aside()).
 */
MUST_CHECK defib_err background_read(struct store *s, const char *id, int64_t limit,
                                     struct arena *a, struct background_act **out, int *n,
                                     struct failure *f);
/* Those that have not ended, oldest first. A row that is no act is ended; one in each call. */
MUST_CHECK defib_err background_read_open(struct store *s, struct arena *a,
                                          struct background_act **out, int *n, struct failure *f);
/*
 * Store how far it came. An act that was cancelled meanwhile stays cancelled, and *goes_on is false
 * then, as for every state but running.
 */
MUST_CHECK defib_err background_advance(struct store *s, const struct background_act *act,
                                        bool *goes_on, struct failure *f);
/* Jobs that its batch has changed, by the ledger: a process that died may not have noted them. */
MUST_CHECK defib_err background_changed(struct store *s, const char *id, int64_t *n,
                                        struct failure *f);
/* *was: it had not ended before. */
MUST_CHECK defib_err background_cancel(struct store *s, const char *id, bool *was,
                                       struct failure *f);

#endif
