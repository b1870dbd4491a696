/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/overrides.h"

#include "ledger/jobs.h"
#include "ledger/schema.h"
#include "store/dialect.h"
#include "watch/watch.h"

defib_err daemon_table_open(struct store *s, const char *table, bool create, bool *there,
                            struct failure *f)
{
	return schema_ready(s, table, SCHEMA_DAEMON, create, there, f);
}

defib_err override_read(struct store *s, struct arena *a, struct override **out, int *n,
                        struct failure *f)
{
#define M(member) ROW_MEMBER(struct override, member)
	static const struct row_member members[] = {M(watch),  M(name),  M(value),    M(actor),
	                                            M(reason), M(at_us), M(until_us), M(role)};
#undef M
	struct store_rows rows;
	defib_err err = dialect_exec(s,
	                             "SELECT watch, name, value, actor, reason, {us at}, {us until}, "
	                             "role FROM defib.setting WHERE "
	                             "until IS NULL OR until > {now} ORDER BY watch, name",
	                             NULL, 0, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct override, a, n);
	return err;
}

struct override_sum override_of(const struct override *words, int n, const char *watch)
{
	struct override_sum sum = {.factor = 1};
	for (int i = 0; i < n; i++) {
		const struct override *w = &words[i];
		if (!text_eq(w->watch, watch) && !text_eq(w->watch, "*"))
			continue;
		sum.paused = sum.paused || text_eq(w->name, "pause");
		if (text_eq(w->name, OVERRIDE_GUARDS)) {
			sum.override_us = w->at_us;
			sum.override_role = w->role;
		}
		double factor = text_eq(w->name, "raise") ? strtod(w->value, NULL) : 1;
		if (raise_factor_ok(factor) && factor > sum.factor) {
			sum.factor = factor;
			sum.raised_by = w->actor;
		}
	}
	return sum;
}

defib_err override_write(struct store *s, const struct override *word, int64_t for_us,
                         struct failure *f)
{
	static const char sql[] =
		"INSERT INTO defib.setting (watch, name, value, actor, reason, at, until) VALUES ($1, $2, "
		"$3, $4, $5, {now}, {now} + {span nullif($6::bigint, 0)}) ON CONFLICT (watch, name) DO "
		"UPDATE SET value = excluded.value, actor = excluded.actor, reason = excluded.reason, at = "
		"excluded.at, until = excluded.until";
	const struct store_param params[] = {P_TEXT(word->watch),  P_TEXT(word->name),
	                                     P_TEXT(word->value),  P_TEXT(word->actor),
	                                     P_TEXT(word->reason), P_INT(for_us)};
	return dialect_write(s, sql, params, 6, NULL, NULL, f);
}

defib_err override_remove(struct store *s, const char *watch, const char *name, bool *was,
                          struct failure *f)
{
	const struct store_param params[] = {P_TEXT(watch), P_TEXT(name)};
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = dialect_write(s, "DELETE FROM defib.setting WHERE watch = $1 AND name = $2",
	                              params, 2, &a, &rows, f);
	*was = !err && rows.affected > 0;
	return err;
}

defib_err override_set(struct store *s, const struct override *said, int64_t for_us,
                       struct arena *a, struct override_answer *out, struct failure *f)
{
	struct override *all = NULL;
	int n = 0;
	bool there;
	*out = (struct override_answer){.watch = said->watch, .name = said->name};
	defib_err err = daemon_table_open(s, "setting", true, &there, f);
	if (!err)
		err = override_write(s, said, for_us, f);
	if (!err)
		err = override_read(s, a, &all, &n, f);
	for (int i = 0; !err && i < n; i++)
		if (text_eq(all[i].watch, said->watch) && text_eq(all[i].name, said->name))
			out->in_force = &all[i];
	return err;
}

static const struct override *set_for_all(const struct override *all, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (text_eq(all[i].name, name) && text_eq(all[i].watch, "*"))
			return &all[i];
	return NULL;
}

static defib_err clear_one(struct store *s, struct override_answer *w, const char *watch,
                           const char *name, struct failure *f)
{
	*w = (struct override_answer){.watch = watch, .name = name};
	return override_remove(s, watch, name, &w->was, f);
}

defib_err override_clear(struct store *s, const char *watch, const char *name, struct arena *a,
                         struct override_answer **out, int *n, const struct override **still,
                         struct failure *f)
{
	struct override *all = NULL;
	int nall = 0;
	bool there, every = text_eq(watch, "*");
	*still = NULL;
	*n = 1;
	defib_err err = daemon_table_open(s, "setting", false, &there, f);
	if (!err && there)
		err = override_read(s, a, &all, &nall, f);
	*out = ARENA_ARRAY(a, struct override_answer, nall + 1);
	(*out)[0] = (struct override_answer){.watch = watch, .name = name};
	if (err || !there)
		return err;
	err = clear_one(s, *out, watch, name, f);
	if (!every)
		*still = set_for_all(all, nall, name);
	for (int i = 0; !err && every && i < nall; i++)
		if (text_eq(all[i].name, name) && !text_eq(all[i].watch, "*"))
			err = clear_one(s, &(*out)[(*n)++], all[i].watch, name, f);
	return err;
}

