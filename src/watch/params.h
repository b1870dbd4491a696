/* SPDX-License-Identifier: Apache-2.0
 * params.h: the names that a user may write as `:name`, by where he writes it.
 */
#ifndef WATCH_PARAMS_H
#define WATCH_PARAMS_H

#include "watch/watch.h"

enum param_scope {
	PARAMS_NONE,     /* predicates, and statements that read the relation `stuck` */
	PARAMS_RECOVERY, /* SET lists and calls of remedies */
	PARAMS_WORK,     /* SET lists of claiming and settling */
};

/* Column of the relation that carries a recovery parameter, without the key columns. */
extern const char *const recovery_params[];

/* All of them as a table, for the reference. */
void params_reference(struct buf *out);

bool param_known(const struct watch *w, enum param_scope scope, const char *name);
/* The nearest known name, or NULL. */
const char *param_nearest(const struct watch *w, enum param_scope scope, const char *name);

#endif
