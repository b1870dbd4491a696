/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/seal.h"

#include "ledger/events.h"
#include "ledger/jobs.h"
#include "ledger/schema.h"

#include <inttypes.h>

#define PAGE_SEALS 500    /* read at a time … */
#define PAGE_ENTRIES 5000 /* … and entries for them, unless one seal has more */

/* The sealed text of an entry. */
static const char function_text[] =
	"defib.ledger_line(l.id, l.at, l.batch, l.watch, l.job, l.event, l.actor, l.verdict, l.rule, "
	"l.reason, l.evidence, l.before, l.after, l.epoch)";

/* SQLite stores any type in any column, and JSON cannot hold all of them. */
/* clang-format off */
#define LITE(column) \
	"CASE typeof(l." #column ") WHEN 'blob' THEN hex(l." #column ") ELSE l." #column " END"
static const char lite_text[] =
	"json_array(" LITE(id) ", " LITE(at) ", " LITE(batch) ", " LITE(watch) ", " LITE(job) ", "
	LITE(event) ", " LITE(actor) ", " LITE(verdict) ", " LITE(rule) ", " LITE(reason) ", "
	LITE(evidence) ", " LITE(before) ", " LITE(after) ", " LITE(epoch) ")";
/* clang-format on */

struct seal_row {
	int64_t last_id, first_id, entries, next_id;
	const char *role, *seal;
};

/* Entries above `after` up to `until`, as (id, text) in order. */
static defib_err read_texts(struct store *s, int64_t after, int64_t until, struct arena *a,
                            struct store_rows *rows, struct failure *f)
{
	struct store_param params[] = {P_INT(after), P_INT(until)};
	const char *sql = arena_printf(
		a, "SELECT l.id, %s FROM defib.ledger l WHERE l.id > $1 AND l.id <= $2 ORDER BY l.id",
		store_dialect(s)->has_functions ? function_text : lite_text);
	return dialect_exec(s, sql, params, 2, a, rows, f);
}

/* The seal over rows from..to of (id, text), after `before`. */
static void make_seal(const char *before, const char *role, const struct store_rows *rows, int from,
                      int to, char seal[SHA256_HEX])
{
	AUTO_BUF text = BUF_INIT;
	buf_addf(&text, "%s\n%s", before, role);
	for (int i = from; i < to; i++) {
		buf_add(&text, "\n");
		buf_add(&text, row_text(rows, i, 1));
	}
	sha256_hex(buf_text(&text), text.len, seal);
}

/* ---- adding, on engines without the trigger ---- */

static defib_err append_seal(struct store *s, int64_t before_id, const char *before,
                             const struct store_rows *rows, struct arena *a, struct failure *f)
{
	char seal[SHA256_HEX];
	int64_t last_id = row_int(rows, rows->nrows - 1, 0, 0);
	make_seal(before, "", rows, 0, rows->nrows, seal);
	struct store_param link[] = {P_INT(before_id), P_INT(last_id)};
	struct store_param params[] = {P_INT(last_id), P_INT(row_int(rows, 0, 0, 0)),
	                               P_INT(rows->nrows), P_TEXT(seal)};
	defib_err err = dialect_exec(s, "UPDATE defib.ledger_seal SET next_id = $2 WHERE last_id = $1",
	                             link, 2, a, NULL, f);
	return err ? err
	           : dialect_exec(
					 s,
					 "INSERT INTO defib.ledger_seal (last_id, first_id, entries, role, seal) "
					 "VALUES ($1, $2, $3, '', $4)",
					 params, 4, a, NULL, f);
}

defib_err seal_added(struct store *s, struct arena *a, struct failure *f)
{
	struct store_rows end, rows = {0};
	if (store_dialect(s)->seals_itself)
		return DEFIB_OK;
	defib_err err =
		dialect_exec(s, "SELECT last_id, seal FROM defib.ledger_seal WHERE next_id IS NULL", NULL,
	                 0, a, &end, f);
	if (!err && end.nrows != 1) {
		fail(f, DEFIB_DATABASE, "the ledger's chain of seals has no last seal");
		fail_advise(f, ADVISE_VERIFY_LEDGER, NULL);
		return DEFIB_DATABASE;
	}
	if (!err)
		err = read_texts(s, row_int(&end, 0, 0, 0), INT64_MAX, a, &rows, f);
	if (err || rows.nrows == 0)
		return err;
	return append_seal(s, row_int(&end, 0, 0, 0), row_text(&end, 0, 1), &rows, a, f);
}

