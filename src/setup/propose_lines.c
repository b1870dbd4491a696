/* SPDX-License-Identifier: Apache-2.0 */
/* propose_lines.c: the lines of a proposed watch, each with why it was chosen. */
#include "setup/propose_lines.h"

#include "setup/propose_try.h"
#include "setup/propose_words.h"

#include "base/clock.h"
#include "store/dialect.h"
#include "store/sql.h"

#include <assert.h>
#include <ctype.h>

/* ---- SQL ---- */

/* Unnecessary quoting does no harm, so the list is generous. */
static const char *const reserved[] = {
	"all",     "analyse", "analyze", "and",        "any",       "array",    "as",      "asc",
	"between", "both",    "by",      "case",       "cast",      "check",    "collate", "column",
	"create",  "current", "default", "delete",     "desc",      "distinct", "do",      "else",
	"end",     "except",  "false",   "fetch",      "for",       "foreign",  "from",    "grant",
	"group",   "having",  "in",      "index",      "insert",    "interval", "into",    "is",
	"isnull",  "join",    "key",     "leading",    "left",      "like",     "limit",   "natural",
	"not",     "notnull", "null",    "offset",     "on",        "only",     "or",      "order",
	"outer",   "placing", "primary", "references", "returning", "right",    "row",     "select",
	"set",     "some",    "table",   "then",       "to",        "trailing", "true",    "union",
	"unique",  "update",  "user",    "using",      "values",    "when",     "where",   "window",
	"with",    NULL,
};

/* As people would write it: quoted only if necessary. */
static const char *ident(struct arena *a, const char *name)
{
	bool plain = islower((unsigned char)*name) || *name == '_';
	for (const char *at = name; *at && plain; at++)
		plain = islower((unsigned char)*at) || isdigit((unsigned char)*at) || *at == '_';
	if (plain && word_index(reserved, name) < 0)
		return name;
	AUTO_BUF quoted = BUF_INIT;
	sql_ident(&quoted, name);
	return arena_strdup(a, buf_text(&quoted));
}

static const char *column(const struct found_columns *f, const struct table_column *c)
{
	return ident(f->a, c->name);
}

static const char *table_sql(struct arena *a, const char *table)
{
	AUTO_BUF quoted = BUF_INIT;
	const char *text = table;
	bool plain = word_index(reserved, table) < 0;
	for (const char *at = table; *at && plain; at++)
		plain =
			islower((unsigned char)*at) || isdigit((unsigned char)*at) || *at == '_' || *at == '.';
	if (!plain) {
		sql_table(&quoted, table);
		text = arena_strdup(a, buf_text(&quoted));
	}
	return text;
}

static const char *proposal_literal(const struct found_columns *f, const struct table_column *c,
                                    const struct column_value *v)
{
	AUTO_BUF out = BUF_INIT;
	int64_t number;
	if (c->class == CLASS_NUMBER && int_parse(v->value, &number))
		return v->value;
	sql_literal(&out, v->value);
	return arena_strdup(f->a, buf_text(&out));
}

static const char *equals(const struct found_columns *f, const struct table_column *c,
                          const struct column_value *v)
{
	return arena_printf(f->a, "%s = %s", column(f, c), proposal_literal(f, c, v));
}

/* ---- lines ---- */

static struct proposed_line *proposal_add(struct found_columns *f, const char *key,
                                          const char *value, const char *why)
{
	struct proposal *p = f->out;
	assert(p->nlines < PROPOSAL_LINES_MAX);
	p->lines[p->nlines] = (struct proposed_line){.key = key, .value = value, .why = why};
	return &p->lines[p->nlines++];
}

static void proposal_check(struct found_columns *f, struct proposed_line *line, const char *what)
{
	line->check = what;
	f->out->nchecks++;
}

static void other(struct found_columns *f, struct proposed_line *line, const char *key,
                  const char *value)
{
	AUTO_BUF text = BUF_INIT;
	if (line->nothers == PROPOSAL_OTHERS_MAX)
		return;
	buf_addf(&text, "%s: ", key);
	yaml_scalar(value, &text);
	line->others[line->nothers++] = arena_strdup(f->a, buf_text(&text));
}

