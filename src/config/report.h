/* SPDX-License-Identifier: Apache-2.0
 * report.h: what reading options reports besides the values: problems with their places, and what
 * is in effect and where it came from. For the config room alone; the public half is in options.h.
 */
#ifndef CONFIG_REPORT_H
#define CONFIG_REPORT_H

#include "config/options.h"

/* The current path for messages; "the file" at its top. */
const char *report_path(const struct cfg_reader *r);
/* "watches.pages.every expects …, got …". `text`: the scalar as expanded, NULL: as written.
 * Always false, so that a reader can return it. */
bool report_expected(struct cfg_reader *r, const struct cfg_node *node, const char *text,
                     const char *expected);
void report_unknown(struct cfg_reader *r, const struct opt_row *rows, const char *key,
                    struct cfg_mark at);
void report_missing(struct cfg_reader *r, const char *key, struct cfg_mark at);
/* Raise the secrecy to what `name` asks for; returns the one before, to be put back. */
int report_secrecy(struct cfg_reader *r, const char *name);
/* The value at `at` was made with the environment: `origin` as env_expand() gave it. */
void report_expanded(struct cfg_reader *r, struct cfg_mark at, const char *origin);
/* Show a whole value as it was written, the environment's parts filled in. */
void report_written(struct cfg_reader *r, const struct cfg_node *node);
/* Show a default under the current path. */
void report_standard(struct cfg_reader *r, const char *value);

#endif
