/*
 * lib.h: the room of the public face. Each file here is a part of include/defib.h, thin over the
 * rooms below: it checks what a caller hands in, calls one function further in, and answers in
 * public terms. Begin with defib.h.
 *
 * lib.c       checking, answering, the log
 * database.c  a session
 * queue.c     putting jobs in
 * worker.c    handlers and workers; steps.c: their workflows
 */
#ifndef LIB_LIB_H
#define LIB_LIB_H

#include "base/fail.h"
#include "store/session.h"
#include "watch/workflow.h"

struct defib_db {
	struct session session;
	char *url;
};

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

#endif