static void missing(struct found_columns *f, const char *what)
{
	assert(f->out->nmissing < PROPOSAL_MISSING_MAX);
	f->out->missing[f->out->nmissing++] = what;
}

static const char *list(struct arena *a, const char *const *names, int n)
{
	AUTO_BUF out = BUF_INIT;
	buf_add(&out, n == 1 ? "" : "[");
	for (int i = 0; i < n; i++) {
		buf_add(&out, i ? ", " : "");
		if (strpbrk(names[i], ",[]{}"))
			buf_add_json(&out, names[i]); /* they have a meaning inside a list */
		else
			yaml_scalar(names[i], &out);
	}
	buf_add(&out, n == 1 ? "" : "]");
	return arena_strdup(a, buf_text(&out));
}

static void name_table_and_key(struct found_columns *f)
{
	const struct table_facts *t = f->t;
	const char *dot = strrchr(t->table, '.');
	char name[80];
	snake_case(dot ? dot + 1 : t->table, name, sizeof name);
	f->out->name = arena_strdup(f->a, name);
	proposal_add(f, "table", t->table,
	             arena_printf(f->a, "%s%lld row%s, %d columns", t->sampled ? "about " : "",
	                          (long long)t->rows, t->rows == 1 ? "" : "s", t->ncolumns));
	const char *keys[WATCH_KEYS_MAX];
	for (int i = 0; i < t->nkeys; i++)
		keys[i] = t->keys[i];
	if (t->nkeys == 0 && t->view && facts_column(t, "id")) {
		struct proposed_line *line =
			proposal_add(f, "key", "id", "a view has no key; this column may serve as one");
		proposal_check(f, line, "does it identify exactly one row, and is the view writable?");
	} else if (t->nkeys == 0) {
		missing(f, "no primary key, and no unique index without nulls, of up to 4 columns: nothing "
		           "identifies a row; add a primary key");
	} else {
		struct proposed_line *line =
			proposal_add(f, "key", list(f->a, keys, t->nkeys),
		                 t->key_primary ? "the primary key" : "a unique index without nulls");
		line->yaml = true;
	}
}

/* "412 of 90,000 rows say 'Processing'" */
static const char *seen_value(const struct found_columns *f, const struct column_value *v)
{
	const char *what = v->label ? arena_printf(f->a, "%s, which is '%s'", v->value, v->label)
	                            : arena_printf(f->a, "'%s'", v->value);
	if (v->rows <= 0)
		return arena_printf(f->a, "no row says %s now, but it is one of the column's values", what);
	return arena_printf(f->a, "%lld of %lld rows%s say %s", (long long)v->rows,
	                    (long long)(f->t->sampled ? TABLE_ROWS_EXACT : f->t->rows),
	                    f->t->sampled ? " of a sample" : "", what);
}

static void other_states(struct found_columns *f, struct proposed_line *line)
{
	static const char *const *const sets[] = {values_running, values_maybe, values_stopping};
	const struct table_column *c = f->state;
	for (int i = 0; c && i < c->nvalues; i++) {
		const struct column_value *v = &c->values[i];
		bool likely = f->by != BY_STATE;
		for (size_t s = 0; s < sizeof sets / sizeof *sets; s++)
			likely = likely || word_rank(sets[s], value_word(v)) >= 0;
		if (likely && v != f->running)
			other(f, line, "running", equals(f, c, v));
	}
}

/* " AND finished_at IS NULL": an ended row may keep the mark of its last worker. */
static const char *not_over(const struct found_columns *f)
{
	AUTO_BUF out = BUF_INIT;
	if (f->finished && f->finished->nullable)
		buf_addf(&out, " AND %s IS NULL", column(f, f->finished));
	for (int i = 0; i < f->t->ncolumns; i++) {
		const struct table_column *c = &f->t->columns[i];
		if (c->nullable && fits_time(f->t, c) && word_exact(words_ended_badly, c->name) >= 0)
			buf_addf(&out, " AND %s IS NULL", column(f, c));
	}
	return arena_strdup(f->a, buf_text(&out));
}

