/* SPDX-License-Identifier: Apache-2.0
 * lists.h: the faults of a run, the rare paths that runs must take, and the switches that make
 * drivers and statements behave as they did before their faults were found.
 */
#ifndef SIM_LISTS_H
#define SIM_LISTS_H

#include <stdbool.h>
#include <stdint.h>

/* What can go wrong. Those of RATE_FAULTS affect single calls, the others occur now and then. */
#define FAULT_LIST(X)                                                                              \
	X(error)      /* a statement fails before it is executed */                                    \
	X(lost_reply) /* it is executed, and its reply is lost */                                      \
	X(late)       /* it hangs, and is executed later or never */                                   \
	X(crash)                                                                                       \
	X(pause)     /* SIGSTOP */                                                                     \
	X(partition) /* packets of a host vanish */                                                    \
	X(terminate) /* a session is ended by the server */                                            \
	X(outage)                                                                                      \
	X(read_only)                                                                                   \
	X(fail_over) /* it loses the last commits */                                                   \
	X(clock)     /* of the server: it jumps */                                                     \
	X(slow)                                                                                        \
	X(spool_full)                                                                                  \
	X(refused)  /* a row of its own table cannot be recorded as ended */                           \
	X(rights)   /* privileges to record and claim are revoked */                                   \
	X(lacks)    /* a host cannot start programs */                                                 \
	X(cancel)   /* of a job */                                                                     \
	X(stop)     /* a worker is asked to stop */                                                    \
	X(operator) /* of the watched table */                                                         \
	X(freeze)   /* the server and a process are stopped at once, and continue together */          \
	X(stay)     /* when all is healed, some processes never return */
#define RATE_FAULTS 3

enum fault {
#define X(name) FAULT_##name,
	FAULT_LIST(X)
#undef X
		FAULTS
};
extern const char *const fault_names[];

