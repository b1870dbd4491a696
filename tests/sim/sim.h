/* SPDX-License-Identifier: Apache-2.0
 * sim.h: the simulator. Several workers, each the real engine (worker/engine.h) and the real life
 * (life/life.h), work on one database in one thread. Time, chance, the network, the database and
 * the scheduling of processes are simulated, so a run depends only on its seed, and a minute takes
 * milliseconds.
 *
 *   sim.c       time, chance, the heap of events, a run from its seed
 *   model.c     the database: what each statement does, as a plain model
 *   sqlite.c    … and the real statements, on SQLite in memory
 *   calls.c     sessions and statements on their way: errors, lost replies, late execution
 *   process.c   a worker's process: the driver of its engine
 *   lives.c     … and of its life
 *   runs.c      the jobs that it runs
 *   spool.c     ends that it could not record
 *   sweeps.c    its sweeper: jobs of dead workers, and the watched table
 *   numbers.c   its descriptors
 *   watched.c   a user's table: its foreign workers without fencing, and an operator
 *   daemon.c    daemons that watch it
 *   passes.c    a pass over it, of a daemon or a sweep: the real judge, decide and guard
 *   trouble.c   faults: every seed draws its own kinds and strengths
 *   checks.c    what must hold after every event, and when all is healed
 *   main.c      seeds from the command line, the shortest form of a failing one
 *   lists.h     what can go wrong, rare paths, old ways
 *
 * A session is identified by its backend. A backend outlives its client: a statement that the
 * client has given up may still be executed, and the locks of a lost session may linger.
 */
#ifndef SIM_H
#define SIM_H

#include "base/mem.h"
#include "base/text.h"
#include "guard/guard.h"
#include "life/leader.h"
#include "life/life.h"
#include "lists.h"
#include "recover/decide.h"
#include "worker/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000)
#define MS INT64_C(1000)
#define PROCESSES 5 /* of workers; after them come … */
#define DAEMONS 2
#define FOREIGN 4
#define ALL (PROCESSES + DAEMONS + FOREIGN)
#define WATCHED 8 /* rows of the table that daemons watch */
#define HOSTS 3
#define POOLS 2
#define JOBS 20
#define IDS 160  /* workers that are ever registered */
#define ROWS IDS /* … and not declared dead */
#define SPOOL_MOST 96
#define RUNS_MOST 64
#define NUMBERS 128 /* of descriptors */
#define COPIES 8
#define IDS_A_TIMELINE 100000 /* of workers, as defib.worker_id() */

/* ---- the database ---- */

enum row_state { ROW_NONE, ROW_READY, ROW_RUNNING, ROW_FINAL };
enum row_cause { CAUSE_NONE, CAUSE_ERROR, CAUSE_LOST };

struct row {
	enum row_state state;
	int64_t id; /* in the order of enqueuing */
	int64_t owner, epoch, attempts, crashes;
	int64_t last_epoch; /* of the end that was accepted last */
	enum row_cause cause;
	bool cancel; /* running: it must stop; ended: it was cancelled */
};

struct member {
	int64_t id, stamp_us;
	int host, pid;
	int64_t nonce; /* a process may register more than once */
	bool alive;
};

/* A row of the table that daemons watch. */
struct watched {
	enum row_state state;
	int owner;     /* a pid; 0: none */
	int64_t claim; /* which of its claims: only the bookkeeper sees it */
	int64_t sign_us, attempts;
	bool held, released; /* by an operator, for this owner and sign of life */
	int undo_owner;      /* of its last recovery, while nothing has changed since; 0: none */
	int64_t undo_sign_us;
};

/* The durable state: a failover replaces it with an older copy. */
struct tables {
	struct row jobs[JOBS];
	struct member workers[IDS]; /* by id */
	int nworkers;
	int64_t ids, job_ids; /* the sequences that ids are drawn from */
	struct watched watched[WATCHED];
	int leader; /* the pid of the daemon that leads, … */
	int64_t leads_until_us;
	int64_t paused_us; /* since when the watch is paused, by the true time; 0: it is not */
	int64_t raised_us; /* … its threshold is raised, … */
	char raised_by[8]; /* … by this factor */
};

/* A server process. What it holds is released when it ends. */
struct backend {
	bool open;
	int process;      /* of the client */
	int64_t lock;     /* the worker whose lock it holds; 0: none */
	int64_t timeline; /* of the server when it was opened */
	bool leads;       /* it has one of the two locks of the frequent readers */
	bool only_reads;  /* as the server was when it was opened */
};

