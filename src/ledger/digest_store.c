/* SPDX-License-Identifier: Apache-2.0 */
/* digest_store.c: digests from the ledger and from their table; see digest.h. */

#include "ledger/digest_store.h"

#include "base/clock.h"
#include "base/hash.h"
#include "ledger/digest.h"
#include "ledger/events.h"
#include "ledger/jobs.h"
#include "ledger/overrides.h"

#define PAGE_ROWS 5000 /* of the ledger, read at once */
#define FORM_CHARS 16
#define OF_ALL "*" /* the row of a digest that says that there is one, whatever its watches */

/* ---- entries of the ledger ---- */

/* `whole`: with what only lists and times need. */
static void entries_sql(bool whole, struct buf *sql)
{
	buf_add(sql, "SELECT l.watch, {stamp_us l.at}, l.event, CASE WHEN l.event = '" ENTRY_GUARD_HELD
	             "' THEN l.rule END, ");
	event_judged_sql(sql, "l");
	buf_add(sql, ", ");
	event_by_person_sql(sql, "l");
	buf_add(sql, ", l.id, CAST(l.at AS text)");
	if (whole) {
		buf_add(sql, ", l.verdict, coalesce({member l.evidence|law}, l.rule), {member "
		             "l.evidence|kind}, {member l.evidence|owner}, l.job, l.actor, CASE WHEN ");
		event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_AUTOMATION);
		buf_add(sql, " THEN CAST(round((");
		sql_seconds_lost("l.at", sql);
		buf_add(sql, ") * 1000) AS bigint) END");
	}
	buf_add(sql, " FROM defib.ledger AS l WHERE ");
}

/* The columns of entries_sql(), in its order. */
#define M(member) ROW_MEMBER(struct digest_entry, member)
static const struct row_member members[] = {
	M(watch),   M(at_us), M(event), M(rule),    M(judged),
	M(by_hand), M(id),    M(at),    M(verdict), M(law),
	M(kind),    M(owner), M(job),   M(actor),   ROW_GIVEN(struct digest_entry, has_lost),
	M(lost_ms)};
#undef M
enum { MEMBERS = sizeof members / sizeof *members, NOT_WHOLE = 8 };

static struct digest_entry *entries_of(const struct store_rows *rows, bool whole, struct arena *a,
                                       int *n)
{
	return rows_read(NULL, rows, members, whole ? MEMBERS : NOT_WHOLE, sizeof(struct digest_entry),
	                 a, n);
}

/* ---- which digests there are ---- */

/*
 * By what entries are summed up: the statement that reads them, and what their events count as. A
 * digest that another version of this made is not used.
 */
static void digest_store_form_of(const struct store *s, char out[FORM_CHARS + 1])
{
	AUTO_BUF text = BUF_INIT;
	char hex[SHA256_HEX];
	buf_addf(&text, "1 %d %d ", (int)s->engine, DIGEST_IDS);
	entries_sql(true, &text);
	event_counts_sql(&text, "l", COUNTS_DETECTED, BY_AUTOMATION);
	event_counts_sql(&text, "l", COUNTS_RECOVERED, BY_ANYBODY);
	sha256_hex(buf_text(&text), text.len, hex);
	snprintf(out, FORM_CHARS + 1, "%.*s", FORM_CHARS, hex);
}

/* Entries after `from` up to `to` have digests; the ledger has ids from `lowest` to `highest`. */
struct extent {
	bool there;
	int64_t from, to;
	int64_t lowest, highest;
};

static defib_err read_extent(struct store *s, const char *form, struct arena *a, struct extent *out,
                             struct failure *f)
{
	static const char sql[] =
		"SELECT (SELECT first_id FROM defib.digest WHERE form = $1 AND watch = '" OF_ALL
		"' ORDER BY last_id LIMIT 1), (SELECT max(last_id) FROM defib.digest WHERE form = $1 AND "
		"watch = '" OF_ALL "'), (SELECT min(id) FROM defib.ledger), (SELECT max(id) FROM "
		"defib.ledger)";
	struct store_param param = P_TEXT(form);
	struct store_rows rows;
	defib_err err = dialect_exec(s, sql, &param, 1, a, &rows, f);
	if (err)
		return err;
	*out =
		(struct extent){row_text(&rows, 0, 1) != NULL, row_int(&rows, 0, 0, 0),
	                    row_int(&rows, 0, 1, 0), row_int(&rows, 0, 2, 0), row_int(&rows, 0, 3, 0)};
	/* Digests of more than the ledger has are of another one, or everything was pruned. */
	out->there = out->there && out->to <= out->highest;
	return DEFIB_OK;
}

