/* SPDX-License-Identifier: Apache-2.0
 * starts.h: whether jobs that are due are being started. Pure: what was read is a parameter.
 *
 * A deep queue before busy workers is not a fault: its rows wait long, and are started all the
 * same. So rows that are late are judged together, by kind. Jobs of a kind are being started if
 *
 *   - a job of the kind runs that was claimed after the oldest late one was due, or
 *   - the last known claim is no longer ago than late_after, or
 *   - since the last look, a row that was late then no longer waits (a daemon sees that).
 *
 * Nobody starts them if there was none of this for longer than late_after. A daemon counts only
 * time in which a worker could have claimed and it could have seen that: not an outage, not while a
 * lock or an operator's pause kept jobs from being started. After an outage whose beginning is not
 * known (the server was started shortly before the daemon) workers get a quiet time to come back. A
 * daemon needs two looks; a one-shot scan judges by what the columns prove.
 */
#ifndef GUARD_STARTS_H
#define GUARD_STARTS_H

#include "guard/doubt.h"
#include "watch/facts.h"

/* Late rows of one kind; of schedules, each row is a kind of its own. */
struct starts_kind {
	const char *kind;        /* NULL: the watch has none */
	int64_t late, oldest_us; /* how many; the earliest time at which one was due */
	int64_t limit_us;
	int64_t running, owners; /* jobs of it that run and are not stuck, and their workers */
	int64_t claimed_us;      /* newest of their claims, as far as columns tell; 0: not known */
	int64_t ended_us;        /* newest claim of a run that has ended; 0: not known */
	bool unread;             /* older claims could not be read */
	/* Out: */
	enum starts starts;
	int64_t last_us; /* newest claim, by columns or between looks; 0: none known */
};

/* A late row, as it was read. */
struct starts_row {
	const char *job, *kind;
	int64_t due_us;
};

struct starts_look {
	int64_t now_us;            /* the database's clock */
	const struct doubt *doubt; /* of a daemon; NULL: of a single scan */
	bool barred;               /* nothing can be claimed, or judged, now */
	int64_t limit_us;          /* the least late_after: with another one, other rows are late */
	struct starts_kind *kinds;
	int nkinds;
	const struct starts_row *rows; /* the oldest late rows; none: movement is not looked at */
	int nrows;
	bool cut; /* there are more rows than these */
	int64_t late;
};

/* How the number of late rows develops, from look to look. */
struct starts_trend {
	bool known;
	int64_t started;   /* rows that were seen to start, since the beginning of these looks */
	double per_minute; /* change of the number of late rows */
	int64_t drain_us;  /* until none is left, if it goes on like this; 0: never */
};

/* What the looks of a daemon saw. */
struct starts_memory;
struct starts_memory *starts_new(void);
void starts_free(struct starts_memory *m); /* NULL is allowed */
/* The watch is another one, or another daemon has looked meanwhile. */
void starts_clear(struct starts_memory *m);

/* Judge every kind of a look, and remember it. `m` NULL: this look alone decides. */
void starts_judge(struct starts_memory *m, struct starts_look *l, struct starts_trend *trend);
/* A remedy changed this row: that it does not wait any more is not the work of a worker. */
void starts_changed(struct starts_memory *m, const char *job);

#endif
