/* SPDX-License-Identifier: Apache-2.0
 * store_test.h: what the tests of a session on a real server share. DEFIB_TEST_PG names the server;
 * without it these tests are skipped and say so.
 */
#ifndef STORE_STORE_TEST_H
#define STORE_STORE_TEST_H

#include "store/patient_test.h"

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

/* Opens opt.url, or else the test server, with the deadlines of patient(). */
static inline struct store *open_with(struct store_options opt)
{
	struct store *s = NULL;
	struct failure f = {0};
	opt.url = opt.url ? opt.url : getenv("DEFIB_TEST_PG");
	opt.name = "pg";
	opt = patient(opt);
	defib_err err = store_open(&opt, &s, &f);
	if (err)
		print_error("%s\n", f.what);
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
	if (err)
		print_error("%s\n", f.what);
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

/* One session for all databases: each costs the server a process. It ends with the program. */
static inline struct store *place_session(void)
{
	static struct store *admin;
	admin = admin ? admin : open_plain();
	return admin;
}

/* A statement about a whole database, from outside of it. */
static inline void place_admin(const char *verb, const char *name, const char *tail)
{
	struct failure f = {0};
	char sql[160];
	snprintf(sql, sizeof sql, "%s %s%s", verb, name, tail);
	if (run(place_session(), sql, &f))
		fail_msg("%s", f.what);
}

static inline void place_name(struct place *p, const char *name)
{
	const char *server = getenv("DEFIB_TEST_PG");
	snprintf(p->name, sizeof p->name, "%s", name);
	snprintf(p->url, sizeof p->url, "%.*s/%s", (int)(strrchr(server, '/') - server), server, name);
}

/* Empty, or a copy of a model: on PostgreSQL a database of this name, else `size` bytes of a file.
 */
struct model {
	char name[48];
	void *bytes;
	size_t size;
};

static inline void place_copy(struct place *p, enum store_engine engine, const struct model *model)
{
	static int numbers;
	char text[96];
	if (engine == STORE_SQLITE) {
		snprintf(p->folder, sizeof p->folder, "/tmp/defib-test-XXXXXX");
		assert_non_null(mkdtemp(p->folder));
		snprintf(p->url, sizeof p->url, "sqlite:%s/test.db", p->folder);
		if (model) {
			FILE *file = fopen(p->url + strlen("sqlite:"), "wb");
			assert_non_null(file);
			assert_int_equal(fwrite(model->bytes, 1, model->size, file), model->size);
			assert_int_equal(fclose(file), 0);
		}
		return;
	}
	need_env("DEFIB_TEST_PG");
	snprintf(text, sizeof text, "test_%d_%d", (int)getpid(), ++numbers);
	place_name(p, text);
	/* FILE_COPY: cheaper than a copy through the log, the default since PostgreSQL 15. */
	snprintf(text, sizeof text, " TEMPLATE %s%s", model ? model->name : "template1",
	         place_session()->server_version >= 150000 ? " STRATEGY = FILE_COPY" : "");
	place_admin("CREATE DATABASE", p->name, text);
}

static inline void place_open(struct place *p, enum store_engine engine)
{
	place_copy(p, engine, NULL);
}

static inline void place_close(const struct place *p)
{
	static const char *const files[] = {"", "-wal", "-shm", ".defib-wake"};
	if (p->name[0])
		place_admin("DROP DATABASE", p->name, " WITH (FORCE)");
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
