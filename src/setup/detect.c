/* SPDX-License-Identifier: Apache-2.0 */
/* detect.c: finds the queues of a database; see propose.h. */

#include "setup/detect.h"

#include "setup/propose.h"

#include "embedded.h"
#include "setup/propose_lines.h"
#include "setup/propose_try.h"
#include "setup/trust.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/check.h"
#include "watch/lexer.h"
#include "watch/options.h"

/* Presets in which every queue has a table of its own: the beginning of its name. */
static const struct {
	const char *preset, *prefix;
} table_per_queue[] = {{"pgmq", "pgmq.q_"}};

const char *preset_name(const struct embedded_file *file, struct arena *a)
{
	static const char folder[] = "presets/", ending[] = ".yaml";
	const char *name = file->name + strlen(folder);
	return text_starts(file->name, folder) ? arena_strndup(a, name, strlen(name) - strlen(ending))
	                                       : NULL;
}

static const char *prefix_of(const char *preset)
{
	for (size_t i = 0; i < sizeof table_per_queue / sizeof *table_per_queue; i++)
		if (text_eq(table_per_queue[i].preset, preset))
			return table_per_queue[i].prefix;
	return NULL;
}

/* ---- known queues ---- */

/* The preset as a watch, on its own table or another; false if it is not valid there. */
static bool preset_watch(const struct detected *d, const char *text, enum store_engine engine,
                         struct arena *a, struct watch *w)
{
	struct cfg_reader reader;
	struct cfg_node *map = NULL;
	struct failure f = {0};
	if (cfg_parse(text, "preset", a, &map, &f))
		return false;
	cfg_put(a, map, "name", cfg_scalar(a, d->name));
	if (d->own_table)
		cfg_put(a, map, "table", cfg_scalar(a, d->table));
	cfg_reader_init(&reader, a);
	watch_read(&reader, map, w);
	if (reader.nerrors == 0)
		watch_check(&reader, w, engine);
	bool good = reader.nerrors == 0;
	cfg_reader_release(&reader);
	return good;
}

/* Whether it fits: its expressions exist, and its look can be prepared. */
static defib_err detect_fits(struct store *s, struct arena *a, const struct watch *w,
                             struct watch_sql *sql, bool *yes, struct failure *f)
{
	struct binding *b = ARENA_NEW(a, struct binding);
	struct store_column *cols;
	int ncols;
	defib_err err = watch_bind(w, s, a, b, f);
	if (!err)
		err = watch_compile(b, a, sql, f);
	if (!err)
		err = store_describe(s, sql->look_first, a, &cols, &ncols, f);
	*yes = err == DEFIB_OK;
	return s->lost ? err : DEFIB_OK;
}

/* A row's state: as the watch defines it, else the first column that `running` names. */
static const char *state_sql(const struct binding *b, struct arena *a)
{
	struct sql_lexer lx;
	struct sql_token t;
	if (b->watch->state.text)
		return b->watch->state.text;
	sql_lexer_init(&lx, b->watch->running.text, b->engine);
	while ((t = sql_next(&lx)).type != SQL_END)
		for (int i = 0; t.type == SQL_WORD && i < b->ncolumns; i++)
			if (strlen(b->columns[i].name) == t.len &&
			    strncasecmp(b->columns[i].name, t.text, t.len) == 0)
				return arena_strndup(a, t.text, t.len);
	return NULL;
}

/* If the states are times or similar, there are too many: then none is reported. */
static void detect_count_states(struct store *s, const struct binding *b, struct arena *a,
                                struct detected *d)
{
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
	struct failure slow = {0};
	const char *state = state_sql(b, a);
	if (!state)
		return;
	buf_addf(&sql,
	         "SELECT CAST(defib_state AS TEXT), count(*) FROM (SELECT (%s) AS defib_state "
	         "FROM ",
	         state);
	sql_table(&sql, b->watch->table);
	buf_addf(&sql, " AS t LIMIT %d) AS defib_some GROUP BY 1 ORDER BY 2 DESC LIMIT 13",
	         TABLE_ROWS_EXACT);
	if (store_exec(s, buf_text(&sql), NULL, 0, a, &rows, &slow) == DEFIB_OK && rows.nrows < 13) {
		d->nstates = rows.nrows;
		d->states = ARENA_ARRAY(a, struct column_value, rows.nrows + 1);
		for (int i = 0; i < rows.nrows; i++)
			d->states[i] = (struct column_value){.value = row_text(&rows, i, 0),
			                                     .rows = row_int(&rows, i, 1, 0)};
	}
}

/* A table whose owner's code would run with our rights. */
static defib_err detect_leave_out(struct detection *out, struct failure *f, struct arena *a)
{
	if (out->nleft_out++ == 0)
		out->left_out = arena_strdup(a, f->what);
	fail_clear(f);
	return DEFIB_OK;
}

static defib_err try_preset(struct store *s, struct arena *a, const char *text, struct detected d,
                            struct detection *out, struct failure *f)
{
	struct watch *w = ARENA_NEW(a, struct watch);
	struct watch_sql *sql = ARENA_NEW(a, struct watch_sql);
	bool yes = false;
	if (!preset_watch(&d, text, s->engine, a, w))
		return DEFIB_OK;
	defib_err err = trust_watch(s, w, false, f);
	if (err == DEFIB_REFUSED)
		return detect_leave_out(out, f, a);
	if (!err)
		err = detect_fits(s, a, w, sql, &yes, f);
	if (err || !yes)
		return err;
	d.table = w->table;
	watch_seen(s, sql, a, &d.seen);
	detect_count_states(s, sql->binding, a, &d);
	out->items[out->n++] = d;
	return DEFIB_OK;
}

