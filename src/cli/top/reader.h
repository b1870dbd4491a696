/* SPDX-License-Identifier: Apache-2.0
 * reader.h: a thread per database, with sessions of its own: it reads at each interval and
 * after each act, keeps the newest reading until it is taken, and executes actions in turn.
 */
#ifndef CLI_TOP_READER_H
#define CLI_TOP_READER_H

#include "cli/top/model.h"

/* Shared by all readers; not changed while they run. */
struct top_context {
	const char *actor;
	bool ledger_off;
	const struct workflow_list *workflows; /* of the configuration */
	int64_t every_ms;
	bool ascii;  /* of the terminal */
	int wake_fd; /* written to when there is something to take */
};

enum top_action_is { TOP_STORY, TOP_ACT, TOP_UNDO, TOP_PAUSE, TOP_RESUME };

struct top_action {
	enum top_action_is is;
	struct arena arena; /* of all below */
	int turn;           /* identifies the request: results that are no longer wanted are dropped */
	int part;           /* whose reader */
	int watch;          /* among the reader's */
	const struct act_kind *kind;
	const char **jobs; /* of a story or an act; of an undo without a batch */
	int njobs;
	const char *batch, *reason;
	bool dry_run;
	/* The result: */
	struct buf text;
	int64_t good;  /* jobs to which it was, or would be, done */
	char made[64]; /* the batch that it wrote */
	struct top_action *next;
};
struct top_action *top_action_new(enum top_action_is is, int part, int watch);
void top_action_free(struct top_action *e);

struct top_reader;
struct top_reader *top_reader_start(const struct top_context *ctx, const struct database *d,
                                    const struct watch *const *watches, int n, int part);
/* The newest reading, if there is one since the last call, and a finished action; else NULL. */
struct top_part *top_reader_reading(struct top_reader *d);
struct top_action *top_reader_done(struct top_reader *d);
void top_reader_send(struct top_reader *d, struct top_action *e);
/* Ask it to end; false: it is still in a database call after `wait_ms`. */
bool top_reader_stop(struct top_reader *d, int64_t wait_ms);
/* Whether it is currently changing something. */
bool top_reader_writes(struct top_reader *d);
void top_reader_free(struct top_reader *d);

#endif
