/* SPDX-License-Identifier: Apache-2.0
 * alert_store.c: see alert_store.h.
 */
#include "alert/alert_store.h"

#include "base/clock.h"
#include "embedded.h"
#include "ledger/counts.h"
#include "ledger/events.h"
#include "ledger/ledger.h"
#include "ledger/schema.h"
#include "store/dialect.h"

#include <assert.h>
#include <math.h>

/* ---- messages ---- */

#define GIVE_UP_US (25 * INT64_C(3600000000))
#define FORGET_US (30 * 24 * INT64_C(3600000000))

defib_err outbox_ready(struct store *s, bool create, bool *there, struct failure *f)
{
	return schema_ready(s, "delivery", SCHEMA_DAEMON, create, there, f);
}

defib_err outbox_put(struct store *s, const struct outgoing *all, int n, struct arena *a,
                     struct failure *f)
{
	static const char sql[] =
		"INSERT INTO defib.delivery (sink, kind, id, document, topic, ended, ended_at, made_at, "
		"due_at) VALUES ($1, $2, $3, $4::jsonb, $5, $6, CASE WHEN $6::text IS NOT NULL THEN {now} "
		"END, {now}, {now}) ON CONFLICT (sink, id) DO NOTHING";
	defib_err err = DEFIB_OK;
	assert(s->in_tx);
	for (int i = 0; i < n && !err; i++) {
		const struct outgoing *o = &all[i];
		struct store_param params[] = {P_TEXT(o->sink),     P_TEXT(o->kind),  P_TEXT(o->id),
		                               P_TEXT(o->document), P_TEXT(o->topic), P_TEXT(o->ended)};
		err = dialect_exec(s, sql, params, 6, a, NULL, f);
	}
	return err;
}

/* ---- sending ---- */

defib_err outbox_lines(struct store *s, struct arena *a, struct outbox_line **out, int *n,
                       struct failure *f)
{
#define M(member) ROW_MEMBER(struct outbox_line, member)
	static const struct row_member members[] = {M(sink), M(waiting), M(due_us)};
#undef M
	struct store_rows rows;
	defib_err err = dialect_exec(s,
	                             "SELECT sink, count(*), {us min(due_at)} - {us {now}} FROM "
	                             "defib.delivery WHERE ended IS NULL GROUP BY sink",
	                             NULL, 0, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct outbox_line, a, n);
	return err;
}

defib_err outbox_take(struct store *s, const char *sink, int64_t lease_us, struct arena *a,
                      struct delivery *out, bool *got, struct failure *f)
{
	struct store_param params[] = {P_TEXT(sink), P_INT(lease_us)};
	struct store_rows rows;
	*got = false;
	defib_err err = dialect_write(s, sql_alerts_take, params, 2, a, &rows, f);
	if (err || rows.nrows == 0)
		return err;
	*got = true;
	*out = (struct delivery){
		.seq = row_int(&rows, 0, 0, 0),
		.tries = row_int(&rows, 0, 1, 0),
		.kind = row_text(&rows, 0, 2),
		.id = row_text(&rows, 0, 3),
		.document = row_text(&rows, 0, 4),
		.age_us = row_limited(&rows, 0, 5, 0),
	};
	return DEFIB_OK;
}

/* Only the sender that took it last may record its result. */
static defib_err alert_store_note(struct store *s, const char *sql, const struct delivery *d,
                                  struct store_param what, const char *answer, struct failure *f)
{
	struct store_param params[] = {P_INT(d->seq), P_INT(d->tries), what, P_TEXT(answer)};
	return dialect_write(s, sql, params, 4, NULL, NULL, f);
}

defib_err outbox_end(struct store *s, const struct delivery *d, const char *how, const char *answer,
                     struct failure *f)
{
	return alert_store_note(
		s,
		"UPDATE defib.delivery SET ended = $3, answer = $4, ended_at = {now} WHERE seq = $1 "
		"AND tries = $2 AND ended IS NULL",
		d, P_TEXT(how), answer, f);
}

defib_err outbox_again(struct store *s, const struct delivery *d, int64_t wait_us,
                       const char *answer, struct failure *f)
{
	return alert_store_note(
		s,
		"UPDATE defib.delivery SET due_at = {now} + {span $3::bigint}, answer = $4 WHERE "
		"seq = $1 AND tries = $2 AND ended IS NULL",
		d, P_INT(wait_us), answer, f);
}

