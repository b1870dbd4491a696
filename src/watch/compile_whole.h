/* SPDX-License-Identifier: Apache-2.0
 * compile_whole.h: look and apply as one statement, for the common case.
 */
#ifndef WATCH_COMPILE_WHOLE_H
#define WATCH_COMPILE_WHOLE_H

#include "watch/compile.h"

/* The relation of a whole statement: that of the write, then the facts. */
void whole_relation(const struct binding *b, const struct write_sql *w, struct relation *r);
/* Fill out->whole where possible; call after all others (compile_whole.c). */
void compile_wholes(const struct binding *b, struct arena *a, struct watch_sql *out);
/* watch_sql.unreadable: rows whose times cannot be read (compile_whole.c). */
const char *compile_unreadable(const struct binding *b, struct arena *a);

#endif
