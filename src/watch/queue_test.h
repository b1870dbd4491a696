/* SPDX-License-Identifier: Apache-2.0
 * queue_test.h: a fresh database with defib's own tables, on either engine, for tests of rooms
 * below the one that installs them. DEFIB_TEST_PG names PostgreSQL; SQLite is a file of its own.
 */
#ifndef WATCH_QUEUE_TEST_H
#define WATCH_QUEUE_TEST_H

#include "watch/copy_test.h"

struct tables {
	enum store_engine engine;
	struct place place;
	struct store *store; /* NULL: there is no server to test with */
};

static inline struct store *tables_session(const struct tables *t)
{
	return open_with((struct store_options){.url = t->place.url, .create = true});
}

static inline int tables_setup(void **state, enum store_engine engine)
{
	struct tables *t = mem_alloc(sizeof *t);
	t->engine = engine;
	*state = t;
	if (!place_possible(engine))
		return 0;
	place_open_with_tables(&t->place, engine);
	t->store = tables_session(t);
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
