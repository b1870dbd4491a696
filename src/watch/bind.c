/* SPDX-License-Identifier: Apache-2.0
 * bind.c: see bind.h.
 *
 * All expressions are described in one statement. Only if that fails are they tried one by one, so
 * that the message can name the option.
 */
#include "watch/bind.h"

#include "store/dialect.h"
#include "store/relation.h"
#include "store/sql.h"
#include "watch/facts.h"
#include "watch/lease_sql.h"
#include "watch/lexer.h"
#include "watch/limit_sql.h"
#include "watch/list_sql.h"
#include "watch/options.h"
#include "watch/schemas.h"
#include "watch/timesql.h"

#include <ctype.h>

/* One user expression of a watch. */
struct expression {
	const char *option;
	const struct sql_text *sql;
};

#define OWN_STUCK "stuck_after.sql"
#define OWN_OVERDUE "overdue_after.sql"
#define OWN_STALLED "stalled_after.sql"

#define EXPRESSIONS_MAX (24 + WATCH_RULES_MAX)
static int bind_collect(const struct watch *w, struct expression *out)
{
	int n = 0;
	const struct sql_text *state = watch_uses_state(w) ? &w->state : &(struct sql_text){0};
	const struct expression all[] = {
#define X(id, name, option, ...) {#option, &w->option},
		SIGN_LIST(X)
#undef X
			{"lost_at", &w->lost_at},
		{"due_at", &w->due_at},
		{"last_run_at", &w->last_run_at},
		{"running", &w->running},
		{"waiting", &w->waiting},
		{"kind", &w->kind},
		{"owner", &w->owner},
		{"owner_alive", &w->owner_alive},
		{"attempts", &w->attempts},
		{"max_attempts", &w->max_attempts},
		{"epoch", &w->epoch},
		{"late_when", &w->late_when},
		{"end_when", &w->end_when},
		{"cancel_when", &w->cancel_when},
		{"steps_done", &w->steps_done},
		{OWN_STUCK, &w->stuck_after.own},
		{OWN_OVERDUE, &w->overdue_after.own},
		{OWN_STALLED, &w->stalled_after.own},
		{"progress", &w->progress},
		{"state", state},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i].sql->text)
			out[n++] = all[i];
	for (int i = 0; i < w->nrules; i++)
		if (w->rules[i].when.text)
			out[n++] = (struct expression){"remedies.when", &w->rules[i].when};
	return n;
}

static void select_all(const struct watch *w, const struct expression *e, int n, struct buf *sql)
{
	buf_add(sql, "SELECT ");
	for (int i = 0; i < n; i++)
		buf_addf(sql, "%s(%s)", i ? ", " : "", e[i].sql->text);
	buf_add(sql, " FROM ");
	sql_table(sql, w->table);
	buf_add(sql, " AS t");
}

/* A database error about the user's SQL is a failure of the configuration. */
static defib_err name_option(struct failure *f, const struct watch *w, const char *option,
                             struct cfg_mark at)
{
	AUTO_BUF place = BUF_INIT;
	if (store_blames_sql(f->code))
		f->code = DEFIB_CONFIG;
	cfg_mark_text(at, &place);
	fail_prefix(f, "watch %s, %s (%s)", w->name, option, buf_text(&place));
	return f->code;
}

/* The name with its schema, if the word is the rest of it; NULL: it is not. */
static const char *in_a_schema(const char *const *names, const char *word)
{
	for (; *names; names++) {
		const char *dot = strchr(*names, '.');
		if (dot && text_eq(dot + 1, word))
			return *names;
	}
	return NULL;
}

