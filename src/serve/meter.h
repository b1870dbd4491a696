/*
 * meter.h: from what happened on a watch to numbers: a pass and its jobs, entries of the
 * ledger, who leads, how the database answers. Only arithmetic: nothing here asks a database.
 *
 * What was detected, recovered and held is what the ledger says (ledger/events.h), whoever
 * wrote it: readings_ledger.c reads on behind a cursor. Where a watch has no ledger, what the
 * daemon's own passes did is all that is known, and is counted instead.
 */
#ifndef SERVE_METER_H
#define SERVE_METER_H

#include "ledger/counts.h"
#include "ledger/mistakes.h"
#include "recover/scan.h"
#include "serve/metrics.h"

/* What the pass that goes on decided. */
struct meter_own {
	int64_t detected[VERDICT_COUNT], recovered[REMEDY_COUNT];
};

/* One watch. */
struct meter {
	struct metrics *metrics; /* NULL: nobody counts */
	char *watch, *database;
	int64_t began_ms, oldest_us; /* of the pass that goes on, or the last one */
	struct meter_own own;
	int64_t brakes;
	bool shown;  /* series that rates need a beginning for are there */
	bool leads;  /* as was said last */
	bool sights; /* what only a leader knows is there */
};

void meter_init(struct meter *m, struct metrics *metrics, const char *watch, const char *database);
void meter_release(struct meter *m);

/* A pass begins; it was due then, by CLOCK_BOOTTIME (0: somebody asked for it). */
void meter_begin(struct meter *m, int64_t due_ms, int64_t now_ms);
/* A stuck job, after what was done about it; `now_us` by the database's clock. */
void meter_job(struct meter *m, const struct candidate *c, int64_t now_us);

/* What is told of a pass that is over. */
struct meter_pass {
	const struct watch *watch;
	const struct scan_result *result;
	const struct guard_report *guard;
	double factor;
	const struct mistakes *mistakes; /* NULL: not counted */
	int64_t wall_us;
};
void meter_pass(struct meter *m, const struct meter_pass *p);
/* Entries of the ledger of this watch. */
void meter_entries(struct meter *m, const struct event_count *e);
/* What was recovered at the start, before any pass, where there is no ledger. */
void meter_startup(struct meter *m, const int64_t *outcomes);
/* Whether this daemon leads the watch. What only a leader can know goes when another does. */
void meter_leads(struct meter *m, bool leads);
/* It does not, because the database is away: what was seen last stays, and shows its age. */
void meter_away(struct meter *m);
/* The watch is gone. */
void meter_end(struct meter *m);

/* The daemon starts; its configuration was read again, or was not because it is wrong. */
void meter_start(struct metrics *m, int64_t wall_us);
void meter_reload(struct metrics *m, bool ok);
/* A round of a database's station: could it be asked? */
void meter_round(struct metrics *m, const char *database, bool up);

#endif
