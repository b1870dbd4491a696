/* SPDX-License-Identifier: Apache-2.0
 * life.h: keeps a worker alive and detects dead workers, as a step function over (state, event,
 * now): life_tell() takes an event, life_next() returns the next thing to do. One thing is under
 * way at a time; its result is the next event. No I/O, no clock, no thread: the driver
 * (worker/life_thread.c) has a session and carries out the actions.
 *
 *   itself   renews its lease, takes its own lock, registers again if it was declared dead
 *   others   reads the list of workers (part.h), watches processes and locks, declares workers
 *            dead: silent too long (silence.h), exit seen, or lock gone (locks.h)
 *   jobs     has those of dead workers recovered, and checks from time to time for jobs left behind
 */
#ifndef LIFE_LIFE_H
#define LIFE_LIFE_H

#include "life/lease.h"
#include "life/locks.h"
#include "life/part.h"

#define LIFE_PENDING 64 /* ends that were seen but not yet written to the database */
#define MASS_DEATHS 2   /* more than this many … */
#define MASS_MS 500     /* … within this time are one event */

struct life_rules {
	struct lease_rules lease;
	int64_t brake_ms; /* see silence_init() */
	int64_t look_ms;  /* the list is read at least this often */
	bool tables;      /* there are other watches than the built-in queue */
};

enum life_do {
	LIFE_WAIT,     /* until wait_ms have passed or an event arrives */
	LIFE_REGISTER, /* as a new incarnation */
	LIFE_OPEN,     /* another session: the last one was lost, and our lock with it */
	LIFE_LOCK,     /* try to take our own lock */
	LIFE_RENEW,    /* renew the lease */
	LIFE_RETURN,   /* we were declared dead: all running jobs are lost */
	LIFE_LOOK,     /* read the list of workers: the whole list, or what registry_near() reads */
	LIFE_FELLOWS,  /* watch the processes of part_fellows() */
	LIFE_LOCKS,    /* read which locks are held */
	LIFE_DECLARE,  /* declare one worker dead */
	LIFE_RECOVER,  /* recover the jobs of a dead worker */
	LIFE_COMPARE,  /* the database keeps saying that we have more jobs than we do */
	LIFE_LEFT,     /* check whether a job of the built-in queue has no live owner */
	LIFE_SWEEP,    /* look for stuck jobs */
};

struct life_action {
	enum life_do what;
	int64_t wait_ms;
	bool whole;         /* LOOK: the whole list */
	int64_t worker;     /* DECLARE, RECOVER */
	struct death death; /* DECLARE */
	bool mass;          /* RECOVER: several died at once, which is not the jobs' fault */
	bool queue, tables; /* SWEEP: which watches */
	bool died;          /* SWEEP: because another worker declared one dead */
	bool upkeep;        /* SWEEP: and the upkeep that one worker does for all */
	bool dead_only;     /* SWEEP: silence proves nothing at the moment */
};

enum life_happened {
	LIFE_TIME,     /* only time passed */
	LIFE_DONE,     /* the action succeeded */
	LIFE_FAILED,   /* the action failed */
	LIFE_OPENED,   /* a new session was opened */
	LIFE_ENDED,    /* the session was lost */
	LIFE_EXIT,     /* a watched process exited */
	LIFE_NEWCOMER, /* a worker registered */
	LIFE_DEATH,    /* a worker was declared dead by one that cannot recover all of its jobs */
	LIFE_STARTED,  /* the start-up is over: until then we only renew */
};

struct life_event {
	enum life_happened what;
	/* of LIFE_DONE, by action */
	int64_t worker;                /* REGISTER: our id */
	const struct incarnation *who; /* … and who we are */
	bool yes; /* LOCK: held; DECLARE: it was declared; LOCKS: we read often; LEFT: there are some */
	bool refused;                  /* RENEW: we were declared dead */
	int64_t owned, holding;        /* RENEW: number of jobs, by the database and by our own count */
	const struct registered *rows; /* LOOK, by id */
	const int64_t *nonces;         /* LOCKS: of workers whose lock is held */
	int n;                         /* length of either */
	bool locks;                    /* LIFE_OPENED: it can hold locks */
	int64_t id;                    /* LIFE_EXIT */
	bool seen;                     /* LIFE_EXIT: it ended just now; else before */
};

struct life_end {
	int64_t id, at_ms;
	bool exit, seen; /* else its lock is gone */
};

struct life {
	struct life_rules rules;
	struct lease lease;
	struct silence silence;
	struct part part;
	struct locks locks;
	int64_t worker; /* 0: not registered */
	struct life_action doing;
	int64_t doing_ms, until_ms;
	int64_t register_ms, open_ms, open_wait_ms, lock_ms, look_ms, whole_ms, locks_ms, tell_ms;
	int64_t left_ms, pass_ms, sweep_ms;
	bool starting, returning, closed, look_whole, judging, set_fellows, compare, can_lock, locked,
		leads;
	bool left, died, found, recover, mass;
	int judge_at, mismatches;
	struct life_end ends[LIFE_PENDING];
	int nends;
	int64_t dead;                   /* to be recovered */
	int64_t outages;                /* ever */
	struct clocks clocks;           /* when the list was read */
	int64_t deaths_ms[MASS_DEATHS]; /* when the last few were declared dead; a ring buffer */
	int64_t group_ms,
		group_highest; /* time of the last death in a group; highest id known before its first */
	int deaths;
};

void life_init(struct life *l, const struct life_rules *rules);
void life_release(struct life *l);
void life_tell(struct life *l, const struct life_event *e, int64_t now_ms);
struct life_action life_next(struct life *l, int64_t now_ms);
/* Both. */
struct life_action life_step(struct life *l, const struct life_event *e, int64_t now_ms);
/* Whether another exit can be recorded. */
bool life_has_room(const struct life *l);
enum lease_contact life_contact(const struct life *l, int64_t now_ms);

#endif
