/* SPDX-License-Identifier: Apache-2.0
 * demo/demo.h: one minute with real workers on real jobs, and with faults.
 *
 *   place    a directory, a database, jobs in it, and their removal      demo/place.c
 *   crew     the daemon, workers and page workers: processes of ours     demo/crew.c
 *   faults   what happens to them, and when                              demo/crew.c
 *   ledger   what defib did about it, read and printed as it happens     demo/verdict.c
 *   verdict  effects compared with ledger and states                     demo/verdict.c
 *
 * Every job leaves an effect: a file named after the job, its step and the epoch that ran it. The
 * states in the queue are checked against these files, so that a lost job, or one that ran twice,
 * cannot hide behind its state.
 */
#ifndef CLI_DEMO_DEMO_H
#define CLI_DEMO_DEMO_H

#include "base/clock.h"
#include "cli/cli.h"
#include "ledger/counts.h"

#include <sys/types.h>

#define DEMO_WORKERS 5
#define DEMO_PAGE_WORKERS 2
#define DEMO_MEMBERS (DEMO_WORKERS + DEMO_PAGE_WORKERS + 1)
#define DEMO_SHORT_S 20 /* a shorter run has a shorter lease and fewer faults */
#define DEMO_SLOTS "4"  /* concurrent jobs per worker */

enum demo_role { DEMO_DAEMON, DEMO_WORKER, DEMO_PAGES };

/* One process of the crew; if it ends, it is started again. */
struct demo_member {
	enum demo_role role;
	char name[48];
	pid_t pid;          /* 0: not running */
	int64_t restart_ms; /* when to start it again */
	bool killed;        /* by us: its end is expected */
	int64_t frozen_ms;  /* since when it is stopped; 0: it is not */
	bool given_up;      /* its jobs were recovered meanwhile */
	bool spared;        /* it was frozen: what it does when it continues is of interest */
};

/* One entry of the ledger about a job of ours. */
struct demo_entry {
	int64_t job, epoch;
	bool page;
	bool recovered; /* as ledger/events.h counts it */
	bool poison;    /* held by the crash budget */
};

struct demo_verdict {
	int64_t jobs, done, rolled_back, held, killed;
	int64_t lost, stuck, twice;
	int64_t recovered;
	struct digest_times times, page_times; /* as reports of the queue and the pages have them */
};

struct demo {
	struct cli *cli;
	FILE *out;      /* where the output goes */
	const char *db; /* --db; NULL: a database of our own, removed at the end */
	const char *url;
	enum store_engine engine;
	const char *listen;
	int64_t seconds;
	struct chance chance;
	int64_t lease_ms; /* of workers; a page is stuck after the same time */
	char run[16];     /* distinguishes this run from others in the same database */
	char folder[256], effects[288], program[4096];
	const char *queue, *pages; /* names of the queue, and of the table and watch */
	bool made;                 /* there is something in the database to remove */
	struct store *store, *lock;
	int64_t begun_us; /* when the ledger was first read, by the database's clock */
	int64_t begun_ms; /* when everything was up: time zero of the output; boot clock */

	int64_t *ids; /* of our jobs, ascending */
	int nids, npages;
	int64_t poison; /* the job that kills every worker that runs it; 0: not there yet */
	int64_t finished, pages_done;
	int64_t moved_to, moved_ms; /* how many had ended when that number last changed, and when */
	bool calm;                  /* the end of the faults was announced */

	struct demo_member members[DEMO_MEMBERS];
	int64_t killed, killed_by_job, frozen, cut, pages_killed;

	int next_fault;
	int64_t unlock_ms; /* when to release the write lock; 0: not held */

	int64_t last_entry; /* last ledger entry that was read */
	struct demo_entry *entries;
	int nentries, entries_cap;
	int64_t recovered, late, sagas;

	bool live, utf8; /* a bar at the bottom, of blocks */
	int64_t shown_ms;
	bool bar;
};

/* Whether a job of the queue is of this run. */
bool demo_is_ours(const struct demo *d, int64_t job);
/* Rows of a statement, in `a`; a lost session is opened again by the next call. */
MUST_CHECK defib_err demo_ask(struct demo *d, const char *sql, const struct store_param *params,
                              int nparams, struct arena *a, struct store_rows *rows,
                              struct failure *f);

/* place */
MUST_CHECK defib_err demo_place_make(struct demo *d, struct failure *f);
MUST_CHECK defib_err demo_place_fill(struct demo *d, struct failure *f);
MUST_CHECK defib_err demo_poison(struct demo *d, struct failure *f);
void demo_place_remove(struct demo *d);

/* crew */
void demo_crew_init(struct demo *d);
MUST_CHECK defib_err demo_crew_start(struct demo *d, enum demo_role role, struct failure *f);
/* Detect and restart ended processes; the end of the daemon ends the demonstration. */
MUST_CHECK defib_err demo_crew_tend(struct demo *d, struct failure *f);
/* "w1", without the run's name. */
const char *demo_label(const char *name);
int demo_alive(const struct demo *d, enum demo_role role);
void demo_crew_stop(struct demo *d);
/* Jobs of this process were recovered. */
void demo_given_up(struct demo *d, pid_t pid);
/* Whether this process is a page worker, according to its environment. */
bool demo_pages_wanted(void);
int demo_pages_run(void);

/* faults */
void demo_faults_tick(struct demo *d, int64_t now_ms);
bool demo_faults_over(const struct demo *d);

/* ledger */
MUST_CHECK defib_err demo_ledger_follow(struct demo *d, struct failure *f);

/* tell */
void demo_tell_init(struct demo *d);
void demo_print(struct demo *d, enum color color, const char *fmt, ...) PRINTF_LIKE(3, 4);
void demo_show_progress(struct demo *d, int64_t now_ms);
void demo_clear_progress(struct demo *d);

/* verdict */
MUST_CHECK defib_err demo_judge(struct demo *d, struct demo_verdict *v, struct failure *f);
bool demo_kept(const struct demo_verdict *v);
void demo_show_verdict(struct demo *d, const struct demo_verdict *v);

#endif
