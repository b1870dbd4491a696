/* SPDX-License-Identifier: Apache-2.0
 * queue_test.h: a fresh database with defib's own tables, on either engine,
 * for tests of rooms that stand left of what installs them. PostgreSQL is
 * named by DEFIB_TEST_PG; SQLite is a file of its own.
 */
#ifndef WATCH_QUEUE_TEST_H
#define WATCH_QUEUE_TEST_H

#include "embedded.h"
#include "store/store_test.h"
#include "watch/lexer.h"

#include <unistd.h>

struct tables {
	enum store_engine engine;
	char url[512], name[48], folder[64];
	struct store *store; /* NULL: there is no server to test with */
};

static inline void tables_script(struct store *s, const char *script)
{
	struct buf statement = BUF_INIT;
	struct failure f = {0};
	while (sql_next_statement(&script, s->engine, &statement))
		if (run(s, buf_text(&statement), &f))
			fail_msg("%s", f.what);
	buf_release(&statement);
}

/* A database-wide statement, from outside of it. */
static inline void tables_admin(const struct tables *t, const char *verb, const char *tail)
{
	struct store *s = open_plain();
	char sql[128];
	snprintf(sql, sizeof sql, "%s %s%s", verb, t->name, tail);
	tables_script(s, sql);
	store_close(s);
}

static inline void tables_place(struct tables *t)
{
	static int numbers;
	const char *server = getenv("DEFIB_TEST_PG");
	if (t->engine == STORE_SQLITE) {
		snprintf(t->folder, sizeof t->folder, "/tmp/defib-tables-XXXXXX");
		assert_non_null(mkdtemp(t->folder));
		snprintf(t->url, sizeof t->url, "sqlite:%s/test.db", t->folder);
		return;
	}
	assert_non_null(server);
	snprintf(t->name, sizeof t->name, "tables_%d_%d", (int)getpid(), ++numbers);
	tables_admin(t, "CREATE DATABASE", "");
	snprintf(t->url, sizeof t->url, "%.*s/%s", (int)(strrchr(server, '/') - server), server,
	         t->name);
}

static inline struct store *tables_session(const struct tables *t)
{
	return open_with((struct store_options){.url = t->url, .create = true, .lock_ms = 5000});
}

static inline int tables_setup(void **state, enum store_engine engine)
{
	static const char *const scripts[][3] = {
		[STORE_POSTGRES] = {"sql/postgres_ledger.sql", "sql/postgres_daemon.sql",
	                        "sql/postgres_queue.sql"},
		[STORE_SQLITE] = {"sql/sqlite_ledger.sql", "sql/sqlite_daemon.sql", "sql/sqlite_queue.sql"},
	};
	struct tables *t = mem_alloc(sizeof *t);
	t->engine = engine;
	*state = t;
	if (engine == STORE_POSTGRES && !getenv("DEFIB_TEST_PG"))
		return 0;
	tables_place(t);
	t->store = tables_session(t);
	for (int i = 0; i < 3; i++)
		tables_script(t->store, embedded_text(scripts[engine][i]));
	return 0;
}

static inline struct tables *tables_of(void **state)
{
	struct tables *t = *state;
	if (!t->store)
		need_env("DEFIB_TEST_PG");
	return t;
}

static inline int setup_postgres(void **state)
{
	return tables_setup(state, STORE_POSTGRES);
}

static inline int setup_sqlite(void **state)
{
	return tables_setup(state, STORE_SQLITE);
}

static inline int teardown(void **state)
{
	static const char *const files[] = {"", "-wal", "-shm"};
	struct tables *t = *state;
	store_close(t->store);
	if (t->name[0])
		tables_admin(t, "DROP DATABASE", " WITH (FORCE)");
	for (size_t i = 0; t->folder[0] && i < sizeof files / sizeof *files; i++) {
		char path[96];
		snprintf(path, sizeof path, "%s/test.db%s", t->folder, files[i]);
		unlink(path);
	}
	if (t->folder[0])
		rmdir(t->folder);
	free(t);
	return 0;
}

#define ON_POSTGRES(f)                                                                             \
	{                                                                                              \
#f "_postgres", f, setup_postgres, teardown, NULL                                          \
	}
#define ON_SQLITE(f)                                                                               \
	{                                                                                              \
#f "_sqlite", f, setup_sqlite, teardown, NULL                                              \
	}

#endif
