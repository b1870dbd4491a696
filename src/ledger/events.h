/* SPDX-License-Identifier: Apache-2.0
 * events.h: what a ledger entry can record, how it reads to people, and what it counts as.
 *
 * Names are stable: people filter by them, and programs that follow the ledger act on them. A name
 * never changes its meaning; new ones are added.
 *
 * This table is the only definition of the numbers that defib shows. Metrics, reports, stats, top,
 * alerts, the demonstration and the page all count entries by it, so that their numbers agree
 * exactly, whoever wrote the entry:
 *
 *   detected     a scan judged a job stuck and decided on it
 *   recovered    a job that was judged stuck was requeued, retried, failed or began to be
 *                rolled back, by a scan or by an operator
 *   held         a job that was judged stuck was put on hold, by either
 *   rolled back  a rollback was completed, whatever began it
 *
 * An entry with a verdict is about a job that was judged stuck: an operator who fails a waiting
 * job, and a saga that rolls back because a step failed, recover nothing. A rollback of a stuck job
 * counts as recovered when it starts, because the job is no longer stuck from then on. RETRIED
 * after a wait has no verdict: it continues a RETRY_SCHEDULED.
 */
#ifndef LEDGER_EVENTS_H
#define LEDGER_EVENTS_H

#include "watch/watch.h"

/* Names as code writes and compares them; they appear nowhere else (scripts/project/rooms.py). */
#define ENTRY_ZOMBIE_DETECTED "ZOMBIE_DETECTED"
#define ENTRY_REQUEUED "REQUEUED"
#define ENTRY_RETRY_SCHEDULED "RETRY_SCHEDULED"
#define ENTRY_RETRIED "RETRIED"
#define ENTRY_RETRIES_EXHAUSTED "RETRIES_EXHAUSTED"
#define ENTRY_FAILED "FAILED"
#define ENTRY_ROLLBACK_STARTED "ROLLBACK_STARTED"
#define ENTRY_UNDO_FAILED "UNDO_FAILED"
#define ENTRY_ROLLED_BACK "ROLLED_BACK"
#define ENTRY_HELD "HELD"
#define ENTRY_RELEASED "RELEASED"
#define ENTRY_CHANGED_MEANWHILE "CHANGED_MEANWHILE"
#define ENTRY_GUARD_HELD "GUARD_HELD"
#define ENTRY_UNSTARTED "UNSTARTED"
#define ENTRY_STARTED_AGAIN "STARTED_AGAIN"
#define ENTRY_WOKEN "WOKEN"
#define ENTRY_GUARD_OVERRIDDEN "GUARD_OVERRIDDEN"
#define ENTRY_LATE_COMPLETION "LATE_COMPLETION"
#define ENTRY_WORKER_RETURNED "WORKER_RETURNED"
#define ENTRY_WORKER_OVERRIDDEN "WORKER_OVERRIDDEN"
#define ENTRY_UNDONE "UNDONE"
#define ENTRY_HOLD_REVERTED "HOLD_REVERTED"
#define ENTRY_CANCELLED "CANCELLED"
#define ENTRY_ENDED "ENDED"
#define ENTRY_RETRY_FROM_STEP "RETRY_FROM_STEP"
#define ENTRY_EXCUSED "EXCUSED"
#define ENTRY_EXCUSE_ENDED "EXCUSE_ENDED"
#define ENTRY_PRUNED "PRUNED"

/* The rule of an operator's choice. */
#define RULE_BY_HAND "chosen-by-hand"

enum event_number {
	COUNTS_DETECTED = 1,
	COUNTS_RECOVERED = 2,
	COUNTS_HELD = 4,
	COUNTS_ROLLED_BACK = 8,
};
/* Columns of the table: what an event counts as if its job was judged stuck … */
#define EVENT_GIVES (COUNTS_DETECTED | COUNTS_RECOVERED)
#define EVENT_HOLDS (COUNTS_DETECTED | COUNTS_HELD)
#define EVENT_FINDS COUNTS_DETECTED
/* … and in any case. */
#define EVENT_ROLLS COUNTS_ROLLED_BACK
#define EVENT_NOTES 0

