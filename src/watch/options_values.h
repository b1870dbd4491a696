/* SPDX-License-Identifier: Apache-2.0
 * options_values.h: parts of the option table of a watch (options.c).
 */
#ifndef WATCH_OPTIONS_VALUES_H
#define WATCH_OPTIONS_VALUES_H

#include "watch/watch.h"

void read_threshold(struct cfg_reader *r, const struct cfg_node *node, void *target);
/* The same, or the word off. */
void read_optional_threshold(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_action(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_set(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_statements(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_retry(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_rules(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_states(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_startup(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_crash_budget(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_guard(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_raise(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_work(struct cfg_reader *r, const struct cfg_node *node, void *target);
void read_backoff(struct cfg_reader *r, const struct cfg_node *node, void *target);

/* Tables of nested maps. */
extern const struct opt_row startup_rows[], crash_rows[], guard_rows[], work_rows[], backoff_rows[];
extern const struct opt_row raise_rows[], rule_rows[];

/* "mon" to "sun", NULL. */
extern const char *const day_names[];
/* "18:30", up to "24:00", as the time since midnight. */
bool daytime_parse(const char *text, int64_t *us);

#define PASS_ENVIRONMENT_HELP                                                                      \
	"variables passed to the program besides PATH, HOME and the like: a list of NAME or "          \
	"NAME=value"

/* A custom reader; the target is a struct text_list. Values are not shown. */
void read_pass_environment(struct cfg_reader *r, const struct cfg_node *node, void *target);
/* All entries of both, the second's last; ends with NULL. */
const char *const *pass_environment_both(const struct text_list *a, const struct text_list *b,
                                         struct arena *arena);

#endif
