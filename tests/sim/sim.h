/* SPDX-License-Identifier: Apache-2.0
 * sim.h: the simulator. Several workers, each the real engine (worker/engine.h) and the real life
 * (life/life.h), work on one database in one thread. Time, chance, the network, the database and
 * the scheduling of processes are simulated, so a run follows from its seed alone, and a minute
 * takes milliseconds.
 *
 *   sim.c       time, chance, the heap of events, a run from its seed
 *   model.c     the database: what each statement does, as a plain model
 *   calls.c     sessions and statements on their way: errors, lost replies, late execution
 *   process.c   a worker's process: the drivers of engine and life, its spool
 *   runs.c      the jobs that it runs
 *   trouble.c   what goes wrong: every seed draws its own faults and how strong they are
 *   checks.c    what must hold after every event, and when all is healed
 *   main.c      seeds from the command line, the shortest form of a failing one
 *
 * A session is known by its backend. A backend outlives its client: a statement that the client
 * has given up may still be executed, and the locks of a lost session may linger.
 */
#ifndef SIM_H
#define SIM_H

#include "base/mem.h"
#include "base/text.h"
#include "life/life.h"
#include "worker/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000)
#define MS INT64_C(1000)
#define PROCESSES 5
#define HOSTS 3
#define POOLS 2
#define JOBS 20
#define IDS 250 /* workers that are ever registered */
#define ROWS 48 /* … and not declared dead */
#define SPOOL_MOST 96
#define RUNS_MOST 64
#define COPIES 8

/* ---- the database ---- */

enum row_state { ROW_NONE, ROW_READY, ROW_RUNNING, ROW_FINAL };

struct row {
	enum row_state state;
	int64_t owner, epoch;
	int64_t last_owner, last_epoch; /* of the end that was accepted last */
	enum settle_as last_as;
	int64_t crashes;
	bool cancel;
};

struct member {
	bool alive;
	int host, pid;
	int64_t stamp_us, lease_ms;
};

/* What is durable: a fail-over puts an older copy of it in place. */
struct database {
	struct row jobs[JOBS];
	struct member workers[IDS];
	int64_t ids;
};

/* A server process. What it holds goes with it. */
struct backend {
	bool open;
	int process;  /* of the client */
	int64_t lock; /* the worker whose lock it holds; 0: none */
	bool leads;   /* it has one of the two locks of those that read often */
};

/* ---- a statement on its way ---- */

enum thread_name { THREAD_LIFE, THREAD_TURN, THREAD_SWEEP, THREADS };

enum call_kind { CALL_LIFE, CALL_PART, CALL_RECOVER };

struct end {
	int job;
	int64_t worker, epoch;
	enum settle_as as;
	bool accepted, refused; /* answers: ours; or its table refuses it */
};

struct call {
	int64_t serial;
	int process, pid;
	enum thread_name thread;
	enum call_kind kind;
	int64_t backend;
	bool done, failed, readonly; /* executed; an error; because the server is read-only */
	bool lost;                   /* the session is of no use any more */
	bool unknown;                /* it may have been executed */
	/* of CALL_LIFE */
	struct life_action action;
	int64_t worker;
	int host;
	int64_t holding, owned;
	bool yes, refused, leads;
	int n; /* of rows, or of ids */
	/* of CALL_PART: a part of a turn */
	int part, pool;
	int64_t claimer, room;
	bool drain, cancels, compares, gone;
	int nends, nspool;
	int nclaims, ncancelling, nhas;
	/* of CALL_RECOVER: what this dead worker had (0: what nobody alive has) */
	int64_t dead;
	bool mass;
	/* lists, of which only so many are set (call_begin()) */
	struct registered rows[ROWS];
	int64_t ids[ROWS];
	struct end ends[SPOOL_MOST], spool[SPOOL_MOST];
	struct end claims[JOBS], cancelling[JOBS], has[JOBS];
};

/* ---- a process ---- */

struct thread {
	int64_t backend; /* 0: no session */
	struct call *call;
	int64_t wake; /* serial of the wake-up that is awaited */
};

/* A run of a job, as the job itself would tell of it. */
struct run {
	struct job *job;
	int64_t serial;
	bool begun;
};

