/* SPDX-License-Identifier: Apache-2.0 */
/* digest_test.c: stored digests change nothing about a report, and are used. */
#include "ledger/digest.h"

#include "ledger/digest_store.h"
#include "ledger/ledger_test.h"
#include "store/fault_test.h"

#include "base/clock.h"

#define HOUR (INT64_C(3600) * 1000000)
#define START INT64_C(1767225600000000) /* 2026-01-01 */
#define STEP (INT64_C(60) * 1000000)    /* between entries */
#define TOP 5
#define ROWS 100 /* of one statement: each as its own would take seconds */

static const char *digest_table(const struct place *p)
{
	return p->engine == STORE_POSTGRES ? "defib.digest" : "defib_digest";
}

static void on_digests(struct place *p, const char *fmt)
{
	const char *at = strstr(fmt, "%s");
	run(p, arena_printf(&p->arena, "%.*s%s%s", (int)(at - fmt), fmt, digest_table(p), at + 2));
}

/* Ids and times can be chosen, and entries removed; the table of digests brings triggers back. */
static void allow_changes(struct place *p)
{
	if (p->engine == STORE_POSTGRES) {
		run(p, "SET session_replication_role = replica");
		return;
	}
	run(p, "DROP TRIGGER IF EXISTS defib_ledger_kept");
	run(p, "DROP TRIGGER IF EXISTS defib_ledger_no_update");
}

/* A place without digests. */
static void open_empty(struct place *p, enum store_engine engine)
{
	open_place(p, engine);
	on_digests(p, "DROP TABLE IF EXISTS %s");
	allow_changes(p);
}

/* Entries a minute apart, of two watches, of all kinds that reports tell apart. */
static void add_rows(struct place *p, int first, int last)
{
	static const char *const events[] = {"REQUEUED",        "REQUEUED",        "HELD",
	                                     "RETRY_SCHEDULED", "LATE_COMPLETION", "GUARD_HELD",
	                                     "RELEASED"};
	AUTO_BUF sql = BUF_INIT;
	buf_add(&sql, on_table(p, "INSERT INTO %s (id, at, batch, watch, job, event, actor, verdict, "
	                          "rule, evidence) VALUES "));
	for (int i = first; i <= last; i++) {
		AUTO_BUF at = BUF_INIT, lost = BUF_INIT;
		time_iso(START + i * STEP, &at);
		time_iso(START + i * STEP - (i * 7919) % 100000 * 1000, &lost);
		buf_addf(&sql,
		         "%s(%d, '%s', 'b', '%s', 'job 1:%d', '%s', 'web:%d', '%s', '%s', "
		         "'{\"kind\": \"k%d\", \"owner\": \"w%d\", \"law\": \"l%d\", "
		         "\"lost_at\": \"%s\"}')",
		         i > first ? ", " : "", i, buf_text(&at), i % 4 ? "pages" : "other", i * i % 97,
		         events[i % 7], i % 3, i % 5 ? "silent" : "dead",
		         i % 11 ? "default" : "chosen-by-hand", i % 4, i % 13, i % 3, buf_text(&lost));
	}
	run(p, buf_text(&sql));
}

