/* SPDX-License-Identifier: Apache-2.0
 * store_test.h: what the tests of a session on a real server share. DEFIB_TEST_PG names the server;
 * without it these tests are skipped and say so.
 */
#ifndef STORE_STORE_TEST_H
#define STORE_STORE_TEST_H

#include "base/test.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- a database of a test's own ---- */

/* On the server that DEFIB_TEST_PG names, or a file. */
struct place {
	char url[512], name[48], folder[64];
};

/* A statement about the whole database, from outside of it. */
static inline void place_admin(const struct place *p, const char *verb, const char *tail)
{
	struct store *s = open_plain();
	struct failure f = {0};
	char sql[128];
	snprintf(sql, sizeof sql, "%s %s%s", verb, p->name, tail);
	if (run(s, sql, &f))
		fail_msg("%s", f.what);
	store_close(s);
}

static inline void place_open(struct place *p, enum store_engine engine)
{
	static int numbers;
	const char *server = getenv("DEFIB_TEST_PG");
	if (engine == STORE_SQLITE) {
		snprintf(p->folder, sizeof p->folder, "/tmp/defib-test-XXXXXX");
		assert_non_null(mkdtemp(p->folder));
		snprintf(p->url, sizeof p->url, "sqlite:%s/test.db", p->folder);
		return;
	}
	need_env("DEFIB_TEST_PG");
	snprintf(p->name, sizeof p->name, "test_%d_%d", (int)getpid(), ++numbers);
	/* Cheaper than a copy through the log, which is the default. */
	place_admin(p, "CREATE DATABASE", " STRATEGY = FILE_COPY");
	snprintf(p->url, sizeof p->url, "%.*s/%s", (int)(strrchr(server, '/') - server), server,
	         p->name);
}

static inline void place_close(const struct place *p)
{
	static const char *const files[] = {"", "-wal", "-shm", ".defib-wake"};
	if (p->name[0])
		place_admin(p, "DROP DATABASE", " WITH (FORCE)");
	for (size_t i = 0; p->folder[0] && i < sizeof files / sizeof *files; i++) {
		char path[96];
		snprintf(path, sizeof path, "%s/test.db%s", p->folder, files[i]);
		unlink(path);
	}
	if (p->folder[0])
		rmdir(p->folder);
}

/* Without a server, tests on it are skipped. */
static inline bool place_possible(enum store_engine engine)
{
	return engine == STORE_SQLITE || getenv("DEFIB_TEST_PG");
}

/* A test on both engines; setup_postgres, setup_sqlite and teardown are its file's. */
#define ON_POSTGRES(f)                                                                             \
	{                                                                                              \
#f "_postgres", f, setup_postgres, teardown, NULL                                          \
	}
#define ON_SQLITE(f)                                                                               \
	{                                                                                              \
#f "_sqlite", f, setup_sqlite, teardown, NULL                                              \
	}
#define BOTH(f) ON_POSTGRES(f), ON_SQLITE(f)

#endif
