/* SPDX-License-Identifier: Apache-2.0
 * store_test.h: what the tests of a session on a real server share. The server
 * is named by DEFIB_TEST_PG; without it these tests are skipped and say so.
 */
#ifndef STORE_STORE_TEST_H
#define STORE_STORE_TEST_H

#include "base/test.h"
#include "store/store.h"

static inline void need_env(const char *name)
{
	if (!getenv(name)) {
		print_message("%s is not set: no server to test with\n", name);
		skip();
	}
}

/* Opens opt.url, or else the test server. */
static inline struct store *open_with(struct store_options opt)
{
	struct store *s = NULL;
	struct failure f = {0};

	opt.url = opt.url ? opt.url : getenv("DEFIB_TEST_PG");
	opt.name = "pg";
	defib_err err = store_open(&opt, &s, &f);
	if (err) {
		print_error("%s\n", f.what);
	}
	assert_int_equal(err, DEFIB_OK);
	return s;
}

static inline struct store *open_plain(void)
{
	return open_with((struct store_options){.url = NULL});
}

static inline defib_err run(struct store *s, const char *sql, struct failure *f)
{
	return store_exec(s, sql, NULL, 0, NULL, NULL, f);
}

/* The first cell of a query that must succeed. */
static inline int64_t number(struct store *s, const char *sql)
{
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	struct failure f = {0};

	defib_err err = store_exec(s, sql, NULL, 0, &a, &rows, &f);
	if (err) {
		print_error("%s\n", f.what);
	}
	assert_int_equal(err, DEFIB_OK);
	int64_t n = row_int(&rows, 0, 0, -1);
	arena_release(&a);
	return n;
}

#endif