/* ---- a statement in transit ---- */

/* The last one runs jobs, and has no session. */
enum thread_name { THREAD_LIFE, THREAD_TURN, THREAD_SWEEP, THREAD_RUNS, THREADS };

enum call_kind {
	CALL_LIFE,
	CALL_PART,
	CALL_ASIDE,
	CALL_RECOVER,
	CALL_HEAR,    /* the overrides in force, and whether a daemon leads */
	CALL_LEAD,    /* a daemon asks to lead, and for the overrides, */
	CALL_LOOK,    /* … reads all that runs, */
	CALL_APPLY,   /* … and writes what it decided */
	CALL_FOREIGN, /* a worker of the watched table */
};

enum foreign_do { FOREIGN_CLAIM, FOREIGN_BEAT, FOREIGN_DONE };

struct end {
	int job, pid; /* of the process that ran it */
	int64_t worker, epoch;
	enum settle_as as;
	bool aside;             /* in a spool: the database has refused it */
	bool alone;             /* of a claim: nothing may run beside it */
	bool accepted, refused; /* results: accepted; or its table refuses it */
};

struct call {
	int64_t serial;
	int process, pid;
	enum thread_name thread;
	enum call_kind kind;
	int64_t backend;
	bool done, failed, readonly; /* executed; an error; because the server is read-only */
	bool denied;                 /* … because a privilege was revoked */
	bool lost;                   /* the session cannot be used any more */
	bool unknown;                /* it may have been executed */
	bool unlucky;                /* it failed by chance alone */
	/* of CALL_LIFE */
	struct life_action action;
	int64_t worker;
	int host;
	int64_t nonce; /* of its incarnation */
	int64_t holding, owned;
	bool yes, refused, leads;
	int n; /* of rows, or of ids */
	/* of CALL_PART: a part of a turn */
	int part, pool;
	int64_t claimer, room;
	bool drain, cancels, compares, gone;
	bool undrained; /* the spool could not be drained, but the rest was done */
	int nends, nspool;
	int nclaims, ncancelling, nhas;
	/* of CALL_RECOVER: jobs of this dead worker (0: jobs without a live owner) */
	int64_t dead;
	bool mass;
	/* of daemons and of the watched table's workers */
	enum foreign_do foreign;
	int row;
	int64_t claim, now_us, started_us;
	bool paused, led;  /* of the watch */
	char raised_by[8]; /* "": not raised */
	int64_t heard_us;  /* by the true time */
	int nseen;
	/* lists, of which only the used part is set (call_begin()) */
	struct registered rows[ROWS];
	int64_t ids[ROWS];
	struct end ends[SPOOL_MOST], spool[SPOOL_MOST];
	struct end claims[JOBS], cancelling[JOBS], has[JOBS];
	struct seen {
		int row;
		struct watched as; /* when it was read */
		enum remedy remedy;
		bool written;
	} seen[WATCHED];
};

/* ---- a process ---- */

struct thread {
	int64_t backend; /* 0: no session */
	int number;      /* of its descriptor */
	bool only_reads; /* a write has failed because of that */
	int64_t opened_us;
	struct call *call;
	int64_t wake; /* serial of the wake-up that is awaited */
};

/* What the number of a descriptor stands for; TURNS: the session of that thread. */
enum number_is { NUMBER_FREE, NUMBER_TURNS, NUMBER_SESSION, NUMBER_CHILD };

struct descriptor {
	enum number_is is, was;
	bool watched; /* the kernel has what it stands for in the interest set */
	bool known;   /* the driver believes so */
};

/* A run of a job, as the job itself sees it. */
struct run {
	struct job *job;
	int64_t serial;
	int truth; /* -1: none */
	bool begun;
	int number; /* of its descriptor; 0: it has not begun */
};

/* What a sweeper does next. */
struct sweep {
	int64_t dead; /* the jobs of this worker; 0: a sweep */
	bool mass;
	bool queue, tables; /* of a sweep */
	bool dead_only;
};

enum sweep_step { SWEEP_IDLE, SWEEP_HEAR, SWEEP_QUEUE, SWEEP_LOOK, SWEEP_APPLY };

enum process_kind { IS_WORKER, IS_DAEMON, IS_FOREIGN };

