/* SPDX-License-Identifier: Apache-2.0 */
/* builtin.c: see builtin.h. */
#include "watch/builtin.h"

#include "embedded.h"
#include "store/dialect.h"

#include <assert.h>

/* The preset is written for timestamps in a schema; without types for them our times are
 * milliseconds. */
static const char *without_time_types(const char *text, const struct dialect *d, struct arena *a)
{
	struct buf out = BUF_INIT;
	for (const char *at; (at = strstr(text, "defib.")) != NULL; text = at + strlen("defib.")) {
		buf_addn(&out, text, (size_t)(at - text));
		buf_add(&out, d->own);
	}
	buf_addf(&out, "%s\ntime_type: epoch_ms\n", text);
	const char *copy = arena_strdup(a, buf_text(&out));
	buf_release(&out);
	return copy;
}

struct watch *builtin_watch(enum store_engine engine, struct arena *a)
{
	const char *text = embedded_text("presets/queue.yaml");
	struct watch *w = ARENA_NEW(a, struct watch);
	struct cfg_node *map = NULL;
	struct cfg_reader reader;
	struct failure f = {0};
	assert(text != NULL);
	if (!dialect_of(engine)->has_time_types)
		text = without_time_types(text, dialect_of(engine), a);
	cfg_reader_init(&reader, a);
	if (cfg_parse(text, "preset queue", a, &map, &f) == DEFIB_OK) {
		watch_read(&reader, map, w);
		watch_check(&reader, w, engine);
	}
	/* It ships inside the program: a problem in it is a bug that every test would show. */
	assert(map != NULL && reader.nerrors == 0);
	cfg_reader_release(&reader);
	return w;
}
