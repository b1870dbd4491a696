/* SPDX-License-Identifier: Apache-2.0
 * top/reader.h: queries the databases for `defib top`: one thread per database, with sessions of
 * its own, so that keys are answered while a database is slow or away, and one that is away
 * keeps nobody from the others.
 *
 * A reader reads at each interval and when something was done, and leaves the newest reading
 * to be taken. What the user wants done or shown is an action: handed in, done in its turn, and
 * handed back with its text. All queries are bounded in rows and time.
 */
#ifndef CLI_TOP_READER_H
#define CLI_TOP_READER_H

#include "cli/select.h"
#include "cli/top/model.h"
#include "recover/acts.h"
#include "recover/bound.h"

/* What every reader knows; nobody changes it while they run. */
struct top_context {
	const char *actor;
	bool ledger_off;
	int64_t every_ms;
	int wake_fd; /* written to when there is something to take */
};

enum top_action_is { TOP_STORY, TOP_ACT, TOP_UNDO, TOP_PAUSE, TOP_RESUME };

struct top_action {
	enum top_action_is is;
	struct arena arena; /* of all below */
	int turn;  /* of whom it was asked: an answer that nobody waits for any more is dropped */
	int part;  /* whose reader */
	int watch; /* among the reader's */
	const struct act_kind *kind;
	const char **jobs; /* of a story or an act; of an undo where there is no batch */
	int njobs;
	const char *batch, *reason;
	bool dry_run;
	/* The answer: */
	struct buf text;
	int64_t good;  /* jobs to which it was, or would be, done */
	char made[64]; /* the batch that it left */
	struct top_action *next;
};
struct top_action *top_action_new(enum top_action_is is, int part, int watch);
void top_action_free(struct top_action *e);

/* A watch, as a reader has it ready. */
struct top_bound {
	const struct watch *watch;
	struct bound bound;
	bool used;         /* the built-in queue: it has, or had, jobs */
	int64_t recovered; /* recoveries seen in the ledger since the reader began */
};

struct top_reader;
struct top_reader *top_reader_start(const struct top_context *ctx, const struct database *d,
                                    const struct watch *const *watches, int n, int part);
/* The newest reading, if one came since the last call, and an errand that is done; else NULL. */
struct top_part *top_reader_reading(struct top_reader *d);
struct top_action *top_reader_done(struct top_reader *d);
void top_reader_send(struct top_reader *d, struct top_action *e);
/* Ask it to end; false: it is still in a call to its database after `wait_ms`. */
bool top_reader_stop(struct top_reader *d, int64_t wait_ms);
/* Whether it is changing something at the moment. */
bool top_reader_writes(struct top_reader *d);
void top_reader_free(struct top_reader *d);

/* ---- what a reader does, in its thread (top/read.c, top/action.c) */

struct top_view {
	const struct top_context *ctx;
	const struct database *database;
	int part;
	struct session reads, writes;
	int64_t opened; /* of `reads`, when the watches were made ready */
	struct top_bound *watches;
	int n;
	int64_t ledger_id; /* up to which events were counted; -1: not begun */
	int64_t begun_ms;
};
struct top_part *top_read(struct top_view *v);
void top_action_do(struct top_view *v, struct top_action *e);
/* Ready to be asked; what was made on a lost session is made anew. */
MUST_CHECK defib_err top_ready(struct top_view *v, int watch, struct failure *f);

#endif