static void add_entries(struct place *p, int first, int last)
{
	struct failure f = {0};
	if (store_begin(p->store, TX_WRITE, &f))
		fail_msg("%s", f.what);
	for (int i = first; i <= last; i += ROWS)
		add_rows(p, i, i + ROWS - 1 < last ? i + ROWS - 1 : last);
	if (store_commit(p->store, &f))
		fail_msg("%s", f.what);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Everything that a digest says, in one order. */
static const char *said(struct place *p, const char *watch, int64_t from_us, int64_t to_us)
{
	struct failure f = {0};
	struct digest d;
	AUTO_BUF out = BUF_INIT;
	if (ledger_digest(p->store, watch, &(struct period){from_us, to_us}, TOP, &p->arena, &d, &f))
		fail_msg("%s", f.what);
	const char **lines = ARENA_ARRAY(&p->arena, const char *, d.nevents + 1);
	for (int i = 0; i < d.nevents; i++) {
		const struct digest_event *e = &d.events[i];
		lines[i] = arena_printf(&p->arena, "%d %s %s %s %d %d %lld\n", e->before, e->day, e->event,
		                        e->rule ? e->rule : "-", e->judged, e->by_hand, (long long)e->n);
	}
	qsort(lines, (size_t)d.nevents, sizeof *lines, by_text);
	for (int i = 0; i < d.nevents; i++)
		buf_add(&out, lines[i]);
	for (int by = 0; by < DIGEST_LISTS; by++)
		for (int i = 0; i < d.tops[by].n; i++) {
			const struct digest_count *c = &d.tops[by].items[i];
			buf_addf(&out, "%d: %s %s %lld\n", by, c->name, c->also ? c->also : "-",
			         (long long)c->n);
		}
	buf_addf(&out, "%lld %lld %lld\n", (long long)d.times.n, (long long)d.times.median_us,
	         (long long)d.times.worst_us);
	return arena_strdup(&p->arena, buf_text(&out));
}

static void write_digests(struct place *p, int64_t top, int most)
{
	struct failure f = {0};
	if (digest_write(p->store, top, most, &f))
		fail_msg("%s", f.what);
}

static int64_t digests(struct place *p)
{
	struct failure f = {0};
	struct store_rows rows;
	const char *sql =
		arena_printf(&p->arena, "SELECT count(*) FROM %s WHERE watch = '*'", digest_table(p));
	if (store_exec(p->store, sql, NULL, 0, &p->arena, &rows, &f))
		fail_msg("%s", f.what);
	return row_int(&rows, 0, 0, 0);
}

/* Periods that begin and end within digests, at their ends, and outside all of them. */
static const struct period periods[] = {
	{START, START + 100 * HOUR},
	{START + 20 * HOUR + 30000000, START + 31 * HOUR},
	{START + 1000 * STEP, START + 2000 * STEP},
	{START + 1000 * STEP + 1000000, START + 2001 * STEP},
	{START + 50 * HOUR, START + 58 * HOUR},
	{START - 9 * HOUR, START - HOUR},
};
#define PERIODS (int)(sizeof periods / sizeof *periods)

static void say_all(struct place *p, const char *out[2 * PERIODS])
{
	for (int i = 0; i < PERIODS; i++) {
		out[2 * i] = said(p, "pages", periods[i].from_us, periods[i].to_us);
		out[2 * i + 1] = said(p, "other", periods[i].from_us, periods[i].to_us);
	}
}

static void assert_same(const char *a[2 * PERIODS], const char *b[2 * PERIODS])
{
	for (int i = 0; i < 2 * PERIODS; i++)
		assert_string_equal(a[i], b[i]);
}

static void numbers_are_the_same_with_and_without(enum store_engine engine)
{
	const char *without[2 * PERIODS], *with[2 * PERIODS];
	struct place p;
	open_empty(&p, engine);
	add_entries(&p, 1, 3500);
	say_all(&p, without);
	assert_non_null(strstr(without[0], "REQUEUED"));
	write_digests(&p, 3500, 50);
	assert_int_equal(digests(&p), 3);
	say_all(&p, with);
	assert_same(without, with);
	close_place(&p);
}

/* Of an even number the shorter of the two in the middle. */
static void times_are_those_between_loss_and_recovery(enum store_engine engine)
{
	static const int64_t ms[] = {9000, 1250, 500, 70000};
	struct failure f = {0};
	struct digest d;
	struct place p;
	open_empty(&p, engine);
	for (int i = 0; i < 4; i++) {
		AUTO_BUF lost = BUF_INIT, at = BUF_INIT;
		time_iso(START + i * STEP, &at);
		time_iso(START + i * STEP - ms[i] * 1000, &lost);
		run(&p,
		    on_table(&p, arena_printf(
							 &p.arena,
							 "INSERT INTO %%s (id, at, batch, watch, job, event, "
							 "actor, verdict, evidence) VALUES (%d, '%s', 'b', "
							 "'pages', '%d', 'REQUEUED', 'a', 'silent', '{\"lost_at\": \"%s\"}')",
							 i + 1, buf_text(&at), i, buf_text(&lost))));
	}
	for (int stored = 0; stored < 2; stored++) {
		const struct period whole = {START - HOUR, START + HOUR};
		if (ledger_digest(p.store, "pages", &whole, TOP, &p.arena, &d, &f))
			fail_msg("%s", f.what);
		assert_int_equal(d.nevents, 1);
		assert_string_equal(d.events[0].day, "2026-01-01");
		assert_int_equal(d.events[0].n, 4);
		assert_int_equal(d.times.n, 4);
		assert_int_equal(d.times.median_us, 1250000);
		assert_int_equal(d.times.worst_us, 70000000);
		write_digests(&p, 4, 50);
	}
	close_place(&p);
}

/* Nobody else could tell: the answer changes with what is stored. */
static void stored_digests_are_read(enum store_engine engine)
{
	struct place p;
	open_empty(&p, engine);
	add_entries(&p, 1, 2100);
	write_digests(&p, 2100, 50);
	const char *before = said(&p, "pages", START, START + 100 * HOUR);
	on_digests(&p, "UPDATE %s SET times = '' WHERE last_id = 1000");
	assert_string_not_equal(before, said(&p, "pages", START, START + 100 * HOUR));
	on_digests(&p, "UPDATE %s SET form = 'of another version'");
	assert_string_equal(before, said(&p, "pages", START, START + 100 * HOUR));
	write_digests(&p, 2100, 50);
	assert_int_equal(digests(&p), 2);
	assert_string_equal(before, said(&p, "pages", START, START + 100 * HOUR));
	close_place(&p);
}

/* Whichever statement fails, of those that read stored digests and of those that read entries. */
static void a_digest_that_cannot_be_read_is_an_error(enum store_engine engine)
{
	const struct period whole = {START, START + 100 * HOUR};
	struct place p;
	open_empty(&p, engine);
	add_entries(&p, 1, 1100);
	write_digests(&p, 1100, 50);
	for (int nth = 1, fired = 1; fired; nth++) {
		struct fault_plan plan = {.call = FAULT_EXEC, .nth = nth, .code = DEFIB_BAD_SQL};
		struct fault_store *s = (struct fault_store *)fault_wrap(p.store, &plan);
		struct failure f = {0};
		struct digest d;
		defib_err err = ledger_digest(&s->base, "pages", &whole, TOP, &p.arena, &d, &f);
		fired = plan.fired;
		assert_int_equal(err, fired ? DEFIB_BAD_SQL : DEFIB_OK);
		free(s);
	}
	close_place(&p);
}

static void a_round_that_stops_early_is_continued(enum store_engine engine)
{
	const char *without[2 * PERIODS], *with[2 * PERIODS];
	struct place p;
	open_empty(&p, engine);
	add_entries(&p, 1, 900);
	write_digests(&p, 900, 50);
	add_entries(&p, 901, 3500);
	say_all(&p, without);
	for (int i = 1; i <= 3; i++) {
		write_digests(&p, 3500, 1);
		assert_int_equal(digests(&p), i);
		say_all(&p, with);
		assert_same(without, with);
	}
	close_place(&p);
}

static void pruned_entries_are_not_counted(enum store_engine engine)
{
	const char *without[2 * PERIODS], *with[2 * PERIODS];
	struct place p;
	open_empty(&p, engine);
	add_entries(&p, 1, 3500);
	write_digests(&p, 3500, 50);
	allow_changes(&p);
	run(&p, on_table(&p, "DELETE FROM %s WHERE id <= 1500"));
	say_all(&p, with);
	add_entries(&p, 3501, 4100);
	write_digests(&p, 4100, 50); /* removes what is of no use */
	assert_int_equal(digests(&p), 3);
	run(&p, on_table(&p, "DELETE FROM %s WHERE id > 3500"));
	on_digests(&p, "DELETE FROM %s");
	say_all(&p, without);
	assert_same(without, with);
	close_place(&p);
}

/* Times of a clock that was set back: ids rise, times do not. */
static void times_need_not_rise_with_ids(enum store_engine engine)
{
	const char *without[2 * PERIODS], *with[2 * PERIODS];
	struct place p;
	open_empty(&p, engine);
	add_entries(&p, 1001, 2000);
	run(&p, on_table(&p, "UPDATE %s SET id = id + 10000"));
	add_entries(&p, 1, 3000);
	run(&p, on_table(&p, "UPDATE %s SET id = id + 20000 WHERE id <= 1000"));
	say_all(&p, without);
	write_digests(&p, 21000, 50);
	assert_true(digests(&p) > 10);
	say_all(&p, with);
	assert_same(without, with);
	close_place(&p);
}

#define BEHAVIOURS(X)                                                                              \
	X(numbers_are_the_same_with_and_without)                                                       \
	X(times_are_those_between_loss_and_recovery)                                                   \
	X(stored_digests_are_read)                                                                     \
	X(a_digest_that_cannot_be_read_is_an_error)                                                    \
	X(a_round_that_stops_early_is_continued)                                                       \
	X(pruned_entries_are_not_counted)                                                              \
	X(times_need_not_rise_with_ids)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {BEHAVIOURS(ROWS_OF)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
