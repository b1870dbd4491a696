/* SPDX-License-Identifier: Apache-2.0
 * tree.h: a YAML document as a small tree with exact positions.
 *
 * Only tree.c uses libfyaml. Everything lives in the caller's arena; a document that does not parse
 * gives one failure with file, line and column. An empty value, `~` and `null` are CFG_NULL.
 * Aliases share a node, and `<<` adds keys that a map does not have itself.
 */
#ifndef CONFIG_TREE_H
#define CONFIG_TREE_H

#include "base/mem.h"

struct cfg_mark {
	const char *file; /* NULL: not from a file (a default, an option of the command line) */
	int line, col;    /* from 1 */
};

enum cfg_kind { CFG_NULL, CFG_SCALAR, CFG_LIST, CFG_MAP };

struct cfg_node {
	enum cfg_kind kind;
	struct cfg_mark at;
	const char *text; /* scalar */
	bool plain;       /* scalar without quotes and not a block scalar */
	bool cut;         /* plain scalar, and YAML dropped a " #…" after it on its last line */
	int n;            /* list or map */
	struct cfg_node **items; /* list: elements; map: values */
	const char **keys;       /* map */
	struct cfg_mark *key_at; /* map */
};

/* Parse text. `file` is only used for messages and marks. Duplicate keys are an error. */
MUST_CHECK defib_err cfg_parse(const char *text, const char *file, struct arena *a,
                               struct cfg_node **out, struct failure *f);
MUST_CHECK defib_err cfg_load(const char *path, struct arena *a, struct cfg_node **out,
                              struct failure *f);
/* The value of a map's key, or NULL. */
struct cfg_node *cfg_get(const struct cfg_node *map, const char *key);
/*
 * Trees built by code: from the command line, or to merge a preset under a watch. cfg_put()
 * replaces the value of an existing key; the key then has the value's position.
 */
struct cfg_node *cfg_scalar(struct arena *a, const char *text);
struct cfg_node *cfg_map(struct arena *a);
void cfg_put(struct arena *a, struct cfg_node *map, const char *key, struct cfg_node *value);

#endif