static void running_line(struct found_columns *f)
{
	struct proposed_line *line = NULL;
	const char *done = not_over(f);
	switch (f->by) {
	case BY_STATE:
		line =
			proposal_add(f, "running", equals(f, f->state, f->running), seen_value(f, f->running));
		break;
	case BY_FLAG:
		line = proposal_add(f, "running", column(f, f->flag), "a flag says so");
		break;
	case BY_LOCK:
		line = proposal_add(f, "running",
		                    arena_printf(f->a, "%s IS NOT NULL%s", column(f, f->lock), done),
		                    "this time is set when a row is claimed");
		break;
	case BY_OWNER:
		line = proposal_add(f, "running",
		                    arena_printf(f->a, "%s IS NOT NULL%s", column(f, f->owner), done),
		                    "the row names its worker");
		break;
	case BY_TIMES:
		line = proposal_add(f, "running",
		                    arena_printf(f->a, "%s IS NOT NULL%s", column(f, f->started), done),
		                    "the row has started and not ended");
		proposal_check(f, line, "no known state was found: is this what a running row looks like?");
		break;
	case BY_NOTHING:
		missing(f, "nothing tells which rows are running: no state such as processing, no "
		           "locked_at; write the condition yourself, as running:");
		return;
	}
	if (f->running_check)
		proposal_check(f, line, f->running_check);
	other_states(f, line);
}

/* ---- the sign of life ---- */

static const struct sign_words {
	const char *key, *why, *check;
	const char *limit_key, *limit, *limit_why, *limit_check;
	bool by_age;
} sign_words[] = {
	[SIGN_OF_BEAT] = {"alive_at", "workers write it repeatedly while they work", NULL,
                      "stuck_after", "10m", "cautious",
                      "at least four times the interval between two beats", false},
	[SIGN_OF_LEASE] = {"expires_at", "the worker owns the row until then", NULL, "stuck_after",
                       "1m", "slack after it; its owner may be renewing it", NULL, false},
	[SIGN_OF_LOCK] = {"alive_at", "written when a worker claims the row", NULL, "stuck_after", "4h",
                      "no run times to learn from; cautious",
                      "longer than the longest normal run: only age can judge here", true},
	[SIGN_OF_UPDATE] = {"alive_at", "written whenever the row changes", NULL, "stuck_after", "4h",
                        "no run times to learn from; cautious",
                        "longer than the longest time in which a live worker writes nothing", true},
	[SIGN_OF_START] = {"started_at", "written when work on the row begins", NULL, "overdue_after",
                       "4h", "no run times to learn from; cautious",
                       "longer than the longest normal run", true},
	[SIGN_OF_DEADLINE] = {"expires_at", "a deadline, by its name",
                          "does the worker own the row until then, and renew it while it works?",
                          "stuck_after", "1m", "how long after it", NULL, false},
};

/*
 * Times without a zone mean UTC to us: if the newest value is the current time in UTC, the writers
 * agree.
 */
static bool utc_is_shown(const struct table_facts *t, const struct table_column *c)
{
	char iso[64];
	int64_t us;
	if (text_eq(c->standard, "CURRENT_TIMESTAMP") && !dialect_of(t->engine)->has_time_zones)
		return true;
	if (!c->newest || strlen(c->newest) < 19)
		return false;
	snprintf(iso, sizeof iso, "%.19s.000Z", c->newest);
	iso[10] = 'T';
	return time_parse(iso, &us) && us > t->now_us - 55 * 60 * US_PER_S &&
	       us < t->now_us + 60 * US_PER_S;
}