int64_t outbox_wait_us(int64_t tries, double chance)
{
	int64_t most = OUTBOX_WAIT_MAX_US;
	assert(tries > 0 && chance >= 0 && chance <= 1);
	if (tries < 9)
		most = INT64_C(2000000) << (tries - 1);
	most = most < OUTBOX_WAIT_MAX_US ? most : OUTBOX_WAIT_MAX_US;
	return 100000 + (int64_t)((double)most * chance);
}

defib_err outbox_tidy(struct store *s, struct failure *f)
{
	struct store_param ages[] = {P_INT(GIVE_UP_US), P_INT(FORGET_US)};
	defib_err err = dialect_write(
		s,
		"UPDATE defib.delivery SET ended = 'given up', ended_at = {now}, answer = "
		"coalesce(answer, 'no daemon has this sink') WHERE ended IS NULL AND due_at < {now} AND "
		"made_at < {now} - {span $1::bigint}",
		&ages[0], 1, NULL, NULL, f);
	if (!err)
		err = dialect_write(s,
		                    "DELETE FROM defib.delivery WHERE ended IS NOT NULL AND ended_at < "
		                    "{now} - {span $1::bigint}",
		                    &ages[1], 1, NULL, NULL, f);
	return err;
}

/* ---- reading ---- */

defib_err outbox_read(struct store *s, int limit, struct arena *a, struct delivery_row **out,
                      int *n, struct failure *f)
{
#define M(member) ROW_MEMBER(struct delivery_row, member)
	static const struct row_member members[] = {M(seq),      M(tries), M(made_us), M(due_us),
	                                            M(ended_us), M(sink),  M(id),      M(kind),
	                                            M(answer),   M(ended), M(document)};
#undef M
	struct store_param param = P_INT(limit);
	struct store_rows rows;
	defib_err err = dialect_exec(s,
	                             "SELECT seq, tries, {us made_at}, {us due_at}, {us ended_at}, "
	                             "sink, id, kind, answer, ended, document::text FROM "
	                             "defib.delivery ORDER BY seq DESC LIMIT $1",
	                             &param, 1, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct delivery_row, a, n);
	return err;
}

/* ---- states of rules ---- */

/* Times as SQLite stores them, so that what is written is what is read back. */
#define WHOLE_MS(us) ((us) / 1000 * 1000)

static int word_at(const char *const *words, const char *word)
{
	for (int i = 0; words[i]; i++)
		if (text_eq(words[i], word))
			return i;
	return 0;
}

static double value_of(const char *text)
{
	double value = text ? strtod(text, NULL) : 0;
	return isfinite(value) ? value : 0;
}

defib_err states_read(struct store *s, struct arena *a, struct alert_row **out, int *n,
                      int64_t *now_us, struct failure *f)
{
	/* The clock is returned even if there is no row. */
	static const char sql[] =
		"SELECT watch, rule, severity, state, {us since}, {us fired_at}, {us told_at}, repeats, "
		"value, sentence, topic, holder, {us {now}} FROM (SELECT 1) AS one LEFT JOIN defib.alert "
		"ON true ORDER BY {bytes watch}, {bytes rule}";
	struct store_rows rows;
	*n = 0;
	defib_err err = dialect_exec(s, sql, NULL, 0, a, &rows, f);
	if (err)
		return err;
	*now_us = WHOLE_MS(row_int(&rows, 0, 12, 0));
	*out = ARENA_ARRAY(a, struct alert_row, rows.nrows);
	for (int i = 0; i < rows.nrows && row_text(&rows, i, 0); i++) {
		(*out)[(*n)++] = (struct alert_row){
			.watch = row_text(&rows, i, 0),
			.rule = row_text(&rows, i, 1),
			.severity = word_at(alert_severities, row_text(&rows, i, 2)),
			.alert = {.state = (enum alert_state)word_at(alert_states, row_text(&rows, i, 3)),
		              .since_us = row_limited(&rows, i, 4, 0),
		              .fired_us = row_limited(&rows, i, 5, 0),
		              .notified_us = row_limited(&rows, i, 6, 0),
		              .repeats = row_limited(&rows, i, 7, 0),
		              .value = value_of(row_text(&rows, i, 8))},
			.sentence = row_text(&rows, i, 9),
			.topic = row_text(&rows, i, 10),
			.holder = row_text(&rows, i, 11),
		};
	}
	return DEFIB_OK;
}

