/* SPDX-License-Identifier: Apache-2.0
 * demo/demo.h: one minute with real workers on real jobs, and with faults.
 *
 *   place    a directory, a database, jobs in it, and their removal      demo/place.c
 *   crew     the daemon, workers and page workers: processes of ours     demo/crew.c
 *   acts     what happens to them, when, and what came of it             demo/acts.c
 *   story    how it is shown: opening, a line per act, a recording        demo/story.c
 *   ledger   what defib did about it, read as it happens                 demo/verdict.c
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
#include "ledger/digest.h"

#include <sys/types.h>

#define DEMO_WORKERS 5
#define DEMO_PAGE_WORKERS 2
#define DEMO_MEMBERS (DEMO_WORKERS + DEMO_PAGE_WORKERS + 1)
#define DEMO_SHORT_S 20 /* a shorter run has a shorter lease */
#define DEMO_SLOTS "4"  /* concurrent jobs per worker */

#define DEMO_ACTS 7
#define DEMO_VICTIMS 8

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

/* What came of one act. */
struct demo_act {
	int64_t begun_ms, changed_ms; /* boot clock; 0: not yet */
	bool over;
	char who[64]; /* the processes that it hit: "w1 w4" */
	pid_t pids[DEMO_VICTIMS];
	int npids;
	unsigned seen; /* signs of its end */
	int64_t jobs, took_us, pages,
		pages_took_us; /* recovered, and the longest it took; -1: unknown */
	int64_t late;      /* results that were refused */
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

	struct demo_member members[DEMO_MEMBERS];
	int64_t killed, killed_by_job, frozen, cut, pages_killed;

	struct demo_act acts[DEMO_ACTS];
	int next_act;
	int64_t unlock_ms; /* when to release the write lock; 0: not held */

	int64_t last_entry; /* last ledger entry that was read */
	struct demo_entry *entries;
	int nentries, entries_cap;
	int64_t recovered, late, sagas;

	bool live, utf8;  /* the acts are drawn anew in place; in more than ASCII */
	int drawn;        /* lines of them on the terminal */
	int64_t shown_ms; /* when the acts or the numbers were last shown */
	FILE *cast;       /* --record; NULL: not recorded */
	int64_t cast_ms;  /* its time zero */
	int cast_drawn;   /* as `drawn` */
};

/* Whether a job of the queue is of this run. */
bool demo_is_ours(const struct demo *d, int64_t job);
/* Rows of a statement, in `a`; a lost session is opened again by the next call. */
MUST_CHECK defib_err demo_ask(struct demo *d, const char *sql, const struct store_param *params,
                              int nparams, struct arena *a, struct store_rows *rows,
                              struct failure *f);

#endif