/* ---- reading ---- */

struct reader {
	struct store *store;
	const char *watch;
	struct period before, now;
	bool only_times;
	struct arena *arena; /* for the sums */
	struct digest_sums sums_before, sums_now;
};

/* Ids after `after` up to `to`; `few`: they are found by id, not by watch and time. */
struct id_range {
	int64_t after, to;
	bool few;
};

/* What the ledger has of a range within a period, page by page. */
static defib_err digest_store_read_part(struct reader *r, const struct id_range *ids,
                                        const struct period *p, bool whole,
                                        struct digest_sums *sums, struct failure *f)
{
	AUTO_BUF sql = BUF_INIT, from = BUF_INIT, to = BUF_INIT;
	struct arena pages[2] = {ARENA_INIT, ARENA_INIT};
	defib_err err = DEFIB_OK;
	int64_t last = 0;
	int n = PAGE_ROWS, page = 0;
	entries_sql(whole, &sql);
	/* An expression on the watch keeps a planner from reading all of its entries. */
	buf_addf(&sql,
	         "%s = $1 AND l.at >= $2::timestamptz AND l.at < $3::timestamptz AND l.id > $4 AND "
	         "l.id <= $5 AND (l.at > $2::timestamptz OR l.id > $6) ORDER BY l.at, l.id LIMIT %d",
	         ids->few ? "(l.watch || '')" : "l.watch", PAGE_ROWS);
	time_iso(p->from_us, &from);
	time_iso(p->to_us, &to);
	const char *begin = buf_text(&from);
	while (!err && n == PAGE_ROWS) {
		/* The last row of a page says where the next one begins, so two pages are kept. */
		struct arena *a = &pages[page++ % 2];
		struct store_param params[] = {P_TEXT(r->watch),  P_TEXT(begin),  P_TEXT(buf_text(&to)),
		                               P_INT(ids->after), P_INT(ids->to), P_INT(last)};
		struct store_rows rows;
		arena_clear(a);
		err = dialect_exec(r->store, buf_text(&sql), params, 6, a, &rows, f);
		const struct digest_entry *all = entries_of(&rows, whole, a, &n);
		for (int i = 0; i < n; i++)
			digest_add(sums, &all[i], whole);
		if (n) {
			last = all[n - 1].id;
			begin = all[n - 1].at;
		}
	}
	arena_release(&pages[0]);
	arena_release(&pages[1]);
	return err;
}

static defib_err read_range(struct reader *r, const struct id_range *ids, struct failure *f)
{
	defib_err err = DEFIB_OK;
	if (!r->only_times)
		err = digest_store_read_part(r, ids, &r->before, false, &r->sums_before, f);
	return err ? err : digest_store_read_part(r, ids, &r->now, true, &r->sums_now, f);
}

static bool digest_store_within(int64_t from_us, int64_t to_us, const struct period *p)
{
	return from_us >= p->from_us && to_us < p->to_us;
}

/* Lists and times of the period before are not asked for, and are long. */
#define STORED_COLUMNS                                                                             \
	"d.first_id, d.last_id, d.from_us, d.to_us, d.events, CASE WHEN d.to_us >= $5 AND $6 > 0 "     \
	"THEN d.tops END, CASE WHEN d.to_us >= $5 THEN d.times END"

