/* SPDX-License-Identifier: Apache-2.0
 * copy_test.h: a fresh database with defib's own tables, on either engine: a copy of a model, which
 * is made only once, because making the tables costs more than most tests.
 */
#ifndef WATCH_COPY_TEST_H
#define WATCH_COPY_TEST_H

#include "embedded.h"
#include "store/store_test.h"
#include "watch/lexer.h"

static inline void tables_script(struct store *s, const char *script)
{
	struct buf statement = BUF_INIT;
	struct failure f = {0};
	while (sql_next_statement(&script, s->engine, &statement))
		if (run(s, buf_text(&statement), &f))
			fail_msg("%s", f.what);
	buf_release(&statement);
}

static const char *const tables_scripts[][3] = {
	[STORE_POSTGRES] = {"sql/postgres_ledger.sql", "sql/postgres_daemon.sql",
                        "sql/postgres_queue.sql"},
	[STORE_SQLITE] = {"sql/sqlite_ledger.sql", "sql/sqlite_daemon.sql", "sql/sqlite_queue.sql"},
};

static inline void tables_make(const char *url, enum store_engine engine)
{
	struct store *s = open_with((struct store_options){.url = url, .create = true});
	for (int i = 0; i < 3; i++)
		tables_script(s, embedded_text(tables_scripts[engine][i]));
	store_close(s);
}

/* The first program of a server makes it; others, also of another version, wait or have their own.
 */
static inline void model_database(struct model *model)
{
	uint32_t version = 2166136261u;
	for (int i = 0; i < 3; i++)
		for (const char *c = embedded_text(tables_scripts[STORE_POSTGRES][i]); *c; c++)
			version = (version ^ (unsigned char)*c) * 16777619u;
	snprintf(model->name, sizeof model->name, "model_%08x", version);
	struct store *s = open_plain();
	struct failure f = {0};
	char sql[128];
	defib_err err = DEFIB_LOCKED;
	while (err == DEFIB_LOCKED || err == DEFIB_TIMEOUT) /* a busy machine takes longer to make it */
		err = run(s, "SELECT pg_advisory_lock(20477)", &f);
	assert_int_equal(err, DEFIB_OK);
	snprintf(sql, sizeof sql, "SELECT count(*) FROM pg_database WHERE datname = '%s'", model->name);
	if (number(s, sql) == 0) {
		struct place p = {0};
		place_open(&p, STORE_POSTGRES);
		tables_make(p.url, STORE_POSTGRES);
		snprintf(sql, sizeof sql, " RENAME TO %s", model->name);
		place_admin("ALTER DATABASE", p.name, sql);
	}
	store_close(s);
}

static inline void model_file(struct model *model)
{
	struct place p = {0};
	place_open(&p, STORE_SQLITE);
	tables_make(p.url, STORE_SQLITE);
	FILE *file = fopen(p.url + strlen("sqlite:"), "rb");
	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	model->size = (size_t)ftell(file);
	model->bytes = mem_alloc(model->size);
	rewind(file);
	assert_int_equal(fread(model->bytes, 1, model->size, file), model->size);
	fclose(file);
	place_close(&p);
}

static inline void place_open_with_tables(struct place *p, enum store_engine engine)
{
	static struct model models[2];
	struct model *model = &models[engine];
	if (engine == STORE_POSTGRES && !model->name[0]) {
		need_env("DEFIB_TEST_PG");
		model_database(model);
	}
	if (engine == STORE_SQLITE && !model->bytes)
		model_file(model);
	place_copy(p, engine, model);
}

#endif
