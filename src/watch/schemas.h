/* SPDX-License-Identifier: Apache-2.0
 * schemas.h: what a watch means by names without a schema, where other roles can create.
 *
 * Sessions look names up only in schemas in which no other role can create (postgres_connect.c).
 * Otherwise whoever can create in `public` could make an operator there for exactly the types of an
 * expression, and it would run with our rights. Two things follow. A watch may name a table in such
 * a schema: there the name is completed. And it may use a type whose operators are there, as those
 * of an extension: without the schema, citext's = would silently become text's. Such a watch is
 * refused, with the statement that closes the schema.
 */
#ifndef WATCH_SCHEMAS_H
#define WATCH_SCHEMAS_H

#include "store/store.h"
#include "watch/watch.h"

/* The watch itself, or a copy that names its table with the schema. */
MUST_CHECK defib_err watch_home(struct store *s, const struct watch *w, struct arena *a,
                                const struct watch **out, struct failure *f);
/* DEFIB_CONFIG if its SQL needs a schema that is not searched. */
MUST_CHECK defib_err watch_schemas(struct store *s, const struct watch *w, struct arena *a,
                                   struct failure *f);
/* To a failure about a name that was not found: that there is a schema which is not searched. */
void watch_schemas_hint(struct store *s, struct arena *a, struct failure *f);

#endif