/* ---- verifying ---- */

struct seal_check {
	struct store *store;
	const char *expected;
	struct on_count on_count;
	struct seal_report *report;
	struct arena *keep; /* what the report points to */
	struct arena page;
	int64_t at;            /* checked up to here */
	int64_t next;          /* and this seal comes next; 0: none */
	char seal[SHA256_HEX]; /* of `at` */
};

static void seal_broken(struct seal_check *c, int64_t at, const char *what)
{
	if (c->report->broken)
		return;
	c->report->broken = what;
	c->report->broken_at = at;
}

static defib_err read_seals(struct seal_check *c, int64_t after, int64_t limit,
                            struct seal_row **out, int *n, struct failure *f)
{
#define M(member) ROW_MEMBER(struct seal_row, member)
	static const struct row_member members[] = {M(last_id), M(first_id), M(entries),
	                                            M(next_id), M(role),     M(seal)};
#undef M
	struct store_param params[] = {P_INT(after), P_INT(limit)};
	struct store_rows rows;
	static const char sql[] = "SELECT last_id, first_id, entries, next_id, role, seal FROM "
							  "defib.ledger_seal WHERE last_id > $1 ORDER BY last_id LIMIT $2";
	defib_err err = dialect_exec(c->store, sql, params, 2, &c->page, &rows, f);
	*out = ROWS_READ(&rows, members, struct seal_row, &c->page, n);
	return err;
}

static void seal_take(struct seal_check *c, const struct seal_row *r)
{
	c->at = r->last_id;
	c->next = r->next_id;
	snprintf(c->seal, sizeof c->seal, "%s", r->seal);
	c->report->has_expected = c->report->has_expected || text_eq(c->expected, r->seal);
}

/* Check one seal against the entries between the previous one and it. */
static void check_seal(struct seal_check *c, const struct seal_row *r,
                       const struct store_rows *rows, int from, int to)
{
	char seal[SHA256_HEX];
	int64_t first = c->at + 1;
	make_seal(c->seal, r->role, rows, from, to, seal);
	if (c->next != r->last_id)
		seal_broken(c, first,
		            arena_printf(c->keep, "a seal between %" PRId64 " and %" PRId64 " is missing",
		                         c->at, r->last_id));
	else if (to - from != r->entries)
		seal_broken(c, first,
		            arena_printf(c->keep,
		                         "entries %" PRId64 " to %" PRId64 ": %d found, %" PRId64
		                         " sealed: some were removed or added",
		                         r->first_id, r->last_id, to - from, r->entries));
	else if (!text_eq(seal, r->seal))
		seal_broken(c, first,
		            arena_printf(c->keep,
		                         "entries %" PRId64 " to %" PRId64
		                         " differ from what was sealed: an entry or the seal was changed",
		                         r->first_id, r->last_id));
	c->report->first_id = c->report->first_id ? c->report->first_id : r->first_id;
	c->report->last_id = r->last_id;
	c->report->entries += to - from;
	c->report->seals++;
	seal_take(c, r);
}

/* Part of a page of seals, with a limited number of entries. */
static defib_err check_some(struct seal_check *c, const struct seal_row *seals, int n, int *done,
                            struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	int64_t entries = 0;
	int take_n = 0, row = 0;
	while (take_n < n && (take_n == 0 || entries + seals[take_n].entries <= PAGE_ENTRIES))
		entries += seals[take_n++].entries;
	defib_err err = read_texts(c->store, c->at, seals[take_n - 1].last_id, &a, &rows, f);
	for (int i = 0; !err && i < take_n && !c->report->broken; i++) {
		int from = row;
		while (row < rows.nrows && row_int(&rows, row, 0, 0) <= seals[i].last_id)
			row++;
		check_seal(c, &seals[i], &rows, from, row);
	}
	*done += take_n;
	return err;
}

/* Nothing may be missing after the anchor that no PRUNED entry explains. */
static defib_err check_anchor(struct seal_check *c, const struct seal_row *anchor,
                              struct failure *f)
{
	static const char pruned_sql[] =
		"SELECT count(*) FROM defib.ledger WHERE event = '" ENTRY_PRUNED "' AND CAST({member "
		"evidence|last_id} AS text) = $1 AND {member evidence|seal} = $2";
	const char *id = arena_printf(&c->page, "%" PRId64, anchor->last_id);
	struct store_param params[] = {P_TEXT(id), P_TEXT(anchor->seal)};
	int64_t left = 0, pruned = 0;
	defib_err err = dialect_int(c->store, "SELECT count(*) FROM defib.ledger WHERE id <= $1",
	                            &P_INT(anchor->last_id), 1, &left, f);
	if (!err && left)
		seal_broken(c, 1, "entries exist before the start of the chain");
	if (err || anchor->last_id == 0)
		return err;
	err = dialect_int(c->store, pruned_sql, params, 2, &pruned, f);
	if (!err && pruned == 0)
		seal_broken(c, 1, "the start of the ledger was removed without a PRUNED entry");
	return err;
}

