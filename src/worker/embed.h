/*
 * embed.h: what the files of the public face share: checking what comes in,
 * and answering in public terms.
 */
#ifndef WORKER_EMBED_H
#define WORKER_EMBED_H

#include "base/fail.h"
#include "watch/workflow.h"

/* Put the words of a failure into `message` (may be NULL); returns err. */
defib_err embed_answer(defib_err err, const struct failure *f, defib_message *message);
/*
 * A public option struct, whatever its version, as the one that we know: what
 * an older program does not give is 0. DEFIB_USAGE when it asks for more.
 */
MUST_CHECK defib_err embed_options(void *to, size_t known, const void *from, const char *what,
                                   struct failure *f);
bool embed_is_json(const char *text);
/* The workflow of a pool with steps, copied into the arena; *out is NULL where it has none. */
MUST_CHECK defib_err embed_steps(const defib_pool *p, int pool, struct arena *a,
                                 const struct workflow_list **out, struct failure *f);
/* Whether the jobs of each workflow are taken by its own pool only. */
MUST_CHECK defib_err embed_steps_alone(const defib_pool *pools, int n, struct failure *f);

#endif