struct process {
	bool exists;
	int host, pid; /* a pid is never used again */
	int64_t paused_until, restart_at;
	struct engine *engine;
	struct life life;
	struct incarnation who;
	int64_t worker; /* 0: none that lives, as far as it knows */
	struct thread threads[THREADS];
	int64_t opened[THREADS]; /* the session that was last noticed as a new one */
	/* the thread that turns */
	struct turn *turn;
	int part;
	int64_t told_worker, timeline;
	enum lease_contact told_contact;
	bool failed_over, compare, woken, stop;
	struct job *ended[RUNS_MOST];
	int nended;
	struct run runs[RUNS_MOST];
	int nruns;
	struct end spool[SPOOL_MOST]; /* on its disk: the next process of this name finds it */
	int nspool;
	/* the thread of its life */
	int64_t watched[2 * PART_SIDE];
	int watched_pid[2 * PART_SIDE];
	int nwatched;
	struct {
		int64_t id;
		bool seen;
	} exits[64];
	int nexits;
	bool session_ended, newcomer;
	/* what the sweeper is to do */
	struct {
		int64_t dead;
		bool mass;
	} recoveries[64];
	int nrecoveries;
	/* why it could not renew: since the last renewal, by nobody's fault but its own */
	bool hung; /* a call of its life gets no answer */
	int64_t unable_since, unable_us, unable_end;
};

/* ---- the world ---- */

enum event_kind {
	EV_WAKE,    /* a thread of a process wakes up */
	EV_EXECUTE, /* a call reaches its backend */
	EV_REPLY,   /* its reply reaches the client */
	EV_DEADLINE,
	EV_BACKEND, /* a backend ends */
	EV_NOTICE,  /* a client notices that its idle session has ended */
	EV_RUN,     /* a job's run is over */
	EV_EXIT,    /* a watcher sees the exit of a process */
	EV_WORK,    /* work is announced to a process */
	EV_NEWCOMER,
	EV_RESTART,
	EV_RESUME,
	EV_ENQUEUE,
	EV_TROUBLE,
	EV_COPY, /* a standby receives what was committed */
	EV_KINDS
};

struct event {
	int64_t at, order;
	enum event_kind kind;
	int process, pid, thread;
	int64_t number;
	struct call *call;
};

enum trouble {
	TROUBLE_CRASH,
	TROUBLE_PAUSE,
	TROUBLE_PARTITION,
	TROUBLE_TERMINATE,
	TROUBLE_OUTAGE,
	TROUBLE_READONLY,
	TROUBLE_FAILOVER,
	TROUBLE_CLOCK,
	TROUBLE_SLOW,
	TROUBLE_SPOOL_FULL,
	TROUBLE_REFUSED,
	TROUBLE_LACKS,
	TROUBLE_CANCEL,
	TROUBLE_STOP,
	TROUBLES
};

/* Rare paths that a set of runs must have taken. X(name) */
#define MARK_LIST(X)                                                                               \
	X(silent)     /* a worker was declared dead for its silence */                                 \
	X(exit)       /* … because its exit was seen */                                              \
	X(lock)       /* … because its lock was gone */                                              \
	X(recovered)  /* a job of a dead worker was recovered */                                       \
	X(declared)   /* a living process was declared dead for good reason, and came back */          \
	X(stale)      /* an end was refused because its epoch was old */                               \
	X(again)      /* an end was told twice, and accepted twice */                                  \
	X(late)       /* a statement was executed after its client had given it up */                  \
	X(spooled)    /* an end went to the spool */                                                   \
	X(drained)    /* … and from there to the database */                                         \
	X(stray)      /* a job whose claim's reply was lost was handed back */                         \
	X(failover)   /* the server failed over */                                                     \
	X(lost_claim) /* … and had lost a claim */                                                   \
	X(lingered)   /* a lock lingered while its worker had another session */                       \
	X(brake)      /* most fell silent at once, and nobody was declared dead */                     \
	X(readonly)   /* a statement met a read-only server */                                         \
	X(refused)    /* a table refused an end */                                                     \
	X(given_up)   /* an end could be neither recorded nor kept */                                  \
	X(left)       /* a worker that was asked to stop has left */

enum mark {
#define X(name) MARK_##name,
	MARK_LIST(X)
#undef X
		MARKS
};
extern const char *const mark_names[];