static void time_type_line(struct found_columns *f)
{
	const struct table_column *c = f->sign;
	const char *type = c ? time_type_of(f->t, c) : "";
	struct proposed_line *line;
	bool naive =
		c && (c->class == CLASS_NAIVE || text_eq(type, "text")) && strncmp(type, "epoch", 5) != 0;
	if (naive) {
		line = proposal_add(f, "time_type", *type ? type : "utc",
		                    "times without a time zone are read as UTC");
		if (!utc_is_shown(f->t, c))
			proposal_check(f, line,
			               dialect_of(f->t->engine)->has_time_zones
			                   ? "do the programs write UTC? if they write local "
			                     "time, give its zone as time_zone: instead"
			                   : "do the programs write UTC?");
	} else if (*type) {
		line = proposal_add(f, "time_type", type,
		                    c->newest ? arena_printf(f->a, "as the newest value, %s", c->newest)
		                              : "a number; no value yet shows the unit");
		if (!c->newest)
			proposal_check(f, line, "seconds (epoch) or milliseconds (epoch_ms) since 1970?");
	}
}

static const char *related_sql(const struct found_columns *f, const char *column_name)
{
	const struct related_table *r = f->related;
	return arena_printf(f->a, "(SELECT h.%s FROM %s h WHERE h.%s = t.%s)", ident(f->a, column_name),
	                    table_sql(f->a, r->table), ident(f->a, r->their_column),
	                    ident(f->a, r->our_column));
}

static void other_signs(struct found_columns *f, struct proposed_line *line)
{
	static const struct {
		const char *const *words;
		const char *key;
	} all[] = {{words_beat, "alive_at"},      {words_lease, "expires_at"},
	           {words_lock, "alive_at"},      {words_updated, "alive_at"},
	           {words_started, "started_at"}, {words_deadline, "expires_at"}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		const struct table_column *c = column_named(f->t, all[i].words, fits_time);
		if (c && c != f->sign && !column_is_empty(f->t, c))
			other(f, line, all[i].key, column(f, c));
	}
}

static void sign_lines(struct found_columns *f)
{
	const struct sign_words *w = &sign_words[f->sign_of];
	if (f->sign_of == SIGN_OF_NOTHING) {
		missing(f, "no column could be a sign of life (updated_at, last_heartbeat, locked_at, "
		           "started_at, expires_at …): nothing distinguishes a live worker from a dead "
		           "one; add one that workers write, or name an expression as alive_at:");
		return;
	}
	struct proposed_line *line = f->related
	                                 ? proposal_add(f, w->key, related_sql(f, f->related->beat),
	                                                arena_printf(f->a, "%s, by its foreign key: %s",
	                                                             f->related->table, w->why))
	                                 : proposal_add(f, w->key, column(f, f->sign), w->why);
	if (w->check)
		proposal_check(f, line, w->check);
	else if (f->sign && column_is_empty(f->t, f->sign))
		proposal_check(f, line, "nothing is written there yet: do workers write it?");
	other_signs(f, line);
	line = proposal_add(f, w->limit_key, w->limit, w->limit_why);
	f->out->limit = w->limit_key;
	f->out->age_judges = w->by_age;
	if (w->limit_check)
		proposal_check(f, line, w->limit_check);
	time_type_line(f);
}

/* ---- owner and attempts ---- */

static void owner_line(struct found_columns *f)
{
	if (f->related && f->related->owner && !f->related->workers)
		proposal_add(f, "owner", related_sql(f, f->related->owner),
		             "the worker that sends heartbeats");
	else if (f->related && f->related->workers)
		proposal_add(f, "owner", ident(f->a, f->related->our_column), "points to the workers");
	else if (f->owner && f->owner->class == CLASS_LIST)
		proposal_add(
			f, "owner",
			arena_printf(f->a, "%s[array_length(%s, 1)]", column(f, f->owner), column(f, f->owner)),
			"the last worker that tried");
	else if (f->owner)
		proposal_add(f, "owner", column(f, f->owner), "names the worker that holds it");
}

/* A running row has none: attempts are counted when a job fails, not when it is claimed. */
static bool counts_failures(const struct found_columns *f)
{
	return f->attempts && f->t->counted_in_work && f->t->in_work > 0 && f->attempts->counted &&
	       f->attempts->least_in_work < 1;
}

#define ATTEMPTS_LEAST 5

