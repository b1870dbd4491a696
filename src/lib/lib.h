/* SPDX-License-Identifier: Apache-2.0
 * lib.h: the room of the public library. Each file here implements a part of include/defib.h as a
 * thin layer over the rooms below: it checks the caller's arguments, calls one internal function,
 * and returns public types. Begin with defib.h.
 *
 * lib.c       argument checks, results, the log; a session, reading the ledger
 * queue.c     enqueueing
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

/* Every call that can fail begins with it: DEFIB_MEMORY while the memory reserve is used up. */
MUST_CHECK defib_err lib_begin(struct failure *f);
/* The same, and the session is open. */
MUST_CHECK defib_err lib_ready(defib_db *db, struct failure *f);
/* Copy the texts of a failure to `message` (may be NULL); returns err. */
defib_err lib_answer(defib_err err, const struct failure *f, defib_message *message);
/*
 * Convert a public option struct of any version to the one we know: members that an older program
 * does not have are 0. DEFIB_USAGE if it sets members that we do not know.
 */
MUST_CHECK defib_err lib_options(void *to, size_t known, const void *from, const char *what,
                                 struct failure *f);
bool lib_is_json(const char *text);

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

#endif