struct sim {
	uint64_t seed, random, hash;
	int64_t now, order, serial, pids;
	struct event *heap;
	int nheap, cap_heap;
	int64_t events;
	/* the server */
	struct database db, copies[COPIES];
	int64_t copied_at[COPIES];
	int ncopies;
	struct backend *backends;
	int64_t nbackends, cap_backends;
	int64_t clock_us; /* how far the server's clock is ahead of the true time */
	int64_t timeline;
	int64_t down_until, readonly_until, slow_until;
	bool refuses[JOBS];
	/* hosts */
	int64_t cut_until[HOSTS], full_until[HOSTS], lacks_until[HOSTS], boot_us[HOSTS];
	struct process processes[PROCESSES];
	int nprocesses;
	/* what this seed draws */
	int64_t lease_ms, latency_us, run_us, linger_us, pause_us;
	double error, lost_reply, late;
	int64_t mean_us[TROUBLES]; /* between two of a kind; 0: none */
	bool healed;
	/* the bookkeeper outside: what the jobs themselves and the enqueuers know */
	bool enqueued[JOBS];
	struct truth *truths;
	int ntruths, cap_truths;
	int64_t last_epoch[JOBS];
	bool marks[MARKS];
	const char *broken; /* what does not hold; NULL: all does */
	bool verbose;
};

/* How a run ended, by (job, worker, epoch). */
struct truth {
	int job;
	int64_t worker, epoch, timeline;
	int ended;     /* -1: not yet */
	bool given_up; /* neither recorded nor kept, or recorded by a server whose timeline is gone */
};

/* sim.c */
uint64_t roll(struct sim *s, uint64_t n);
bool odds(struct sim *s, double p);
int64_t about(struct sim *s, int64_t mean); /* up to twice the mean, evenly */
struct event *after(struct sim *s, int64_t us, enum event_kind kind, int process);
void broken(struct sim *s, const char *what);
void say(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t boot_us(const struct sim *s, const struct process *p);
int64_t boot_ms(const struct sim *s, const struct process *p);
void sim_run(struct sim *s, uint64_t seed, bool verbose);
void sim_release(struct sim *s);

/* model.c */
int64_t server_us(const struct sim *s);
struct incarnation who_of(int host, int pid);
void model_execute(struct sim *s, struct call *c);
bool job_settle(struct sim *s, const struct end *e);

/* calls.c */
struct call *call_begin(struct sim *s, struct process *p, enum thread_name t, enum call_kind kind);
void call_send(struct sim *s, struct call *c);
void call_execute(struct sim *s, struct call *c);
void call_reply(struct sim *s, struct call *c);
void call_deadline(struct sim *s, int64_t serial, struct process *p, int thread);
/* Its session has ended under it. */
void call_reset(struct sim *s, struct process *p, int thread);
void backend_end(struct sim *s, int64_t id, bool noticed);
void backends_end(struct sim *s);
bool reachable(const struct sim *s, const struct process *p);

/* process.c */
void process_begin(struct sim *s, int i);
void process_end(struct sim *s, int i); /* kill -9 */
void process_wake(struct sim *s, const struct event *ev);
void process_answered(struct sim *s, struct process *p, const struct call *c);
void process_notice(struct sim *s, struct process *p, int thread);
void process_exit_seen(struct sim *s, struct process *p, int64_t id, bool seen);
void process_poke(struct sim *s, struct process *p, enum thread_name t);
struct process *process_of(struct sim *s, int64_t worker);

/* runs.c */
extern const struct engine_pool run_pools[POOLS];
void run_start(struct sim *s, struct process *p, struct job *j);
void run_stop(struct sim *s, struct process *p, const struct job *j);
/* Those of the pool that have not begun. */
void runs_return(struct sim *s, struct process *p, int pool);
void process_run_over(struct sim *s, struct process *p, int64_t serial);

/* trouble.c */
void trouble_draw(struct sim *s);
void trouble_happens(struct sim *s, enum trouble kind);
void trouble_resume(struct sim *s, int i);
void trouble_heal(struct sim *s);
/* Since it renewed last, how long it could not by its own fault. */
void note_unable(struct sim *s, struct process *p);
int64_t unable_us(const struct sim *s, const struct process *p);

/* checks.c */
void check_event(struct sim *s);
void check_declared(struct sim *s, int64_t id, const struct death *d);
void check_settled(struct sim *s, const struct end *e);
void check_claimed(struct sim *s, int job, int64_t worker, int64_t epoch);
void check_left(struct sim *s, const struct process *p);
bool all_final(const struct sim *s);
struct truth *truth_of(struct sim *s, int job, int64_t worker, int64_t epoch);

#endif