static defib_err known_queues(struct store *s, struct arena *a, const struct store_rows *tables,
                              struct detection *out, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (const struct embedded_file *e = embedded_files; e->name && !err; e++) {
		struct detected d = {.preset = preset_name(e, a)};
		if (!d.preset)
			continue;
		d.name = d.preset;
		const char *prefix = prefix_of(d.preset);
		if (text_eq(d.preset, BUILTIN_NAME))
			continue; /* it needs no configuration */
		if (!prefix)
			err = try_preset(s, a, e->text, d, out, f);
		for (int i = 0; prefix && !err && i < tables->nrows; i++) {
			d.table = row_text(tables, i, 0);
			d.own_table = true;
			d.name = d.table + (text_starts(d.table, prefix) ? strlen(prefix) : 0);
			if (text_starts(d.table, prefix))
				err = try_preset(s, a, e->text, d, out, f);
		}
	}
	return err;
}

/* ---- tables that look like queues ---- */

static bool is_known(const struct detection *out, const char *table)
{
	for (int i = 0; i < out->n; i++)
		if (text_eq(out->items[i].table, table))
			return true;
	return false;
}

static bool name_taken(const struct detection *out, const char *name)
{
	for (int i = 0; i < out->n; i++)
		if (text_eq(out->items[i].name, name))
			return true;
	return false;
}

static defib_err try_table(struct store *s, struct arena *a, const char *table,
                           struct detection *out, struct failure *f)
{
	struct table_facts facts;
	struct proposal_seen seen;
	struct failure hard = {0};
	struct detected *d = &out->items[out->n];
	if (trust_table(s, table, false, &hard) || table_facts_read(s, table, a, &facts, &hard)) {
		if (hard.code == DEFIB_REFUSED)
			return detect_leave_out(out, &hard, a);
		*f = hard;
		return s->lost ? f->code : DEFIB_OK;
	}
	propose_seen(s, &facts, a, &d->proposal);
	if (!d->proposal.queue)
		return DEFIB_OK;
	if (proposal_try(s, &d->proposal, a, &seen, &hard)) {
		*f = hard;
		return s->lost ? f->code : DEFIB_OK;
	}
	for (int n = 2; name_taken(out, d->proposal.name); n++)
		d->proposal.name = arena_printf(a, "%s_%d", d->proposal.name, n);
	d->name = d->proposal.name;
	d->table = table;
	d->seen = seen;
	out->n++;
	return DEFIB_OK;
}

static defib_err list_and_know(struct store *s, struct arena *a, struct detection *out,
                               struct store_rows *tables, struct failure *f)
{
	int most = 0;
	*out = (struct detection){0};
	defib_err err = store_exec(s, dialect_of(s->engine)->catalog.tables, NULL, 0, a, tables, f);
	if (err)
		return err;
	while (embedded_files[most].name)
		most++;
	out->ntables = tables->nrows;
	out->items = ARENA_ARRAY(a, struct detected, most + 2 * tables->nrows + 1);
	return known_queues(s, a, tables, out, f);
}

defib_err detect_known(struct store *s, struct arena *a, struct detection *out, struct failure *f)
{
	struct store_rows tables;
	return list_and_know(s, a, out, &tables, f);
}

defib_err detect_queues(struct store *s, struct arena *a, struct detection *out, struct failure *f)
{
	struct store_rows tables;
	defib_err err = list_and_know(s, a, out, &tables, f);
	for (int i = 0; !err && i < tables.nrows; i++)
		if (!is_known(out, row_text(&tables, i, 0)))
			err = try_table(s, a, row_text(&tables, i, 0), out, f);
	return err;
}

/* ---- for people ---- */

void detected_numbers(const struct detected *d, struct buf *out)
{
	const struct proposal_seen *seen = &d->seen;
	if (seen->looked)
		buf_addf(out, "%s%lld running, %s%lld stuck", seen->running_capped ? "at least " : "",
		         (long long)seen->running, seen->stuck_capped ? "at least " : "",
		         (long long)seen->stuck);
	else
		buf_add(out, "not counted within the time limit");
	for (int i = 0; i < d->nstates; i++)
		buf_addf(out, "%s %s %lld", i ? "," : ";", d->states[i].value ? d->states[i].value : "null",
		         (long long)d->states[i].rows);
}

void detected_yaml(const struct detected *d, const char *database, struct buf *out)
{
	AUTO_BUF numbers = BUF_INIT;
	if (!d->preset) {
		proposal_yaml(&d->proposal, database, out);
		return;
	}
	AUTO_ARENA a = ARENA_INIT;
	const char *acts = seen_would_act(&d->seen, &a);
	buf_addf(&numbers, "%s: ", d->table);
	detected_numbers(d, &numbers);
	yaml_comment("  ", buf_text(&numbers), out);
	buf_add(out, "  - name: ");
	yaml_scalar(d->name, out);
	if (database) {
		buf_add(out, "\n    database: ");
		yaml_scalar(database, out);
	}
	buf_addf(out, "\n    preset: %s\n", d->preset);
	if (d->own_table) {
		buf_add(out, "    table: ");
		yaml_scalar(d->table, out);
		buf_add(out, "\n");
	}
	if (acts) {
		yaml_comment("    ", "nothing is changed until you remove the next line", out);
		yaml_comment(
			"    ",
			arena_printf(&a, "CHECK: %s: check them with defib scan, then remove this line", acts),
			out);
		buf_add(out, "    remedies: " REPORT_ONLY "\n");
	}
}

bool detected_only_reports(const struct detected *d)
{
	AUTO_ARENA a = ARENA_INIT;
	return d->preset ? seen_would_act(&d->seen, &a) != NULL : d->proposal.nchecks > 0;
}