static defib_err alert_store_write_one(struct store *s, const struct alert_write *w,
                                       struct arena *a, bool *taken, struct failure *f)
{
	const struct alert_row *r = &w->row;
	struct store_rows rows;
	struct store_param params[] = {
		P_TEXT(r->watch),
		P_TEXT(r->rule),
		P_TEXT(alert_severities[r->severity]),
		P_TEXT(alert_states[r->alert.state]),
		P_INT(r->alert.since_us),
		P_INT(r->alert.fired_us),
		P_INT(r->alert.notified_us),
		P_INT(r->alert.repeats),
		P_TEXT(arena_printf(a, "%.17g", r->alert.value)),
		P_TEXT(r->sentence),
		P_TEXT(r->topic),
		P_TEXT(r->holder),
		P_TEXT(alert_states[w->before.state]),
		P_INT(w->before.since_us),
		P_INT(w->before.repeats),
	};
	defib_err err =
		dialect_exec(s, sql_alerts_write, params, sizeof params / sizeof *params, a, &rows, f);
	*taken = !err && rows.affected == 1;
	return err;
}

defib_err states_write(struct store *s, const struct alert_write *writes, int n,
                       const struct outgoing *messages, int nmessages, bool *taken,
                       struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	*taken = true;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	for (int i = 0; i < n && !err && *taken; i++)
		err = alert_store_write_one(s, &writes[i], &a, taken, f);
	if (!err && *taken)
		err = outbox_put(s, messages, nmessages, &a, f);
	if (err || !*taken)
		store_rollback(s);
	else
		err = store_commit(s, f);
	*taken = *taken && !err;
	return err;
}

/* ---- what the ledger says happened ---- */

#define PAST_US (INT64_C(24) * 3600 * US_PER_S) /* the longest window of any rule */
#define ROW_MAX 4                               /* of one row */

/* By minute, so that a mass event is a handful of rows. */
static void alert_store_read_sql(struct buf *sql)
{
	buf_add(sql, "SELECT l.watch, l.event, ");
	event_judged_sql(sql, "l");
	buf_add(sql, ", ");
	event_by_person_sql(sql, "l");
	buf_add(sql, ", {stamp_us max(l.at)}, count(*), count(l.found_s), coalesce(sum(l.found_s), 0) "
	             "FROM (SELECT l.*, ");
	sql_seconds_to_detection(sql);
	buf_add(sql, " AS found_s FROM defib.ledger AS l WHERE l.id > $1 AND l.id <= $2) AS l GROUP BY "
	             "1, 2, 3, 4, {stamp_minute l.at}");
}

static void alert_store_add(struct happened *list, int *n, struct happened one,
                            enum alert_counter what, double count)
{
	one.what = what;
	one.n = count;
	if (count > 0)
		list[(*n)++] = one;
}

/* Operators' acts do not count for rules: the operator knows about them. */
static void alert_store_add_row(const struct store_rows *rows, int i, struct happened *list, int *n)
{
	const char *event = row_text(rows, i, 1), *took = row_text(rows, i, 7);
	bool by_person = row_bool(rows, i, 3);
	unsigned counts = event_counts(event, row_bool(rows, i, 2), by_person);
	struct happened one = {.watch = row_text(rows, i, 0), .at_us = row_int(rows, i, 4, 0)};
	double count = (double)row_int(rows, i, 5, 0);
	if (by_person)
		return;
	if (counts & COUNTS_RECOVERED)
		alert_store_add(list, n, one, COUNT_RECOVERED, count);
	if (counts & COUNTS_DETECTED) {
		alert_store_add(list, n, one, COUNT_DETECTED, count);
		alert_store_add(list, n, one, COUNT_FOUND, (double)row_int(rows, i, 6, 0));
		alert_store_add(list, n, one, COUNT_FOUND_S, strtod(took ? took : "0", NULL));
	}
	if (text_eq(event, ENTRY_LATE_COMPLETION))
		alert_store_add(list, n, one, COUNT_MISTAKES, count);
	if (text_eq(event, ENTRY_RETRIES_EXHAUSTED))
		alert_store_add(list, n, one, COUNT_EXHAUSTED, count);
}

