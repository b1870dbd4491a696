/* SPDX-License-Identifier: Apache-2.0
 * lib.h: the room of the public face. Each file here is a part of include/defib.h, thin over the
 * rooms below: it checks what a caller hands in, calls one function further in, and answers in
 * public terms. Begin with defib.h.
 *
 * lib.c       checking, answering, the log; a session, reading the ledger
 * queue.c     putting jobs in
 * worker.c    handlers, workers and their workflows
 * watches.c   a configuration, loaded or set option by option
 * scan.c      scan, explain, start-up, acts and undo
 * beat.c      heartbeats of a job in the caller's own table
 */
#ifndef LIB_LIB_H
#define LIB_LIB_H

#include "base/fail.h"
#include "recover/candidate.h"
#include "store/store.h"
#include "watch/settings.h"
#include "watch/workflow.h"

struct defib_db {
	struct session session;
	char *url;
};

/* Every call that can fail begins with it: DEFIB_MEMORY while there is no reserve of memory. */
MUST_CHECK defib_err lib_begin(struct failure *f);
/* The same, and the session is open. */
MUST_CHECK defib_err lib_ready(defib_db *db, struct failure *f);
/* Put the words of a failure into `message` (may be NULL); returns err. */
defib_err lib_answer(defib_err err, const struct failure *f, defib_message *message);
/*
 * A public option struct, whatever its version, as the one that we know: what
 * an older program does not give is 0. DEFIB_USAGE when it asks for more.
 */
MUST_CHECK defib_err lib_options(void *to, size_t known, const void *from, const char *what,
                                 struct failure *f);
bool lib_is_json(const char *text);
/* The workflow of a pool with steps, copied into the arena; *out is NULL where it has none. */
MUST_CHECK defib_err lib_steps(const defib_pool *p, int pool, struct arena *a,
                               const struct workflow_list **out, struct failure *f);
/* Whether the jobs of each workflow are taken by its own pool only. */
MUST_CHECK defib_err lib_steps_alone(const defib_pool *pools, int n, struct failure *f);

/* ---- watches */

/* A watch that is to be used, and a session on its database. */
struct lib_watch {
	const struct watch *watch;
	struct session session;
	bool ledger_off;
};
/* By its name; NULL: the only one there is. Close the session afterwards. */
MUST_CHECK defib_err lib_watch(defib_watches *watches, const char *name, bool read_only,
                               struct lib_watch *out, struct failure *f);
/* Where findings go. */
struct lib_teller {
	defib_finding_call call; /* NULL: nowhere */
	void *ctx;
};
void lib_tell(void *teller, const struct watch *w, const struct candidate *c);
/* What a caller asks for; without options a dry run. */
MUST_CHECK defib_err lib_act_options(const defib_act_options *given, defib_act_options *out,
                                     struct failure *f);
/* Copy counts into a result of the caller's version; NULL is allowed. */
MUST_CHECK defib_err lib_result(defib_result *to, int64_t found, const int64_t *outcomes,
                                const char *batch, struct failure *f);

#endif