defib_err status_write(struct store *s, const char *watch, const char *holder, const char *info,
                       struct failure *f)
{
	static const char sql[] =
		"INSERT INTO defib.status (watch, at, holder, info) VALUES ($1, {now}, $2, $3::jsonb) ON "
		"CONFLICT (watch) DO UPDATE SET at = excluded.at, holder = excluded.holder, info = "
		"excluded.info";
	const struct store_param params[] = {P_TEXT(watch), P_TEXT(holder), P_TEXT(info)};
	/* After every pass. */
	return dialect_write_alone(s, sql, params, 3, NULL, NULL, f);
}

defib_err status_read(struct store *s, struct arena *a, struct status_row **out, int *n,
                      struct failure *f)
{
#define M(member) ROW_MEMBER(struct status_row, member)
	static const struct row_member members[] = {M(watch), M(holder), M(info),
	                                            M(at_us), M(age_us), M(led)};
#undef M
	/* A leader has one lease for all its watches: life/leader.h. */
	static const char sql[] =
		"SELECT st.watch, st.holder, st.info::text, {us st.at}, {us {now}} - {us st.at}, "
		"coalesce(l.holder IN (SELECT d.holder FROM defib.leader AS d WHERE d.expires_at > {now}), "
		"false) FROM defib.status st LEFT JOIN defib.leader l USING (watch) ORDER BY st.watch";
	struct store_rows rows;
	defib_err err = dialect_exec(s, sql, NULL, 0, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct status_row, a, n);
	return err;
}

/* ---- learned run times ---- */

#define NEW "{}" /* the "" row between its creation and its first document */

defib_err learned_read(struct store *s, const char *watch, struct arena *a,
                       struct learned_row **out, int *n, struct failure *f)
{
	static const struct row_member members[] = {ROW_MEMBER(struct learned_row, kind),
	                                            ROW_MEMBER(struct learned_row, document)};
	struct store_param param = P_TEXT(watch);
	struct store_rows rows;
	defib_err err = dialect_exec(s,
	                             "SELECT kind, buckets::text FROM defib.learned WHERE watch = $1 "
	                             "ORDER BY {bytes kind}",
	                             &param, 1, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct learned_row, a, n);
	return err;
}

/* Lock the "" row for this transaction; created if missing. */
static defib_err overrides_take(struct store *s, const char *watch, struct arena *a,
                                const char **now, struct failure *f)
{
	struct store_param param = P_TEXT(watch);
	struct store_rows rows;
	defib_err err =
		dialect_exec(s,
	                 "INSERT INTO defib.learned AS l (watch, kind, at, buckets) VALUES ($1, '', "
	                 "{now}, '" NEW "') ON CONFLICT (watch, kind) DO UPDATE SET watch = l.watch "
	                 "RETURNING buckets::text",
	                 &param, 1, a, &rows, f);
	*now = row_text(&rows, 0, 0);
	return err;
}

static defib_err overrides_put(struct store *s, const char *watch, const struct learned_row *rows,
                               int n, struct arena *a, struct failure *f)
{
	AUTO_RELATION r = {.engine = s->engine};
	relation_column(&r, "watch", "text");
	relation_column(&r, "kind", "text");
	relation_column(&r, "buckets", "jsonb");
	for (int i = 0; i < n; i++) {
		if (!rows[i].document)
			continue;
		relation_text(&r, watch);
		relation_text(&r, rows[i].kind);
		relation_text(&r, rows[i].document);
		relation_end_row(&r);
	}
	defib_err err = DEFIB_OK;
	if (r.nrows)
		err = run_over(
			s, &r, "INSERT INTO defib.learned (watch, kind, buckets, at) SELECT u.*, {now} FROM (",
			") AS u WHERE true ON CONFLICT (watch, kind) DO UPDATE SET buckets = "
			"excluded.buckets, at = excluded.at",
			NULL, 0, a, NULL, f);
	return err;
}

static defib_err take_away(struct store *s, const char *watch, const char *kind, struct arena *a,
                           struct failure *f)
{
	struct store_param params[] = {P_TEXT(watch), P_TEXT(kind)};
	return dialect_exec(s, "DELETE FROM defib.learned WHERE watch = $1 AND kind = $2", params, 2, a,
	                    NULL, f);
}

defib_err learned_write(struct store *s, const char *watch, const char *was,
                        const struct learned_row *rows, int n, struct arena *a, bool *taken,
                        struct failure *f)
{
	const char *now = NULL;
	*taken = false;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = overrides_take(s, watch, a, &now, f);
	if (!err && !text_eq(now, was ? was : NEW)) {
		store_rollback(s);
		return DEFIB_OK;
	}
	if (!err)
		err = overrides_put(s, watch, rows, n, a, f);
	for (int i = 0; i < n && !err; i++)
		if (!rows[i].document)
			err = take_away(s, watch, rows[i].kind, a, f);
	err = store_end(s, err, f);
	*taken = !err;
	return err;
}
