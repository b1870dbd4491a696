/*
 * embed.h: what the two halves of the public face share: checking what comes
 * in, and answering in public terms.
 */
#ifndef WORKER_EMBED_H
#define WORKER_EMBED_H

#include "base/fail.h"

/* Put the words of a failure into `message` (may be NULL); returns err. */
defib_err embed_answer(defib_err err, const struct failure *f, defib_message *message);
/*
 * A public option struct, whatever its version, as the one that we know: what
 * an older program does not give is 0. DEFIB_USAGE when it asks for more.
 */
MUST_CHECK defib_err embed_options(void *to, size_t known, const void *from, const char *what,
                                   struct failure *f);
bool embed_is_json(const char *text);

#endif
