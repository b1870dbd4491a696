/* SPDX-License-Identifier: Apache-2.0
 * metrics_docs.h: metrics by name, and their table for the docs.
 */
#ifndef DAEMON_METRICS_DOCS_H
#define DAEMON_METRICS_DOCS_H

#include "daemon/metrics.h"

/* The metric with this name; -1: none. */
int metric_named(const char *name);
/* What is wrong with a name as a second one, after "…"; NULL: nothing. */
const char *metric_alias_problem(const struct metric_aliases *before, enum metric id,
                                 const char *name);

/* The table as Markdown: docs/metrics.md. */
void metrics_docs(struct buf *out);

#endif
