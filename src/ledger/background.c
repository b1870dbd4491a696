/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/background.h"

#include "ledger/events.h"
#include "ledger/schema.h"
#include "store/dialect.h"
#include "watch/terms.h"

#include <jansson.h>

#define TABLE "defib.act"
#define ID_CHARS "0123456789abcdef-"
#define ID_MAX 32
#define OUTCOME_CHARS "abcdefghijklmnopqrstuvwxyz "
#define COLUMNS                                                                                    \
	"id, watch, act, terms, step, reason, actor, state, overrides, total, up_to, position, "       \
	"parts, done, others, refusal, error, role, {us at}, {us updated_at}, {us ended_at}"

defib_err background_open(struct store *s, bool create, bool *there, struct failure *f)
{
	/* Whoever orders one need not be able to delete it. */
	defib_err err = schema_ready(s, "act", SCHEMA_DAEMON, false, there, f);
	return err || *there || !create ? err : schema_ready(s, "act", SCHEMA_DAEMON, create, there, f);
}

defib_err background_add(struct store *s, struct background_act *act, struct arena *a,
                         struct failure *f)
{
	static const char sql[] =
		"INSERT INTO defib.act (id, watch, act, terms, step, overrides, reason, actor, at, total, "
		"up_to, state, ended_at) VALUES ($1, $2, $3, $4, $5, $6::bigint <> 0, $7, $8, {now}, $9, "
		"$10, $11::text, CASE WHEN $11::text = '" BACKGROUND_DONE
		"' THEN {now} END) RETURNING actor";
	const struct store_param params[] = {
		P_TEXT(act->id),   P_TEXT(act->watch),    P_TEXT(act->act),    P_TEXT(act->terms),
		P_TEXT(act->step), P_INT(act->overrides), P_TEXT(act->reason), P_TEXT(act->actor),
		P_INT(act->total), P_TEXT(act->up_to),    P_TEXT(act->state)};
	struct store_rows rows;
	defib_err err = dialect_write(s, sql, params, 11, a, &rows, f);
	if (!err && row_text(&rows, 0, 0))
		act->actor = row_text(&rows, 0, 0);
	return err;
}

#define M(member) ROW_MEMBER(struct background_act, member)
#define NEEDED(member) ROW_NEEDED(struct background_act, member)
#define UP_TO(member, least, most) ROW_WITHIN(struct background_act, member, least, most)
static const struct row_member members[] = {NEEDED(id),
                                            NEEDED(watch),
                                            NEEDED(act),
                                            NEEDED(terms),
                                            M(step),
                                            M(reason),
                                            NEEDED(actor),
                                            NEEDED(state),
                                            M(overrides),
                                            UP_TO(total, -1, ROW_INT_MOST),
                                            M(up_to),
                                            M(position),
                                            UP_TO(parts, 0, BACKGROUND_PARTS_MAX),
                                            UP_TO(done, 0, BACKGROUND_DONE_MAX),
                                            NEEDED(others),
                                            M(refusal),
                                            M(error),
                                            M(role),
                                            M(at_us),
                                            M(updated_us),
                                            M(ended_us)};
#undef UP_TO
#undef NEEDED
#undef M

/* ---- what is no act of ours ---- */

static bool terms_good(const char *text)
{
	json_auto_t *list = json_loads(text, 0, NULL);
	size_t i;
	json_t *item;
	json_array_foreach(list, i, item)
	{
		if (!json_is_string(item))
			return false;
	}
	return json_is_array(list) && json_array_size(list) <= TERMS_MAX;
}

static bool others_good(const char *text)
{
	json_auto_t *counts = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	const char *name;
	json_t *n;
	json_object_foreach(counts, name, n)
	{
		int64_t count = json_is_integer(n) ? json_integer_value(n) : -1;
		if (strspn(name, OUTCOME_CHARS) != strlen(name) || count < 0 || count > BACKGROUND_DONE_MAX)
			return false;
	}
	return json_is_object(counts);
}

/* A sentence about a row that no program of ours wrote; NULL: it can be one of ours. */
static const char *row_fault(const struct background_act *x)
{
	static const char *const states[] = {BACKGROUND_WAITING, BACKGROUND_RUNNING,   BACKGROUND_DONE,
	                                     BACKGROUND_FAILED,  BACKGROUND_CANCELLED, NULL};
	size_t n = strlen(x->id);
	if (n == 0 || n > ID_MAX || strspn(x->id, ID_CHARS) != n)
		return "id is not the name of a batch";
	if (word_index(states, x->state) < 0)
		return "state is unknown";
	if (!terms_good(x->terms))
		return "terms is not a list of texts";
	return others_good(x->others) ? NULL : "others does not have numbers by name";
}