/* No column limits the attempts: at least as many as were seen. */
static void guess_max(struct found_columns *f)
{
	int64_t most = 0;
	if (!f->attempts->newest || !int_parse(f->attempts->newest, &most) || most < ATTEMPTS_LEAST)
		most = ATTEMPTS_LEAST;
	struct proposed_line *line = proposal_add(
		f, "max_attempts", arena_printf(f->a, "%lld", (long long)most),
		most > ATTEMPTS_LEAST ? "no column says it; as many as were seen" : "no column says it");
	proposal_check(f, line, "after how many attempts is a job held for an operator?");
}

static void attempts_lines(struct found_columns *f)
{
	struct proposed_line *line;
	if (!f->attempts)
		return;
	if (counts_failures(f)) {
		proposal_add(
			f, "attempts", column(f, f->attempts),
			"running rows have none: failures are counted, so requeue counts the lost run too");
	} else {
		line = proposal_add(
			f, "attempts", column(f, f->attempts),
			f->t->counted_in_work && f->t->in_work > 0
				? "every running row has one: attempts are counted when a job is claimed, "
				  "so requeue does not change them"
				: "requeue does not change it: most systems count when a job is claimed");
		if (f->t->counted_in_work && f->t->in_work == 0)
			proposal_check(f, line,
			               "is it increased when a job is claimed? if not, requeue must do it");
	}
	if (f->max)
		proposal_add(f, "max_attempts", column(f, f->max),
		             "beyond it a job is held for an operator");
	else
		guess_max(f);
}

static const char *one_more(const struct found_columns *f, const struct table_column *c)
{
	return arena_printf(f->a, c->nullable ? "%s = coalesce(%s, 0) + 1" : "%s = %s + 1",
	                    column(f, c), column(f, c));
}

/* ---- remedies ---- */

static void set(struct buf *out, const char *what)
{
	buf_addf(out, "%s%s", out->len ? ", " : "", what);
}

static void set_null(struct found_columns *f, struct buf *out, const struct table_column *c)
{
	if (c && c->nullable && c->class != CLASS_LIST)
		set(out, arena_printf(f->a, "%s = NULL", column(f, c)));
}

/* :now is written in the form of the sign of life: another form would be refused, or wrong. */
static bool same_time(const struct found_columns *f, const struct table_column *c)
{
	if (!c || (!f->sign && !f->related))
		return false;
	if (f->related)
		return c->class == f->related->beat_class;
	return c->class == f->sign->class &&
	       text_eq(time_type_of(f->t, c), time_type_of(f->t, f->sign));
}

static void set_now(struct found_columns *f, struct buf *out, const struct table_column *c)
{
	if (same_time(f, c) && c != f->lock)
		set(out, arena_printf(f->a, "%s = :now", column(f, c)));
}

/* Clears the owner, and writes the reason. */
static void set_freed(struct found_columns *f, struct buf *out)
{
	if (!(f->related && f->related->workers && !f->owner))
		set_null(f, out, f->owner);
	if (f->lock && f->by != BY_LOCK)
		set_null(f, out, f->lock);
	if (f->sign && f->sign_of == SIGN_OF_LEASE)
		set_null(f, out, f->sign);
	if (f->error)
		set(out, arena_printf(f->a, "%s = :reason", column(f, f->error)));
	set_now(f, out, f->updated);
}

static void requeue_line(struct found_columns *f)
{
	AUTO_BUF out = BUF_INIT;
	struct proposed_line *line;
	const char *why = "no worker holds it any more";
	if (f->by == BY_STATE && f->ready) {
		set(&out, equals(f, f->state, f->ready));
		why = f->ready_sure
		          ? arena_printf(f->a, "'%s' is the state of waiting rows", value_word(f->ready))
		          : "rows begin in this state";
	} else if (f->by == BY_FLAG) {
		set(&out, arena_printf(f->a, "%s = false", column(f, f->flag)));
	} else if (f->by == BY_LOCK) {
		set(&out, arena_printf(f->a, "%s = NULL", column(f, f->lock)));
	}
	if (out.len) {
		if (counts_failures(f))
			set(&out, one_more(f, f->attempts));
		set_freed(f, &out);
		line = proposal_add(f, "requeue", arena_strdup(f->a, buf_text(&out)), why);
		if (f->by == BY_STATE && !f->ready_sure)
			proposal_check(f, line, "does a row in this state wait to be claimed again?");
	}
}

