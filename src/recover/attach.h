/* SPDX-License-Identifier: Apache-2.0
 * attach.h: records which session claims the rows of a watch's table, from attach to detach.
 *
 * The user's database gets one trigger on the table; its functions and two tables of ours
 * (sql/postgres_attach.sql) are in our schema. All of it is created in one transaction and removed
 * in one.
 */
#ifndef RECOVER_ATTACH_H
#define RECOVER_ATTACH_H

#include "watch/lease_sql.h"

/* X(enum, sentence) */
#define ATTACHED_LIST(X)                                                                           \
	X(NOT, "not attached")                                                                         \
	X(FRESH, "attached")                                                                           \
	X(STALE, "attached for an earlier version of the watch")                                       \
	X(OFF, "attached, but the trigger is disabled")                                                \
	X(BARE, "attached, but the table of claims is missing: nothing is recorded")                   \
	X(UNSAFE,                                                                                      \
	  "attached by functions that have more rights than they need or can be called by anyone")

enum attached {
#define X(id, sentence) ATTACHED_##id,
	ATTACHED_LIST(X)
#undef X
};
extern const char *const attached_texts[];

/*
 * Whoever attaches may have more rights than the table's owner, so nothing here lets the owner's
 * code run with them: no statement reads or plans the table, and of a binding only `watch` and
 * `engine` are used. Whether a watch is attached; PostgreSQL only.
 */
MUST_CHECK defib_err attach_state(struct store *s, const struct binding *b, enum attached *out,
                                  struct failure *f);

/* DEFIB_REFUSED, with advice, for a watch that cannot be attached. */
MUST_CHECK defib_err attach_refusal(const struct watch *w, enum store_engine engine,
                                    struct failure *f);
/* What the functions need to know about the watch's table. */
MUST_CHECK defib_err attach_table(struct store *s, const struct binding *b, struct arena *a,
                                  struct claim_table *out, struct failure *f);
/* The statements, for psql. */
void attach_print(const struct binding *b, const struct claim_table *t, struct buf *out);
void detach_print(const struct watch *w, struct buf *out);
/*
 * Whether the trigger will be able to read a row: as the table's owner, with its search path.
 * Opens a session for it and changes nothing. Code of the owner runs only with the owner's rights.
 */
MUST_CHECK defib_err attach_try(const struct store_options *o, const struct binding *b,
                                struct failure *f);
/*
 * One transaction; parts that already exist and are correct are left alone. The lock on the user's
 * table is requested last and only briefly, because other sessions queue behind a waiting lock
 * request. If it is not granted: DEFIB_LOCKED, and nothing was changed.
 */
MUST_CHECK defib_err attach_make(struct store *s, const struct binding *b, struct failure *f);

struct detached {
	bool trigger, function; /* existed before */
	int64_t claims;         /* our rows that were removed */
	bool tables;            /* it was the last watch: our tables were removed too … */
	bool schema;            /* … and our schema, which contained nothing else */
};
/* Remove every trace of the watch; its table need not exist any more. */
MUST_CHECK defib_err attach_remove(struct store *s, const struct watch *w, struct detached *out,
                                   struct failure *f);

/* A watch whose table has the trigger, as far as is known without a binding. */
struct attachment {
	const char *watch;
	bool disabled;    /* the trigger is */
	int64_t programs; /* running under `defib run` for it now */
};
/* All attachments of a database; none if nothing is attached, and on SQLite. */
MUST_CHECK defib_err attachments_read(struct store *s, struct arena *a, struct attachment **out,
                                      int *n, struct failure *f);

/* Which session claimed a job, for display; *there is false if no claim was recorded. */
struct claim {
	const char *application;
	int64_t pid; /* of the session, in the server */
	int64_t at_us;
	const char *program, *host; /* its program, if it runs under `defib run`; else NULL */
};
MUST_CHECK defib_err claim_of(struct store *s, const struct watch *w, const char *job,
                              struct arena *a, struct claim *out, bool *there, struct failure *f);

#endif
