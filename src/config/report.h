/* SPDX-License-Identifier: Apache-2.0
 * report.h: what reading options produces besides the values: problems with their positions, and
 * effective values with their origins. Private to the config room; the public half is in options.h.
 */
#ifndef CONFIG_REPORT_H
#define CONFIG_REPORT_H

#include "config/options.h"

/* The current path for messages; "the file" at the top level. */
const char *report_path(const struct cfg_reader *r);
/*
 * "watches.pages.every expects …, got …". `text`: the scalar as expanded; NULL: as written. Always
 * returns false, so that a reader can return it.
 */
bool report_expected(struct cfg_reader *r, const struct cfg_node *node, const char *text,
                     const char *expected);
void report_unknown(struct cfg_reader *r, const struct opt_row *rows, const char *key,
                    struct cfg_mark at);
void report_missing(struct cfg_reader *r, const char *key, struct cfg_mark at);
/* Raise the secrecy to what `name` requires; returns the previous value, to restore it. */
int report_secrecy(struct cfg_reader *r, const char *name);
/* The value at `at` contains environment variables: `origin` as env_expand() returned it. */
void report_expanded(struct cfg_reader *r, struct cfg_mark at, const char *origin);
/* Show a whole value as written, with environment variables expanded. */
void report_written(struct cfg_reader *r, const struct cfg_node *node);
/* Show a default under the current path. */
void report_standard(struct cfg_reader *r, const char *value);

#endif