/* Those that are acts; *aside is the id of another, "" if it has none, NULL if all are. */
static struct background_act *background_rows_take_rows(const struct store_rows *rows,
                                                        struct arena *a, int *n, const char **aside)
{
	int good = 0;
	struct background_act *all = ROWS_READ_FROM(TABLE, rows, members, struct background_act, a, n);
	for (int i = 0; i < *n; i++) {
		const char *why = row_fault(&all[i]);
		if (why)
			row_set_aside(TABLE, all[i].id, why);
		else
			all[good++] = all[i];
	}
	*n = good;
	for (int i = 0, at = 0; aside && i < rows->nrows; i++) {
		const char *id = row_text(rows, i, 0);
		if (at < good && text_eq(all[at].id, id))
			at++;
		else
			*aside = id ? id : "";
	}
	return all;
}

defib_err background_read(struct store *s, const char *id, int64_t limit, struct arena *a,
                          struct background_act **out, int *n, struct failure *f)
{
	static const char one[] = "SELECT " COLUMNS " FROM defib.act WHERE id = $1 LIMIT $2";
	static const char all[] = "SELECT " COLUMNS " FROM defib.act WHERE $1::text IS NULL ORDER BY "
							  "ended_at IS NULL DESC, at DESC LIMIT $2";
	const struct store_param params[] = {P_TEXT(id), P_INT(limit)};
	struct store_rows rows;
	defib_err err = dialect_exec(s, id ? one : all, params, 2, a, &rows, f);
	*out = background_rows_take_rows(&rows, a, n, NULL);
	return err;
}

/* It is not read again: those that can be carried out must not wait behind it. */
static defib_err end_aside(struct store *s, const char *id, struct failure *f)
{
	const struct store_param param = P_TEXT(id);
	return dialect_write(s,
	                     "UPDATE defib.act SET state = '" BACKGROUND_FAILED
	                     "', ended_at = {now}, error = 'no program of defib wrote this row' WHERE "
	                     "coalesce(id, '') = $1 AND ended_at IS NULL",
	                     &param, 1, NULL, NULL, f);
}

defib_err background_read_open(struct store *s, struct arena *a, struct background_act **out,
                               int *n, struct failure *f)
{
	const char *aside = NULL;
	struct store_rows rows;
	defib_err err = dialect_exec(
		s, "SELECT " COLUMNS " FROM defib.act WHERE ended_at IS NULL ORDER BY at, id LIMIT 100",
		NULL, 0, a, &rows, f);
	*out = background_rows_take_rows(&rows, a, n, &aside);
	return !err && aside ? end_aside(s, aside, f) : err;
}

defib_err background_advance(struct store *s, const struct background_act *act, bool *goes_on,
                             struct failure *f)
{
	static const char sql[] =
		"UPDATE defib.act SET position = $2, parts = $3, done = $4, others = $5, refusal = $6, "
		"error = $7, updated_at = {now}, state = CASE WHEN ended_at IS NULL THEN $8 ELSE state "
		"END, ended_at = CASE WHEN ended_at IS NULL AND $8 <> '" BACKGROUND_RUNNING
		"' THEN {now} ELSE ended_at END WHERE id = $1 RETURNING state";
	const struct store_param params[] = {
		P_TEXT(act->id),     P_TEXT(act->position), P_INT(act->parts),  P_INT(act->done),
		P_TEXT(act->others), P_TEXT(act->refusal),  P_TEXT(act->error), P_TEXT(act->state)};
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = dialect_write(s, sql, params, 8, &a, &rows, f);
	*goes_on = text_eq(row_text(&rows, 0, 0), BACKGROUND_RUNNING);
	return err;
}

defib_err background_changed(struct store *s, const char *id, int64_t *n, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF sql = BUF_INIT;
	const struct store_param params[] = {P_TEXT(id), P_TEXT(arena_printf(&a, "%s.", id)),
	                                     P_TEXT(arena_printf(&a, "%s/", id))};
	buf_add(&sql, "SELECT count(DISTINCT l.job) FROM defib.ledger AS l WHERE (l.batch = $1 OR "
	              "{between_bytes l.batch|$2|$3}) AND ");
	event_marked_sql(&sql, "l", MARK_CHANGES);
	return dialect_int(s, buf_text(&sql), params, 3, n, f);
}

defib_err background_cancel(struct store *s, const char *id, bool *was, struct failure *f)
{
	const struct store_param param = P_TEXT(id);
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = dialect_write(s,
	                              "UPDATE defib.act SET state = '" BACKGROUND_CANCELLED
	                              "', ended_at = {now} WHERE id = $1 AND ended_at IS NULL",
	                              &param, 1, &a, &rows, f);
	*was = rows.affected > 0;
	return err;
}