enum event_mark {
	MARK_CHANGES = 1,    /* the job was changed: can be undone, or prevents an undo */
	MARK_GIVES_BACK = 2, /* … so that it runs again */
	MARK_CHARGED = 4,    /* counts against the crash budget, unless something excuses it */
	MARK_LETS_GO = 8,    /* an operator ended a hold, which the entry's `after` describes */
	MARK_PERSONS = 16,   /* written only by operators */
};

/*
 * X(name, counts as, marks, remedy, meaning, label on the page, what it did to the job,
 *   tone and picture on the page)
 */
/* clang-format off */
#define EVENT_LIST(X) \
	X(ZOMBIE_DETECTED, FINDS, 0, "report", \
	  "a job was judged stuck and left as it is", \
	  "found stuck", "was found stuck and left as it was", \
	  "warn", "search") \
	X(REQUEUED, GIVES, MARK_CHANGES | MARK_GIVES_BACK | MARK_CHARGED, "requeue", \
	  "the job was requeued and can be claimed at once", \
	  "requeued", "was requeued", \
	  "good", "redo") \
	X(RETRY_SCHEDULED, GIVES, MARK_CHANGES | MARK_GIVES_BACK | MARK_CHARGED, "retry", \
	  "the job was requeued and can be claimed after a wait", \
	  "retry scheduled", "was scheduled for a retry", \
	  "busy", "clock") \
	X(RETRIED, GIVES, MARK_CHANGES | MARK_GIVES_BACK, "retry", \
	  "a scheduled retry was due and the job was set to run again", \
	  "set to run again", "was set to run again", \
	  "good", "redo") \
	X(RETRIES_EXHAUSTED, NOTES, 0, NULL, \
	  "no attempts were left", \
	  "no attempts left", "had no attempts left", \
	  "bad", "none") \
	X(FAILED, GIVES, MARK_CHANGES, "fail", \
	  "the job was ended as failed", \
	  "ended as failed", "was ended as failed", \
	  "bad", "cross") \
	X(ROLLBACK_STARTED, GIVES, MARK_CHANGES, "rollback", \
	  "the job's finished steps are being undone", \
	  "being rolled back", "began to be rolled back", \
	  "warn", "undo") \
	X(UNDO_FAILED, NOTES, 0, NULL, \
	  "a step could not be undone; the rest of the rollback goes on", \
	  "a step was not undone", "had a step that could not be undone", \
	  "bad", "alert") \
	X(ROLLED_BACK, ROLLS, MARK_CHANGES, NULL, \
	  "the job was rolled back", \
	  "rolled back", "was rolled back", \
	  "idle", "undo") \
	X(HELD, HOLDS, MARK_CHANGES, "hold", \
	  "the job was put on hold: only an operator can release it", \
	  "put on hold", "was put on hold", \
	  "held", "hand") \
	X(RELEASED, NOTES, MARK_CHANGES | MARK_LETS_GO | MARK_PERSONS, NULL, \
	  "an operator released a held job; earlier recoveries no longer count", \
	  "released", "was released by an operator", \
	  "good", "play") \
	X(EXCUSED, NOTES, MARK_PERSONS, NULL, \
	  "an operator said that a stuck job is not stuck: it is left alone until it changes", \
	  "excused", "was excused by an operator: it is not stuck until it changes", \
	  "idle", "hand") \
	X(EXCUSE_ENDED, NOTES, MARK_PERSONS, NULL, \
	  "an operator ended an excuse", \
	  "excuse ended", "was no longer excused, as an operator ended it", \
	  "good", "play") \
	X(CHANGED_MEANWHILE, NOTES, 0, NULL, \
	  "the job changed between the scan and the write: nothing was done", \
	  "changed meanwhile", "had changed in between, so nothing was done", \
	  "idle", "arrow") \
	X(GUARD_HELD, NOTES, 0, NULL, \
	  "a guard kept a remedy from being applied", \
	  "held back by a guard", "was held back by a guard, so nothing was done", \
	  "held", "shield") \
	X(UNSTARTED, NOTES, 0, NULL, \
	  "jobs of the watch are due and nobody starts them; the entry is about all of them", \
	  "not started", "is due and nobody starts it", \
	  "warn", "clock") \
	X(STARTED_AGAIN, NOTES, 0, NULL, \
	  "jobs of the watch that were due are being started again", \
	  "started again", "is being started again", \
	  "good", "play") \
	X(WOKEN, NOTES, 0, NULL, \
	  "workers were notified, because nobody started jobs of the watch", \
	  "workers notified", "was not started, so its workers were notified", \
	  "busy", "bell") \
	X(GUARD_OVERRIDDEN, NOTES, MARK_PERSONS, NULL, \
	  "an operator let the next scan skip doubt, brake and second look", \
	  "guard overridden", "may be recovered without the guards, as an operator ordered", \
	  "warn", "shield") \
	X(LATE_COMPLETION, NOTES, 0, NULL, \
	  "a worker reported the end of a job that was no longer its own", \
	  "late completion", "was reported as ended by a worker that had lost it", \
	  "warn", "clock") \
	X(WORKER_RETURNED, NOTES, 0, NULL, \
	  "a worker that was declared dead came back; its jobs were lost", \
	  "worker returned", "was held by a worker that came back", \
	  "warn", "worker") \
	X(WORKER_OVERRIDDEN, NOTES, MARK_PERSONS, NULL, \
	  "an admin acted in a worker's name: ended it, or took or settled a job", \
	  "worker overridden", "was changed by an admin in its worker's name", \
	  "warn", "hand") \
	X(UNDONE, NOTES, MARK_CHANGES | MARK_LETS_GO | MARK_PERSONS, NULL, \
	  "a remedy was undone", \
	  "undone", "was restored to its earlier state", \
	  "idle", "undo") \
	X(HOLD_REVERTED, NOTES, MARK_CHANGES | MARK_PERSONS, NULL, \
	  "a hold was undone; what led to it still counts", \
	  "hold undone", "was no longer held, as an operator undid the hold", \
	  "idle", "undo") \
	X(CANCELLED, NOTES, MARK_CHANGES | MARK_PERSONS, NULL, \
	  "the job was cancelled", \
	  "cancelled", "was cancelled", \
	  "idle", "none") \
	X(ENDED, NOTES, MARK_CHANGES | MARK_PERSONS, NULL, \
	  "the job was ended by hand", \
	  "ended by hand", "was ended by hand", \
	  "idle", "none") \
	X(RETRY_FROM_STEP, GIVES, MARK_CHANGES | MARK_GIVES_BACK | MARK_PERSONS, "retry", \
	  "a workflow was set to run again from a step that an operator chose", \
	  "retried from a step", "was set to run again from a chosen step", \
	  "busy", "redo") \
	X(PRUNED, NOTES, 0, NULL, \
	  "old ledger entries were removed by the retention command", \
	  "old entries removed", "had old entries removed", \
	  "idle", "book")
