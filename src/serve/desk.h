/*
 * desk.h: where calls that need a database are done: a few threads a database, each with
 * its own sessions (seat.h), behind a bounded line.
 *
 * Nobody waits for a database that is not there: while the last attempt failed, or the
 * board says that it is away, one call a second is let through to try, and every other is
 * answered 503 at once. So is a call that finds the line full, or that has stood in it for
 * longer than the time limit of the database.
 *
 * New work is kept instead, where http.spool says so (API_KEPT): in line like any other,
 * because it writes to a disk.
 */
#ifndef SERVE_DESK_H
#define SERVE_DESK_H

#include "serve/api.h"

#define DESK_SEATS 4       /* threads a database, started as they are needed */
#define DESK_LINE 256      /* calls that wait */
#define DESK_TRY_MS 1000   /* between attempts on a database that is away */
#define DESK_REST_MS 30000 /* sessions that nobody used for this long are closed */

struct desks;

/* One call's place in line, in the caller's memory until `done`. */
struct desk_turn {
	struct api_call *call;
	void (*done)(void *ctx); /* once, from any thread, maybe before desks_put() returns */
	void *ctx;
	int64_t deadline_ms;
	bool away; /* not even tried: it is to be kept */
	struct desk_turn *next;
};

struct desks *desks_new(const struct api *api, int64_t timeout_ms);
void desks_put(struct desks *d, struct desk_turn *t);
/* From time to time: answers who has waited too long, puts away desks that a reload closed. */
void desks_tick(struct desks *d);
/* Answers who waits, lets running calls end; afterwards every call is answered 503. */
void desks_close(struct desks *d);
void desks_free(struct desks *d);

#endif
