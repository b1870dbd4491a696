/* SPDX-License-Identifier: Apache-2.0
 * propose_test.h: the facts of a table in one text, for tests that have many:
 *
 *   id number! | status text =queued,running @queued | seen number ~1731700000000
 *
 * A column is its name, its class with ! (never null) or nothing, then its values after =, its
 * default after @ and its newest value after ~.
 */
#ifndef SETUP_PROPOSE_TEST_H
#define SETUP_PROPOSE_TEST_H

#include "setup/propose.h"

#include "base/text.h"

static inline enum column_class told_class(const char *word)
{
	static const char *const words[] = {"other",   "text",  "number", "bool",
	                                    "instant", "naive", "list"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (text_eq(words[i], word))
			return (enum column_class)i;
	return CLASS_OTHER;
}

/* One part after the class. */
static inline void told_part(struct table_column *c, char *part, struct arena *a)
{
	char *rest = NULL;
	if (*part == '@')
		c->standard = arena_strdup(a, part + 1);
	if (*part == '~')
		c->newest = arena_strdup(a, part + 1);
	if (*part != '=')
		return;
	c->values = ARENA_ARRAY(a, struct column_value, TABLE_VALUES_MAX);
	for (char *v = strtok_r(part + 1, ",", &rest); v; v = strtok_r(NULL, ",", &rest)) {
		char *label = strchr(v, '/');
		if (label)
			*label++ = '\0';
		c->values[c->nvalues++] = (struct column_value){arena_strdup(a, v), label, 7};
	}
}

static inline void told_column(struct table_column *c, char *text, struct arena *a)
{
	char *rest = NULL;
	c->name = arena_strdup(a, strtok_r(text, " ", &rest));
	char *class = strtok_r(NULL, " ", &rest);
	size_t n = strlen(class);
	c->nullable = class[n - 1] != '!';
	if (!c->nullable)
		class[n - 1] = '\0';
	c->class = told_class(class);
	c->type = class;
	for (char *part = strtok_r(NULL, " ", &rest); part; part = strtok_r(NULL, " ", &rest))
		told_part(c, part, a);
}

static inline struct table_facts told_facts(const char *table, const char *key, const char *columns,
                                            struct arena *a)
{
	struct table_facts t = {.table = table, .rows = 70, .key_primary = true};
	char *rest = NULL, *text = arena_strdup(a, columns), *keys = arena_strdup(a, key);
	t.columns = ARENA_ARRAY(a, struct table_column, 32);
	for (char *c = strtok_r(text, "|", &rest); c; c = strtok_r(NULL, "|", &rest))
		told_column(&t.columns[t.ncolumns++], c, a);
	for (char *k = strtok_r(keys, " ", &rest); k; k = strtok_r(NULL, " ", &rest))
		t.keys[t.nkeys++] = k;
	return t;
}

#endif