static defib_err read_between(struct store *s, int64_t after, int64_t to, struct arena *a,
                              struct happened **out, int *n, struct failure *f)
{
	struct store_param params[] = {P_INT(after), P_INT(to)};
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	alert_store_read_sql(&sql);
	defib_err err = dialect_exec(s, buf_text(&sql), params, 2, a, &rows, f);
	if (err)
		return err;
	*out = ARENA_ARRAY(a, struct happened, rows.nrows * ROW_MAX + 1);
	for (int i = 0; i < rows.nrows; i++)
		alert_store_add_row(&rows, i, *out, n);
	return DEFIB_OK;
}

defib_err happened_read(struct store *s, int64_t *cursor, struct arena *a, struct happened **out,
                        int *n, bool *more, struct failure *f)
{
	int64_t top = 0;
	bool exists = false;
	*n = 0;
	*more = false;
	*out = NULL;
	defib_err err = ledger_exists(s, &exists, f);
	if (err || !exists)
		return err;
	err = ledger_top_after(s, cursor, &top, f);
	if (!err && top > 0 && *cursor == 0)
		err = ledger_id_before(s, PAST_US, cursor, f);
	if (err || top <= *cursor)
		return err;
	int64_t to = top - *cursor > LEDGER_COUNT_IDS ? *cursor + LEDGER_COUNT_IDS : top;
	err = read_between(s, *cursor, to, a, out, n, f);
	if (err)
		return err;
	*cursor = to;
	*more = to < top;
	return DEFIB_OK;
}

/* ---- what people see of rules and messages ---- */

struct collecting {
	const struct settings *all;
	const struct database *database;
	const struct alert_row *rows;
	int nrows;
	struct alert_status *out;
	int n;
};

static void add_rules(struct collecting *x, const char *watch)
{
	bool whole = text_eq(watch, ALERT_ANY);
	for (int id = 0; id < ALERT_COUNT; id++) {
		struct alert_status *st = &x->out[x->n];
		*st = (struct alert_status){
			.rule = alert_rule_for(settings_alerts(x->all), (enum alert_id)id, watch),
			.database = x->database->name,
			.watch = watch,
		};
		st->sinks = *alert_rule_sinks(settings_alerts(x->all), &st->rule);
		for (int i = 0; i < x->nrows; i++)
			if (text_eq(x->rows[i].watch, watch) && text_eq(x->rows[i].rule, st->rule.name))
				st->row = &x->rows[i];
		x->n += st->rule.whole == whole;
	}
}

static bool is_new(const struct collecting *x, const char *watch)
{
	for (int i = 0; i < x->n; i++)
		if (text_eq(x->out[i].watch, watch))
			return false;
	return true;
}

defib_err alerts_read(struct store *s, const struct settings *all, const struct database *d,
                      struct arena *a, struct alert_status **out, int *n, struct failure *f)
{
	struct alert_row *rows = NULL;
	int64_t now_us = 0;
	int nrows = 0;
	bool there = false;
	*n = 0;
	defib_err err = outbox_ready(s, false, &there, f);
	if (!err && there)
		err = states_read(s, a, &rows, &nrows, &now_us, f);
	if (err)
		return err;
	int most = (all->nwatches + nrows + 1) * ALERT_COUNT + 1;
	struct collecting x = {all, d, rows, nrows, ARENA_ARRAY(a, struct alert_status, most), 0};
	add_rules(&x, ALERT_ANY);
	for (int i = 0; i < all->nwatches; i++)
		if (settings_database(all, &all->watches[i]) == d)
			add_rules(&x, all->watches[i].name);
	for (int i = 0; i < nrows; i++)
		if (is_new(&x, rows[i].watch))
			add_rules(&x, rows[i].watch);
	assert(x.n < most);
	*out = x.out;
	*n = x.n;
	return DEFIB_OK;
}

defib_err deliveries_of(struct store *s, int limit, struct arena *a, struct delivery_row **out,
                        int *n, struct failure *f)
{
	bool there = false;
	*n = 0;
	defib_err err = outbox_ready(s, false, &there, f);
	if (!err && there)
		err = outbox_read(s, limit, a, out, n, f);
	return err;
}
