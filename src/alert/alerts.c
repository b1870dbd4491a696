/* SPDX-License-Identifier: Apache-2.0
 * alerts.c: the rules that hold where nothing is said, and which one holds for a
 * watch. See alerts.h.
 */
#include "alert/alerts.h"

#include "base/clock.h"
#include "base/text.h"

#define MINUTES(n) ((n)*60 * US_PER_S)
#define HOURS(n) ((n)*3600 * US_PER_S)
/* A message that is nowhere answered is said again twice a day. */
#define AGAIN .repeat_us = HOURS(12), .enabled = true

const char *const alert_severities[] = {"warning", "critical", "page", NULL};

const struct alert_rule alert_defaults[] = {
	[ALERT_STUCK_WARNING] = {.severity = ALERT_WARNING,
                             .unit = UNIT_JOBS,
                             .limit = 10,
                             .says = "{value} {jobs are} stuck (alert above {limit})",
                             .about =
                                 "jobs that a scan found stuck, counted before any is recovered",
                             AGAIN},
	[ALERT_STUCK_CRITICAL] = {.severity = ALERT_CRITICAL,
                              .unit = UNIT_JOBS,
                              .limit = 50,
                              .says = "{value} {jobs are} stuck (alert above {limit})",
                              .about = "the same, when it is serious",
                              AGAIN},
	[ALERT_STUCK_DOUBLED] = {.severity = ALERT_PAGE,
                             .unit = UNIT_FACTOR,
                             .limit = 2,
                             .floor = 10,
                             .window_us = HOURS(1),
                             .says = "{value} times as many jobs are stuck as were at the least "
                                     "within {window} (alert from {limit} times on)",
                             .about = "stuck jobs against the least within the window, which "
                                      "counts as `floor` where it was lower",
                             AGAIN},
	[ALERT_STUCK_LONG] =
		{.severity = ALERT_CRITICAL,
         .unit = UNIT_SECONDS,
         .limit = 3600,
         .says = "a stuck job gave its last sign of life {value} before it was "
                 "last found (alert above {limit})",
         .about = "the age of the oldest sign of life of a stuck job, not the time beyond the "
                  "threshold; held jobs wait for an operator and do not count",
         AGAIN},
	[ALERT_CONNECTION_FAILURES] =
		{.severity = ALERT_CRITICAL,
         .whole = true,
         .unit = UNIT_SHARE,
         .limit = 0.01,
         .floor = 20,
         .window_us = MINUTES(5),
         .says = "{value} of the attempts to use the database within {window} failed (alert above "
                 "{limit})",
         .about = "attempts by the daemon and by defib's workers; at least `floor` of them",
         AGAIN},
	[ALERT_RECOVERED_MANY] = {.severity = ALERT_WARNING,
                              .unit = UNIT_JOBS,
                              .limit = 10,
                              .window_us = HOURS(1),
                              .says = "{value} {jobs were} recovered within {window} (alert above "
                                      "{limit})",
                              .about = "recoveries by the ledger, without those made by hand",
                              AGAIN},
	[ALERT_RECOVERED_FAST] = {.severity = ALERT_CRITICAL,
                              .unit = UNIT_RATE,
                              .limit = 0.1,
                              .window_us = MINUTES(5),
                              .says = "{value} jobs a second were recovered over {window} (alert "
                                      "above {limit})",
                              .about = "the same as a rate",
                              AGAIN},
	[ALERT_DETECTION_SLOW] =
		{.severity = ALERT_WARNING,
         .unit = UNIT_SECONDS,
         .limit = 300,
         .window_us = HOURS(1),
         .says = "jobs were found {value} after their last sign of life, on average within "
                 "{window} (alert above {limit})",
         .about = "from the end of a job's worker, where that was seen, else from its last sign "
                  "of life, until it is found stuck, averaged; a watch whose threshold is longer "
                  "than half of the standard limit has twice its threshold instead",
         AGAIN},
	[ALERT_RECOVERY_RATE] =
		{.severity = ALERT_WARNING,
         .lowest = true,
         .unit = UNIT_SHARE,
         .limit = 0.9,
         .floor = 5,
         .window_us = HOURS(1),
         .says = "only {value} of the jobs found stuck within {window} were recovered, the rest "
                 "are on hold or were only reported (alert below {limit})",
         .about = "recovered, of those detected: recovered, put on hold or only reported; at least "
                  "`floor` of them",
         AGAIN},
	[ALERT_FALSE_POSITIVES] =
		{.severity = ALERT_CRITICAL,
         .unit = UNIT_SHARE,
         .limit = 0.05,
         .floor = 1,
         .window_us = HOURS(24),
         .says = "{value} of the recoveries of {window} were mistakes: their workers were alive "
                 "(alert above {limit})",
         .about = "recoveries after which the worker reported the end of the job after all",
         AGAIN},
	[ALERT_RETRIES_EXHAUSTED] = {.severity = ALERT_CRITICAL,
                                 .unit = UNIT_JOBS,
                                 .limit = 0,
                                 .window_us = HOURS(1),
                                 .says = "{value} {jobs have} no attempts left, within {window}",
                                 .about = "stuck jobs that have no attempts left",
                                 AGAIN},
	[ALERT_BRAKE_HELD] = {.severity = ALERT_CRITICAL,
                          .unit = UNIT_STATE,
                          .says = "the brake holds recovery: most workers fell silent at once",
                          .about = "the brake against mass death holds",
                          AGAIN},
	[ALERT_SCAN_OVERDUE] = {.severity = ALERT_CRITICAL,
                            .unit = UNIT_SECONDS,
                            .limit = 30,
                            .says = "no scan has finished for three intervals and {value} more "
                                    "(alert above {limit}): stuck jobs stay so",
                            .about = "how long ago a scan should have finished: the last one "
                                     "ended three intervals and so long ago",
                            AGAIN},
	[ALERT_DATABASE_AWAY] = {.severity = ALERT_CRITICAL,
                             .whole = true,
                             .unit = UNIT_SECONDS,
                             .limit = 60,
                             .says = "the database has not answered for {value} (alert above "
                                     "{limit})",
                             .about = "how long the daemon has been without an answer; while this "
                                      "fires, scan_overdue of its watches is not sent too",
                             AGAIN},
	[ALERT_RESULTS_SET_ASIDE] =
		{.severity = ALERT_CRITICAL,
         .whole = true,
         .unit = UNIT_JOBS,
         .limit = 0,
         .says = "{value} {jobs have} ended and the database refuses to record it: a missing "
                 "right, table or constraint is the cause (defib status names it)",
         .about = "results that workers keep because the database refused to record them",
         AGAIN},
};
_Static_assert(sizeof alert_defaults / sizeof *alert_defaults == ALERT_COUNT, "a rule each");

const char *const alert_names[] = {
#define X(id, name) name,
	ALERT_LIST(X)
#undef X
		NULL};

struct alert_rule alert_rule_for(const struct alert_settings *s, enum alert_id id,
                                 const char *watch)
{
	struct alert_rule found = alert_defaults[id];
	found.id = id;
	found.name = alert_names[id];
	for (int i = 0; s && i < s->nrules; i++) {
		const struct alert_rule *r = &s->rules[i];
		if (r->id == id && (r->watch ? watch && text_eq(r->watch, watch) : !found.watch))
			found = *r;
	}
	return found;
}

const struct text_list *alert_rule_sinks(const struct alert_settings *s, const struct alert_rule *r)
{
	return r->sinks.n ? &r->sinks : &s->sinks;
}

const struct alert_sink *alert_sink_named(const struct sink_list *all, const char *name)
{
	for (int i = 0; name && i < all->n; i++)
		if (all->items[i].name && text_eq(all->items[i].name, name))
			return &all->items[i];
	return NULL;
}