/* Suggest names for a mistyped one, from a query with one text column. */
static void hint_nearest(struct store *s, struct arena *a, const char *sql, const char *word,
                         struct failure *f)
{
	struct store_rows rows;
	struct failure ignored = {0};
	if (store_exec(s, sql, NULL, 0, a, &rows, &ignored) || rows.nrows == 0)
		return;
	const char **names = ARENA_ARRAY(a, const char *, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		names[i] = row_text(&rows, i, 0);
	const char *whole = in_a_schema(names, word);
	if (whole)
		fail_next(f, "the search path of the role does not have its schema: write %s", whole);
	else
		(void)fail_nearest(f, word, names);
}

static defib_err bind_table(struct store *s, struct arena *a, struct binding *b, struct failure *f)
{
	const struct watch *w = b->watch;
	AUTO_BUF sql = BUF_INIT;
	buf_add(&sql, "SELECT * FROM ");
	sql_table(&sql, w->table);
	buf_add(&sql, " AS t");
	defib_err err = store_describe(s, buf_text(&sql), a, &b->columns, &b->ncolumns, f);
	if (err == DEFIB_BAD_SQL) {
		fail(f, DEFIB_CONFIG, "watch %s: there is no table \"%s\" in database %s", w->name,
		     w->table, s->name);
		fail_next(f, "check table: and the search path");
		hint_nearest(s, a, store_dialect(s)->ask.tables, w->table, f);
		return DEFIB_CONFIG;
	}
	if (err)
		fail_prefix(f, "watch %s", w->name);
	return err;
}

static defib_err bind_keys(struct arena *a, struct binding *b, struct failure *f)
{
	const struct watch *w = b->watch;
	const char **names = ARENA_ARRAY(a, const char *, b->ncolumns + 1);
	for (int i = 0; i < b->ncolumns; i++)
		names[i] = b->columns[i].name;
	for (int k = 0; k < w->key.n; k++) {
		int at = word_index(names, w->key.items[k]);
		if (at < 0) {
			fail(f, DEFIB_CONFIG, "watch %s: table %s has no column \"%s\" for key", w->name,
			     w->table, w->key.items[k]);
			(void)fail_nearest(f, w->key.items[k], names);
			return DEFIB_CONFIG;
		}
		b->key_type[k] = b->columns[at].type;
	}
	for (int i = 0; i < w->show.n; i++)
		if (word_index(names, w->show.items[i]) < 0)
			return fail(f, DEFIB_CONFIG, "watch %s: table %s has no column \"%s\" for show",
			            w->name, w->table, w->show.items[i]);
	return DEFIB_OK;
}

/* How a PostgreSQL type holds time; types that are not listed hold none. */
static const struct {
	const char *base;
	enum time_type time;
} type_times[] = {
	{"timestamptz", TIME_TYPE_TIMESTAMPTZ},
	{"timestamp", TIME_TYPE_UTC},
	{"date", TIME_TYPE_UTC},
	{"text", TIME_TYPE_TEXT},
	{"varchar", TIME_TYPE_TEXT},
	{"bpchar", TIME_TYPE_TEXT},
	{"int4", TIME_TYPE_EPOCH},
	/* Wide integers may be seconds or milliseconds: one value of the table decides. */
	{"int8", TIME_TYPE_AUTO},
	{"numeric", TIME_TYPE_AUTO},
	{"float8", TIME_TYPE_AUTO},
};

/*
 * Whether values of a type can be times in this form. Of a type that is not listed, the database
 * knows.
 */
static bool can_hold(const char *base, enum time_type form)
{
	for (size_t i = 0; i < sizeof type_times / sizeof *type_times; i++) {
		enum time_type time = type_times[i].time;
		bool clock = time == TIME_TYPE_TIMESTAMPTZ || time == TIME_TYPE_UTC;
		if (!text_eq(type_times[i].base, base))
			continue;
		if (form == TIME_TYPE_TIMESTAMPTZ || form == TIME_TYPE_UTC)
			return clock;
		return (form == TIME_TYPE_TEXT) == (time == TIME_TYPE_TEXT) && !clock;
	}
	return true;
}

static const struct sql_text *time_expression(const struct watch *w, int time)
{
	switch (time) {
	case TIME_LOST:
		return &w->lost_at;
	case TIME_DUE:
		return &w->due_at;
	case TIME_LAST_RUN:
		return &w->last_run_at;
	default:
		return watch_sign(w, (enum sign)time);
	}
}

/*
 * One value of a time, or NULL if the table has none. Running rows are asked first: an index finds
 * them, and in a large table they may be the only ones that have a sign of life.
 */
static defib_err sample(struct store *s, struct arena *a, const struct binding *b, int of,
                        const char **value, struct failure *f)
{
	const char *expr = time_expression(b->watch, of)->text;
	defib_err err = DEFIB_OK;
	*value = NULL;
	for (int any = 0; any < 2 && !err && !*value; any++) {
		AUTO_BUF sql = BUF_INIT;
		struct store_rows rows;
		buf_addf(&sql, "SELECT (%s) FROM ", expr);
		sql_table(&sql, b->watch->table);
		buf_addf(&sql, " AS t WHERE (%s) IS NOT NULL", expr);
		if (!any)
			buf_addf(&sql, " AND (%s)", b->watch->running.text);
		buf_add(&sql, " LIMIT 1");
		err = store_exec(s, buf_text(&sql), NULL, 0, a, &rows, f);
		*value = row_text(&rows, 0, 0);
	}
	return err;
}

/* Milliseconds since 1970 passed this number in 1973; seconds will in the year 5138. */
#define FIRST_EPOCH_MS 100000000000.0

static enum time_type time_of_value(const char *value, enum store_engine engine)
{
	char *end = NULL;
	double number = value ? strtod(value, &end) : 0;
	if (value && *end == '\0')
		return number >= FIRST_EPOCH_MS ? TIME_TYPE_EPOCH_MS : TIME_TYPE_EPOCH;
	/* An empty table has no stuck jobs: any type will do. */
	return dialect_of(engine)->has_time_types ? TIME_TYPE_EPOCH : TIME_TYPE_TEXT;
}

static const char *const time_options[TIME_COUNT] = {
#define X(id, name, option, ...) #option,
	SIGN_LIST(X)
#undef X
		"lost_at",
	"due_at",
	"last_run_at",
};

static defib_err bind_time(struct store *s, struct arena *a, struct binding *b, int sign,
                           const char *base, struct failure *f)
{
	const struct watch *w = b->watch;
	bool typed = store_dialect(s)->has_time_types;
	enum time_type time = (enum time_type)w->time_type;
	bool known = !typed || (time != TIME_TYPE_AUTO && can_hold(base, time));
	const char *value = NULL;
	for (size_t i = 0; !known && i < sizeof type_times / sizeof *type_times; i++)
		if (text_eq(type_times[i].base, base)) {
			time = type_times[i].time;
			known = true;
		}
	if (!known) {
		fail(f, DEFIB_CONFIG, "type %s is not a time", b->sign_type[sign]);
		fail_next(f, "give a time column, or say time_type:");
		return name_option(f, w, time_options[sign], time_expression(w, sign)->at);
	}
	if (time == TIME_TYPE_AUTO || time == TIME_TYPE_TEXT) {
		defib_err err = sample(s, a, b, sign, &value, f);
		if (err)
			return name_option(f, w, time_options[sign], time_expression(w, sign)->at);
		if (time == TIME_TYPE_AUTO)
			time = time_of_value(value, s->engine);
		if (value && strlen(value) > 10 && value[10] == 'T')
			b->iso_t = true;
	}
	b->sign_time[sign] = time;
	return DEFIB_OK;
}

/*
 * time_type and time_zone are those of the columns whose type leaves it open. If there is none,
 * they are a mistake.
 */
static defib_err check_forms(const struct binding *b, const char *const base[TIME_COUNT],
                             struct failure *f)
{
	const struct watch *w = b->watch;
	enum time_type form = (enum time_type)w->time_type;
	bool typed = dialect_of(b->engine)->has_time_types;
	bool fits = !typed || form == TIME_TYPE_AUTO, zoned = !b->zone;
	int last = -1;
	for (int time = 0; time < TIME_COUNT; time++) {
		if (!b->sign_type[time])
			continue;
		last = time;
		fits = fits || can_hold(base[time], form);
		zoned = zoned || b->sign_time[time] == TIME_TYPE_UTC ||
		        b->sign_time[time] == TIME_TYPE_TIMESTAMPTZ;
	}
	if (last < 0 || (fits && zoned))
		return DEFIB_OK;
	if (!fits) {
		fail(f, DEFIB_CONFIG, "time_type: %s does not fit type %s", time_type_names[form],
		     b->sign_type[last]);
		fail_next(f, "leave time_type out");
	} else {
		fail(f, DEFIB_CONFIG, "time_zone is for timestamps without a zone, and this is %s",
		     time_type_names[b->sign_time[last]]);
		fail_next(f, "leave time_zone out, or give a timestamp column");
	}
	return name_option(f, w, time_options[last], time_expression(w, last)->at);
}

bool column_time(const struct binding *b, const char *column, enum time_type *time)
{
	for (int i = 0; i < b->ncolumns; i++) {
		const char *base = b->columns[i].base;
		if (strcasecmp(b->columns[i].name, column) != 0)
			continue;
		if (b->column_times && b->column_times[i] != TIME_TYPE_AUTO) {
			*time = b->column_times[i];
			return true;
		}
		if (!dialect_of(b->engine)->has_time_types)
			return false;
		bool zoned = text_eq(base, "timestamptz");
		if (!zoned && !text_eq(base, "timestamp") && !text_eq(base, "date"))
			return false;
		*time = zoned ? TIME_TYPE_TIMESTAMPTZ : TIME_TYPE_UTC;
		return true;
	}
	return false;
}

/* ---- columns of numbers that a SET list writes a time to ---- */

struct written {
	struct store *store;
	struct arena *arena;
	struct binding *binding;
	struct failure *failure;
	defib_err err;
};

static bool holds_numbers(const struct store_column *c, enum store_engine engine)
{
	if (!dialect_of(engine)->has_time_types)
		return strstr(c->base, "INT") != NULL;
	return can_hold(c->base, TIME_TYPE_EPOCH) && !can_hold(c->base, TIME_TYPE_TEXT);
}

/* A sign of life shows its own unit; so does any value of another column. */
static void bind_written(struct written *w, int column)
{
	struct binding *b = w->binding;
	const struct store_column *c = &b->columns[column];
	AUTO_BUF name = BUF_INIT, sql = BUF_INIT;
	struct store_rows rows;
	for (int sign = 0; sign < SIGN_COUNT; sign++) {
		const char *expr = b->sign_type[sign] ? watch_sign(b->watch, (enum sign)sign)->text : NULL;
		if (expr && strcasecmp(expr, c->name) == 0) {
			b->column_times[column] = b->sign_time[sign];
			return;
		}
	}
	sql_ident(&name, c->name);
	buf_addf(&sql, "SELECT t.%s FROM ", buf_text(&name));
	sql_table(&sql, b->watch->table);
	buf_addf(&sql, " AS t WHERE t.%s IS NOT NULL LIMIT 1", buf_text(&name));
	w->err = store_exec(w->store, buf_text(&sql), NULL, 0, w->arena, &rows, w->failure);
	if (w->err == DEFIB_PERMISSION) /* a role may write a column that it cannot read */
		w->err = DEFIB_OK;
	enum time_type unit = time_of_value(row_text(&rows, 0, 0), b->engine);
	bool wide = strcmp(c->base, "int4") != 0;
	b->column_times[column] = wide && unit == TIME_TYPE_EPOCH_MS ? unit : TIME_TYPE_EPOCH;
}

/* Each column of numbers that is assigned :now, :retry_at or :alive_at and nothing else. */
static void bind_assigned(void *ctx, const char *option, const struct sql_text *sql, bool set)
{
	struct written *w = ctx;
	struct binding *b = w->binding;
	const char *at = sql->text, *column, *text;
	(void)option;
	while (set && at && !w->err && sql_next_assignment(&at, b->engine, w->arena, &column, &text)) {
		bool time =
			column && sql_assigns_parameter(text) &&
			(strstr(text, ":now") || strstr(text, ":retry_at") || strstr(text, ":alive_at"));
		for (int i = 0; time && i < b->ncolumns; i++)
			if (strcasecmp(b->columns[i].name, column) == 0 && !w->err &&
			    b->column_times[i] == TIME_TYPE_AUTO && holds_numbers(&b->columns[i], b->engine))
				bind_written(w, i);
	}
}

static defib_err bind_column_times(struct store *s, struct arena *a, struct binding *b,
                                   struct failure *f)
{
	struct written w = {.store = s, .arena = a, .binding = b, .failure = f};
	b->column_times = ARENA_ARRAY(a, enum time_type, b->ncolumns + 1);
	for (int i = 0; i < b->ncolumns; i++)
		b->column_times[i] = TIME_TYPE_AUTO;
	for (int act = 0; act < ACT_COUNT; act++)
		if (b->watch->actions[act].form == ACTION_SET)
			bind_assigned(&w, NULL, &b->watch->actions[act].set, true);
	watch_each_sql(b->watch, bind_assigned, &w);
	return w.err;
}

/* The database must know the zone. */
static defib_err bind_zone(struct store *s, struct arena *a, struct binding *b, struct failure *f)
{
	const struct watch *w = b->watch;
	AUTO_BUF sql = BUF_INIT;
	if (!w->time_zone)
		return DEFIB_OK;
	if (!store_dialect(s)->has_time_zones) {
		fail(f, DEFIB_CONFIG, "watch %s: time_zone is for PostgreSQL: %s has no time zones",
		     w->name, store_dialect(s)->title);
		fail_next(f, "write UTC into the table, or numbers (time_type: epoch)");
		return DEFIB_CONFIG;
	}
	sql_literal(&sql, w->time_zone);
	b->zone = arena_strdup(a, buf_text(&sql));
	buf_clear(&sql);
	buf_addf(&sql, "SELECT statement_timestamp() AT TIME ZONE %s", b->zone);
	struct store_rows rows;
	defib_err err = store_exec(s, buf_text(&sql), NULL, 0, a, &rows, f);
	if (err && f->code != DEFIB_CONNECTION && f->code != DEFIB_UNKNOWN_OUTCOME) {
		fail(f, DEFIB_CONFIG, "watch %s: the database has no time zone \"%s\"", w->name,
		     w->time_zone);
		fail_next(f, "pg_timezone_names lists them: Area/City, such as America/New_York");
		err = DEFIB_CONFIG;
	}
	return err;
}

/* Seconds as a number: of an interval, or a number as it is. NULL: the type is neither. */
static const char *in_seconds(const struct binding *b, const char *sql, const char *base,
                              struct arena *a)
{
	static const char *const numbers[] = {"int2",   "int4",   "int8", "numeric",
	                                      "float4", "float8", NULL};
	if (!dialect_of(b->engine)->has_types || word_index(numbers, base) >= 0)
		return arena_printf(a, "(%s)", sql);
	return text_eq(base, "interval") ? arena_printf(a, "extract(epoch FROM (%s))", sql) : NULL;
}

/* The row's own time-out, for each sign that it limits. */
static defib_err bind_own_limit(struct arena *a, struct binding *b, const struct expression *e,
                                const struct store_column *type, struct failure *f)
{
	const struct watch *w = b->watch;
	const char *seconds = in_seconds(b, e->sql->text, type->base, a);
	if (!seconds) {
		fail(f, DEFIB_CONFIG, "type %s is not a length of time", type->type);
		fail_next(f, "give an interval, or a number of seconds");
		return name_option(f, w, e->option, e->sql->at);
	}
	for (int s = 0; s < SIGN_COUNT; s++) {
		const struct threshold *t = watch_limit(w, (enum sign)s);
		if (&t->own != e->sql || sign_kinds[s].states == SIGN_STATES_ALONE ||
		    !watch_measures(w, (enum sign)s))
			continue;
		struct buf sql = BUF_INIT;
		/* Two beats: one may be late. */
		sql_own_limit(&(struct own_limit){seconds, t->own_factor,
		                                  s == SIGN_ALIVE ? 2 * w->beat_us : 0,
		                                  dialect_of(b->engine)->has_types},
		              &sql);
		b->own[s] = buf_to_arena(&sql, a);
	}
	return DEFIB_OK;
}

/* As look_seen_value() in recover/look.c, so that a long value does not leave the database. */
static void bind_progress(struct arena *a, struct binding *b)
{
	const struct dialect *d = dialect_of(b->engine);
	AUTO_BUF text = BUF_INIT;
	struct buf out = BUF_INIT;
	if (!watch_remembers(b->watch, SIGN_PROGRESS))
		return;
	dialect_cast(d, &text, b->watch->progress.text, "text");
	if (d->has_hash)
		buf_addf(&out,
		         "CASE WHEN octet_length(%s) <= %d THEN %s ELSE '" SEEN_HASH
		         "' || encode(sha256(convert_to(%s, 'UTF8')), 'hex') END",
		         buf_text(&text), SEEN_VALUE_MOST, buf_text(&text), buf_text(&text));
	else
		buf_add(&out, buf_text(&text));
	b->progress = buf_to_arena(&out, a);
}

/* The state of a row as text. */
static defib_err bind_state(struct arena *a, struct binding *b, struct failure *f)
{
	AUTO_BUF state = BUF_INIT;
	struct buf text = BUF_INIT;
	if (!watch_uses_state(b->watch))
		return DEFIB_OK;
	if (!state_sql(b, &state)) {
		fail(
			f, DEFIB_CONFIG,
			"watch %s: limits or remedies depend on the state of a row, and running does not begin "
			"with a column that tells it",
			b->watch->name);
		fail_next(f, "give state:, the expression that does");
		return DEFIB_CONFIG;
	}
	dialect_cast(dialect_of(b->engine), &text, buf_text(&state), "text");
	b->state = buf_to_arena(&text, a);
	return DEFIB_OK;
}

static defib_err bind_expressions(struct store *s, struct arena *a, struct binding *b,
                                  struct failure *f)
{
	const struct watch *w = b->watch;
	struct expression all[EXPRESSIONS_MAX];
	struct store_column *cols;
	AUTO_BUF sql = BUF_INIT;
	int n = bind_collect(w, all), ncols = 0;
	select_all(w, all, n, &sql);
	defib_err err = store_describe(s, buf_text(&sql), a, &cols, &ncols, f);
	for (int i = 0; store_blames_sql(err) && i < n; i++) {
		struct failure one = {0};
		buf_clear(&sql);
		select_all(w, &all[i], 1, &sql);
		if (store_describe(s, buf_text(&sql), a, &cols, &ncols, &one)) {
			*f = one;
			err = name_option(f, w, all[i].option, all[i].sql->at);
		}
	}
	if (err)
		return err;
	/* The times come first in `all`, in the order of their enum. */
	const char *base[TIME_COUNT] = {NULL};
	for (int time = 0, at = 0; time < TIME_COUNT && !err; time++) {
		if (!time_expression(w, time)->text)
			continue;
		base[time] = cols[at].base;
		b->sign_type[time] = cols[at++].type;
		err = bind_time(s, a, b, time, base[time], f);
	}
	for (int i = 0; i < n && !err; i++)
		if (text_eq(all[i].option, OWN_STUCK) || text_eq(all[i].option, OWN_OVERDUE) ||
		    text_eq(all[i].option, OWN_STALLED))
			err = bind_own_limit(a, b, &all[i], &cols[i], f);
	return err ? err : check_forms(b, base, f);
}

/* `table` NULL: as the engine folds names. */
static void bind_table_key(struct arena *a, struct binding *b, const char *table)
{
	const struct watch *w = b->watch;
	struct buf out = BUF_INIT;
	for (const char *p = table ? table : w->table; *p; p++)
		buf_addch(&out, table ? *p : (char)tolower((unsigned char)*p));
	b->same_table = arena_strdup(a, buf_text(&out));
	for (int k = 0; k < w->key.n; k++)
		buf_addf(&out, "%s%s", k ? ", " : " (", w->key.items[k]);
	buf_add(&out, ")");
	b->table_key = buf_to_arena(&out, a);
}

/*
 * Triggers: of a partitioned table including those of its partitions; of a view its INSTEAD OF
 * triggers. And whether an index finds a row by its key.
 */
static defib_err bind_ways(struct store *s, struct arena *a, struct binding *b, struct failure *f)
{
	AUTO_BUF table = BUF_INIT;
	struct store_rows rows;
	AUTO_RELATION keys = {.engine = s->engine};
	bind_table_key(a, b, NULL);
	if (!store_dialect(s)->ask.ways)
		return DEFIB_OK;
	sql_table(&table, b->watch->table);
	relation_column(&keys, "name", "text");
	for (int k = 0; k < b->watch->key.n; k++) {
		relation_text(&keys, b->watch->key.items[k]);
		relation_end_row(&keys);
	}
	struct store_param params[2] = {P_TEXT(buf_text(&table))};
	relation_params(&keys, params + 1);
	defib_err err = store_exec(s, store_dialect(s)->ask.ways, params, 2, a, &rows, f);
	b->triggers = row_bool(&rows, 0, 0);
	b->key_indexed = row_bool(&rows, 0, 1);
	if (row_text(&rows, 0, 2))
		bind_table_key(a, b, row_text(&rows, 0, 2));
	return err;
}

/*
 * Which masked columns the role may read. Their values are needed to recognise them in other
 * columns, but a role that was not granted them can do everything else.
 */
static defib_err bind_masked(struct store *s, struct arena *a, struct binding *b, struct failure *f)
{
	const struct watch viewed = {.mask = b->watch->viewer_mask};
	AUTO_BUF table = BUF_INIT;
	struct store_rows rows = {0};
	AUTO_RELATION names = {.engine = s->engine};
	const char *sql = store_dialect(s)->ask.readable;
	relation_column(&names, "name", "text");
	b->masked = ARENA_ARRAY(a, const char *, b->ncolumns + 1);
	for (int i = 0; i < b->ncolumns; i++) {
		const char *name = b->columns[i].name;
		if (!watch_hides(b->watch, name) && !watch_hides(&viewed, name))
			continue;
		b->masked[b->nmasked++] = name;
		relation_text(&names, name);
		relation_end_row(&names);
	}
	if (!sql || b->nmasked == 0)
		return DEFIB_OK;
	sql_table(&table, b->watch->table);
	struct store_param params[2] = {P_TEXT(buf_text(&table))};
	relation_params(&names, params + 1);
	defib_err err = store_exec(s, sql, params, 2, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		b->masked[i] = row_text(&rows, i, 0);
	if (!err)
		b->nmasked = rows.nrows;
	return err;
}

/*
 * Whether a row's worker is alive. If defib's workers can hold the rows, their leases take
 * precedence.
 */
static defib_err bind_owner_alive(struct store *s, struct arena *a, struct binding *b,
                                  struct failure *f)
{
	AUTO_BUF sql = BUF_INIT;
	sql_owner_alive(b->watch, &sql);
	b->owner_alive = sql.len ? arena_strdup(a, buf_text(&sql)) : NULL;
	buf_clear(&sql);
	defib_err err = b->watch->work.given ? leases_there(s, &b->leases, f) : DEFIB_OK;
	if (err || !b->leases)
		return err;
	sql_lease_alive(b, &sql);
	b->owner_alive = arena_strdup(a, buf_text(&sql));
	buf_clear(&sql);
	sql_lease_epoch(b, &sql);
	b->lease_epoch = buf_to_arena(&sql, a);
	return DEFIB_OK;
}

/* When a row's worker was last known to be alive: by its lease, else as the watch says. */
static void bind_lost(struct arena *a, struct binding *b)
{
	AUTO_BUF sql = BUF_INIT;
	if (b->leases) {
		buf_add(&sql, "coalesce(");
		sql_lease_lost(b, &sql);
	}
	if (b->watch->lost_at.text) {
		buf_add(&sql, b->leases ? ", " : "");
		sql_time_us(b, b->sign_time[TIME_LOST], b->watch->lost_at.text, &sql);
	}
	if (b->leases)
		buf_add(&sql, b->watch->lost_at.text ? ")" : ", NULL)");
	b->lost_us = sql.len ? arena_strdup(a, buf_text(&sql)) : NULL;
}

defib_err watch_bind(const struct watch *w, struct store *s, struct arena *a, struct binding *out,
                     struct failure *f)
{
	*out = (struct binding){.watch = w, .engine = s->engine};
	defib_err err = watch_home(s, w, a, &out->watch, f);
	if (!err)
		err = bind_table(s, a, out, f);
	if (!err)
		err = bind_keys(a, out, f);
	if (!err)
		err = bind_zone(s, a, out, f);
	if (!err)
		err = watch_schemas(s, out->watch, a, f);
	if (!err) {
		err = bind_expressions(s, a, out, f);
		if (err)
			watch_schemas_hint(s, a, f);
	}
	if (!err)
		err = bind_state(a, out, f);
	if (!err)
		bind_progress(a, out);
	if (!err)
		err = bind_owner_alive(s, a, out, f);
	if (!err)
		err = bind_ways(s, a, out, f);
	if (!err)
		err = bind_column_times(s, a, out, f);
	if (err)
		return err;
	err = bind_masked(s, a, out, f);
	if (err)
		return err;
	bind_lost(a, out);
	out->time = TIME_TYPE_TIMESTAMPTZ;
	if (!store_dialect(s)->has_time_types)
		out->time = TIME_TYPE_TEXT;
	for (int sign = SIGN_COUNT - 1; sign >= 0; sign--)
		if (out->sign_type[sign])
			out->time = out->sign_time[sign];
	return DEFIB_OK;
}
