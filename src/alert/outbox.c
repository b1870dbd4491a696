/* SPDX-License-Identifier: Apache-2.0 */
/* outbox.c: see outbox.h. */
#include "alert/outbox.h"

#include "ledger/schema.h"
#include "store/dialect.h"

#include <assert.h>

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
	struct store_rows rows;
	*n = 0;
	defib_err err = dialect_exec(s,
	                             "SELECT sink, count(*), {us min(due_at) - {now}} FROM "
	                             "defib.delivery WHERE ended IS NULL GROUP BY sink",
	                             NULL, 0, a, &rows, f);
	if (err)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct outbox_line, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		(*out)[i] = (struct outbox_line){row_text(&rows, i, 0), row_int(&rows, i, 1, 0),
		                                 row_int(&rows, i, 2, 0)};
	return DEFIB_OK;
}

defib_err outbox_take(struct store *s, const char *sink, int64_t lease_us, struct arena *a,
                      struct delivery *out, bool *got, struct failure *f)
{
	/* Behind one of its own topic that is not over a message waits, even when that is not due. */
	static const char sql[] =
		"UPDATE defib.delivery SET tries = tries + 1, due_at = {now} + {span $2::bigint} WHERE "
		"seq = (SELECT d.seq FROM defib.delivery AS d WHERE d.sink = $1 AND d.ended IS NULL AND "
		"d.due_at <= {now} AND NOT EXISTS (SELECT 1 FROM defib.delivery AS e WHERE e.sink = d.sink "
		"AND e.ended IS NULL AND e.seq < d.seq AND e.topic = d.topic) ORDER BY d.seq LIMIT "
		"1{skip_locked}) RETURNING seq, tries, kind, id, document::text, {us {now} - made_at}";
	struct store_param params[] = {P_TEXT(sink), P_INT(lease_us)};
	struct store_rows rows;
	*got = false;
	defib_err err = dialect_write(s, sql, params, 2, a, &rows, f);
	if (err || rows.nrows == 0)
		return err;
	*got = true;
	*out = (struct delivery){
		.seq = row_int(&rows, 0, 0, 0),
		.tries = row_int(&rows, 0, 1, 0),
		.kind = row_text(&rows, 0, 2),
		.id = row_text(&rows, 0, 3),
		.document = row_text(&rows, 0, 4),
		.age_us = row_int(&rows, 0, 5, 0),
	};
	return DEFIB_OK;
}

/* Only who took it last may say what became of it. */
static defib_err note(struct store *s, const char *sql, const struct delivery *d,
                      struct store_param what, const char *answer, struct failure *f)
{
	struct store_param params[] = {P_INT(d->seq), P_INT(d->tries), what, P_TEXT(answer)};
	struct arena a = ARENA_INIT;
	defib_err err = dialect_write(s, sql, params, 4, &a, NULL, f);
	arena_release(&a);
	return err;
}

defib_err outbox_end(struct store *s, const struct delivery *d, const char *how, const char *answer,
                     struct failure *f)
{
	return note(
		s,
		"UPDATE defib.delivery SET ended = $3, answer = $4, ended_at = {now} WHERE seq = $1 "
		"AND tries = $2 AND ended IS NULL",
		d, P_TEXT(how), answer, f);
}

defib_err outbox_again(struct store *s, const struct delivery *d, int64_t wait_us,
                       const char *answer, struct failure *f)
{
	return note(s,
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
	struct arena a = ARENA_INIT;
	defib_err err = dialect_write(
		s,
		"UPDATE defib.delivery SET ended = 'given up', ended_at = {now}, answer = "
		"coalesce(answer, 'no daemon has this sink') WHERE ended IS NULL AND due_at < {now} AND "
		"made_at < {now} - {span $1::bigint}",
		&ages[0], 1, &a, NULL, f);
	if (!err)
		err = dialect_write(s,
		                    "DELETE FROM defib.delivery WHERE ended IS NOT NULL AND ended_at < "
		                    "{now} - {span $1::bigint}",
		                    &ages[1], 1, &a, NULL, f);
	arena_release(&a);
	return err;
}

/* ---- looking ---- */

defib_err outbox_read(struct store *s, int limit, struct arena *a, struct delivery_row **out,
                      int *n, struct failure *f)
{
	struct store_param param = P_INT(limit);
	struct store_rows rows;
	*n = 0;
	defib_err err = dialect_exec(s,
	                             "SELECT seq, tries, {us made_at}, {us due_at}, {us ended_at}, "
	                             "sink, id, kind, answer, ended, document::text FROM "
	                             "defib.delivery ORDER BY seq DESC LIMIT $1",
	                             &param, 1, a, &rows, f);
	if (err)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct delivery_row, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		(*out)[i] = (struct delivery_row){
			.seq = row_int(&rows, i, 0, 0),
			.tries = row_int(&rows, i, 1, 0),
			.made_us = row_int(&rows, i, 2, 0),
			.due_us = row_int(&rows, i, 3, 0),
			.ended_us = row_int(&rows, i, 4, 0),
			.sink = row_text(&rows, i, 5),
			.id = row_text(&rows, i, 6),
			.kind = row_text(&rows, i, 7),
			.answer = row_text(&rows, i, 8),
			.ended = row_text(&rows, i, 9),
			.document = row_text(&rows, i, 10),
		};
	return DEFIB_OK;
}