static defib_err digest_store_add_stored(struct reader *r, const char *form, const struct extent *x,
                                         struct failure *f)
{
	struct store_param params[] = {P_TEXT(form),
	                               P_TEXT(r->watch),
	                               P_INT(r->only_times ? r->now.from_us : r->before.from_us),
	                               P_INT(r->now.to_us),
	                               P_INT(r->now.from_us),
	                               P_INT(!r->only_times),
	                               P_INT(x->to)};
	struct store_rows rows;
	defib_err err = dialect_exec(r->store,
	                             "SELECT " STORED_COLUMNS " FROM defib.digest AS d WHERE d.form = "
	                             "$1 AND d.watch = $2 AND d.to_us >= $3 AND d.from_us < $4 AND "
	                             "d.last_id <= $7 ORDER BY d.last_id",
	                             params, 7, r->arena, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		struct id_range ids = {row_int(&rows, i, 0, 0), row_int(&rows, i, 1, 0), true};
		int64_t from_us = row_int(&rows, i, 2, 0), to_us = row_int(&rows, i, 3, 0);
		if (ids.to < x->lowest) /* pruned */
			continue;
		bool complete = ids.after >= x->lowest - 1;
		if (complete && digest_store_within(from_us, to_us, &r->now))
			digest_add_texts(&r->sums_now, row_text(&rows, i, 4), row_text(&rows, i, 5),
			                 row_text(&rows, i, 6));
		else if (complete && digest_store_within(from_us, to_us, &r->before))
			digest_add_texts(&r->sums_before, row_text(&rows, i, 4), NULL, NULL);
		else
			err = read_range(r, &ids, f);
	}
	return err;
}

static defib_err digest_store_read_all(struct reader *r, struct failure *f)
{
	char form[FORM_CHARS + 1];
	struct extent x = {.there = false};
	bool table = false;
	defib_err err = daemon_table_open(r->store, "digest", false, &table, f);
	if (err == DEFIB_PERMISSION) { /* then the ledger says it all */
		fail_clear(f);
		err = DEFIB_OK;
	}
	if (!err && table) {
		digest_store_form_of(r->store, form);
		err = read_extent(r->store, form, r->arena, &x, f);
	}
	if (err)
		return err;
	if (!x.there)
		return read_range(r, &(struct id_range){0, INT64_MAX, false}, f);
	err = digest_store_add_stored(r, form, &x, f);
	if (!err && x.lowest <= x.from)
		err = read_range(r, &(struct id_range){0, x.from, false}, f);
	return err ? err : read_range(r, &(struct id_range){x.to, INT64_MAX, true}, f);
}

static defib_err read_digest(struct store *s, const char *watch, const struct period *p, int limit,
                             bool only_times, struct arena *a, struct digest *out,
                             struct failure *f)
{
	struct reader r = {
		.store = s,
		.watch = watch,
		.before = {2 * p->from_us - p->to_us, p->from_us},
		.now = *p,
		.only_times = only_times,
		.arena = a,
	};
	*out = (struct digest){0};
	digest_sums_init(&r.sums_before, a);
	digest_sums_init(&r.sums_now, a);
	defib_err err = digest_store_read_all(&r, f);
	if (!err)
		digest_of_sums(&r.sums_before, &r.sums_now, limit, out);
	return err;
}

defib_err ledger_digest(struct store *s, const char *watch, const struct period *p, int limit,
                        struct arena *a, struct digest *out, struct failure *f)
{
	return read_digest(s, watch, p, limit, false, a, out, f);
}

defib_err digest_times(struct store *s, const char *watch, const struct period *p,
                       struct digest_times *out, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct digest d;
	defib_err err = read_digest(s, watch, p, 0, true, &a, &d, f);
	*out = d.times;
	return err;
}

/* ---- writing ---- */

static void digest_store_put_row(struct relation *r, const char *form, const char *watch,
                                 const struct id_range *ids, int64_t from_us, int64_t to_us,
                                 const struct digest_sums *d)
{
	AUTO_BUF events = BUF_INIT, tops = BUF_INIT, times = BUF_INIT;
	digest_map_text(&d->events, &events);
	digest_map_text(&d->tops, &tops);
	digest_times_text(d, &times);
	relation_text(r, form);
	relation_text(r, watch);
	relation_int(r, ids->after);
	relation_int(r, ids->to);
	relation_int(r, from_us);
	relation_int(r, to_us);
	relation_text(r, buf_text(&events));
	relation_text(r, buf_text(&tops));
	relation_text(r, buf_text(&times));
	relation_end_row(r);
}

