/* SPDX-License-Identifier: Apache-2.0
 * lib.h: the room of the public library. Each file here implements a part of include/defib.h as a
 * thin layer over the rooms below: it checks the caller's arguments, calls one internal function,
 * and returns public types. Begin with defib.h.
 *
 * lib.c       argument checks, results, the log; a session: its ledger, enqueueing
 * worker.c    handlers and workers
 * pools.c     the pools of a worker: queues, tables, workflows
 * instance.c  a process that works on a table with code of its own
 * watches.c   a configuration, loaded or set option by option
 * scan.c      scan, explain, start-up, acts and undo
 * beat.c      heartbeats of a job in the caller's own table
 */
#ifndef LIB_LIB_H
#define LIB_LIB_H

#include "base/clock.h"
#include "recover/candidate.h"
#include "watch/settings.h"
#include "worker/worker.h"

#include <unistd.h>

struct defib_db {
	struct session session;
	char *url;
};

/* Every call that can fail begins with it: DEFIB_MEMORY while the memory reserve is used up. */
MUST_CHECK defib_err lib_begin(struct failure *f);
/* The same, and the session is open. */
MUST_CHECK defib_err lib_ready(defib_db *db, struct failure *f);
/* Copy the texts of a failure to `message` (may be NULL); returns err. */
defib_err lib_answer(defib_err err, struct failure *f, defib_message *message);
/*
 * Convert a public option struct of any version to the one we know: members that an older program
 * does not have are 0. DEFIB_USAGE if it sets members that we do not know.
 */
MUST_CHECK defib_err lib_options(void *to, size_t known, const void *from, const char *what,
                                 struct failure *f);
bool lib_is_json(const char *text);
/*
 * Whether this is another process than the one that made a handle with threads: a forked child,
 * which has the handle's memory but none of its threads, and locks that nobody releases. It leaves
 * the handle alone.
 */
static inline bool lib_forked(pid_t process)
{
	return getpid() != process;
}
/* A duration in milliseconds: not negative, and short enough to add up. */
#define LIB_TIME_MOST_MS (DURATION_MOST_US / 1000)
static inline bool lib_is_time(int64_t ms)
{
	return ms >= 0 && ms <= LIB_TIME_MOST_MS;
}
/* Fill a result of any version; NULL is allowed. */
MUST_CHECK defib_err lib_result(defib_result *to, int64_t found, const int64_t *outcomes,
                                const char *batch, struct failure *f);

/* ---- watches ---- */

/* A watch to use, and a session on its database. */
struct lib_watch {
	const struct watch *watch;
	struct session session;
	bool ledger_off;
};
/* By its name; NULL: the only one. Close the session afterwards. */
MUST_CHECK defib_err lib_watch(defib_watches *watches, const char *name, bool read_only,
                               struct lib_watch *out, struct failure *f);
/* Watch i of valid options. */
const struct watch *lib_watch_at(const defib_watches *watches, int i);
/* One more user, or one fewer: while there is one, they cannot be changed. */
void lib_watches_use(defib_watches *watches, int users);

/* ---- an instance ---- */

/*
 * The worker that an instance of this process is registered as, which works on the watch in this
 * database; 0: there is none.
 */
int64_t lib_instance_of(const char *url, const char *watch);

/* ---- a worker ---- */

#define POOL_SLOTS_MAX 10000

/* A pool as the program gave it, and the first of the `n` pools of the worker that came of it. */
struct lib_pool {
	struct defib_worker *worker;
	defib_pool given;
	struct workflow_list *workflows; /* of its steps; NULL: it has a handler */
	int first, n;
};

struct defib_worker {
	struct worker *inner; /* NULL: work is off in all its pools */
	struct arena arena;   /* options, pools and names */
	struct worker_options options;
	defib_watches *watches; /* NULL: none */
	struct lib_pool *pools;
	int npools;
	pid_t process;
};

MUST_CHECK defib_err lib_read_pools(struct defib_worker *w, const defib_pool *given, int n,
                                    struct failure *f);
/* Calls the program's handler; `ctx` is its struct lib_pool. */
enum settle_as lib_run_handler(struct handler_job *inner, void *ctx);
/* Host and process. */
const char *lib_default_name(struct arena *a);

#endif
