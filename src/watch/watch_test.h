/* SPDX-License-Identifier: Apache-2.0
 * watch_test.h: what the tests of watches share: a configuration read from a text, and checks on
 * the reported problems.
 */
#ifndef WATCH_WATCH_TEST_H
#define WATCH_WATCH_TEST_H

#include "base/test.h"
#include "watch/settings.h"

#include <string.h>

struct reading {
	struct arena arena;
	struct cfg_reader reader;
	struct settings settings;
};

static inline const char *no_environment(const char *name)
{
	(void)name;
	return NULL;
}

static const struct section *const no_sections[] = {NULL};

/* Reads a whole document; problems stay in the reader. */
static inline void reading_open(struct reading *r, const char *yaml)
{
	struct cfg_node *root = NULL;
	struct failure f = {0};
	*r = (struct reading){.arena = ARENA_INIT};
	cfg_reader_init(&r->reader, &r->arena);
	r->reader.getenv = no_environment;
	if (cfg_parse(yaml, "t.yaml", &r->arena, &root, &f))
		fail_msg("%s", f.what);
	settings_read(&r->reader, root, no_sections, &r->settings);
}

static inline void reading_release(struct reading *r)
{
	cfg_reader_release(&r->reader);
	arena_release(&r->arena);
}

/* A document of one watch, whose keys are written one per line without indent. */
static inline void reading_open_watch(struct reading *r, const char *url, const char *keys)
{
	struct buf yaml = BUF_INIT;
	buf_addf(&yaml, "databases: [{name: main, url: '%s'}]\nwatches:\n  - name: pages\n    ", url);
	for (const char *c = keys; *c; c++) {
		buf_addch(&yaml, *c);
		if (*c == '\n')
			buf_add(&yaml, "    ");
	}
	reading_open(r, buf_text(&yaml));
	buf_release(&yaml);
}

/* Whether a problem contains these words; a warning counts if `warning` is set. */
static inline bool reading_said(const struct reading *r, const char *words, bool warning)
{
	for (int i = 0; i < r->reader.nproblems; i++)
		if (r->reader.problems[i].warning == warning && strstr(r->reader.problems[i].text, words))
			return true;
	return false;
}

static inline void print_problems(const struct reading *r)
{
	for (int i = 0; i < r->reader.nproblems; i++)
		print_error("%d: %s\n", r->reader.problems[i].at.line, r->reader.problems[i].text);
}

static inline void assert_clean(const struct reading *r)
{
	if (r->reader.nerrors)
		print_problems(r);
	assert_int_equal(r->reader.nerrors, 0);
}

static inline const struct watch *only_watch(const struct reading *r)
{
	assert_clean(r);
	assert_int_equal(r->settings.nwatches, 1);
	return &r->settings.watches[0];
}

#define SQLITE_URL "sqlite:jobs.db"
#define POSTGRES_URL "postgres://localhost/jobs"

#endif