struct process {
	enum process_kind kind;
	bool exists, gone; /* gone: permanently */
	int host, pid;     /* a pid is never reused */
	int64_t paused_until, restart_at;
	struct engine *engine;
	struct life life;
	struct incarnation who;
	int64_t nonce;  /* of the incarnation that it registered last */
	int64_t worker; /* 0: none alive, as far as it knows */
	struct thread threads[THREADS];
	int64_t opened[THREADS]; /* the session that was last recognised as new */
	/* the turn thread */
	struct turn *turn;
	int part;
	int64_t told_worker, timeline;
	enum lease_contact told_contact;
	bool failed_over, compare, woken, stop;
	int lacking, able;  /* programs that could not be started, and could */
	int lacked;         /* … one after the other, … */
	int64_t lacked_us;  /* … since then */
	int64_t expired_us; /* since when its lease has expired by its own clock; 0: it has not */
	struct job *ended[RUNS_MOST];
	int nended;
	struct run runs[RUNS_MOST];
	int nruns;
	struct end spool[SPOOL_MOST]; /* on its disk: the next process of this name finds it */
	int nspool;
	int64_t aside_us; /* when those that are set aside are offered again */
	bool aside_taken; /* … or as soon as another end is accepted */
	/* the life thread */
	int64_t watched[2 * PART_SIDE];
	int watched_pid[2 * PART_SIDE];
	int nwatched;
	struct {
		int64_t id;
		bool seen;
	} exits[64];
	int nexits;
	bool session_ended, newcomer, returns;
	/* the sweeper */
	struct sweep sweeps[64], sweep;
	int nsweeps;
	enum sweep_step sweep_step;
	int sweep_tries;
	int64_t sweep_us; /* when it began */
	bool away;        /* the life has lost contact since its last task */
	struct descriptor descriptors[NUMBERS];
	int64_t asleep_us, unheard_us; /* the thread of turns, since; work was announced */
	/* the watched table: of daemons and sweepers */
	struct guard *guard;
	struct absence absence;
	const struct watch *watch; /* with the threshold in force */
	double factor;
	struct arena arena;
	bool paused, led;
	int64_t heard_us;          /* when the overrides were read, by the true time */
	bool asked, leads, passes; /* asked: the server's start time was read */
	int64_t first_us;          /* the server's clock at its first look */
	int64_t led_until_us, lead_us, due_us;
	int64_t fresh[WATCHED];  /* signs of life that it read while they were fresh, … */
	int64_t silent[WATCHED]; /* … and not after they had been too old: a clock may be set back */
	int64_t disturbed;       /* nothing has disturbed it since they were fresh */
	/* a worker of the watched table */
	int row; /* in hand; -1: none */
	int64_t claim, ends_us, beat_us;
	/* why it could not renew since the last renewal, by its own fault only */
	bool hung;       /* a call of its life gets no reply */
	int64_t told_us; /* when it hears that a session was ended while its host was cut off */
	int unlucky;     /* calls of its life that failed by chance */
	int64_t former;  /* a session of its life that only reads, until the next one has the lock */
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

/*
 * What stores the rows. The first is faster; the last compares every result, and the rows, of the
 * second with those of the real statements on SQLite.
 */
enum store_kind {
	KEEP_MODEL,        /* a model of PostgreSQL */
	KEEP_SQLITE_MODEL, /* … of SQLite: milliseconds, and no function that does everything at once */
	KEEP_SQLITE,       /* that, and SQLite itself */
};
extern enum store_kind store_kind; /* of the runs to come */

/* What a run leaves out, so that a failing seed can be made smaller. */
struct cuts {
	uint32_t without; /* kinds of fault, by bit */
	int64_t faults;   /* that come at most; -1: all */
};

struct sim {
	uint64_t seed, random, hash;
	enum store_kind store;
	bool locks; /* sessions can hold locks */
	uint64_t
		streams[FAULTS]; /* random numbers per fault: leaving one out does not change the others */
	struct cuts cuts;
	bool calm;        /* few faults, for longer */
	bool fair;        /* no faults at all: then no worker suspects another */
	bool safety;      /* it is never healed: only what must hold at any time is checked */
	int64_t faults;   /* that occurred */
	int64_t compares; /* made by live workers */
	int64_t healed_us, bound_us; /* until all was final, once healed; and the limit */
	int64_t now, order, serial, pids;
	struct event *heap;
	int nheap, cap_heap;
	int64_t events;
	/* the server */
	struct tables db, copies[COPIES]; /* a ring: the newest is at `copy` */
	int copy, ncopies;
	struct backend *backends;
	int64_t nbackends, cap_backends;
	int64_t clock_us;       /* how far the server's clock is ahead of the true time */
	int64_t disturbed_us;   /* when the last outage ended, or the clock jumped, … */
	int64_t disturbed_from; /* … and when it began */
	int64_t back_us;        /* by how much it was set back, in total */
	int64_t timeline;
	int64_t down_until, readonly_until, slow_until, rights_until;
	int64_t stalled_until; /* it does not answer, and ends no session */
	bool refuses[JOBS];
	/* hosts */
	int64_t cut_until[HOSTS], full_until[HOSTS], lacks_until[HOSTS], boot_us[HOSTS];
	struct process processes[ALL];
	int nprocesses, ndaemons, nforeign;
	struct watch watch;
	bool sweeps;         /* workers sweep the watched table too */
	bool keeps_refusing; /* what refuses an end does so forever */
	int64_t started_us;  /* when the server was, by its clock */
	/* what this seed draws */
	int64_t lease_ms, latency_us, run_us, linger_us, pause_us;
	int64_t sweep_us;            /* what a statement of a sweep takes */
	int64_t backoff_us, beat_us; /* of the watched table's workers: when the server is down; else */
	double rates[RATE_FAULTS];
	int64_t brake_ms;        /* of the brake of each life */
	int64_t mean_us[FAULTS]; /* between two of a kind; 0: none */
	bool healed;
	/* the outside bookkeeper: what the jobs themselves and the enqueuers know */
	bool enqueued[JOBS];
	struct truth *truths;
	int ntruths, cap_truths;
	int64_t last_epoch[JOBS];
	bool marks[MARKS];
	const char *broken; /* what was violated; NULL: nothing */
	bool verbose;
};

/* How a run ended, by (job, worker, epoch). */
struct truth {
	int job, pid;
	int64_t worker, epoch, timeline;
	int ended;     /* -1: not yet */
	bool given_up; /* neither recorded nor stored, or recorded by a server whose timeline is gone */
};

/* sim.c */
uint64_t roll(struct sim *s, uint64_t n);
bool odds(struct sim *s, enum fault rate);  /* whether a call meets this fault */
int64_t about(struct sim *s, int64_t mean); /* up to twice the mean, evenly */
struct event *after(struct sim *s, int64_t us, enum event_kind kind, int process);
void broken(struct sim *s, const char *what);
void say(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t boot_us(const struct sim *s, const struct process *p);
int64_t boot_ms(const struct sim *s, const struct process *p);
void sim_run(struct sim *s, uint64_t seed, const struct cuts *cuts, bool verbose);
void sim_release(struct sim *s);

/* model.c */
int64_t server_us(const struct sim *s);
struct incarnation who_of(int host, int pid, int64_t nonce);
/* Of a worker that was ever registered; NULL: there is none. */
struct member *member_of(struct sim *s, int64_t id);
bool is_alive(struct sim *s, int64_t id);
bool is_same_end(const struct tables *a, const struct tables *b);
void model_execute(struct sim *s, struct call *c);
void model_cancel(struct sim *s, int job);
void model_enqueue(struct sim *s, int job);
void model_leave(struct sim *s, const struct process *p);

/* sqlite.c: the same on SQLite, with the real statements; each reports where the results differ */
void sqlite_begin(struct sim *s);
void sqlite_execute(struct sim *s, struct call *c); /* model_execute() too */
void sqlite_cancel(struct sim *s, int job);         /* these follow those of the model */
void sqlite_enqueue(struct sim *s, int job);
void sqlite_leave(struct sim *s, const struct process *p);
void sqlite_keep(struct sim *s, int copy);    /* a standby receives what was committed */
void sqlite_restore(struct sim *s, int copy); /* a failover to that copy */
void sqlite_compare(struct sim *s);
int64_t sqlite_clock_us(int64_t us); /* as SQLite's arithmetic computes it */

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
/* The session of a thread is another one, or none (0). */
void session_set(struct sim *s, struct process *p, enum thread_name t, int64_t backend);

/* numbers.c: numbers as the kernel gives them, and an interest set as epoll has it */
int number_open(struct sim *s, struct process *p, enum number_is is);
void number_close(struct process *p, int number);
bool number_is_heard(const struct process *p, int number);

/* process.c */
void process_begin(struct sim *s, int i);
void process_end(struct sim *s, int i); /* kill -9 */
void process_wake(struct sim *s, const struct event *ev);
void process_answered(struct sim *s, struct process *p, const struct call *c);
void process_notice(struct sim *s, struct process *p, int thread);
void process_exit_seen(struct sim *s, struct process *p, int64_t id, bool seen);
void process_announced(struct sim *s, struct process *p); /* work */
void process_wake_in(struct sim *s, struct process *p, enum thread_name t, int64_t us);
void process_poke(struct sim *s, struct process *p, enum thread_name t);
struct process *process_of_pid(struct sim *s, int pid); /* NULL: it no longer exists */

void process_step(struct sim *s, struct process *p, struct engine_event ev);
int index_of(const struct sim *s, const struct process *p);

/* lives.c */
void life_go(struct sim *s, struct process *p);
void life_wake(struct sim *s, struct process *p);
void life_answered(struct sim *s, struct process *p, const struct call *c, bool opened);

/* spool.c */
int job_of(const char *key);
int64_t spool_waiting(const struct process *p, int pool);
void spool_tell(struct sim *s, struct process *p);
void spool_keep(struct sim *s, struct process *p, struct job *j, const struct failure *why);
void spool_add(const struct process *p, struct call *c); /* what a call must carry */
bool spool_due(const struct sim *s, const struct process *p);
void spool_offer(struct sim *s, struct process *p);
void spool_answered(struct sim *s, struct process *p, const struct call *c);
void spool_forget(struct sim *s, struct process *p, const struct call *c);
bool spool_has(const struct process *p, const struct call *c, const struct end *has);

/* runs.c */
extern const struct engine_pool run_pools[POOLS];
void run_start(struct sim *s, struct process *p, struct job *j);
void run_stop(struct sim *s, struct process *p, const struct job *j);
/* Those of the pool that have not begun. */
void runs_return(struct sim *s, struct process *p, int pool);
void process_run_over(struct sim *s, struct process *p, int64_t serial);
/* stop_all_expired() of worker/worker.c */
void runs_stop_expired(struct sim *s, struct process *p);

/* sweeps.c */
void sweep_add(struct sim *s, struct process *p, struct sweep task);
void sweep_go(struct sim *s, struct process *p);
void sweep_answered(struct sim *s, struct process *p, const struct call *c);
/* Whether the thread of the life has to wait for it: only as it was before. */
bool sweep_blocks_life(const struct process *p);

/* watched.c */
void watched_draw(struct sim *s);
void watched_execute(struct sim *s, struct call *c);
void foreign_go(struct sim *s, struct process *p);
void foreign_answered(struct sim *s, struct process *p, const struct call *c);
void operator_acts(struct sim *s);
bool watched_final(const struct sim *s);
/*
 * Whether all owners that this daemon saw beating fell silent at once, so that the brake must hold.
 */
bool all_fell_silent(struct sim *s, struct process *p, const struct call *c);
struct facts watched_facts(const struct sim *s, const struct seen *one, int64_t now_us,
                           char text[2][16]);

/* daemon.c */
void daemon_begin(struct sim *s, struct process *p);
void daemon_go(struct sim *s, struct process *p);
void daemon_answered(struct sim *s, struct process *p, const struct call *c);

/* passes.c: a pass over the watched table, of a daemon or of a worker's sweep */
void pass_init(struct sim *s, struct process *p);
void pass_release(struct process *p);
void pass_hear(struct sim *s, struct process *p, const struct call *c);
/* The census of what was read; whether all fell silent at once, so that the brake must hold. */
bool pass_begin(struct sim *s, struct process *p, const struct call *c);
/* What is to be written. */
void pass_judge(struct sim *s, struct process *p, const struct call *c, bool silent,
                struct call *next);
void pass_applied(struct process *p, const struct call *c);

/* trouble.c */
void trouble_draw(struct sim *s);
void trouble_happens(struct sim *s, enum fault kind);
void trouble_resume(struct sim *s, int i);
void trouble_heal(struct sim *s);
/* How long it could not renew by its own fault, since its last renewal. */
void note_unable(struct sim *s, struct process *p);
int64_t unable_us(const struct sim *s, const struct process *p);

/* checks.c */
void check_event(struct sim *s);
void check_declared(struct sim *s, const struct member *m, const struct death *d);
void check_settled(struct sim *s, const struct end *e);
void check_claimed(struct sim *s, int job, int64_t worker, int pid, int64_t epoch);
void check_left(struct sim *s, const struct process *p);
void check_lacked(struct sim *s, const struct process *p);
void check_spooled(struct sim *s, const struct process *p, const struct job *j);
void check_heard(struct sim *s, const struct process *p);
/* What it is about to ask of the database. */
void check_asked(struct sim *s, const struct process *p, const struct turn_part *part);
void check_fair(struct sim *s);
bool all_final(const struct sim *s);
/* The newest; pid 0: of any process. */
struct truth *truth_of(struct sim *s, int job, int64_t worker, int pid, int64_t epoch);

#endif