/* Rare paths that a set of runs must have taken. X(name) */
#define MARK_LIST(X)                                                                               \
	X(silent)            /* a worker was declared dead for its silence */                          \
	X(exit)              /* … because its exit was seen */                                       \
	X(lock)              /* … because its lock was gone */                                       \
	X(recovered)         /* a job of a dead worker was recovered */                                \
	X(declared)          /* a live process was declared dead for good reason, … */               \
	X(returned)          /* … and came back as another worker */                                 \
	X(stale)             /* an end was refused because its epoch was old */                        \
	X(again)             /* an end was reported twice, and accepted twice */                       \
	X(late)              /* a statement was executed after its client had given it up */           \
	X(lost_claims)       /* the reply to a claim was lost */                                       \
	X(lost_ends)         /* the reply to ends was lost */                                          \
	X(lost_id)           /* the reply to a registration was lost */                                \
	X(lost_death)        /* the reply to a declaration was lost */                                 \
	X(spooled)           /* an end went to the spool */                                            \
	X(drained)           /* … and from there to the database */                                  \
	X(inherited)         /* … by the next process of that name */                                \
	X(aside)             /* an end that the database refuses was set aside */                      \
	X(aside_taken)       /* … and taken later, */                                                \
	X(forgotten)         /* … or dropped, because its claim was lost in a failover */            \
	X(full)              /* the spool's disk was full */                                           \
	X(given_up)          /* an end could be neither recorded nor stored */                         \
	X(compare)           /* a worker had fewer jobs than the database said, and compared */        \
	X(stray)             /* a job whose claim's reply was lost was released */                     \
	X(fail_over)         /* the server failed over, … */                                         \
	X(lost_claim)        /* … and had lost a claim */                                            \
	X(lost_end)          /* … and had lost an end */                                             \
	X(lost_worker)       /* … and had lost a registration */                                     \
	X(lost_job)          /* … and had lost a job, which was enqueued again */                    \
	X(alone)             /* a job that was lost more than once ran alone */                        \
	X(lingered)          /* a lock lingered while its worker had another session */                \
	X(brake)             /* most fell silent at once: it engaged, … */                           \
	X(brake_over)        /* … and released */                                                    \
	X(clock_forward)     /* the server's clock jumped by more than a lease while jobs ran, … */  \
	X(clock_back)        /* … or back */                                                         \
	X(long_pause)        /* a process with jobs was stopped for longer than its lease */           \
	X(frozen)            /* the server and a process were stopped at once, for long */             \
	X(long_cut)          /* a host with jobs was cut off for longer than the lease */              \
	X(read_only)         /* a statement met a read-only server */                                  \
	X(rights)            /* a statement met a revoked privilege */                                 \
	X(refused)           /* a table refused an end */                                              \
	X(lacking)           /* a host could not start a program */                                    \
	X(cancelled)         /* a job that was cancelled has stopped */                                \
	X(expired)           /* a job that must not overlap was stopped when its lease expired */      \
	X(left)              /* a worker that was asked to stop has left */                            \
	X(crash_registering) /* killed while it registered, */                                         \
	X(crash_renewing)    /* … renewed, */                                                        \
	X(crash_declaring)   /* … declared another dead, */                                          \
	X(crash_claiming)    /* … claimed, */                                                        \
	X(crash_settling)    /* … recorded ends, */                                                  \
	X(crash_draining)    /* … drained its spool, */                                              \
	X(crash_recovering)  /* … recovered the jobs of another, */                                  \
	X(crash_running)     /* … ran jobs */                                                        \
	X(few_left)          /* only some processes were left in the end */                            \
	X(daemon_recovered)  /* a daemon recovered a job of the watched table, */                      \
	X(daemon_held)       /* … put one on hold, because its attempts were used up, */             \
	X(daemon_changed)    /* … found one changed when it wrote, */                                \
	X(daemon_doubt)      /* … doubted, */                                                        \
	X(daemon_look)       /* … waited for a second look, */                                       \
	X(daemon_brake)      /* … braked */                                                          \
	X(took_over)         /* another daemon took over */                                            \
	X(two_lead)          /* two daemons considered themselves the leader when one wrote */         \
	X(late_done)         /* a worker finished a job that was taken from it */                      \
	X(held_meanwhile)    /* an operator held a job after a daemon had decided on it */             \
	X(operator_held)     /* an operator held a job, */                                             \
	X(operator_released) /* … released one, */                                                   \
	X(operator_requeued) /* … took one from its worker, */                                       \
	X(operator_undid)    /* … undid a recovery, */                                               \
	X(operator_paused)   /* … paused the watch while a job was stuck, */                         \
	X(operator_raised)   /* … raised its threshold */                                            \
	X(daemon_paused)     /* a daemon left a stuck job alone because of a pause, */                 \
	X(sweep_paused)      /* … so did the sweep of a worker */                                    \
	X(sweep_recovered)   /* the sweep of a worker recovered a job of the watched table, */         \
	X(sweep_led)         /* … left the table to a daemon that leads, */                          \
	X(sweep_held_back)   /* … waited because of a guard, */                                      \
	X(sweep_reopened)    /* … lost its session half-way */                                       \
	X(slow_sweep)        /* a sweep took longer than the lease of its worker */                    \
	X(opened_read_only)  /* a session that was opened on a read-only server could not write later, \
	                      */                                                                       \
	X(number_again) /* a session got the descriptor of a child, or a child that of a session */    \
	X(refused_for_good) /* a table refused an end forever, and all others were recorded */

enum mark {
#define X(name) MARK_##name,
	MARK_LIST(X)
#undef X
		MARKS
};
extern const char *const mark_names[];

/*
 * `--with NAME`: a driver or a statement behaves as it did before a fault was found there (the
 * table of docs/internals/simulator.md). What the engine, a life or a guard decide is real code: it
 * is taken out by tests/mutants.yaml.
 */
#define OLD_LIST(X)                                                                                \
	X(lock_against_the_renewed) /* who vanished from the locks is dead, even if renewed since */   \
	X(lock_tried_once)          /* a lock has one holder, and is not tried for again */            \
	X(lock_on_one_session)      /* the session of turns does not hold it too */                    \
	X(sweeps_on_life_session)   /* … which they replace; the life is not told */                 \
	X(sweeps_before_renewals)   /* the thread of the life runs them */                             \
	X(sweeps_ignore_overrides)  /* pause and raise */                                              \
	X(sweeps_unguarded)         /* no doubt, second look, brake and pace */                        \
	X(session_number_kept)      /* a number that was watched once is not watched again, … */     \
	X(child_number_kept)        /* … if it goes to a session; if it goes to a child */           \
	X(kept_ends_compared)       /* an end in the spool does not say that its job was run */        \
	X(refused_end_waits)        /* … in front of the others, instead of set aside */             \
	X(read_only_session_kept)   /* forever */

enum old {
#define X(name) OLD_##name,
	OLD_LIST(X)
#undef X
		OLDS
};
extern const char *const old_names[];
extern uint32_t old_ways; /* of the runs to come, by bit */

static inline bool old(enum old way)
{
	return old_ways >> way & 1;
}

#endif
