/* SPDX-License-Identifier: Apache-2.0
 * queue_test.h: a fresh database with defib's own tables, on either engine, for tests of rooms
 * below the one that installs them. DEFIB_TEST_PG names PostgreSQL; SQLite is a file of its own.
 */
#ifndef WATCH_QUEUE_TEST_H
#define WATCH_QUEUE_TEST_H

#include "embedded.h"
#include "store/store_test.h"
#include "watch/lexer.h"

struct tables {
	enum store_engine engine;
	struct place place;
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

static inline struct store *tables_session(const struct tables *t)
{
	return open_with((struct store_options){.url = t->place.url, .create = true, .lock_ms = 5000});
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
	if (!place_possible(engine))
		return 0;
	place_open(&t->place, engine);
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
	struct tables *t = *state;
	if (t->store) {
		store_close(t->store);
		place_close(&t->place);
	}
	free(t);
	return 0;
}

#endif