/* Whether there are entries after the last seal: *id is the first, 0: none. */
static defib_err first_behind(struct seal_check *c, int64_t *id, struct failure *f)
{
	return dialect_int(c->store, "SELECT min(id) FROM defib.ledger WHERE id > $1", &P_INT(c->at), 1,
	                   id, f);
}

/*
 * The seals after the one that was last checked, which is read again with them because it may have
 * a successor by now. `behind` is an entry that followed the last seal before this was read.
 */
static defib_err check_page(struct seal_check *c, int64_t behind, bool *more, struct failure *f)
{
	struct seal_row *seals = NULL;
	int n = 0, done = 1;
	arena_clear(&c->page);
	defib_err err = read_seals(c, c->at - 1, PAGE_SEALS + 1, &seals, &n, f);
	if (err)
		return err;
	*more = n > 1;
	if (n == 0 || seals[0].last_id != c->at) {
		seal_broken(c, c->at, arena_printf(c->keep, "seal %" PRId64 " is missing", c->at));
		return DEFIB_OK;
	}
	c->next = seals[0].next_id;
	while (!err && done < n && !c->report->broken)
		err = check_some(c, seals + done, n - done, &done, f);
	if (n == 1 && c->next)
		seal_broken(c, c->at + 1,
		            arena_printf(c->keep,
		                         "the end was cut off: %" PRId64 " was followed by %" PRId64, c->at,
		                         c->next));
	else if (n == 1 && behind)
		seal_broken(c, behind, "entries at the end have no seal");
	return err;
}

static defib_err seal_walk(struct seal_check *c, int64_t *anchor_id, struct failure *f)
{
	struct seal_row *seals = NULL;
	int64_t behind = 0;
	bool more = true;
	int n = 0;
	defib_err err = read_seals(c, -1, 1, &seals, &n, f);
	if (err)
		return err;
	if (n == 0) {
		seal_broken(c, 1, "the ledger has no seals");
		return DEFIB_OK;
	}
	*anchor_id = seals[0].last_id;
	seal_take(c, &seals[0]);
	err = check_anchor(c, &seals[0], f);
	while (!err && (more || behind) && !c->report->broken) {
		err = check_page(c, behind, &more, f);
		count_tell(&c->on_count, c->report->entries);
		behind = 0;
		if (!err && !more)
			err = first_behind(c, &behind, f);
	}
	snprintf(c->report->seal, sizeof c->report->seal, "%s", c->seal);
	return err;
}

/*
 * Whether another process pruned meanwhile: then missing entries are not a loss, and we start
 * again.
 */
static defib_err was_pruned(struct seal_check *c, int64_t anchor_id, bool *pruned,
                            struct failure *f)
{
	struct seal_row *seals = NULL;
	int n = 0;
	defib_err err = read_seals(c, -1, 1, &seals, &n, f);
	*pruned = !err && n == 1 && seals[0].last_id != anchor_id;
	return err;
}

defib_err seal_verify(struct store *s, const char *expected, struct on_count on_count,
                      struct arena *a, struct seal_report *out, struct failure *f)
{
	bool there = false, again = true;
	*out = (struct seal_report){0};
	defib_err err = schema_has(s, "ledger_seal", &there, f);
	if (!err && !there) {
		*out = (struct seal_report){.broken = "the table of the seals is missing", .broken_at = 1};
		return DEFIB_OK;
	}
	while (!err && again) {
		struct seal_check c = {
			.store = s, .expected = expected, .on_count = on_count, .report = out, .keep = a};
		int64_t anchor_id = 0;
		*out = (struct seal_report){0};
		err = seal_walk(&c, &anchor_id, f);
		again = false;
		if (!err && out->broken)
			err = was_pruned(&c, anchor_id, &again, f);
		arena_release(&c.page);
	}
	if (!err && !out->broken && expected && !out->has_expected) {
		out->broken = "the saved seal is not in the chain: the chain was rebuilt or cut off before "
					  "it, or that entry was pruned";
		out->broken_at = 1;
	}
	return err;
}
