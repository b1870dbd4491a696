/*
 * events.h: what a ledger entry can record, what people read of it, and what it counts as.
 *
 * Names are stable: people filter by them and programs that follow the ledger
 * act on them. A name is never given another meaning; new ones are added.
 *
 * This table is the only definition of the numbers that defib shows. Metrics, reports,
 * stats, top, alerts, the demonstration and the page all count entries by it, so that they
 * agree to the unit, whoever wrote the entry:
 *
 *   detected     a job was judged stuck and decided upon, by automation
 *   recovered    a job that was judged stuck was requeued, retried, failed or began to be
 *                rolled back, by automation or by a person
 *   held         a job that was judged stuck was put on hold, by either
 *   rolled back  a rollback was carried through, whatever began it
 *
 * That a job was judged stuck is told by the entry's verdict: a person who fails a job that
 * waits, and a saga that rolls back because a step failed, recover nothing. A rollback of a
 * stuck job is recovered when it starts, from when on the job is not stuck. RETRIED after a
 * wait has no verdict: it is how a RETRY_SCHEDULED goes on.
 */
#ifndef LEDGER_EVENTS_H
#define LEDGER_EVENTS_H

#include "base/buf.h"

enum event_number {
	EVENT_DETECTED = 1,
	EVENT_RECOVERED = 2,
	EVENT_HELD = 4,
	EVENT_ROLLED_BACK = 8,
};
/* Columns of the table: what an event counts as where its job was judged stuck … */
#define EVENT_GIVES (EVENT_DETECTED | EVENT_RECOVERED)
#define EVENT_HOLDS (EVENT_DETECTED | EVENT_HELD)
#define EVENT_FINDS EVENT_DETECTED
/* … and whether or not it was. */
#define EVENT_ROLLS EVENT_ROLLED_BACK
#define EVENT_NOTES 0

/*
 * X(name, counts as, remedy, only by persons, meaning, label on the page, what it did to the job)
 * The remedy is the one of what recovers; NULL elsewhere.
 */
/* clang-format off */
#define EVENT_LIST(X) \
	X(ZOMBIE_DETECTED, FINDS, NULL, false, "a job was judged stuck and left as it is", \
	  "found stuck", "was found stuck and left as it was") \
	X(REQUEUED, GIVES, "requeue", false, "the job was given back, to be taken at once", \
	  "given back", "was given back") \
	X(RETRY_SCHEDULED, GIVES, "retry", false, "the job was given back, to be taken after a wait", \
	  "to be retried", "was given back, to be retried later") \
	X(RETRIED, GIVES, "retry", false, \
	  "a scheduled retry was due and the job was set to run again", \
	  "set to run again", "was set to run again") \
	X(RETRIES_EXHAUSTED, NOTES, NULL, false, "no attempts were left", \
	  "no attempts left", "had no attempts left") \
	X(FAILED, GIVES, "fail", false, "the job was ended as failed", \
	  "ended as failed", "was ended as failed") \
	X(ROLLBACK_STARTED, GIVES, "rollback", false, "the job's finished steps are being undone", \
	  "being rolled back", "began to be rolled back") \
	X(UNDO_FAILED, NOTES, NULL, false, \
	  "a step could not be undone; the rest of the rollback goes on", \
	  "a step was not undone", "had a step that could not be undone") \
	X(ROLLED_BACK, ROLLS, NULL, false, "the job was rolled back", \
	  "rolled back", "was rolled back") \
	X(HELD, HOLDS, NULL, false, "the job was put on hold: automation leaves it to a person", \
	  "put on hold", "was put on hold") \
	X(RELEASED, NOTES, NULL, true, \
	  "a person let a held job go; earlier recoveries no longer count", \
	  "released", "was released by a person") \
	X(CHANGED_MEANWHILE, NOTES, NULL, false, \
	  "the job changed between the look and the write: nothing was done", \
	  "changed meanwhile", "had changed in between, so nothing was done") \
	X(GUARD_HELD, NOTES, NULL, false, "a guard kept a remedy from being applied", \
	  "kept back by a guard", "was kept by a guard, so nothing was done") \
	X(GUARD_OVERRIDDEN, NOTES, NULL, true, \
	  "a person let the next pass go past doubt, brake and second look", \
	  "guard overridden", "may be taken past the guards, a person said") \
	X(LATE_COMPLETION, NOTES, NULL, false, \
	  "a worker reported the end of a job that was no longer its own", \
	  "late completion", "was reported as ended by a worker that had lost it") \
	X(WORKER_RETURNED, NOTES, NULL, false, \
	  "a worker that was declared dead came back; what it had in hand was lost", \
	  "worker returned", "was in the hands of a worker that came back") \
	X(WORKER_OVERRIDDEN, NOTES, NULL, true, \
	  "an admin acted in a worker's name: ended it, or took or settled a job", \
	  "worker overridden", "was acted upon by an admin in its worker's name") \
	X(UNDONE, NOTES, NULL, true, "a remedy was taken back", \
	  "taken back", "was put back as it had been") \
	X(CANCELLED, NOTES, NULL, true, "the job was cancelled", \
	  "cancelled", "was cancelled") \
	X(ENDED, NOTES, NULL, true, "the job was ended by hand", \
	  "ended by hand", "was ended by hand") \
	X(RETRY_FROM_STEP, GIVES, "retry", true, \
	  "a workflow was set to run again from a step that a person chose", \
	  "retried from a step", "was set to run again from a chosen step") \
	X(PRUNED, NOTES, NULL, false, \
	  "old ledger entries were removed by the retention command", \
	  "old entries removed", "had old entries removed")
/* clang-format on */

/* The rule of what a person chose. */
#define EVENT_BY_HAND "chosen-by-hand"

/* By which a person ends a hold; what it was of stands in the entry's `after`. */
#define EVENTS_LET_GO "('RELEASED', 'UNDONE')"

struct event_name {
	const char *name;
	unsigned counts; /* of enum event_number */
	const char *remedy;
	_Bool by_persons; /* nobody else writes it */
	const char *meaning, *label, *phrase;
};
extern const struct event_name event_names[]; /* ends with name NULL */

/* NULL: there is none of that name, which a newer defib may have written. */
const struct event_name *event_named(const char *name);
/* Whether a name is one of them; `near` gets the likeliest slip, or NULL. */
_Bool event_known(const char *name, const char **near);

/* What an entry counts as, of enum event_number. */
unsigned event_counts(const char *name, _Bool judged, _Bool by_person);

/* ---- the same in SQL, about the entry `alias`; each in parentheses ---- */

enum event_by { BY_ANYBODY, BY_AUTOMATION, BY_PERSONS };

/* Its job was judged stuck. */
void event_judged_sql(struct buf *sql, const char *alias);
/* A person did it. */
void event_by_person_sql(struct buf *sql, const char *alias);
/* It counts as one of `numbers`, and was done by these. */
void event_counts_sql(struct buf *sql, const char *alias, unsigned numbers, enum event_by by);

#endif
