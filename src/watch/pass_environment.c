/* SPDX-License-Identifier: Apache-2.0 */
/* pass_environment.c: see pass_environment.h. */
#include "watch/pass_environment.h"

#include "base/program_env.h"

#include <string.h>

void read_pass_environment(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct text_list *list = target;
	*list = (struct text_list){0};
	if (!node || !cfg_text_items(r, node, list))
		return;
	for (int i = 0; i < list->n; i++) {
		const char *entry = list->items[i], *equals = strchr(entry, '=');
		size_t n = equals ? (size_t)(equals - entry) : strlen(entry);
		if (program_env_entry_ok(entry))
			cfg_show(r, arena_strndup(r->arena, entry, n), node->at, equals ? "***" : "passed on");
		else
			cfg_problem(r, node->at, "\"%.*s\" is not a variable name; write NAME or NAME=value",
			            (int)n, entry);
	}
}

const char *const *pass_environment_both(const struct text_list *a, const struct text_list *b,
                                         struct arena *arena)
{
	const char **all = ARENA_ARRAY(arena, const char *, a->n + b->n + 1);
	for (int i = 0; i < a->n; i++)
		all[i] = a->items[i];
	for (int i = 0; i < b->n; i++)
		all[a->n + i] = b->items[i];
	return all;
}
