/* SPDX-License-Identifier: Apache-2.0
 * life.h: how a worker lives and notices the end of others, as a step function over (state,
 * event, now): life_tell() takes what happened, life_next() says what is to be done next. One
 * thing is under way at a time; what came of it is the next event. No I/O, no clock, no thread:
 * the driver (worker/life_thread.c) has a session and does as it is told.
 *
 *   itself   renews its lease, tries for its own lock, registers anew when it was declared dead
 *   others   reads the list of workers (part.h), watches processes and locks, declares dead whom
 *            silence.h convicts, whose exit was seen or whose lock is gone (locks.h)
 *   jobs     has those of the dead recovered, and asks now and then whether somebody left any
 */
#ifndef LIFE_LIFE_H
#define LIFE_LIFE_H

#include "guard/doubt.h"
#include "life/lease.h"
#include "life/locks.h"
#include "life/part.h"
#include "life/silence.h"

#define LIFE_PENDING 64 /* ends that were seen and could not be told to the database yet */
#define MASS_DEATHS 2   /* more than so many … */
#define MASS_MS 500     /* … within this time are one event */

struct life_rules {
	struct lease_rules lease;
	int64_t brake_ms; /* see silence_init() */
	int64_t look_ms;  /* the list is read at least so often */
	bool tables;      /* there are other watches than the built-in queue */
};

enum life_do {
	LIFE_WAIT,     /* until wait_ms have passed or something happens */
	LIFE_REGISTER, /* as a new incarnation */
	LIFE_OPEN,     /* another session: the last one was lost, and our lock with it */
	LIFE_LOCK,     /* try for our own lock */
	LIFE_RENEW,    /* the lease */
	LIFE_RETURN,   /* we were declared dead: all in hand is lost */
	LIFE_LOOK,     /* read the list of workers: all, or what registry_near() reads */
	LIFE_FELLOWS,  /* watch the processes of part_fellows() */
	LIFE_LOCKS,    /* read which locks are held */
	LIFE_DECLARE,  /* one dead */
	LIFE_RECOVER,  /* what a dead one had */
	LIFE_COMPARE,  /* the database says that we have more jobs than we do, and stays with it */
	LIFE_LEFT,     /* ask whether a job of the built-in queue is in the hands of nobody alive */
	LIFE_SWEEP,    /* look for stuck jobs */
};

struct life_action {
	enum life_do what;
	int64_t wait_ms;
	bool whole;         /* LOOK: at all */
	int64_t worker;     /* DECLARE, RECOVER */
	struct death death; /* DECLARE */
	bool mass;          /* RECOVER: it did not die alone, which is no job's fault */
	bool queue, tables; /* SWEEP: which watches */
	bool upkeep;        /* SWEEP: and what need be done by one of all */
	bool dead_only;     /* SWEEP: silence proves nothing at the moment */
};

enum life_happened {
	LIFE_TIME,     /* nothing but that */
	LIFE_DONE,     /* what was to be done */
	LIFE_FAILED,   /* it could not be */
	LIFE_OPENED,   /* the session is a new one */
	LIFE_ENDED,    /* the session was lost */
	LIFE_EXIT,     /* of a process that was watched */
	LIFE_NEWCOMER, /* somebody has registered */
	LIFE_STARTED,  /* the start-up is over: until then we only live */
};

struct life_event {
	enum life_happened what;
	/* of LIFE_DONE, by what was done */
	int64_t worker;                /* REGISTER: our id */
	const struct incarnation *who; /* … and who we are */
	bool yes;               /* LOCK: held; DECLARE: it was so; LOCKS: we read often; LEFT: some */
	bool refused;           /* RENEW: we were declared dead */
	int64_t owned, holding; /* RENEW: jobs, by the database and in hand */
	const struct registered *rows; /* LOOK, by id */
	const int64_t *ids;            /* LOCKS */
	int n;                         /* of either */
	bool locks;                    /* LIFE_OPENED: it can hold locks */
	int64_t id;                    /* LIFE_EXIT */
	bool seen;                     /* LIFE_EXIT: at this moment; else before */
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
	bool left, found, recover, mass;
	int judge_at, mismatches;
	struct life_end ends[LIFE_PENDING];
	int nends;
	int64_t dead;                    /* to be recovered */
	int64_t outages;                 /* ever */
	struct clocks clocks;            /* when the list was read */
	int64_t deaths_ms[MASS_DEATHS];  /* when the last few were declared dead, in a ring */
	int64_t group_ms, group_highest; /* the last of a group of deaths; known before its first */
	int deaths;
};

void life_init(struct life *l, const struct life_rules *rules);
void life_release(struct life *l);
void life_tell(struct life *l, const struct life_event *e, int64_t now_ms);
struct life_action life_next(struct life *l, int64_t now_ms);
/* Both. */
struct life_action life_step(struct life *l, const struct life_event *e, int64_t now_ms);
/* Another exit can be told. */
bool life_has_room(const struct life *l);
enum lease_contact life_contact(const struct life *l, int64_t now_ms);

#endif