/* One row per watch, and one that says that there is a digest; entries are in the order of watches.
 */
static void put_rows(struct relation *r, const char *form, const struct id_range *ids,
                     const struct digest_entry *all, int n, struct arena *a)
{
	struct digest_sums none, d;
	digest_sums_init(&none, a);
	digest_store_put_row(r, form, OF_ALL, ids, 0, 0, &none);
	for (int i = 0, end; i < n; i = end) {
		int64_t from_us = INT64_MAX, to_us = INT64_MIN;
		digest_sums_init(&d, a);
		for (end = i; end < n && text_eq(all[i].watch, all[end].watch); end++) {
			digest_add(&d, &all[end], true);
			from_us = all[end].at_us < from_us ? all[end].at_us : from_us;
			to_us = all[end].at_us > to_us ? all[end].at_us : to_us;
		}
		digest_store_put_row(r, form, all[i].watch, ids, from_us, to_us, &d);
	}
}

/* Another daemon may have written the same: it is the same. */
static defib_err digest_store_write_one(struct store *s, const char *form,
                                        const struct id_range *ids, struct failure *f)
{
	static const char *const columns[] = {"form",   "text",    "watch",  "text",    "first_id",
	                                      "bigint", "last_id", "bigint", "from_us", "bigint",
	                                      "to_us",  "bigint",  "events", "text",    "tops",
	                                      "text",   "times",   "text",   NULL};
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF sql = BUF_INIT;
	AUTO_RELATION r = {.engine = s->engine};
	struct store_param params[] = {P_INT(ids->after), P_INT(ids->to)};
	struct store_rows rows;
	int n = 0;
	entries_sql(true, &sql);
	buf_add(&sql, "l.id > $1 AND l.id <= $2 ORDER BY l.watch");
	defib_err err = dialect_exec(s, buf_text(&sql), params, 2, &a, &rows, f);
	if (!err)
		err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	const struct digest_entry *all = entries_of(&rows, true, &a, &n);
	relation_make(&r, s->engine, columns);
	put_rows(&r, form, ids, all, n, &a);
	err = run_over(s, &r,
	               "INSERT INTO defib.digest (form, watch, first_id, last_id, from_us, to_us, "
	               "events, tops, times) SELECT u.* FROM (",
	               ") AS u WHERE true ON CONFLICT (form, watch, last_id) DO NOTHING", NULL, 0, &a,
	               &rows, f);
	return store_end(s, err, f);
}

/* Digests that another version made, of another ledger, and of entries that were pruned. */
static defib_err remove_useless(struct store *s, const char *form, const struct extent *x,
                                struct arena *a, struct failure *f)
{
	struct store_param params[] = {P_TEXT(form), P_INT(x->there ? x->lowest : INT64_MAX)};
	struct store_rows rows;
	return store_write(s,
	                   dialect_sql(store_dialect(s), a,
	                               "DELETE FROM defib.digest WHERE form <> $1 OR last_id < $2"),
	                   params, 2, a, &rows, f);
}

defib_err digest_write(struct store *s, int64_t top, int most, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	char form[FORM_CHARS + 1];
	struct extent x;
	bool table = false;
	if (top < DIGEST_IDS)
		return DEFIB_OK;
	defib_err err = daemon_table_open(s, "digest", true, &table, f);
	if (err == DEFIB_PERMISSION) { /* reports are slower; doctor says why */
		fail_clear(f);
		return DEFIB_OK;
	}
	digest_store_form_of(s, form);
	if (!err)
		err = read_extent(s, form, &a, &x, f);
	if (err)
		return err;
	int64_t from = x.there ? x.to : x.lowest - 1;
	if (top - from < DIGEST_IDS)
		return DEFIB_OK;
	err = remove_useless(s, form, &x, &a, f);
	for (int i = 0; i < most && !err && top - from >= DIGEST_IDS; i++, from += DIGEST_IDS)
		err = digest_store_write_one(s, form, &(struct id_range){from, from + DIGEST_IDS, true}, f);
	return err;
}
