/* SPDX-License-Identifier: Apache-2.0
 * watch_loop.h: one watch of the daemon: its guard, its next pass, and the results so far.
 */
#ifndef DAEMON_WATCH_LOOP_H
#define DAEMON_WATCH_LOOP_H

#include "daemon/cycle.h"
#include "daemon/daemon.h"
#include "daemon/learning.h"
#include "daemon/readings.h"
#include "daemon/watch_metrics.h"
#include "ledger/overrides.h"
#include "recover/announce.h"

struct watch_loop_counts {
	int64_t passes, failed, found, recovered, held, retried, near_misses, changed;
};

struct watch_loop {
	const struct watch *watch; /* as configured */
	struct watch *raised;      /* with thresholds raised; owns nothing */
	struct arena arena;        /* of `raised` */
	double factor;             /* by which thresholds are currently raised; 1: not raised */
	struct scan_options options;
	struct scanner *scanner;
	struct guard *guard;
	struct starts_memory *starts; /* what was seen of rows that wait */
	struct late_logged late_logged;
	bool paused;         /* by an operator */
	int64_t override_us; /* when an operator requested a pass without guards; 0: never */
	int64_t overrode_us; /* the last such override that a pass used */
	bool leads;
	bool started;             /* cleanup after dead instances is done */
	int64_t other_expires_us; /* the lease of another leader when first seen; 0: not seen */
	bool unseen;              /* no pass yet since it leads: whatever is stuck was stuck before */
	int64_t due_ms;
	struct watch_loop_counts counts;
	struct learning learning;
	struct watch_metrics meter;
	struct reading reading;
	struct cycle cycle; /* the line of the current pass */
	bool turn;          /* it had a pass in this round */
	struct scan_result last;
	int64_t last_ok_us; /* the database's clock at the last finished pass … */
	int64_t last_ok_ms; /* … and CLOCK_BOOTTIME at its end */
	int64_t brakes;     /* that were reported */
	struct guard_logged guards_logged;
};

struct watch_loop *watch_loop_new(const struct watch *w, const char *actor, bool ledger_off);
void watch_loop_free(struct watch_loop *p);
/*
 * The configuration was reloaded: the watch may be a different one with the same name. If it still
 * means the same rows, what the guard has seen is kept; counts always are.
 */
void watch_loop_renew(struct watch_loop *p, const struct watch *w, bool ledger_off);
/* The overrides in force, for this watch or for all ("*"). */
void watch_loop_override(struct watch_loop *p, struct session *session,
                         const struct override *overrides, int n);
/* One pass; sets when the next one is due. */
void watch_loop_pass(struct watch_loop *p, struct session *session, const char *actor);
/* Ledger entries about its jobs, whoever wrote them. */
void watch_loop_count(struct watch_loop *p, const struct event_count *e);
/* Its state as JSON, for `defib status`. */
void watch_loop_info(const struct watch_loop *p, struct buf *out);

#endif