/* clang-format on */

struct event_name {
	const char *name;
	unsigned counts; /* of enum event_number */
	unsigned marks;  /* of enum event_mark */
	const char *remedy;
	const char *meaning, *label, *phrase, *tone, *picture;
};
extern const struct event_name event_names[]; /* ends with name NULL */

/* NULL: unknown name, perhaps written by a newer defib. */
const struct event_name *event_named(const char *name);
/* Whether a name is known; `near` gets the likeliest intended name, or NULL. */
_Bool event_known(const char *name, const char **near);
/* Whether an event has one of these marks; an unknown one has none. */
_Bool event_marked(const char *name, unsigned marks);
/* The event of an act: enum remedy, enum act. */
const char *act_event(int act);

/* What an entry counts as, from enum event_number. */
unsigned event_counts(const char *name, _Bool judged, _Bool by_person);

/* ---- the same in SQL, about the entry `alias`; each in parentheses ---- */

enum event_by { BY_ANYBODY, BY_AUTOMATION, BY_PERSONS };

/* Its event has one of these marks. */
void event_marked_sql(struct buf *sql, const char *alias, unsigned marks);
/* Its job was judged stuck. */
void event_judged_sql(struct buf *sql, const char *alias);
/* An operator did it. */
void event_by_person_sql(struct buf *sql, const char *alias);
/* It counts as one of `numbers`, and was done by these. */
void event_counts_sql(struct buf *sql, const char *alias, unsigned numbers, enum event_by by);

#endif