static void fail_line(struct found_columns *f)
{
	AUTO_BUF out = BUF_INIT;
	if (f->by != BY_STATE || !f->failed)
		return;
	set(&out, equals(f, f->state, f->failed));
	set_freed(f, &out);
	set_now(f, &out, f->finished);
	proposal_add(f, "fail", arena_strdup(f->a, buf_text(&out)),
	             "for defib fail, and for remedies that say so");
}

void proposal_report_only(struct proposal *p)
{
	bool can = proposal_line(p, "requeue") != NULL;
	if (proposal_line(p, "remedies"))
		return;
	assert(p->nlines < PROPOSAL_LINES_MAX);
	p->lines[p->nlines++] = (struct proposed_line){
		.key = "remedies",
		.value = REPORT_ONLY,
		.yaml = true,
		.why = can ? "nothing is changed until you remove this line: remove it once the lines "
	                 "marked CHECK are right"
	               : "the state of waiting rows could not be found: the watch only reports",
	};
}

/* Nothing is changed based on a guess. */
static void remedies_line(struct found_columns *f)
{
	bool can = proposal_line(f->out, "requeue") != NULL;
	if (can && f->out->nchecks == 0)
		return;
	proposal_report_only(f->out);
	struct proposed_line *line = proposal_line(f->out, "remedies");
	if (!can)
		proposal_check(f, line, "how does a row become claimable again? write it as requeue:");
}

/* ---- for people ---- */

static void stats_line(struct found_columns *f)
{
	AUTO_BUF out = BUF_INIT;
	if (!same_time(f, f->started) || !same_time(f, f->finished))
		return;
	buf_add(&out, "{started_at: ");
	buf_add_json(&out, column(f, f->started));
	buf_add(&out, ", finished_at: ");
	buf_add_json(&out, column(f, f->finished));
	if (f->failed) {
		buf_add(&out, ", failed: ");
		buf_add_json(&out, equals(f, f->state, f->failed));
	}
	buf_add(&out, "}");
	proposal_add(f, "stats", arena_strdup(f->a, buf_text(&out)),
	             "run times, for defib tune learn and status")
		->yaml = true;
}

static void show_line(struct found_columns *f)
{
	const char *names[2];
	int n = 0;
	for (int w = 0; words_show[w] && n < 2; w++)
		for (int i = 0; i < f->t->ncolumns && n < 2; i++) {
			const struct table_column *c = &f->t->columns[i];
			if (text_eq(words_show[w], c->name) && c->class == CLASS_TEXT && c != f->kind)
				names[n++] = c->name;
		}
	if (n)
		proposal_add(f, "show", arena_printf(f->a, n == 1 ? "[%s]" : "%s", list(f->a, names, n)),
		             "people may know the row by it")
			->yaml = true;
}

/* A state or a mark that other tables have too needs further evidence of work. */
static bool is_of_work(const struct found_columns *f)
{
	bool beside = f->owner || column_named(f->t, words_queue, fits_any) ||
	              f->sign_of == SIGN_OF_BEAT || f->sign_of == SIGN_OF_LEASE;
	if (f->by == BY_STATE)
		return f->ready_sure || word_rank(values_running, value_word(f->running)) >= 0 ||
		       word_rank(values_begun, value_word(f->running)) >= 0;
	if (f->by == BY_FLAG)
		return beside || word_rank(words_flag_of_work, f->flag->name) >= 0;
	return f->by == BY_OWNER || (f->by == BY_LOCK && beside);
}

void propose_lines(struct found_columns *f)
{
	name_table_and_key(f);
	if (f->kind && f->kind != f->state)
		proposal_add(f, "kind", column(f, f->kind), "thresholds and numbers can differ by it");
	running_line(f);
	sign_lines(f);
	owner_line(f);
	attempts_lines(f);
	requeue_line(f);
	fail_line(f);
	remedies_line(f);
	stats_line(f);
	show_line(f);
	f->out->queue = f->out->nmissing == 0 && f->running_sure && is_of_work(f);
}
