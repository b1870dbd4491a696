/*
 * events.h: the names of what a ledger entry can record.
 *
 * They are stable: people filter by them and programs that follow the ledger
 * act on them. A name is never given another meaning; new ones are added.
 */
#ifndef LEDGER_EVENTS_H
#define LEDGER_EVENTS_H

/* X(name, what it means) */
#define EVENT_LIST(X)                                                                              \
	X(ZOMBIE_DETECTED, "a job was judged stuck and left as it is")                                 \
	X(REQUEUED, "the job was given back, to be taken at once")                                     \
	X(RETRY_SCHEDULED, "the job was given back, to be taken after a wait")                         \
	X(RETRIED, "a scheduled retry was due and the job was set to run again")                       \
	X(RETRIES_EXHAUSTED, "no attempts were left")                                                  \
	X(FAILED, "the job was ended as failed")                                                       \
	X(ROLLBACK_STARTED, "the job's finished steps are being undone")                               \
	X(UNDO_FAILED, "a step could not be undone; the rest of the rollback goes on")                 \
	X(ROLLED_BACK, "the job was rolled back")                                                      \
	X(HELD, "the job was put on hold: automation leaves it to a person")                           \
	X(RELEASED, "a person let a held job go; earlier recoveries no longer count")                  \
	X(CHANGED_MEANWHILE, "the job changed between the look and the write: nothing was done")       \
	X(GUARD_HELD, "a guard kept a remedy from being applied")                                      \
	X(GUARD_OVERRIDDEN, "a person let the next pass go past doubt, brake and second look")         \
	X(LATE_COMPLETION, "a worker reported the end of a job that was no longer its own")            \
	X(WORKER_RETURNED, "a worker that was declared dead came back; what it had in hand was lost")  \
	X(WORKER_OVERRIDDEN, "an admin acted in a worker's name: ended it, or took or settled a job")  \
	X(UNDONE, "a remedy was taken back")                                                           \
	X(CANCELLED, "the job was cancelled")                                                          \
	X(ENDED, "the job was ended by hand")                                                          \
	X(RETRY_FROM_STEP, "a workflow was set to run again from a step that a person chose")          \
	X(PRUNED, "old entries of the ledger were removed by the retention command")

/*
 * What counts as a recovery, wherever recoveries are counted: as a list in SQL. A rollback counts
 * when it starts: from then on the job is not stuck. That it was carried through (ROLLED_BACK) is
 * a second entry of the same recovery. RETRIED likewise follows RETRY_SCHEDULED.
 */
#define EVENTS_RECOVERY "('REQUEUED', 'RETRY_SCHEDULED', 'FAILED', 'ROLLBACK_STARTED')"

struct event_name {
	const char *name, *meaning;
};
extern const struct event_name event_names[]; /* ends with name NULL */

/* Whether a name is one of them; `near` gets the likeliest slip, or NULL. */
_Bool event_known(const char *name, const char **near);

#endif
